package horton_test

import (
	"errors"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/horton"
	"github.com/weftgo/weft/internal/conformance"
)

// Every operation once for every pair of widths, at low and at high load, with buckets of
// all sizes, and all ways to reclaim.
func TestSmoke(t *testing.T) { smokeAll(t, devicetest.Open(t)) }

func smokeAll(t *testing.T, dev device.Device) {
	for name, opts := range map[string]*horton.Options{
		"roomy":     {Capacity: 4 * conformance.SmokeKeys},
		"two slots": {Slots: 2, Reclaim: horton.Eager},
		"full":      {MaxLoad: .94, Slots: 8, Reclaim: horton.Eager},
		"fixed":     {MaxLoad: .95, Slots: 16, Capacity: conformance.SmokeKeys, Fixed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Run("uint32,uint32", func(t *testing.T) { smoke[uint32, uint32](t, dev, opts) })
			t.Run("uint32,uint64", func(t *testing.T) { smoke[uint32, uint64](t, dev, opts) })
			t.Run("uint64,uint32", func(t *testing.T) { smoke[uint64, uint32](t, dev, opts) })
			t.Run("uint64,uint64", func(t *testing.T) { smoke[uint64, uint64](t, dev, opts) })
			t.Run("set uint32", func(t *testing.T) { smokeSet[uint32](t, dev, opts) })
			t.Run("set uint64", func(t *testing.T) { smokeSet[uint64](t, dev, opts) })
		})
	}
}

func smoke[K, V ~uint32 | ~uint64](t *testing.T, dev device.Device, opts *horton.Options) {
	m := conformance.Open(t, horton.New[K, V], dev, opts)
	conformance.SmokeMap(t, dev, m, func() {
		if s := conformance.StatsOf(t, m); s.Len != conformance.SmokeKeys || s.PerHit < 1 || s.PerMiss < 1 {
			t.Errorf("Stats: %v", s)
		}
	})
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if _, err := m.Stats(t.Context()); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("Stats after Close: %v", err)
	}
}

func smokeSet[K ~uint32 | ~uint64](t *testing.T, dev device.Device, opts *horton.Options) {
	set := conformance.Open(t, horton.NewSet[K], dev, opts)
	conformance.SmokeSet(t, dev, set)
	if s := conformance.StatsOf(t, set); s.Len != conformance.SmokeKeys/2 {
		t.Errorf("Stats: %v", s)
	}
}

// Those who look at TestSmoke see every kernel.
func TestSmokeLaunchesEveryKernel(t *testing.T) {
	conformance.NotRaced(t, "interprets kernels")
	l := devicetest.NewLaunches(devicetest.OpenSim(t, nil))
	smokeAll(t, l)
	l.AllLaunched(t, horton.Images)
	l.AllLaunched(t, horton.MixedImages)
}
