package slab_test

import (
	"errors"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/slab"
)

// Every operation once for every pair of widths.
func TestSmoke(t *testing.T) { smokeAll(t, devicetest.Open(t)) }

func smokeAll(t *testing.T, dev device.Device) {
	t.Run("uint32,uint32", func(t *testing.T) { smoke[uint32, uint32](t, dev) })
	t.Run("uint32,uint64", func(t *testing.T) { smoke[uint32, uint64](t, dev) })
	t.Run("uint64,uint32", func(t *testing.T) { smoke[uint64, uint32](t, dev) })
	t.Run("uint64,uint64", func(t *testing.T) { smoke[uint64, uint64](t, dev) })
	t.Run("multimap uint32,uint32", func(t *testing.T) { smokeMulti[uint32, uint32](t, dev) })
	t.Run("multimap uint32,uint64", func(t *testing.T) { smokeMulti[uint32, uint64](t, dev) })
	t.Run("multimap uint64,uint32", func(t *testing.T) { smokeMulti[uint64, uint32](t, dev) })
	t.Run("multimap uint64,uint64", func(t *testing.T) { smokeMulti[uint64, uint64](t, dev) })
	t.Run("set uint32", func(t *testing.T) { smokeSet[uint32](t, dev) })
	t.Run("set uint64", func(t *testing.T) { smokeSet[uint64](t, dev) })
}

func smoke[K, V ~uint32 | ~uint64](t *testing.T, dev device.Device) {
	m := conformance.Open(t, slab.New[K, V], dev, nil)
	conformance.SmokeMap(t, dev, m, func() {
		if s := conformance.StatsOf(t, m); s.Len != conformance.SmokeKeys || s.MaxChain == 0 || s.String() == "" {
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

func smokeMulti[K, V ~uint32 | ~uint64](t *testing.T, dev device.Device) {
	m := conformance.Open(t, slab.NewMultiMap[K, V], dev, nil)
	conformance.SmokeMultiMap(t, dev, m, func() {
		if s := conformance.StatsOf(t, m); s.Len != m.Len() || s.Tombstones != 0 {
			t.Errorf("Stats: %v", s)
		}
	})
}

func smokeSet[K ~uint32 | ~uint64](t *testing.T, dev device.Device) {
	set := conformance.Open(t, slab.NewSet[K], dev, nil)
	conformance.SmokeSet(t, dev, set)
	if s := conformance.StatsOf(t, set); s.Len != conformance.SmokeKeys/2 || s.Tombstones != 0 {
		t.Errorf("Stats: %v", s)
	}
}

// Those who look at TestSmoke see every kernel.
func TestSmokeLaunchesEveryKernel(t *testing.T) {
	conformance.NotRaced(t, "interprets kernels")
	l := devicetest.NewLaunches(devicetest.OpenSim(t, nil))
	smokeAll(t, l)
	l.AllLaunched(t, slab.Images)
	l.AllLaunched(t, slab.MixedImages)
}
