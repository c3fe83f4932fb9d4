package linear_test

import (
	"fmt"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/mutate"
	"github.com/weftgo/weft/linear"
)

// kernelTests returns tests of the kernels for one pair of widths. TestKernelsSimulated runs them
// on the released kernels, TestRandomMutants on broken kernels.
func kernelTests[K, V uint32 | uint64](set bool) (tests []mutate.KernelTest) {
	for _, o := range []linear.Options{{}, {Tombstones: linear.Reuse}, {Unordered: true}} {
		name := fmt.Sprintf("beside a model, scheme %d, unordered %v", o.Tombstones, o.Unordered)
		tests = append(tests, mutate.KernelTest{Name: name, Run: func(t testing.TB, dev device.Device) {
			linear.KernelsAgainstModel[K, V](t, devicetest.Narrow(dev), set, o)
		}})
	}
	tests = append(tests, mutate.KernelTest{Name: "beside a model, in cache", Run: func(t testing.TB, dev device.Device) {
		linear.KernelsAgainstModel[K, V](t, dev, set, linear.Options{})
	}})
	return append(tests, mutate.KernelTest{Name: "large table", Long: true, Run: func(t testing.TB, dev device.Device) {
		linear.LargeTable[K, V](t, devicetest.Narrow(dev), set)
	}})
}

// Each kernel must pass its tests. The kernels for both architectures differ only for slots of 16
// bytes.
func TestKernelsSimulated(t *testing.T) {
	const first = 2 // tests with both schemes; the others depend only on the slot width
	t.Run("uint32,uint32", func(t *testing.T) { mutate.RunOnSim(t, kernelTests[uint32, uint32](false), 1, 90) })
	t.Run("uint32,uint64", func(t *testing.T) { mutate.RunOnSim(t, kernelTests[uint32, uint64](false)[:first], 1, 80) })
	t.Run("uint64,uint32", func(t *testing.T) { mutate.RunOnSim(t, kernelTests[uint64, uint32](false)[:first], 1, 90) })
	t.Run("uint64,uint64", func(t *testing.T) { mutate.RunOnSim(t, kernelTests[uint64, uint64](false), 1, 80, 90) })
	t.Run("set uint32", func(t *testing.T) { mutate.RunOnSim(t, kernelTests[uint32, uint32](true), 1, 80) })
	t.Run("set uint64", func(t *testing.T) { mutate.RunOnSim(t, kernelTests[uint64, uint64](true), 1, 90) })
}
