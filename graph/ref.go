package graph

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"structs"
	"sync"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
)

// Ref is a graph, or a snapshot of one, as kernels see it: the twin of weft::graph::Ref in
// kernels/include/weft/graph.cuh, which those of users take by value in their parameters, and of weft::graph::Graph. [Graph.View] and [Snapshot.View] make it. Its
// fields are that header's concern.
type Ref struct {
	_                    structs.HostLayout
	Records, Pool, Alive device.Ptr
	Vertices, Unit       uint32
}

// View gives submit a Ref from which kernels read, to be launched on a stream: what they see is what a lookup that is submitted there sees.
// Later changes wait until the stream has done it, so the Ref is good for what submit submits and for nothing else; kernels that
// take long read a snapshot.
//
// submit launches and returns: it calls no method of this graph, which may wait for its end. Views of other structures may be nested in it, in one order
// wherever a program nests them.
//
// On a CPU, View returns device.ErrNoKernels. An error of submit is returned.
func (g *Graph) View(ctx context.Context, s *device.Stream, submit func(Ref) error) error {
	err := g.runsKernels(s)
	if err == nil {
		err = g.read(ctx, s, func(v *view) error { return g.lend(s, v, submit) })
	}
	return wrap("View", err)
}

// View is [Graph.View] of a snapshot, beside whatever changes the graph meanwhile. Close, of the snapshot and of the graph, waits until the stream has done it.
func (s *Snapshot) View(ctx context.Context, stream *device.Stream, submit func(Ref) error) error {
	err := s.of.runsKernels(stream)
	if err == nil {
		err = s.use(ctx, func() error {
			s.of.lent.add(s, stream)
			return s.of.lend(stream, s.view, submit)
		})
	}
	return wrap("View", err)
}

// runsKernels reports a device without kernels, and streams that are not its own.
func (g *store) runsKernels(s *device.Stream) error {
	if isHost(g.dev) {
		return fmt.Errorf("%w: there is no Ref on %s", device.ErrNoKernels, g.dev.Properties().Name)
	}
	return (&batch.Batch{}).CheckPlace(g.dev, s)
}

// lend gives submit a view behind all changes. The device has kernels.
func (g *store) lend(s *device.Stream, v *view, submit func(Ref) error) error {
	if err := s.Wait(g.engine.(*gpuEngine).Changed()); err != nil {
		return err
	}
	return submit(refOf(v))
}

// lent is the snapshots that kernels may be reading, and their streams: who closes one, or the graph, waits for these.
type lent struct {
	mu sync.Mutex
	to map[*Snapshot][]*device.Stream
}

func (l *lent) add(s *Snapshot, stream *device.Stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.to == nil {
		l.to = make(map[*Snapshot][]*device.Stream)
	}
	if !slices.Contains(l.to[s], stream) {
		l.to[s] = append(l.to[s], stream)
	}
}

// end waits for the kernels that read a snapshot, which nobody lends any more.
func (l *lent) end(s *Snapshot) error {
	l.mu.Lock()
	streams := l.to[s]
	l.mu.Unlock()
	if err := await(streams); err != nil {
		return err
	}
	l.mu.Lock()
	delete(l.to, s)
	l.mu.Unlock()
	return nil
}

// all waits for the kernels that read any snapshot.
func (l *lent) all() error {
	l.mu.Lock()
	streams := slices.Concat(slices.Collect(maps.Values(l.to))...)
	l.mu.Unlock()
	return await(streams)
}

func await(streams []*device.Stream) (err error) {
	for _, s := range streams {
		err = errors.Join(err, core.WaitFor(context.Background(), s))
	}
	return err
}
