package btree

import (
	"context"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/op"
)

const lineBytes = 64 // size of a cache line

func (a nodes[T]) prefetch(id uint32) {
	at := unsafe.Pointer(a.at(id))
	lines := [2]unsafe.Pointer{at, unsafe.Add(at, 2*lineBytes)}
	cpu.PrefetchPairs(lines[:1<<nodeShift[T]()/(2*lineBytes)])
}

// Lookup implements core.Engine.
func (e *cpuEngine[K, V, T]) Lookup(ctx context.Context, s *device.Stream, l *core.Lease, b *batch.Batch, _ device.Ptr) (done, hits int, err error) {
	if err := cpu.SyncStream(s); err != nil {
		return 0, 0, err
	}
	r := e.reader(l, b)
	each := r.get
	switch {
	case r.hi != nil && r.walks():
		each = r.walk
	case r.hi != nil:
		each = r.ranges
	case b.Kind == op.Select:
		each = r.selectRanks
	case b.Kind == op.Rank:
		each = r.rank
	case b.Kind == op.Successor:
		each = r.successors
	case b.Kind == op.Predecessor:
		each = r.predecessors
	}
	return e.RunLookup(ctx, b.N, each)
}

// reader runs the lookups of a batch on a tree.
type reader[K, V, T word] struct {
	view[T]
	tree *cpuTree[T]
	flip K
	batch.Ranges
	lo, hi []K
	keys   []K
	vals   []V
	ok     []bool
	counts []uint32
	ranks  []uint64
}

func (e *cpuEngine[K, V, T]) reader(l *core.Lease, b *batch.Batch) *reader[K, V, T] {
	t, c := l.Parts.(*cpuTree[T]), &b.Columns
	return &reader[K, V, T]{
		view: t.view(b.Version), tree: t, flip: e.flip, Ranges: b.Ranges,
		lo: batch.View[K](c[batch.Keys].Host), hi: batch.View[K](c[batch.Keys2].Host),
		keys: batch.View[K](c[batch.OutKeys].Host), vals: batch.View[V](c[batch.Vals].Host),
		ok: batch.View[bool](c[batch.OK].Host), counts: batch.View[uint32](c[batch.Counts].Host),
		ranks: batch.View[uint64](c[batch.Ranks].Host),
	}
}

func (r *reader[K, V, T]) stored(key K) T { return T(key ^ r.flip) }

// group holds, for each key of a group, the number of the node that its search has reached.
type group [cpu.Group]uint32

// prefetchLevels is the number of levels, from the leaves up, whose nodes are prefetched. Nodes of
// higher levels stay in cache.
const prefetchLevels = 4

// descend finds the leaves of a group of keys, level by level. While it reads the node of one key,
// the next nodes of other keys are being fetched.
func (r *reader[K, V, T]) descend(keys []K, ids *group) {
	clear(ids[:len(keys)])
	for level := r.depth(); level > 0; level-- {
		for i, k := range keys {
			ids[i] = r.node(ids[i]).child(r.stored(k))
			if level <= prefetchLevels {
				r.prefetch(ids[i])
			}
		}
	}
}

// forEachGroup finds the leaves of keys [lo,hi) of a batch, in groups. For each group, it calls
// finish with the index of the first key, the keys, and their leaves.
func (r *reader[K, V, T]) forEachGroup(w *cpu.Watch, lo, hi int, finish func(at int, keys []K, ids *group) (hits int)) (ran, hits int) {
	var ids group
	for at := lo; at < hi; at += cpu.Group {
		keys := r.lo[at:min(at+cpu.Group, hi)]
		if w.ShouldStop(2 * len(keys)) {
			return at - lo, hits
		}
		r.descend(keys, &ids)
		hits += finish(at, keys, &ids)
	}
	return hi - lo, hits
}

func (r *reader[K, V, T]) get(w *cpu.Watch, lo, hi int) (ran, hits int) {
	return r.forEachGroup(w, lo, hi, func(at int, keys []K, ids *group) (hits int) {
		for i, k := range keys {
			x := r.node(ids[i])
			if j, ok := x.search(r.stored(k)); ok {
				hits += r.answer(at+i, x, j)
			} else {
				hits += r.answer(at+i, nil, 0)
			}
		}
		return hits
	})
}

// answer writes the result of key i: pair j of leaf x, or a miss if x is nil. It returns the number
// of hits.
func (r *reader[K, V, T]) answer(i int, x *node[T], j int) int {
	var k K
	var v V
	if x != nil {
		k, v = K(x.slots[j].key)^r.flip, V(x.slots[j].val)
	}
	if r.keys != nil {
		r.keys[i] = k
	}
	if r.vals != nil {
		r.vals[i] = v
	}
	if r.ok != nil {
		r.ok[i] = x != nil
	}
	if r.counts != nil {
		r.counts[i] = 0
		if x != nil {
			r.counts[i] = 1
		}
	}
	if x == nil {
		return 0
	}
	return 1
}
