package graph

import (
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/touched"
)

// TouchedOn lists the vertices that a batch on the device has touched: the ends of its edges that
// count. [Edges.Where] and [Edges.Ends] list them in host memory. Done may be the output of
// [Graph.InsertOn], DeleteOn or ApplyOn. Then the list has the vertices with an edge that an
// operation inserted or deleted, even if a later operation undid it. An edge with only a new weight
// does not count, nor does a skipped self loop. Without Done the ends of all edges are listed. In a
// directed graph, too, both ends are. To list only vertices with changed rows of their own, pass
// From in place of To.
//
// The vertices are written to touched in ascending order, each once, as many as fit. Their number
// is written to count[0], and may be larger. Twice the number of edges is large enough. touched may
// be the memory of From or To, which have been read by then, but must not contain count. Ends not
// less than edges.Vertices, or MaxVertices if that is 0, are left out.
//
// TouchedOn waits only when it allocates memory. On a GPU the first call allocates a bit for each
// possible vertex, kept until Close. edges.Vertices reduces it, and makes large batches faster if
// it is at most two million. The graph is not read, so it may have changed again. TouchedOn panics
// if the columns of edges differ in length.
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
