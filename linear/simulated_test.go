package linear_test

import (
	"fmt"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/linear"
)

// A kernelTest is a test of the kernels for a pair of widths, which runs on
// simulated GPUs: on the kernels that ship by TestKernelsSimulated, on broken
// ones by TestRandomMutants.
type kernelTest struct {
	name string
	// under any schedule, or in lockstep only, for those that take long.
	any bool
	run func(t testing.TB, dev device.Device)
}

func kernelTests[K, V uint32 | uint64](set bool) (tests []kernelTest) {
	for _, o := range []linear.Options{{}, {Tombstones: linear.Reuse}, {Unordered: true}} {
		name := fmt.Sprintf("beside a model, scheme %d, unordered %v", o.Tombstones, o.Unordered)
		tests = append(tests, kernelTest{name, true, func(t testing.TB, dev device.Device) {
			linear.KernelsBesideModel[K, V](t, devicetest.Narrow(dev), set, o)
		}})
	}
	return append(tests, kernelTest{"large table", false, func(t testing.TB, dev device.Device) {
		linear.LargeTable[K, V](t, devicetest.Narrow(dev), set)
	}})
}

// onSim runs tests on simulated GPUs, under a random schedule if they may.
func onSim(t *testing.T, tests []kernelTest, archs ...int) {
	for _, test := range tests {
		for _, arch := range archs {
			opts := &sim.Options{Arch: arch}
			if test.any {
				opts.Scheduler, opts.Races = sim.Random, true
			}
			t.Run(fmt.Sprintf("%s, sm_%d", test.name, arch), func(t *testing.T) {
				t.Parallel()
				dev := devicetest.OpenSim(t, opts)
				test.run(t, dev)
			})
		}
	}
}

// Each kernel does what it should. The kernels of the architectures differ for
// slots of 16 bytes alone.
func TestKernelsSimulated(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	t.Run("uint32,uint32", func(t *testing.T) { onSim(t, kernelTests[uint32, uint32](false), 90) })
	t.Run("uint32,uint64", func(t *testing.T) { onSim(t, kernelTests[uint32, uint64](false), 80) })
	t.Run("uint64,uint32", func(t *testing.T) { onSim(t, kernelTests[uint64, uint32](false), 90) })
	t.Run("uint64,uint64", func(t *testing.T) { onSim(t, kernelTests[uint64, uint64](false), 80, 90) })
	t.Run("set uint32", func(t *testing.T) { onSim(t, kernelTests[uint32, uint32](true), 80) })
	t.Run("set uint64", func(t *testing.T) { onSim(t, kernelTests[uint64, uint64](true), 90) })
}
