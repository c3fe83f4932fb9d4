package shard

import (
	"context"
	"io"
	"iter"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/core"
)

// LocalSet is a set that holds the shard of one rank. It is a [weft.Set] or a type that embeds one,
// such as a linear.Set.
type LocalSet[K weft.Key] interface {
	shardOf[K]
	Add(ctx context.Context, keys []K, added []bool) (n int, err error)
	All() iter.Seq[K]
	Pages(ctx context.Context) iter.Seq2[[]K, error]
}

// Set is a set with keys distributed over ranks. It has the methods of [weft.Set]. All are
// collective except All, Pages and Close.
type Set[K weft.Key] struct {
	keyed[K]
	local LocalSet[K]
}

// NewSet makes a set from a local set on each rank. See [NewMap].
func NewSet[K weft.Key](r *Ranks, shard LocalSet[K]) *Set[K] {
	s := &Set[K]{newKeyed(r, shard, column.None), shard}
	s.visitPages = func(ctx context.Context, visit func(keys []K) error) error {
		for keys, err := range shard.Pages(ctx) {
			if err == nil {
				err = visit(keys)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	s.loadPart = func(ctx context.Context, from io.Reader, keep func(K) bool) (n int, err error) {
		err = readSaved(from, core.Set, core.SetTypes[K](), func(keys []K, _ []struct{}) error {
			kept := keys[:0]
			for _, k := range keys {
				if keep(k) {
					kept = append(kept, k)
				}
			}
			n += len(kept)
			_, err := shard.Add(ctx, kept, nil)
			return err
		})
		return n, err
	}
	return s
}

// All iterates over the keys of this rank's shard; see [weft.Set.All]. It is not collective.
func (s *Set[K]) All() iter.Seq[K] { return s.local.All() }

// Pages iterates over the keys of this rank's shard; see [weft.Set.Pages]. It is not collective.
func (s *Set[K]) Pages(ctx context.Context) iter.Seq2[[]K, error] { return s.local.Pages(ctx) }

// Add inserts the keys that are absent and returns their number on all ranks. If added is not nil,
// it receives whether each key was added. If a key occurs several times, its first row on the
// lowest rank is added.
func (s *Set[K]) Add(ctx context.Context, keys []K, added []bool) (n int, err error) {
	if s.r.size == 1 {
		return s.local.Add(ctx, keys, added)
	}
	x := s.open(methodAdd)
	defer x.close()
	x.mustMatch(len(keys), optional(added, len(keys)))
	begin(ctx, x, keys, combineFirst, added != nil)
	k := sendColumn(x, keysOut, keys)
	x.applyFlags(ctx, added, func(ctx context.Context, is []bool) (int, error) {
		return s.local.Add(ctx, k, is)
	})
	return x.end()
}
