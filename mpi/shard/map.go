package shard

import (
	"context"
	"io"
	"iter"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/core"
)

// LocalMap is a map that holds the shard of one rank. It is a [weft.Map], a weft.OrderedMap, or a
// type that embeds one, such as a linear.Map.
type LocalMap[K weft.Key, V weft.Value] interface {
	shardOf[K]
	Get(ctx context.Context, keys []K, vals []V, found []bool) (hits int, err error)
	Put(ctx context.Context, keys []K, vals []V) (inserted int, err error)
	PutNew(ctx context.Context, keys []K, vals []V, ok []bool) (inserted int, err error)
	GetOrPut(ctx context.Context, keys []K, vals []V, loaded []bool) (inserted int, err error)
	Assign(ctx context.Context, keys []K, ids []V) (inserted int, err error)
	Reduce(ctx context.Context, keys []K, vals []V, op weft.Reduction) (inserted int, err error)
	All() iter.Seq2[K, V]
	Pages(ctx context.Context) iter.Seq2[weft.Page[K, V], error]
}

// Map is a map with keys distributed over ranks. It has the methods of [weft.Map]. All are
// collective except All, Pages and Close. Counts are totals over all ranks.
type Map[K weft.Key, V weft.Value] struct {
	keyed[K]
	local LocalMap[K, V]

	nextID  uint64 // larger than all ids that Assign has assigned
	foreign bool   // the map may have values of nextID or larger
}

// NewMap makes a map from a local map on each rank, which may already contain pairs in this rank's
// slots. Close closes the local map. All ranks must make their structures in the same order.
func NewMap[K weft.Key, V weft.Value](r *Ranks, shard LocalMap[K, V]) *Map[K, V] {
	m := &Map[K, V]{keyed: newKeyed(r, shard, column.TypeOf[V]()), local: shard, foreign: true}
	m.visitPages = func(ctx context.Context, visit func(keys []K) error) error {
		for p, err := range shard.Pages(ctx) {
			if err == nil {
				err = visit(p.Keys)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	m.loadPart = func(ctx context.Context, from io.Reader, keep func(K) bool) (n int, err error) {
		err = readSaved(from, core.Map, core.MapTypes[K, V](), func(keys []K, vals []V) error {
			kept := 0
			for i, k := range keys {
				if keep(k) {
					keys[kept], vals[kept] = k, vals[i]
					kept++
				}
			}
			n += kept
			_, err := shard.Put(ctx, keys[:kept], vals[:kept])
			return err
		})
		return n, err
	}
	return m
}

// Load adds the pairs in a folder that Save wrote, as Put would, and returns their number. Another
// number of ranks may have saved them: each rank reads the files that contain keys of its slots.
// All ranks must see the folder. If files are damaged or have other types, the error is
// [weft.ErrFormat], and some pairs may have been added.
func (m *Map[K, V]) Load(ctx context.Context, dir string) (n int, err error) {
	m.foreign = true
	return m.table.Load(ctx, dir)
}

// All iterates over the pairs of this rank's shard; see [weft.Map.All]. It is not collective.
func (m *Map[K, V]) All() iter.Seq2[K, V] { return m.local.All() }

// Pages iterates over the pairs of this rank's shard; see [weft.Map.Pages]. It is not collective.
func (m *Map[K, V]) Pages(ctx context.Context) iter.Seq2[weft.Page[K, V], error] {
	return m.local.Pages(ctx)
}

// Clear removes all pairs and keeps the memory. Ids start at 0 again.
func (m *Map[K, V]) Clear(ctx context.Context) error {
	err := m.table.Clear(ctx)
	if m.foreign = err != nil; err == nil {
		m.nextID = 0
	}
	return err
}

// Get looks up keys and returns the number of rows on all ranks that are found. vals[i] is zero if
// keys[i] is absent. If found is not nil, it receives whether each key is present.
func (m *Map[K, V]) Get(
	ctx context.Context, keys []K, vals []V, found []bool,
) (hits int, err error) {
	if m.r.size == 1 {
		return m.local.Get(ctx, keys, vals, found)
	}
	b := batch[K]{m.sign(methodGet, 0), keys, combineAny, found != nil,
		[]int{len(vals), optional(found, len(keys))}}
	return m.rounds(ctx, b, func(x *exchange, lo, hi int) {
		k := sendColumn(x, keysOut, keys[lo:hi])
		values, is := buffer[V](x, answersOut, x.receivedSum), x.flagsBuffer()
		x.apply(ctx, func(ctx context.Context) (int, error) {
			return m.local.Get(ctx, k, values, is)
		})
		if x.answersUndefined() {
			clear(values)
		}
		returnAnswers(x, answersIn, values, vals[lo:hi], false, 0)
		x.found(is, part(found, lo, hi))
	})
}

// Put inserts pairs or replaces values, and returns the number of new keys on all ranks. If a key
// occurs several times, its last row on the highest rank wins.
func (m *Map[K, V]) Put(ctx context.Context, keys []K, vals []V) (inserted int, err error) {
	return m.put(ctx, methodPut, keys, vals, m.local.Put)
}

// put runs a call that stores pairs. If a key occurs several times, its last row wins.
func (m *Map[K, V]) put(
	ctx context.Context, call method, keys []K, vals []V,
	run func(context.Context, []K, []V) (int, error),
) (inserted int, err error) {
	m.foreign = true
	if m.r.size == 1 {
		return run(ctx, keys, vals)
	}
	x := m.open(call)
	defer x.close()
	x.mustMatch(len(keys), len(vals))
	begin(ctx, x, keys, combineLast, false)
	k, v := sendColumn(x, keysOut, keys), sendColumn(x, valsOut, vals)
	x.apply(ctx, func(ctx context.Context) (int, error) { return run(ctx, k, v) })
	return x.end()
}

// PutNew inserts the pairs with absent keys and returns their number on all ranks. If ok is not
// nil, it receives whether each pair was inserted. If a key occurs several times, its first row on
// the lowest rank wins.
func (m *Map[K, V]) PutNew(
	ctx context.Context, keys []K, vals []V, ok []bool,
) (inserted int, err error) {
	m.foreign = true
	if m.r.size == 1 {
		return m.local.PutNew(ctx, keys, vals, ok)
	}
	x := m.open(methodPutNew)
	defer x.close()
	x.mustMatch(len(keys), len(vals), optional(ok, len(keys)))
	begin(ctx, x, keys, combineFirst, ok != nil)
	k, v := sendColumn(x, keysOut, keys), sendColumn(x, valsOut, vals)
	x.applyFlags(ctx, ok, func(ctx context.Context, is []bool) (int, error) {
		return m.local.PutNew(ctx, k, v, is)
	})
	return x.end()
}

// GetOrPut looks up keys, inserts absent keys with their values in vals, and returns the number of
// inserted keys on all ranks. If a key is present, its value replaces the one in vals. If loaded is
// not nil, it receives whether each value was loaded. If an absent key occurs several times, its
// first row on the lowest rank is inserted, and the other rows load that value.
func (m *Map[K, V]) GetOrPut(
	ctx context.Context, keys []K, vals []V, loaded []bool,
) (inserted int, err error) {
	m.foreign = true
	if m.r.size == 1 {
		return m.local.GetOrPut(ctx, keys, vals, loaded)
	}
	x := m.open(methodGetOrPut)
	defer x.close()
	x.mustMatch(len(keys), len(vals), optional(loaded, len(keys)))
	// not combined, because a row that exceeds the capacity keeps its own value
	begin(ctx, x, keys, combineNone, loaded != nil)
	k, v := sendColumn(x, keysOut, keys), sendColumn(x, valsOut, vals)
	x.applyFlags(ctx, loaded, func(ctx context.Context, is []bool) (int, error) {
		return m.local.GetOrPut(ctx, k, v, is)
	})
	returnAnswers(x, answersIn, v, vals, false, 0)
	return x.end()
}

// Reduce inserts pairs, or combines values with those in the map, and returns the number of new
// keys on all ranks. If the type of values does not support the reduction, the error is
// device.ErrInvalid, and nothing is changed.
func (m *Map[K, V]) Reduce(
	ctx context.Context, keys []K, vals []V, by weft.Reduction,
) (inserted int, err error) {
	m.foreign = true
	if m.r.size == 1 {
		return m.local.Reduce(ctx, keys, vals, by)
	}
	b := batch[K]{m.sign(methodReduce, uint8(by)), keys, combineValues, false, []int{len(vals)}}
	if by < weft.Sum || by > weft.Or || by >= weft.And && column.TypeOf[V]().Float() {
		b.combine = combineNone // the local map returns the error
	}
	return m.rounds(ctx, b, func(x *exchange, lo, hi int) {
		k, v := sendColumn(x, keysOut, keys[lo:hi]), sendReduced(x, valsOut, vals[lo:hi], by)
		x.apply(ctx, func(ctx context.Context) (int, error) {
			return m.local.Reduce(ctx, k, v, by)
		})
	})
}
