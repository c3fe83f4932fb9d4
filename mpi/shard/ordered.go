package shard

import (
	"context"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/weftgo/weft"
)

// LocalOrdered is a map that holds the shard of one rank of an OrderedMap. It is a
// [weft.OrderedMap] or a type that embeds one, such as an ordered.Map or a sorted.Map.
type LocalOrdered[K weft.Key, V weft.Value] interface {
	LocalMap[K, V]
	Build(ctx context.Context, keys []K, vals []V) (inserted int, err error)
	Range(ctx context.Context, lo, hi []K, limit int, rows *weft.PairRows[K, V]) error
	RangeBackward(ctx context.Context, lo, hi []K, limit int, rows *weft.PairRows[K, V]) error
	Count(ctx context.Context, lo, hi []K, counts []uint32) (total int, err error)
	DeleteRange(ctx context.Context, lo, hi []K, removed []uint32) (n int, err error)
	Rank(ctx context.Context, keys []K, ranks []uint64) error
	Select(ctx context.Context, ranks []uint64, keys []K, vals []V, found []bool) (int, error)
	Successor(ctx context.Context, keys, next []K, vals []V, found []bool) (int, error)
	Predecessor(ctx context.Context, keys, previous []K, vals []V, found []bool) (int, error)
	Min(ctx context.Context) (key K, val V, ok bool, err error)
	Max(ctx context.Context) (key K, val V, ok bool, err error)
}

// OrderedMap is a [Map] in which each rank has a range of keys, so that a query for a range of keys
// reaches few ranks. It has the methods of [weft.OrderedMap]. All are collective except All, Pages
// and Close.
//
// At first, the ranges are equal parts of the key type's range. The insertion that brings the map
// to 256 pairs per rank samples the keys. It then moves pairs so that ranks have nearly equal
// numbers of pairs. Call Rebalance to do this again if later keys have another distribution.
type OrderedMap[K weft.Key, V weft.Value] struct {
	Map[K, V]
	shard LocalOrdered[K, V]
	split bool // a sample has determined the ranges
}

// NewOrderedMap makes a map from an empty local map on each rank. See [NewMap].
func NewOrderedMap[K weft.Key, V weft.Value](r *Ranks, shard LocalOrdered[K, V]) *OrderedMap[K, V] {
	m := &OrderedMap[K, V]{Map: *NewMap(r, shard), shard: shard}
	m.owners = owners{first: make([]uint64, r.size), order: orderOf[K]()}
	for rank := 1; rank < r.size; rank++ {
		first, _ := bits.Div64(uint64(rank), 0, uint64(r.size))
		m.owners.first[rank] = first >> (64 - keyBits[K]())
	}
	m.adopt = m.adoptRanges
	return m
}

func keyBits[K weft.Key]() int {
	var zero K
	return int(unsafe.Sizeof(zero)) * 8
}

func (m *OrderedMap[K, V]) keyAt(at uint64) K { return K(inOrder(m.owners.order, at)) }

// Put calls [Map.Put]. It may first move pairs between ranks.
func (m *OrderedMap[K, V]) Put(ctx context.Context, keys []K, vals []V) (inserted int, err error) {
	if err := m.choose(ctx, keys); err != nil {
		return 0, err
	}
	return m.Map.Put(ctx, keys, vals)
}

// Build inserts pairs that are likely to be most of the map's content. See [Map.Put] for the
// result.
func (m *OrderedMap[K, V]) Build(
	ctx context.Context, keys []K, vals []V,
) (inserted int, err error) {
	if err := m.choose(ctx, keys); err != nil {
		return 0, err
	}
	return m.put(ctx, methodBuild, keys, vals, m.shard.Build)
}

// PutNew calls [Map.PutNew]. It may first move pairs between ranks.
func (m *OrderedMap[K, V]) PutNew(
	ctx context.Context, keys []K, vals []V, ok []bool,
) (inserted int, err error) {
	if err := m.choose(ctx, keys); err != nil {
		return 0, err
	}
	return m.Map.PutNew(ctx, keys, vals, ok)
}

// GetOrPut calls [Map.GetOrPut]. It may first move pairs between ranks.
func (m *OrderedMap[K, V]) GetOrPut(
	ctx context.Context, keys []K, vals []V, loaded []bool,
) (inserted int, err error) {
	if err := m.choose(ctx, keys); err != nil {
		return 0, err
	}
	return m.Map.GetOrPut(ctx, keys, vals, loaded)
}

// Assign calls [Map.Assign]. It may first move pairs between ranks.
func (m *OrderedMap[K, V]) Assign(
	ctx context.Context, keys []K, ids []V,
) (inserted int, err error) {
	if err := m.choose(ctx, keys); err != nil {
		return 0, err
	}
	return m.Map.Assign(ctx, keys, ids)
}

// Reduce calls [Map.Reduce]. It may first move pairs between ranks.
func (m *OrderedMap[K, V]) Reduce(
	ctx context.Context, keys []K, vals []V, by weft.Reduction,
) (inserted int, err error) {
	if err := m.choose(ctx, keys); err != nil {
		return 0, err
	}
	return m.Map.Reduce(ctx, keys, vals, by)
}

// Load adds saved pairs; see [Map.Load]. An empty map adopts the key ranges of the files. If
// another number of ranks has saved them, Load then calls Rebalance.
func (m *OrderedMap[K, V]) Load(ctx context.Context, dir string) (n int, err error) {
	if n, err = m.Map.Load(ctx, dir); err == nil && !m.split && m.r.size > 1 {
		err = m.Rebalance(context.WithoutCancel(ctx))
	}
	return n, err
}

// adoptRanges adopts the ranges of files, ignoring empty ranges.
func (m *OrderedMap[K, V]) adoptRanges(files []shardFile) {
	files = slices.DeleteFunc(slices.Clone(files),
		func(f shardFile) bool { return f.First > f.Last })
	if len(files) == 0 {
		return
	}
	for rank := 1; rank < m.r.size; rank++ {
		m.owners.first[rank] = files[rank*len(files)/m.r.size].First
	}
	m.split = len(files) == m.r.size
}

// choose samples keys and moves pairs, once the map has enough pairs.
func (m *OrderedMap[K, V]) choose(ctx context.Context, keys []K) error {
	if m.split || m.r.size == 1 {
		return nil
	}
	return m.resplit(ctx, keys, splitPairs*m.r.size)
}

// Rebalance samples the keys of all ranks, and moves pairs so that ranks have nearly equal numbers
// of pairs. Moved pairs are held twice meanwhile. After an error, all pairs are where they were.
func (m *OrderedMap[K, V]) Rebalance(ctx context.Context) error {
	if m.r.size == 1 {
		return nil
	}
	return m.resplit(ctx, nil, 1)
}
