package ordered

import (
	"context"
	"structs"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
)

// Ref is a map, or a snapshot of one, as kernels of users see it: the twin of weft::ordered::Ref in
// kernels/include/weft/ordered.cuh, which they take by value in their parameters. [Map.View] and [Map.ViewAt] make it. Its
// fields are that header's concern.
type Ref struct {
	_     structs.HostLayout
	Index indexRef
	Terms gpu.Terms
}

// View gives submit a Ref from which kernels read, to be launched on a stream.
// The memory that it names stays until that is done, not just until View returns;
// the Ref is good for what submit submits and for nothing else.
//
// What the kernels see is what a lookup that is submitted to the stream sees: all changes whose
// calls have returned, or that have been submitted to any stream before. It does not change while they run: they
// may run beside later changes.
//
// submit launches and returns: it calls no method of this map, which may wait for
// its end. Views and Updates of other tables may be nested in it, in one order
// wherever a program nests them.
//
// On a CPU, View returns device.ErrNoKernels. An error of submit is returned.
func (m *Map[K, V]) View(ctx context.Context, s *device.Stream, submit func(Ref) error) error {
	return m.core.View(ctx, s, func(p core.Parts) error { return m.kernels().view(s, p, submit) })
}

// ViewAt is View of a snapshot of the map. One that is closed when ViewAt has returned keeps its memory
// until the kernels are done. A snapshot of another map, or none, is [device.ErrInvalid], one that
// has been closed [weft.ErrClosed].
func (m *Map[K, V]) ViewAt(ctx context.Context, at *weft.Snapshot[K, V], s *device.Stream, submit func(Ref) error) error {
	var snapshot *core.Snapshot
	if at != nil {
		snapshot = at.Core()
	}
	return m.core.ViewAt(ctx, snapshot, s, func(p core.Parts) error { return m.kernels().view(s, p, submit) })
}

// kernels is the engine, of which the core has made sure that it is one on a GPU.
func (m *Map[K, V]) kernels() *gpuEngine { return m.policy.engine.(*gpuEngine) }

// view gives submit the Ref of a generation, behind the changes that callers have submitted: the last one may be
// about to write it.
func (e *gpuEngine) view(s *device.Stream, p core.Parts, submit func(Ref) error) error {
	if err := s.Wait(e.Visible); err != nil {
		return err
	}
	return submit(Ref{Index: e.refOf(p), Terms: e.Queue.View()})
}
