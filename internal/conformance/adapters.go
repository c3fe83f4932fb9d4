package conformance

import (
	"context"
	"io"
	"iter"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// Structures as the suites take them.
type (
	erasedMap interface {
		mapLike[uint64, uint64, words, words]
		types() types
		copyTo(ctx context.Context, dev device.Device) (to erasedMap, ok bool, err error)
	}
	erasedPairs interface {
		pairsLike[uint64, uint64, words, words]
		types() types
	}
	erasedMultiMap interface {
		multiMapLike[uint64, uint64, words, words]
		types() types
		copyTo(ctx context.Context, dev device.Device) (to erasedMultiMap, ok bool, err error)
	}
	erasedSet interface {
		setLike[uint64, words]
		types() types
		copyTo(ctx context.Context, dev device.Device) (to erasedSet, ok bool, err error)
	}
	erasedSeeker interface {
		seekerLike[uint64, uint64, words, words]
		saver() saver
	}
	erasedOrderedMap interface {
		orderedMapLike[uint64, uint64, words, words]
		saver() saver
		types() types
		copyTo(ctx context.Context, dev device.Device) (to erasedMap, ok bool, err error)
		snapshot(ctx context.Context) (at erasedSeeker, ok bool, err error)
	}
)

func eraseMap[K weft.Key, V weft.Value](m AnyMap[K, V]) erasedMap { return newMapAdapter(m) }

func eraseMultiMap[K weft.Key, V weft.Value](m AnyMultiMap[K, V]) erasedMultiMap {
	return multiMapAdapter[K, V]{newPairsAdapter[K, V](m), m}
}

func eraseSet[K weft.Key](s AnySet[K]) erasedSet { return setAdapter[K]{s, s} }

func eraseOrderedMap[K weft.Key, V weft.Value](m AnyOrderedMap[K, V]) erasedOrderedMap {
	return orderedMapAdapter[K, V]{newMapAdapter[K, V](m), seeksAdapter[K, V]{m}, m}
}

// erasing makes structures as the suites take them.
func erasing[S, E Structure](open Maker[S], erase func(S) E) Maker[E] {
	return func(t testing.TB, dev device.Device) E { return erase(open(t, dev)) }
}

// invariants asks a structure that checks itself.
func invariants(s any) error {
	if c, ok := s.(Check); ok {
		return c.CheckInvariants()
	}
	return nil
}

// ---- lookups ------------------------------------------------------------------

type lookupsAdapter[K weft.Key, V weft.Value] struct {
	lookups lookupsLike[K, V, device.Slice[K], device.Slice[V]]
}

func (a lookupsAdapter[K, V]) types() types { return typesOf[K, V]() }

func (a lookupsAdapter[K, V]) Get(ctx context.Context, keys, vals []uint64, found []bool) (int, error) {
	k, v := keysOf[K](keys), valsOf[V](vals)
	defer k.back()
	defer v.back()
	return a.lookups.Get(ctx, k.own, v.own, found)
}

func (a lookupsAdapter[K, V]) GetOn(s *device.Stream, keys, vals words, found device.Slice[bool], n ...device.Slice[uint64]) error {
	return a.lookups.GetOn(s, on[K](keys), on[V](vals), found, n...)
}

func (a lookupsAdapter[K, V]) Contains(ctx context.Context, keys []uint64, found []bool) (int, error) {
	k := keysOf[K](keys)
	defer k.back()
	return a.lookups.Contains(ctx, k.own, found)
}

func (a lookupsAdapter[K, V]) ContainsOn(s *device.Stream, keys words, found device.Slice[bool], n ...device.Slice[uint64]) error {
	return a.lookups.ContainsOn(s, on[K](keys), found, n...)
}

func (a lookupsAdapter[K, V]) All() iter.Seq2[uint64, uint64] { return pairsOf(a.lookups.All()) }

func (a lookupsAdapter[K, V]) Pages(ctx context.Context) iter.Seq2[weft.Page[uint64, uint64], error] {
	return pagesOf(a.lookups.Pages(ctx))
}

func pairsOf[K weft.Key, V weft.Value](pairs iter.Seq2[K, V]) iter.Seq2[uint64, uint64] {
	return func(yield func(k, v uint64) bool) {
		pairs(func(k K, v V) bool { return yield(toBits(k)^turned[K](), toBits(v)) })
	}
}

func pagesOf[K weft.Key, V weft.Value](pages iter.Seq2[weft.Page[K, V], error]) iter.Seq2[weft.Page[uint64, uint64], error] {
	return func(yield func(weft.Page[uint64, uint64], error) bool) {
		pages(func(p weft.Page[K, V], err error) bool {
			return yield(weft.Page[uint64, uint64]{Keys: widened(p.Keys, turned[K]()), Vals: widened(p.Vals, 0)}, err)
		})
	}
}

// ---- maps and multimaps -------------------------------------------------------

type typedPairs[K weft.Key, V weft.Value] = pairsLike[K, V, device.Slice[K], device.Slice[V]]

type pairsAdapter[K weft.Key, V weft.Value] struct {
	Structure
	lookupsAdapter[K, V]
	pairs typedPairs[K, V]
}

func newPairsAdapter[K weft.Key, V weft.Value](m typedPairs[K, V]) pairsAdapter[K, V] {
	return pairsAdapter[K, V]{m, lookupsAdapter[K, V]{m}, m}
}

// CheckInvariants implements Check.
func (a pairsAdapter[K, V]) CheckInvariants() error { return invariants(a.pairs) }

func (a pairsAdapter[K, V]) Put(ctx context.Context, keys, vals []uint64) (int, error) {
	k, v := keysOf[K](keys), valsOf[V](vals)
	defer k.back()
	defer v.back()
	return a.pairs.Put(ctx, k.own, v.own)
}

func (a pairsAdapter[K, V]) PutOn(s *device.Stream, keys, vals words, n ...device.Slice[uint64]) error {
	return a.pairs.PutOn(s, on[K](keys), on[V](vals), n...)
}

func (a pairsAdapter[K, V]) PutNew(ctx context.Context, keys, vals []uint64, ok []bool) (int, error) {
	k, v := keysOf[K](keys), valsOf[V](vals)
	defer k.back()
	defer v.back()
	return a.pairs.PutNew(ctx, k.own, v.own, ok)
}

func (a pairsAdapter[K, V]) PutNewOn(s *device.Stream, keys, vals words, ok device.Slice[bool], n ...device.Slice[uint64]) error {
	return a.pairs.PutNewOn(s, on[K](keys), on[V](vals), ok, n...)
}

func (a pairsAdapter[K, V]) Delete(ctx context.Context, keys []uint64, deleted []bool) (int, error) {
	k := keysOf[K](keys)
	defer k.back()
	return a.pairs.Delete(ctx, k.own, deleted)
}

func (a pairsAdapter[K, V]) DeleteOn(s *device.Stream, keys words, deleted device.Slice[bool], n ...device.Slice[uint64]) error {
	return a.pairs.DeleteOn(s, on[K](keys), deleted, n...)
}

func (a pairsAdapter[K, V]) Apply(ctx context.Context, ops []weft.Op[uint64, uint64], res []weft.Result[uint64]) error {
	own := make([]weft.Op[K, V], len(ops))
	for i, op := range ops {
		own[i] = weft.Op[K, V]{Kind: op.Kind, Key: fromBits[K](op.Key ^ turned[K]()), Value: fromBits[V](op.Value)}
	}
	if res == nil {
		return a.pairs.Apply(ctx, own, nil)
	}
	results := make([]weft.Result[V], len(res))
	for i, r := range res {
		results[i] = weft.Result[V]{Value: fromBits[V](r.Value), OK: r.OK}
	}
	err := a.pairs.Apply(ctx, own, results)
	for i, r := range results {
		res[i] = weft.Result[uint64]{Value: toBits(r.Value), OK: r.OK}
	}
	return err
}

func (a pairsAdapter[K, V]) ApplyOn(s *device.Stream, kinds device.Slice[weft.OpKind], keys, vals words, ok device.Slice[bool]) error {
	return a.pairs.ApplyOn(s, kinds, on[K](keys), on[V](vals), ok)
}

// ---- maps ---------------------------------------------------------------------

type mapAdapter[K weft.Key, V weft.Value] struct {
	pairsAdapter[K, V]
	m AnyMap[K, V]
}

func newMapAdapter[K weft.Key, V weft.Value](m AnyMap[K, V]) mapAdapter[K, V] {
	return mapAdapter[K, V]{newPairsAdapter[K, V](m), m}
}

func (a mapAdapter[K, V]) GetOrPut(ctx context.Context, keys, vals []uint64, loaded []bool) (int, error) {
	k, v := keysOf[K](keys), valsOf[V](vals)
	defer k.back()
	defer v.back()
	return a.m.GetOrPut(ctx, k.own, v.own, loaded)
}

func (a mapAdapter[K, V]) GetOrPutOn(s *device.Stream, keys, vals words, loaded device.Slice[bool], n ...device.Slice[uint64]) error {
	return a.m.GetOrPutOn(s, on[K](keys), on[V](vals), loaded, n...)
}

func (a mapAdapter[K, V]) Assign(ctx context.Context, keys, ids []uint64) (int, error) {
	k, v := keysOf[K](keys), valsOf[V](ids)
	defer k.back()
	defer v.back()
	return a.m.Assign(ctx, k.own, v.own)
}

func (a mapAdapter[K, V]) Reduce(ctx context.Context, keys, vals []uint64, by weft.Reduction) (int, error) {
	k, v := keysOf[K](keys), valsOf[V](vals)
	defer k.back()
	defer v.back()
	return a.m.Reduce(ctx, k.own, v.own, by)
}

func (a mapAdapter[K, V]) ReduceOn(s *device.Stream, keys, vals words, by weft.Reduction, n ...device.Slice[uint64]) error {
	return a.m.ReduceOn(s, on[K](keys), on[V](vals), by, n...)
}

func (a mapAdapter[K, V]) copyTo(ctx context.Context, dev device.Device) (erasedMap, bool, error) {
	from, ok := a.m.(interface {
		CopyTo(context.Context, device.Device) (*weft.Map[K, V], error)
	})
	if !ok {
		return nil, false, nil
	}
	to, err := from.CopyTo(ctx, dev)
	return eraseMap[K, V](to), true, err
}

// ---- multimaps ----------------------------------------------------------------

type multiMapAdapter[K weft.Key, V weft.Value] struct {
	pairsAdapter[K, V]
	m AnyMultiMap[K, V]
}

func (a multiMapAdapter[K, V]) GetAll(ctx context.Context, keys []uint64, rows *weft.Rows[uint64]) error {
	k, v := keysOf[K](keys), valsOf[V](rows.Vals)
	defer k.back()
	own := weft.Rows[V]{Offsets: rows.Offsets, Vals: v.own}
	err := a.m.GetAll(ctx, k.own, &own)
	rows.Offsets, rows.Vals = own.Offsets, widened(own.Vals, 0)
	return err
}

func (a multiMapAdapter[K, V]) GetAllOn(s *device.Stream, keys words, counts device.Slice[uint32], offsets device.Slice[uint64], vals words) error {
	return a.m.GetAllOn(s, on[K](keys), counts, offsets, on[V](vals))
}

func (a multiMapAdapter[K, V]) Count(ctx context.Context, keys []uint64, counts []uint32) (int, error) {
	k := keysOf[K](keys)
	defer k.back()
	return a.m.Count(ctx, k.own, counts)
}

func (a multiMapAdapter[K, V]) CountOn(s *device.Stream, keys words, counts device.Slice[uint32]) error {
	return a.m.CountOn(s, on[K](keys), counts)
}

func (a multiMapAdapter[K, V]) DeleteAll(ctx context.Context, keys []uint64, removed []uint32) (int, error) {
	k := keysOf[K](keys)
	defer k.back()
	return a.m.DeleteAll(ctx, k.own, removed)
}

func (a multiMapAdapter[K, V]) DeleteAllOn(s *device.Stream, keys words, removed device.Slice[uint32], n ...device.Slice[uint64]) error {
	return a.m.DeleteAllOn(s, on[K](keys), removed, n...)
}

func (a multiMapAdapter[K, V]) copyTo(ctx context.Context, dev device.Device) (erasedMultiMap, bool, error) {
	from, ok := a.m.(interface {
		CopyTo(context.Context, device.Device) (*weft.MultiMap[K, V], error)
	})
	if !ok {
		return nil, false, nil
	}
	to, err := from.CopyTo(ctx, dev)
	return eraseMultiMap[K, V](to), true, err
}

// ---- sets ---------------------------------------------------------------------

type setAdapter[K weft.Key] struct {
	Structure
	set AnySet[K]
}

// CheckInvariants implements Check.
func (a setAdapter[K]) CheckInvariants() error { return invariants(a.set) }

func (a setAdapter[K]) types() types { return typesOf[K, uint32]() }

func (a setAdapter[K]) Add(ctx context.Context, keys []uint64, added []bool) (int, error) {
	k := keysOf[K](keys)
	defer k.back()
	return a.set.Add(ctx, k.own, added)
}

func (a setAdapter[K]) AddOn(s *device.Stream, keys words, added device.Slice[bool], n ...device.Slice[uint64]) error {
	return a.set.AddOn(s, on[K](keys), added, n...)
}

func (a setAdapter[K]) Contains(ctx context.Context, keys []uint64, found []bool) (int, error) {
	k := keysOf[K](keys)
	defer k.back()
	return a.set.Contains(ctx, k.own, found)
}

func (a setAdapter[K]) ContainsOn(s *device.Stream, keys words, found device.Slice[bool], n ...device.Slice[uint64]) error {
	return a.set.ContainsOn(s, on[K](keys), found, n...)
}

func (a setAdapter[K]) Delete(ctx context.Context, keys []uint64, deleted []bool) (int, error) {
	k := keysOf[K](keys)
	defer k.back()
	return a.set.Delete(ctx, k.own, deleted)
}

func (a setAdapter[K]) DeleteOn(s *device.Stream, keys words, deleted device.Slice[bool], n ...device.Slice[uint64]) error {
	return a.set.DeleteOn(s, on[K](keys), deleted, n...)
}

func (a setAdapter[K]) ApplyOn(s *device.Stream, kinds device.Slice[weft.OpKind], keys words, ok device.Slice[bool]) error {
	return a.set.ApplyOn(s, kinds, on[K](keys), ok)
}

func (a setAdapter[K]) All() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		a.set.All()(func(k K) bool { return yield(toBits(k) ^ turned[K]()) })
	}
}

func (a setAdapter[K]) Pages(ctx context.Context) iter.Seq2[[]uint64, error] {
	return func(yield func([]uint64, error) bool) {
		a.set.Pages(ctx)(func(keys []K, err error) bool { return yield(widened(keys, turned[K]()), err) })
	}
}

func (a setAdapter[K]) copyTo(ctx context.Context, dev device.Device) (erasedSet, bool, error) {
	from, ok := a.set.(interface {
		CopyTo(context.Context, device.Device) (*weft.Set[K], error)
	})
	if !ok {
		return nil, false, nil
	}
	to, err := from.CopyTo(ctx, dev)
	return eraseSet[K](to), true, err
}

// ---- ordered maps -------------------------------------------------------------

type orderedMapAdapter[K weft.Key, V weft.Value] struct {
	mapAdapter[K, V]
	seeksAdapter[K, V]
	m AnyOrderedMap[K, V]
}

func (a orderedMapAdapter[K, V]) Build(ctx context.Context, keys, vals []uint64) (int, error) {
	k, v := keysOf[K](keys), valsOf[V](vals)
	defer k.back()
	defer v.back()
	return a.m.Build(ctx, k.own, v.own)
}

func (a orderedMapAdapter[K, V]) BuildOn(s *device.Stream, keys, vals words, n ...device.Slice[uint64]) error {
	return a.m.BuildOn(s, on[K](keys), on[V](vals), n...)
}

func (a orderedMapAdapter[K, V]) DeleteRange(ctx context.Context, lo, hi []uint64, removed []uint32) (int, error) {
	l, h := keysOf[K](lo), keysOf[K](hi)
	defer l.back()
	defer h.back()
	return a.m.DeleteRange(ctx, l.own, h.own, removed)
}

func (a orderedMapAdapter[K, V]) DeleteRangeOn(s *device.Stream, lo, hi words, removed device.Slice[uint32], n ...device.Slice[uint64]) error {
	return a.m.DeleteRangeOn(s, on[K](lo), on[K](hi), removed, n...)
}

func (a orderedMapAdapter[K, V]) copyTo(ctx context.Context, dev device.Device) (erasedMap, bool, error) {
	from, ok := a.m.(interface {
		CopyTo(context.Context, device.Device) (*weft.OrderedMap[K, V], error)
	})
	if !ok {
		return nil, false, nil
	}
	to, err := from.CopyTo(ctx, dev)
	return eraseOrderedMap[K, V](to), true, err
}

func (a orderedMapAdapter[K, V]) snapshot(ctx context.Context) (erasedSeeker, bool, error) {
	var at AnySeeker[K, V]
	var err error
	switch m := a.m.(type) {
	case interface {
		Snapshot(context.Context) (*weft.Snapshot[K, V], error)
	}:
		at, err = m.Snapshot(ctx)
	case interface {
		Snapshot(context.Context) (AnySeeker[K, V], error)
	}:
		at, err = m.Snapshot(ctx)
	default:
		return nil, false, nil
	}
	return snapshotAdapter[K, V]{lookupsAdapter[K, V]{at}, seeksAdapter[K, V]{at}}, true, err
}

// snapshotAdapter is a snapshot as the suites take it.
type snapshotAdapter[K weft.Key, V weft.Value] struct {
	lookupsAdapter[K, V]
	seeksAdapter[K, V]
}

func (a snapshotAdapter[K, V]) Len() int     { return a.seeks.Len() }
func (a snapshotAdapter[K, V]) Close() error { return a.seeks.Close() }

// seeksAdapter has what ordered maps and snapshots find by the order of keys.
type seeksAdapter[K weft.Key, V weft.Value] struct{ seeks AnySeeker[K, V] }

func (a seeksAdapter[K, V]) Backward() iter.Seq2[uint64, uint64] { return pairsOf(a.seeks.Backward()) }

func (a seeksAdapter[K, V]) Between(ctx context.Context, lo, hi uint64) iter.Seq2[weft.Page[uint64, uint64], error] {
	return pagesOf(a.seeks.Between(ctx, fromBits[K](lo^turned[K]()), fromBits[K](hi^turned[K]())))
}

func (a seeksAdapter[K, V]) Range(ctx context.Context, lo, hi []uint64, limit int, rows *weft.PairRows[uint64, uint64]) error {
	return ranged(ctx, lo, hi, limit, rows, a.seeks.Range)
}

func (a seeksAdapter[K, V]) RangeBackward(ctx context.Context, lo, hi []uint64, limit int, rows *weft.PairRows[uint64, uint64]) error {
	return ranged(ctx, lo, hi, limit, rows, a.seeks.RangeBackward)
}

// ranged calls Range or RangeBackward.
func ranged[K weft.Key, V weft.Value](ctx context.Context, lo, hi []uint64, limit int, rows *weft.PairRows[uint64, uint64], ask func(context.Context, []K, []K, int, *weft.PairRows[K, V]) error) error {
	l, h := keysOf[K](lo), keysOf[K](hi)
	defer l.back()
	defer h.back()
	own := weft.PairRows[K, V]{Offsets: rows.Offsets, Keys: keysOf[K](rows.Keys).own, Vals: valsOf[V](rows.Vals).own}
	err := ask(ctx, l.own, h.own, limit, &own)
	rows.Offsets, rows.Keys, rows.Vals = own.Offsets, widened(own.Keys, turned[K]()), widened(own.Vals, 0)
	return err
}

func (a seeksAdapter[K, V]) RangeFirst(ctx context.Context, lo, hi []uint64, limit int, counts []uint32, keys, vals []uint64) (int, error) {
	l, h, k, v := keysOf[K](lo), keysOf[K](hi), keysOf[K](keys), valsOf[V](vals)
	defer l.back()
	defer h.back()
	defer k.back()
	defer v.back()
	return a.seeks.RangeFirst(ctx, l.own, h.own, limit, counts, k.own, v.own)
}

func (a seeksAdapter[K, V]) RangeLast(ctx context.Context, lo, hi []uint64, limit int, counts []uint32, keys, vals []uint64) (int, error) {
	l, h, k, v := keysOf[K](lo), keysOf[K](hi), keysOf[K](keys), valsOf[V](vals)
	defer l.back()
	defer h.back()
	defer k.back()
	defer v.back()
	return a.seeks.RangeLast(ctx, l.own, h.own, limit, counts, k.own, v.own)
}

func (a seeksAdapter[K, V]) Count(ctx context.Context, lo, hi []uint64, counts []uint32) (int, error) {
	l, h := keysOf[K](lo), keysOf[K](hi)
	defer l.back()
	defer h.back()
	return a.seeks.Count(ctx, l.own, h.own, counts)
}

func (a seeksAdapter[K, V]) Rank(ctx context.Context, keys, ranks []uint64) error {
	k := keysOf[K](keys)
	defer k.back()
	return a.seeks.Rank(ctx, k.own, ranks)
}

func (a seeksAdapter[K, V]) Select(ctx context.Context, ranks, keys, vals []uint64, found []bool) (int, error) {
	k, v := keysOf[K](keys), valsOf[V](vals)
	defer k.back()
	defer v.back()
	return a.seeks.Select(ctx, ranks, k.own, v.own, found)
}

func (a seeksAdapter[K, V]) Successor(ctx context.Context, keys, next, vals []uint64, found []bool) (int, error) {
	k, n, v := keysOf[K](keys), keysOf[K](next), valsOf[V](vals)
	defer k.back()
	defer n.back()
	defer v.back()
	return a.seeks.Successor(ctx, k.own, n.own, v.own, found)
}

func (a seeksAdapter[K, V]) Predecessor(ctx context.Context, keys, previous, vals []uint64, found []bool) (int, error) {
	k, p, v := keysOf[K](keys), keysOf[K](previous), valsOf[V](vals)
	defer k.back()
	defer p.back()
	defer v.back()
	return a.seeks.Predecessor(ctx, k.own, p.own, v.own, found)
}

func (a seeksAdapter[K, V]) Min(ctx context.Context) (uint64, uint64, bool, error) {
	k, v, ok, err := a.seeks.Min(ctx)
	return toBits(k) ^ turned[K](), toBits(v), ok, err
}

func (a seeksAdapter[K, V]) Max(ctx context.Context) (uint64, uint64, bool, error) {
	k, v, ok, err := a.seeks.Max(ctx)
	return toBits(k) ^ turned[K](), toBits(v), ok, err
}

func (a seeksAdapter[K, V]) RangeOn(s *device.Stream, lo, hi words, limit int, counts device.Slice[uint32], offsets device.Slice[uint64], keys, vals words) error {
	return a.seeks.RangeOn(s, on[K](lo), on[K](hi), limit, counts, offsets, on[K](keys), on[V](vals))
}

func (a seeksAdapter[K, V]) RangeBackwardOn(s *device.Stream, lo, hi words, limit int, counts device.Slice[uint32], offsets device.Slice[uint64], keys, vals words) error {
	return a.seeks.RangeBackwardOn(s, on[K](lo), on[K](hi), limit, counts, offsets, on[K](keys), on[V](vals))
}

func (a seeksAdapter[K, V]) RangeFirstOn(s *device.Stream, lo, hi words, limit int, counts device.Slice[uint32], keys, vals words, n ...device.Slice[uint64]) error {
	return a.seeks.RangeFirstOn(s, on[K](lo), on[K](hi), limit, counts, on[K](keys), on[V](vals), n...)
}

func (a seeksAdapter[K, V]) RangeLastOn(s *device.Stream, lo, hi words, limit int, counts device.Slice[uint32], keys, vals words, n ...device.Slice[uint64]) error {
	return a.seeks.RangeLastOn(s, on[K](lo), on[K](hi), limit, counts, on[K](keys), on[V](vals), n...)
}

func (a seeksAdapter[K, V]) CountOn(s *device.Stream, lo, hi words, counts device.Slice[uint32]) error {
	return a.seeks.CountOn(s, on[K](lo), on[K](hi), counts)
}

func (a seeksAdapter[K, V]) RankOn(s *device.Stream, keys words, ranks device.Slice[uint64]) error {
	return a.seeks.RankOn(s, on[K](keys), ranks)
}

func (a seeksAdapter[K, V]) SelectOn(s *device.Stream, ranks device.Slice[uint64], keys, vals words, found device.Slice[bool], n ...device.Slice[uint64]) error {
	return a.seeks.SelectOn(s, ranks, on[K](keys), on[V](vals), found, n...)
}

func (a seeksAdapter[K, V]) SuccessorOn(s *device.Stream, keys, next, vals words, found device.Slice[bool], n ...device.Slice[uint64]) error {
	return a.seeks.SuccessorOn(s, on[K](keys), on[K](next), on[V](vals), found, n...)
}

func (a seeksAdapter[K, V]) PredecessorOn(s *device.Stream, keys, previous, vals words, found device.Slice[bool], n ...device.Slice[uint64]) error {
	return a.seeks.PredecessorOn(s, on[K](keys), on[K](previous), on[V](vals), found, n...)
}

// saver is what saves the pairs, or nil.
func (a seeksAdapter[K, V]) saver() saver {
	s, _ := a.seeks.(saver)
	return s
}

type saver interface {
	Save(ctx context.Context, w io.Writer) (n int, err error)
}
