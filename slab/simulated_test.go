package slab

import (
	"fmt"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/batch"
)

// kernelTests are tests of the kernels for a pair of widths, which run on
// simulated GPUs: on the kernels that ship by TestKernelsSimulated, on broken
// ones by TestRandomMutants.
func kernelTests[K, V uint32 | uint64](w batch.Widths, multi bool) map[string]func(t testing.TB, dev device.Device) {
	tests := map[string]func(t testing.TB, dev device.Device){}
	for _, unordered := range []bool{false, true} {
		tests[fmt.Sprintf("beside a model,multi=%v,unordered=%v", multi, unordered)] = func(t testing.TB, dev device.Device) {
			kernelsBesideModel[K, V](t, devicetest.Narrow(dev), w, multi, unordered)
		}
	}
	return tests
}

// onSim runs tests on simulated GPUs, under a random schedule.
func onSim(t *testing.T, tests map[string]func(t testing.TB, dev device.Device)) {
	for name, test := range tests {
		for _, arch := range []int{80, 90} {
			t.Run(fmt.Sprintf("%s,sm_%d", name, arch), func(t *testing.T) {
				t.Parallel()
				dev, err := sim.Open(&sim.Options{Arch: arch, Scheduler: sim.Random, Races: true})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := dev.Close(); err != nil {
						t.Error(err)
					}
				})
				test(t, devicetest.Checked(t, dev))
			})
		}
	}
}

// Each kernel does what it should, in tables of a few buckets.
func TestKernelsSimulated(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	shapes(t, func(t *testing.T, w batch.Widths, multi bool) {
		typed(w, func() { onSim(t, kernelTests[uint32, uint32](w, multi)) }, func() { onSim(t, kernelTests[uint32, uint64](w, multi)) },
			func() { onSim(t, kernelTests[uint64, uint32](w, multi)) }, func() { onSim(t, kernelTests[uint64, uint64](w, multi)) })
	})
}
