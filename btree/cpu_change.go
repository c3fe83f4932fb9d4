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
// parallel. The leftmost node of each level of a subtree stays, and with it the link from the left.
// So no two tasks share a node. At the end one core inserts the new roots of the subtrees into the
// levels above. A running piece does not stop. So it allocates all memory that it may need before
// it touches a node.

// Sizes of pieces and tasks. Tests make all of them smaller.
var (
	// piece is the number of operations of a piece. A few cores run them in some milliseconds, so a
	// canceled change ends soon.
	piece = 1 << 18

	// endlessPiece is the size of a piece if the context cannot end.
	endlessPiece = 1 << 22

	// targetTasks is the number of tasks at which the division of the tree stops.
	targetTasks = 1 << 8

	// minTaskItems is the minimum number of operations of a share, except the last one. A share is
	// a group of tasks that one core runs.
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
			n = b.N - done // a load can be canceled until it writes results
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

// task is a subtree and the items [lo,hi) on its keys. After it has run, slots [from,to) of the
// worker's stack replace the subtree's root in its parent.
type task[K, V, T word] struct {
	self     slot[T]
	lo, hi   int
	worker   *worker[K, V, T]
	from, to int
	small    bool // one of the resulting nodes may be merged
}

// change runs a batch as one piece. After an error the piece has changed nothing.
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

func changesOf[K, V word](b *batch.Batch) cpu.Changes[K, V] {
	c := cpu.ChangesOf[K, V](b)
	c.Updates = true
	return c
}

// inserted counts how many of the first n operations may insert a key.
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

// maxNewNodes returns the maximum number of nodes that insertions may take. It counts at most one
// leaf per insertion, and at most as many leaves as all pairs half fill. On each higher level it
// counts at most as many nodes as their children half fill.
func (e *cpuEngine[K, V, T]) maxNewNodes(t *cpuTree[T], inserts int) (n int) {
	half, existing := e.slots/2, t.inUse()
	added := min(inserts, (int(t.tally.Live)+inserts)/half+1)
	for range t.depth() + 2 {
		n += added
		added = min(added, (existing+added)/half+1)
	}
	return n + levelMask
}

// divideTasks divides the items into tasks, and groups the tasks into shares. If the piece has few
// items, it returns no shares.
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

// start begins a change. All memory for it must be allocated. It refreshes the node addresses,
// which growth may have moved.
func (w *worker[K, V, T]) start() {
	t := w.cpuTree
	w.nodes, w.supply, t.presentOrder = t.nodes(), &supply{free: t.free, top: t.control().top}, nil
	if v := t.versions; v != nil {
		w.newest = v.newest()
		v.grow(t.capacity())
	}
}

// recordSupply updates the tree's free nodes after a change has taken nodes from s.
func (t *cpuTree[T]) recordSupply(s *supply) {
	used := int(s.next.Load())
	t.control().top = s.top + uint32(max(0, used-len(s.free)))
	t.free = s.free[min(used, len(s.free)):]
}

// finish frees the unused nodes of a worker, retires the removed nodes, and counts the pairs.
func (w *worker[K, V, T]) finish() {
	w.freeNodes(w.ids)
	w.retire(w.removed, w.kept)
	w.addPairs(w.Live)
}
