package slab

import (
	"fmt"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/mutate"
)

// kernelTests returns tests of the kernels for a pair of widths. TestKernelsSimulated runs them on
// the shipped kernels, and TestRandomMutants on broken kernels.
func kernelTests[K, V uint32 | uint64](w batch.Widths, multi bool) (tests []mutate.KernelTest) {
	for _, unordered := range []bool{false, true} {
		// These differ only in PutNew, or have the same slots as other widths.
		if multi && unordered || unordered && w.Key != w.Val && w.Val > 0 {
			continue
		}
		tests = append(tests, mutate.KernelTest{Name: fmt.Sprintf("beside a model, multi %v, unordered %v", multi, unordered), Run: func(t testing.TB, dev device.Device) {
			kernelsAgainstModel[K, V](t, devicetest.Narrow(dev), w, multi, unordered)
		}})
	}
	return tests
}

func isSim(dev device.Device) bool { return dev.Properties().Kind == device.Sim }

// TestKernelsSimulated checks each kernel with tables of few buckets. Only kernels for slots of 16
// bytes differ between the architectures.
func TestKernelsSimulated(t *testing.T) {
	shapes(t, func(t *testing.T, w batch.Widths, multi bool) {
		typed(w, func() { mutate.RunOnSim(t, kernelTests[uint32, uint32](w, multi), 1, 90) },
			func() { mutate.RunOnSim(t, kernelTests[uint32, uint64](w, multi), 1, 80) },
			func() { mutate.RunOnSim(t, kernelTests[uint64, uint32](w, multi), 1, 90) },
			func() { mutate.RunOnSim(t, kernelTests[uint64, uint64](w, multi), 1, 80, 90) })
	})
}
