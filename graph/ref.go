package graph

import (
	"context"
	"errors"
	"fmt"
	"structs"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// Ref is a kernel parameter that refers to a graph or a snapshot. [Graph.View] and [Snapshot.View]
// make it. User kernels take it by value as weft::graph::Ref (kernels/include/weft/graph.cuh), and
// weft's kernels as weft::graph::Graph. Its fields are private to those headers.
type Ref struct {
	_                    structs.HostLayout
	Records, Pool, Alive device.Ptr
	Vertices, Unit       uint32
}

// View calls submit with a Ref that kernels on stream s can read. It returns when the stream has
// run the work that submit submitted. The kernels see the changes submitted before, on any stream;
// later changes wait. submit must not call methods of this graph, which may wait for the end of
// View. The Ref is invalid after View returns. submit may call View of other structures if the
// program always nests them in the same order.
//
// On a CPU, View returns device.ErrNoKernels. Otherwise it returns the error of submit.
func (g *Graph) View(ctx context.Context, s *device.Stream, submit func(Ref) error) error {
	return wrap("View", g.withVisible(s, func() error {
		return g.read(ctx, nil, func(v *view) error { return g.submitView(s, v, submit) })
	}))
}

// View calls submit with a Ref of the snapshot, while updates continue. See [Graph.View].
func (s *Snapshot) View(ctx context.Context, stream *device.Stream, submit func(Ref) error) error {
	return wrap("View", s.graph.withVisible(stream, func() error {
		return s.withOpen(ctx, func() error { return s.graph.submitView(stream, s.view, submit) })
	}))
}

// withVisible runs f, or returns an error if the device has no kernels or s belongs to another
// device.
func (g *store) withVisible(s *device.Stream, f func() error) error {
	if isHost(g.dev) {
		return fmt.Errorf("%w: a Ref is not available on %s", device.ErrNoKernels,
			g.dev.Properties().Name)
	}
	if err := (&batch.Batch{}).CheckDevice(g.dev, s); err != nil {
		return err
	}
	return f()
}

// submitView makes s wait for all changes, runs submit, and waits for s.
func (g *store) submitView(s *device.Stream, v *view, submit func(Ref) error) error {
	if err := s.Wait(g.engine.(*gpuEngine).LastChange()); err != nil {
		return err
	}
	return errors.Join(submit(refOf(v)), s.Sync(context.Background()))
}
