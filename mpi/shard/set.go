package shard

import (
	"context"
	"io"
	"iter"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/core"
)

// LocalSet is the set that holds the shard of one rank: a [weft.Set], or what embeds one, such as a
// linear.Set.
type LocalSet[K weft.Key] interface {
	shardOf[K]
	Add(ctx context.Context, keys []K, added []bool) (n int, err error)
	All() iter.Seq[K]
	Pages(ctx context.Context) iter.Seq2[[]K, error]
}

// Set is a set with keys spread over ranks. Its methods are those of [weft.Set], and all of them
// are collective except All, Pages and Close.
type Set[K weft.Key] struct {
	keyed[K]
	local LocalSet[K]
}

// NewSet makes a set over the set that each rank passes for its own shard, as [NewMap] does.
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

// All iterates over the keys of this rank's shard, as [weft.Set.All] does. It is not collective.
func (s *Set[K]) All() iter.Seq[K] { return s.local.All() }

// Pages iterates over the keys of this rank's shard, as [weft.Set.Pages] does. It is not
// collective.
func (s *Set[K]) Pages(ctx context.Context) iter.Seq2[[]K, error] { return s.local.Pages(ctx) }

// Add inserts the keys that are absent and counts them. added, if not nil, reports which: of rows
// with one key the first one of the lowest rank.
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
