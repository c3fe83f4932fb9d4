package core

import (
	"context"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

// Reduce is Change for a batch that combines values.
func (t *Table) Reduce(ctx context.Context, method string, b *batch.Batch) (delta int, err error) {
	b.MustMatch(t.Name, method)
	if err := t.checkReduction(b.Kind); err != nil {
		return 0, t.wrap(method, partial(b, 0, 0, err))
	}
	return t.Change(ctx, method, b)
}

// ReduceOn is ChangeOn for such a batch.
func (t *Table) ReduceOn(s *device.Stream, method string, b *batch.Batch, counts ...device.Slice[uint64]) error {
	b.MustMatch(t.Name, method)
	if err := t.checkReduction(b.Kind); err != nil {
		return t.wrap(method, err)
	}
	return t.ChangeOn(s, method, b, counts...)
}

func (t *Table) checkReduction(k op.Kind) error {
	if !k.Reduces() {
		return fmt.Errorf("%w: %d is no reduction", device.ErrInvalid, k)
	}
	return t.CheckKind(k)
}

// reduceRows is the number of rows that are combined with each other before the
// table is touched: ten milliseconds' work. Of fewer than reduceLeast, it does not
// pay.
const reduceRows, reduceLeast = 1 << 19, 1 << 14

// reducible is the next part of a batch whose rows may be combined with each other,
// or nil.
func (t *Table) reducible(b *batch.Batch, done int) *batch.Batch {
	_, can := t.Engine.(Combiner)
	n := min(reduceRows, b.N-done)
	if !can || !b.Kind.Reduces() || b.Columns[batch.Kinds].Given() || b.Flags&batch.Combined != 0 || n < reduceLeast {
		return nil
	}
	return b.Part(done, done+n)
}

// reduceFew runs what is left of the rows of a part. Since each of them may be of
// any of those, all are run, or none if the context ends before.
func (t *Table) reduceFew(ctx context.Context, part, few *batch.Batch) (done, failed int, err error) {
	few.Flags |= batch.Combined
	ran, failed, err := t.chunks(ctx, few)
	if ran > 0 && ran < few.N && ctx.Err() != nil {
		var more, without int
		more, without, err = t.chunks(context.WithoutCancel(ctx), few.Chunk(ran, few.N))
		ran, failed = ran+more, failed+without
	}
	if ran < few.N {
		return 0, 0, err
	}
	if failed > 0 { // of the part: the keys that are not there now
		var hits int
		_, hits, err = t.Engine.Look(context.WithoutCancel(ctx), nil, t.Leases.Current(), part.Only(batch.Keys), 0)
		failed = part.N - hits
	}
	return part.N, failed, err
}
