package weft

import (
	"context"
	"iter"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

// Map is a map from K to V whose keys are unique. Packages of structures make
// it; see the package documentation for what all methods have in common.
type Map[K Key, V Value] struct{ mapping[K, V] }

// NewMap is for packages of structures.
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

// mapping is what maps share whose keys are unique.
type mapping[K Key, V Value] struct{ pairs[K, V] }

// GetOrPut looks keys up, inserts those that are absent with the values that vals
// brings, and counts these. Where a key is there, vals receives its value; loaded,
// if not nil, reports where that was so, as sync.Map's LoadOrStore does. Of several
// rows with one absent key the first is inserted, and the others load its value. Rows
// that find no room, and rows of a call that did not come to them, keep their values
// and are not loaded: what is left of the batch can be run again.
//
// A batch whose keys are all there is looked up, and holds no lookup back.
func (m *mapping[K, V]) GetOrPut(ctx context.Context, keys []K, vals []V, loaded []bool) (inserted int, err error) {
	return m.core.GetOrPut(ctx, "GetOrPut", m.batch(op.PutNew, len(keys), batch.Columns{
		batch.Keys: batch.In(keys), batch.Vals: batch.In(vals), batch.OK: batch.Optional(loaded),
	}))
}

// GetOrPutOn is GetOrPut for a batch on the device. loaded may be empty. On a GPU it
// is a PutNewOn and a GetOn, which nothing comes between. With the option
// Unordered any row of several with one absent key is inserted; the others load its
// value all the same. After an error, vals and loaded are what they happen to be.
func (m *mapping[K, V]) GetOrPutOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], loaded device.Slice[bool], inserted ...device.Slice[uint64]) error {
	return m.core.GetOrPutOn(s, "GetOrPutOn", m.batch(op.PutNew, keys.Len(), batch.Columns{
		batch.Keys: batch.InOn(keys), batch.Vals: batch.InOn(vals), batch.OK: batch.OptionalOn(loaded),
	}), inserted...)
}

// Assign looks keys up in a map of ids, and gives absent keys the next of 0, 1, 2, …
// as their values, in the order of the batch: one for all rows with the same key. ids
// receives the values of all keys, and inserted is how many were new. It encodes
// columns as the numbers of their different values.
//
// The next id is one more than the largest that Assign has given, or found in the map,
// since the map was made or cleared. So ids of deleted keys do not come back, those of
// a map that was loaded or copied go on behind the largest that it has, and so they do
// after a Put of a larger value. To find it, the first Assign after other calls that
// may have stored values, and after one that failed, reads the whole map.
//
// No id is given to two keys, and none is left out, also if the call is cancelled or
// some keys find no room: those get 0, and no id. Lookups wait while new keys are
// inserted, on a GPU, too, so that nobody sees an id which is not final.
//
// Ids end at the largest value of type V, or at 1<<63 - 1: keys beyond are [ErrFull], in a
// [PartialError] that says how many rows have been done. Maps with floats as
// values return device.ErrInvalid. There is no form for batches on the device, since the
// host counts the ids, and would have to wait for each.
func (m *mapping[K, V]) Assign(ctx context.Context, keys []K, ids []V) (inserted int, err error) {
	return m.core.Assign(ctx, "Assign", m.batch(op.PutNew, len(keys), batch.Columns{
		batch.Keys: batch.In(keys), batch.Vals: batch.Output(ids),
	}))
}

// Reduce inserts pairs or combines their values with those that are there, and
// counts the keys that were new: sums, counts and extremes of groups. A reduction
// that the values don't have is device.ErrInvalid, and then nothing is run.
func (m *mapping[K, V]) Reduce(ctx context.Context, keys []K, vals []V, by Reduction) (inserted int, err error) {
	return m.core.Reduce(ctx, "Reduce", m.batch(op.Kind(by), len(keys), batch.Columns{
		batch.Keys: batch.In(keys), batch.Vals: batch.In(vals),
	}))
}

// ReduceOn is Reduce for a batch on the device.
func (m *mapping[K, V]) ReduceOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], by Reduction, inserted ...device.Slice[uint64]) error {
	return m.core.ReduceOn(s, "ReduceOn", m.batch(op.Kind(by), keys.Len(), batch.Columns{
		batch.Keys: batch.InOn(keys), batch.Vals: batch.InOn(vals),
	}), inserted...)
}

// pairs is what maps and multimaps share.
type pairs[K Key, V Value] struct{ table[K] }

// Put inserts pairs or replaces values and counts the keys that were new; in a
// multimap it adds the pairs. REPLACE in the SlabHash paper, and its INSERT for
// multimaps.
func (m *pairs[K, V]) Put(ctx context.Context, keys []K, vals []V) (inserted int, err error) {
	return m.core.Change(ctx, "Put", m.batch(op.Put, len(keys), batch.Columns{
		batch.Keys: batch.In(keys), batch.Vals: batch.In(vals),
	}))
}

// PutOn is Put for a batch on the device.
func (m *pairs[K, V]) PutOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], inserted ...device.Slice[uint64]) error {
	return m.core.ChangeOn(s, "PutOn", m.batch(op.Put, keys.Len(), batch.Columns{
		batch.Keys: batch.InOn(keys), batch.Vals: batch.InOn(vals),
	}), inserted...)
}

// PutNew inserts the pairs whose keys are absent and counts them. ok, if not
// nil, reports which.
func (m *pairs[K, V]) PutNew(ctx context.Context, keys []K, vals []V, ok []bool) (inserted int, err error) {
	return m.core.Change(ctx, "PutNew", m.batch(op.PutNew, len(keys), batch.Columns{
		batch.Keys: batch.In(keys), batch.Vals: batch.In(vals), batch.OK: batch.Optional(ok),
	}))
}

// PutNewOn is PutNew for a batch on the device. ok may be empty.
func (m *pairs[K, V]) PutNewOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], ok device.Slice[bool], inserted ...device.Slice[uint64]) error {
	return m.core.ChangeOn(s, "PutNewOn", m.batch(op.PutNew, keys.Len(), batch.Columns{
		batch.Keys: batch.InOn(keys), batch.Vals: batch.InOn(vals), batch.OK: batch.OptionalOn(ok),
	}), inserted...)
}

// Get looks keys up and counts those found; in a multimap, the first value of
// each. vals[i] is zero where the key is absent; found, if not nil, reports
// which are there. SEARCH in the SlabHash paper.
func (m *pairs[K, V]) Get(ctx context.Context, keys []K, vals []V, found []bool) (hits int, err error) {
	return m.core.Get(ctx, "Get", nil, m.batch(op.Get, len(keys), batch.Columns{
		batch.Keys: batch.In(keys), batch.Vals: batch.Output(vals), batch.OK: batch.Optional(found),
	}))
}

// GetOn is Get for a batch on the device, in a single launch. found may be
// empty.
func (m *pairs[K, V]) GetOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], found device.Slice[bool], hits ...device.Slice[uint64]) error {
	return m.core.GetOn(s, "GetOn", nil, m.batch(op.Get, keys.Len(), batch.Columns{
		batch.Keys: batch.InOn(keys), batch.Vals: batch.OutputOn(vals), batch.OK: batch.OptionalOn(found),
	}), hits...)
}

// Apply runs a mixed batch: its operations are concurrent, and what they return
// is explained by some order of them. res may be nil. A kind that the structure
// does not have is device.ErrInvalid, and then nothing is run.
func (m *pairs[K, V]) Apply(ctx context.Context, ops []Op[K, V], res []Result[V]) error {
	return apply(ctx, m.core, ops, res)
}

// ApplyOn is Apply for a batch on the device, in columns: vals holds the values
// of OpPut, OpPutNew, OpUpdate and the reductions and receives those of OpGet and OpPutNew,
// and zeros, except where an operation found no room; ok receives Result.OK and may
// be empty. An operation of a kind that the structure does not have does nothing.
func (m *pairs[K, V]) ApplyOn(s *device.Stream, kinds device.Slice[OpKind], keys device.Slice[K], vals device.Slice[V], ok device.Slice[bool]) error {
	return m.core.ChangeOn(s, "ApplyOn", m.batch(op.Get, keys.Len(), batch.Columns{
		batch.Keys: batch.InOn(keys), batch.Kinds: batch.InOn(kinds), batch.Vals: batch.InOn(vals),
		batch.Out: batch.OutputOn(vals), batch.OK: batch.OptionalOn(ok),
	}))
}

// All iterates over the pairs, but for ordered maps in no order; those of a key of a multimap in
// theirs, but not next to each other. A pair that is not changed meanwhile is
// seen exactly once. An iteration that meets an error ends early: use
// [Map.Pages] to be told.
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

// Page is some pairs of a structure: Keys[i] has Vals[i]. It is valid until the
// loop goes on. A set's pages have no Vals.
type Page[K Key, V Value] struct {
	Keys []K
	Vals []V
}

// Pages iterates as All does, in columns of some hundred thousand pairs. An
// error, or the end of ctx, comes with the last, empty page.
func (m *pairs[K, V]) Pages(ctx context.Context) iter.Seq2[Page[K, V], error] {
	return pages[K, V](ctx, m.core, nil)
}
