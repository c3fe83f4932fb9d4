package linear_test

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/linear"
)

func TestOptionsThatMakeNoSense(t *testing.T) {
	dev := devicetest.Open(t)
	of := func(s conformance.Sizes) linear.Options {
		return linear.Options{Capacity: s.Capacity, MaxLoad: s.MaxLoad, Fixed: s.Fixed}
	}
	conformance.RefusesOptions(t, of, map[string]linear.Options{
		"Tombstones 2": {Tombstones: 2}, "Tombstones -1": {Tombstones: -1},
	}, func(opts *linear.Options) map[string]error {
		_, errMap := linear.New[uint64, uint64](dev, opts)
		_, errSet := linear.NewSet[uint32](dev, opts)
		return map[string]error{"map": errMap, "set": errSet}
	})
}

func TestOptionsAtTheirLimits(t *testing.T) {
	dev := devicetest.Open(t)
	keys := conformance.Sequence[uint64](0, 3000)
	for name, opts := range map[string]*linear.Options{
		"nil":                    nil,
		"zero":                   {},
		"load of one":            {MaxLoad: 1},
		"low load":               {MaxLoad: .01},
		"load that rounds badly": {MaxLoad: 1. / 392}, // 392 * (1 / 392) < 1
		"capacity of one":        {Capacity: 1},
		"fixed":                  {Capacity: 3000, Fixed: true},
	} {
		t.Run(name, func(t *testing.T) {
			m := conformance.Open(t, linear.New[uint64, uint64], dev, opts)
			conformance.FillAndHalve(t, m, keys, func() {
				if s := conformance.StatsOf(t, m); opts != nil && opts.MaxLoad > 0 && s.Load > opts.MaxLoad {
					t.Errorf("load is %g, above %g: %v", s.Load, opts.MaxLoad, s)
				}
			})
		})
	}
}

// New must not change the caller's options. Default seeds must differ, because they are random.
func TestDefaults(t *testing.T) {
	dev := devicetest.Open(t)
	opts := linear.Options{}
	a, b := conformance.Open(t, linear.New[uint64, uint64], dev, &opts), conformance.Open(t, linear.New[uint64, uint64], dev, &opts)
	if opts != (linear.Options{}) {
		t.Errorf("New changed the options: %+v", opts)
	}
	keys := conformance.Sequence[uint64](0, 1000)
	for _, m := range []*linear.Map[uint64, uint64]{a, b} {
		if _, err := m.Put(t.Context(), keys, keys); err != nil {
			t.Fatal(err)
		}
	}
	first, err := a.Memory()
	if err != nil {
		t.Fatal(err)
	}
	second, err := b.Memory()
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(first, second) {
		t.Error("two maps without a seed have the same memory")
	}
}

func TestLoggerIsTold(t *testing.T) {
	conformance.LogsMessages(t, func(to *slog.Logger) conformance.AnyMap[uint64, uint64] {
		return conformance.Open(t, linear.New[uint64, uint64], devicetest.Open(t), &linear.Options{Logger: to})
	}, "from_lines=1 ")
}

// Compact must drop dead slots, and shrink a table that may shrink.
func TestCompact(t *testing.T) {
	dev := devicetest.Open(t)
	for name, test := range map[string]struct {
		opts    linear.Options
		shrinks bool
	}{
		"growing":       {linear.Options{}, true},
		"with capacity": {linear.Options{Capacity: 4000}, false},
		"fixed":         {linear.Options{Capacity: 4000, Fixed: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := conformance.Open(t, linear.New[uint64, uint64], dev, &test.opts)
			conformance.CompactDropsDead(t, m, test.shrinks, func() (live, dead, size int) {
				s := conformance.StatsOf(t, m)
				return s.Len, s.Tombstones, s.Slots
			})
		})
	}
}
