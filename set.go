package weft

import (
	"context"
	"iter"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

// Set is a set of keys. Packages of structures make it; see the package
// documentation for what all methods have in common.
type Set[K Key] struct{ table }

// NewSet is for packages of structures.
func NewSet[K Key](t *core.Table) *Set[K] { return &Set[K]{table{t}} }

// Add inserts the keys that are absent and counts them. added, if not nil,
// reports which.
func (s *Set[K]) Add(ctx context.Context, keys []K, added []bool) (n int, err error) {
	return s.core.Change(ctx, "Add", s.batch(op.PutNew, len(keys), batch.Columns{
		batch.Keys: batch.In(keys), batch.OK: batch.Optional(added),
	}))
}

// AddOn is Add for a batch on the device. added may be empty.
func (s *Set[K]) AddOn(stream *device.Stream, keys device.Slice[K], added device.Slice[bool], n ...device.Slice[uint64]) error {
	return s.core.ChangeOn(stream, "AddOn", s.batch(op.PutNew, keys.Len(), batch.Columns{
		batch.Keys: batch.InOn(keys), batch.OK: batch.OptionalOn(added),
	}), n...)
}

// Contains counts the keys that are there; found, if not nil, reports which.
func (s *Set[K]) Contains(ctx context.Context, keys []K, found []bool) (hits int, err error) {
	return contains(ctx, s.table, keys, found)
}

// ContainsOn is Contains for a batch on the device. found may be empty.
func (s *Set[K]) ContainsOn(stream *device.Stream, keys device.Slice[K], found device.Slice[bool], hits ...device.Slice[uint64]) error {
	return containsOn(stream, s.table, keys, found, hits)
}

// Delete removes keys and counts those that were there. deleted, if not nil,
// reports which.
func (s *Set[K]) Delete(ctx context.Context, keys []K, deleted []bool) (n int, err error) {
	return remove(ctx, s.table, keys, deleted)
}

// DeleteOn is Delete for a batch on the device. deleted may be empty.
func (s *Set[K]) DeleteOn(stream *device.Stream, keys device.Slice[K], deleted device.Slice[bool], n ...device.Slice[uint64]) error {
	return removeOn(stream, s.table, keys, deleted, n)
}

// ApplyOn runs a mixed batch on the device, in columns: OpGet looks a key up,
// OpPut and OpPutNew add it. ok receives Result.OK and may be empty.
func (s *Set[K]) ApplyOn(stream *device.Stream, kinds device.Slice[OpKind], keys device.Slice[K], ok device.Slice[bool]) error {
	return s.core.ChangeOn(stream, "ApplyOn", s.batch(op.Get, keys.Len(), batch.Columns{
		batch.Keys: batch.InOn(keys), batch.Kinds: batch.InOn(kinds), batch.OK: batch.OptionalOn(ok),
	}))
}

// All iterates over the keys, in no order, as [Map.All] does.
func (s *Set[K]) All() iter.Seq[K] {
	return func(yield func(K) bool) {
		_ = s.core.Pages(context.Background(), "All", nil, func(p *core.Page) bool {
			for _, k := range batch.View[K](p.Keys) {
				if !yield(k) {
					return false
				}
			}
			return true
		})
	}
}

// Pages iterates as All does, in columns of some hundred thousand keys. An
// error, or the end of ctx, comes with the last, empty page.
func (s *Set[K]) Pages(ctx context.Context) iter.Seq2[[]K, error] {
	return func(yield func([]K, error) bool) {
		for p, err := range pages[K, uint32](ctx, s.core) {
			if !yield(p.Keys, err) {
				return
			}
		}
	}
}

// CopyTo makes a set with the same options and keys on a device, which must
// outlive it.
func (s *Set[K]) CopyTo(ctx context.Context, dev device.Device) (*Set[K], error) {
	t, err := s.core.CopyTo(ctx, nil, dev)
	if err != nil {
		return nil, err
	}
	return NewSet[K](t), nil
}

// ---- what maps and sets do alike --------------------------------------------------

func contains[K Key](ctx context.Context, t table, keys []K, found []bool) (int, error) {
	return t.core.Get(ctx, "Contains", nil, t.batch(op.Get, len(keys), batch.Columns{
		batch.Keys: batch.In(keys), batch.OK: batch.Optional(found),
	}))
}

func containsOn[K Key](s *device.Stream, t table, keys device.Slice[K], found device.Slice[bool], hits []device.Slice[uint64]) error {
	return t.core.GetOn(s, "ContainsOn", nil, t.batch(op.Get, keys.Len(), batch.Columns{
		batch.Keys: batch.InOn(keys), batch.OK: batch.OptionalOn(found),
	}), hits...)
}

func remove[K Key](ctx context.Context, t table, keys []K, deleted []bool) (int, error) {
	delta, err := t.core.Change(ctx, "Delete", t.batch(op.Delete, len(keys), batch.Columns{
		batch.Keys: batch.In(keys), batch.OK: batch.Optional(deleted),
	}))
	return -delta, err
}

func removeOn[K Key](s *device.Stream, t table, keys device.Slice[K], deleted device.Slice[bool], n []device.Slice[uint64]) error {
	return t.core.ChangeOn(s, "DeleteOn", t.batch(op.Delete, keys.Len(), batch.Columns{
		batch.Keys: batch.InOn(keys), batch.OK: batch.OptionalOn(deleted),
	}), n...)
}

// pages turns pages of bytes into pages of a structure's types.
func pages[K Key, V Value](ctx context.Context, t *core.Table) iter.Seq2[Page[K, V], error] {
	return func(yield func(Page[K, V], error) bool) {
		ended := false
		err := t.Pages(ctx, "Pages", nil, func(p *core.Page) bool {
			ended = !yield(Page[K, V]{batch.View[K](p.Keys), batch.View[V](p.Vals)}, nil)
			return !ended
		})
		if err != nil && !ended {
			yield(Page[K, V]{}, err)
		}
	}
}
