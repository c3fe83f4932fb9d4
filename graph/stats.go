package graph

import (
	"context"
	"math"
	"math/bits"

	"github.com/weftgo/weft/device"
)

// DegreeStats describes the degrees of all vertices, in a directed graph the out-degrees.
type DegreeStats struct {
	Min, Max    int
	Mean, Sigma float64 // Sigma is the standard deviation
	Isolated    int     // vertices without edges to other vertices
	// Histogram counts vertices by the bit length of their degree. Histogram[0] counts degree 0,
	// and Histogram[b] counts degrees 2^(b-1) to 2^b-1.
	Histogram []int
}

// Degrees measures the degrees of all vertices. For a graph without vertices all values are 0.
func (g *CSR) Degrees(ctx context.Context, dev device.Device) (DegreeStats, error) {
	host, err := hostOf(dev)
	if err != nil {
		return DegreeStats{}, err
	}
	n := g.Vertices()
	linked := g.linked()
	parts := make([]degreePart, (n+grain-1)/grain)
	host.Parallel(n, grain, func(lo, hi int) {
		p := &parts[lo/grain]
		p.min = math.MaxInt
		for v := lo; v < hi; v++ {
			d := g.Degree(uint32(v))
			p.min, p.max = min(p.min, d), max(p.max, d)
			p.squares += float64(d) * float64(d)
			p.histogram[bits.Len(uint(d))]++
			if !linked[v] {
				p.isolated++
			}
		}
	})
	var all degreePart
	for i, p := range parts { // in order, so that sums do not depend on the number of cores
		if i == 0 {
			all.min = p.min
		}
		all.min, all.max = min(all.min, p.min), max(all.max, p.max)
		all.squares += p.squares
		all.isolated += p.isolated
		for b, count := range p.histogram {
			all.histogram[b] += count
		}
	}
	s := DegreeStats{Min: all.min, Max: all.max, Isolated: all.isolated, Histogram: all.histogram[:bits.Len(uint(all.max))+1]}
	if n > 0 {
		s.Mean = float64(g.Arcs()) / float64(n)
		s.Sigma = math.Sqrt(max(0, all.squares/float64(n)-s.Mean*s.Mean))
	}
	return s, ctx.Err()
}

// degreePart is the measurement of a range of vertices.
type degreePart struct {
	min, max, isolated int
	squares            float64
	histogram          [34]int
}

// linked reports for each vertex whether it has an edge to or from another vertex.
func (g *CSR) linked() []bool {
	linked := make([]bool, g.Vertices())
	for v := range linked {
		for _, u := range g.Neighbors(uint32(v)) {
			if u != uint32(v) {
				linked[v] = true
				if !g.directed {
					break
				}
				linked[u] = true
			}
		}
	}
	return linked
}
