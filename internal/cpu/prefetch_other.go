//go:build !amd64 && !arm64

package cpu

import (
	"runtime"
	"unsafe"
)

func prefetch(at *unsafe.Pointer, n int) {
	var warm byte
	for _, p := range unsafe.Slice(at, n) {
		warm ^= *(*byte)(p)
	}
	runtime.KeepAlive(warm)
}

func prefetchPairs(at *unsafe.Pointer, n int) {
	var warm byte
	for _, p := range unsafe.Slice(at, n) {
		warm ^= *(*byte)(p) ^ *(*byte)(unsafe.Add(p, 64))
	}
	runtime.KeepAlive(warm)
}
