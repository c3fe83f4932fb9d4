package graph

import (
	"math"

	"github.com/weftgo/weft/internal/touched"
)

// Filter returns the edges of a list for which done is true. With the outcomes of an insertion or
// deletion, these are the edges that changed the graph, each once. It panics if lengths differ.
func (e Edges) Filter(done []bool) Edges {
	n := 0
	for _, ok := range done[:len(e.From)] {
		if ok {
			n++
		}
	}
	kept := Edges{Vertices: e.Vertices, From: make([]uint32, 0, n), To: make([]uint32, 0, n)}
	for i, ok := range done[:len(e.From)] {
		if ok {
			kept.From, kept.To = append(kept.From, e.From[i]), append(kept.To, e.To[i])
		}
	}
	return kept
}

// Endpoints returns the vertices at which the edges of a list begin and end, in ascending order,
// each once. For the edges that changed a graph, these are the vertices with new rows.
func (e Edges) Endpoints() []uint32 {
	return touched.Ends(e.From, e.To, nil, math.MaxUint32+1)
}
