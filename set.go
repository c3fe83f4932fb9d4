package weft

import (
	"context"
	"iter"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

// Set is a set of keys. The package comment states the rules that all methods share.
type Set[K Key] struct{ table[K] }

// NewSet returns the Set of a table. Only packages that implement structures call it.
func NewSet[K Key](t *core.Table) *Set[K] { return &Set[K]{table[K]{t}} }

// Add inserts the absent keys and counts them. added[i], if added is not nil, reports whether
// keys[i] was inserted.
func (s *Set[K]) Add(ctx context.Context, keys []K, added []bool) (n int, err error) {
	return s.core.Change(ctx, "Add", s.batch(op.PutNew, len(keys), batch.Columns{
		batch.Keys: batch.Input(keys), batch.OK: batch.Optional(added),
	}))
}

// AddOn adds keys that lie in device memory. added may be empty. See [Set.Add].
func (s *Set[K]) AddOn(stream *device.Stream, keys device.Slice[K], added device.Slice[bool], n ...device.Slice[uint64]) error {
	return s.core.ChangeOn(stream, "AddOn", s.batch(op.PutNew, keys.Len(), batch.Columns{
		batch.Keys: batch.InputOn(keys), batch.OK: batch.OptionalOn(added),
	}), n...)
}

// ApplyOn runs a mixed batch that lies in device memory, in columns. OpGet looks a key up; OpPut
// and OpPutNew add it. ok receives Result.OK and may be empty.
func (s *Set[K]) ApplyOn(stream *device.Stream, kinds device.Slice[OpKind], keys device.Slice[K], ok device.Slice[bool]) error {
	return s.core.ChangeOn(stream, "ApplyOn", s.batch(op.Get, keys.Len(), batch.Columns{
		batch.Keys: batch.InputOn(keys), batch.Kinds: batch.InputOn(kinds), batch.OK: batch.OptionalOn(ok),
	}))
}

// All iterates over the keys, in no order. A key that is present throughout is seen exactly once.
// An iteration ends early after an error; [Set.Pages] reports the error.
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

// Pages iterates like All, in slices of a few hundred thousand keys. If an error occurs or ctx
// ends, the last slice is empty and comes with the error.
func (s *Set[K]) Pages(ctx context.Context) iter.Seq2[[]K, error] {
	return func(yield func([]K, error) bool) {
		for p, err := range pages[K, uint32](ctx, s.core, nil) {
			if !yield(p.Keys, err) {
				return
			}
		}
	}
}

// CopyTo makes a set on dev with the same options and keys. dev must stay open longer than the
// copy.
func (s *Set[K]) CopyTo(ctx context.Context, dev device.Device) (*Set[K], error) {
	t, err := s.core.CopyTo(ctx, nil, dev)
	if err != nil {
		return nil, err
	}
	return NewSet[K](t), nil
}
