package gen

import (
	"context"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/internal/workload"
)

// RMATOptions configure [RMAT].
type RMATOptions struct {
	// Scale is the binary logarithm of the number of vertices, 0 to 31.
	Scale int
	// EdgeFactor is the number of edges per vertex. The default is 16.
	EdgeFactor float64
	// A, B and C are the probabilities of three quadrants of the matrix: edges between small
	// vertices, from small to large ones, and from large to small ones. If all are 0, they are
	// 0.57, 0.19 and 0.19, as in Graph500.
	A, B, C float64
	// Permute numbers the vertices at random, as the Kronecker generator of Graph500 does.
	// Otherwise vertices that have many edges have small numbers.
	Permute bool
	Seed    uint64
}

// RMAT draws edges. For each edge it selects a quadrant of the adjacency matrix, then a quadrant of
// that quadrant, and so on (Chakrabarti, Zhan, Faloutsos: "R-MAT: A Recursive Model for Graph
// Mining", 2004). The result is a stochastic Kronecker graph of a matrix with two rows; [Kronecker]
// accepts any matrix. Some edges are repeated, and some are self loops.
func RMAT(ctx context.Context, dev device.Device, o RMATOptions) (graph.Edges, error) {
	g, err := newGenerator(ctx, dev, "RMAT", o.Seed)
	if err != nil {
		return graph.Edges{}, err
	}
	if o.EdgeFactor == 0 {
		o.EdgeFactor = 16
	}
	if o.A == 0 && o.B == 0 && o.C == 0 {
		o.A, o.B, o.C = 0.57, 0.19, 0.19
	}
	switch {
	case o.Scale < 0 || o.Scale > 31:
		return graph.Edges{}, g.refuse("Scale %d, want 0 to 31", o.Scale)
	case !(o.EdgeFactor > 0 && o.EdgeFactor*float64(int(1)<<o.Scale) < 1<<31):
		return graph.Edges{}, g.refuse("EdgeFactor %v at Scale %d, want more than 0, and fewer than 2^31 edges", o.EdgeFactor, o.Scale)
	case !(o.A >= 0 && o.B >= 0 && o.C >= 0 && o.A+o.B+o.C < 1):
		return graph.Edges{}, g.refuse("A %v, B %v, C %v, want probabilities whose sum is less than 1", o.A, o.B, o.C)
	}
	n := uint64(1) << o.Scale
	e := graph.Edges{Vertices: int(n)}
	m := int(o.EdgeFactor * float64(n))
	e.From, e.To = make([]uint32, m), make([]uint32, m)
	names := workload.NewPermutation(n, g.draw(1, 0))
	// Two levels use the halves of one random number.
	a, b, c := fixed(o.A)>>32, fixed(o.A+o.B)>>32, fixed(o.A+o.B+o.C)>>32
	draws := uint64(o.Scale+1) / 2
	g.Parallel(m, grain, func(lo, hi int) {
		if ctx.Err() != nil {
			return
		}
		for i := lo; i < hi; i++ {
			u, v := uint64(0), uint64(0)
			bits := uint64(0)
			for level := range o.Scale {
				if bits >>= 32; level%2 == 0 {
					bits = g.draw(0, uint64(i)*draws+uint64(level/2))
				}
				x := bits & 0xffffffff
				u, v = 2*u, 2*v
				switch {
				case x < a:
				case x < b:
					v++
				case x < c:
					u++
				default:
					u, v = u+1, v+1
				}
			}
			if o.Permute {
				u, v = names.At(u), names.At(v)
			}
			e.From[i], e.To[i] = uint32(u), uint32(v)
		}
	})
	return e, ctx.Err()
}
