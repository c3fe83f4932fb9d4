package slab

import (
	"fmt"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/batch"
)

// A kernelTest is a test of kernels that runs on simulated GPUs: on the kernels
// that ship by TestKernelsSimulated, on broken ones by TestRandomMutants.
type kernelTest struct {
	name string
	run  func(t testing.TB, dev device.Device)
}

// kernelTests are those of the kernels for a pair of widths.
func kernelTests[K, V uint32 | uint64](w batch.Widths, multi bool) (tests []kernelTest) {
	for _, unordered := range []bool{false, true} {
		if multi && unordered { // the same, but for PutNew
			continue
		}
		tests = append(tests, kernelTest{fmt.Sprintf("beside a model, multi %v, unordered %v", multi, unordered), func(t testing.TB, dev device.Device) {
			kernelsBesideModel[K, V](t, devicetest.Narrow(dev), w, multi, unordered)
		}})
	}
	return tests
}

// onSim runs tests on simulated GPUs, under random schedules of so many seeds.
func onSim(t *testing.T, archs []int, seeds int, tests []kernelTest) {
	for _, test := range tests {
		for i := range len(archs) * seeds {
			opts := &sim.Options{Arch: archs[i%len(archs)], Scheduler: sim.Random, Seed: uint64(i / len(archs)), Races: true}
			t.Run(fmt.Sprintf("%s, sm_%d, seed %d", test.name, opts.Arch, opts.Seed), func(t *testing.T) {
				t.Parallel()
				test.run(t, devicetest.OpenSim(t, opts))
			})
		}
	}
}

// isSim tells whether a device interprets kernels.
func isSim(dev device.Device) bool { return dev.Properties().Kind == device.Sim }

// Each kernel does what it should, in tables of a few buckets. The kernels of
// the architectures differ for slots of 16 bytes alone.
func TestKernelsSimulated(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	shapes(t, func(t *testing.T, w batch.Widths, multi bool) {
		typed(w, func() { onSim(t, []int{90}, 1, kernelTests[uint32, uint32](w, multi)) },
			func() { onSim(t, []int{80}, 1, kernelTests[uint32, uint64](w, multi)) },
			func() { onSim(t, []int{90}, 1, kernelTests[uint64, uint32](w, multi)) },
			func() { onSim(t, []int{80, 90}, 1, kernelTests[uint64, uint64](w, multi)) })
	})
}
