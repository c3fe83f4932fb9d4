package linear

import (
	"context"
	"iter"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// Map is a hash map from K to V. See the package documentation for what it
// promises about concurrency, duplicates and errors.
type Map[K weft.Key, V weft.Value] struct {
	table *table
	pages pager
}

// New makes an empty map on a device, which must outlive it. Errors:
// [weft.ErrOptions], [device.ErrMemory], and those of loading kernels.
func New[K weft.Key, V weft.Value](dev device.Device, opts *Options) (*Map[K, V], error) {
	t, err := newTable(dev, "map", batch.MapWidths[K, V](), opts)
	if err != nil {
		return nil, err
	}
	return &Map[K, V]{table: t}, nil
}

// Put inserts pairs or replaces values and counts the keys that were new. Of
// duplicates, the last one in the batch wins (any one with
// Options.Unordered). REPLACE in the SlabHash paper; the article's insert.
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
// absent; found, if not nil, reports which are there.
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
// Options.Unordered).
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
	if res != nil {
		batch.MustMatch(room, "Apply", "res", len(ops), len(res))
	}
	if err := batch.CheckKinds(ops, weft.OpDelete); err != nil {
		return wrap("Apply", err)
	}
	return batch.Apply(ops, res, func(b *batch.Batch) error {
		_, err := m.table.change(ctx, "Apply", b)
		return err
	})
}

// Len is the number of pairs. It waits for submitted batches.
func (m *Map[K, V]) Len() int { return m.table.length() }

// All iterates over the pairs, in no order. It reads a page at a time; after
// a rehash it goes on in the old table, so every pair that is not changed
// meanwhile is seen exactly once. See [Map.Err].
func (m *Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		m.pages.each(m.table, func(keys, vals []byte) bool {
			v := batch.View[V](vals)
			for i, k := range batch.View[K](keys) {
				if !yield(k, v[i]) {
					return false
				}
			}
			return true
		})
	}
}

// Err is the error that ended the last iteration early, or nil.
func (m *Map[K, V]) Err() error { return m.pages.err() }

// Clear removes everything and keeps the memory.
func (m *Map[K, V]) Clear(ctx context.Context) error { return m.table.clear(ctx, "Clear") }

// Compact drops the slots of deleted keys and gives back memory beyond what
// MaxLoad and Capacity ask for, as far as the keys find slots in less. It needs
// both tables at once, but for a fixed map, which is rehashed in place.
func (m *Map[K, V]) Compact(ctx context.Context) error { return m.table.compact(ctx, "Compact") }

// Stats looks at every slot; see [Stats].
func (m *Map[K, V]) Stats(ctx context.Context) (Stats, error) { return m.table.stats(ctx) }

// Close frees the map. Idempotent; later calls return [weft.ErrClosed].
func (m *Map[K, V]) Close() error { return m.table.close() }

// ---- batches on the device --------------------------------------------------
//
// The On methods take batches that lie on the map's device and submit them to
// a stream: they return before the work is done, copy nothing, and the slices
// must stay until the stream has done it. Changes run in the order of the
// calls, whatever their streams; lookups on one stream see the changes
// submitted to it before.

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
// zeros; ok receives Result.OK and may be empty. Kinds beyond OpDelete do
// nothing.
func (m *Map[K, V]) ApplyOn(s *device.Stream, kinds device.Slice[weft.OpKind], keys device.Slice[K], vals device.Slice[V], ok device.Slice[bool]) error {
	batch.MustMatch(room, "ApplyOn", "kinds", keys.Len(), kinds.Len())
	batch.MustMatch(room, "ApplyOn", "vals", keys.Len(), vals.Len())
	batch.MustMatchSlice(room, "ApplyOn", "ok", keys.Len(), ok)
	v := batch.On(vals)
	return m.table.changeOn(s, "ApplyOn", &batch.Batch{
		N: keys.Len(), Kinds: batch.On(kinds), Keys: batch.On(keys), Vals: v, Out: v, OK: batch.On(ok),
	})
}

// Sync waits until all submitted batches are done. It returns [weft.ErrFull]
// if operations submitted since the last Sync found no room: in fixed maps, or
// on a GPU where keys crowd a path beyond its bound.
func (m *Map[K, V]) Sync(ctx context.Context) error { return m.table.sync(ctx, "Sync") }

// flagsFor are the flags of a batch that is all of one kind.
func (t *table) flagsFor(kind weft.OpKind) (f batch.Flags) {
	if !t.opts.Unordered {
		f |= batch.Order
	}
	// Sets can't remember a dead key, see KeyOnly in layout.cuh.
	if kind != weft.OpDelete && (t.opts.Tombstones == Reuse || t.widths.Val == 0) {
		f |= batch.Reuse
	}
	return f
}
