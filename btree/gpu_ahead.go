package btree

import (
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

// presorted is a batch that was sorted before it was known whether enough nodes are free for it.
// While the device sorts, the host reads the counters after the previous batch, allocates memory,
// and submits the next launches.
type presorted struct {
	batch *batch.Batch // nil if no batch is presorted
	s     *device.Stream
	keys  device.Ptr
	n     int
	work  device.Ptr // address of the sorted batch
}

// discardPresorted implements engine.
func (e *gpuEngine) discardPresorted(b *batch.Batch) {
	if e.presorted.batch != b {
		e.presorted = presorted{}
	}
}

// presort submits the sort of a batch on the device. The next call of ReadCounters does not wait
// for the sort.
func (e *gpuEngine) presort(s *device.Stream, b *batch.Batch) error {
	ranges := b.Kind == op.DeleteRange && !b.Columns[batch.Kinds].Given()
	// With OutOfPlace the size of a piece depends on the size of the tree, which is not known yet.
	if s == nil || b.Flags&batch.Order == 0 || ranges || e.versions == OutOfPlace {
		return nil
	}
	n := min(b.N, e.opsLimit())
	e.submitMu.Lock()
	defer e.submitMu.Unlock()
	if err := e.growBuffer(&e.work, int(e.layOut(n, 0).end)); err != nil {
		return err
	}
	if err := e.Stream.Wait(e.LastChange()); err != nil {
		return err
	}
	m := e.layOut(n, e.work.Ptr)
	m.sort.From.Keys = b.Columns[batch.Keys].Ptr
	if err := e.Submit(s, func() error { return e.sortKeys(s, &m) }); err != nil {
		return err
	}
	e.presorted = presorted{batch: b, s: s, keys: m.sort.From.Keys, n: n, work: e.work.Ptr}
	e.streamWaits = true
	return nil
}

// takePresorted reports whether batch b lies sorted in the current work memory. A later call
// returns false.
func (e *gpuEngine) takePresorted(s *device.Stream, b *batch.Batch) bool {
	a := e.presorted
	e.presorted = presorted{}
	return a.batch != nil && a.s == s && a.keys == b.Columns[batch.Keys].Ptr && a.n == b.N && a.work == e.work.Ptr
}

// sortKeys submits the sort of a batch's keys with their rows, and the search for the distinct
// keys.
func (e *gpuEngine) sortKeys(s *device.Stream, m *changeMemory) error {
	if err := e.prims.Sort(s, &m.sort, device.Buffer{Ptr: m.sorting, Size: m.sort.ScratchBytes()}); err != nil {
		return err
	}
	return e.prims.Group(s, &m.group, device.Buffer{Ptr: m.scratch, Size: m.group.ScratchBytes()})
}
