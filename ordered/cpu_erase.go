package ordered

import (
	"cmp"
	"math"
	"slices"

	"github.com/weftgo/weft/internal/batch"
)

// eraseRanges is the maximum number of ranges that a call of deleteRanges deletes. After about
// erasePairs deleted pairs, the call leaves the other ranges to the next call.
const (
	eraseRanges = 1 << 12
	erasePairs  = 1 << 22
)

// stretch is a run of leaves from which the deletion of a range has removed pairs. a is the first
// leaf, and b the last.
type stretch struct{ a, b int }

// deleteRanges deletes the pairs of the first ranges in a batch, and returns how many ranges are
// done. It stops after some milliseconds. A leaf that keeps a part of its pairs is written at once.
// Leaves with few or no pairs are merged or dropped afterward, as in any change.
func (e *cpuEngine[K, V]) deleteRanges(b *batch.Batch) (done int, err error) {
	f, c := e.forest(), &b.Columns
	lo, hi := batch.View[K](c[batch.Keys].Host), batch.View[K](c[batch.Keys2].Host)
	counts := batch.View[uint32](c[batch.Counts].Host)
	n := min(b.N, eraseRanges)
	if f.present.leaves == 0 {
		return n, nil
	}
	if err := f.reserve(0); err != nil {
		return 0, err
	}
	t := trimmer[K, V]{forest: f}
	if len(f.versions) > 0 { // the leaves at both ends of a range may need a copy
		if t.ids, err = f.allocLeaves(min(2*n, f.present.leaves)); err != nil {
			return 0, err
		}
	}
	t.index = *f.present
	t.index.ids, t.index.sizes = slices.Clone(t.index.ids), slices.Clone(t.index.sizes)
	for done < n && t.removed < erasePairs {
		k := t.erase(lo[done]^e.order, hi[done]^e.order)
		if counts != nil {
			counts[done] = uint32(min(k, math.MaxUint32))
		}
		t.removed += k
		done++
	}
	f.freeLeaves(t.ids...)
	if t.removed == 0 {
		return done, nil
	}
	chunks := t.chunks()
	e.Device.Parallel(len(chunks), 1, func(i, _ int) {
		m := e.merger()
		m.forest, m.index, m.items = f, &t.index, nil
		m.run(&chunks[i])
		e.mergers.Put(m)
	})
	chunks[0].delta -= int64(t.removed)
	chunks[0].retired = append(chunks[0].retired, t.replaced...)
	return done, f.fold(e.Device, &t.index, true, chunks)
}

// trimmer removes pairs from leaves. Its index is a copy of the present index with its own sizes
// and ids.
type trimmer[K, V word] struct {
	*forest[K, V]
	index    index[K]
	ids      []uint32 // new leaves that replace leaves shared with versions
	replaced []uint32 // the replaced leaves
	touched  []stretch
	removed  int
}

// erase removes the pairs with keys in [lo,hi], and returns their number.
func (t *trimmer[K, V]) erase(lo, hi K) (n int) {
	if lo > hi {
		return 0
	}
	a, b := t.index.leaf(lo), t.index.leaf(hi)
	for p := a; p <= b; p++ {
		size := int(t.index.sizes[p])
		if size == 0 {
			continue
		}
		from, to := 0, size
		if l := t.at(t.index.ids[p]); p == a || p == b {
			from, to = l.lower(lo, size), l.upper(hi, size)
		}
		if from < to {
			t.trim(p, from, to)
			n += to - from
		}
	}
	if n > 0 {
		t.touched = append(t.touched, stretch{a, b})
	}
	return n
}

// trim removes pairs [from,to) from leaf p.
func (t *trimmer[K, V]) trim(p, from, to int) {
	x := &t.index
	id, size := x.ids[p], int(x.sizes[p])
	if x.sizes[p] = uint8(size - (to - from)); x.sizes[p] == 0 {
		return // an empty leaf is dropped, so nothing is written
	}
	l := t.at(id)
	keys, vals := slices.Delete(slices.Clone(l.keys[:size]), from, to), slices.Delete(slices.Clone(l.vals[:size]), from, to)
	if !t.unshared(id) {
		last := len(t.ids) - 1
		x.ids[p], t.ids = t.ids[last], t.ids[:last]
		t.replaced = append(t.replaced, id)
		id = x.ids[p]
		t.created[id] = t.clock
	}
	t.at(id).set(keys, vals)
}

// chunks makes chunks that cover the touched leaves.
func (t *trimmer[K, V]) chunks() (chunks []chunk[K]) {
	slices.SortFunc(t.touched, func(x, y stretch) int { return cmp.Compare(x.a, y.a) })
	at := 0
	for _, s := range t.touched {
		for at = max(at, s.a/chunkLeaves*chunkLeaves); at <= s.b; at += chunkLeaves {
			chunks = append(chunks, chunk[K]{a: at, b: min(at+chunkLeaves, t.index.leaves), moved: true})
		}
	}
	return chunks
}
