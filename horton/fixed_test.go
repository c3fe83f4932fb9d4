package horton_test

import (
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/horton"
	"github.com/weftgo/weft/internal/conformance"
)

// fixedOn makes maps of fixed size on a device.
func fixedOn(dev device.Device, opts horton.Options) conformance.FixedMaker {
	return func(t testing.TB, c conformance.FixedCase) conformance.AnyMap[uint64, uint64] {
		t.Helper()
		o := opts
		o.Capacity, o.MaxLoad, o.Seed, o.Fixed = c.Capacity, c.MaxLoad, c.Seed, true
		m, err := horton.New[uint64, uint64](dev, &o)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
}

// Every fixed map takes Capacity keys.
func TestFixedTakesCapacity(t *testing.T) {
	conformance.SkipRaced(t, "is about room")
	open := fixedOn(devicetest.OpenCPU(t, 2), horton.Options{})
	conformance.FixedHoldsCapacity(t, open, []float64{.5, .95, 1}, 1, 2, 3, 7, 16, 40, 100, 1000, 10_000, 100_000)
	if !testing.Short() { // with the least spare capacity, and by default
		conformance.FixedHoldsCapacity(t, open, []float64{1}, 1_000_000)
	}
}

// A full map refuses keys quickly: the search for a slot does not grow with the map.
func TestFixedRefusesQuickly(t *testing.T) {
	conformance.SkipRaced(t, "is about time")
	conformance.FixedRefusesQuickly(t, fixedOn(devicetest.OpenCPU(t, 2), horton.Options{}), 300, 1000, 100_000)
}

func TestFixedMeetsDeadline(t *testing.T) {
	conformance.SkipRaced(t, "is about time")
	conformance.FixedMeetsDeadline(t, fixedOn(devicetest.OpenCPU(t, 2), horton.Options{}), 1<<18, 1)
}

// A map that has become almost empty shrinks.
func TestShrinks(t *testing.T) {
	m := conformance.Open(t, horton.New[uint64, uint64], devicetest.OpenCPU(t, 2), nil)
	conformance.Shrinks(t, m, func() int { return conformance.StatsOf(t, m).Bytes })
}
