package slab_test

import (
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/slab"
)

// TestSmoke runs every operation once for every pair of widths.
func TestSmoke(t *testing.T) { smokeAll(t, devicetest.Open(t)) }

func smokeAll(t *testing.T, dev device.Device) {
	conformance.SmokeWidths(t, dev, (*slab.Options)(nil), smoke[uint32, uint32], smoke[uint32, uint64], smoke[uint64, uint32], smoke[uint64, uint64],
		smokeSet[uint32], smokeSet[uint64])
	t.Run("multimap uint32,uint32", func(t *testing.T) { smokeMulti[uint32, uint32](t, dev) })
	t.Run("multimap uint32,uint64", func(t *testing.T) { smokeMulti[uint32, uint64](t, dev) })
	t.Run("multimap uint64,uint32", func(t *testing.T) { smokeMulti[uint64, uint32](t, dev) })
	t.Run("multimap uint64,uint64", func(t *testing.T) { smokeMulti[uint64, uint64](t, dev) })
}

func smoke[K, V ~uint32 | ~uint64](t testing.TB, dev device.Device, opts *slab.Options) {
	conformance.SmokeStats(t, dev, conformance.Open(t, slab.New[K, V], dev, opts), func(s slab.Stats) bool {
		return s.Len == conformance.SmokeKeys && s.MaxChain > 0 && s.String() != ""
	})
}

func smokeMulti[K, V ~uint32 | ~uint64](t *testing.T, dev device.Device) {
	m := conformance.Open(t, slab.NewMultiMap[K, V], dev, nil)
	conformance.SmokeMultiMap(t, dev, m, func() {
		if s := conformance.StatsOf(t, m); s.Len != m.Len() || s.Tombstones != 0 {
			t.Errorf("Stats: %v", s)
		}
	})
}

func smokeSet[K ~uint32 | ~uint64](t testing.TB, dev device.Device, opts *slab.Options) {
	set := conformance.Open(t, slab.NewSet[K], dev, opts)
	conformance.SmokeSet(t, dev, set)
	if s := conformance.StatsOf(t, set); s.Len != conformance.SmokeKeys/2 || s.Tombstones != 0 {
		t.Errorf("Stats: %v", s)
	}
}

// TestSmokeLaunchesEveryKernel checks that TestSmoke covers every kernel.
func TestSmokeLaunchesEveryKernel(t *testing.T) {
	conformance.LaunchesAll(t, smokeAll, slab.Images, slab.MixedImages)
}
