package shard

import (
	"context"
	"io"
	"iter"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/core"
)

// LocalMap is the map that holds the shard of one rank: a [weft.Map] or weft.OrderedMap, or what
// embeds one, such as a linear.Map.
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

// Map is a map with keys spread over ranks. Its methods are those of [weft.Map], and all of them
// are collective except All, Pages and Close. Counts are those of all ranks together.
type Map[K weft.Key, V weft.Value] struct {
	keyed[K]
	local LocalMap[K, V]

	nextID  uint64 // larger than all ids that Assign has given
	foreign bool   // values may be in the map that are larger
}

// NewMap makes a map over the map that each rank passes for its own shard, which may have pairs of
// this rank's slots already. The map closes it. All ranks make their structures in the same order.
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

// Load adds the pairs of a folder that Save wrote, as Put would, and returns their number. The
// number of ranks may be another one than that of Save: each rank reads the files that have keys of
// its own. All ranks see the folder. [weft.ErrFormat] if files are damaged, or hold other types;
// then a part of the pairs may have been added.
func (m *Map[K, V]) Load(ctx context.Context, dir string) (n int, err error) {
	m.foreign = true
	return m.table.Load(ctx, dir)
}

// All iterates over the pairs of this rank's shard, as [weft.Map.All] does. It is not collective.
func (m *Map[K, V]) All() iter.Seq2[K, V] { return m.local.All() }

// Pages iterates over the pairs of this rank's shard, as [weft.Map.Pages] does. It is not
// collective.
func (m *Map[K, V]) Pages(ctx context.Context) iter.Seq2[weft.Page[K, V], error] {
	return m.local.Pages(ctx)
}

// Clear removes everything and keeps the memory. Ids begin at 0 again.
func (m *Map[K, V]) Clear(ctx context.Context) error {
	err := m.table.Clear(ctx)
	if m.foreign = err != nil; err == nil {
		m.nextID = 0
	}
	return err
}

// Get looks keys up and counts the rows of all ranks that are found. vals[i] is zero where the key
// is absent; found, if not nil, reports which are there.
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

// Put inserts pairs or replaces values and counts the keys that were new. Of rows with one key the
// last one of the highest rank wins.
func (m *Map[K, V]) Put(ctx context.Context, keys []K, vals []V) (inserted int, err error) {
	return m.put(ctx, methodPut, keys, vals, m.local.Put)
}

// put sends pairs. The last one of a key counts.
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

// PutNew inserts the pairs with absent keys and counts them. ok, if not nil, reports which. Of rows
// with one key the first one of the lowest rank wins.
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

// GetOrPut looks keys up, inserts those that are absent with the values that vals brings, and
// counts these. Where a key is there, vals receives its value; loaded, if not nil, reports where.
// Of rows with one absent key the first one of the lowest rank is inserted, and the others load its
// value.
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
	begin(ctx, x, keys, combineNone, loaded != nil) // a row without room keeps its own value
	k, v := sendColumn(x, keysOut, keys), sendColumn(x, valsOut, vals)
	x.applyFlags(ctx, loaded, func(ctx context.Context, is []bool) (int, error) {
		return m.local.GetOrPut(ctx, k, v, is)
	})
	returnAnswers(x, answersIn, v, vals, false, 0)
	return x.end()
}

// Reduce inserts pairs or combines their values with those that are there, and counts the keys that
// were new. A reduction that the values don't have is device.ErrInvalid, and then nothing is run.
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
