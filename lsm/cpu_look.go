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

// Lookup implements core.Engine.
func (e *cpuEngine[K, V]) Lookup(ctx context.Context, s *device.Stream, l *core.Lease, b *batch.Batch, _ device.Ptr) (done, hits int, err error) {
	if err := cpu.SyncStream(s); err != nil {
		return 0, 0, err
	}
	q := queries[K, V]{
		tree: treeOf[K, V](l.Parts), flip: e.Flip, kind: b.Kind, Ranges: b.Ranges,
		lo: batch.View[K](b.Columns[batch.Keys].Host), hi: batch.View[K](b.Columns[batch.Keys2].Host),
		keys: batch.View[K](b.Columns[batch.OutKeys].Host), vals: batch.View[V](b.Columns[batch.Vals].Host),
		ok: batch.View[bool](b.Columns[batch.OK].Host), ranks: batch.View[uint64](b.Columns[batch.Ranks].Host),
		counts: batch.View[uint32](b.Columns[batch.Counts].Host),
	}
	switch {
	case q.hi != nil:
		return e.RunLookup(ctx, b.N, q.ranges)
	case b.Kind == op.Rank:
		return e.RunLookup(ctx, b.N, q.rank)
	case b.Kind == op.Select:
		return e.RunLookup(ctx, b.N, q.selectRanks)
	case b.Kind == op.Successor, b.Kind == op.Predecessor:
		return e.RunLookup(ctx, b.N, q.neighbors)
	}
	return e.RunLookup(ctx, b.N, q.get)
}

// queries holds the queries of a lookup and its result columns.
type queries[K, V uint32 | uint64] struct {
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

func (q *queries[K, V]) get(w *cpu.Watch, from, to int) (ran, hits int) {
	for lo := from; lo < to; lo += inorder.Searched {
		if w.ShouldStop(inorder.Searched * (1 + len(q.tree))) {
			return lo - from, hits
		}
		hits += q.find(lo, min(lo+inorder.Searched, to))
	}
	return to - from, hits
}

// find looks up keys [lo,hi) as one group. It searches each level, from the newest on, for the keys
// that are not found yet.
func (q *queries[K, V]) find(lo, hi int) (hits int) {
	var pending [inorder.Searched]int
	var keys [inorder.Searched]K
	n := hi - lo
	for i := range n {
		pending[i] = lo + i
	}
	for l := range q.tree {
		a := &q.tree[l]
		for i := range n {
			keys[i] = q.lo[pending[i]] ^ q.flip
		}
		var at inorder.Places
		a.Search(keys[:n], 0, &at)
		left := 0
		for i := range n {
			if a.hasKey(at[i], keys[i]) == 0 {
				pending[left] = pending[i]
				left++
			} else if a.deltas[at[i]] < 0 {
				q.writeMiss(pending[i])
			} else {
				hits += q.writePair(pending[i], keys[i], a.vals[at[i]])
			}
		}
		if n = left; n == 0 {
			break
		}
	}
	for _, i := range pending[:n] {
		q.writeMiss(i)
	}
	return hits
}

func (q *queries[K, V]) writePair(i int, k K, v V) (hit int) {
	q.write(i, k^q.flip, v, true)
	return 1
}

func (q *queries[K, V]) writeMiss(i int) { q.write(i, 0, 0, false) }

func (q *queries[K, V]) write(i int, k K, v V, ok bool) {
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
func (q *queries[K, V]) rank(w *cpu.Watch, from, to int) (ran, hits int) {
	for lo := from; lo < to; lo += inorder.Searched {
		if w.ShouldStop(inorder.Searched * (1 + len(q.tree))) {
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

// ranks counts the smaller keys in the tree for each of up to inorder.Searched keys. If inclusive
// is 1, it also counts equal keys.
func (t tree[K, V]) ranks(keys []K, flip K, inclusive int, ranks *[inorder.Searched]uint32) {
	clear(ranks[:])
	var at inorder.Places
	for l := range t {
		a := &t[l]
		a.Search(keys, flip, &at)
		for i, k := range keys {
			ranks[i] += a.sumBefore(at[i] + inclusive*a.hasKey(at[i], k^flip))
		}
	}
}

// selectRanks answers Select queries [from,to) on one core.
func (q *queries[K, V]) selectRanks(w *cpu.Watch, from, to int) (ran, hits int) {
	size := uint64(q.size())
	for i := from; i < to; i++ {
		if w.ShouldStop(selectCost * (1 + len(q.tree))) {
			return i - from, hits
		}
		q.writeMiss(i)
		if q.ranks[i] < size {
			hits += q.writeFrom(q.tree.selectKey(uint32(q.ranks[i])), i)
		}
	}
	return to - from, hits
}

// selectCost is the approximate number of memory accesses of Select per level.
const selectCost = 64

// writeFrom writes the first pair that has at least the given key as answer i. The pair must exist.
func (q *queries[K, V]) writeFrom(key K, i int) (hit int) {
	walk := walk[K, V]{tree: q.tree}
	walk.seek(key)
	walk.next()
	return q.writePair(i, walk.key, walk.val())
}

// neighbors answers Successor and Predecessor queries [from,to) on one core.
func (q *queries[K, V]) neighbors(w *cpu.Watch, from, to int) (ran, hits int) {
	for i := from; i < to; i++ {
		if w.ShouldStop(2 * (1 + len(q.tree))) {
			return i - from, hits
		}
		walk := walk[K, V]{tree: q.tree, backward: q.kind == op.Predecessor}
		key := q.lo[i] ^ q.flip
		walk.seek(key)
		found := walk.next()
		if found && walk.key == key {
			found = walk.next()
		}
		if q.writeMiss(i); found {
			hits += q.writePair(i, walk.key, walk.val())
		}
	}
	return to - from, hits
}

// span is the ranks [from,to) of the pairs inside a range.
type span struct{ from, to int }

// spans finds the ranks of the pairs inside ranges [lo,hi), up to their limit. hi-lo is at most
// inorder.Searched.
func (q *queries[K, V]) spans(lo, hi int, spans *[inorder.Searched]span) {
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

// ranges counts the pairs inside ranges [from,to), and writes them if the batch has columns for
// pairs.
func (q *queries[K, V]) ranges(w *cpu.Watch, from, to int) (ran, hits int) {
	for lo := from; lo < to; lo += inorder.Searched {
		if w.ShouldStop(2 * inorder.Searched * (1 + len(q.tree))) {
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

// copy copies the first n pairs of range i, or the last n in reverse order if the batch goes
// backward. It returns false if w stopped it.
func (q *queries[K, V]) copy(w *cpu.Watch, i, n int, keys []K, vals []V) (done bool) {
	if n == 0 {
		return true
	}
	walk := walk[K, V]{tree: q.tree, backward: q.Backward}
	if walk.backward {
		walk.seek(q.hi[i] ^ q.flip)
	} else {
		walk.seek(q.lo[i] ^ q.flip)
	}
	for j := 0; j < n && walk.next(); j++ {
		if j%inorder.Fan == 0 && w.ShouldStop(1) {
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
		_, _, err := e.Lookup(ctx, s, l, count, 0)
		return err
	})
	if err != nil {
		return err
	}
	r := rows[K, V]{offsets: offsets, keys: batch.View[K](c[batch.OutKeys].Host), vals: batch.View[V](c[batch.Vals].Host)}
	r.queries = queries[K, V]{
		tree: treeOf[K, V](l.Parts), flip: e.Flip, Ranges: b.Ranges,
		lo: batch.View[K](c[batch.Keys].Host), hi: batch.View[K](c[batch.Keys2].Host), counts: batch.View[uint32](c[batch.Counts].Host),
	}
	_, _, err = e.RunLookup(ctx, b.N, r.write)
	return err
}

// rows writes the pairs inside ranges to columns, one range after the other.
type rows[K, V uint32 | uint64] struct {
	queries[K, V]
	offsets []uint64
	keys    []K
	vals    []V
}

// write writes the pairs inside ranges [from,to) on one core, if they fit the columns.
func (r *rows[K, V]) write(w *cpu.Watch, from, to int) (ran, hits int) {
	var spans [inorder.Searched]span
	for lo := from; lo < to; lo += inorder.Searched {
		hi := min(lo+inorder.Searched, to)
		r.spans(lo, hi, &spans)
		for i := lo; i < hi; i++ {
			if w.ShouldStop(2 * (1 + len(r.tree))) {
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
