package graph

import (
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/touched"
)

// EndpointsOn writes the ends of the selected edges to endpoints, in ascending order without
// duplicates. [Edges.Filter] and [Edges.Endpoints] do so in host memory. edges.Done may be the
// result of [Graph.InsertOn], DeleteOn or ApplyOn. Then the list has each vertex with an edge that
// an operation inserted or deleted, even if a later operation undid that. Replacing a weight or
// skipping a self loop does not select an edge. Without Done all edges are selected. In a directed
// graph, too, both ends are listed. To list only vertices with changed rows of their own, pass From
// in place of To.
//
// EndpointsOn writes the number of vertices to count[0]. If endpoints is shorter, it receives as
// many vertices as fit. Twice the number of edges is always enough. endpoints may share the memory
// of From or To, which have been read by then, but must not contain count. An end not less than
// edges.Vertices is left out; if Vertices is 0, MaxVertices is the limit.
//
// EndpointsOn waits only when it allocates memory. On a GPU the first call allocates a bit for each
// possible vertex, which the graph keeps until Close. A smaller edges.Vertices reduces this memory,
// and makes large batches faster if it is at most two million. EndpointsOn does not read the graph,
// which may have changed since. It panics if the columns of edges differ in length.
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
