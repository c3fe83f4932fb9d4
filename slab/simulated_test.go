package slab

import (
	"fmt"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/mutate"
)

// kernelTests are tests of the kernels for a pair of widths: run by
// TestKernelsSimulated on those that ship, by TestRandomMutants on broken ones.
func kernelTests[K, V uint32 | uint64](w batch.Widths, multi bool) (tests []mutate.KernelTest) {
	for _, unordered := range []bool{false, true} {
		if multi && unordered || unordered && w.Key != w.Val && w.Val > 0 { // the same, but for PutNew; and the slots of others
			continue
		}
		tests = append(tests, mutate.KernelTest{Name: fmt.Sprintf("beside a model, multi %v, unordered %v", multi, unordered), Run: func(t testing.TB, dev device.Device) {
			kernelsBesideModel[K, V](t, devicetest.Narrow(dev), w, multi, unordered)
		}})
	}
	return tests
}

// isSim tells whether a device interprets kernels.
func isSim(dev device.Device) bool { return dev.Properties().Kind == device.Sim }

// Each kernel does what it should, in tables of a few buckets. The kernels of
// the architectures differ for slots of 16 bytes alone.
func TestKernelsSimulated(t *testing.T) {
	shapes(t, func(t *testing.T, w batch.Widths, multi bool) {
		typed(w, func() { mutate.OnSim(t, kernelTests[uint32, uint32](w, multi), 1, 90) },
			func() { mutate.OnSim(t, kernelTests[uint32, uint64](w, multi), 1, 80) },
			func() { mutate.OnSim(t, kernelTests[uint64, uint32](w, multi), 1, 90) },
			func() { mutate.OnSim(t, kernelTests[uint64, uint64](w, multi), 1, 80, 90) })
	})
}
