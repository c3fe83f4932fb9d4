package ordered

import (
	"context"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
)

// place locates a pair in the map: a leaf, and the index of the pair in it.
type place struct{ leaf, at int }

// lower returns the place of the first pair whose key is at least the given key. The map must have
// leaves.
func (r *reader[K, V]) lower(key K) place {
	p := r.x.leaf(key)
	return place{p, r.pool.at(r.x.ids[p]).lower(key, int(r.x.sizes[p]))}
}

// upper returns the place of the first pair whose key is larger than the given key. The map must
// have leaves.
func (r *reader[K, V]) upper(key K) place {
	p := r.x.leaf(key)
	return place{p, r.pool.at(r.x.ids[p]).upper(key, int(r.x.sizes[p]))}
}

// before returns the number of pairs before a place in the map.
func (r *reader[K, V]) before(p place) uint64 { return r.x.before(p.leaf) + uint64(p.at) }

// rank computes the rank of each of keys [lo,hi) of the batch, which is the number of smaller keys
// in the map.
func (r *reader[K, V]) rank(w *cpu.Watch, lo, hi int) (ran, hits int) {
	return r.forEachGroup(w, lo, hi, func(at int, keys []K, places, leaves *group) int {
		for i, k := range keys {
			p := int(places[i])
			r.ranks[at+i] = r.x.before(p) + uint64(r.pool.at(leaves[i]).lower(k^r.order, int(r.x.sizes[p])))
		}
		return 0
	})
}

// selectRanks finds the pair at each of ranks [lo,hi) of the batch.
func (r *reader[K, V]) selectRanks(w *cpu.Watch, lo, hi int) (ran, hits int) {
	return cpu.RunLoop(w, lo, hi, 4, func(i int) int {
		if r.ranks[i] >= r.x.pairs() {
			return r.answer(i, nil, 0)
		}
		p, at := r.x.place(r.ranks[i])
		return r.answer(i, r.pool.at(r.x.ids[p]), at)
	})
}

// successors finds the first pair of the map after each of keys [lo,hi) of the batch.
func (r *reader[K, V]) successors(w *cpu.Watch, lo, hi int) (ran, hits int) {
	return r.forEachGroup(w, lo, hi, func(at int, keys []K, places, leaves *group) (hits int) {
		for i, k := range keys {
			p, l := int(places[i]), r.pool.at(leaves[i])
			j := l.upper(k^r.order, int(r.x.sizes[p]))
			if j == int(r.x.sizes[p]) {
				l, j = r.leafAt(p+1), 0
			}
			hits += r.answer(at+i, l, j)
		}
		return hits
	})
}

// predecessors finds the last pair of the map before each of keys [lo,hi) of the batch.
func (r *reader[K, V]) predecessors(w *cpu.Watch, lo, hi int) (ran, hits int) {
	return r.forEachGroup(w, lo, hi, func(at int, keys []K, places, leaves *group) (hits int) {
		for i, k := range keys {
			p, l := int(places[i]), r.pool.at(leaves[i])
			j := l.lower(k^r.order, int(r.x.sizes[p])) - 1
			if j < 0 {
				if l = r.leafAt(p - 1); l != nil {
					j = int(r.x.sizes[p-1]) - 1
				}
			}
			hits += r.answer(at+i, l, j)
		}
		return hits
	})
}

// leafAt returns leaf p of the index, or nil if the index has no leaf p.
func (r *reader[K, V]) leafAt(p int) *leaf[K, V] {
	if p < 0 || p >= r.x.leaves {
		return nil
	}
	return r.pool.at(r.x.ids[p])
}

// span returns the place of the first pair of range i, the place after its last pair, and its
// number of pairs.
func (r *reader[K, V]) span(i int) (from, to place, n uint64) {
	lo, hi := r.keys[i]^r.order, r.ends[i]^r.order
	if lo > hi || r.x.leaves == 0 {
		return from, to, 0
	}
	from, to = r.lower(lo), r.upper(hi)
	return from, to, r.before(to) - r.before(from)
}

// ranges counts the pairs of the map inside each of ranges [lo,hi) of the batch. It also copies
// these pairs if the batch has output columns.
func (r *reader[K, V]) ranges(w *cpu.Watch, lo, hi int) (ran, hits int) {
	return cpu.RunLoop(w, lo, hi, 8+r.limit/8, func(i int) int {
		from, to, n := r.span(i)
		if r.limit > 0 {
			n = min(n, uint64(r.limit))
		}
		r.counts[i] = uint32(n)
		if at := i * r.limit; r.outs != nil || r.vals != nil {
			r.copyRows(from, to, at, at+int(n))
		}
		return int(min(n, 1))
	})
}

// shortRange is the largest limit at which walking a range is faster than a search for its end.
const shortRange = 64

// walks reports whether each range is read from its beginning without a search for its end.
func (r *reader[K, V]) walks() bool {
	return !r.backward && r.limit > 0 && (r.limit <= shortRange || r.outs != nil || r.vals != nil)
}

// walk finds up to limit pairs of the map in each of ranges [lo,hi) of the batch, from the
// beginning of the range on.
func (r *reader[K, V]) walk(w *cpu.Watch, lo, hi int) (ran, hits int) {
	return r.forEachGroup(w, lo, hi, func(at int, keys []K, places, leaves *group) (hits int) {
		w.AddWork(len(keys) * (r.limit / 8))
		for i, k := range keys {
			from, last := k^r.order, r.ends[at+i]^r.order
			if r.counts[at+i] = 0; from <= last {
				p := int(places[i])
				j := r.pool.at(leaves[i]).lower(from, int(r.x.sizes[p]))
				n := r.copyUpTo(place{p, j}, last, (at+i)*r.limit)
				r.counts[at+i] = uint32(n)
				hits += min(n, 1)
			}
		}
		return hits
	})
}

// copyUpTo copies up to r.limit pairs to the output rows. It starts at the given place and stops
// after the key last. at is the index of the first output row. It returns the number of pairs
// copied.
func (r *reader[K, V]) copyUpTo(from place, last K, at int) (n int) {
	for more := true; more && n < r.limit && from.leaf < r.x.leaves; from = (place{from.leaf + 1, 0}) {
		l, end := r.pool.at(r.x.ids[from.leaf]), int(r.x.sizes[from.leaf])
		if more = l.keys[end-1] <= last; !more {
			end = l.upper(last, end)
		}
		m := min(end-from.at, r.limit-n)
		if m > 0 {
			r.copyLeaf(at+n, l, from.at, m)
			n += m
		}
	}
	return n
}

// copyRows copies pairs to output rows [at,end). It copies the pairs that follow from, or, if
// r.backward is set, the pairs before to in descending order.
func (r *reader[K, V]) copyRows(from, to place, at, end int) {
	for p := from.leaf; !r.backward && at < end; p, from.at = p+1, 0 {
		l, n := r.pool.at(r.x.ids[p]), min(int(r.x.sizes[p])-from.at, end-at)
		r.copyLeaf(at, l, from.at, n)
		at += n
	}
	for r.backward && at < end {
		if to.at == 0 {
			to.leaf--
			to.at = int(r.x.sizes[to.leaf])
			continue
		}
		to.at--
		r.copyLeaf(at, r.pool.at(r.x.ids[to.leaf]), to.at, 1)
		at++
	}
}

// copyLeaf copies n pairs of a leaf to the output rows. j is the index of the first pair in the
// leaf, and at is the index of its output row.
func (r *reader[K, V]) copyLeaf(at int, l *leaf[K, V], j, n int) {
	if r.outs != nil {
		for i, k := range l.keys[j : j+n] {
			r.outs[at+i] = k ^ r.order
		}
	}
	if r.vals != nil {
		copy(r.vals[at:], l.vals[j:j+n])
	}
}

// Expand implements core.Expander.
func (e *cpuEngine[K, V]) Expand(ctx context.Context, s *device.Stream, l *core.Lease, b *batch.Batch) error {
	offsets, err := cpu.Offsets(b, s, func(count *batch.Batch) error {
		_, _, err := e.Lookup(ctx, s, l, count, 0)
		return err
	})
	if err != nil {
		return err
	}
	r := e.reader(l, b)
	capacity := max(len(r.vals), len(r.outs))
	_, _, err = e.RunLookup(ctx, b.N, func(w *cpu.Watch, lo, hi int) (ran, hits int) {
		return cpu.RunLoop(w, lo, hi, 8, func(i int) int {
			from, to, _ := r.span(i)
			at, end := int(offsets[i]-offsets[0]), int(offsets[i+1]-offsets[0])
			w.AddWork((end - at) / 8)
			r.copyRows(from, to, min(at, capacity), min(end, capacity))
			return 0
		})
	})
	return err
}

// Export implements core.Engine.
func (e *cpuEngine[K, V]) Export(ctx context.Context, l *core.Lease, lo, hi uint32, out *batch.Batch) (n int, err error) {
	r := e.reader(l, &batch.Batch{Version: out.Version})
	rows := &reader[K, V]{
		order: e.order,
		outs:  batch.View[K](out.Columns[batch.Keys].Host), vals: batch.View[V](out.Columns[batch.Vals].Host),
	}
	w := cpu.NewWatch(ctx)
	for p := lo; p < hi; p++ {
		if w.ShouldStop(4) {
			return n, ctx.Err()
		}
		size := int(r.x.sizes[p])
		if n+size <= len(rows.outs) {
			rows.copyLeaf(n, r.pool.at(r.x.ids[p]), 0, size)
		}
		n += size
	}
	return n, nil
}
