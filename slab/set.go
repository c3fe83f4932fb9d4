package slab

import (
	"context"
	"iter"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// Set is a hash set: a [Map] without values, with twice as many slots in a
// slab.
type Set[K weft.Key] struct {
	table *table
	pages pager
}

// NewSet makes an empty set on a device, which must outlive it. Errors as of
// [New].
func NewSet[K weft.Key](dev device.Device, opts *Options) (*Set[K], error) {
	t, err := newTable(dev, "set", batch.SetWidths[K](), false, opts)
	if err != nil {
		return nil, err
	}
	return &Set[K]{table: t}, nil
}

// Add inserts the keys that are absent and counts them. added, if not nil,
// reports which; of duplicates, the first one (any one with
// Options.Unordered).
func (s *Set[K]) Add(ctx context.Context, keys []K, added []bool) (n int, err error) {
	batch.MustMatchOptional(room, "Add", "added", len(keys), added)
	return s.table.change(ctx, "Add", &batch.Batch{
		N: len(keys), Kind: weft.OpPutNew, Flags: s.table.flagsFor(weft.OpPutNew),
		Keys: batch.Host(keys), OK: batch.Host(added),
	})
}

// Contains counts the keys that are there; found, if not nil, reports which.
func (s *Set[K]) Contains(ctx context.Context, keys []K, found []bool) (hits int, err error) {
	batch.MustMatchOptional(room, "Contains", "found", len(keys), found)
	return s.table.get(ctx, "Contains", &batch.Batch{N: len(keys), Keys: batch.Host(keys), OK: batch.Host(found)})
}

// Delete removes keys and counts those that were there. deleted, if not nil,
// reports which; of duplicates, the first one (any one with
// Options.Unordered).
func (s *Set[K]) Delete(ctx context.Context, keys []K, deleted []bool) (n int, err error) {
	batch.MustMatchOptional(room, "Delete", "deleted", len(keys), deleted)
	delta, err := s.table.change(ctx, "Delete", &batch.Batch{
		N: len(keys), Kind: weft.OpDelete, Flags: s.table.flagsFor(weft.OpDelete),
		Keys: batch.Host(keys), OK: batch.Host(deleted),
	})
	return -delta, err
}

// Len is the number of keys. It waits for submitted batches.
func (s *Set[K]) Len() int { return s.table.length() }

// All iterates over the keys, in no order, as [Map.All] does.
func (s *Set[K]) All() iter.Seq[K] {
	return func(yield func(K) bool) {
		s.pages.each(s.table, func(keys, _ []byte) bool {
			for _, k := range batch.View[K](keys) {
				if !yield(k) {
					return false
				}
			}
			return true
		})
	}
}

// Err is the error that ended the last iteration early, or nil.
func (s *Set[K]) Err() error { return s.pages.err() }

// Clear removes everything and keeps the memory.
func (s *Set[K]) Clear(ctx context.Context) error { return s.table.clear(ctx, "Clear") }

// Flush is [Map.Flush].
func (s *Set[K]) Flush(ctx context.Context) error { return s.table.flush(ctx, "Flush") }

// Compact is [Map.Compact].
func (s *Set[K]) Compact(ctx context.Context) error { return s.table.compact(ctx, "Compact") }

// Stats looks at every bucket; see [Stats].
func (s *Set[K]) Stats(ctx context.Context) (Stats, error) { return s.table.stats(ctx) }

// Close frees the set. Idempotent; later calls return [weft.ErrClosed].
func (s *Set[K]) Close() error { return s.table.close() }

// AddOn is Add for a batch on the device; see [Map.PutOn]. added may be empty.
func (s *Set[K]) AddOn(stream *device.Stream, keys device.Slice[K], added device.Slice[bool]) error {
	batch.MustMatchSlice(room, "AddOn", "added", keys.Len(), added)
	return s.table.changeOn(stream, "AddOn", &batch.Batch{
		N: keys.Len(), Kind: weft.OpPutNew, Flags: s.table.flagsFor(weft.OpPutNew),
		Keys: batch.On(keys), OK: batch.On(added),
	})
}

// ContainsOn is Contains for a batch on the device.
func (s *Set[K]) ContainsOn(stream *device.Stream, keys device.Slice[K], found device.Slice[bool]) error {
	batch.MustMatch(room, "ContainsOn", "found", keys.Len(), found.Len())
	return s.table.getOn(stream, "ContainsOn", &batch.Batch{N: keys.Len(), Keys: batch.On(keys), OK: batch.On(found)})
}

// DeleteOn is Delete for a batch on the device. deleted may be empty.
func (s *Set[K]) DeleteOn(stream *device.Stream, keys device.Slice[K], deleted device.Slice[bool]) error {
	batch.MustMatchSlice(room, "DeleteOn", "deleted", keys.Len(), deleted)
	return s.table.changeOn(stream, "DeleteOn", &batch.Batch{
		N: keys.Len(), Kind: weft.OpDelete, Flags: s.table.flagsFor(weft.OpDelete),
		Keys: batch.On(keys), OK: batch.On(deleted),
	})
}

// ApplyOn runs a mixed batch on the device, as [Map.ApplyOn] does; OpPut and
// OpPutNew are the same. ok may be empty.
func (s *Set[K]) ApplyOn(stream *device.Stream, kinds device.Slice[weft.OpKind], keys device.Slice[K], ok device.Slice[bool]) error {
	batch.MustMatch(room, "ApplyOn", "kinds", keys.Len(), kinds.Len())
	batch.MustMatchSlice(room, "ApplyOn", "ok", keys.Len(), ok)
	return s.table.changeOn(stream, "ApplyOn", &batch.Batch{
		N: keys.Len(), Flags: s.table.mixed(), Kinds: batch.On(kinds), Keys: batch.On(keys), OK: batch.On(ok),
	})
}

// Sync is [Map.Sync].
func (s *Set[K]) Sync(ctx context.Context) error { return s.table.sync(ctx, "Sync") }
