package slab

import (
	"context"
	"iter"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// Map is a hash map from K to V, whose keys are unique. See the package
// documentation for what it promises about concurrency, duplicates and errors.
type Map[K weft.Key, V weft.Value] struct {
	table *table
	pages pager
}

// New makes an empty map on a device, which must outlive it. Errors:
// [weft.ErrOptions], [device.ErrMemory], and those of loading kernels.
func New[K weft.Key, V weft.Value](dev device.Device, opts *Options) (*Map[K, V], error) {
	t, err := newTable(dev, "map", batch.MapWidths[K, V](), false, opts)
	if err != nil {
		return nil, err
	}
	return &Map[K, V]{table: t}, nil
}

// Put inserts pairs or replaces values and counts the keys that were new. Of
// duplicates, the last one in the batch wins (any one with
// Options.Unordered). The paper's REPLACE.
func (m *Map[K, V]) Put(ctx context.Context, keys []K, vals []V) (inserted int, err error) {
	batch.MustMatch(room, "Put", "vals", len(keys), len(vals))
	return m.table.change(ctx, "Put", &batch.Batch{
		N: len(keys), Kind: weft.OpPut, Flags: m.table.flagsFor(weft.OpPut),
		Keys: batch.Host(keys), Vals: batch.Host(vals),
	})
}

// PutNew inserts the pairs whose keys are absent and counts them. ok, if not
// nil, reports which. Of duplicates, the first one in the batch is inserted
// (any one with Options.Unordered).
func (m *Map[K, V]) PutNew(ctx context.Context, keys []K, vals []V, ok []bool) (inserted int, err error) {
	batch.MustMatch(room, "PutNew", "vals", len(keys), len(vals))
	batch.MustMatchOptional(room, "PutNew", "ok", len(keys), ok)
	return m.table.change(ctx, "PutNew", &batch.Batch{
		N: len(keys), Kind: weft.OpPutNew, Flags: m.table.flagsFor(weft.OpPutNew),
		Keys: batch.Host(keys), Vals: batch.Host(vals), OK: batch.Host(ok),
	})
}

// Get looks keys up and counts those found. vals[i] is zero where the key is
// absent; found, if not nil, reports which are there. The paper's SEARCH.
func (m *Map[K, V]) Get(ctx context.Context, keys []K, vals []V, found []bool) (hits int, err error) {
	batch.MustMatch(room, "Get", "vals", len(keys), len(vals))
	batch.MustMatchOptional(room, "Get", "found", len(keys), found)
	return m.table.get(ctx, "Get", &batch.Batch{
		N: len(keys), Keys: batch.Host(keys), Vals: batch.Host(vals), OK: batch.Host(found),
	})
}

// Contains counts the keys that are there; found, if not nil, reports which.
func (m *Map[K, V]) Contains(ctx context.Context, keys []K, found []bool) (hits int, err error) {
	batch.MustMatchOptional(room, "Contains", "found", len(keys), found)
	return m.table.get(ctx, "Contains", &batch.Batch{N: len(keys), Keys: batch.Host(keys), OK: batch.Host(found)})
}

// Delete removes keys and counts those that were there. deleted, if not nil,
// reports which; of duplicates, the first one (any one with
// Options.Unordered). The paper's DELETE.
func (m *Map[K, V]) Delete(ctx context.Context, keys []K, deleted []bool) (n int, err error) {
	batch.MustMatchOptional(room, "Delete", "deleted", len(keys), deleted)
	delta, err := m.table.change(ctx, "Delete", &batch.Batch{
		N: len(keys), Kind: weft.OpDelete, Flags: m.table.flagsFor(weft.OpDelete),
		Keys: batch.Host(keys), OK: batch.Host(deleted),
	})
	return -delta, err
}

// Apply runs a mixed batch: its operations are concurrent, and what they return
// is explained by some order of them. On a CPU that order is the batch's, except
// that operations that find no room at first run again after the others. res
// may be nil. An operation of another kind than OpGet, OpPut, OpPutNew and
// OpDelete is device.ErrInvalid, and then none is run.
func (m *Map[K, V]) Apply(ctx context.Context, ops []weft.Op[K, V], res []weft.Result[V]) error {
	return apply(ctx, m.table, ops, res, weft.OpDelete)
}

// apply is Apply for operations up to the last of a structure.
func apply[K weft.Key, V weft.Value](ctx context.Context, t *table, ops []weft.Op[K, V], res []weft.Result[V], last weft.OpKind) error {
	if res != nil {
		batch.MustMatch(room, "Apply", "res", len(ops), len(res))
	}
	if err := batch.CheckKinds(ops, last); err != nil {
		return wrap("Apply", err)
	}
	return batch.Apply(ops, res, func(b *batch.Batch) error {
		b.Flags = t.mixed()
		_, err := t.change(ctx, "Apply", b)
		return err
	})
}

// Len is the number of pairs. It waits for submitted batches.
func (m *Map[K, V]) Len() int { return m.table.length() }

// All iterates over the pairs, in no order. It reads a page at a time; after
// a rehash it goes on in the old table, so every pair that is not changed
// meanwhile is seen exactly once. See [Map.Err].
func (m *Map[K, V]) All() iter.Seq2[K, V] { return pairs[K, V](m.table, &m.pages) }

// Err is the error that ended the last iteration early, or nil.
func (m *Map[K, V]) Err() error { return m.pages.err() }

// Clear removes everything and keeps the memory.
func (m *Map[K, V]) Clear(ctx context.Context) error { return m.table.clear(ctx, "Clear") }

// Flush drops the slots of deleted keys bucket by bucket and gives the slabs
// that this empties back to the pool. The structure does it by itself, see
// Options.MaxTombstones. The paper's FLUSH.
func (m *Map[K, V]) Flush(ctx context.Context) error { return m.table.flush(ctx, "Flush") }

// Compact makes the map as small as Utilisation and Capacity ask for, and the
// pool as small as its slabs need. It needs both tables at once; a fixed map
// is flushed.
func (m *Map[K, V]) Compact(ctx context.Context) error { return m.table.compact(ctx, "Compact") }

// Stats looks at every bucket; see [Stats].
func (m *Map[K, V]) Stats(ctx context.Context) (Stats, error) { return m.table.stats(ctx) }

// Close frees the map. Idempotent; later calls return [weft.ErrClosed].
func (m *Map[K, V]) Close() error { return m.table.close() }

// ---- batches on the device --------------------------------------------------
//
// The On methods take batches that lie on the map's device and submit them to
// a stream: they copy nothing, and the slices must stay until the stream has
// done it. Changes run in the order of the calls, whatever their streams;
// lookups on one stream see the changes submitted to it before. A change that
// may need more memory than there is waits for its result, and those of its
// operations that found no room run again once the memory has grown.

// PutOn is Put for a batch on the device.
func (m *Map[K, V]) PutOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V]) error {
	batch.MustMatch(room, "PutOn", "vals", keys.Len(), vals.Len())
	return m.table.changeOn(s, "PutOn", &batch.Batch{
		N: keys.Len(), Kind: weft.OpPut, Flags: m.table.flagsFor(weft.OpPut),
		Keys: batch.On(keys), Vals: batch.On(vals),
	})
}

// PutNewOn is PutNew for a batch on the device. ok may be empty.
func (m *Map[K, V]) PutNewOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], ok device.Slice[bool]) error {
	batch.MustMatch(room, "PutNewOn", "vals", keys.Len(), vals.Len())
	batch.MustMatchSlice(room, "PutNewOn", "ok", keys.Len(), ok)
	return m.table.changeOn(s, "PutNewOn", &batch.Batch{
		N: keys.Len(), Kind: weft.OpPutNew, Flags: m.table.flagsFor(weft.OpPutNew),
		Keys: batch.On(keys), Vals: batch.On(vals), OK: batch.On(ok),
	})
}

// GetOn is Get for a batch on the device, in a single launch. found may be
// empty.
func (m *Map[K, V]) GetOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], found device.Slice[bool]) error {
	batch.MustMatch(room, "GetOn", "vals", keys.Len(), vals.Len())
	batch.MustMatchSlice(room, "GetOn", "found", keys.Len(), found)
	return m.table.getOn(s, "GetOn", &batch.Batch{
		N: keys.Len(), Keys: batch.On(keys), Vals: batch.On(vals), OK: batch.On(found),
	})
}

// ContainsOn is Contains for a batch on the device.
func (m *Map[K, V]) ContainsOn(s *device.Stream, keys device.Slice[K], found device.Slice[bool]) error {
	batch.MustMatch(room, "ContainsOn", "found", keys.Len(), found.Len())
	return m.table.getOn(s, "ContainsOn", &batch.Batch{N: keys.Len(), Keys: batch.On(keys), OK: batch.On(found)})
}

// DeleteOn is Delete for a batch on the device. deleted may be empty.
func (m *Map[K, V]) DeleteOn(s *device.Stream, keys device.Slice[K], deleted device.Slice[bool]) error {
	batch.MustMatchSlice(room, "DeleteOn", "deleted", keys.Len(), deleted)
	return m.table.changeOn(s, "DeleteOn", &batch.Batch{
		N: keys.Len(), Kind: weft.OpDelete, Flags: m.table.flagsFor(weft.OpDelete),
		Keys: batch.On(keys), OK: batch.On(deleted),
	})
}

// ApplyOn is Apply for a batch on the device, in columns: vals holds the
// values of OpPut and OpPutNew and receives those of OpGet and OpPutNew, and
// zeros, except where an operation found no room; ok receives Result.OK and may
// be empty. Kinds beyond OpDelete make no sense; what they do is undefined.
func (m *Map[K, V]) ApplyOn(s *device.Stream, kinds device.Slice[weft.OpKind], keys device.Slice[K], vals device.Slice[V], ok device.Slice[bool]) error {
	return applyOn(m.table, s, kinds, keys, vals, ok)
}

func applyOn[K weft.Key, V weft.Value](t *table, s *device.Stream, kinds device.Slice[weft.OpKind], keys device.Slice[K], vals device.Slice[V], ok device.Slice[bool]) error {
	batch.MustMatch(room, "ApplyOn", "kinds", keys.Len(), kinds.Len())
	batch.MustMatch(room, "ApplyOn", "vals", keys.Len(), vals.Len())
	batch.MustMatchSlice(room, "ApplyOn", "ok", keys.Len(), ok)
	v := batch.On(vals)
	return t.changeOn(s, "ApplyOn", &batch.Batch{
		N: keys.Len(), Flags: t.mixed(), Kinds: batch.On(kinds), Keys: batch.On(keys), Vals: v, Out: v, OK: batch.On(ok),
	})
}

// Sync waits until all submitted batches are done. It returns [weft.ErrFull]
// if operations submitted since the last Sync found no room, which happens in
// fixed maps only.
func (m *Map[K, V]) Sync(ctx context.Context) error { return m.table.sync(ctx, "Sync") }
