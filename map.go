package weft

import (
	"context"
	"iter"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

// Map is a map from K to V with unique keys. Packages of structures make it; see the package
// documentation for what all methods have in common.
type Map[K Key, V Value] struct{ mapping[K, V] }

// NewMap returns the Map of a table. Only packages of structures call it.
func NewMap[K Key, V Value](t *core.Table) *Map[K, V] {
	return &Map[K, V]{mapping[K, V]{pairs[K, V]{table[K]{t}}}}
}

// CopyTo makes a map with the same options and pairs on a device, which must
// outlive it.
func (m *Map[K, V]) CopyTo(ctx context.Context, dev device.Device) (*Map[K, V], error) {
	t, err := m.core.CopyTo(ctx, nil, dev)
	if err != nil {
		return nil, err
	}
	return NewMap[K, V](t), nil
}

// mapping holds the methods that maps with unique keys share.
type mapping[K Key, V Value] struct{ pairs[K, V] }

// GetOrPut looks keys up, inserts absent keys with the values in vals, and counts the insertions.
// For a present key, vals receives its value, and loaded, if not nil, is set, as with sync.Map's
// LoadOrStore. If several rows have one absent key, the first is inserted and the others load its
// value. Rows that overflow, and rows that the call did not reach, keep their values and are not
// loaded, so the rest of the batch can run again.
//
// If all keys of a batch are present, it runs as a lookup and blocks no other lookups.
func (m *mapping[K, V]) GetOrPut(ctx context.Context, keys []K, vals []V, loaded []bool) (inserted int, err error) {
	return m.core.GetOrPut(ctx, "GetOrPut", m.batch(op.PutNew, len(keys), batch.Columns{
		batch.Keys: batch.Input(keys), batch.Vals: batch.Input(vals), batch.OK: batch.Optional(loaded),
	}))
}

// GetOrPutOn is GetOrPut for a batch on the device. loaded may be empty. On a GPU it is a PutNewOn
// and a GetOn, with no change between them. With the option Unordered, any one of several rows with
// the same absent key is inserted; the others still load its value. After an error, vals and loaded
// are undefined.
func (m *mapping[K, V]) GetOrPutOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], loaded device.Slice[bool], inserted ...device.Slice[uint64]) error {
	return m.core.GetOrPutOn(s, "GetOrPutOn", m.batch(op.PutNew, keys.Len(), batch.Columns{
		batch.Keys: batch.InputOn(keys), batch.Vals: batch.InputOn(vals), batch.OK: batch.OptionalOn(loaded),
	}), inserted...)
}

// Assign looks keys up in a map of ids. It gives absent keys the next of 0, 1, 2, … as their
// values, in the order of the batch; all rows with the same key have one id. ids receives the
// values of all keys, and inserted is the number of new keys. Assign dictionary-encodes columns: it
// replaces each value by the number of that value.
//
// The next id is one more than the largest that Assign has given, or found in the map, since the
// map was made or cleared. So ids of deleted keys are not used again. In a map that was loaded or
// copied, or into which a larger value was put, ids continue after the largest value. To find it,
// Assign reads the whole map after other calls that may have stored values, and after an Assign
// that failed.
//
// No id is given to two keys, and none is left out, even if the call is cancelled or some keys
// overflow; those rows get 0 and no id. Lookups wait while new keys are inserted, also on a GPU, so
// that no lookup sees an id that is not final.
//
// Ids end at the largest value of type V, or at 1<<63 - 1. Keys beyond are [ErrFull], in a
// [PartialError] with the number of rows done. Maps with floats as values return device.ErrInvalid.
// Assign has no form for batches on the device, because the host counts the ids and would have to
// wait for each batch.
func (m *mapping[K, V]) Assign(ctx context.Context, keys []K, ids []V) (inserted int, err error) {
	return m.core.Assign(ctx, "Assign", m.batch(op.PutNew, len(keys), batch.Columns{
		batch.Keys: batch.Input(keys), batch.Vals: batch.Output(ids),
	}))
}

// Reduce inserts pairs or combines their values with the stored ones, and counts the new keys. It
// computes sums, counts and extremes of groups. A reduction that the value type lacks is
// device.ErrInvalid, and then nothing runs.
func (m *mapping[K, V]) Reduce(ctx context.Context, keys []K, vals []V, kind Reduction) (inserted int, err error) {
	return m.core.Reduce(ctx, "Reduce", m.batch(op.Kind(kind), len(keys), batch.Columns{
		batch.Keys: batch.Input(keys), batch.Vals: batch.Input(vals),
	}))
}

// ReduceOn is Reduce for a batch on the device.
func (m *mapping[K, V]) ReduceOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], kind Reduction, inserted ...device.Slice[uint64]) error {
	return m.core.ReduceOn(s, "ReduceOn", m.batch(op.Kind(kind), keys.Len(), batch.Columns{
		batch.Keys: batch.InputOn(keys), batch.Vals: batch.InputOn(vals),
	}), inserted...)
}

// pairs holds the methods that maps and multimaps share.
type pairs[K Key, V Value] struct{ table[K] }

// Put inserts pairs or replaces values, and counts the new keys; in a multimap it adds the pairs.
// REPLACE in the SlabHash paper, and its INSERT for multimaps.
func (m *pairs[K, V]) Put(ctx context.Context, keys []K, vals []V) (inserted int, err error) {
	return m.core.Change(ctx, "Put", m.batch(op.Put, len(keys), batch.Columns{
		batch.Keys: batch.Input(keys), batch.Vals: batch.Input(vals),
	}))
}

// PutOn is Put for a batch on the device.
func (m *pairs[K, V]) PutOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], inserted ...device.Slice[uint64]) error {
	return m.core.ChangeOn(s, "PutOn", m.batch(op.Put, keys.Len(), batch.Columns{
		batch.Keys: batch.InputOn(keys), batch.Vals: batch.InputOn(vals),
	}), inserted...)
}

// PutNew inserts the pairs with absent keys and counts them. ok, if not nil, reports which.
func (m *pairs[K, V]) PutNew(ctx context.Context, keys []K, vals []V, ok []bool) (inserted int, err error) {
	return m.core.Change(ctx, "PutNew", m.batch(op.PutNew, len(keys), batch.Columns{
		batch.Keys: batch.Input(keys), batch.Vals: batch.Input(vals), batch.OK: batch.Optional(ok),
	}))
}

// PutNewOn is PutNew for a batch on the device. ok may be empty.
func (m *pairs[K, V]) PutNewOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], ok device.Slice[bool], inserted ...device.Slice[uint64]) error {
	return m.core.ChangeOn(s, "PutNewOn", m.batch(op.PutNew, keys.Len(), batch.Columns{
		batch.Keys: batch.InputOn(keys), batch.Vals: batch.InputOn(vals), batch.OK: batch.OptionalOn(ok),
	}), inserted...)
}

// Get looks keys up and counts those found; in a multimap it returns the first value of each.
// vals[i] is zero where the key is absent; found, if not nil, reports which keys are present.
// SEARCH in the SlabHash paper.
func (m *pairs[K, V]) Get(ctx context.Context, keys []K, vals []V, found []bool) (hits int, err error) {
	return m.core.Get(ctx, "Get", nil, m.batch(op.Get, len(keys), batch.Columns{
		batch.Keys: batch.Input(keys), batch.Vals: batch.Output(vals), batch.OK: batch.Optional(found),
	}))
}

// GetOn is Get for a batch on the device, in a single launch. found may be empty.
func (m *pairs[K, V]) GetOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], found device.Slice[bool], hits ...device.Slice[uint64]) error {
	return m.core.GetOn(s, "GetOn", nil, m.batch(op.Get, keys.Len(), batch.Columns{
		batch.Keys: batch.InputOn(keys), batch.Vals: batch.OutputOn(vals), batch.OK: batch.OptionalOn(found),
	}), hits...)
}

// Apply runs a mixed batch. Its operations are concurrent: some order of them explains their
// results. res may be nil. A kind that the structure lacks is device.ErrInvalid, and then nothing
// runs.
func (m *pairs[K, V]) Apply(ctx context.Context, ops []Op[K, V], res []Result[V]) error {
	return apply(ctx, m.core, ops, res)
}

// ApplyOn is Apply for a batch on the device, in columns. vals holds the values of OpPut, OpPutNew,
// OpUpdate and the reductions. It receives the values of OpGet and OpPutNew, and zeros for the
// rest, except where an operation overflowed. ok receives Result.OK and may be empty. An operation
// of a kind that the structure lacks does nothing.
func (m *pairs[K, V]) ApplyOn(s *device.Stream, kinds device.Slice[OpKind], keys device.Slice[K], vals device.Slice[V], ok device.Slice[bool]) error {
	return m.core.ChangeOn(s, "ApplyOn", m.batch(op.Get, keys.Len(), batch.Columns{
		batch.Keys: batch.InputOn(keys), batch.Kinds: batch.InputOn(kinds), batch.Vals: batch.InputOn(vals),
		batch.Out: batch.OutputOn(vals), batch.OK: batch.OptionalOn(ok),
	}))
}

// All iterates over the pairs: in no order, or in key order for ordered maps. The pairs of one key
// of a multimap come in their order, but not next to each other. A pair that does not change
// meanwhile is seen exactly once. An iteration that meets an error ends early; [Map.Pages] reports
// the error.
func (m *pairs[K, V]) All() iter.Seq2[K, V] {
	return each(m.Pages(context.Background()))
}

// each iterates over the pairs of pages.
func each[K Key, V Value](pages iter.Seq2[Page[K, V], error]) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for p := range pages {
			for i, k := range p.Keys {
				if !yield(k, p.Vals[i]) {
					return
				}
			}
		}
	}
}

// Page holds some pairs of a structure: Keys[i] has Vals[i]. It is valid until the next iteration
// of the loop. A set's pages have no Vals.
type Page[K Key, V Value] struct {
	Keys []K
	Vals []V
}

// Pages iterates as All does, in columns of a few hundred thousand pairs. An error, or the end of
// ctx, comes with the last, empty page.
func (m *pairs[K, V]) Pages(ctx context.Context) iter.Seq2[Page[K, V], error] {
	return pages[K, V](ctx, m.core, nil)
}
