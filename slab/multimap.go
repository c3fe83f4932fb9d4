package slab

import (
	"context"
	"fmt"
	"iter"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// MultiMap is a hash map from K to V in which a key may have several pairs.
// The pairs of a key are in the order of the batches that added them; those of
// one batch are in batch order on a CPU and in any order on a GPU. The first
// one is the least recent.
type MultiMap[K weft.Key, V weft.Value] struct {
	table *table
	pages pager
}

// NewMultiMap makes an empty multimap on a device, which must outlive it.
// Errors as of [New].
func NewMultiMap[K weft.Key, V weft.Value](dev device.Device, opts *Options) (*MultiMap[K, V], error) {
	t, err := newTable(dev, "multimap", batch.MapWidths[K, V](), true, opts)
	if err != nil {
		return nil, err
	}
	return &MultiMap[K, V]{table: t}, nil
}

// Put adds pairs and counts them. The paper's INSERT.
func (m *MultiMap[K, V]) Put(ctx context.Context, keys []K, vals []V) (inserted int, err error) {
	batch.MustMatch(room, "Put", "vals", len(keys), len(vals))
	return m.table.change(ctx, "Put", &batch.Batch{
		N: len(keys), Kind: weft.OpPut, Flags: m.table.flagsFor(weft.OpPut),
		Keys: batch.Host(keys), Vals: batch.Host(vals),
	})
}

// PutNew adds the pairs whose keys are absent and counts them. ok, if not nil,
// reports which. Of duplicates, the first one in the batch is added (any one
// with Options.Unordered).
func (m *MultiMap[K, V]) PutNew(ctx context.Context, keys []K, vals []V, ok []bool) (inserted int, err error) {
	batch.MustMatch(room, "PutNew", "vals", len(keys), len(vals))
	batch.MustMatchOptional(room, "PutNew", "ok", len(keys), ok)
	return m.table.change(ctx, "PutNew", &batch.Batch{
		N: len(keys), Kind: weft.OpPutNew, Flags: m.table.flagsFor(weft.OpPutNew),
		Keys: batch.Host(keys), Vals: batch.Host(vals), OK: batch.Host(ok),
	})
}

// Get looks up the first value of each key and counts the keys found. vals[i]
// is zero where the key is absent; found, if not nil, reports which are there.
// The paper's SEARCH.
func (m *MultiMap[K, V]) Get(ctx context.Context, keys []K, vals []V, found []bool) (hits int, err error) {
	batch.MustMatch(room, "Get", "vals", len(keys), len(vals))
	batch.MustMatchOptional(room, "Get", "found", len(keys), found)
	return m.table.get(ctx, "Get", &batch.Batch{
		N: len(keys), Keys: batch.Host(keys), Vals: batch.Host(vals), OK: batch.Host(found),
	})
}

// GetAll looks up all values of each key: those of keys[i] are
// vals[offsets[i]:offsets[i+1]], the first one first. It goes through the
// chains twice, to count and to copy. The paper's SEARCHALL.
func (m *MultiMap[K, V]) GetAll(ctx context.Context, keys []K) (offsets []int, vals []V, err error) {
	rows := make([]uint64, len(keys)+1)
	err = m.table.collect(ctx, "GetAll", &batch.Batch{N: len(keys), Keys: batch.Host(keys)}, rows, func(n int) []byte {
		vals = make([]V, n)
		return device.Bytes(vals)
	})
	if err != nil {
		return nil, nil, err
	}
	offsets = make([]int, len(rows))
	for i, r := range rows {
		offsets[i] = int(r)
	}
	return offsets, vals, nil
}

// Count counts the pairs of each key, and altogether. counts may be nil.
func (m *MultiMap[K, V]) Count(ctx context.Context, keys []K, counts []int) (total int, err error) {
	batch.MustMatchOptional(room, "Count", "counts", len(keys), counts)
	rows := make([]uint32, len(keys))
	if err := m.table.tally(ctx, "Count", &batch.Batch{N: len(keys), Keys: batch.Host(keys)}, rows); err != nil {
		return 0, err
	}
	return widen(counts, rows), nil
}

// widen copies counts, if there is a place for them, and adds them up.
func widen(to []int, from []uint32) (total int) {
	for i, n := range from {
		if to != nil {
			to[i] = int(n)
		}
		total += int(n)
	}
	return total
}

// Contains counts the keys that are there; found, if not nil, reports which.
func (m *MultiMap[K, V]) Contains(ctx context.Context, keys []K, found []bool) (hits int, err error) {
	batch.MustMatchOptional(room, "Contains", "found", len(keys), found)
	return m.table.get(ctx, "Contains", &batch.Batch{N: len(keys), Keys: batch.Host(keys), OK: batch.Host(found)})
}

// Delete removes the first pair of each key and counts them: of a key that is
// twice in the batch, two pairs. deleted, if not nil, reports which operations
// found one; of duplicates, the first ones on a CPU, any on a GPU. The paper's
// DELETE.
func (m *MultiMap[K, V]) Delete(ctx context.Context, keys []K, deleted []bool) (n int, err error) {
	batch.MustMatchOptional(room, "Delete", "deleted", len(keys), deleted)
	delta, err := m.table.change(ctx, "Delete", &batch.Batch{
		N: len(keys), Kind: weft.OpDelete, Flags: m.table.flagsFor(weft.OpDelete),
		Keys: batch.Host(keys), OK: batch.Host(deleted),
	})
	return -delta, err
}

// DeleteAll removes all pairs of the keys and counts them. removed, if not
// nil, tells how many each operation removed; of duplicates, the first one all
// of them on a CPU, each one some of them on a GPU. The paper's DELETEALL.
func (m *MultiMap[K, V]) DeleteAll(ctx context.Context, keys []K, removed []int) (n int, err error) {
	batch.MustMatchOptional(room, "DeleteAll", "removed", len(keys), removed)
	var counts []uint32
	if removed != nil {
		counts = make([]uint32, len(keys))
	}
	delta, err := m.table.change(ctx, "DeleteAll", &batch.Batch{
		N: len(keys), Kind: weft.OpDeleteAll, Flags: m.table.flagsFor(weft.OpDeleteAll),
		Keys: batch.Host(keys), Counts: batch.Host(counts),
	})
	widen(removed, counts)
	return -delta, err
}

// Apply runs a mixed batch, as [Map.Apply] does: OpPut adds a pair, OpDelete
// removes the first one of the key, OpDeleteAll all of them, one after another.
func (m *MultiMap[K, V]) Apply(ctx context.Context, ops []weft.Op[K, V], res []weft.Result[V]) error {
	return apply(ctx, m.table, ops, res, weft.OpDeleteAll)
}

// Len is the number of pairs. It waits for submitted batches.
func (m *MultiMap[K, V]) Len() int { return m.table.length() }

// All iterates over the pairs as [Map.All] does. Those of a key come in their
// order, but not next to each other.
func (m *MultiMap[K, V]) All() iter.Seq2[K, V] { return pairs[K, V](m.table, &m.pages) }

// Err is the error that ended the last iteration early, or nil.
func (m *MultiMap[K, V]) Err() error { return m.pages.err() }

// Clear removes everything and keeps the memory.
func (m *MultiMap[K, V]) Clear(ctx context.Context) error { return m.table.clear(ctx, "Clear") }

// Flush is [Map.Flush]. A multimap does not use the slots of deleted pairs
// again, so there is more to flush than in a map.
func (m *MultiMap[K, V]) Flush(ctx context.Context) error { return m.table.flush(ctx, "Flush") }

// Compact is [Map.Compact].
func (m *MultiMap[K, V]) Compact(ctx context.Context) error { return m.table.compact(ctx, "Compact") }

// Stats looks at every bucket; see [Stats].
func (m *MultiMap[K, V]) Stats(ctx context.Context) (Stats, error) { return m.table.stats(ctx) }

// Close frees the multimap. Idempotent; later calls return [weft.ErrClosed].
func (m *MultiMap[K, V]) Close() error { return m.table.close() }

// ---- batches on the device, see Map.PutOn ------------------------------------

// PutOn is Put for a batch on the device.
func (m *MultiMap[K, V]) PutOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V]) error {
	batch.MustMatch(room, "PutOn", "vals", keys.Len(), vals.Len())
	return m.table.changeOn(s, "PutOn", &batch.Batch{
		N: keys.Len(), Kind: weft.OpPut, Flags: m.table.flagsFor(weft.OpPut),
		Keys: batch.On(keys), Vals: batch.On(vals),
	})
}

// PutNewOn is PutNew for a batch on the device. ok may be empty.
func (m *MultiMap[K, V]) PutNewOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], ok device.Slice[bool]) error {
	batch.MustMatch(room, "PutNewOn", "vals", keys.Len(), vals.Len())
	batch.MustMatchSlice(room, "PutNewOn", "ok", keys.Len(), ok)
	return m.table.changeOn(s, "PutNewOn", &batch.Batch{
		N: keys.Len(), Kind: weft.OpPutNew, Flags: m.table.flagsFor(weft.OpPutNew),
		Keys: batch.On(keys), Vals: batch.On(vals), OK: batch.On(ok),
	})
}

// GetOn is Get for a batch on the device, in a single launch. found may be
// empty.
func (m *MultiMap[K, V]) GetOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], found device.Slice[bool]) error {
	batch.MustMatch(room, "GetOn", "vals", keys.Len(), vals.Len())
	batch.MustMatchSlice(room, "GetOn", "found", keys.Len(), found)
	return m.table.getOn(s, "GetOn", &batch.Batch{
		N: keys.Len(), Keys: batch.On(keys), Vals: batch.On(vals), OK: batch.On(found),
	})
}

// GetAllOn is GetAll for a batch on the device. counts receives the number of
// values of each key. offsets, one longer than keys, receives where in vals
// those of each key begin, and last how many there are; vals receives as many
// as it has room for. A change submitted to another stream meanwhile may leave
// gaps in vals.
func (m *MultiMap[K, V]) GetAllOn(s *device.Stream, keys device.Slice[K], counts device.Slice[uint32], offsets device.Slice[uint64], vals device.Slice[V]) error {
	batch.MustMatch(room, "GetAllOn", "counts", keys.Len(), counts.Len())
	if offsets.Len() != keys.Len()+1 {
		panic(fmt.Sprintf("slab: GetAllOn: %d keys, but len(offsets) = %d, not one more", keys.Len(), offsets.Len()))
	}
	b := &batch.Batch{N: keys.Len(), Keys: batch.On(keys), Vals: batch.On(vals), Counts: batch.On(counts)}
	rows := batch.On(offsets)
	return m.table.lookOn(s, "GetAllOn", b, func() error {
		if err := rows.Lies(m.table.dev); err != nil {
			return err
		}
		return m.table.engine.collectOn(s, b, b.Counts, rows, vals.Len())
	})
}

// CountOn is Count for a batch on the device.
func (m *MultiMap[K, V]) CountOn(s *device.Stream, keys device.Slice[K], counts device.Slice[uint32]) error {
	batch.MustMatch(room, "CountOn", "counts", keys.Len(), counts.Len())
	b := &batch.Batch{N: keys.Len(), Keys: batch.On(keys), Counts: batch.On(counts)}
	return m.table.lookOn(s, "CountOn", b, func() error { return m.table.engine.tallyOn(s, b, b.Counts) })
}

// ContainsOn is Contains for a batch on the device.
func (m *MultiMap[K, V]) ContainsOn(s *device.Stream, keys device.Slice[K], found device.Slice[bool]) error {
	batch.MustMatch(room, "ContainsOn", "found", keys.Len(), found.Len())
	return m.table.getOn(s, "ContainsOn", &batch.Batch{N: keys.Len(), Keys: batch.On(keys), OK: batch.On(found)})
}

// DeleteOn is Delete for a batch on the device. deleted may be empty.
func (m *MultiMap[K, V]) DeleteOn(s *device.Stream, keys device.Slice[K], deleted device.Slice[bool]) error {
	batch.MustMatchSlice(room, "DeleteOn", "deleted", keys.Len(), deleted)
	return m.table.changeOn(s, "DeleteOn", &batch.Batch{
		N: keys.Len(), Kind: weft.OpDelete, Flags: m.table.flagsFor(weft.OpDelete),
		Keys: batch.On(keys), OK: batch.On(deleted),
	})
}

// DeleteAllOn is DeleteAll for a batch on the device. removed may be empty.
func (m *MultiMap[K, V]) DeleteAllOn(s *device.Stream, keys device.Slice[K], removed device.Slice[uint32]) error {
	batch.MustMatchSlice(room, "DeleteAllOn", "removed", keys.Len(), removed)
	return m.table.changeOn(s, "DeleteAllOn", &batch.Batch{
		N: keys.Len(), Kind: weft.OpDeleteAll, Flags: m.table.flagsFor(weft.OpDeleteAll),
		Keys: batch.On(keys), Counts: batch.On(removed),
	})
}

// ApplyOn is Apply for a batch on the device, in columns, as [Map.ApplyOn].
func (m *MultiMap[K, V]) ApplyOn(s *device.Stream, kinds device.Slice[weft.OpKind], keys device.Slice[K], vals device.Slice[V], ok device.Slice[bool]) error {
	return applyOn(m.table, s, kinds, keys, vals, ok)
}

// Sync is [Map.Sync].
func (m *MultiMap[K, V]) Sync(ctx context.Context) error { return m.table.sync(ctx, "Sync") }
