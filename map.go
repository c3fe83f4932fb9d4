package weft

import (
	"context"
	"iter"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

// Map is a map from K to V with unique keys. The constructors of packages such as linear and slab
// return it. The package comment states the rules that all methods share.
type Map[K Key, V Value] struct{ mapping[K, V] }

// NewMap returns the Map of a table. Only packages that implement structures call it.
func NewMap[K Key, V Value](t *core.Table) *Map[K, V] {
	return &Map[K, V]{mapping[K, V]{pairs[K, V]{table[K]{t}}}}
}

// CopyTo makes a map on dev with the same options and pairs. dev must stay open longer than the
// copy.
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
// For a present key it stores the key's value in vals and sets loaded, like LoadOrStore of
// sync.Map. loaded may be nil. If several rows have the same absent key, the first row is inserted
// and the other rows load its value. A row that overflows or is not reached keeps its value, and
// its loaded is false. So the caller can run the rest of the batch again.
//
// If all keys are present, GetOrPut runs as a lookup and does not block other lookups.
func (m *mapping[K, V]) GetOrPut(ctx context.Context, keys []K, vals []V, loaded []bool) (inserted int, err error) {
	return m.core.GetOrPut(ctx, "GetOrPut", m.batch(op.PutNew, len(keys), batch.Columns{
		batch.Keys: batch.Input(keys), batch.Vals: batch.Input(vals), batch.OK: batch.Optional(loaded),
	}))
}

// GetOrPutOn runs GetOrPut on keys and values in device memory. loaded may be empty. On a GPU it
// submits a PutNewOn and a GetOn, with no change between them. With the option Unordered, any of
// the rows with the same absent key may be inserted; the other rows still load its value. After an
// error, vals and loaded are undefined.
func (m *mapping[K, V]) GetOrPutOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], loaded device.Slice[bool], inserted ...device.Slice[uint64]) error {
	return m.core.GetOrPutOn(s, "GetOrPutOn", m.batch(op.PutNew, keys.Len(), batch.Columns{
		batch.Keys: batch.InputOn(keys), batch.Vals: batch.InputOn(vals), batch.OK: batch.OptionalOn(loaded),
	}), inserted...)
}

// Assign looks keys up in a map of ids. It inserts absent keys with the ids 0, 1, 2, … as their
// values, in the order of the batch; rows with equal keys get the same id. ids receives the value
// of each key, and inserted is the number of new keys. Assign dictionary-encodes columns: it
// replaces each distinct entry by a small number.
//
// The next id is one more than the largest id that Assign has inserted or found since the map was
// made or cleared. So ids of deleted keys are not used again. If the map was loaded or copied, or
// if a larger value was put, ids continue after the largest value. To find that value, Assign reads
// the whole map after other calls that may have stored values, and after an Assign that failed.
//
// No two keys get the same id, and no id is skipped, even if the call is cancelled or some keys
// overflow. The rows of such keys receive 0, and their keys have no id. Lookups wait while new keys
// are inserted, also on a GPU, so that no lookup sees an id that is not final.
//
// Ids end at the largest value of type V, or at 1<<63 - 1. If no id is left for a key, Assign
// returns [ErrFull] in a [PartialError] with the number of rows done. A map with float values
// returns device.ErrInvalid. Assign has no On form, because the host counts the ids and would have
// to wait for each batch.
func (m *mapping[K, V]) Assign(ctx context.Context, keys []K, ids []V) (inserted int, err error) {
	return m.core.Assign(ctx, "Assign", m.batch(op.PutNew, len(keys), batch.Columns{
		batch.Keys: batch.Input(keys), batch.Vals: batch.Output(ids),
	}))
}

// Reduce inserts each pair, or combines its value with the stored value, and counts the new keys.
// It computes sums, counts, minima and maxima of groups. If the value type lacks the reduction,
// Reduce returns device.ErrInvalid and changes nothing.
func (m *mapping[K, V]) Reduce(ctx context.Context, keys []K, vals []V, kind Reduction) (inserted int, err error) {
	return m.core.Reduce(ctx, "Reduce", m.batch(op.Kind(kind), len(keys), batch.Columns{
		batch.Keys: batch.Input(keys), batch.Vals: batch.Input(vals),
	}))
}

// ReduceOn reduces pairs that lie in device memory. See [Map.Reduce].
func (m *mapping[K, V]) ReduceOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], kind Reduction, inserted ...device.Slice[uint64]) error {
	return m.core.ReduceOn(s, "ReduceOn", m.batch(op.Kind(kind), keys.Len(), batch.Columns{
		batch.Keys: batch.InputOn(keys), batch.Vals: batch.InputOn(vals),
	}), inserted...)
}

// pairs holds the methods that maps and multimaps share.
type pairs[K Key, V Value] struct{ table[K] }

// Put inserts pairs or replaces the values of present keys, and counts the new keys. In a multimap
// it adds all pairs. The SlabHash paper calls it REPLACE, or INSERT in multimaps.
func (m *pairs[K, V]) Put(ctx context.Context, keys []K, vals []V) (inserted int, err error) {
	return m.core.Change(ctx, "Put", m.batch(op.Put, len(keys), batch.Columns{
		batch.Keys: batch.Input(keys), batch.Vals: batch.Input(vals),
	}))
}

// PutOn puts pairs that lie in device memory. See [Map.Put].
func (m *pairs[K, V]) PutOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], inserted ...device.Slice[uint64]) error {
	return m.core.ChangeOn(s, "PutOn", m.batch(op.Put, keys.Len(), batch.Columns{
		batch.Keys: batch.InputOn(keys), batch.Vals: batch.InputOn(vals),
	}), inserted...)
}

// PutNew inserts the pairs with absent keys and counts them. ok[i], if ok is not nil, reports
// whether pair i was inserted.
func (m *pairs[K, V]) PutNew(ctx context.Context, keys []K, vals []V, ok []bool) (inserted int, err error) {
	return m.core.Change(ctx, "PutNew", m.batch(op.PutNew, len(keys), batch.Columns{
		batch.Keys: batch.Input(keys), batch.Vals: batch.Input(vals), batch.OK: batch.Optional(ok),
	}))
}

// PutNewOn inserts those of the pairs in device memory that have absent keys. ok may be empty. See
// [Map.PutNew].
func (m *pairs[K, V]) PutNewOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], ok device.Slice[bool], inserted ...device.Slice[uint64]) error {
	return m.core.ChangeOn(s, "PutNewOn", m.batch(op.PutNew, keys.Len(), batch.Columns{
		batch.Keys: batch.InputOn(keys), batch.Vals: batch.InputOn(vals), batch.OK: batch.OptionalOn(ok),
	}), inserted...)
}

// Get looks keys up and counts the keys found. vals[i] receives the value of keys[i], in a multimap
// its first value, or zero if the key is absent. found[i], if found is not nil, reports whether
// keys[i] is present. The SlabHash paper calls it SEARCH.
func (m *pairs[K, V]) Get(ctx context.Context, keys []K, vals []V, found []bool) (hits int, err error) {
	return m.core.Get(ctx, "Get", nil, m.batch(op.Get, len(keys), batch.Columns{
		batch.Keys: batch.Input(keys), batch.Vals: batch.Output(vals), batch.OK: batch.Optional(found),
	}))
}

// GetOn looks up keys that lie in device memory, in a single launch. found may be empty. See
// [Map.Get].
func (m *pairs[K, V]) GetOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], found device.Slice[bool], hits ...device.Slice[uint64]) error {
	return m.core.GetOn(s, "GetOn", nil, m.batch(op.Get, keys.Len(), batch.Columns{
		batch.Keys: batch.InputOn(keys), batch.Vals: batch.OutputOn(vals), batch.OK: batch.OptionalOn(found),
	}), hits...)
}

// Apply runs a mixed batch. Its operations are concurrent: the results match some order of the
// operations. res may be nil. If the structure lacks one of the kinds, Apply returns
// device.ErrInvalid and runs nothing.
func (m *pairs[K, V]) Apply(ctx context.Context, ops []Op[K, V], res []Result[V]) error {
	return apply(ctx, m.core, ops, res)
}

// ApplyOn runs a mixed batch that lies in device memory, in columns. vals holds the values of
// OpPut, OpPutNew, OpUpdate and the reductions. It receives the values of OpGet and OpPutNew, and
// zero for the other kinds; for an operation that overflows, vals stays unchanged. ok receives
// Result.OK and may be empty. An operation has no effect if the structure lacks its kind.
func (m *pairs[K, V]) ApplyOn(s *device.Stream, kinds device.Slice[OpKind], keys device.Slice[K], vals device.Slice[V], ok device.Slice[bool]) error {
	return m.core.ChangeOn(s, "ApplyOn", m.batch(op.Get, keys.Len(), batch.Columns{
		batch.Keys: batch.InputOn(keys), batch.Kinds: batch.InputOn(kinds), batch.Vals: batch.InputOn(vals),
		batch.Out: batch.OutputOn(vals), batch.OK: batch.OptionalOn(ok),
	}))
}

// All iterates over the pairs, in ordered maps in key order, otherwise in no order. The pairs of
// one key of a multimap come in their order, but not next to each other. A pair that does not
// change during the iteration is seen exactly once. An iteration ends early after an error;
// [Map.Pages] reports the error.
func (m *pairs[K, V]) All() iter.Seq2[K, V] {
	return each(m.Pages(context.Background()))
}

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

// Page holds part of the pairs of a structure: Vals[i] is the value of Keys[i]. It is valid until
// the next iteration of the loop. The pages of a set have no Vals.
type Page[K Key, V Value] struct {
	Keys []K
	Vals []V
}

// Pages iterates like All, in pages of a few hundred thousand pairs. If an error occurs or ctx
// ends, the last page is empty and comes with the error.
func (m *pairs[K, V]) Pages(ctx context.Context) iter.Seq2[Page[K, V], error] {
	return pages[K, V](ctx, m.core, nil)
}
