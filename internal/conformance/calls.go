package conformance

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// Each package compiles the functions in this file for each of its pairs of types. To save compile
// time, they do nothing except convert arguments and call a structure.

// erasing returns a Maker that calls the constructor open and erases the types of the structures.
func erasing[S, E Structure](open Maker[S], erase func(S) E) Maker[E] {
	return func(t testing.TB, dev device.Device) E { return erase(open(t, dev)) }
}

// copyStructure returns a copy of a structure. ok is false if the structure has no method CopyTo.
func copyStructure[M, E any](ctx context.Context, dev device.Device, from any, erase func(M) E) (copy E, ok bool, err error) {
	of, ok := from.(interface {
		CopyTo(context.Context, device.Device) (M, error)
	})
	if !ok {
		return copy, false, nil
	}
	to, err := of.CopyTo(ctx, dev)
	return erase(to), true, err
}

func eraseMap[K weft.Key, V weft.Value](m AnyMap[K, V]) erasedMap {
	to := caller{typesOf[K, V](), m, func(c *call) (int, error) { return callMap(m, c) }}
	return &mapAdapter{pairsAdapter{m, lookupsAdapter{to}}, func(ctx context.Context, dev device.Device) (erasedMap, bool, error) {
		return copyStructure(ctx, dev, m, func(to *weft.Map[K, V]) erasedMap { return eraseMap[K, V](to) })
	}}
}

func eraseMultiMap[K weft.Key, V weft.Value](m AnyMultiMap[K, V]) erasedMultiMap {
	to := caller{typesOf[K, V](), m, func(c *call) (int, error) { return callMultiMap(m, c) }}
	return &multiMapAdapter{pairsAdapter{m, lookupsAdapter{to}}, func(ctx context.Context, dev device.Device) (erasedMultiMap, bool, error) {
		return copyStructure(ctx, dev, m, func(to *weft.MultiMap[K, V]) erasedMultiMap { return eraseMultiMap[K, V](to) })
	}}
}

func eraseSet[K weft.Key](s AnySet[K]) erasedSet {
	to := caller{typesOf[K, uint32](), s, func(c *call) (int, error) { return callSet(s, c) }}
	return &setAdapter{s, to, func(ctx context.Context, dev device.Device) (erasedSet, bool, error) {
		return copyStructure(ctx, dev, s, func(to *weft.Set[K]) erasedSet { return eraseSet[K](to) })
	}}
}

func eraseOrderedMap[K weft.Key, V weft.Value](m AnyOrderedMap[K, V]) erasedOrderedMap {
	to := caller{typesOf[K, V](), m, func(c *call) (int, error) { return callOrderedMap(m, c) }}
	copies := func(ctx context.Context, dev device.Device) (erasedMap, bool, error) {
		return copyStructure(ctx, dev, m, func(to *weft.OrderedMap[K, V]) erasedMap { return eraseOrderedMap[K, V](to) })
	}
	seeks := caller{to.typ, m, func(c *call) (int, error) { return callSeeks[K, V](m, c) }}
	return &orderedMapAdapter{mapAdapter{pairsAdapter{m, lookupsAdapter{to}}, copies}, seeksAdapter{seeks}, func(ctx context.Context) (erasedSeeker, bool, error) {
		var at AnySeeker[K, V]
		var err error
		switch m := m.(type) {
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
		to := caller{to.typ, at, func(c *call) (int, error) { return callSeeks(at, c) }}
		return &snapshotAdapter{lookupsAdapter{to}, seeksAdapter{to}, at}, true, err
	}}
}

// typedLookups and typedPairs are interfaces with the structure's own types.
type (
	typedLookups[K weft.Key, V weft.Value] = lookupsLike[K, V, device.Slice[K], device.Slice[V]]
	typedPairs[K weft.Key, V weft.Value]   = pairsLike[K, V, device.Slice[K], device.Slice[V]]
)

func callLookups[K weft.Key, V weft.Value](m typedLookups[K, V], c *call) (int, error) {
	switch c.method {
	case "Get":
		return m.Get(c.ctx, hostColumn[K](c.hostCopies[0]), hostColumn[V](c.valsCopy), c.flags)
	case "GetOn":
		return 0, m.GetOn(c.stream, deviceColumn[K](c.onKeys[0]), deviceColumn[V](c.onVals), c.onFlags, c.n...)
	case "Contains":
		return m.Contains(c.ctx, hostColumn[K](c.hostCopies[0]), c.flags)
	case "ContainsOn":
		return 0, m.ContainsOn(c.stream, deviceColumn[K](c.onKeys[0]), c.onFlags, c.n...)
	case "All":
		c.all = pairsOf(m.All())
		return 0, nil
	case "Pages":
		c.pages = pagesOf(m.Pages(c.ctx))
		return 0, nil
	}
	panic(fmt.Sprintf("no structure has a method %s", c.method))
}

func callPairs[K weft.Key, V weft.Value](m typedPairs[K, V], c *call) (int, error) {
	keys, vals := hostColumn[K](c.hostCopies[0]), hostColumn[V](c.valsCopy)
	onKeys, onVals := deviceColumn[K](c.onKeys[0]), deviceColumn[V](c.onVals)
	switch c.method {
	case "Put":
		return m.Put(c.ctx, keys, vals)
	case "PutOn":
		return 0, m.PutOn(c.stream, onKeys, onVals, c.n...)
	case "PutNew":
		return m.PutNew(c.ctx, keys, vals, c.flags)
	case "PutNewOn":
		return 0, m.PutNewOn(c.stream, onKeys, onVals, c.onFlags, c.n...)
	case "Delete":
		return m.Delete(c.ctx, keys, c.flags)
	case "DeleteOn":
		return 0, m.DeleteOn(c.stream, onKeys, c.onFlags, c.n...)
	case "Apply":
		return 0, callApply(m, c)
	case "ApplyOn":
		return 0, m.ApplyOn(c.stream, c.onKinds, onKeys, onVals, c.onFlags)
	}
	return callLookups[K, V](m, c)
}

func callApply[K weft.Key, V weft.Value](m typedPairs[K, V], c *call) error {
	ops := make([]weft.Op[K, V], len(c.ops))
	for i, op := range c.ops {
		ops[i] = weft.Op[K, V]{Kind: op.Kind, Key: fromBits[K](op.Key ^ signBitOf[K]()), Value: fromBits[V](op.Value)}
	}
	var results []weft.Result[V]
	if c.results != nil {
		results = make([]weft.Result[V], len(c.results))
	}
	for i, r := range c.results {
		results[i] = weft.Result[V]{Value: fromBits[V](r.Value), OK: r.OK}
	}
	err := m.Apply(c.ctx, ops, results)
	for i, r := range results {
		c.results[i] = weft.Result[uint64]{Value: toBits(r.Value), OK: r.OK}
	}
	return err
}

func callMap[K weft.Key, V weft.Value](m AnyMap[K, V], c *call) (int, error) {
	keys, vals := hostColumn[K](c.hostCopies[0]), hostColumn[V](c.valsCopy)
	onKeys, onVals := deviceColumn[K](c.onKeys[0]), deviceColumn[V](c.onVals)
	switch c.method {
	case "GetOrPut":
		return m.GetOrPut(c.ctx, keys, vals, c.flags)
	case "GetOrPutOn":
		return 0, m.GetOrPutOn(c.stream, onKeys, onVals, c.onFlags, c.n...)
	case "Assign":
		return m.Assign(c.ctx, keys, vals)
	case "Reduce":
		return m.Reduce(c.ctx, keys, vals, c.by)
	case "ReduceOn":
		return 0, m.ReduceOn(c.stream, onKeys, onVals, c.by, c.n...)
	}
	return callPairs[K, V](m, c)
}

func callMultiMap[K weft.Key, V weft.Value](m AnyMultiMap[K, V], c *call) (int, error) {
	keys, onKeys := hostColumn[K](c.hostCopies[0]), deviceColumn[K](c.onKeys[0])
	switch c.method {
	case "GetAll":
		rows := weft.Rows[V]{Offsets: c.rows.Offsets, Vals: slices.Clone(hostColumn[V](c.valsCopy))}
		err := m.GetAll(c.ctx, keys, &rows)
		c.rows.Offsets, c.rows.Vals = rows.Offsets, widened(rows.Vals, 0)
		return 0, err
	case "GetAllOn":
		return 0, m.GetAllOn(c.stream, onKeys, c.onCounts, c.onRanks, deviceColumn[V](c.onVals))
	case "Count":
		return m.Count(c.ctx, keys, c.counts)
	case "CountOn":
		return 0, m.CountOn(c.stream, onKeys, c.onCounts)
	case "DeleteAll":
		return m.DeleteAll(c.ctx, keys, c.counts)
	case "DeleteAllOn":
		return 0, m.DeleteAllOn(c.stream, onKeys, c.onCounts, c.n...)
	}
	return callPairs[K, V](m, c)
}

func callSet[K weft.Key](s AnySet[K], c *call) (int, error) {
	keys, onKeys := hostColumn[K](c.hostCopies[0]), deviceColumn[K](c.onKeys[0])
	switch c.method {
	case "Add":
		return s.Add(c.ctx, keys, c.flags)
	case "AddOn":
		return 0, s.AddOn(c.stream, onKeys, c.onFlags, c.n...)
	case "Contains":
		return s.Contains(c.ctx, keys, c.flags)
	case "ContainsOn":
		return 0, s.ContainsOn(c.stream, onKeys, c.onFlags, c.n...)
	case "Delete":
		return s.Delete(c.ctx, keys, c.flags)
	case "DeleteOn":
		return 0, s.DeleteOn(c.stream, onKeys, c.onFlags, c.n...)
	case "ApplyOn":
		return 0, s.ApplyOn(c.stream, c.onKinds, onKeys, c.onFlags)
	case "All":
		c.all = func(yield func(k, v uint64) bool) {
			s.All()(func(k K) bool { return yield(toBits(k)^signBitOf[K](), 0) })
		}
	case "Pages":
		c.pages = func(yield func(weft.Page[uint64, uint64], error) bool) {
			s.Pages(c.ctx)(func(keys []K, err error) bool {
				return yield(weft.Page[uint64, uint64]{Keys: widened(keys, signBitOf[K]())}, err)
			})
		}
	}
	return 0, nil
}

func callOrderedMap[K weft.Key, V weft.Value](m AnyOrderedMap[K, V], c *call) (int, error) {
	switch c.method {
	case "Build":
		return m.Build(c.ctx, hostColumn[K](c.hostCopies[0]), hostColumn[V](c.valsCopy))
	case "BuildOn":
		return 0, m.BuildOn(c.stream, deviceColumn[K](c.onKeys[0]), deviceColumn[V](c.onVals), c.n...)
	case "DeleteRange":
		return m.DeleteRange(c.ctx, hostColumn[K](c.hostCopies[0]), hostColumn[K](c.hostCopies[1]), c.counts)
	case "DeleteRangeOn":
		return 0, m.DeleteRangeOn(c.stream, deviceColumn[K](c.onKeys[0]), deviceColumn[K](c.onKeys[1]), c.onCounts, c.n...)
	}
	return callMap[K, V](m, c)
}

func callSeeks[K weft.Key, V weft.Value](m AnySeeker[K, V], c *call) (int, error) {
	lo, hi, keys, vals := hostColumn[K](c.hostCopies[0]), hostColumn[K](c.hostCopies[1]), hostColumn[K](c.hostCopies[2]), hostColumn[V](c.valsCopy)
	onLo, onHi, onKeys, onVals := deviceColumn[K](c.onKeys[0]), deviceColumn[K](c.onKeys[1]), deviceColumn[K](c.onKeys[2]), deviceColumn[V](c.onVals)
	switch c.method {
	case "Range":
		return 0, callRange(m.Range, c)
	case "RangeBackward":
		return 0, callRange(m.RangeBackward, c)
	case "RangeOn":
		return 0, m.RangeOn(c.stream, onLo, onHi, c.limit, c.onCounts, c.onRanks, onKeys, onVals)
	case "RangeBackwardOn":
		return 0, m.RangeBackwardOn(c.stream, onLo, onHi, c.limit, c.onCounts, c.onRanks, onKeys, onVals)
	case "RangeFirst":
		return m.RangeFirst(c.ctx, lo, hi, c.limit, c.counts, keys, vals)
	case "RangeFirstOn":
		return 0, m.RangeFirstOn(c.stream, onLo, onHi, c.limit, c.onCounts, onKeys, onVals, c.n...)
	case "RangeLast":
		return m.RangeLast(c.ctx, lo, hi, c.limit, c.counts, keys, vals)
	case "RangeLastOn":
		return 0, m.RangeLastOn(c.stream, onLo, onHi, c.limit, c.onCounts, onKeys, onVals, c.n...)
	case "Count":
		return m.Count(c.ctx, lo, hi, c.counts)
	case "CountOn":
		return 0, m.CountOn(c.stream, onLo, onHi, c.onCounts)
	case "Rank":
		return 0, m.Rank(c.ctx, lo, c.ranks)
	case "RankOn":
		return 0, m.RankOn(c.stream, onLo, c.onRanks)
	case "Select":
		return m.Select(c.ctx, c.ranks, keys, vals, c.flags)
	case "SelectOn":
		return 0, m.SelectOn(c.stream, c.onRanks, onKeys, onVals, c.onFlags, c.n...)
	case "Successor":
		return m.Successor(c.ctx, lo, keys, vals, c.flags)
	case "SuccessorOn":
		return 0, m.SuccessorOn(c.stream, onLo, onKeys, onVals, c.onFlags, c.n...)
	case "Predecessor":
		return m.Predecessor(c.ctx, lo, keys, vals, c.flags)
	case "PredecessorOn":
		return 0, m.PredecessorOn(c.stream, onLo, onKeys, onVals, c.onFlags, c.n...)
	case "Min":
		lo[0], vals[0], c.flags[0], c.err = m.Min(c.ctx)
		return 0, c.err
	case "Max":
		lo[0], vals[0], c.flags[0], c.err = m.Max(c.ctx)
		return 0, c.err
	case "Backward":
		c.all = pairsOf(m.Backward())
		return 0, nil
	case "Between":
		c.pages = pagesOf(m.Between(c.ctx, lo[0], hi[0]))
		return 0, nil
	}
	return callLookups[K, V](m, c)
}

// callRange calls Range or RangeBackward, which is passed as ask.
func callRange[K weft.Key, V weft.Value](ask func(ctx context.Context, lo, hi []K, limit int, rows *weft.PairRows[K, V]) error, c *call) error {
	rows := weft.PairRows[K, V]{Offsets: c.rows.Offsets, Keys: slices.Clone(hostColumn[K](c.hostCopies[2])), Vals: slices.Clone(hostColumn[V](c.valsCopy))}
	err := ask(c.ctx, hostColumn[K](c.hostCopies[0]), hostColumn[K](c.hostCopies[1]), c.limit, &rows)
	c.rows.Offsets, c.rows.Keys, c.rows.Vals = rows.Offsets, widened(rows.Keys, signBitOf[K]()), widened(rows.Vals, 0)
	return err
}

func pairsOf[K weft.Key, V weft.Value](pairs iter.Seq2[K, V]) iter.Seq2[uint64, uint64] {
	return func(yield func(k, v uint64) bool) {
		pairs(func(k K, v V) bool { return yield(toBits(k)^signBitOf[K](), toBits(v)) })
	}
}

func pagesOf[K weft.Key, V weft.Value](pages iter.Seq2[weft.Page[K, V], error]) iter.Seq2[weft.Page[uint64, uint64], error] {
	return func(yield func(weft.Page[uint64, uint64], error) bool) {
		pages(func(p weft.Page[K, V], err error) bool {
			return yield(weft.Page[uint64, uint64]{Keys: widened(p.Keys, signBitOf[K]()), Vals: widened(p.Vals, 0)}, err)
		})
	}
}
