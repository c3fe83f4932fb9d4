package slab

import (
	"context"
	"structs"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
)

// GraphRef is a graph as a parameter of user kernels: the twin of weft::slab::GraphRef in
// kernels/include/weft/slab_graph.cuh, which kernels take by value. [Graph.View] makes it. Its
// fields are private to that header.
type GraphRef struct {
	_      structs.HostLayout
	Graph  graphRef
	Weight uint64 // in bytes
}

// View calls submit with a GraphRef from which kernels read, to be launched on a stream. The memory
// of the graph stays valid until those launches are done, not just until View returns. The GraphRef
// is valid only for the launches that submit makes.
//
// The kernels see what a lookup submitted to the stream sees: the changes submitted there before,
// and those that events or waits order before. They may run alongside later changes, and see some
// of these.
//
// submit launches and returns. It must not call methods of this graph, which may wait for its end.
// Views of other structures may be nested in it, if the program always nests them in the same
// order.
//
// On a CPU, View returns device.ErrNoKernels. View returns the error of submit.
func (g *graph) View(ctx context.Context, s *device.Stream, submit func(GraphRef) error) error {
	return g.core.View(ctx, s, func(p core.Parts) error {
		return submit(GraphRef{Graph: graphRefOf(p, false), Weight: uint64(g.policy.widths.Val)})
	})
}
