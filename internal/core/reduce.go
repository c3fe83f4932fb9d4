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
