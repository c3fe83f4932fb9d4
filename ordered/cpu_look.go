package ordered

import (
	"context"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/op"
)

// Lookup implements core.Engine.
func (e *cpuEngine[K, V]) Lookup(ctx context.Context, s *device.Stream, l *core.Lease, b *batch.Batch, _ device.Ptr) (done, hits int, err error) {
	if err := cpu.SyncStream(s); err != nil {
		return 0, 0, err
	}
	r := e.reader(l, b)
	each := r.get
	switch {
	case b.Columns[batch.Keys2].Given() && r.x.leaves > 0 && r.walks():
		each = r.walk
	case b.Columns[batch.Keys2].Given():
		each = r.ranges
	case b.Kind == op.Select:
		each = r.selectRanks
	case r.x.leaves == 0:
		each = r.answerEmpty
	case b.Kind == op.Rank:
		each = r.rank
	case b.Kind == op.Successor:
		each = r.successors
	case b.Kind == op.Predecessor:
		each = r.predecessors
	}
	return e.RunLookup(ctx, b.N, each)
}

// reader runs the lookups of a batch on one version of the map.
type reader[K, V word] struct {
	*forest[K, V]
	x          *index[K]
	order      K
	keys, ends []K
	vals       []V
	outs       []K
	ok         []bool
	counts     []uint32
	ranks      []uint64
	limit      int
	backward   bool
}

func (e *cpuEngine[K, V]) reader(l *core.Lease, b *batch.Batch) *reader[K, V] {
	f, c := l.Parts.(*forest[K, V]), &b.Columns
	return &reader[K, V]{
		forest: f, x: f.indexAt(b.Version), order: e.order,
		keys: batch.View[K](c[batch.Keys].Host), ends: batch.View[K](c[batch.Keys2].Host),
		vals: batch.View[V](c[batch.Vals].Host), outs: batch.View[K](c[batch.OutKeys].Host),
		ok: batch.View[bool](c[batch.OK].Host), counts: batch.View[uint32](c[batch.Counts].Host),
		ranks: batch.View[uint64](c[batch.Ranks].Host), limit: b.Limit, backward: b.Backward,
	}
}

// group holds one number, such as the position of a node, for each key in a group of keys. A lookup
// has three stages: descend to the lowest level of the index, search that level, and search the
// leaf. Each stage prefetches the memory that the next stage reads. Several groups of keys are in
// different stages at the same time.
type group [cpu.Group]uint32

// forEachGroup searches the index for keys [lo,hi) of a batch, in groups. For each group it calls
// finish with the index of the first key, the keys, the positions of their leaves in the index, and
// the ids of these leaves. It returns the number of keys searched before w stopped the search.
func (r *reader[K, V]) forEachGroup(w *cpu.Watch, lo, hi int, finish func(at int, keys []K, places, leaves *group) (hits int)) (ran, hits int) {
	var places [3]group // positions of nodes, then of leaves, in the index
	var leaves [2]group
	const g = cpu.Group
	for at, round := lo-2*g, 0; at < hi; at, round = at+g, round+1 {
		r.descend(r.groupAt(at+2*g, hi), &places[(round+2)%3])
		r.findLeafIDs(r.groupAt(at+g, hi), &places[(round+1)%3], &leaves[(round+1)%2])
		if at < lo {
			continue
		}
		keys := r.groupAt(at, hi)
		if w.ShouldStop(len(keys)) {
			return at - lo, hits
		}
		hits += finish(at, keys, &places[round%3], &leaves[round%2])
	}
	return hi - lo, hits
}

func (r *reader[K, V]) get(w *cpu.Watch, lo, hi int) (ran, hits int) {
	return r.forEachGroup(w, lo, hi, r.finish)
}

func (r *reader[K, V]) answerEmpty(_ *cpu.Watch, lo, hi int) (ran, hits int) {
	for i := lo; i < hi; i++ {
		if r.answer(i, nil, 0); r.ranks != nil {
			r.ranks[i] = 0
		}
	}
	return hi - lo, 0
}

// groupAt returns the group of keys of the batch that starts at the given index and ends before hi.
// It returns nil if the index is negative or not below hi.
func (r *reader[K, V]) groupAt(at, hi int) []K {
	if at < 0 || at >= hi {
		return nil
	}
	return r.keys[at:min(at+cpu.Group, hi)]
}

// descend finds the node of each key in the lowest level of the index.
func (r *reader[K, V]) descend(keys []K, nodes *group) {
	x := r.x
	clear(nodes[:len(keys)])
	for l := len(x.seps) - 1; l > 0; l-- {
		for i, k := range keys {
			nodes[i] = uint32(x.step(l, int(nodes[i]), k^r.order))
		}
	}
	cpu.Prefetch(unsafe.Pointer(unsafe.SliceData(x.seps[0])), nodes[:len(keys)], nodeShift[K]())
	cpu.Prefetch(unsafe.Pointer(unsafe.SliceData(x.ids)), nodes[:len(keys)], 6)
}

// nodeShift returns the binary logarithm of the size of a node in bytes.
func nodeShift[K word]() uint {
	if unsafe.Sizeof(K(0)) == 8 {
		return 7
	}
	return 6
}

// findLeafIDs finds the leaf of each key. On entry, places holds the positions of the keys' nodes
// in the lowest level. On return, it holds the positions of their leaves.
func (r *reader[K, V]) findLeafIDs(keys []K, places, leaves *group) {
	x := r.x
	var at [2 * cpu.Group]unsafe.Pointer
	for i, k := range keys {
		p := x.step(0, int(places[i]), k^r.order)
		places[i], leaves[i] = uint32(p), x.ids[p]
		l := unsafe.Pointer(r.pool.at(leaves[i]))
		at[2*i], at[2*i+1] = l, unsafe.Add(l, lineBytes)
	}
	cpu.PrefetchPairs(at[:2*len(keys)])
}

// finish searches for the keys of a group in their leaves. It prefetches all values before it reads
// the first.
func (r *reader[K, V]) finish(at int, keys []K, _, leaves *group) (hits int) {
	var found [cpu.Group]*leaf[K, V]
	var slots group
	var vals [cpu.Group]unsafe.Pointer
	for i, k := range keys {
		l := r.pool.at(leaves[i])
		if j := l.bound(k ^ r.order); l.keys[j&31] == k^r.order {
			found[i], slots[i], vals[hits] = l, uint32(j), unsafe.Pointer(&l.vals[j&31])
			hits++
		}
	}
	if r.vals != nil {
		cpu.PrefetchPairs(vals[:hits])
	}
	for i := range keys {
		r.answer(at+i, found[i], int(slots[i]))
	}
	return hits
}

// answer writes the result of key i: pair j of leaf l, or a miss if l is nil. It returns the number
// of hits.
func (r *reader[K, V]) answer(i int, l *leaf[K, V], j int) int {
	var k K
	var v V
	if l != nil {
		k, v = l.keys[j]^r.order, l.vals[j]
	}
	if r.outs != nil {
		r.outs[i] = k
	}
	if r.vals != nil {
		r.vals[i] = v
	}
	if r.ok != nil {
		r.ok[i] = l != nil
	}
	if r.counts != nil {
		r.counts[i] = 0
		if l != nil {
			r.counts[i] = 1
		}
	}
	if l == nil {
		return 0
	}
	return 1
}
