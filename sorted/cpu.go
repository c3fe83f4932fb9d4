package sorted

import (
	"context"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/inorder"
	"github.com/weftgo/weft/internal/op"
)

// cpuEngine runs on the cores of the host. K and V are the types of keys and values as unsigned
// integers.
//
// A change makes the next generation. It sorts the batch, computes the result for each key, and
// merges the results with the pairs. Each of these steps uses all cores.
type cpuEngine[K, V uint32 | uint64] struct {
	inorder.Engine[K]
	pool *pool
}

func newCPUEngine[K, V uint32 | uint64](dev device.Host, p *pool, flip uint64) (engine, *core.Leases, error) {
	e := &cpuEngine[K, V]{inorder.Engine[K]{Engine: cpu.Engine{Device: dev}, Flip: K(flip)}, p}
	first, err := p.alloc(0)
	if err != nil {
		return nil, nil, err
	}
	e.Leases = core.NewLeases(first)
	return e, e.Leases, nil
}

func (e *cpuEngine[K, V]) current() *generation    { return e.Parts().(*generation) }
func (e *cpuEngine[K, V]) bytes() (used, held int) { return e.pool.bytes(e.current()) }
func (e *cpuEngine[K, V]) bound() (maxPairs, counted uint64) {
	return e.current().tally.Live, e.current().tally.Live
}
func (e *cpuEngine[K, V]) trim() error { return e.pool.spare.Trim() }

// Close implements core.Engine.
func (e *cpuEngine[K, V]) Close() error { return e.pool.spare.Close() }

// Clear implements core.Engine.
func (e *cpuEngine[K, V]) Clear(context.Context) error {
	to, err := e.pool.alloc(0)
	if err != nil {
		return err
	}
	to.tally = core.Tally{}
	return e.Leases.Replace(to)
}

// array has the pairs of a generation.
type array[K, V uint32 | uint64] struct {
	inorder.Keys[K]
	vals []V
}

// arrayOf returns the first n pairs in the memory of a generation.
func arrayOf[K, V uint32 | uint64](g *generation, n int) (a array[K, V]) {
	a.Keys, a.vals = inorder.Pairs[K, V](g.pool.Layout, g.buf.Host, g.capacity, n)
	return a
}

// pairsOf returns all pairs of a generation.
func pairsOf[K, V uint32 | uint64](p core.Parts) array[K, V] {
	g := p.(*generation)
	return arrayOf[K, V](g, int(g.tally.Live))
}

// unitPairs is the number of pairs in a unit. Extent counts units, and Export copies whole units.
const unitPairs = 1 << 12

// Extent implements core.Engine.
func (e *cpuEngine[K, V]) Extent(l *core.Lease) (units uint32, rows int) {
	n := len(pairsOf[K, V](l.Parts).vals)
	return uint32((n + unitPairs - 1) / unitPairs), unitPairs
}

// Export implements core.Engine.
func (e *cpuEngine[K, V]) Export(ctx context.Context, l *core.Lease, lo, hi uint32, out *batch.Batch) (n int, err error) {
	a := pairsOf[K, V](l.Parts)
	from, to := int(lo)*unitPairs, min(int(hi)*unitPairs, len(a.vals))
	keys, vals := batch.View[K](out.Columns[batch.Keys].Host), batch.View[V](out.Columns[batch.Vals].Host)
	if n = to - from; n > out.N {
		return n, nil
	}
	for i, k := range a.Keys.Keys[from:to] {
		keys[i] = k ^ e.Flip
	}
	copy(vals, a.vals[from:to])
	return n, ctx.Err()
}

// Lookup implements core.Engine.
func (e *cpuEngine[K, V]) Lookup(ctx context.Context, s *device.Stream, l *core.Lease, b *batch.Batch, _ device.Ptr) (done, hits int, err error) {
	if err := cpu.SyncStream(s); err != nil {
		return 0, 0, err
	}
	q := queries[K, V]{
		array: pairsOf[K, V](l.Parts), flip: e.Flip, kind: b.Kind, Ranges: b.Ranges,
		lo: batch.View[K](b.Columns[batch.Keys].Host), hi: batch.View[K](b.Columns[batch.Keys2].Host),
		keys: batch.View[K](b.Columns[batch.OutKeys].Host), vals: batch.View[V](b.Columns[batch.Vals].Host),
		ok: batch.View[bool](b.Columns[batch.OK].Host), ranks: batch.View[uint64](b.Columns[batch.Ranks].Host),
		counts: batch.View[uint32](b.Columns[batch.Counts].Host),
	}
	return e.RunLookup(ctx, b.N, q.answer)
}

// queries holds the queries of a lookup and its result columns.
type queries[K, V uint32 | uint64] struct {
	array[K, V]
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

// answer answers queries [from,to) on one core.
func (q *queries[K, V]) answer(w *cpu.Watch, from, to int) (ran, hits int) {
	var at, ends inorder.Places
	for lo := from; lo < to; lo += inorder.Searched {
		if w.ShouldStop(inorder.Searched) {
			return lo - from, hits
		}
		hi := min(lo+inorder.Searched, to)
		switch {
		case q.kind == op.Select:
			for i, r := range q.ranks[lo:hi] {
				hits += q.writePair(lo+i, int(min(r, uint64(len(q.array.vals)))))
			}
			continue
		case q.hi != nil:
			q.Search(q.hi[lo:hi], q.flip, &ends)
		}
		q.Search(q.lo[lo:hi], q.flip, &at)
		for i := lo; i < hi; i++ {
			hits += q.answerOne(i, at[i-lo], ends[i-lo])
		}
	}
	return to - from, hits
}

// answerOne answers query i. at is the index of the first pair whose key is at least the query's
// key or lower bound. end is the same for the upper bound of a range.
func (q *queries[K, V]) answerOne(i, at, end int) (hit int) {
	switch {
	case q.hi != nil:
		return q.answerRange(i, at, end)
	case q.kind == op.Rank:
		q.ranks[i] = uint64(at)
		return 0
	case q.kind == op.Successor:
		return q.writePair(i, at+q.has(at, q.lo[i]))
	case q.kind == op.Predecessor:
		return q.writePair(i, at-1)
	case q.has(at, q.lo[i]) == 0:
		at = -1
	}
	return q.writePair(i, at)
}

// has returns 1 if the pair at index at has key k, and 0 otherwise.
func (q *queries[K, V]) has(at int, k K) int {
	if at < len(q.array.vals) && q.array.Keys.Keys[at] == k^q.flip {
		return 1
	}
	return 0
}

// writePair writes the pair at index at as answer i. If the array has no such pair, it writes a
// miss.
func (q *queries[K, V]) writePair(i, at int) (hit int) {
	var k K
	var v V
	if at >= 0 && at < len(q.array.vals) {
		k, v, hit = q.array.Keys.Keys[at]^q.flip, q.array.vals[at], 1
	}
	if q.keys != nil {
		q.keys[i] = k
	}
	if q.vals != nil {
		q.vals[i] = v
	}
	if q.ok != nil {
		q.ok[i] = hit > 0
	}
	return hit
}

// span returns the indexes [from,to) of the pairs inside range i, up to the limit. at and end are
// as in answerOne.
func (q *queries[K, V]) span(i, at, end int) (int, int) {
	if end += q.has(end, q.hi[i]); end < at || q.lo[i]^q.flip > q.hi[i]^q.flip {
		end = at
	}
	if q.Limit > 0 && q.Backward {
		at = max(at, end-q.Limit)
	} else if q.Limit > 0 {
		end = min(end, at+q.Limit)
	}
	return at, end
}

// answerRange counts the pairs of range i, and writes them if the batch has columns for pairs.
func (q *queries[K, V]) answerRange(i, at, end int) (hit int) {
	at, end = q.span(i, at, end)
	q.counts[i] = uint32(end - at)
	if q.keys != nil {
		q.copy(at, end, q.keys[i*q.Limit:], q.vals[i*q.Limit:])
	}
	return min(end-at, 1)
}

// copy copies pairs [at,end) to keys and vals, in reverse order if the batch goes backward.
func (q *queries[K, V]) copy(at, end int, keys []K, vals []V) {
	n := end - at
	if !q.Backward {
		for j, k := range q.array.Keys.Keys[at:end] {
			keys[j] = k ^ q.flip
		}
		copy(vals, q.array.vals[at:end])
		return
	}
	for j := range n {
		keys[j], vals[j] = q.array.Keys.Keys[end-1-j]^q.flip, q.array.vals[end-1-j]
	}
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
		array: pairsOf[K, V](l.Parts), flip: e.Flip, Ranges: b.Ranges,
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
	var at, ends inorder.Places
	for lo := from; lo < to; lo += inorder.Searched {
		hi := min(lo+inorder.Searched, to)
		r.Search(r.lo[lo:hi], r.flip, &at)
		r.Search(r.hi[lo:hi], r.flip, &ends)
		for i := lo; i < hi; i++ {
			first, last := r.span(i, at[i-lo], ends[i-lo])
			if w.ShouldStop(1 + (last-first)/unitPairs) {
				return i - from, hits
			}
			r.counts[i] = uint32(last - first)
			row := r.offsets[i] - r.offsets[0]
			left := uint64(len(r.keys)) - min(row, uint64(len(r.keys)))
			if fits := int(min(uint64(last-first), left)); fits > 0 && r.Backward {
				r.copy(last-fits, last, r.keys[row:], r.vals[row:])
			} else if fits > 0 {
				r.copy(first, first+fits, r.keys[row:], r.vals[row:])
			}
		}
	}
	return to - from, hits
}
