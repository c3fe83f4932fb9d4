package slab_test

import (
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/slab"
)

// fixedOn makes maps of fixed size on a device.
func fixedOn(dev device.Device, opts slab.Options) conformance.FixedMaker {
	return func(t testing.TB, c conformance.FixedCase) conformance.AnyMap[uint64, uint64] {
		t.Helper()
		o := opts
		o.Capacity, o.MaxLoad, o.Seed, o.Fixed = c.Capacity, c.MaxLoad, c.Seed, true
		m, err := slab.New[uint64, uint64](dev, &o)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
}

// TestFixedTakesCapacity checks that a fixed map stores Capacity keys.
func TestFixedTakesCapacity(t *testing.T) {
	conformance.SkipRaced(t, "is about room")
	open := fixedOn(devicetest.OpenCPU(t, 2), slab.Options{})
	conformance.FixedHoldsCapacity(t, open, []float64{.3, .8}, 1, 2, 3, 7, 16, 40, 100, 1000, 10_000, 100_000)
	if !testing.Short() { // default options, and the minimum of spare capacity
		conformance.FixedHoldsCapacity(t, open, []float64{.8}, 1_000_000)
	}
}

// TestFixedRefusesQuickly checks that the time to refuse a key does not grow with a full map.
func TestFixedRefusesQuickly(t *testing.T) {
	conformance.SkipRaced(t, "is about time")
	conformance.FixedRefusesQuickly(t, fixedOn(devicetest.OpenCPU(t, 2), slab.Options{}), 200, 1000, 100_000)
}

func TestFixedMeetsDeadline(t *testing.T) {
	conformance.SkipRaced(t, "is about time")
	conformance.FixedMeetsDeadline(t, fixedOn(devicetest.OpenCPU(t, 2), slab.Options{}), 1<<18, .8)
}
