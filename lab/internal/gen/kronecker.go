package gen

import (
	"context"
	"math"
	"math/bits"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/internal/workload"
)

// KroneckerOptions configure [Kronecker].
type KroneckerOptions struct {
	// Initiator is a square matrix of 2 to 16 rows, row by row. A cell is the relative probability
	// of an edge; the sum may be any positive number. The default is the matrix of RMAT.
	Initiator []float64
	// Power is the power of the matrix, at least 0. A matrix of N rows gives a graph of N^Power
	// vertices, which must be at most 2^31.
	Power int
	// EdgeFactor is the number of edges per vertex. The default is 16.
	EdgeFactor float64
	// Permute numbers the vertices at random. Otherwise the digits of a vertex, to the base N, are
	// rows of the matrix.
	Permute bool
	Seed    uint64
}

// Kronecker draws edges of the Kronecker power of a matrix. The probability of an edge from u to v
// is a product over the digits of u and v to the base N. Each factor is the cell in the row of u's
// digit and the column of v's digit (Leskovec, Chakrabarti, Kleinberg, Faloutsos, Ghahramani:
// "Kronecker Graphs: An Approach to Modeling Networks", 2010). As in that article, each edge
// selects a cell for each digit, so some edges are repeated and some are self loops. With two rows
// it is [RMAT] with other random numbers.
func Kronecker(ctx context.Context, dev device.Device, o KroneckerOptions) (graph.Edges, error) {
	g, err := newGenerator(ctx, dev, "Kronecker", o.Seed)
	if err != nil {
		return graph.Edges{}, err
	}
	if len(o.Initiator) == 0 {
		o.Initiator = []float64{0.57, 0.19, 0.19, 0.05}
	}
	if o.EdgeFactor == 0 {
		o.EdgeFactor = 16
	}
	cells, base, err := g.cells(o.Initiator)
	if err != nil {
		return graph.Edges{}, err
	}
	n := uint64(1)
	for range max(0, o.Power) {
		if n *= base; n > 1<<31 {
			break
		}
	}
	switch {
	case o.Power < 0 || n > 1<<31:
		return graph.Edges{}, g.refuse("Power %d of %d rows, want 0 and more, and at most 2^31 vertices", o.Power, base)
	case !(o.EdgeFactor > 0 && o.EdgeFactor*float64(n) < 1<<31):
		return graph.Edges{}, g.refuse("EdgeFactor %v of %d vertices, want more than 0, and fewer than 2^31 edges", o.EdgeFactor, n)
	}
	m := int(o.EdgeFactor * float64(n))
	e := graph.Edges{Vertices: int(n), From: make([]uint32, m), To: make([]uint32, m)}
	names := workload.NewPermutation(n, g.draw(1, 0))
	g.Parallel(m, grain, func(lo, hi int) {
		for i := lo; i < hi && (i%1024 != 0 || ctx.Err() == nil); i++ {
			u, v := uint64(0), uint64(0)
			for digit := range o.Power {
				row, column := cells.draw(g.draw(0, uint64(i)*uint64(o.Power)+uint64(digit)), base)
				u, v = u*base+row, v*base+column
			}
			if o.Permute {
				u, v = names.At(u), names.At(v)
			}
			e.From[i], e.To[i] = uint32(u), uint32(v)
		}
	})
	return e, ctx.Err()
}

// aliases is an alias table (Walker, 1977) for the cells of a matrix. A random number selects an
// entry, and then either the entry's own cell or its alias.
type aliases []struct {
	share uint64 // share of the entry's own cell, times 2^32
	other uint32
}

// cells returns the alias table of an initiator, and the number of rows.
func (g *generator) cells(initiator []float64) (aliases, uint64, error) {
	base := int(math.Sqrt(float64(len(initiator))))
	if base*base != len(initiator) || base < 2 || base > 16 {
		return nil, 0, g.refuse("an Initiator of %d cells, want the square of 2 to 16", len(initiator))
	}
	sum := 0.0
	for i, p := range initiator {
		if !(p >= 0) || math.IsInf(p, 0) {
			return nil, 0, g.refuse("cell %d of Initiator is %v, want probabilities", i, p)
		}
		sum += p
	}
	if !(sum > 0) || math.IsInf(sum, 0) {
		return nil, 0, g.refuse("the cells of Initiator are %v together, want more than 0", sum)
	}
	// Use integers, so that draws are the same on any machine: n cells share n times 2^32.
	n := len(initiator)
	left, all := make([]uint64, n), uint64(n)<<32
	largest := 0
	for i, p := range initiator {
		if left[i] = uint64(math.Round(p / sum * float64(all))); left[i] > left[largest] {
			largest = i
		}
	}
	nDealt := uint64(0)
	for _, x := range left {
		nDealt += x
	}
	left[largest] += all - nDealt // the rounding error
	return alias(left), uint64(base), nil
}

// alias builds an alias table of cells with the given shares, which have a mean of 2^32. Each entry
// of a cell with a small share is filled up by a cell with a large share.
func alias(left []uint64) aliases {
	const whole = 1 << 32
	c := make(aliases, len(left))
	var small, large []int
	for i, x := range left {
		if c[i].share, c[i].other = whole, uint32(i); x < whole {
			small = append(small, i)
		} else {
			large = append(large, i)
		}
	}
	for len(small) > 0 && len(large) > 0 {
		s, l := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		c[s].share, c[s].other = left[s], uint32(l)
		if left[l] -= whole - left[s]; left[l] < whole {
			small, large = append(small, l), large[:len(large)-1]
		}
	}
	return c
}

// draw returns the row and the column that 64 random bits select. base is the number of rows of the
// matrix.
func (c aliases) draw(x, base uint64) (row, column uint64) {
	at, _ := bits.Mul64(x, uint64(len(c)))
	if x*uint64(len(c))>>32 >= c[at].share { // the lower part of the product is random, too
		at = uint64(c[at].other)
	}
	return at / base, at % base
}
