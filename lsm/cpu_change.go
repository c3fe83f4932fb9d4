package lsm

import (
	"context"
	"slices"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/inorder"
)

// Change implements core.Engine. After an error nothing of the batch has run. Operations on a key
// run in batch order.
func (e *cpuEngine[K, V]) Change(ctx context.Context, s *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	return e.Whole(ctx, s, b, e.deleteRanges, e.change)
}

func (e *cpuEngine[K, V]) change(ctx context.Context, b *batch.Batch) error {
	defer e.Sorter.Trim()
	items, err := e.Sorter.Sort(ctx, e.Device, batch.View[K](b.Columns[batch.Keys].Host), e.Flip)
	if err != nil {
		return err
	}
	m := &runBuilder[K, V]{tree: treeOf[K, V](e.Parts()), items: items, run: runOf[K, V](b.N)}
	inorder.Deal(e.Device, items, func(lo, hi int) { m.parts = append(m.parts, part{lo: lo, hi: hi}) })
	base := cpu.ChangesOf[K, V](b)
	base.Updates = true
	e.Device.Parallel(len(m.parts), 1, func(i, _ int) { m.applyOps(base, &m.parts[i]) })
	return e.push(m.concat())
}

// runBuilder makes a run from a batch.
type runBuilder[K, V uint32 | uint64] struct {
	tree  tree[K, V]
	items []cpu.Item[K] // sorted rows of the batch
	run   array[K, V]
	parts []part
}

// part is a unit of work for one core: items [lo,hi). All items with the same key are in the same
// part. Its results are entries [lo,end), at most one per item.
type part struct{ lo, hi, end int }

// applyOps runs the operations of a part, and writes entries for the keys whose pairs change.
func (m *runBuilder[K, V]) applyOps(c cpu.Changes[K, V], p *part) {
	at := make([]int, len(m.tree))
	for l := range at {
		at[l] = m.tree[l].place(m.items[p.lo].Key)
	}
	p.end = p.lo
	for i := p.lo; i < p.hi; {
		first := i
		i = cpu.RunEnd(m.items, i+1)
		key := m.items[first].Key
		oldVal, existed := m.find(key, at)
		val, exists := cpu.ApplyOps(&c, m.items[first:i], oldVal, existed)
		if exists != existed || exists && val != oldVal {
			m.run.put(p.end, key, val, delta(existed, exists))
			p.end++
		}
	}
}

// find searches the levels for a key. at has a position in each level, which must not be after the
// key. find advances the positions.
func (m *runBuilder[K, V]) find(key K, at []int) (val V, found bool) {
	for l := range m.tree {
		a := &m.tree[l]
		if at[l] = inorder.Gallop(a.Keys.Keys, at[l], key); a.hasKey(at[l], key) == 0 {
			continue
		}
		if a.deltas[at[l]] >= 0 {
			return a.vals[at[l]], true
		}
		break
	}
	return 0, false
}

// delta returns the delta of an entry. existed and exists say whether the key was present before
// and is now.
func delta(existed, exists bool) int8 {
	switch {
	case existed == exists:
		return 0
	case exists:
		return 1
	}
	return -1
}

// concat moves the entries of all parts to the beginning of the run and returns them.
func (m *runBuilder[K, V]) concat() array[K, V] {
	n := 0
	for _, p := range m.parts {
		from := m.run.part(p.lo, p.end)
		copy(m.run.Keys.Keys[n:], from.Keys.Keys)
		copy(m.run.vals[n:], from.vals)
		n += copy(m.run.deltas[n:], from.deltas)
	}
	return m.run.part(0, n)
}

// push merges a run with as many of the newest levels as necessary. An empty run changes nothing.
func (e *cpuEngine[K, V]) push(run array[K, V]) error {
	n := len(run.deltas)
	if n == 0 {
		return nil
	}
	g := e.current()
	slot, merged, total := e.pool.target(g.levels, n)
	if total > maxEntries {
		return errLarge(total)
	}
	added := uint64(0)
	for _, d := range run.deltas {
		added += uint64(d)
	}
	return e.replace(append(tree[K, V]{run}, treeOf[K, V](g)[:merged]...), slot, merged, g.tally.Live+added)
}

// replace merges runs, and makes a generation in which the result replaces the merged newest
// levels. live is the number of keys in that generation.
func (e *cpuEngine[K, V]) replace(runs tree[K, V], slot, merged int, live uint64) error {
	m := merger[K, V]{runs: runs}
	m.cut()
	e.Device.Parallel(len(m.pieces), 1, func(i, _ int) { m.pieces[i].n = m.merge(&m.pieces[i], nil) })
	n := 0
	for i := range m.pieces {
		m.pieces[i].to = n
		n += m.pieces[i].n
	}
	var to *level
	if n > 0 {
		var err error
		if to, err = e.pool.alloc(slot, n); err != nil {
			return err
		}
		a := arrayOf[K, V](e.pool, to, n)
		e.Device.Parallel(len(m.pieces), 1, func(i, _ int) {
			p := &m.pieces[i]
			part := a.part(p.to, p.to+p.n)
			m.merge(p, &part)
		})
		a.fill(e.Device)
	}
	next := e.current().withLevel(to, merged)
	next.tally = core.Tally{Live: live, Used: uint64(next.entries())}
	return e.Leases.Replace(next)
}

func (e *cpuEngine[K, V]) cleanup() error {
	g := e.current()
	if len(g.levels) < 2 {
		return nil
	}
	slot, _, _ := e.pool.target(nil, int(g.tally.Live))
	return e.replace(treeOf[K, V](g), slot, len(g.levels), g.tally.Live)
}

// merger merges runs into one. Runs are ordered from the newest on.
type merger[K, V uint32 | uint64] struct {
	runs   tree[K, V]
	pieces []piece
}

// piece is the part of a merge that one core does at a time. It has entries [from,end) of each run,
// and its n resulting entries begin at position to.
type piece struct {
	from, end [maxLevels + 1]int
	n, to     int
}

// pieceEntries is the maximum number of entries that the largest run has in a piece.
const pieceEntries = 1 << 15

// cut divides the merge into pieces at keys of the largest run.
func (m *merger[K, V]) cut() {
	large := slices.MaxFunc(m.runs, func(a, b array[K, V]) int { return len(a.deltas) - len(b.deltas) }).Keys.Keys
	var p piece
	for at := pieceEntries; ; at += pieceEntries {
		for l := range m.runs {
			keys := m.runs[l].Keys.Keys
			if p.end[l] = len(keys); at < len(large) {
				p.end[l], _ = slices.BinarySearch(keys, large[at])
			}
		}
		m.pieces = append(m.pieces, p)
		if at >= len(large) {
			return
		}
		p.from = p.end
	}
}

// merge merges a piece and returns the number of resulting entries. It writes these entries to
// array to, unless to is nil. Only the newest entry of a key remains. A tombstone is dropped
// together with the entry that added its key.
func (m *merger[K, V]) merge(p *piece, to *array[K, V]) (n int) {
	w := walk[K, V]{tree: make(tree[K, V], 0, len(m.runs))}
	for l := range m.runs {
		if p.from[l] < p.end[l] {
			w.tree = append(w.tree, m.runs[l].part(p.from[l], p.end[l]))
		}
	}
	if len(w.tree) == 1 {
		if to != nil {
			copy(to.Keys.Keys, w.tree[0].Keys.Keys)
			copy(to.vals, w.tree[0].vals)
			copy(to.deltas, w.tree[0].deltas)
		}
		return len(w.tree[0].deltas)
	}
	for {
		delta, ok := w.step()
		if !ok {
			return n
		}
		if w.currentDelta() < 0 && delta == 0 {
			continue
		}
		if to != nil {
			to.put(n, w.key, w.val(), delta)
		}
		n++
	}
}

// deleteRanges deletes the pairs inside ranges. A pair that lies in several ranges is counted for
// the first one.
func (e *cpuEngine[K, V]) deleteRanges(ctx context.Context, b *batch.Batch) error {
	q := queries[K, V]{
		tree: treeOf[K, V](e.Parts()), flip: e.Flip,
		lo: batch.View[K](b.Columns[batch.Keys].Host), hi: batch.View[K](b.Columns[batch.Keys2].Host),
	}
	removed, err := e.Gone(ctx, b, q.findSpans)
	if err != nil {
		return err
	}
	if all := e.current().tally.Live; len(removed) == 1 && uint64(removed[0].To-removed[0].From) == all {
		return e.Leases.Replace(&generation{pool: e.pool})
	}
	return e.push(e.tombstones(q.tree, removed))
}

// findSpans finds the ranks of the pairs inside ranges [from,to), on one core.
func (q *queries[K, V]) findSpans(w *cpu.Watch, from, to int, spans []core.Span) (ran, hits int) {
	var found [inorder.Searched]span
	for lo := from; lo < to; lo += inorder.Searched {
		if w.ShouldStop(2 * inorder.Searched * (1 + len(q.tree))) {
			return lo - from, 0
		}
		hi := min(lo+inorder.Searched, to)
		q.spans(lo, hi, &found)
		for i := lo; i < hi; i++ {
			spans[i] = core.Span{From: found[i-lo].from, To: found[i-lo].to}
		}
	}
	return to - from, 0
}

// tombstones returns a run of tombstones for the pairs at removed ranks.
func (e *cpuEngine[K, V]) tombstones(t tree[K, V], removed []core.Span) array[K, V] {
	type job struct{ from, n, at int }
	var jobs []job
	n := 0
	for _, s := range removed {
		for from := s.From; from < s.To; from += unitPairs {
			jobs = append(jobs, job{from, min(unitPairs, s.To-from), n})
			n += jobs[len(jobs)-1].n
		}
	}
	run := runOf[K, V](n)
	e.Device.Parallel(len(jobs), 1, func(i, _ int) {
		j := jobs[i]
		w := walk[K, V]{tree: t}
		w.seek(t.selectKey(uint32(j.from)))
		for at := j.at; at < j.at+j.n && w.next(); at++ {
			run.put(at, w.key, 0, -1)
		}
	})
	return run
}
