package core

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

// Reduce is Change for a batch that combines values.
func (t *Table) Reduce(ctx context.Context, method string, b *batch.Batch) (delta int, err error) {
	if err := t.checkReduction(b.Kind); err != nil {
		return 0, t.wrap(method, partial(b, 0, nil, err))
	}
	return t.Change(ctx, method, b)
}

// ReduceOn is ChangeOn for such a batch.
func (t *Table) ReduceOn(s *device.Stream, method string, b *batch.Batch, counts ...device.Slice[uint64]) error {
	if err := t.checkReduction(b.Kind); err != nil {
		return t.wrap(method, op.Partial(0, nil, err))
	}
	return t.ChangeOn(s, method, b, counts...)
}

func (t *Table) checkReduction(k op.Kind) error {
	if !k.Reduces() {
		return fmt.Errorf("%w: %d is no reduction", device.ErrInvalid, k)
	}
	return t.CheckKind(k)
}

// reduceRows is the number of rows that are combined with each other before the table is touched:
// ten milliseconds of work. Below reduceLeast combining does not pay.
const reduceRows, reduceLeast = 1 << 19, 1 << 14

// reducible returns the next part of a batch that reduceFew may combine, or nil. A fixed table may
// overflow for some of the rows and detect that late, so rows of a batch for it run one by one.
func (t *Table) reducible(b *batch.Batch, done int) *batch.Batch {
	_, can := t.Engine.(Combiner)
	n := min(reduceRows, b.N-done)
	if !can || t.Fixed || !b.Reduces() || n < reduceLeast {
		return nil
	}
	return b.Part(done, done+n)
}

// reduceFew combines the rows of the next part of a batch with each other and runs the result, if
// that pays and the capacity suffices for all of it. Each combined row stands for several, so all
// of them run, even if the context ends. ran is the number of rows, or 0; failed lists those that
// still overflowed, as indices into that part.
func (t *Table) reduceFew(ctx context.Context, b *batch.Batch, done int) (ran int, failed []int, err error) {
	part := t.reducible(b, done)
	if part == nil {
		return 0, nil, nil
	}
	few := t.Engine.(Combiner).Combine(part)
	if few == nil {
		return 0, nil, nil
	}
	if n, _, err := t.Policy.Before(ctx, t.bound, nil, few); err != nil || n < few.N {
		_, err = t.count(ctx) // Before may have rehashed; the caller runs the rows themselves
		return 0, nil, err
	}
	ctx = context.WithoutCancel(ctx)
	n, without, err := t.Engine.Change(ctx, nil, few)
	if len(without) > 0 {
		var again error
		without, again = t.retry(ctx, few, without)
		err = errors.Join(err, again)
	}
	for i := n; i < few.N; i++ { // an error of the device stopped before these
		without = append(without, uint32(i))
	}
	_, cerr := t.count(ctx)
	return part.N, rowsWith(part, few, without), errors.Join(err, cerr)
}

// rowsWith returns the rows of b that have the keys of the given rows of few, ascending.
func rowsWith(b, few *batch.Batch, rows []uint32) (found []int) {
	if len(rows) == 0 {
		return nil
	}
	key := func(b *batch.Batch, i int) string {
		c := &b.Columns[batch.Keys]
		return string(c.Host[i*c.Width : (i+1)*c.Width])
	}
	have := map[string]bool{}
	for _, i := range rows {
		have[key(few, int(i))] = true
	}
	for i := range b.N {
		if have[key(b, i)] {
			found = append(found, i)
		}
	}
	return found
}
