package linear

import (
	"context"
	"iter"
	"unsafe"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// Set is a hash set: a [Map] without values, in slots of half the size.
type Set[K weft.Key] struct {
	table *table
	pages pager
}

// NewSet makes an empty set on a device, which must outlive it. Slots of
// deleted keys are reused whatever Options.Tombstones says, since a set's
// batches either insert or delete. Errors as of [New].
func NewSet[K weft.Key](dev device.Device, opts *Options) (*Set[K], error) {
	var k K
	size := int(unsafe.Sizeof(k))
	t, err := newTable(dev, "set", widths{key: size, slot: size}, opts)
	if err != nil {
		return nil, err
	}
	return &Set[K]{table: t}, nil
}

// Add inserts the keys that are absent and counts them. added, if not nil,
// reports which; of duplicates, the first one (any one with
// Options.Unordered).
func (s *Set[K]) Add(ctx context.Context, keys []K, added []bool) (n int, err error) {
	mustMatchOptional("Add", "added", len(keys), added)
	return s.table.change(ctx, "Add", &batch{
		n: len(keys), kind: weft.OpPutNew, flags: s.table.flagsFor(weft.OpPutNew),
		keys: hostColumn(keys), ok: hostColumn(added),
	})
}

// Contains counts the keys that are there; found, if not nil, reports which.
func (s *Set[K]) Contains(ctx context.Context, keys []K, found []bool) (hits int, err error) {
	mustMatchOptional("Contains", "found", len(keys), found)
	return s.table.get(ctx, "Contains", &batch{n: len(keys), keys: hostColumn(keys), ok: hostColumn(found)})
}

// Delete removes keys and counts those that were there. deleted, if not nil,
// reports which; of duplicates, the first one (any one with
// Options.Unordered).
func (s *Set[K]) Delete(ctx context.Context, keys []K, deleted []bool) (n int, err error) {
	mustMatchOptional("Delete", "deleted", len(keys), deleted)
	delta, err := s.table.change(ctx, "Delete", &batch{
		n: len(keys), kind: weft.OpDelete, flags: s.table.flagsFor(weft.OpDelete),
		keys: hostColumn(keys), ok: hostColumn(deleted),
	})
	return -delta, err
}

// Len is the number of keys. It waits for submitted batches.
func (s *Set[K]) Len() int { return s.table.length() }

// All iterates over the keys, in no order, as [Map.All] does.
func (s *Set[K]) All() iter.Seq[K] {
	return func(yield func(K) bool) {
		s.pages.each(s.table, func(keys, _ []byte) bool {
			for _, k := range view[K](keys) {
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

// Compact is [Map.Compact].
func (s *Set[K]) Compact(ctx context.Context) error { return s.table.compact(ctx, "Compact") }

// Stats looks at every slot; see [Stats].
func (s *Set[K]) Stats(ctx context.Context) (Stats, error) { return s.table.stats(ctx) }

// Close frees the set. Idempotent; later calls return [weft.ErrClosed].
func (s *Set[K]) Close() error { return s.table.close() }

// AddOn is Add for a batch on the device; see [Map.PutOn]. added may be empty.
func (s *Set[K]) AddOn(stream *device.Stream, keys device.Slice[K], added device.Slice[bool]) error {
	mustMatchSlice("AddOn", "added", keys.Len(), added)
	return s.table.changeOn(stream, "AddOn", &batch{
		n: keys.Len(), kind: weft.OpPutNew, flags: s.table.flagsFor(weft.OpPutNew),
		keys: deviceColumn(keys), ok: deviceColumn(added),
	})
}

// ContainsOn is Contains for a batch on the device.
func (s *Set[K]) ContainsOn(stream *device.Stream, keys device.Slice[K], found device.Slice[bool]) error {
	mustMatch("ContainsOn", "found", keys.Len(), found.Len())
	return s.table.getOn(stream, "ContainsOn", &batch{n: keys.Len(), keys: deviceColumn(keys), ok: deviceColumn(found)})
}

// DeleteOn is Delete for a batch on the device. deleted may be empty.
func (s *Set[K]) DeleteOn(stream *device.Stream, keys device.Slice[K], deleted device.Slice[bool]) error {
	mustMatchSlice("DeleteOn", "deleted", keys.Len(), deleted)
	return s.table.changeOn(stream, "DeleteOn", &batch{
		n: keys.Len(), kind: weft.OpDelete, flags: s.table.flagsFor(weft.OpDelete),
		keys: deviceColumn(keys), ok: deviceColumn(deleted),
	})
}

// Sync is [Map.Sync].
func (s *Set[K]) Sync(ctx context.Context) error { return s.table.sync(ctx, "Sync") }
