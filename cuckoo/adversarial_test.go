package cuckoo

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
)

// crowding returns n keys that have the same two buckets in a table with the given geometry.
// Finding them requires the seed.
func crowding(g geometry, n int) (keys []uint64) {
	var want path
	for k := uint64(1); len(keys) < n; k++ {
		p := pathOf(g, k)
		if len(keys) == 0 {
			want = p
		}
		if p == want || p == (path{want.second, want.first}) {
			keys = append(keys, k)
		}
	}
	return keys
}

// Keys that share two buckets make a table take another seed in bounded time. All of them are
// present afterward.
func TestCrowdingKeys(t *testing.T) {
	t.Run("device", func(t *testing.T) { crowdingKeys(t, devicetest.Open(t)) })
	t.Run("simulated", func(t *testing.T) {
		if testing.Short() {
			t.Skip("interprets kernels")
		}
		crowdingKeys(t, devicetest.OpenSim(t, &sim.Options{Arch: 90}))
	})
}

func crowdingKeys(t *testing.T, dev device.Device) {
	const seed = 4711
	for _, slots := range []int{1, 2, 8} {
		for _, fixed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d slots, fixed %v", slots, fixed), func(t *testing.T) {
				m := conformance.Open(t, New[uint64, uint64], dev, &Options{Seed: seed, Slots: slots, Capacity: 300, Fixed: fixed, MaxLoad: .5})
				g := m.engine.geometry()
				keys := crowding(g, 3*slots+20)
				start := time.Now()
				n, err := m.Put(t.Context(), keys, keys)
				if n != len(keys) || err != nil {
					t.Fatalf("Put of %d keys of two buckets: %d, %v", len(keys), n, err)
				}
				conformance.WantPairs(t, m, keys)
				if now := m.engine.geometry(); now.seed == g.seed {
					t.Errorf("the seed is the same: %+v", now)
				}
				if took := time.Since(start); took > 20*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		}
	}
}

// A full fixed table reports that it is full, whatever the new keys are, and keeps its keys.
func TestFixedTableIsFull(t *testing.T) {
	dev := devicetest.Open(t)
	for _, slots := range []int{1, 2, 4, 8, 16} {
		for _, policy := range []Policy{FirstFit, LoadBalancing} {
			const capacity = 1000
			m := conformance.Open(t, New[uint64, uint64], dev, &Options{Slots: slots, Policy: policy, Capacity: capacity, Fixed: true})
			conformance.FixedIsFull(t, m, capacity, conformance.StatsOf(t, m).Slots, 80)
		}
	}
}

// loadSeeds is the number of tables to fill.
var loadSeeds = flag.Int("load-seeds", 25, "tables of eight slots that are filled to the load they should reach")

// With eight slots, tables with many seeds (100 were tried) reach a load of 0.95 without another
// seed.
func TestLoadIsReached(t *testing.T) {
	conformance.SkipRaced(t, "what is measured is where keys are")
	dev := devicetest.Open(t)
	const n, load = 30_000, .95
	keys := conformance.Sequence[uint32](1, n)
	for seed := range uint64(*loadSeeds) {
		for _, policy := range []Policy{FirstFit, LoadBalancing} {
			m, err := New[uint32, uint32](dev, &Options{Capacity: n, MaxLoad: load, Fixed: true, Seed: seed + 1, Policy: policy})
			if err != nil {
				t.Fatal(err)
			}
			got, err := m.Put(t.Context(), keys, keys)
			s := conformance.StatsOf(t, m)
			if got != n || err != nil || s.Load < load-.001 || m.engine.geometry().seed != seed+1 {
				t.Errorf("seed %d: %d of %d keys: %v: %v", seed, got, n, s, err)
			}
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A full fixed table on a GPU also reports that it is full. It moves no keys for those beyond
// Capacity.
func TestFixedTableIsFullOnGPU(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	const capacity = 200
	m := conformance.Open(t, New[uint64, uint64], devicetest.OpenSim(t, nil), &Options{Capacity: capacity, Fixed: true, Seed: 1})
	conformance.FixedIsFull(t, m, capacity, conformance.StatsOf(t, m).Slots, 80)
}
