package linear_test

import (
	"fmt"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/linear"
)

// kernelTests are tests of the kernels for a pair of widths, which run on
// simulated GPUs: on the kernels that ship by TestKernelsSimulated, on broken
// ones by TestRandomMutants.
func kernelTests[K, V uint32 | uint64](set bool) map[string]func(t testing.TB, dev device.Device) {
	tests := map[string]func(t testing.TB, dev device.Device){}
	for _, o := range []linear.Options{{}, {Tombstones: linear.Reuse}, {Unordered: true}} {
		name := fmt.Sprintf("beside a model,unordered=%v,scheme=%d", o.Unordered, o.Tombstones)
		tests[name] = func(t testing.TB, dev device.Device) {
			linear.KernelsBesideModel[K, V](t, devicetest.Narrow(dev), set, o)
		}
	}
	return tests
}

// onSim runs tests on simulated GPUs, under a random schedule.
func onSim(t *testing.T, tests map[string]func(t testing.TB, dev device.Device)) {
	for name, test := range tests {
		for _, opts := range []sim.Options{{Arch: 80, Scheduler: sim.Random, Races: true}, {Arch: 90, Scheduler: sim.Random, Races: true}} {
			t.Run(fmt.Sprintf("%s,sm_%d", name, opts.Arch), func(t *testing.T) {
				t.Parallel()
				dev, err := sim.Open(&opts)
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

// Each kernel does what it should, in tables of a few lines.
func TestKernelsSimulated(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	t.Run("uint32,uint32", func(t *testing.T) { onSim(t, kernelTests[uint32, uint32](false)) })
	t.Run("uint32,uint64", func(t *testing.T) { onSim(t, kernelTests[uint32, uint64](false)) })
	t.Run("uint64,uint32", func(t *testing.T) { onSim(t, kernelTests[uint64, uint32](false)) })
	t.Run("uint64,uint64", func(t *testing.T) { onSim(t, kernelTests[uint64, uint64](false)) })
	t.Run("set uint32", func(t *testing.T) { onSim(t, kernelTests[uint32, uint32](true)) })
	t.Run("set uint64", func(t *testing.T) { onSim(t, kernelTests[uint64, uint64](true)) })
}
