package linear_test

import (
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/linear"
)

// TestSmoke runs every operation once for every pair of widths, at low and at high load. Tables
// grow or are rehashed in place, and are smaller or larger than the cache.
func TestSmoke(t *testing.T) { smokeAll(t, devicetest.Open(t)) }

func smokeAll(t *testing.T, dev device.Device) {
	for name, on := range map[string]struct {
		device.Device
		linear.Options
	}{
		"keep":   {dev, linear.Options{MaxLoad: .95}},
		"beyond": {devicetest.Narrow(dev), linear.Options{MaxLoad: .95}},
		"reuse":  {dev, linear.Options{MaxLoad: .95, Tombstones: linear.Reuse}},
		"fixed":  {dev, linear.Options{MaxLoad: .95, Capacity: conformance.SmokeKeys, Fixed: true}},
	} {
		if name == "beyond" && dev.Properties().Kind == device.CPU {
			continue
		}
		t.Run(name, func(t *testing.T) {
			conformance.SmokeWidths(t, on.Device, &on.Options, smoke[uint32, uint32], smoke[uint32, uint64], smoke[uint64, uint32], smoke[uint64, uint64],
				smokeSet[uint32], smokeSet[uint64])
		})
	}
}

func smoke[K, V ~uint32 | ~uint64](t testing.TB, dev device.Device, opts *linear.Options) {
	m := conformance.Open(t, linear.New[K, V], dev, opts)
	many := make([]K, linear.SpreadKeys+1) // too many keys for a tile per key
	if hits, err := m.Get(t.Context(), many, make([]V, len(many)), nil); hits != 0 || err != nil {
		t.Errorf("Get of an empty table: %d, %v", hits, err)
	}
	conformance.SmokeStats(t, dev, m, func(s linear.Stats) bool { return s.Len == conformance.SmokeKeys && s.MaxProbe > 0 })
}

func smokeSet[K ~uint32 | ~uint64](t testing.TB, dev device.Device, opts *linear.Options) {
	set := conformance.Open(t, linear.NewSet[K], dev, opts)
	conformance.SmokeSet(t, dev, set)
	most := 0
	if opts.Fixed {
		most = 3 // a rehash in place does not drop dead slots of the extra line
	}
	if s := conformance.StatsOf(t, set); s.Len != conformance.SmokeKeys/2 || s.Tombstones > most {
		t.Errorf("Stats: %v", s)
	}
	many := make([]K, linear.SpreadKeys+1)
	if n, err := set.Contains(t.Context(), many, make([]bool, len(many))); n%len(many) != 0 || err != nil {
		t.Errorf("Contains of one key, many times: %d, %v", n, err)
	}
}

// TestSmoke must launch every kernel.
func TestSmokeLaunchesEveryKernel(t *testing.T) {
	conformance.LaunchesAll(t, smokeAll, linear.Images, linear.MixedImages)
}
