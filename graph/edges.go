package graph

import (
	"math"

	"github.com/weftgo/weft/internal/touched"
)

// Filter returns the edges for which done is true. If done is the result of an insertion or
// deletion, these edges changed the graph. Filter panics if done is shorter than the list.
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

// Endpoints returns the vertices at the ends of the edges, in ascending order without duplicates.
// If the edges changed a graph, these vertices have new rows.
func (e Edges) Endpoints() []uint32 {
	return touched.Ends(e.From, e.To, nil, math.MaxUint32+1)
}
