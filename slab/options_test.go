package slab_test

import (
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/slab"
)

func TestOptionsThatMakeNoSense(t *testing.T) {
	dev := devicetest.Open(t)
	of := func(s conformance.Sizes) slab.Options {
		return slab.Options{Capacity: s.Capacity, MaxLoad: s.MaxLoad, Fixed: s.Fixed}
	}
	conformance.RefusesOptions(t, of, map[string]slab.Options{
		"MaxLoad 1": {MaxLoad: 1}, "MaxLoad of 0.95": {MaxLoad: .95}, // leaves no space for links
		"ResultLimit -1": {ResultLimit: -1},
		"Buckets -1":     {Buckets: -1}, "Buckets 1073741824": {Buckets: 1 << 30},
		"MaxTombstones 1.1": {MaxTombstones: 1.1}, "MaxTombstones NaN": {MaxTombstones: math.NaN()},
	}, func(opts *slab.Options) map[string]error {
		_, errMap := slab.New[uint64, uint64](dev, opts)
		_, errSet := slab.NewSet[uint32](dev, opts)
		_, errMulti := slab.NewMultiMap[uint32, uint32](dev, opts)
		return map[string]error{"map": errMap, "set": errSet, "multimap": errMulti}
	})
	if _, err := slab.New[uint64, uint64](nil, nil); !errors.Is(err, weft.ErrOptions) {
		t.Errorf("no device: %v", err)
	}
}

func TestOptionsAtTheirLimits(t *testing.T) {
	dev := devicetest.Open(t)
	keys := conformance.Sequence[uint64](0, 3000)
	for name, opts := range map[string]*slab.Options{
		"nil":              nil,
		"zero":             {},
		"highest of pairs": {MaxLoad: .86},
		"least":            {MaxLoad: .001},
		"capacity of one":  {Capacity: 1},
		"fixed":            {Capacity: 3000, Fixed: true},
		"fixed list":       {Capacity: 3000, Fixed: true, Buckets: 1},
		"list":             {Buckets: 1},
		"many buckets":     {Buckets: 20_000},
		"unordered":        {Unordered: true},
		"always flushing":  {MaxTombstones: 1e-9},
		"never flushing":   {MaxTombstones: -1},
	} {
		t.Run(name, func(t *testing.T) {
			m := conformance.Open(t, slab.New[uint64, uint64], dev, opts)
			conformance.FillAndHalve(t, m, keys, func() {})
			if s := conformance.StatsOf(t, m); opts != nil && opts.Buckets > 0 && s.Buckets != opts.Buckets {
				t.Errorf("there are to be %d buckets: %v", opts.Buckets, s)
			}
		})
	}
}

// TestDefaults checks that New does not change the caller's options, and that the default seed is
// random.
func TestDefaults(t *testing.T) {
	dev := devicetest.Open(t)
	opts := slab.Options{}
	a, b := conformance.Open(t, slab.New[uint64, uint64], dev, &opts), conformance.Open(t, slab.New[uint64, uint64], dev, &opts)
	if opts != (slab.Options{}) {
		t.Errorf("New changed the options: %+v", opts)
	}
	keys := conformance.Sequence[uint64](0, 1000)
	same := true
	for _, m := range []*slab.Map[uint64, uint64]{a, b} {
		if _, err := m.Put(t.Context(), keys, keys); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range keys {
		same = same && a.Bucket(k) == b.Bucket(k)
	}
	if same {
		t.Error("two maps without a seed put all keys into the same buckets")
	}
}

func TestLoggerIsTold(t *testing.T) {
	conformance.LogsMessages(t, func(to *slog.Logger) conformance.AnyMap[uint64, uint64] {
		return conformance.Open(t, slab.New[uint64, uint64], devicetest.Open(t), &slab.Options{Logger: to})
	}, "from_buckets=1 ", "slab: flush")
}

// TestTooLarge checks that a structure beyond the limits or the device's memory is refused with the
// numbers, before anything is allocated.
func TestTooLarge(t *testing.T) {
	for _, test := range []struct {
		dev  device.Device
		opts slab.Options
		want error
		text string
	}{
		{devicetest.OpenCPU(t, 0), slab.Options{Capacity: 1 << 40, Buckets: 1000, Fixed: true}, weft.ErrOptions, "Capacity 1099511627776 takes 157073220755 slabs"},
		{devicetest.OpenCPU(t, 0), slab.Options{Capacity: 27 << 30, Buckets: 1000, Fixed: true}, device.ErrMemory, "bytes requested, "},
		{devicetest.OpenSim(t, &sim.Options{Memory: 1 << 24}), slab.Options{Capacity: 1 << 20}, device.ErrMemory, "bytes requested, 16777216 free"},
	} {
		fired := devicetest.FailAfter(test.dev, 0)
		_, err := slab.New[uint64, uint64](test.dev, &test.opts)
		if fired() {
			t.Errorf("%+v: something was asked of the device first: %v", test.opts, err)
		}
		devicetest.ClearFailures(test.dev)
		if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%+v: %v", test.opts, err)
		}
	}
}
