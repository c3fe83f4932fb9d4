package graph

import (
	"context"
	"errors"
	"fmt"
	"structs"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// Ref is a graph, or a snapshot of one, as a kernel parameter. Its twins are weft::graph::Ref in
// kernels/include/weft/graph.cuh, which user kernels take by value, and weft::graph::Graph.
// [Graph.View] and [Snapshot.View] make it. Its fields are private to those headers.
type Ref struct {
	_                    structs.HostLayout
	Records, Pool, Alive device.Ptr
	Vertices, Unit       uint32
}

// View calls submit with a Ref from which kernels read, to be launched on a stream. It returns when
// the stream has run what submit has submitted. The kernels see the changes submitted before, on
// any stream; later changes wait. submit must not call methods of this graph, which may wait for
// its end. The Ref is invalid after submit's launches. Views of other structures may be nested in
// submit, if the program always nests them in the same order.
//
// On a CPU, View returns device.ErrNoKernels. View returns the error of submit.
func (g *Graph) View(ctx context.Context, s *device.Stream, submit func(Ref) error) error {
	return wrap("View", g.withVisible(s, func() error {
		return g.read(ctx, nil, func(v *view) error { return g.submitView(s, v, submit) })
	}))
}

// View is [Graph.View] of the snapshot, while updates continue.
func (s *Snapshot) View(ctx context.Context, stream *device.Stream, submit func(Ref) error) error {
	return wrap("View", s.graph.withVisible(stream, func() error {
		return s.withOpen(ctx, func() error { return s.graph.submitView(stream, s.view, submit) })
	}))
}

// withVisible runs f if kernels on the stream can see the graph.
func (g *store) withVisible(s *device.Stream, f func() error) error {
	if isHost(g.dev) {
		return fmt.Errorf("%w: there is no Ref on %s", device.ErrNoKernels, g.dev.Properties().Name)
	}
	if err := (&batch.Batch{}).CheckDevice(g.dev, s); err != nil {
		return err
	}
	return f()
}

// submitView runs submit after all changes, and waits for what it submits.
func (g *store) submitView(s *device.Stream, v *view, submit func(Ref) error) error {
	if err := s.Wait(g.engine.(*gpuEngine).LastChange()); err != nil {
		return err
	}
	return errors.Join(submit(refOf(v)), s.Sync(context.Background()))
}
