package graph

import (
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/touched"
)

// EndpointsOn lists the vertices that a batch on the device has touched: the ends of its edges that
// count. [Edges.Filter] and [Edges.Endpoints] list them in host memory. Done may be the output of
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
// EndpointsOn waits only when it allocates memory. On a GPU the first call allocates a bit for each
// possible vertex, kept until Close. edges.Vertices reduces it, and makes large batches faster if
// it is at most two million. The graph is not read, so it may have changed again. EndpointsOn
// panics if the columns of edges differ in length.
func (g *Graph) EndpointsOn(s *device.Stream, edges DeviceEdges, endpoints device.Slice[uint32], count device.Slice[uint64]) error {
	err := edges.Check(g.dev)
	if err == nil {
		err = g.endpoints.List(s, edges.endpointEdges(), endpoints, count)
	}
	return wrap("EndpointsOn", err)
}

func (e *DeviceEdges) endpointEdges() touched.Edges {
	return touched.Edges{From: e.From, To: e.To, Done: e.Done, Vertices: e.Vertices}
}
