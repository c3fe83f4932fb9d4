package horton_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/horton"
	"github.com/weftgo/weft/internal/conformance"
)

// A table is saved on one device and loaded on another, and back. Both devices compute the same
// buckets, so each finds the keys that the other has stored.
func TestTablesMoveBetweenDevices(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	host, simulated := devicetest.OpenCPU(t, 2), devicetest.OpenSim(t, &sim.Options{Arch: 90})
	for _, slots := range []int{1, 4, 8} {
		open := conformance.MapOf(horton.New[uint32, uint32], &horton.Options{Capacity: 900, Slots: slots, Seed: 5})
		conformance.SaveAcrossDevices(t, open, conformance.Sequence[uint32](-10, 900), host, simulated)
	}
}

// Kernels reach the same load as a CPU and read about as many buckets. They take the first free
// slot, while a CPU takes the best. So a few more buckets are promoted, and a table may take
// another seed.
func TestLoadIsReachedOnGPU(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, c := range []struct {
		slots int
		load  float64
	}{{8, .95}, {4, .9}} {
		for seed := range uint64(2) {
			t.Run(fmt.Sprintf("%d slots, seed %d", c.slots, seed), func(t *testing.T) {
				t.Parallel()
				on, _ := filled(t, devicetest.OpenSim(t, &sim.Options{Arch: 90}), c.slots, c.load, seed+1)
				host, there := filled(t, devicetest.OpenCPU(t, 2), c.slots, c.load, seed+1)
				near := func(a, b, within float64) bool { return a > b-within && a < b+within }
				if !there || on.Len != host.Len || on.Slots != host.Slots || on.Tombstones != host.Tombstones ||
					!near(on.TypeB, host.TypeB, .06) || !near(on.PerHit, host.PerHit, .03) || !near(on.PerMiss, host.PerMiss, .02) {
					t.Errorf("a GPU has %v\na CPU has %v", on, host)
				}
			})
		}
	}
}

// filled fills a table of 1<<12 slots to a load. It returns the statistics, and whether all keys
// found slots without another seed.
func filled(t *testing.T, dev device.Device, slots int, load float64, seed uint64) (horton.Stats, bool) {
	n := int(load * (1 << 12))
	m := conformance.Open(t, horton.New[uint32, uint32], dev, horton.Crowded(horton.Options{Capacity: n, MaxLoad: load, Fixed: true, Slots: slots, Seed: seed}))
	keys := conformance.Sequence[uint32](1, n)
	before := m.SecondariesOf(keys[0])
	if _, err := m.Put(t.Context(), keys, keys); err != nil {
		t.Fatal(err)
	}
	conformance.WantPairs(t, m, keys)
	return conformance.StatsOf(t, m), fmt.Sprint(before) == fmt.Sprint(m.SecondariesOf(keys[0]))
}

// Kernels reclaim after each batch of deletes, or after enough deletes. They do not reclaim during
// an iteration, which sees every key once.
func TestReclaimOnGPU(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for seed, reclaim := range []horton.Reclaim{horton.Eager, horton.Lazy, horton.Never} {
		t.Run(fmt.Sprint(reclaim), func(t *testing.T) {
			t.Parallel()
			reclaims(t, devicetest.OpenSim(t, &sim.Options{Arch: 90, Scheduler: sim.Random, Seed: uint64(seed), Races: true}), reclaim)
		})
	}
}

func reclaims(t *testing.T, dev device.Device, reclaim horton.Reclaim) {
	const slots, n, stay = 512, 480, 400
	m := conformance.Open(t, horton.New[uint32, uint32], dev, horton.Crowded(horton.Options{Capacity: slots, MaxLoad: 1, Fixed: true, Seed: 3, Reclaim: reclaim}))
	keys := conformance.Sequence[uint32](1, n)
	if _, err := m.Put(t.Context(), keys, keys); err != nil {
		t.Fatal(err)
	}
	before := conformance.StatsOf(t, m)
	want := func(left int, shorter bool) {
		t.Helper()
		_, err := m.Delete(t.Context(), keys[left:m.Len()], nil)
		if err = errors.Join(err, m.CheckInvariants()); err != nil {
			t.Fatal(err)
		}
		after := conformance.StatsOf(t, m)
		if shorter != (after.Entries < before.Entries && after.TypeB < before.TypeB && after.PerHit < before.PerHit && after.PerMiss < before.PerMiss) {
			t.Errorf("%v, was %v", after, before)
		}
		before = after
	}
	seen := map[uint32]bool{}
	for k := range m.All() {
		if len(seen) == 0 {
			want(stay, false)
		}
		if seen[k] {
			t.Fatalf("key %d comes twice", k)
		}
		seen[k] = true
	}
	for _, k := range keys[:stay] {
		if !seen[k] {
			t.Fatalf("key %d is left out", k)
		}
	}
	want(stay/2, reclaim != horton.Never)
	conformance.WantPairs(t, m, keys[:stay/2])
	if s := before; reclaim != horton.Never && (s.TypeB > .02 || s.PerMiss > 1.001) {
		t.Error(s)
	}
	if err := m.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := conformance.StatsOf(t, m); s.TypeB > .02 {
		t.Error(s)
	}
	conformance.WantPairs(t, m, keys[:stay/2])
}
