package graph

import (
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/touched"
)

// TouchedOn lists the vertices that a batch on the device has touched: the ends of its edges that count, as [Edges.Where] and
// [Edges.Ends] list them in host memory. With what [Graph.InsertOn], DeleteOn or ApplyOn wrote as Done, these are the vertices with an edge that an
// operation inserted or deleted, also where a later one undid it; an edge that only got another weight does not count, nor does a self loop that was left out.
// Without Done the ends of all edges are listed. Of a directed graph, too, both ends are: to have those whose own rows changed, give From
// in place of To.
//
// The vertices are written to touched in ascending order, each once, as far as it goes, and their number to count[0], which may be more; twice as many
// as edges are room enough. touched may be the memory of From or To, which have been read then, and must not have count in it. Ends that are not
// less than edges.Vertices, or MaxVertices if that is 0, are left out.
//
// It waits for nothing, but where memory is taken: on a GPU a bit for each vertex that may be, by the first call, and kept until Close. edges.Vertices
// makes it less, and large batches faster if it is no more than two million. The graph is not read, so it may have been changed again. It panics if the columns of edges differ in length.
func (g *Graph) TouchedOn(s *device.Stream, edges DeviceEdges, touched device.Slice[uint32], count device.Slice[uint64]) error {
	err := edges.Check(g.dev)
	if err == nil {
		err = g.ends.List(s, edges.list(), touched, count)
	}
	return wrap("TouchedOn", err)
}

func (e *DeviceEdges) list() touched.Edges {
	return touched.Edges{From: e.From, To: e.To, Done: e.Done, Vertices: e.Vertices}
}
