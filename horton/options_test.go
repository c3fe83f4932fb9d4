package horton_test

import (
	"log/slog"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/horton"
	"github.com/weftgo/weft/internal/conformance"
)

func TestOptionsThatMakeNoSense(t *testing.T) {
	dev := devicetest.Open(t)
	of := func(s conformance.Sizes) horton.Options {
		return horton.Options{Capacity: s.Capacity, MaxLoad: s.MaxLoad, Fixed: s.Fixed}
	}
	conformance.RefusesOptions(t, of, map[string]horton.Options{
		"Slots 3": {Slots: 3}, "Slots -8": {Slots: -8}, "Reclaim 3": {Reclaim: 3}, "Reclaim -1": {Reclaim: -1},
	}, func(opts *horton.Options) map[string]error {
		_, errMap := horton.New[uint64, uint64](dev, opts)
		_, errSet := horton.NewSet[uint32](dev, opts)
		return map[string]error{"map": errMap, "set": errSet}
	})
}

func TestOptionsAtTheirLimits(t *testing.T) {
	conformance.SkipRaced(t, "one core searches full tables")
	dev := devicetest.Open(t)
	keys := conformance.Sequence[uint64](0, 3000)
	for name, opts := range map[string]*horton.Options{
		"zero":            {},
		"load of one":     {MaxLoad: 1},
		"low load":        {MaxLoad: .01},
		"capacity of one": {Capacity: 1, Slots: 16},
		"fixed":           {Capacity: 3000, Fixed: true},
		"one slot, full":  {Slots: 1, MaxLoad: .95},
		"two slots, full": {Slots: 2, MaxLoad: 1, Reclaim: horton.Eager},
	} {
		t.Run(name, func(t *testing.T) {
			m := conformance.Open(t, horton.New[uint64, uint64], dev, opts)
			conformance.FillAndHalve(t, m, keys, func() {})
		})
	}
}

func TestLoggerIsTold(t *testing.T) {
	conformance.LogsMessages(t, func(to *slog.Logger) conformance.AnyMap[uint64, uint64] {
		return conformance.Open(t, horton.New[uint64, uint64], devicetest.Open(t), &horton.Options{Logger: to})
	}, "from_lines=2 ")
}

// Compact frees dead slots, and shrinks a table unless it is fixed.
func TestCompact(t *testing.T) {
	dev := devicetest.Open(t)
	for name, test := range map[string]struct {
		opts    horton.Options
		shrinks bool
	}{
		"growing":       {horton.Options{Reclaim: horton.Never}, true},
		"one slot":      {horton.Options{Slots: 1, Reclaim: horton.Never}, true},
		"with capacity": {horton.Options{Capacity: 4000, Reclaim: horton.Never}, false},
		"fixed":         {horton.Options{Capacity: 4000, Fixed: true, Reclaim: horton.Never}, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := conformance.Open(t, horton.New[uint64, uint64], dev, &test.opts)
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
	m := conformance.Open(t, horton.New[uint32, uint32], dev, nil)
	conformance.LookupsDoNotGrow(t, dev, m, func() int { return conformance.StatsOf(t, m).Slots })
	for _, opts := range []*horton.Options{nil, {Capacity: 100, Fixed: true}, {Slots: 1}} {
		before, after := conformance.Toggle[uint32](t, dev, conformance.Open(t, horton.NewSet[uint32], dev, opts))
		if after.Slots != before.Slots {
			t.Errorf("%v; before: %v", after, before)
		}
	}
}

// In a table with few keys, Stats reports that lookups read one bucket. TestLoadIsReached checks a
// full table.
func TestStats(t *testing.T) {
	keys := conformance.Sequence[uint32](1, 2000)
	m := conformance.Open(t, horton.New[uint32, uint32], devicetest.Open(t), &horton.Options{Capacity: 20_000, Seed: 3})
	if _, err := m.Put(t.Context(), keys, keys); err != nil {
		t.Fatal(err)
	}
	s := conformance.StatsOf(t, m)
	if s.PerHit != 1 || s.PerMiss != 1 || s.PerInsert != 1 || s.Len != 2000 || s.TypeB != 0 || s.Entries != 0 || s.Secondary != 0 || s.Load < .08 || s.Load > .09 {
		t.Error(s)
	}
}

// After any sequence of operations, a table satisfies the rules of its layout and has the same
// pairs as a Go map.
func TestInvariantsAfterAnything(t *testing.T) {
	dev := devicetest.Open(t)
	rapid.Check(t, func(rt *rapid.T) {
		opts := &horton.Options{
			Capacity: rapid.IntRange(0, 200).Draw(rt, "capacity"),
			MaxLoad:  rapid.SampledFrom([]float64{.3, .8, 1}).Draw(rt, "load"),
			Seed:     rapid.Uint64Range(1, 1<<63).Draw(rt, "seed"),
			Slots:    rapid.SampledFrom([]int{1, 2, 4, 8, 16}).Draw(rt, "slots"),
			Reclaim:  horton.Reclaim(rapid.IntRange(0, 2).Draw(rt, "reclaim")),
		}
		conformance.HistoryOf(rt, horton.New[uint32, uint64], dev, opts)
	})
}

// If a device operation fails in New, nothing leaks. If one fails later, no stored pair is lost.
func TestFailuresOfTheDevice(t *testing.T) {
	conformance.NewFails(t, horton.New[uint64, uint32], devicetest.Open(t), nil)
	conformance.OperationsFail(t, devicetest.Open(t), 3000, conformance.MapOf(horton.New[uint64, uint64], nil))
}

// If a context ends during Clear or Compact, the call has run as a whole or not at all.
func TestCutShort(t *testing.T) {
	conformance.InterruptMaintenance(t, devicetest.Open(t), conformance.MapOf(horton.New[uint32, uint32], &horton.Options{Capacity: 1000}))
}
