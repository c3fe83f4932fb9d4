package gen

import (
	"context"
	"math"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/internal/workload"
)

// RoadsOptions configure [Roads].
type RoadsOptions struct {
	// Vertices is the number of vertices. The actual number differs by a few percent.
	Vertices int
	// Subdivisions is the mean number of vertices along a road between two junctions. The default
	// is 0.96, as in road_usa.
	Subdivisions float64
	Seed         uint64
}

// Roads generates a graph like a road map. Junctions of three roads are laid out like a brick wall,
// and vertices that have two neighbors lie along the roads. For s subdivisions per road, it has 1.5
// (1+s) / (1+1.5 s) edges per vertex. Vertices are numbered row by row; vertices along a road
// follow the junction where it begins. Each edge occurs once.
func Roads(ctx context.Context, dev device.Device, o RoadsOptions) (graph.Edges, error) {
	g, err := newGenerator(ctx, dev, "Roads", o.Seed)
	if err != nil {
		return graph.Edges{}, err
	}
	if err := g.vertices(o.Vertices); err != nil {
		return graph.Edges{}, err
	}
	if o.Subdivisions == 0 {
		o.Subdivisions = 0.96
	}
	if !(o.Subdivisions >= 0 && o.Subdivisions <= 1000) {
		return graph.Edges{}, g.refuse("Subdivisions %v, want 0 to 1000", o.Subdivisions)
	}
	w := &wall{generator: g, span: uint64((2*o.Subdivisions + 1) * (1 << 32))}
	w.side = max(1, int(math.Sqrt(float64(o.Vertices)/(1+1.5*o.Subdivisions))+0.5))
	junctions := w.side * w.side
	w.first = make([]uint32, junctions+1)
	total := 0
	for j := range junctions {
		w.first[j] = uint32(total)
		total++
		for _, r := range w.roads(j) {
			total += r.nVertices
		}
	}
	if total > maxVertices {
		return graph.Edges{}, g.refuse("Vertices %d makes %d, more than %d", o.Vertices, total, maxVertices)
	}
	return g.gather(total, junctions, func(lo, hi int, e *graph.Edges) {
		for j := lo; j < hi; j++ {
			w.lay(j, e)
		}
	})
}

// wall is a grid of junctions, row by row. A road leads from each junction to the next, and from
// every second junction to the row below.
type wall struct {
	*generator
	side  int
	span  uint64   // upper bound of subdivisions per road, in fixed point
	first []uint32 // vertex of each junction
}

// road leads from one junction to another.
type road struct{ to, nVertices int }

// roads returns the roads that begin at a junction.
func (w *wall) roads(j int) (list []road) {
	row, column := j/w.side, j%w.side
	if column+1 < w.side {
		list = append(list, road{j + 1, w.nVertices(2 * j)})
	}
	if row+1 < w.side && (row+column)%2 == 0 {
		list = append(list, road{j + w.side, w.nVertices(2*j + 1)})
	}
	return list
}

func (w *wall) nVertices(road int) int {
	return int(workload.Below(w.draw(0, uint64(road)), w.span) >> 32)
}

// lay adds the edges of the roads that begin at a junction.
func (w *wall) lay(j int, e *graph.Edges) {
	next := w.first[j] + 1
	for _, r := range w.roads(j) {
		at := w.first[j]
		for range r.nVertices {
			add(e, at, next)
			at = next
			next++
		}
		add(e, at, w.first[r.to])
	}
}
