package core

import (
	"context"
	"fmt"
	"slices"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

// resolveFirstWins resolves operations that overflowed although other operations of the batch
// inserted their keys. The parameter met lists the overflowed operations, ascending. The first
// operation on each key then counts as the one that inserted the key. Its flag is set and, in a
// batch of PutNews, its value is stored. Engines resolve such duplicates within a launch. But a
// later launch may find capacity for a key after an earlier launch found none.
func (t *Table) resolveFirstWins(ctx context.Context, b *batch.Batch, met []uint32) error {
	flags := batch.View[bool](b.Columns[batch.OK].Host)
	stores := b.Kind == op.PutNew && b.Columns[batch.Vals].Given()
	if len(met) == 0 || flags == nil && !stores {
		return nil
	}
	keys := b.Columns[batch.Keys]
	key := func(i uint32) []byte { return keys.Host[int(i)*keys.Width:][:keys.Width] }
	first := make(map[string]uint32, len(met)) // index of the first failed operation on each key
	for _, i := range slices.Backward(met) {
		first[string(key(i))] = i
	}
	var winners []uint32
	for i := range uint32(b.N) {
		at, ok := first[string(key(i))]
		switch {
		case !ok:
			continue
		case i < at: // operation i inserted the key, or was itself a duplicate
			delete(first, string(key(i)))
			continue
		case i == at:
			winners = append(winners, i)
		}
		if flags != nil {
			flags[i] = i == at
		}
	}
	if !stores || len(winners) == 0 {
		return nil
	}
	values := b.Select(batch.Keys)
	values.Kind, values.Columns[batch.Vals] = op.Put, b.Columns[batch.Vals]
	values = values.Gather(winners)
	// map semantics, because each of these keys has a single pair
	values.Flags = t.Policy.MixedFlags() &^ batch.Multi
	remaining, err := Rerun(ctx, t.Engine, values)
	if err == nil && len(remaining) > 0 {
		err = fmt.Errorf("%w: %d of %d keys disappeared during the batch", op.ErrCorrupt,
			len(remaining), len(winners))
	}
	return err
}
