package btree

import (
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

// ahead is a batch that was sorted before it was known whether nodes suffice for it. While the
// device sorts, the host reads the counters as of the batch before, allocates memory, and submits
// what follows.
type ahead struct {
	of   *batch.Batch // nil: none
	s    *device.Stream
	keys device.Ptr
	n    int
	work device.Ptr // address of the sorted batch
}

// keepAhead discards what was sorted for another batch, which then did not run.
func (e *gpuEngine) keepAhead(b *batch.Batch) {
	if e.ahead.of != b {
		e.ahead = ahead{}
	}
}

// sortAhead submits sorting a batch on the device. The next call of Counters does not wait for it.
func (e *gpuEngine) sortAhead(s *device.Stream, b *batch.Batch) error {
	ranges := b.Kind == op.DeleteRange && !b.Columns[batch.Kinds].Given()
	// Pieces of OutOfPlace are as large as the tree, and its size is not known yet.
	if s == nil || b.Flags&batch.Order == 0 || ranges || e.versions == OutOfPlace {
		return nil
	}
	n := min(b.N, e.mostOps())
	e.turn.Lock()
	defer e.turn.Unlock()
	if err := e.memory(&e.work, int(e.layOut(n, 0).end)); err != nil {
		return err
	}
	if err := e.Stream.Wait(e.Changed()); err != nil {
		return err
	}
	m := e.layOut(n, e.work.Ptr)
	m.sort.From.Keys = b.Columns[batch.Keys].Ptr
	if err := e.Submit(s, func() error { return e.sortKeys(s, &m) }); err != nil {
		return err
	}
	e.ahead = ahead{of: b, s: s, keys: m.sort.From.Keys, n: n, work: e.work.Ptr}
	e.waits = true
	return nil
}

// sorted reports whether a batch has been sorted to the current work memory. It does so once.
func (e *gpuEngine) sorted(s *device.Stream, b *batch.Batch) bool {
	a := e.ahead
	e.ahead = ahead{}
	return a.of != nil && a.s == s && a.keys == b.Columns[batch.Keys].Ptr && a.n == b.N && a.work == e.work.Ptr
}

// sortKeys submits sorting the keys of a batch with their rows, and finding the distinct ones.
func (e *gpuEngine) sortKeys(s *device.Stream, m *merging) error {
	if err := e.prims.Sort(s, &m.sort, device.Buffer{Ptr: m.sorting, Size: m.sort.ScratchBytes()}); err != nil {
		return err
	}
	return e.prims.Group(s, &m.group, device.Buffer{Ptr: m.scratch, Size: m.group.ScratchBytes()})
}
