package weft

import (
	"context"
	"slices"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

// MultiMap is a map from K to V in which a key may have several pairs. The pairs of a key keep the
// order of the batches that added them. Pairs of a key that one batch added are in batch order on a
// CPU, and in any order on a GPU. The package comment states the rules that all methods share.
type MultiMap[K Key, V Value] struct{ pairs[K, V] }

// NewMultiMap returns the MultiMap of a table. Only packages that implement structures call it.
func NewMultiMap[K Key, V Value](t *core.Table) *MultiMap[K, V] {
	return &MultiMap[K, V]{pairs[K, V]{table[K]{t}}}
}

// CopyTo makes a multimap on dev with the same options and pairs. dev must stay open longer than
// the copy. See [MultiMap.Load] for the order of the pairs.
func (m *MultiMap[K, V]) CopyTo(ctx context.Context, dev device.Device) (*MultiMap[K, V], error) {
	t, err := m.core.CopyTo(ctx, nil, dev)
	if err != nil {
		return nil, err
	}
	return NewMultiMap[K, V](t), nil
}

// Rows holds zero or more values for each row of a batch. The values of row i are
// Vals[Offsets[i]:Offsets[i+1]]. The zero Rows is empty.
type Rows[V Value] struct {
	Offsets []uint64 // one more than the number of rows
	Vals    []V
}

// Len returns the number of rows.
func (r *Rows[V]) Len() int { return max(0, len(r.Offsets)-1) }

// Row returns the values of row i.
func (r *Rows[V]) Row(i int) []V { return r.Vals[r.Offsets[i]:r.Offsets[i+1]] }

// Reset drops all rows and keeps the allocated memory.
func (r *Rows[V]) Reset() { r.Offsets, r.Vals = r.Offsets[:0], r.Vals[:0] }

// GetAll looks up all values of each key, in order, and appends them to rows, one row per key. It
// reads the pairs twice, first to count and then to copy them. If the values would take more memory
// than Options.ResultLimit, GetAll returns device.ErrMemory. It may miss or find pairs that a
// concurrent call deletes, but returns only values that the key has had. After an error, rows is
// unchanged. The SlabHash paper calls it SEARCHALL.
func (m *MultiMap[K, V]) GetAll(ctx context.Context, keys []K, rows *Rows[V]) error {
	at, first := max(0, len(rows.Offsets)-1), len(rows.Vals)
	offsets := slices.Grow(rows.Offsets[:at], len(keys)+1)[:at+len(keys)+1]
	offsets[at] = uint64(first)
	vals := rows.Vals
	err := m.core.Expand(ctx, "GetAll", nil, m.batch(op.Get, len(keys), batch.Columns{batch.Keys: batch.Input(keys)}),
		offsets[at:], func(n int) batch.Columns {
			vals = slices.Grow(vals, n)[:first+n]
			return batch.Columns{batch.Vals: batch.Output(vals[first:])}
		})
	if err == nil {
		rows.Offsets, rows.Vals = offsets, vals[:offsets[len(offsets)-1]]
	}
	return err
}

// GetAllOn looks up all values of keys that lie in device memory. counts receives the number of
// values of each key. offsets is one longer than keys. It receives the index in vals at which the
// values of each key begin, and in its last element the total number of values. vals receives as
// many values as fit. If another stream changes the map meanwhile, vals may have gaps.
func (m *MultiMap[K, V]) GetAllOn(s *device.Stream, keys device.Slice[K], counts device.Slice[uint32], offsets device.Slice[uint64], vals device.Slice[V]) error {
	return m.core.ExpandOn(s, "GetAllOn", nil, m.batch(op.Get, keys.Len(), batch.Columns{
		batch.Keys: batch.InputOn(keys), batch.Counts: batch.OutputOn(counts), batch.Offsets: batch.OffsetsOn(offsets),
		batch.Vals: batch.RowsOn(vals),
	}))
}

// Count counts the pairs of each key and returns the total. counts may be nil.
func (m *MultiMap[K, V]) Count(ctx context.Context, keys []K, counts []uint32) (total int, err error) {
	return m.core.Count(ctx, "Count", nil, m.batch(op.Get, len(keys), batch.Columns{
		batch.Keys: batch.Input(keys), batch.Counts: batch.Optional(counts),
	}))
}

// CountOn counts the pairs of each key that lies in device memory. It computes no total.
func (m *MultiMap[K, V]) CountOn(s *device.Stream, keys device.Slice[K], counts device.Slice[uint32]) error {
	return m.core.GetOn(s, "CountOn", nil, m.batch(op.Get, keys.Len(), batch.Columns{
		batch.Keys: batch.InputOn(keys), batch.Counts: batch.OutputOn(counts),
	}))
}

// DeleteAll removes all pairs of the keys and counts the pairs removed. removed, if not nil,
// receives the number of pairs removed for each key. The SlabHash paper calls it DELETEALL.
func (m *MultiMap[K, V]) DeleteAll(ctx context.Context, keys []K, removed []uint32) (n int, err error) {
	delta, err := m.core.Change(ctx, "DeleteAll", m.batch(op.DeleteAll, len(keys), batch.Columns{
		batch.Keys: batch.Input(keys), batch.Counts: batch.Optional(removed),
	}))
	return -delta, err
}

// DeleteAllOn removes all pairs of keys that lie in device memory. removed may be empty. See
// [MultiMap.DeleteAll].
func (m *MultiMap[K, V]) DeleteAllOn(s *device.Stream, keys device.Slice[K], removed device.Slice[uint32], n ...device.Slice[uint64]) error {
	return m.core.ChangeOn(s, "DeleteAllOn", m.batch(op.DeleteAll, keys.Len(), batch.Columns{
		batch.Keys: batch.InputOn(keys), batch.Counts: batch.OptionalOn(removed),
	}), n...)
}
