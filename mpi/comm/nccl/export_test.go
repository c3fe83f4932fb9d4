package nccl

import "github.com/weftgo/weft/device"

// UseStub has the package open a library as both NCCL and the CUDA driver, and take memory of devices of
// package device/cpu as memory of a GPU.
func UseStub(library string) (restore func()) {
	cuda, kind, bytes := cudaLibrary, gpuKind, maxBytes
	cudaLibrary, gpuKind = library, device.CPU
	return func() { cudaLibrary, gpuKind, maxBytes = cuda, kind, bytes }
}

// SetMaxBytes sets the bound of a round, so that small exchanges take several.
func SetMaxBytes(n int) { maxBytes = n }
