package sorted

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
	m := &merge[K, V]{old: pairsOf[K, V](e.Parts()), items: items, entries: make([]entry[K, V], b.N)}
	inorder.Deal(e.Device, items, func(lo, hi int) { m.parts = append(m.parts, part{lo: lo, hi: hi}) })
	base := cpu.ChangesOf[K, V](b)
	base.Updates = true
	e.Device.Parallel(len(m.parts), 1, func(i, _ int) { m.applyOps(base, &m.parts[i]) })
	return e.replace(m.jobs())
}

// replace runs jobs, which write the next generation, and makes that generation current. live is
// the number of pairs in it. If changes is false, replace does nothing.
func (e *cpuEngine[K, V]) replace(jobs []job[K, V], live int, changes bool) error {
	if !changes {
		return nil
	}
	to, err := e.pool.alloc(live)
	if err != nil {
		return err
	}
	to.tally = core.Tally{Live: uint64(live), Used: uint64(live)}
	from, pairs := pairsOf[K, V](e.Parts()), arrayOf[K, V](to, live)
	e.Device.Parallel(len(jobs), 1, func(i, _ int) { jobs[i].run(from, pairs) })
	pairs.Fill(e.Device)
	return e.Leases.Replace(to)
}

// entry is the result of a key's operations.
type entry[K, V uint32 | uint64] struct {
	key              K
	val              V
	existed, present bool // whether the key had a pair before, and whether it has one now
}

// merge merges a batch with the pairs of the map.
type merge[K, V uint32 | uint64] struct {
	old     array[K, V]
	items   []cpu.Item[K] // sorted rows of the batch
	entries []entry[K, V]
	parts   []part
}

// part is a unit of work for one core: items [lo,hi). All items with the same key are in the same
// part. Its results are entries [lo,end), at most one per item. from is the index of the first pair
// of the map whose key is not smaller than the part's first key.
type part struct {
	lo, hi, end int
	from        int
}

// applyOps runs the operations of a part, and writes entries for the keys whose pairs change.
func (m *merge[K, V]) applyOps(c cpu.Changes[K, V], p *part) {
	at, _ := slices.BinarySearch(m.old.Keys.Keys, m.items[p.lo].Key)
	p.from, p.end = at, p.lo
	for i := p.lo; i < p.hi; {
		first := i
		i = cpu.RunEnd(m.items, i+1)
		e := entry[K, V]{key: m.items[first].Key}
		var oldVal V
		at = inorder.Gallop(m.old.Keys.Keys, at, e.key)
		if e.existed = at < len(m.old.Keys.Keys) && m.old.Keys.Keys[at] == e.key; e.existed {
			oldVal = m.old.vals[at]
		}
		e.val, e.present = cpu.ApplyOps(&c, m.items[first:i], oldVal, e.existed)
		if e.existed != e.present || e.existed && e.val != oldVal {
			m.entries[p.end] = e
			p.end++
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// job writes old pairs [from,to), merged with entries, to the new array. The first resulting pair
// goes to index at.
type job[K, V uint32 | uint64] struct {
	from, to int
	entries  []entry[K, V]
	at       int
}

// jobPairs is the maximum number of pairs that a job copies.
const jobPairs = 1 << 16

// jobs divides a merge into jobs. It returns the number of pairs after the merge, and whether any
// pair changes.
func (m *merge[K, V]) jobs() (jobs []job[K, V], live int, changes bool) {
	from, at := 0, 0
	for i, p := range m.parts {
		to := len(m.old.Keys.Keys)
		if i+1 < len(m.parts) {
			to = m.parts[i+1].from
		}
		changes = changes || p.end > p.lo
		entries := m.entries[p.lo:p.end]
		for cut := true; cut; {
			cut = to-from > jobPairs
			j := job[K, V]{from: from, to: to, entries: entries, at: at}
			if cut {
				j.to = from + jobPairs
				j.entries = entries[:before(entries, m.old.Keys.Keys[j.to])]
			}
			jobs = append(jobs, j)
			at += j.to - j.from + added(j.entries)
			from, entries = j.to, entries[len(j.entries):]
		}
	}
	return jobs, at, changes
}

// before returns the number of entries with keys smaller than key.
func before[K, V uint32 | uint64](entries []entry[K, V], key K) int {
	n, _ := slices.BinarySearchFunc(entries, key, func(e entry[K, V], key K) int {
		return btoi(e.key > key) - btoi(e.key < key)
	})
	return n
}

// added returns by how much entries change the number of pairs.
func added[K, V uint32 | uint64](entries []entry[K, V]) (n int) {
	for i := range entries {
		n += btoi(entries[i].present) - btoi(entries[i].existed)
	}
	return n
}

func (j *job[K, V]) run(from, to array[K, V]) {
	i, at := j.from, j.at
	move := func(end int) {
		copy(to.Keys.Keys[at:], from.Keys.Keys[i:end])
		copy(to.vals[at:], from.vals[i:end])
		i, at = end, at+end-i
	}
	for n := range j.entries {
		e := &j.entries[n]
		if end := inorder.Gallop(from.Keys.Keys, i, e.key); end > i {
			move(end)
		}
		i += btoi(e.existed)
		if e.present {
			to.Keys.Keys[at], to.vals[at] = e.key, e.val
			at++
		}
	}
	move(j.to)
}
