package core

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

// Reduce runs a batch in host memory that combines values. It returns device.ErrInvalid if the kind
// is no reduction or the table lacks it. See [Table.Change].
func (t *Table) Reduce(ctx context.Context, method string, b *batch.Batch) (delta int, err error) {
	if err := t.checkReduction(b.Kind); err != nil {
		return 0, t.wrap(method, partial(b, 0, nil, err))
	}
	return t.Change(ctx, method, b)
}

// ReduceOn submits a batch in device memory that combines values. See [Table.ChangeOn].
func (t *Table) ReduceOn(s *device.Stream, method string, b *batch.Batch, counts ...device.Slice[uint64]) error {
	if err := t.checkReduction(b.Kind); err != nil {
		return t.wrap(method, op.Partial(0, nil, err))
	}
	return t.ChangeOn(s, method, b, counts...)
}

func (t *Table) checkReduction(k op.Kind) error {
	if !k.Reduces() {
		return fmt.Errorf("%w: %d is not a reduction", device.ErrInvalid, k)
	}
	return t.CheckKind(k)
}

// reduceRows is the maximum number of rows to combine in one step, before the table is accessed.
// Combining that many takes ten milliseconds. Combining fewer than minReduceRows does not pay.
const reduceRows, minReduceRows = 1 << 19, 1 << 14

// reducible returns the next part of a batch that runCombined may combine, or nil. It returns nil
// for fixed tables, because they may lack capacity for some rows after rows with equal keys have
// been combined.
func (t *Table) reducible(b *batch.Batch, done int) *batch.Batch {
	_, ok := t.Engine.(Combiner)
	n := min(reduceRows, b.N-done)
	if !ok || t.Fixed || !b.Reduces() || n < minReduceRows {
		return nil
	}
	return b.Part(done, done+n)
}

// runCombined combines rows with equal keys in the next part of a batch and runs the result. It
// does so only if combining pays and the capacity suffices for all combined rows. Each combined row
// stands for several rows, so all of them run, even if the context ends. ran is the number of rows
// processed, or 0; failed lists rows of the part that still overflowed.
func (t *Table) runCombined(ctx context.Context, b *batch.Batch, done int) (ran int, failed []int, err error) {
	part := t.reducible(b, done)
	if part == nil {
		return 0, nil, nil
	}
	combined := t.Engine.(Combiner).Combine(part)
	if combined == nil {
		return 0, nil, nil
	}
	if n, _, err := t.Policy.Prepare(ctx, t.bound, nil, combined); err != nil || n < combined.N {
		// Prepare may have rehashed. The caller runs the original rows.
		_, err = t.readCounters(ctx)
		return 0, nil, err
	}
	ctx = context.WithoutCancel(ctx)
	n, overflowed, err := t.Engine.Change(ctx, nil, combined)
	if len(overflowed) > 0 {
		var rerr error
		overflowed, rerr = t.retry(ctx, combined, overflowed)
		err = errors.Join(err, rerr)
	}
	for i := n; i < combined.N; i++ { // a device error stopped the run before these rows
		overflowed = append(overflowed, uint32(i))
	}
	_, cerr := t.readCounters(ctx)
	return part.N, rowsWithKeysOf(part, combined, overflowed), errors.Join(err, cerr)
}

// rowsWithKeysOf returns the rows of b, ascending, with keys that occur in the given rows of
// combined.
func rowsWithKeysOf(b, combined *batch.Batch, rows []uint32) (found []int) {
	if len(rows) == 0 {
		return nil
	}
	key := func(b *batch.Batch, i int) string {
		c := &b.Columns[batch.Keys]
		return string(c.Host[i*c.Width : (i+1)*c.Width])
	}
	have := map[string]bool{}
	for _, i := range rows {
		have[key(combined, int(i))] = true
	}
	for i := range b.N {
		if have[key(b, i)] {
			found = append(found, i)
		}
	}
	return found
}
