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
type Set[K Key] struct{ table[K] }

// NewSet returns the Set of a table. Only packages of structures call it.
func NewSet[K Key](t *core.Table) *Set[K] { return &Set[K]{table[K]{t}} }

// Add inserts the keys that are absent and counts them. added, if not nil,
// reports which.
func (s *Set[K]) Add(ctx context.Context, keys []K, added []bool) (n int, err error) {
	return s.core.Change(ctx, "Add", s.batch(op.PutNew, len(keys), batch.Columns{
		batch.Keys: batch.Input(keys), batch.OK: batch.Optional(added),
	}))
}

// AddOn is Add for a batch on the device. added may be empty.
func (s *Set[K]) AddOn(stream *device.Stream, keys device.Slice[K], added device.Slice[bool], n ...device.Slice[uint64]) error {
	return s.core.ChangeOn(stream, "AddOn", s.batch(op.PutNew, keys.Len(), batch.Columns{
		batch.Keys: batch.InputOn(keys), batch.OK: batch.OptionalOn(added),
	}), n...)
}

// ApplyOn runs a mixed batch on the device, in columns: OpGet looks a key up,
// OpPut and OpPutNew add it. ok receives Result.OK and may be empty.
func (s *Set[K]) ApplyOn(stream *device.Stream, kinds device.Slice[OpKind], keys device.Slice[K], ok device.Slice[bool]) error {
	return s.core.ChangeOn(stream, "ApplyOn", s.batch(op.Get, keys.Len(), batch.Columns{
		batch.Keys: batch.InputOn(keys), batch.Kinds: batch.InputOn(kinds), batch.OK: batch.OptionalOn(ok),
	}))
}

// All iterates over the keys, in no order, as [Map.All] does.
func (s *Set[K]) All() iter.Seq[K] {
	return func(yield func(K) bool) {
		for keys := range s.Pages(context.Background()) {
			for _, k := range keys {
				if !yield(k) {
					return
				}
			}
		}
	}
}

// Pages iterates as All does, in columns of a few hundred thousand keys. An error, or the end of
// ctx, comes with the last, empty page.
func (s *Set[K]) Pages(ctx context.Context) iter.Seq2[[]K, error] {
	return func(yield func([]K, error) bool) {
		for p, err := range pages[K, uint32](ctx, s.core, nil) {
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
