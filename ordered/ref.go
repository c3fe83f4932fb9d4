package ordered

import (
	"context"
	"structs"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
)

// Ref is a map, or a snapshot of one, as kernels of users see it. It is the twin of
// weft::ordered::Ref in kernels/include/weft/ordered.cuh, and kernels take it by value as a
// parameter. [Map.View] and [Map.ViewAt] make it. Its fields are for that header only.
//
// Kernels read one index, and no leaf of it ever changes. So all accesses are weak, and several
// calls agree with each other. There is no Update: a change is a batch that is sorted and planned
// as a whole, and single keys would need latches. Package btree has them.
type Ref struct {
	_     structs.HostLayout
	Index indexRef
	Terms gpu.Terms
}

// View calls submit with a Ref from which kernels read. submit launches them on a stream. The
// memory of the Ref is kept until they are done, not only until View returns. The Ref is valid only
// for what submit submits.
//
// The kernels see what a lookup submitted to the stream sees: all changes from calls that have
// returned, and those submitted to any stream before. This does not change while they run, so they
// may run alongside later changes.
//
// submit launches kernels and returns. It calls no method of this map, since that may wait for
// submit to end. Views and Updates of other tables may be nested in it, in one order throughout the
// program.
//
// On a CPU, View returns device.ErrNoKernels. View returns an error of submit.
func (m *Map[K, V]) View(ctx context.Context, s *device.Stream, submit func(Ref) error) error {
	return m.core.View(ctx, s, func(p core.Parts) error { return m.gpu().view(s, p, submit) })
}

// ViewAt is View for a snapshot of the map. A snapshot that is closed after ViewAt has returned
// keeps its memory until the kernels are done. A nil snapshot, or one of another map, is
// [device.ErrInvalid]. A closed one is [weft.ErrClosed].
func (m *Map[K, V]) ViewAt(ctx context.Context, at *weft.Snapshot[K, V], s *device.Stream, submit func(Ref) error) error {
	var snapshot *core.Snapshot
	if at != nil {
		snapshot = at.Core()
	}
	return m.core.ViewAt(ctx, snapshot, s, func(p core.Parts) error { return m.gpu().view(s, p, submit) })
}

// gpu returns the engine. The core has checked that it is one on a GPU.
func (m *Map[K, V]) gpu() *gpuEngine { return m.policy.engine.(*gpuEngine) }

// view calls submit with the Ref of a generation, after the changes that callers have submitted,
// since the last of them may be about to write it.
func (e *gpuEngine) view(s *device.Stream, p core.Parts, submit func(Ref) error) error {
	if err := s.Wait(e.Visible); err != nil {
		return err
	}
	return submit(Ref{Index: e.refOf(p), Terms: e.Queue.ReadTerms()})
}
