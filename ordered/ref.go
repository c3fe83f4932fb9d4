package ordered

import (
	"context"
	"structs"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
)

// Ref is the kernel parameter with which users' kernels read a map or a snapshot. [Map.View] and
// [Map.ViewAt] make it. Kernels take it by value. It matches weft::ordered::Ref in
// kernels/include/weft/ordered.cuh, and only that header uses its fields.
//
// A kernel reads one index, and the leaves of an index never change. So all accesses are weak, and
// several calls in one kernel return consistent results. Kernels cannot update the map: a change is
// a batch that is sorted and planned as a whole, and changes of single keys would need latches.
// Package btree has them.
type Ref struct {
	_     structs.HostLayout
	Index indexRef
	Terms gpu.Terms
}

// View calls submit with a Ref that kernels can read. submit launches the kernels on a stream. Only
// work that submit submits may use the Ref. The memory that the Ref refers to is kept until that
// work is done, even after View has returned.
//
// The kernels see the same pairs as a lookup submitted to the stream: all changes from calls that
// have returned, and all changes submitted before to any stream. They see the same contents until
// they end, so they may run alongside later changes.
//
// submit must not call methods of this map, since they may wait for submit to end. It may call View
// and Update of other tables, in one order throughout the program.
//
// On a CPU, View returns device.ErrNoKernels. If submit returns an error, View returns it.
func (m *Map[K, V]) View(ctx context.Context, s *device.Stream, submit func(Ref) error) error {
	return m.core.View(ctx, s, func(p core.Parts) error { return m.gpu().view(s, p, submit) })
}

// ViewAt calls submit with a Ref of a snapshot of the map. See [Map.View]. If the snapshot is
// closed after ViewAt has returned, its memory is kept until the kernels are done. ViewAt returns
// [device.ErrInvalid] if at is nil or belongs to another map, and [weft.ErrClosed] if at is closed.
func (m *Map[K, V]) ViewAt(ctx context.Context, at *weft.Snapshot[K, V], s *device.Stream, submit func(Ref) error) error {
	var snapshot *core.Snapshot
	if at != nil {
		snapshot = at.Core()
	}
	return m.core.ViewAt(ctx, snapshot, s, func(p core.Parts) error { return m.gpu().view(s, p, submit) })
}

// gpu returns the engine. The core has checked that the map is on a GPU.
func (m *Map[K, V]) gpu() *gpuEngine { return m.policy.engine.(*gpuEngine) }

// view calls submit with a Ref of a generation. The stream first waits for all submitted changes,
// since the last one may still be writing this generation.
func (e *gpuEngine) view(s *device.Stream, p core.Parts, submit func(Ref) error) error {
	if err := s.Wait(e.Visible); err != nil {
		return err
	}
	return submit(Ref{Index: e.refOf(p), Terms: e.Queue.ReadTerms()})
}
