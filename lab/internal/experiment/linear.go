package experiment

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/linear"
)

var linearExperiment = Experiment{
	Name:    "linear",
	Title:   "Linear probing: every operation over the load",
	Default: true,
	Doc: `N unique random keys are put into an empty table of just so many slots that they fill it to the given load.
Then keys that are there (get_hit), keys that aren't (get_miss) and half of each (get_half) are looked up, and all
keys are deleted. mixed is one batch of half lookups, a quarter insertions of new keys and a quarter deletions, half
as many as keys, that ends with the load given; mixed_20 has 20 % updates, and half of its lookups miss.
insert leaves open which of equal keys in a batch wins, as other GPU tables do; insert_ordered, on a GPU, is the
default of the library and lets the last one win.`,
	run:   runLinear,
	plots: plotLinear,
}

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
	// The memory per key covers the widest table, at its lowest load, and its columns.
	const widest = 16
	n, err := r.keys(1<<19, 100_000_000, int(widest/r.loads()[0])+columnBytes[uint64, uint64]()+mixedBytes/2)
	if err != nil {
		return err
	}
	n = max(n, 8) // mixed batches take eighths
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
		trial: trial[K, V]{runner: r, structure: "linear", keyBits: 8 * int(unsafe.Sizeof(k)), valueBits: 8 * int(unsafe.Sizeof(v))},
		open:  func(o *linear.Options) (subject[K, V], error) { return openLinear[K, V](r.Device, o) },
	}
	return s.run(ctx, n)
}

func sweepSet[K weft.Key](ctx context.Context, r *runner, n int) error {
	var k K
	s := sweep[K, uint32]{
		trial: trial[K, uint32]{runner: r, structure: "linear-set", keyBits: 8 * int(unsafe.Sizeof(k))},
		open: func(o *linear.Options) (subject[K, uint32], error) {
			m, err := linear.NewSet[K](r.Device, o)
			return setSubject[K]{m}, err
		},
	}
	return s.run(ctx, n)
}

// sweep measures linear tables of one width at all loads.
type sweep[K weft.Key, V weft.Value] struct {
	trial[K, V]
	open func(*linear.Options) (subject[K, V], error)
}

func (s *sweep[K, V]) run(ctx context.Context, n int) (err error) {
	entry := s.keyBits/8 + s.valueBits/8
	entry = 1 << bits.Len(uint(entry-1)) // 12 bytes take 16
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

// atLoad measures everything at one load, in a table that does not order equal keys. It measures
// insertion again in a table that does.
func (s *sweep[K, V]) atLoad(ctx context.Context) error {
	if err := s.with(true, func() error {
		if err := s.insert(ctx, "insert"); err != nil {
			return err
		}
		for _, op := range []string{"get_hit", "get_miss", "get_half"} {
			if err := s.lookup(ctx, op); err != nil {
				return err
			}
		}
		if err := s.deletes(ctx); err != nil || s.valueBits == 0 {
			return err // sets have no mixed batches
		}
		return errors.Join(s.mixed(ctx, evenMix, s.cols.n/8*4), s.mixed(ctx, fewUpdates, s.cols.n/8*4))
	}); err != nil {
		return err
	}
	// In a set, equal keys have the same effect in any order. A CPU always keeps the order.
	if s.valueBits == 0 || !s.onGPU() {
		return nil
	}
	return s.with(false, func() error { return s.insert(ctx, "insert_ordered") })
}

// with opens a table for the keys and the load, calls body, and closes the table.
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
