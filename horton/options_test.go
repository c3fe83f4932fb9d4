package horton_test

import (
	"bytes"
	"log/slog"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/horton"
	"github.com/weftgo/weft/internal/conformance"
)

func TestOptionsThatMakeNoSense(t *testing.T) {
	dev := devicetest.Open(t)
	for _, test := range []struct {
		name string
		opts horton.Options
		want string // part of the message
	}{
		{"negative capacity", horton.Options{Capacity: -1}, "Capacity -1"},
		{"capacity beyond the largest table", horton.Options{Capacity: math.MaxInt}, "GiB"},
		{"fixed without a capacity", horton.Options{Fixed: true}, "Capacity"},
		{"load above one", horton.Options{MaxLoad: 1.01}, "MaxLoad 1.01"},
		{"load that is no number", horton.Options{MaxLoad: math.NaN()}, "MaxLoad NaN"},
		{"three slots", horton.Options{Slots: 3}, "Slots 3"},
		{"negative slots", horton.Options{Slots: -8}, "Slots -8"},
		{"unknown way to reclaim", horton.Options{Reclaim: 3}, "reclaim: 3"},
		{"negative way to reclaim", horton.Options{Reclaim: -1}, "reclaim: -1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, errMap := horton.New[uint64, uint64](dev, &test.opts)
			_, errSet := horton.NewSet[uint32](dev, &test.opts)
			conformance.Refused(t, test.want, map[string]error{"map": errMap, "set": errSet})
		})
	}
}

func TestOptionsAtTheirLimits(t *testing.T) {
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
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	m := conformance.Open(t, horton.New[uint64, uint64], devicetest.Open(t), &horton.Options{Logger: logger})
	keys := conformance.Sequence[uint64](0, 1000)
	if _, err := m.Put(t.Context(), keys, keys); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "from_lines=2 ") {
		t.Errorf("growth left no trace in the log: %q", log.String())
	}
}

// Compact drops dead slots, and shrinks what may shrink.
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

// Lookups and deletes in mixed batches make a table no larger, and neither do keys that
// come and go.
func TestNothingGrowsInVain(t *testing.T) {
	dev := devicetest.Open(t)
	m := conformance.Open(t, horton.New[uint32, uint32], dev, nil)
	conformance.LookupsGrowNothing(t, dev, m, func() int { return conformance.StatsOf(t, m).Slots })
	for _, opts := range []*horton.Options{nil, {Capacity: 100, Fixed: true}, {Slots: 1}} {
		before, after := conformance.Toggle[uint32](t, dev, conformance.Open(t, horton.NewSet[uint32], dev, opts))
		if after.Slots != before.Slots {
			t.Errorf("%v; before: %v", after, before)
		}
	}
}

// Stats of a table with few keys say that lookups read a bucket; those of a full one are
// for TestLoadIsReached.
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

// Any history leaves a table that keeps the rules of its layout and holds what a Go map
// holds.
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
		m, err := horton.New[uint32, uint64](dev, opts)
		if err != nil {
			rt.Fatal(err)
		}
		defer func() {
			if err := m.Close(); err != nil {
				rt.Error(err)
			}
		}()
		conformance.AnyHistory(rt, m, false, func() error { return nil })
	})
}

// Whatever operation of the device fails while a table is made, nothing stays behind; and
// whatever fails later, once, nothing that was there is lost.
func TestFailuresOfTheDevice(t *testing.T) {
	conformance.NewFails(t, horton.New[uint64, uint32], devicetest.Open(t), nil)
	conformance.OperationsFail(t, devicetest.Open(t), 3000, conformance.MapOf(horton.New[uint64, uint64], nil))
}

// Contexts that end in the middle of Clear and Compact leave all or nothing.
func TestCutShort(t *testing.T) {
	conformance.CutShort(t, devicetest.Open(t), conformance.MapOf(horton.New[uint32, uint32], &horton.Options{Capacity: 1000}))
}
