package btree

import (
	"context"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/op"
)

// A change runs in pieces. A piece is sorted and then run from the root down: the operations of a
// node are divided among its children. Subtrees below some level are tasks, which cores run in
// parallel. No two tasks share a node, since the leftmost node of each level of a subtree stays,
// and with it the link from the left. At the end one core inserts the new roots of the subtrees
// into the levels above. A running piece does not stop, so it allocates all memory that it may need
// before it touches a node.

// Tuning of changes. Tests make all of these smaller.
var (
	// piece is the number of operations of a piece: some milliseconds of work for a few cores.
	piece = 1 << 18

	// endlessPiece is the number of operations of a piece if the context cannot end.
	endlessPiece = 1 << 22

	// targetTasks is the number of tasks at which the tree is not divided further.
	targetTasks = 1 << 8

	// minTaskItems is the minimum number of operations of a share, which one core runs.
	minTaskItems = 1 << 11
)

// Change implements core.Engine.
func (e *cpuEngine[K, V, T]) Change(ctx context.Context, s *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	if err := cpu.SyncStream(s); err != nil {
		return 0, nil, err
	}
	for done < b.N {
		if err := ctx.Err(); err != nil {
			return done, nil, err
		}
		e.tree().freeReclaimable()
		n, empty := min(piece, b.N-done), e.tree().tally.Live == 0
		if empty {
			n = b.N - done // it can be canceled until it begins
		} else if ctx.Done() == nil {
			n = min(endlessPiece, b.N-done)
		}
		part := b.Part(done, done+n)
		switch {
		case b.Kind == op.DeleteRange && !b.Columns[batch.Kinds].Given():
			n, err = e.deleteRanges(part)
		case empty:
			err = e.load(ctx, part)
		default:
			err = e.change(ctx, part)
		}
		if err != nil {
			return done, nil, err
		}
		done += n
	}
	return done, nil, nil
}

// task is a node and the items [lo,hi) for its subtree. Slots [from,to) of a worker's stack then
// replace the node in its parent.
type task[K, V, T word] struct {
	self     slot[T]
	lo, hi   int
	worker   *worker[K, V, T]
	from, to int
	small    bool // one of these nodes may be merged
}

// change runs a piece, or does nothing and returns the reason.
func (e *cpuEngine[K, V, T]) change(ctx context.Context, b *batch.Batch) error {
	t := e.tree()
	defer e.sorter.Trim()
	items, err := e.sorter.Sort(ctx, e.Device, batch.View[K](b.Columns[batch.Keys].Host), e.flip)
	if err != nil {
		return err
	}
	top := &worker[K, V, T]{
		cpuTree: t, nodes: t.nodes(), fill: e.fill, Changes: changesOf[K, V](b), items: items, fetcher: cpu.FetcherOf(b, items), level: -1,
	}
	shares := top.divideTasks()
	if err := t.reserve(e.maxNewNodes(t, inserted(&top.Changes, len(items))) + t.maxCopies(len(items)) + supplyBlock*(len(shares)+1)); err != nil {
		return err
	}
	top.start()
	workers := make([]*worker[K, V, T], len(shares), len(shares)+1)
	e.Device.Parallel(len(shares), 1, func(i, _ int) {
		w := *top
		workers[i] = &w
		for k := range shares[i] {
			w.run(&shares[i][k])
		}
	})
	top.runRoot()
	t.recordSupply(top.supply)
	for _, w := range append(workers, top) {
		w.finish()
	}
	return nil
}

// changesOf returns the operations of a batch.
func changesOf[K, V word](b *batch.Batch) cpu.Changes[K, V] {
	c := cpu.ChangesOf[K, V](b)
	c.Updates = true
	return c
}

// inserted counts the operations that may insert.
func inserted[K, V word](ops *cpu.Changes[K, V], n int) (inserts int) {
	if !ops.Mixed() {
		if ops.Kind(0).Inserts() {
			return n
		}
		return 0
	}
	for i := range n {
		if ops.Kind(uint32(i)).Inserts() {
			inserts++
		}
	}
	return inserts
}

// maxNewNodes returns the number of nodes that insertions may take. That is one leaf each, unless
// half-full leaves of all pairs are fewer, and on each level above as many as the new nodes below
// half fill.
func (e *cpuEngine[K, V, T]) maxNewNodes(t *cpuTree[T], inserts int) (n int) {
	half, existing := e.slots/2, t.inUse()
	added := min(inserts, (int(t.tally.Live)+inserts)/half+1)
	for range t.depth() + 2 {
		n += added
		added = min(added, (existing+added)/half+1)
	}
	return n + levelMask
}

// divideTasks divides the items into tasks, and the tasks into shares. A few items make no tasks.
func (w *worker[K, V, T]) divideTasks() (shares [][]task[K, V, T]) {
	level := w.depth()
	if len(w.items) <= minTaskItems || level == 1 {
		return nil
	}
	tasks := []task[K, V, T]{{lo: 0, hi: len(w.items)}}
	for ; level > 1 && len(tasks) < targetTasks; level-- {
		var children []task[K, V, T]
		for _, t := range tasks {
			var buf [maxSlots]slot[T]
			w.divideItems(w.at(t.self.id()).children(&buf), t.lo, t.hi, func(c slot[T], lo, hi int) {
				if lo < hi {
					children = append(children, task[K, V, T]{self: c, lo: lo, hi: hi})
				}
			})
		}
		tasks = children
	}
	w.level, w.tasks = level, tasks
	for len(tasks) > 0 {
		n, items := 0, 0
		for n < len(tasks) && items < minTaskItems {
			items += tasks[n].hi - tasks[n].lo
			n++
		}
		shares = append(shares, tasks[:n])
		tasks = tasks[n:]
	}
	return shares
}

// start starts a change for which memory has been allocated. The nodes may have moved.
func (w *worker[K, V, T]) start() {
	t := w.cpuTree
	w.nodes, w.supply, t.presentOrder = t.nodes(), &supply{free: t.free, top: t.control().top}, nil
	if v := t.versions; v != nil {
		w.newest = v.newest()
		v.grow(t.capacity())
	}
}

// recordSupply records the nodes that a change has allocated.
func (t *cpuTree[T]) recordSupply(s *supply) {
	used := int(s.next.Load())
	t.control().top = s.top + uint32(max(0, used-len(s.free)))
	t.free = s.free[min(used, len(s.free)):]
}

// finish releases a worker's unused and retired nodes and counts its pairs.
func (w *worker[K, V, T]) finish() {
	w.freeNodes(w.ids)
	w.retire(w.removed, w.kept)
	w.addPairs(w.Live)
}
