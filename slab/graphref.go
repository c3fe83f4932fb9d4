package slab

import (
	"context"
	"structs"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
)

// GraphRef is a graph as kernels of users see it: the twin of weft::slab::GraphRef in kernels/include/weft/slab_graph.cuh, which they
// take by value in their parameters. [Graph.View] makes it. Its fields are that header's concern.
type GraphRef struct {
	_      structs.HostLayout
	Graph  graphRef
	Weight uint64 // bytes
}

// View gives submit a GraphRef from which kernels read, to be launched on a stream. The memory that it names stays until that is done,
// not just until View returns; the GraphRef is good for what submit submits and for nothing else.
//
// What the kernels see is what a lookup that is submitted to the stream sees: the changes submitted there before, and those that events or waits
// order before. They may run beside later changes, and see some of these.
//
// submit launches and returns: it calls no method of this graph, which may wait for its end. Views of other structures may be nested in
// it, in one order wherever a program nests them.
//
// On a CPU, View returns device.ErrNoKernels. An error of submit is returned.
func (g *graph) View(ctx context.Context, s *device.Stream, submit func(GraphRef) error) error {
	return g.core.View(ctx, s, func(p core.Parts) error {
		return submit(GraphRef{Graph: graphRefOf(p, false), Weight: uint64(g.policy.widths.Val)})
	})
}
