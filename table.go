package weft

import (
	"context"
	"io"
	"iter"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

// table holds the methods that all structures share.
type table[K Key] struct{ core *core.Table }

// base returns the table of the facade, for code that wraps facades.
func (t *table[K]) base() *core.Table { return t.core }

func (t *table[K]) batch(kind op.Kind, n int, columns batch.Columns) *batch.Batch {
	return &batch.Batch{N: n, Kind: kind, Columns: columns}
}

// Contains counts the keys that are present; found, if not nil, reports which.
func (t *table[K]) Contains(ctx context.Context, keys []K, found []bool) (hits int, err error) {
	return t.core.Get(ctx, "Contains", nil, t.batch(op.Get, len(keys), batch.Columns{
		batch.Keys: batch.Input(keys), batch.OK: batch.Optional(found),
	}))
}

// ContainsOn is Contains for a batch on the device. found may be empty.
func (t *table[K]) ContainsOn(s *device.Stream, keys device.Slice[K], found device.Slice[bool], hits ...device.Slice[uint64]) error {
	return t.core.GetOn(s, "ContainsOn", nil, t.batch(op.Get, keys.Len(), batch.Columns{
		batch.Keys: batch.InputOn(keys), batch.OK: batch.OptionalOn(found),
	}), hits...)
}

// Delete removes keys and counts those that were present; in a multimap it removes the first pair
// of each. deleted, if not nil, reports which. DELETE in the SlabHash paper.
func (t *table[K]) Delete(ctx context.Context, keys []K, deleted []bool) (n int, err error) {
	delta, err := t.core.Change(ctx, "Delete", t.batch(op.Delete, len(keys), batch.Columns{
		batch.Keys: batch.Input(keys), batch.OK: batch.Optional(deleted),
	}))
	return -delta, err
}

// DeleteOn is Delete for a batch on the device. deleted may be empty.
func (t *table[K]) DeleteOn(s *device.Stream, keys device.Slice[K], deleted device.Slice[bool], n ...device.Slice[uint64]) error {
	return t.core.ChangeOn(s, "DeleteOn", t.batch(op.Delete, keys.Len(), batch.Columns{
		batch.Keys: batch.InputOn(keys), batch.OK: batch.OptionalOn(deleted),
	}), n...)
}

// Len returns the number of pairs, or of keys of a set. It is exact for every call that has
// returned, and for batches on the device up to the last Sync. Len never waits. It returns 0 once
// the structure is closed.
func (t *table[K]) Len() int { return t.core.Len() }

// Clear removes everything and keeps the memory.
func (t *table[K]) Clear(ctx context.Context) error { return t.core.Clear(ctx) }

// Compact removes the remains of deleted pairs and frees memory beyond what the options and the
// pairs require. Structures compact themselves before it matters. FLUSH in the SlabHash paper.
func (t *table[K]) Compact(ctx context.Context) error { return t.core.Compact(ctx) }

// Sync waits until all submitted batches are done. It returns [ErrFull] in a [PartialError] if
// operations submitted since the last Sync overflowed, which happens in structures of fixed size
// and to keys that collide. In that error, the changes since then are one batch.
func (t *table[K]) Sync(ctx context.Context) error { return t.core.Sync(ctx) }

// Save writes everything to a stream, with checksums, and returns the number of pairs. Any
// structure of the same kind and types loads it, on any device.
func (t *table[K]) Save(ctx context.Context, w io.Writer) (n int, err error) {
	return t.core.Save(ctx, nil, w)
}

// Load adds what Save wrote, as Put would, and returns the number of pairs. On a GPU the pairs of
// one key of a multimap may change their order. Load returns [ErrFormat] for other kinds or types,
// and for damage; pairs before the damage have been added.
func (t *table[K]) Load(ctx context.Context, r io.Reader) (n int, err error) {
	return t.core.Load(ctx, r)
}

// Check reads the whole structure and reports the first fault as [ErrCorrupt], such as a pair that
// no lookup finds. Changes wait meanwhile.
func (t *table[K]) Check(ctx context.Context) error { return t.core.Check(ctx) }

// Close frees the structure. Idempotent; later calls return [ErrClosed].
func (t *table[K]) Close() error { return t.core.Close() }

// pages converts pages of bytes into pages of a structure's types.
func pages[K Key, V Value](ctx context.Context, t *core.Table, snap *core.Snapshot) iter.Seq2[Page[K, V], error] {
	return func(yield func(Page[K, V], error) bool) {
		ended := false
		err := t.Pages(ctx, "Pages", snap, func(p *core.Page) bool {
			ended = !yield(Page[K, V]{batch.View[K](p.Keys.Host), batch.View[V](p.Vals.Host)}, nil)
			return !ended
		})
		if err != nil && !ended {
			yield(Page[K, V]{}, err)
		}
	}
}
