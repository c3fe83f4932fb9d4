package gen

import (
	"context"
	"slices"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
)

// DelaunayOptions configure [Delaunay].
type DelaunayOptions struct {
	Vertices int
	Seed     uint64
}

// Delaunay generates the Delaunay triangulation of random points in a square, like the graphs
// delaunay_nx of the 10th DIMACS challenge. Vertices are numbered along Hilbert's curve. Each edge
// occurs once.
//
// Delaunay inserts the points one after another (Bowyer, Watson, 1981) on one core. 10^6 points
// take about two seconds. Coordinates are integers, and geometric tests are exact.
func Delaunay(ctx context.Context, dev device.Device, o DelaunayOptions) (graph.Edges, error) {
	g, err := newGenerator(ctx, dev, "Delaunay", o.Seed)
	if err != nil {
		return graph.Edges{}, err
	}
	if err := g.vertices(o.Vertices); err != nil {
		return graph.Edges{}, err
	}
	if o.Vertices > 1<<28 {
		return graph.Edges{}, g.refuse("Vertices %d, want %d at most", o.Vertices, 1<<28)
	}
	points, err := g.distinct(g.points(o.Vertices))
	if err != nil {
		return graph.Edges{}, err
	}
	e := graph.Edges{Vertices: o.Vertices}
	m, ok := newMesh(points)
	if !ok {
		m.line(&e)
		return e, nil
	}
	for i := range points {
		if i%1024 == 0 && ctx.Err() != nil {
			return graph.Edges{}, ctx.Err()
		}
		if !slices.Contains(m.corners[:], uint32(i)) {
			m.insert(uint32(i))
		}
	}
	m.edges(&e)
	return e, nil
}

// distinct sorts points along Hilbert's curve. It draws duplicate points again.
func (g *generator) distinct(drawn []point) ([]point, error) {
	n := len(drawn)
	keys := make([]uint64, n)
	for attempt := uint64(1); ; attempt++ {
		for i, p := range drawn {
			keys[i] = hilbert(p)
		}
		order, err := g.order(keys)
		if err != nil {
			return nil, err
		}
		again := false
		for i := 1; i < n; i++ {
			if at := order[i]; keys[at] == keys[order[i-1]] {
				drawn[at] = g.point(uint64(at), attempt)
				again = true
			}
		}
		if !again {
			sorted := make([]point, n)
			for i, at := range order {
				sorted[i] = drawn[at]
			}
			return sorted, nil
		}
	}
}

// hilbert returns the position of a point on Hilbert's curve.
func hilbert(p point) (at uint64) {
	x, y := p.x, p.y
	for bit := uint32(1) << (side - 1); bit > 0; bit >>= 1 {
		right, up := x&bit != 0, y&bit != 0
		at <<= 2
		switch {
		case right && !up:
			at |= 3
		case right:
			at |= 2
		case up:
			at |= 1
		}
		if !up {
			if right {
				x, y = ^x, ^y
			}
			x, y = y, x
		}
	}
	return at
}
