package algo

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
)

// TrianglesOf counts the triangles of an undirected graph that contain at least one of the given
// edges. An edge that is not in the graph is in no triangle. An edge that is listed several times,
// in either direction, counts once. With TrianglesOf a program can maintain the number of
// triangles. After a batch of insertions, add the triangles of the inserted edges. Before a batch
// of deletions, or on a snapshot from before, subtract the triangles of the deleted edges.
//
// In a multigraph, parallel edges count as one edge, so another parallel edge adds no triangle.
//
// TrianglesOf reads the rows of all ends and intersects the two rows of each edge. A triangle with
// k of the edges is found k times and counts 1/k each time.
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

// endpointRows holds the rows of all ends of a list of edges.
type endpointRows struct {
	edges     []uint64 // smaller end in the high half, larger end in the low half; ascending
	vertices  []uint32 // ascending
	offsets   []uint64
	neighbors []uint32
	inBatch   []bool // for each row entry, whether its edge is in edges
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

// row returns the neighbors of a vertex, and for each whether the edge to it is in edges.
func (t *endpointRows) row(v uint32) ([]uint32, []bool) {
	i, _ := slices.BinarySearch(t.vertices, v)
	lo, hi := t.offsets[i], t.offsets[i+1]
	return t.neighbors[lo:hi], t.inBatch[lo:hi]
}

// sixths counts the triangles of an edge, in sixths. A triangle with k of the edges counts 6/k.
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

// maxLengthRatio bounds the length ratio of two rows that are merged. Above it, each entry of the
// shorter row is searched in the longer. Such a search takes about maxLengthRatio steps.
const maxLengthRatio = 16
