package slab_test

import (
	"fmt"
	"testing"

	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/slab"
)

// TestReduceGathers checks that blocks combine rows of few keys before they access the table: by
// atomics and, for floats, by compare-and-swap. They must do so for mixed batches, too.
func TestReduceGathers(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	small := &slab.Options{Capacity: 100, Fixed: true}
	for _, arch := range []int{80, 90} {
		t.Run(fmt.Sprintf("sm_%d", arch), func(t *testing.T) {
			t.Parallel()
			dev := devicetest.OpenSim(t, &sim.Options{Arch: arch})
			conformance.GatherFewKeys(t, dev, conformance.MapOf(slab.New[uint32, uint64], nil))
			if arch == 90 { // TestSameKernels covers this
				conformance.GatherFewKeys(t, dev, conformance.MapOf(slab.New[uint32, int32], nil))
				conformance.GatherFewKeys(t, dev, conformance.MapOf(slab.New[uint32, float32], nil))
				conformance.CombineFewKeys(t, dev, conformance.MapOf(slab.New[uint32, float32], nil))
			}
			conformance.CombineFewKeys(t, dev, conformance.MapOf(slab.New[uint32, int64], nil))
			conformance.GatherWhenFull(t, dev, conformance.MapOf(slab.New[uint32, float64], small))
		})
	}
}
