package slab

import (
	"context"
	"structs"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
)

// GraphRef is a kernel parameter that refers to a graph. [Graph.View] makes it. User kernels take
// it by value as weft::slab::GraphRef (kernels/include/weft/slab_graph.cuh). Its fields are private
// to that header.
type GraphRef struct {
	_      structs.HostLayout
	Graph  graphRef
	Weight uint64 // size of a weight in bytes
}

// View calls submit with a GraphRef that kernels on stream s can read. The graph's memory stays
// valid until the launches that submit makes are done. The GraphRef is valid only for these.
//
// The kernels see what a lookup submitted to s sees: the changes submitted there before, and those
// that events or waits order before. The kernels may run alongside later changes and see part of
// them.
//
// submit launches kernels and returns. It must not call methods of this graph, which may wait for
// the end of View. It may call View of other structures if the program always nests them in the
// same order.
//
// On a CPU, View returns device.ErrNoKernels. Otherwise it returns the error of submit.
func (g *graph) View(ctx context.Context, s *device.Stream, submit func(GraphRef) error) error {
	if err := g.readable(); err != nil {
		return g.wrap("View", err)
	}
	return g.core.View(ctx, s, func(p core.Parts) error {
		return submit(GraphRef{Graph: graphRefOf(p, false), Weight: uint64(g.policy.widths.Val)})
	})
}
