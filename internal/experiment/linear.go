package experiment

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"time"
	"unsafe"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/roofline"
	"github.com/weftgo/weft/linear"
)

var linearExperiment = Experiment{
	Name:    "linear",
	Title:   "Linear probing: every operation over the load",
	Default: true,
	Doc: `N unique random keys are put into an empty table of just so many slots that they fill it to the given load.
Then keys that are there (get_hit), keys that aren't (get_miss) and half of each (get_half) are looked up, and all
keys are deleted. mixed is one batch of half lookups, a quarter insertions of new keys and a quarter deletions, half
as many as keys, that ends with the load given. insert leaves open which of equal keys in a batch wins, as other GPU
tables do; insert_ordered, on a GPU, is the default of the library and lets the last one win.`,
	run:   runLinear,
	plots: plotLinear,
}

// loads are the loads of the sweep.
func (r *runner) loads() []float64 {
	switch r.Scale {
	case Quick:
		return []float64{.5, .8}
	case Full:
		return []float64{.1, .2, .3, .4, .5, .6, .7, .8, .9, .95, .97}
	}
	return []float64{.1, .3, .5, .7, .8, .9, .95, .97}
}

func runLinear(ctx context.Context, r *runner) error {
	// The widest table of the sweep, at its lowest load, with its columns.
	const widest = 16
	n, err := r.keys(1<<19, 100_000_000, int(widest/r.loads()[0])+columnBytes[uint64, uint64]()+mixedBytes)
	if err != nil {
		return err
	}
	n = max(n, 8) // mixed takes eighths
	r.result.Parameters["keys"] = n

	var limits []string
	for _, entry := range []int{8, 16} {
		limits = append(limits, r.readLimit(entry), r.writeLimit(entry))
	}
	if err := r.limits(ctx, 2*n*widest, limits...); err != nil {
		return err
	}
	sweeps := []func(context.Context, *runner, int) error{sweepMap[uint32, uint32], sweepMap[uint64, uint64]}
	if r.Scale == Full {
		sweeps = append(sweeps, sweepMap[uint32, uint64], sweepMap[uint64, uint32], sweepSet[uint32], sweepSet[uint64])
	}
	for _, sweep := range sweeps {
		if err := sweep(ctx, r, n); err != nil {
			return err
		}
	}
	return nil
}

func sweepMap[K weft.Key, V weft.Value](ctx context.Context, r *runner, n int) error {
	var k K
	var v V
	s := sweep[K, V]{
		runner: r, structure: "linear", keyBits: 8 * int(unsafe.Sizeof(k)), valueBits: 8 * int(unsafe.Sizeof(v)),
		open: func(o *linear.Options) (subject[K, V], error) {
			m, err := linear.New[K, V](r.Device, o)
			return mapSubject[K, V]{m}, err
		},
	}
	return s.run(ctx, n)
}

func sweepSet[K weft.Key](ctx context.Context, r *runner, n int) error {
	var k K
	s := sweep[K, uint32]{
		runner: r, structure: "linear-set", keyBits: 8 * int(unsafe.Sizeof(k)),
		open: func(o *linear.Options) (subject[K, uint32], error) {
			m, err := linear.NewSet[K](r.Device, o)
			return setSubject[K]{m}, err
		},
	}
	return s.run(ctx, n)
}

// sweep measures one structure of one width over all loads.
type sweep[K weft.Key, V weft.Value] struct {
	*runner
	structure          string
	keyBits, valueBits int
	open               func(*linear.Options) (subject[K, V], error)

	table       subject[K, V]
	load        float64
	cols        *columns[K, V]
	read, write string // limits of a lookup and of an update
}

func (s *sweep[K, V]) run(ctx context.Context, n int) (err error) {
	entry := s.keyBits/8 + s.valueBits/8
	entry = 1 << bits.Len(uint(entry-1)) // 12 bytes lie in 16
	s.read, s.write = s.readLimit(entry), s.writeLimit(entry)

	s.step("%s %s: columns of %d keys", s.structure, s.width(), n)
	if s.cols, err = newColumns[K, V](s.runner, n); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.cols.free()) }()
	for _, s.load = range s.loads() {
		if err := s.atLoad(ctx); err != nil {
			return fmt.Errorf("%s %s at load %g: %w", s.structure, s.width(), s.load, err)
		}
	}
	return nil
}

func (s *sweep[K, V]) width() string {
	if s.valueBits == 0 {
		return fmt.Sprint(s.keyBits)
	}
	return fmt.Sprintf("%d/%d", s.keyBits, s.valueBits)
}

// atLoad measures everything at one load: in a table that leaves the order of
// equal keys open, and the insertion once more in one that doesn't.
func (s *sweep[K, V]) atLoad(ctx context.Context) error {
	if err := s.with(true, func() error {
		for _, part := range []func(context.Context) error{s.insert, s.lookups, s.deletes, s.mixed} {
			if err := part(ctx); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	// Which of equal keys wins makes no difference to a set, and a CPU keeps
	// the order either way.
	if s.valueBits == 0 || !s.onGPU() {
		return nil
	}
	return s.with(false, func() error {
		t, err := s.median(ctx, s.clear(ctx), s.fill)
		if err != nil {
			return err
		}
		s.report("insert_ordered", s.cols.n, t, s.write, Row{})
		return nil
	})
}

// with opens a table for the keys and the load, and closes it after body.
func (s *sweep[K, V]) with(unordered bool, body func() error) (err error) {
	s.table, err = s.open(&linear.Options{
		Capacity: s.cols.n, MaxLoad: s.load, Fixed: true, Unordered: unordered, Seed: s.Seed + 1,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.table.Close()) }()
	return body()
}

func (s *sweep[K, V]) clear(ctx context.Context) func() error {
	return func() error { return s.table.Clear(ctx) }
}

func (s *sweep[K, V]) fill() error { return s.table.put(s.stream, s.cols.keys, s.cols.vals) }

// refill is clear and fill, untimed.
func (s *sweep[K, V]) refill(ctx context.Context, n int) func() error {
	return func() error {
		if err := s.table.Clear(ctx); err != nil {
			return err
		}
		return s.table.put(s.stream, s.cols.keys.Sub(0, n), s.cols.vals.Sub(0, n))
	}
}

// report adds a row for n operations in time t.
func (s *sweep[K, V]) report(op string, n int, t time.Duration, limit string, row Row) {
	row.Structure, row.Op, row.KeyBits, row.ValueBits = s.structure, op, s.keyBits, s.valueBits
	row.N, row.Load, row.Seconds = n, s.load, t.Seconds()
	row.OpsPerS, row.Limit = roofline.Rate(n, t), limit
	s.add(row)
}

func (s *sweep[K, V]) insert(ctx context.Context) error {
	s.step("%s %s at load %g: insert", s.structure, s.width(), s.load)
	t, err := s.median(ctx, s.clear(ctx), s.fill)
	if err != nil {
		return err
	}
	if err := s.table.Sync(ctx); err != nil {
		return err
	}
	stats, err := s.table.Stats(ctx)
	if err != nil {
		return err
	}
	s.report("insert", s.cols.n, t, s.write, Row{
		BytesPerEntry: figure(float64(stats.Bytes) / float64(s.cols.n)),
		MeanProbe:     figure(float64(stats.MeanProbe)),
		MaxProbe:      figure(float64(stats.MaxProbe)),
	})
	return nil
}

// lookups measures looking up, and then, untimed, asks for the flags and
// checks them.
func (s *sweep[K, V]) lookups(ctx context.Context) error {
	for _, q := range []struct {
		op   string
		keys device.Slice[K]
		hits int
	}{{"get_hit", s.cols.hits, s.cols.n}, {"get_miss", s.cols.miss, 0}, {"get_half", s.cols.half, (s.cols.n + 1) / 2}} {
		s.step("%s %s at load %g: %s", s.structure, s.width(), s.load, q.op)
		var found device.Slice[bool]
		if s.valueBits == 0 {
			found = s.cols.flags // a set's only answer
		}
		t, err := s.median(ctx, nil, func() error { return s.table.get(s.stream, q.keys, s.cols.out, found) })
		if err != nil {
			return err
		}
		if err := s.checkLookup(ctx, q.keys, q.op, q.hits); err != nil {
			return err
		}
		s.report(q.op, s.cols.n, t, s.read, Row{HitRatio: figure(float64(q.hits) / float64(s.cols.n))})
	}
	return nil
}

// checkLookup looks keys up once more and makes sure that just so many are
// found, and with their values if all are.
func (s *sweep[K, V]) checkLookup(ctx context.Context, keys device.Slice[K], what string, hits int) error {
	if err := s.table.get(s.stream, keys, s.cols.out, s.cols.flags); err != nil {
		return err
	}
	if err := checkFlags(ctx, s.runner, s.cols.flags, what, hits); err != nil {
		return err
	}
	if hits < keys.Len() || s.valueBits == 0 {
		return nil
	}
	return checkValues(ctx, s.runner, keys, s.cols.out)
}

func (s *sweep[K, V]) deletes(ctx context.Context) error {
	s.step("%s %s at load %g: delete", s.structure, s.width(), s.load)
	t, err := s.median(ctx, s.refill(ctx, s.cols.n), func() error {
		return s.table.remove(s.stream, s.cols.hits, device.Slice[bool]{})
	})
	if err != nil {
		return err
	}
	if err := s.checkLookup(ctx, s.cols.hits, "lookup after delete", 0); err != nil {
		return err
	}
	s.report("delete", s.cols.n, t, s.write, Row{})
	return nil
}
