package alloc

import (
	"testing"
	"unsafe"

	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/gpu"
)

// TestConstantsAreTwins checks that the constants of the kernels equal those of Go.
func TestConstantsAreTwins(t *testing.T) {
	conformance.CompareConstants(t, map[string]map[string]int{
		"alloc.cu":                          {"kBlock": gpu.BlockThreads},
		"../kernels/include/weft/alloc.cuh": {"kBitmapBytes": bitmapBytes, "kUnits": blockUnits, "kSupers": maxSupers, "kHashed": hashedTries},
	})
}

// TestAddresses checks the three parts of an address, and that Local finds a unit where the layout
// says: bitmaps first, then units.
func TestAddresses(t *testing.T) {
	a := newOwner(t, devicetest.OpenCPU(t, 1), &Options{Blocks: 3, SuperBlocks: 2})
	l := a.Local()
	for _, at := range []struct{ super, block, unit int }{{0, 0, 0}, {0, 0, 1023}, {0, 2, 5}, {1, 0, 0}, {1, 2, 1023}} {
		address := uint32(at.super)<<24 | uint32(at.block)<<10 | uint32(at.unit)
		offset := 3*128 + (at.block*1024+at.unit)*128
		super := a.pool.buffers[at.super]
		if p, err := a.Ptr(address); int(p-super.Ptr) != offset || err != nil {
			t.Errorf("unit %+v lies at %d of its super block, want %d: %v", at, p-super.Ptr, offset, err)
		}
		if got := l.At(address); got != unsafe.Pointer(&super.Host[offset]) {
			t.Errorf("Local finds unit %+v at %p", at, got)
		}
	}
}
