package core

import (
	"context"
	"fmt"
	"slices"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

// firstWins decides what becomes of operations that found no room, and whose keys other operations
// of the batch inserted. met lists them, ascending. The first operation on a key is the one that has
// inserted it: its flag says so and, of PutNews, its value counts. Engines decide that within a
// launch; a later launch may find room that an earlier one did not.
func (t *Table) firstWins(ctx context.Context, b *batch.Batch, met []uint32) error {
	flags := batch.View[bool](b.Columns[batch.OK].Host)
	stores := b.Kind == op.PutNew && b.Columns[batch.Vals].Given()
	if len(met) == 0 || flags == nil && !stores {
		return nil
	}
	keys := b.Columns[batch.Keys]
	key := func(i uint32) []byte { return keys.Host[int(i)*keys.Width:][:keys.Width] }
	first := make(map[string]uint32, len(met)) // of the operations on a key
	for _, i := range slices.Backward(met) {
		first[string(key(i))] = i
	}
	var winners []uint32
	for i := range uint32(b.N) {
		at, ok := first[string(key(i))]
		switch {
		case !ok:
			continue
		case i < at: // it found room, or met one that did
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
	values := b.Only(batch.Keys)
	values.Kind, values.Columns[batch.Vals] = op.Put, b.Columns[batch.Vals]
	values = values.Gather(winners)
	values.Flags = t.Policy.Mixed() &^ batch.Multi // as in a map: no key has two pairs of this batch
	still, err := Rerun(ctx, t.Engine, values)
	if err == nil && len(still) > 0 {
		err = fmt.Errorf("%w: %d of %d keys that were there have gone", op.ErrCorrupt, len(still), len(winners))
	}
	return err
}
