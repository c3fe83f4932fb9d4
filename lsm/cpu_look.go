package lsm

import (
	"context"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/inorder"
	"github.com/weftgo/weft/internal/op"
)

// Look implements core.Engine.
func (e *cpuEngine[K, V]) Look(ctx context.Context, s *device.Stream, l *core.Lease, b *batch.Batch, _ device.Ptr) (done, hits int, err error) {
	if err := cpu.Open(s); err != nil {
		return 0, 0, err
	}
	q := questions[K, V]{
		tree: treeOf[K, V](l.Parts), flip: e.Flip, kind: b.Kind, Ranges: b.Ranges,
		lo: batch.View[K](b.Columns[batch.Keys].Host), hi: batch.View[K](b.Columns[batch.Keys2].Host),
		keys: batch.View[K](b.Columns[batch.OutKeys].Host), vals: batch.View[V](b.Columns[batch.Vals].Host),
		ok: batch.View[bool](b.Columns[batch.OK].Host), ranks: batch.View[uint64](b.Columns[batch.Ranks].Host),
		counts: batch.View[uint32](b.Columns[batch.Counts].Host),
	}
	switch {
	case q.hi != nil:
		return e.Each(ctx, b.N, q.ranges)
	case b.Kind == op.Rank:
		return e.Each(ctx, b.N, q.rank)
	case b.Kind == op.Select:
		return e.Each(ctx, b.N, q.pick)
	case b.Kind == op.Successor, b.Kind == op.Predecessor:
		return e.Each(ctx, b.N, q.neighbors)
	}
	return e.Each(ctx, b.N, q.get)
}

// questions is the queries of a lookup and its result columns.
type questions[K, V uint32 | uint64] struct {
	tree[K, V]
	flip K
	kind op.Kind
	batch.Ranges
	lo, hi []K
	keys   []K
	vals   []V
	ok     []bool
	ranks  []uint64
	counts []uint32
}

// get looks up keys [from,to) on one core.
func (q *questions[K, V]) get(w *cpu.Watch, from, to int) (ran, hits int) {
	for lo := from; lo < to; lo += inorder.Searched {
		if w.Over(inorder.Searched * (1 + len(q.tree))) {
			return lo - from, hits
		}
		hits += q.find(lo, min(lo+inorder.Searched, to))
	}
	return to - from, hits
}

// find looks up the few keys [lo,hi) side by side. It searches each level, from the newest on, for
// the keys that have not been found yet.
func (q *questions[K, V]) find(lo, hi int) (hits int) {
	var rest [inorder.Searched]int
	var keys [inorder.Searched]K
	n := hi - lo
	for i := range n {
		rest[i] = lo + i
	}
	for l := range q.tree {
		a := &q.tree[l]
		for i := range n {
			keys[i] = q.lo[rest[i]] ^ q.flip
		}
		var at inorder.Places
		a.Search(keys[:n], 0, &at)
		left := 0
		for i := range n {
			if a.same(at[i], keys[i]) == 0 {
				rest[left] = rest[i]
				left++
			} else if a.deltas[at[i]] < 0 {
				q.none(rest[i])
			} else {
				hits += q.pair(rest[i], keys[i], a.vals[at[i]])
			}
		}
		if n = left; n == 0 {
			break
		}
	}
	for _, i := range rest[:n] {
		q.none(i)
	}
	return hits
}

// pair writes a pair as answer i.
func (q *questions[K, V]) pair(i int, k K, v V) (hit int) {
	q.write(i, k^q.flip, v, true)
	return 1
}

// none writes a miss as answer i.
func (q *questions[K, V]) none(i int) { q.write(i, 0, 0, false) }

func (q *questions[K, V]) write(i int, k K, v V, ok bool) {
	if q.keys != nil {
		q.keys[i] = k
	}
	if q.vals != nil {
		q.vals[i] = v
	}
	if q.ok != nil {
		q.ok[i] = ok
	}
}

// rank answers Rank queries [from,to) on one core.
func (q *questions[K, V]) rank(w *cpu.Watch, from, to int) (ran, hits int) {
	for lo := from; lo < to; lo += inorder.Searched {
		if w.Over(inorder.Searched * (1 + len(q.tree))) {
			return lo - from, 0
		}
		var ranks [inorder.Searched]uint32
		hi := min(lo+inorder.Searched, to)
		q.tree.ranks(q.lo[lo:hi], q.flip, 0, &ranks)
		for i := lo; i < hi; i++ {
			q.ranks[i] = uint64(ranks[i-lo])
		}
	}
	return to - from, 0
}

// ranks counts the smaller keys of the tree for each of a few keys. With 1, it counts those that
// are not larger.
func (t tree[K, V]) ranks(keys []K, flip K, with int, ranks *[inorder.Searched]uint32) {
	clear(ranks[:])
	var at inorder.Places
	for l := range t {
		a := &t[l]
		a.Search(keys, flip, &at)
		for i, k := range keys {
			ranks[i] += a.before(at[i] + with*a.same(at[i], k^flip))
		}
	}
}

// pick answers Select queries.
func (q *questions[K, V]) pick(w *cpu.Watch, from, to int) (ran, hits int) {
	size := uint64(q.size())
	for i := from; i < to; i++ {
		if w.Over(cost * (1 + len(q.tree))) {
			return i - from, hits
		}
		q.none(i)
		if q.ranks[i] < size {
			hits += q.from(q.tree.pick(uint32(q.ranks[i])), i)
		}
	}
	return to - from, hits
}

// cost is the number of memory accesses to pick a key from a level.
const cost = 64

// from writes the first pair at or after a key as answer i. The pair exists.
func (q *questions[K, V]) from(key K, i int) (hit int) {
	walk := walk[K, V]{tree: q.tree}
	walk.begin(key)
	walk.next()
	return q.pair(i, walk.key, walk.val())
}

// neighbors answers Successor and Predecessor queries.
func (q *questions[K, V]) neighbors(w *cpu.Watch, from, to int) (ran, hits int) {
	for i := from; i < to; i++ {
		if w.Over(2 * (1 + len(q.tree))) {
			return i - from, hits
		}
		walk := walk[K, V]{tree: q.tree, down: q.kind == op.Predecessor}
		key := q.lo[i] ^ q.flip
		walk.begin(key)
		there := walk.next()
		if there && walk.key == key {
			there = walk.next()
		}
		if q.none(i); there {
			hits += q.pair(i, walk.key, walk.val())
		}
	}
	return to - from, hits
}

// span is the ranks of the pairs of a range.
type span struct{ from, to int }

// spans finds the ranks of a few ranges, from lo on, up to their limit.
func (q *questions[K, V]) spans(lo, hi int, spans *[inorder.Searched]span) {
	var from, to [inorder.Searched]uint32
	q.tree.ranks(q.lo[lo:hi], q.flip, 0, &from)
	q.tree.ranks(q.hi[lo:hi], q.flip, 1, &to)
	for i := lo; i < hi; i++ {
		s := span{int(from[i-lo]), int(to[i-lo])}
		switch {
		case q.lo[i]^q.flip > q.hi[i]^q.flip:
			s.to = s.from
		case q.Limit > 0 && q.Backward:
			s.from = max(s.from, s.to-q.Limit)
		case q.Limit > 0:
			s.to = min(s.to, s.from+q.Limit)
		}
		spans[i-lo] = s
	}
}

// ranges counts the pairs of ranges, and writes them if the ranges have a fixed number of rows.
func (q *questions[K, V]) ranges(w *cpu.Watch, from, to int) (ran, hits int) {
	for lo := from; lo < to; lo += inorder.Searched {
		if w.Over(2 * inorder.Searched * (1 + len(q.tree))) {
			return lo - from, hits
		}
		hi := min(lo+inorder.Searched, to)
		var spans [inorder.Searched]span
		q.spans(lo, hi, &spans)
		for i := lo; i < hi; i++ {
			n := spans[i-lo].to - spans[i-lo].from
			q.counts[i] = uint32(n)
			hits += min(n, 1)
			if q.keys != nil && !q.copy(w, i, n, q.keys[i*q.Limit:], q.vals[i*q.Limit:]) {
				return i - from, hits
			}
		}
	}
	return to - from, hits
}

// copy copies the first n pairs of range i, or the last ones if the batch goes backward. It stops
// when its watch is over.
func (q *questions[K, V]) copy(w *cpu.Watch, i, n int, keys []K, vals []V) (done bool) {
	if n == 0 {
		return true
	}
	walk := walk[K, V]{tree: q.tree, down: q.Backward}
	if walk.down {
		walk.begin(q.hi[i] ^ q.flip)
	} else {
		walk.begin(q.lo[i] ^ q.flip)
	}
	for j := 0; j < n && walk.next(); j++ {
		if j%inorder.Fan == 0 && w.Over(1) {
			return false
		}
		keys[j], vals[j] = walk.key^q.flip, walk.val()
	}
	return true
}

// Expand implements core.Expander.
func (e *cpuEngine[K, V]) Expand(ctx context.Context, s *device.Stream, l *core.Lease, b *batch.Batch) error {
	c := &b.Columns
	offsets, err := cpu.Offsets(b, s, func(count *batch.Batch) error {
		_, _, err := e.Look(ctx, s, l, count, 0)
		return err
	})
	if err != nil {
		return err
	}
	r := rows[K, V]{offsets: offsets, keys: batch.View[K](c[batch.OutKeys].Host), vals: batch.View[V](c[batch.Vals].Host)}
	r.questions = questions[K, V]{
		tree: treeOf[K, V](l.Parts), flip: e.Flip, Ranges: b.Ranges,
		lo: batch.View[K](c[batch.Keys].Host), hi: batch.View[K](c[batch.Keys2].Host), counts: batch.View[uint32](c[batch.Counts].Host),
	}
	_, _, err = e.Each(ctx, b.N, r.write)
	return err
}

// rows is ranges with pairs that are written one range after the other.
type rows[K, V uint32 | uint64] struct {
	questions[K, V]
	offsets []uint64
	keys    []K
	vals    []V
}

// write writes ranges [from,to) on one core, as far as they fit.
func (r *rows[K, V]) write(w *cpu.Watch, from, to int) (ran, hits int) {
	var spans [inorder.Searched]span
	for lo := from; lo < to; lo += inorder.Searched {
		hi := min(lo+inorder.Searched, to)
		r.spans(lo, hi, &spans)
		for i := lo; i < hi; i++ {
			if w.Over(2 * (1 + len(r.tree))) {
				return i - from, hits
			}
			n := spans[i-lo].to - spans[i-lo].from
			r.counts[i] = uint32(n)
			row := min(r.offsets[i]-r.offsets[0], uint64(len(r.keys)))
			fits := min(n, len(r.keys)-int(row))
			if !r.copy(w, i, fits, r.keys[row:], r.vals[row:]) {
				return i - from, hits
			}
		}
	}
	return to - from, hits
}
