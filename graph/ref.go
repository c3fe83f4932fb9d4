package graph

import (
	"context"
	"errors"
	"fmt"
	"structs"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// Ref is a graph, or a snapshot of one, as kernels see it: the twin of weft::graph::Ref in
// kernels/include/weft/graph.cuh, which those of users take by value in their parameters, and of weft::graph::Graph. [Graph.View] and
// [Snapshot.View] make it. Its fields are those headers' concern.
type Ref struct {
	_                    structs.HostLayout
	Records, Pool, Alive device.Ptr
	Vertices, Unit       uint32
}

// View gives submit a Ref from which kernels read, to be launched on a stream, and returns when the stream has done what submit has
// submitted. The kernels see the changes that were submitted before, on whatever stream; later ones wait. submit calls no
// method of this graph, which may wait for its end, and the Ref is good for nothing behind it. Views of other structures may be nested in it,
// in one order wherever a program nests them.
//
// On a CPU, View returns device.ErrNoKernels. An error of submit is returned.
func (g *Graph) View(ctx context.Context, s *device.Stream, submit func(Ref) error) error {
	return wrap("View", g.seenBy(s, func() error {
		return g.read(ctx, nil, func(v *view) error { return g.show(s, v, submit) })
	}))
}

// View is [Graph.View] of the snapshot, while updates go on.
func (s *Snapshot) View(ctx context.Context, stream *device.Stream, submit func(Ref) error) error {
	return wrap("View", s.of.seenBy(stream, func() error {
		return s.use(ctx, func() error { return s.of.show(stream, s.view, submit) })
	}))
}

// seenBy runs f if kernels on the stream can see the graph.
func (g *store) seenBy(s *device.Stream, f func() error) error {
	if isHost(g.dev) {
		return fmt.Errorf("%w: there is no Ref on %s", device.ErrNoKernels, g.dev.Properties().Name)
	}
	if err := (&batch.Batch{}).CheckPlace(g.dev, s); err != nil {
		return err
	}
	return f()
}

// show has something submitted behind all changes, and waits for it.
func (g *store) show(s *device.Stream, v *view, submit func(Ref) error) error {
	if err := s.Wait(g.engine.(*gpuEngine).Changed()); err != nil {
		return err
	}
	return errors.Join(submit(refOf(v)), s.Sync(context.Background()))
}
