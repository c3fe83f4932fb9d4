package algo

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
)

// TrianglesOf counts the triangles of an undirected graph that contain at least one of the given
// edges. Edges that the graph does not have are in no triangle. An edge that is listed several
// times, in either direction, counts once, as parallel edges do. So the triangles of a graph that
// changes need not be recounted. A batch of insertions adds those of the edges that it inserted, in
// the graph after it. A batch of deletions removes those of the edges that it deletes, in the graph
// before it, perhaps a snapshot.
//
// In a multigraph the ends of an edge count, not the number of edges between them: an edge parallel
// to an existing one adds no triangle.
//
// It reads the rows of all ends, intersects those of each edge, and counts a triangle with k of the
// edges 1/k times at each of them.
func TrianglesOf(ctx context.Context, dev device.Device, g Reader, edges graph.Edges) (uint64, error) {
	mustMatchEnds("triangles of edges", edges)
	if !isHost(dev) {
		return trianglesOfByKernels(ctx, dev, g, edges)
	}
	h, err := host(dev, "triangles of edges")
	if err != nil {
		return 0, err
	}
	if g.Directed() {
		return 0, invalid("triangles of edges", "the graph is directed")
	}
	t, err := newEndpointRows(ctx, h, g, edges)
	if err != nil {
		return 0, err
	}
	var sixths atomic.Uint64
	h.Parallel(len(t.edges), front, func(lo, hi int) {
		if ctx.Err() != nil {
			return
		}
		part := uint64(0)
		for _, e := range t.edges[lo:hi] {
			part += t.sixths(uint32(e>>32), uint32(e))
		}
		sixths.Add(part)
	})
	return sixths.Load() / 6, ctx.Err()
}

// endpointRows is the rows of all vertices that some edges touch.
type endpointRows struct {
	edges     []uint64 // the smaller end, and the larger one; ascending
	vertices  []uint32 // ascending
	offsets   []uint64
	neighbors []uint32
	inBatch   []bool // by row entry: whether its edge is one of edges
}

func newEndpointRows(ctx context.Context, h device.Host, g Reader, edges graph.Edges) (t *endpointRows, err error) {
	t = &endpointRows{}
	for i, u := range edges.From {
		if v := edges.To[i]; u != v {
			t.edges = append(t.edges, uint64(min(u, v))<<32|uint64(max(u, v)))
			t.vertices = append(t.vertices, u, v)
		}
	}
	if t.edges, err = distinct(ctx, h, t.edges); err != nil {
		return nil, err
	}
	if t.vertices, err = distinct(ctx, h, t.vertices); err != nil {
		return nil, err
	}
	if t.offsets, t.neighbors, err = g.Rows(ctx, t.vertices); err != nil {
		return nil, err
	}
	t.inBatch = make([]bool, len(t.neighbors))
	h.Parallel(len(t.edges), rows, func(lo, hi int) {
		for _, e := range t.edges[lo:hi] {
			for _, ends := range [2][2]uint32{{uint32(e >> 32), uint32(e)}, {uint32(e), uint32(e >> 32)}} {
				row, inBatch := t.row(ends[0])
				if at, found := slices.BinarySearch(row, ends[1]); found {
					inBatch[at] = true
				}
			}
		}
	})
	return t, ctx.Err()
}

// row returns the neighbors of a vertex, and which of the edges to them count.
func (t *endpointRows) row(v uint32) ([]uint32, []bool) {
	i, _ := slices.BinarySearch(t.vertices, v)
	lo, hi := t.offsets[i], t.offsets[i+1]
	return t.neighbors[lo:hi], t.inBatch[lo:hi]
}

// sixths counts the triangles of an edge, in sixths: each counts 6 divided by the number of its
// edges that count.
func (t *endpointRows) sixths(u, v uint32) (sum uint64) {
	a, inA := t.row(u)
	b, inB := t.row(v)
	if _, found := slices.BinarySearch(a, v); !found {
		return 0
	}
	if len(a) > len(b) {
		a, inA, b, inB = b, inB, a, inA
	}
	addTriangle := func(i, j int) {
		if w := a[i]; w == u || w == v || i > 0 && a[i-1] == w {
			return // a self loop, or a parallel edge
		}
		k := uint64(1)
		for _, counts := range [2]bool{inA[i], inB[j]} {
			if counts {
				k++
			}
		}
		sum += 6 / k
	}
	if len(a)*maxLengthRatio < len(b) {
		at := 0
		for i, w := range a {
			skip, found := slices.BinarySearch(b[at:], w)
			if at += skip; found {
				addTriangle(i, at)
			}
		}
		return sum
	}
	for i, j := 0, 0; i < len(a) && j < len(b); {
		x, y := a[i], b[j]
		if x == y {
			addTriangle(i, j)
		}
		if x <= y {
			i++
		}
		if y <= x {
			j++
		}
	}
	return sum
}

// maxLengthRatio is the length ratio of two rows above which the entries of the shorter are
// searched in the longer, instead of merged. It is about the number of steps of a search.
const maxLengthRatio = 16
