package linear_test

import (
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/linear"
)

// fixedOn returns a maker of maps with a fixed size on dev.
func fixedOn(dev device.Device, opts linear.Options) conformance.FixedMaker {
	return func(t testing.TB, c conformance.FixedCase) conformance.AnyMap[uint64, uint64] {
		t.Helper()
		o := opts
		o.Capacity, o.MaxLoad, o.Seed, o.Fixed = c.Capacity, c.MaxLoad, c.Seed, true
		m, err := linear.New[uint64, uint64](dev, &o)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
}

// Every map of fixed size must take Capacity keys.
func TestFixedTakesCapacity(t *testing.T) {
	conformance.SkipRaced(t, "is about room")
	open := fixedOn(devicetest.OpenCPU(t, 2), linear.Options{})
	conformance.FixedHoldsCapacity(t, open, []float64{.5, .9, .97, 1}, 1, 2, 3, 7, 16, 40, 100, 1000, 10_000, 100_000)
	if !testing.Short() { // the largest load, and the default load
		conformance.FixedHoldsCapacity(t, open, []float64{1}, 1_000_000)
	}
}

// A full map must reject keys in a time that does not grow with the map.
func TestFixedRefusesQuickly(t *testing.T) {
	conformance.SkipRaced(t, "is about time")
	conformance.FixedRefusesQuickly(t, fixedOn(devicetest.OpenCPU(t, 2), linear.Options{}), 400, 1000, 100_000)
}

func TestFixedMeetsDeadline(t *testing.T) {
	conformance.SkipRaced(t, "is about time")
	conformance.FixedMeetsDeadline(t, fixedOn(devicetest.OpenCPU(t, 2), linear.Options{}), 1<<18, 1)
}

// A map that has become almost empty must shrink.
func TestShrinks(t *testing.T) {
	m := conformance.Open(t, linear.New[uint64, uint64], devicetest.OpenCPU(t, 2), nil)
	conformance.Shrinks(t, m, func() int { return conformance.StatsOf(t, m).Bytes })
}
