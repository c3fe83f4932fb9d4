package horton

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
)

// chosen returns n keys with a home that satisfies ok. Finding them requires the seed.
func chosen(g geometry, n int, ok func(h home) bool) (keys []uint64) {
	for k := uint64(1); len(keys) < n; k++ {
		p := pathOf[uint64, uint64](g, k)
		if ok(home{p.bucket, tagOf[uint64, uint64](p.key)}) {
			keys = append(keys, k)
		}
	}
	return keys
}

// crowds are functions that return n keys that compete for the same slots.
var crowds = map[string]func(g geometry, n int) []uint64{
	"one bucket": func(g geometry, n int) []uint64 {
		return chosen(g, n, func(h home) bool { return h.bucket == 3 })
	},
	"one bucket and tag": func(g geometry, n int) []uint64 {
		return chosen(g, n, func(h home) bool { return h == home{3, 5} })
	},
	"one tag": func(g geometry, n int) []uint64 {
		return chosen(g, n, func(h home) bool { return h.tag == 5 && h.bucket < g.buckets/8 })
	},
	"all seven": func(g geometry, n int) []uint64 {
		of := home{3, 5}
		in := map[uint32]bool{}
		for i := uint32(1); i <= functions; i++ {
			in[g.secondary(of, layout{slotBytes: 16}.entries(), i)] = true
		}
		return chosen(g, n, func(h home) bool { return h == of || in[h.bucket<<g.shift>>g.secondaryShift()] })
	},
}

// Keys that compete for the same slots make a table take another seed, or grow, in bounded time.
// All of them are present afterward.
func TestCrowdingKeys(t *testing.T) { crowdingKeys(t, devicetest.Open(t)) }

func crowdingKeys(t *testing.T, dev device.Device) {
	const seed = 4711
	for _, slots := range []int{1, 2, 8} {
		for _, fixed := range []bool{false, true} {
			for name, crowd := range crowds {
				t.Run(fmt.Sprintf("%s, %d slots, fixed %v", name, slots, fixed), func(t *testing.T) {
					m := conformance.Open(t, New[uint64, uint64], dev, &Options{Seed: seed, Slots: slots, Capacity: 600, Fixed: fixed, MaxLoad: .5})
					g := m.engine.geometry()
					keys := crowd(g, 500)
					start := time.Now()
					n, err := m.Put(t.Context(), keys, keys)
					if n != len(keys) || err != nil {
						t.Fatalf("Put of %d keys: %d, %v", len(keys), n, err)
					}
					conformance.WantPairs(t, m, keys)
					if now := m.engine.geometry(); now.seed == g.seed && strings.HasPrefix(name, "one bucket") {
						t.Errorf("the seed is the same: %+v", now)
					}
					if took := time.Since(start); took > 20*time.Second {
						t.Errorf("it took %v", took)
					}
				})
			}
		}
	}
}

// A table with too many keys of one home does not search a slot for each of them. It tries some
// keys, and then takes another seed.
func TestKeysOfOneHomeAreQuick(t *testing.T) {
	conformance.SkipRaced(t, "is about time")
	const n, seed, tries = 20_000, 4711, 3
	dev := devicetest.OpenCPU(t, 2)
	longest := time.Duration(0)
	for range tries {
		m := conformance.Open(t, New[uint64, uint64], dev, &Options{Seed: seed, Capacity: n, Fixed: true})
		keys := make([]uint64, n)
		for i := range keys { // their mixed keys are consecutive, so that all have one bucket
			keys[i] = unmix(geometry{seed: seed}, uint64(i)<<16)
		}
		began := time.Now()
		if got, err := m.Put(t.Context(), keys, keys); got != n || err != nil {
			t.Fatalf("Put of %d keys: %d, %v", n, got, err)
		}
		if longest = time.Since(began); longest < 2*time.Second {
			return
		}
	}
	t.Errorf("%d keys of one home take %v", n, longest)
}

// A full fixed table reports that it is full, whatever the new keys are, and keeps its keys.
func TestFixedTableIsFull(t *testing.T) {
	conformance.SkipRaced(t, "one core searches full tables")
	dev := devicetest.Open(t)
	for _, slots := range []int{1, 2, 4, 8, 16} {
		const capacity = 1000
		m := conformance.Open(t, New[uint64, uint64], dev, &Options{Slots: slots, Capacity: capacity, Fixed: true})
		conformance.FixedIsFull(t, m, capacity, conformance.StatsOf(t, m).Slots, 80)
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
