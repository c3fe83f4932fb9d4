package gen

import (
	"context"
	"math/bits"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/internal/workload"
)

// CliquesOptions configure [Cliques].
type CliquesOptions struct {
	Vertices int
	// MinSize and MaxSize are the limits of the size of a clique. The default is 2 to 10, as for
	// the authors of a paper.
	MinSize, MaxSize int
	// Degree is the mean degree if no edge is repeated. Repeated edges reduce it. The default is
	// 6.4.
	Degree float64
	// Top is the largest number of cliques per vertex over the mean number. 1 makes all vertices
	// equal. The default is 50, as in coAuthorsDBLP; hollywood-2009 has 110.
	Top  float64
	Seed uint64
}

// Cliques generates a union of cliques that have random members. It is a model of collaboration. If
// two vertices have several cliques in common, their edge is repeated.
func Cliques(ctx context.Context, dev device.Device, o CliquesOptions) (graph.Edges, error) {
	g, err := newGenerator(ctx, dev, "Cliques", o.Seed)
	if err != nil {
		return graph.Edges{}, err
	}
	if err := g.vertices(o.Vertices); err != nil {
		return graph.Edges{}, err
	}
	if o.MinSize == 0 && o.MaxSize == 0 {
		o.MinSize, o.MaxSize = 2, 10
	}
	if o.Degree == 0 {
		o.Degree = 6.4
	}
	if o.Top == 0 {
		o.Top = min(50, float64(o.Vertices))
	}
	switch {
	case o.MinSize < 2 || o.MaxSize < o.MinSize || o.MaxSize > 1<<12:
		return graph.Edges{}, g.refuse("sizes %d to %d, want 2 to %d", o.MinSize, o.MaxSize, 1<<12)
	case !(o.Degree > 0 && o.Degree*float64(o.Vertices) < 1<<32):
		return graph.Edges{}, g.refuse("Degree %v of %d vertices, want more than 0, and fewer than 2^31 edges", o.Degree, o.Vertices)
	case !(o.Top >= 1 && o.Top <= float64(o.Vertices)):
		return graph.Edges{}, g.refuse("Top %v, want 1 to the number of vertices", o.Top)
	}
	pairs := 0. // mean number of ordered pairs in a clique
	for s := o.MinSize; s <= o.MaxSize; s++ {
		pairs += float64(s*(s-1)) / float64(o.MaxSize-o.MinSize+1)
	}
	count := max(1, int(o.Degree*float64(o.Vertices)/pairs))
	d := &deal{CliquesOptions: o, generator: g, names: workload.NewPermutation(uint64(o.Vertices), g.draw(1, 0)), skewed: fixed(1 - 1/o.Top)}
	return g.gather(o.Vertices, count, func(lo, hi int, e *graph.Edges) {
		for c := lo; c < hi; c++ {
			d.clique(uint64(c), e)
		}
	})
}

// deal assigns vertices to cliques.
type deal struct {
	CliquesOptions
	*generator
	names  workload.Permutation
	skewed uint64 // weight of the square in draws
}

// member draws a vertex. For a uniform u in [0,1), it returns the vertex at position a u^2 + (1-a)
// u in the list of all. The density at 0 is 1/(1-a).
func (d *deal) member(i uint64) uint32 {
	u := d.draw(3, i)
	square, _ := bits.Mul64(u, u)
	square, _ = bits.Mul64(square, d.skewed)
	linear, _ := bits.Mul64(u, ^d.skewed)
	return uint32(d.names.At(workload.Below(square+linear, uint64(d.Vertices))))
}

// clique adds the edges of one clique. A member that is drawn twice counts once.
func (d *deal) clique(c uint64, e *graph.Edges) {
	members := make([]uint32, d.MinSize+int(workload.Below(d.draw(2, c), uint64(d.MaxSize-d.MinSize+1))))
	for i := range members {
		members[i] = d.member(c*uint64(d.MaxSize) + uint64(i))
	}
	for i, u := range members {
		for _, v := range members[:i] {
			if u != v {
				add(e, u, v)
			}
		}
	}
}
