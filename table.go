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

// base returns the table of the structure, for code that wraps structures.
func (t *table[K]) base() *core.Table { return t.core }

func init() {
	core.RegisterLogged(func(facade any) core.Logged {
		if f, ok := facade.(interface{ base() *core.Table }); ok {
			return f.base()
		}
		return nil
	})
}

func (t *table[K]) batch(kind op.Kind, n int, columns batch.Columns) *batch.Batch {
	return &batch.Batch{N: n, Kind: kind, Columns: columns}
}

// Contains counts the keys that are present. found[i], if found is not nil, reports whether keys[i]
// is present.
func (t *table[K]) Contains(ctx context.Context, keys []K, found []bool) (hits int, err error) {
	return t.core.Get(ctx, "Contains", nil, t.batch(op.Get, len(keys), batch.Columns{
		batch.Keys: batch.Input(keys), batch.OK: batch.Optional(found),
	}))
}

// ContainsOn looks for keys that lie in device memory. found may be empty.
func (t *table[K]) ContainsOn(s *device.Stream, keys device.Slice[K], found device.Slice[bool], hits ...device.Slice[uint64]) error {
	return t.core.GetOn(s, "ContainsOn", nil, t.batch(op.Get, keys.Len(), batch.Columns{
		batch.Keys: batch.InputOn(keys), batch.OK: batch.OptionalOn(found),
	}), hits...)
}

// Delete removes keys and counts the keys that were present. In a multimap it removes the first
// pair of each key. deleted[i], if deleted is not nil, reports whether keys[i] was present. The
// SlabHash paper calls it DELETE.
func (t *table[K]) Delete(ctx context.Context, keys []K, deleted []bool) (n int, err error) {
	delta, err := t.core.Change(ctx, "Delete", t.batch(op.Delete, len(keys), batch.Columns{
		batch.Keys: batch.Input(keys), batch.OK: batch.Optional(deleted),
	}))
	return -delta, err
}

// DeleteOn deletes keys that lie in device memory. deleted may be empty. See [Map.Delete] for the
// results.
func (t *table[K]) DeleteOn(s *device.Stream, keys device.Slice[K], deleted device.Slice[bool], n ...device.Slice[uint64]) error {
	return t.core.ChangeOn(s, "DeleteOn", t.batch(op.Delete, keys.Len(), batch.Columns{
		batch.Keys: batch.InputOn(keys), batch.OK: batch.OptionalOn(deleted),
	}), n...)
}

// Len returns the number of pairs, or of keys in a set. It includes every call that has returned,
// and the batches submitted to streams before the last Sync. Len never waits. It returns 0 after
// the structure is closed.
func (t *table[K]) Len() int { return t.core.Len() }

// Clear removes all pairs and keeps the allocated memory.
func (t *table[K]) Clear(ctx context.Context) error { return t.core.Clear(ctx) }

// Compact removes the slots of deleted pairs. It also frees memory that neither the options nor the
// pairs require. Structures compact themselves before performance suffers. The SlabHash paper calls
// it FLUSH.
func (t *table[K]) Compact(ctx context.Context) error { return t.core.Compact(ctx) }

// Sync waits until all submitted batches are done. It returns [ErrFull] in a [PartialError] if
// operations submitted since the last Sync overflowed. Operations overflow in structures of fixed
// size, and if many keys collide. In that error, all changes since the last Sync count as one
// batch.
func (t *table[K]) Sync(ctx context.Context) error { return t.core.Sync(ctx) }

// Save writes all pairs to w, with checksums, and returns their number. Any structure with the same
// kind and types can load the stream, on any device.
func (t *table[K]) Save(ctx context.Context, w io.Writer) (n int, err error) {
	return t.core.Save(ctx, nil, w)
}

// Load puts all pairs of a stream that Save wrote, and returns their number. On a GPU the pairs of
// one key of a multimap may change their order. Load returns [ErrFormat] if the stream is damaged,
// or if its kind or types differ. Pairs before the damage have been added.
func (t *table[K]) Load(ctx context.Context, r io.Reader) (n int, err error) {
	return t.core.Load(ctx, r)
}

// Check reads the whole structure and returns [ErrCorrupt] for the first fault, such as a pair that
// no lookup finds. Changes wait until Check is done.
func (t *table[K]) Check(ctx context.Context) error { return t.core.Check(ctx) }

// Close frees the structure; later calls return [ErrClosed]. A second Close does nothing.
func (t *table[K]) Close() error { return t.core.Close() }

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
