package cuckoo_test

import (
	"log/slog"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftgo/weft/cuckoo"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
)

func TestOptionsThatMakeNoSense(t *testing.T) {
	dev := devicetest.Open(t)
	of := func(s conformance.Sizes) cuckoo.Options {
		return cuckoo.Options{Capacity: s.Capacity, MaxLoad: s.MaxLoad, Fixed: s.Fixed}
	}
	conformance.RefusesOptions(t, of, map[string]cuckoo.Options{
		"Slots 3": {Slots: 3}, "Slots -8": {Slots: -8}, "Policy 2": {Policy: 2}, "Lookup -1": {Lookup: -1},
	}, func(opts *cuckoo.Options) map[string]error {
		_, errMap := cuckoo.New[uint64, uint64](dev, opts)
		_, errSet := cuckoo.NewSet[uint32](dev, opts)
		return map[string]error{"map": errMap, "set": errSet}
	})
}

func TestOptionsAtTheirLimits(t *testing.T) {
	dev := devicetest.Open(t)
	keys := conformance.Sequence[uint64](0, 3000)
	for name, opts := range map[string]*cuckoo.Options{
		"zero":               {},
		"load of one":        {MaxLoad: 1},
		"low load":           {MaxLoad: .01},
		"capacity of one":    {Capacity: 1, Slots: 16},
		"fixed":              {Capacity: 3000, Fixed: true},
		"one slot, full":     {Slots: 1, MaxLoad: .95},
		"two slots, full":    {Slots: 2, MaxLoad: 1, Policy: cuckoo.LoadBalancing},
		"one slot, balanced": {Slots: 1, Policy: cuckoo.LoadBalancing},
	} {
		t.Run(name, func(t *testing.T) {
			m := conformance.Open(t, cuckoo.New[uint64, uint64], dev, opts)
			conformance.FillAndHalve(t, m, keys, func() {})
		})
	}
}

func TestLoggerIsTold(t *testing.T) {
	conformance.LogsMessages(t, func(to *slog.Logger) conformance.AnyMap[uint64, uint64] {
		return conformance.Open(t, cuckoo.New[uint64, uint64], devicetest.Open(t), &cuckoo.Options{Logger: to})
	}, "from_lines=1 ")
}

// Compact frees dead slots, and shrinks a table unless it is fixed.
func TestCompact(t *testing.T) {
	dev := devicetest.Open(t)
	for name, test := range map[string]struct {
		opts    cuckoo.Options
		shrinks bool
	}{
		"growing":       {cuckoo.Options{}, true},
		"one slot":      {cuckoo.Options{Slots: 1}, true},
		"with capacity": {cuckoo.Options{Capacity: 4000}, false},
		"fixed":         {cuckoo.Options{Capacity: 4000, Fixed: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := conformance.Open(t, cuckoo.New[uint64, uint64], dev, &test.opts)
			conformance.CompactDropsDead(t, m, test.shrinks, func() (live, dead, size int) {
				s := conformance.StatsOf(t, m)
				return s.Len, s.Tombstones, s.Slots
			})
		})
	}
}

// Lookups and deletes in mixed batches do not make a table grow. Inserting and deleting keys
// repeatedly does not either.
func TestNothingGrowsInVain(t *testing.T) {
	dev := devicetest.Open(t)
	m := conformance.Open(t, cuckoo.New[uint32, uint32], dev, nil)
	conformance.LookupsDoNotGrow(t, dev, m, func() int { return conformance.StatsOf(t, m).Slots })
	for _, opts := range []*cuckoo.Options{nil, {Capacity: 100, Fixed: true}, {Slots: 1}} {
		before, after := conformance.Toggle[uint32](t, dev, conformance.Open(t, cuckoo.NewSet[uint32], dev, opts))
		if after.Slots != before.Slots {
			t.Errorf("%v; before: %v", after, before)
		}
	}
}

// Stats of a table with few keys and of a full one match its policy.
func TestStats(t *testing.T) {
	dev := devicetest.Open(t)
	keys := conformance.Sequence[uint32](1, 20_000)
	for _, c := range []struct {
		policy               cuckoo.Policy
		n                    int
		hitLo, hitHi, missLo float64
	}{
		{cuckoo.FirstFit, 2000, 1, 1.001, 1}, {cuckoo.FirstFit, 20_000, 1.1, 1.35, 1.5},
		// Threads of a GPU choose before the keys of others have arrived.
		{cuckoo.LoadBalancing, 2000, 1, 1.6, 2}, {cuckoo.LoadBalancing, 20_000, 1.15, 1.55, 2},
	} {
		m := conformance.Open(t, cuckoo.New[uint32, uint32], dev, &cuckoo.Options{Policy: c.policy, Capacity: 20_000, MaxLoad: .95, Seed: 3})
		if _, err := m.Put(t.Context(), keys[:c.n], keys[:c.n]); err != nil {
			t.Fatal(err)
		}
		if s := conformance.StatsOf(t, m); s.PerHit < c.hitLo || s.PerHit > c.hitHi || s.PerMiss < c.missLo || s.PerMiss > 2 || s.Len != c.n {
			t.Errorf("policy %d: %v", c.policy, s)
		}
	}
}

// After any sequence of operations, a table satisfies the rules of its layout and has the same
// pairs as a Go map.
func TestInvariantsAfterAnything(t *testing.T) {
	dev := devicetest.Open(t)
	rapid.Check(t, func(rt *rapid.T) {
		opts := &cuckoo.Options{
			Capacity: rapid.IntRange(0, 200).Draw(rt, "capacity"),
			MaxLoad:  rapid.SampledFrom([]float64{.3, .8, 1}).Draw(rt, "load"),
			Seed:     rapid.Uint64Range(1, 1<<63).Draw(rt, "seed"),
			Slots:    rapid.SampledFrom([]int{1, 2, 4, 8, 16}).Draw(rt, "slots"),
			Policy:   cuckoo.Policy(rapid.IntRange(0, 1).Draw(rt, "policy")),
		}
		conformance.HistoryOf(rt, cuckoo.New[uint32, uint64], dev, opts)
	})
}

// If a device operation fails in New, nothing leaks. If one fails later, no stored pair is lost.
func TestFailuresOfTheDevice(t *testing.T) {
	conformance.NewFails(t, cuckoo.New[uint64, uint32], devicetest.Open(t), nil)
	conformance.OperationsFail(t, devicetest.Open(t), 3000, conformance.MapOf(cuckoo.New[uint64, uint64], nil))
	if testing.Short() {
		return
	}
	conformance.NewFails(t, cuckoo.New[uint64, uint32], devicetest.OpenSim(t, nil), nil)
}

// If a context ends during Clear or Compact, the call has run as a whole or not at all.
func TestCutShort(t *testing.T) {
	conformance.InterruptMaintenance(t, devicetest.Open(t), conformance.MapOf(cuckoo.New[uint32, uint32], &cuckoo.Options{Capacity: 1000}))
}
