package btree

import (
	"context"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
)

// findLeaf returns the leaf that a key belongs to, and the leaf's low key.
func (r *reader[K, V, T]) findLeaf(key T) (x *node[T], low T) {
	x = r.node(rootNode)
	for range r.depth() {
		s := x.slot(x.childIndex(key))
		x, low = r.node(s.id()), s.key
	}
	return x, low
}

// nextPair returns the first pair from index at of a leaf on, in that leaf or a later one. It
// returns nil if no such pair exists.
func (r *reader[K, V, T]) nextPair(x *node[T], at int) (*node[T], int) {
	for at == x.count() {
		if x.link == noNode {
			return nil, 0
		}
		x, at = r.node(x.link), 0
	}
	return x, at
}

// previousPair returns the last pair before index at of a leaf, in that leaf or an earlier one. low
// is the low key of the leaf.
func (r *reader[K, V, T]) previousPair(x *node[T], at int, low T) (*node[T], int, T) {
	for at == 0 {
		if low == 0 {
			return nil, 0, 0
		}
		x, low = r.findLeaf(low - 1)
		at = x.count()
	}
	return x, at - 1, low
}

// successors finds the first pair of the map after each of keys [lo,hi) of the batch.
func (r *reader[K, V, T]) successors(w *cpu.Watch, lo, hi int) (ran, hits int) {
	return r.forEachGroup(w, lo, hi, func(at int, keys []K, ids *group) (hits int) {
		for i, k := range keys {
			x := r.node(ids[i])
			x, j := r.nextPair(x, x.upper(r.stored(k)))
			hits += r.answer(at+i, x, j)
		}
		return hits
	})
}

// predecessors finds the last pair of the map before each of keys [lo,hi) of the batch.
func (r *reader[K, V, T]) predecessors(w *cpu.Watch, lo, hi int) (ran, hits int) {
	return r.forEachGroup(w, lo, hi, func(at int, keys []K, ids *group) (hits int) {
		for i, k := range keys {
			key := r.stored(k)
			x := r.node(ids[i])
			j, low := x.lower(key), T(0)
			if j == 0 {
				_, low = r.findLeaf(key)
			}
			x, j, _ = r.previousPair(x, j, low)
			hits += r.answer(at+i, x, j)
		}
		return hits
	})
}

// rank computes the rank of each of keys [lo,hi) of the batch, which is the number of smaller keys
// in the map.
func (r *reader[K, V, T]) rank(w *cpu.Watch, lo, hi int) (ran, hits int) {
	o := r.tree.leafOrder(r.time)
	return r.forEachGroup(w, lo, hi, func(at int, keys []K, ids *group) int {
		for i, k := range keys {
			r.ranks[at+i] = o.starts[o.places[ids[i]]] + uint64(r.node(ids[i]).lower(r.stored(k)))
		}
		return 0
	})
}

// selectRanks finds the pair at each of ranks [lo,hi) of the batch.
func (r *reader[K, V, T]) selectRanks(w *cpu.Watch, lo, hi int) (ran, hits int) {
	o, all := r.tree.leafOrder(r.time), r.tree.pairsAt(r.time)
	return cpu.RunLoop(w, lo, hi, 4, func(i int) int {
		if r.ranks[i] >= all {
			return r.answer(i, nil, 0)
		}
		leaf, at := o.locate(r.ranks[i])
		return r.answer(i, r.node(o.ids[leaf]), at)
	})
}

// walks reports whether ranges are read from one end without counting their pairs first.
func (r *reader[K, V, T]) walks() bool { return r.Limit > 0 }

// walk finds up to Limit pairs of the map in each of ranges [lo,hi) of the batch, from the
// beginning of the range or, with Backward, from its end.
func (r *reader[K, V, T]) walk(w *cpu.Watch, lo, hi int) (ran, hits int) {
	if r.Backward {
		return cpu.RunLoop(w, lo, hi, 8+r.Limit/8, func(i int) int {
			from, last := r.stored(r.lo[i]), r.stored(r.hi[i])
			n := 0
			if from <= last {
				n = r.copyBackward(last, from, r.Limit, i*r.Limit)
			}
			r.counts[i] = uint32(n)
			return min(n, 1)
		})
	}
	return r.forEachGroup(w, lo, hi, func(at int, keys []K, ids *group) (hits int) {
		w.AddWork(len(keys) * (r.Limit / 8))
		r.prefetchNext(ids[:len(keys)])
		for i, k := range keys {
			from, last, n := r.stored(k), r.stored(r.hi[at+i]), 0
			if from <= last {
				x := r.node(ids[i])
				n = r.copyForward(x, x.lower(from), last, r.Limit, (at+i)*r.Limit)
			}
			r.counts[at+i] = uint32(n)
			hits += min(n, 1)
		}
		return hits
	})
}

// prefetchNext prefetches the leaves that follow each of the given leaves, in turn.
func (r *reader[K, V, T]) prefetchNext(ids []uint32) {
	var at group
	copy(at[:], ids)
	for range min(r.Limit/(slotCount[T]()/2), maxPrefetch) {
		for i, id := range at[:len(ids)] {
			if next := r.node(id).link; next != noNode {
				at[i] = next
				r.prefetch(next)
			}
		}
	}
}

// maxPrefetch is the maximum number of leaves of a range to prefetch before reading it.
const maxPrefetch = 4

// copyForward copies up to limit pairs to the output rows, from pair j of leaf x up to key last. at
// is the index of the first output row. It returns the number of pairs copied.
func (r *reader[K, V, T]) copyForward(x *node[T], j int, last T, limit, at int) (n int) {
	for {
		if x.link != noNode {
			r.prefetch(x.link)
		}
		end := x.count()
		more := end == 0 || x.slots[end-1].key <= last
		if !more {
			end = x.upper(last)
		}
		m := min(end-j, limit-n)
		for k := range m {
			r.copyPair(at+n+k, x.slots[j+k])
		}
		n += max(m, 0)
		if !more || n == limit || x.link == noNode {
			return n
		}
		x, j = r.node(x.link), 0
	}
}

// copyBackward copies up to limit pairs to the output rows, from key last down to key from. at is
// the index of the first output row. It returns the number of pairs copied.
func (r *reader[K, V, T]) copyBackward(last, from T, limit, at int) (n int) {
	x, low := r.findLeaf(last)
	x, j, low := r.previousPair(x, x.upper(last), low)
	for ; n < limit && x != nil && x.slots[j].key >= from; x, j, low = r.previousPair(x, j, low) {
		r.copyPair(at+n, x.slots[j])
		n++
	}
	return n
}

func (r *reader[K, V, T]) copyPair(i int, s slot[T]) {
	if r.keys != nil {
		r.keys[i] = K(s.key) ^ r.flip
	}
	if r.vals != nil {
		r.vals[i] = V(s.val)
	}
}

// shortRange is the maximum number of leaves to walk for a count while no list of the leaves
// exists.
const shortRange = 32

// ranges counts the pairs of the map inside each of ranges [lo,hi) of the batch.
func (r *reader[K, V, T]) ranges(w *cpu.Watch, lo, hi int) (ran, hits int) {
	var o *leafOrder
	return r.forEachGroup(w, lo, hi, func(at int, keys []K, ids *group) (hits int) {
		for i, k := range keys {
			from, last, n := r.stored(k), r.stored(r.hi[at+i]), uint64(0)
			if from <= last {
				n = r.countRange(from, last, ids[i], &o)
			}
			r.counts[at+i] = uint32(min(n, 1<<32-1))
			hits += int(min(n, 1))
		}
		return hits
	})
}

// countRange counts the pairs with keys in [from,last]. The range begins in leaf id. If it is long,
// countRange uses the list of leaves in o, and makes it first if o is nil.
func (r *reader[K, V, T]) countRange(from, last T, id uint32, o **leafOrder) (n uint64) {
	x := r.node(id)
	if *o == nil {
		n, ok := r.countShortRange(x, from, last)
		if ok {
			return n
		}
		*o = r.tree.leafOrder(r.time)
	}
	return r.rankOf(last, (*node[T]).upper, *o) - (*o).starts[(*o).places[id]] - uint64(x.lower(from))
}

func (r *reader[K, V, T]) countShortRange(x *node[T], from, last T) (n uint64, ok bool) {
	n = -uint64(x.lower(from))
	for range shortRange {
		n += uint64(x.upper(last))
		if x.link == noNode || x.high > uint64(last) {
			return n, true
		}
		x = r.node(x.link)
	}
	return 0, false
}

// rankOf returns the number of pairs before the leaf of key, plus the result of count for that
// leaf.
func (r *reader[K, V, T]) rankOf(key T, count func(*node[T], T) int, o *leafOrder) uint64 {
	id := uint32(rootNode)
	for range r.depth() {
		id = r.node(id).child(key)
	}
	return o.starts[o.places[id]] + uint64(count(r.node(id), key))
}

// Expand implements core.Expander.
func (e *cpuEngine[K, V, T]) Expand(ctx context.Context, s *device.Stream, l *core.Lease, b *batch.Batch) error {
	offsets, err := cpu.Offsets(b, s, func(count *batch.Batch) error {
		_, _, err := e.Lookup(ctx, s, l, count, 0)
		return err
	})
	if err != nil {
		return err
	}
	r := e.reader(l, b)
	nRows := max(len(r.vals), len(r.keys))
	_, _, err = e.RunLookup(ctx, b.N, func(w *cpu.Watch, lo, hi int) (ran, hits int) {
		return cpu.RunLoop(w, lo, hi, 8, func(i int) int {
			at, end := min(int(offsets[i]-offsets[0]), nRows), min(int(offsets[i+1]-offsets[0]), nRows)
			w.AddWork((end - at) / 8)
			if from, last := r.stored(r.lo[i]), r.stored(r.hi[i]); end == at {
			} else if r.Backward {
				r.copyBackward(last, from, end-at, at)
			} else {
				x, _ := r.findLeaf(from)
				r.copyForward(x, x.lower(from), last, end-at, at)
			}
			return 0
		})
	})
	return err
}

// unitRows is the number of pairs in a unit. Extent counts units, and Export copies whole units.
const unitRows = 1 << 10

// Extent implements core.Engine.
func (e *cpuEngine[K, V, T]) Extent(l *core.Lease) (units uint32, rows int) {
	return uint32((l.Parts.(*cpuTree[T]).pairsAt(l.Version) + unitRows - 1) / unitRows), unitRows
}

// Export implements core.Engine.
func (e *cpuEngine[K, V, T]) Export(ctx context.Context, l *core.Lease, lo, hi uint32, out *batch.Batch) (n int, err error) {
	t := l.Parts.(*cpuTree[T])
	from, end := int(lo)*unitRows, min(int(hi)*unitRows, int(t.pairsAt(out.Version)))
	if n = end - from; n > out.N || n == 0 {
		return n, nil
	}
	r := reader[K, V, T]{
		view: t.view(out.Version), flip: e.flip,
		keys: batch.View[K](out.Columns[batch.Keys].Host), vals: batch.View[V](out.Columns[batch.Vals].Host),
	}
	o := t.leafOrder(out.Version)
	leaf, at := o.locate(uint64(from))
	r.copyForward(r.node(o.ids[leaf]), at, ^T(0), n, 0)
	return n, ctx.Err()
}
