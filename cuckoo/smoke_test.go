package cuckoo_test

import (
	"testing"

	"github.com/weftgo/weft/cuckoo"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
)

// TestSmoke runs every operation once for every pair of widths, at low and at high load, with
// buckets of all sizes, both policies and both ways to look up.
func TestSmoke(t *testing.T) { smokeAll(t, devicetest.Open(t)) }

func smokeAll(t *testing.T, dev device.Device) {
	for name, opts := range map[string]*cuckoo.Options{
		"roomy":     {Slots: 4, Capacity: 4 * conformance.SmokeKeys},
		"one slot":  {Slots: 1, Lookup: cuckoo.AllBuckets},
		"full":      {MaxLoad: .95, Capacity: conformance.SmokeKeys},
		"balancing": {MaxLoad: .95, Slots: 8, Policy: cuckoo.LoadBalancing},
		"balanced":  {MaxLoad: .9, Slots: 4, Policy: cuckoo.LoadBalancing},
		"fixed":     {MaxLoad: .95, Slots: 16, Capacity: conformance.SmokeKeys, Fixed: true},
	} {
		t.Run(name, func(t *testing.T) {
			conformance.SmokeWidths(t, dev, opts, smoke[uint32, uint32], smoke[uint32, uint64], smoke[uint64, uint32], smoke[uint64, uint64],
				smokeSet[uint32], smokeSet[uint64])
		})
	}
}

func smoke[K, V ~uint32 | ~uint64](t testing.TB, dev device.Device, opts *cuckoo.Options) {
	conformance.SmokeStats(t, dev, conformance.Open(t, cuckoo.New[K, V], dev, opts), func(s cuckoo.Stats) bool {
		return s.Len == conformance.SmokeKeys && s.PerHit >= 1 && s.PerMiss >= 1
	})
}

func smokeSet[K ~uint32 | ~uint64](t testing.TB, dev device.Device, opts *cuckoo.Options) {
	set := conformance.Open(t, cuckoo.NewSet[K], dev, opts)
	conformance.SmokeSet(t, dev, set)
	if s := conformance.StatsOf(t, set); s.Len != conformance.SmokeKeys/2 {
		t.Errorf("Stats: %v", s)
	}
}

// TestSmoke launches every kernel.
func TestSmokeLaunchesEveryKernel(t *testing.T) {
	conformance.LaunchesAll(t, smokeAll, cuckoo.Images, cuckoo.MixedImages)
}
