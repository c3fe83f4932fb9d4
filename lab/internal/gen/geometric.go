package gen

import (
	"context"
	"math"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
)

// GeometricOptions configure [Geometric].
type GeometricOptions struct {
	Vertices int
	// Radius is the maximum distance between neighbors in a square of side 1. The default is 0.55
	// sqrt(ln n / n), as in the graphs rgg_n_2_x of the 10th DIMACS challenge.
	Radius float64
	Seed   uint64
}

// side is the number of bits of a coordinate.
const side = 28

// point is a point of the square.
type point struct{ x, y uint32 }

func (g *generator) points(n int) []point {
	all := make([]point, n)
	g.Parallel(n, grain, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			all[i] = g.point(uint64(i), 0)
		}
	})
	return all
}

// point returns point i. attempt is 0 for its first draw.
func (g *generator) point(i, attempt uint64) point {
	d := g.draw(2+attempt, i)
	return point{uint32(d >> (64 - side)), uint32(d) >> (32 - side)}
}

// Geometric generates a random geometric graph: vertices are points in a square, and points within
// the radius are neighbors. Vertices are numbered cell by cell of a grid, so neighbors have close
// numbers. Each edge occurs once.
func Geometric(ctx context.Context, dev device.Device, o GeometricOptions) (graph.Edges, error) {
	g, err := newGenerator(ctx, dev, "Geometric", o.Seed)
	if err != nil {
		return graph.Edges{}, err
	}
	if err := g.vertices(o.Vertices); err != nil {
		return graph.Edges{}, err
	}
	n := float64(o.Vertices)
	if o.Radius == 0 {
		o.Radius = 0.55 * math.Sqrt(math.Log(n)/n)
	}
	if !(o.Radius >= 0 && o.Radius <= 2) {
		return graph.Edges{}, g.refuse("Radius %v, want 0 to 2", o.Radius)
	}
	c := &cells{radius: uint64(o.Radius * (1 << side))}
	// A cell is wider than the radius, and has at least two points on average.
	c.width = max(c.radius+1, uint64(math.Sqrt(2/n)*(1<<side)))
	c.rows = int((1<<side-1)/c.width) + 1
	if err := c.fill(g, o.Vertices); err != nil {
		return graph.Edges{}, err
	}
	return g.gather(o.Vertices, o.Vertices, func(lo, hi int, e *graph.Edges) {
		for v := lo; v < hi; v++ {
			c.neighbors(v, e)
		}
	})
}

// cells holds points, sorted by the cells of a grid.
type cells struct {
	radius, width uint64
	rows          int
	points        []point
	first         []uint32 // first point of each cell, row by row
}

func (c *cells) at(p point) (row, column int) {
	return int(uint64(p.y) / c.width), int(uint64(p.x) / c.width)
}

func (c *cells) fill(g *generator, n int) error {
	drawn := g.points(n)
	keys := make([]uint64, n)
	c.first = make([]uint32, c.rows*c.rows+1)
	for i, p := range drawn {
		row, column := c.at(p)
		keys[i] = uint64(row*c.rows + column)
		c.first[keys[i]+1]++
	}
	for i := 1; i < len(c.first); i++ {
		c.first[i] += c.first[i-1]
	}
	order, err := g.order(keys)
	if err != nil {
		return err
	}
	c.points = make([]point, n)
	for i, at := range order {
		c.points[i] = drawn[at]
	}
	return nil
}

// neighbors adds the edges from point v to neighbors that have larger numbers. These are in the
// same cell and in four adjacent cells.
func (c *cells) neighbors(v int, e *graph.Edges) {
	row, column := c.at(c.points[v])
	cell := row*c.rows + column
	right := min(column+1, c.rows-1) - column
	c.addNear(v, v+1, int(c.first[cell+right+1]), e)
	if row+1 < c.rows {
		left := column - max(column-1, 0)
		below := cell + c.rows
		c.addNear(v, int(c.first[below-left]), int(c.first[below+right+1]), e)
	}
}

// addNear adds the edges from v to the points in [lo,hi) that are within the radius.
func (c *cells) addNear(v, lo, hi int, e *graph.Edges) {
	p := c.points[v]
	for u := lo; u < hi; u++ {
		dx, dy := int64(p.x)-int64(c.points[u].x), int64(p.y)-int64(c.points[u].y)
		if uint64(dx*dx+dy*dy) <= c.radius*c.radius {
			add(e, uint32(v), uint32(u))
		}
	}
}
