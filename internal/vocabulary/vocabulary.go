// Package vocabulary has kernels that use every word of
// kernels/include/weft/warp.cuh, and floating-point numbers as the kernels of
// users do, so that its tests can show on every device that each does what it
// says.
package vocabulary

import (
	"structs"

	"github.com/weftgo/weft/device"
)

//go:generate go run ../kernelgen -target 80+ptx83,90+ptx83 vocabulary.cu

// wordsParams is the twin of WordsParams in vocabulary.cu.
type wordsParams struct {
	_      structs.HostLayout
	in     device.Ptr
	cells  device.Ptr
	out    device.Ptr
	n      uint32
	unused uint32
}

// floatParams is the twin of FloatParams in vocabulary.cu.
type floatParams struct {
	_       structs.HostLayout
	in      device.Ptr
	whole   device.Ptr
	out     device.Ptr
	sum     device.Ptr
	holds   device.Ptr
	rounded device.Ptr
	n       uint32
	unused  uint32
}
