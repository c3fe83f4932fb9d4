package group

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/linear"
)

// onesRows is how many rows are added by one launch at most; a column of as many ones is
// kept for it.
const onesRows = 1 << 26

// Summand are the types of values that [Totals] add up.
type Summand interface{ ~int64 | ~uint64 | ~float64 }

// Totals are the number of rows of each key and the sum of their values, of rows that lie on a device. They
// are two maps of package linear, so that keys may be of all types that these have, and a batch is one
// reduction of each: blocks combine rows of few keys before the table sees them.
//
// Sums of integers wrap around at 64 bits. For other aggregates, several key columns and nulls, copy the columns to the host,
// where [Groups] take them. On a GPU this has been shown on the simulator and not been run on hardware yet.
//
// All methods may be called from many goroutines; batches are added in the order of the calls.
type Totals[K weft.Key, V Summand] struct {
	dev device.Device

	mu     sync.Mutex
	ones   device.Slice[uint64]
	counts *linear.Map[K, uint64]
	sums   *linear.Map[K, V]
	err    error // of the first batch that was added to one map only
}

// NewTotals makes totals without rows on a device, with room for capacity keys; they grow. Errors are those of
// [linear.New].
func NewTotals[K weft.Key, V Summand](dev device.Device, capacity int) (*Totals[K, V], error) {
	counts, err := linear.New[K, uint64](dev, &linear.Options{Capacity: capacity})
	if err != nil {
		return nil, fmt.Errorf("group: NewTotals: %w", err)
	}
	sums, err := linear.New[K, V](dev, &linear.Options{Capacity: capacity})
	if err != nil {
		return nil, fmt.Errorf("group: NewTotals: %w", errors.Join(err, counts.Close()))
	}
	return &Totals[K, V]{dev: dev, counts: counts, sums: sums}, nil
}

// AddOn adds rows that lie on the device, as work of a stream; the columns must stay until the stream has done it. Columns of different
// lengths panic. A batch that fails may have been counted and not added up, so all later calls fail with its error.
func (t *Totals[K, V]) AddOn(s *device.Stream, keys device.Slice[K], values device.Slice[V]) error {
	if keys.Len() != values.Len() {
		panic(fmt.Sprintf("group: AddOn: %d keys and %d values", keys.Len(), values.Len()))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return fmt.Errorf("group: AddOn: %w", t.err)
	}
	if err := t.haveOnes(s, min(keys.Len(), onesRows)); err != nil {
		return fmt.Errorf("group: AddOn: %w", err) // nothing has been added
	}
	for lo := 0; lo < keys.Len() && t.err == nil; lo += onesRows {
		hi := min(lo+onesRows, keys.Len())
		k := keys.Sub(lo, hi)
		if t.err = t.counts.ReduceOn(s, k, t.ones.Sub(0, hi-lo), weft.Sum); t.err == nil {
			t.err = t.sums.ReduceOn(s, k, values.Sub(lo, hi), weft.Sum)
		}
	}
	if t.err != nil {
		return fmt.Errorf("group: AddOn: %w", t.err)
	}
	return nil
}

// haveOnes makes the column of ones longer, which waits for all work that reads it.
func (t *Totals[K, V]) haveOnes(s *device.Stream, n int) error {
	if n <= t.ones.Len() {
		return nil
	}
	ctx := context.Background()
	n = min(max(n, 2*t.ones.Len()), onesRows)
	if err := errors.Join(t.counts.Sync(ctx), t.ones.Free()); err != nil {
		return err
	}
	ones := slices.Repeat([]uint64{1}, min(n, 1<<16))
	made, err := device.Make[uint64](t.dev, n)
	if err != nil {
		return err
	}
	for lo := 0; lo < n; lo += len(ones) {
		if err = made.Sub(lo, n).CopyFrom(s, ones[:min(len(ones), n-lo)]); err != nil {
			return errors.Join(err, made.Free())
		}
	}
	// Whoever adds on another stream next must find them there.
	if err := s.Sync(ctx); err != nil {
		return errors.Join(err, made.Free())
	}
	t.ones = made
	return nil
}

// Len is the number of keys of batches that have been done.
func (t *Totals[K, V]) Len() int { return t.sums.Len() }

// Result receives the keys in ascending order, the number of rows of each, as int64, and the sum of their values, behind all batches
// that have been added. It needs 24 bytes of host memory a key, twice.
func (t *Totals[K, V]) Result(ctx context.Context) (*Result, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, err := t.read(ctx)
	if err != nil {
		return nil, fmt.Errorf("group: Result: %w", err)
	}
	return r, nil
}

func (t *Totals[K, V]) read(ctx context.Context) (*Result, error) {
	if t.err != nil {
		return nil, t.err
	}
	if err := t.sums.Sync(ctx); err != nil {
		return nil, err
	}
	type total struct {
		key K
		sum V
	}
	var totals []total
	for page, err := range t.sums.Pages(ctx) {
		if err != nil {
			return nil, err
		}
		for i, k := range page.Keys {
			totals = append(totals, total{k, page.Vals[i]})
		}
	}
	slices.SortFunc(totals, func(a, b total) int { return cmp.Compare(a.key, b.key) })
	keys, sums, counts := make([]K, len(totals)), make([]V, len(totals)), make([]uint64, len(totals))
	for i, x := range totals {
		keys[i], sums[i] = x.key, x.sum
	}
	if n, err := t.counts.Get(ctx, keys, counts, nil); err != nil {
		return nil, err
	} else if n != len(keys) {
		return nil, fmt.Errorf("%w: %d of %d keys have been counted", op.ErrCorrupt, n, len(keys))
	}
	rows := make([]int64, len(counts))
	for i, n := range counts {
		rows[i] = int64(min(n, math.MaxInt64))
	}
	return &Result{Keys: []column.Column{column.Of(keys)}, Values: []column.Column{column.Of(rows), column.Of(sums)}}, nil
}

// Close frees the memory of totals, once streams have done what they were given. Idempotent; later calls fail with [weft.ErrClosed].
func (t *Totals[K, V]) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if errors.Is(t.err, op.ErrClosed) {
		return nil
	}
	err := errors.Join(t.counts.Sync(context.Background()), t.counts.Close(), t.sums.Close(), t.ones.Free())
	t.err = op.ErrClosed
	return err
}
