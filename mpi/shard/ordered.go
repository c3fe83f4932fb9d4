package shard

import (
	"context"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/weftgo/weft"
)

// LocalOrdered is the map that holds the shard of one rank of an OrderedMap: a [weft.OrderedMap],
// or what embeds one, such as an ordered.Map or a sorted.Map.
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

// OrderedMap is a [Map] with ranges of keys on its ranks, so a range of keys touches few ranks. Its
// methods are those of [weft.OrderedMap] and collective, except All, Pages and Close.
//
// The ranges are equal parts of all keys of the type at first. The insertion that brings the map to
// 256 pairs a rank takes a sample of them, and moves pairs so that ranks have about equally many.
// Rebalance does that again, where later keys are spread otherwise.
type OrderedMap[K weft.Key, V weft.Value] struct {
	Map[K, V]
	shard LocalOrdered[K, V]
	split bool // ranges are those of a sample
}

// NewOrderedMap makes a map over the empty map that each rank passes for its own shard, as [NewMap]
// does.
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

// keyBits returns the number of bits of a type.
func keyBits[K weft.Key]() int {
	var zero K
	return int(unsafe.Sizeof(zero)) * 8
}

// keyAt returns the key of a position.
func (m *OrderedMap[K, V]) keyAt(at uint64) K { return K(inOrder(m.owners.order, at)) }

// Put is [Map.Put].
func (m *OrderedMap[K, V]) Put(ctx context.Context, keys []K, vals []V) (inserted int, err error) {
	if err := m.choose(ctx, keys); err != nil {
		return 0, err
	}
	return m.Map.Put(ctx, keys, vals)
}

// Build is Put for pairs that are likely to be most of what the map will hold.
func (m *OrderedMap[K, V]) Build(
	ctx context.Context, keys []K, vals []V,
) (inserted int, err error) {
	if err := m.choose(ctx, keys); err != nil {
		return 0, err
	}
	return m.put(ctx, methodBuild, keys, vals, m.shard.Build)
}

// PutNew is [Map.PutNew].
func (m *OrderedMap[K, V]) PutNew(
	ctx context.Context, keys []K, vals []V, ok []bool,
) (inserted int, err error) {
	if err := m.choose(ctx, keys); err != nil {
		return 0, err
	}
	return m.Map.PutNew(ctx, keys, vals, ok)
}

// GetOrPut is [Map.GetOrPut].
func (m *OrderedMap[K, V]) GetOrPut(
	ctx context.Context, keys []K, vals []V, loaded []bool,
) (inserted int, err error) {
	if err := m.choose(ctx, keys); err != nil {
		return 0, err
	}
	return m.Map.GetOrPut(ctx, keys, vals, loaded)
}

// Assign is [Map.Assign].
func (m *OrderedMap[K, V]) Assign(
	ctx context.Context, keys []K, ids []V,
) (inserted int, err error) {
	if err := m.choose(ctx, keys); err != nil {
		return 0, err
	}
	return m.Map.Assign(ctx, keys, ids)
}

// Reduce is [Map.Reduce].
func (m *OrderedMap[K, V]) Reduce(
	ctx context.Context, keys []K, vals []V, by weft.Reduction,
) (inserted int, err error) {
	if err := m.choose(ctx, keys); err != nil {
		return 0, err
	}
	return m.Map.Reduce(ctx, keys, vals, by)
}

// Load is [Map.Load]. A map without pairs takes the ranges of the files. With another number of
// ranks it is rebalanced.
func (m *OrderedMap[K, V]) Load(ctx context.Context, dir string) (n int, err error) {
	if n, err = m.Map.Load(ctx, dir); err == nil && !m.split && m.r.size > 1 {
		err = m.Rebalance(context.WithoutCancel(ctx))
	}
	return n, err
}

// adoptRanges takes the ranges of files that have one.
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

// choose sets ranges by a sample once the map has enough pairs.
func (m *OrderedMap[K, V]) choose(ctx context.Context, keys []K) error {
	if m.split || m.r.size == 1 {
		return nil
	}
	return m.resplit(ctx, keys, splitPairs*m.r.size)
}

// Rebalance samples the keys of all ranks, and moves pairs so that ranks have about equally many.
// The pairs that move are held twice meanwhile. After an error pairs are where they were.
func (m *OrderedMap[K, V]) Rebalance(ctx context.Context) error {
	if m.r.size == 1 {
		return nil
	}
	return m.resplit(ctx, nil, 1)
}
