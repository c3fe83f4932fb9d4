package graph

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/cpu"
)

// CSR is an immutable graph in compressed sparse rows, without weights. [Build] and [NewCSR] make
// one. It has no type parameter for weights: few algorithms need weights, and all others would be
// compiled once per weight type. [Weighted] adds weights. [DeviceCSR] is a CSR in device memory.
type CSR struct {
	offsets   []uint64 // starts of the rows, and the end of the last row
	neighbors []uint32
	loops     int
	directed  bool
	sorted    bool // whether each row ascends
	simple    bool // whether rows certainly have neither loops nor parallel edges
}

// grain is the number of arcs or vertices that a core processes at a time. It takes about 100 µs.
const grain = 1 << 15

// NewCSR makes a graph from existing rows and keeps the slices. The neighbors of vertex v are
// neighbors[offsets[v]:offsets[v+1]]. An undirected graph must have each edge in the rows of both
// its ends. NewCSR does not verify this, but [CSR.Check] does. NewCSR returns weft.ErrOptions with
// a position if offsets do not ascend from 0 to len(neighbors), or if a neighbor is not a vertex.
func NewCSR(offsets []uint64, neighbors []uint32, directed bool) (*CSR, error) {
	refuse := func(format string, args ...any) (*CSR, error) {
		return nil, fmt.Errorf("graph: rows: %w: %s", weft.ErrOptions, fmt.Sprintf(format, args...))
	}
	if len(offsets) == 0 {
		return refuse("the offsets are empty; a graph without vertices has one offset, 0")
	}
	n := len(offsets) - 1
	if n > maxVertices {
		return refuse("%d vertices, more than %d", n, maxVertices)
	}
	if offsets[0] != 0 || offsets[n] != uint64(len(neighbors)) {
		return refuse("the offsets lead from %d to %d, want 0 to %d, the number of neighbors", offsets[0], offsets[n], len(neighbors))
	}
	g := &CSR{offsets: offsets, neighbors: neighbors, directed: directed, sorted: true, simple: true}
	for v := range n {
		if offsets[v] > offsets[v+1] {
			return refuse("offset %d is %d, but the next one is %d", v, offsets[v], offsets[v+1])
		}
	}
	for v := range n {
		row := g.Neighbors(uint32(v))
		for i, u := range row {
			if uint64(u) >= uint64(n) {
				return refuse("neighbor %d of vertex %d is %d, but there are %d vertices", i, v, u,
					n)
			}
			if u == uint32(v) {
				g.loops++
			}
			if i > 0 {
				g.sorted = g.sorted && row[i-1] <= u
				g.simple = g.simple && row[i-1] != u
			}
		}
	}
	g.simple = g.simple && g.sorted && g.loops == 0
	return g, nil
}

// Vertices returns the number of vertices, which are numbered from 0.
func (g *CSR) Vertices() int { return len(g.offsets) - 1 }

// Arcs returns the number of entries in all rows. A directed graph has one arc per edge. An
// undirected graph has one arc per self loop and two per other edge.
func (g *CSR) Arcs() int { return len(g.neighbors) }

// Edges returns the number of edges.
func (g *CSR) Edges() int {
	if g.directed {
		return len(g.neighbors)
	}
	return (len(g.neighbors) + g.loops) / 2
}

// Loops returns the number of edges from a vertex to itself.
func (g *CSR) Loops() int { return g.loops }

// Directed reports whether edges lead only one way.
func (g *CSR) Directed() bool { return g.directed }

// Sorted reports whether the neighbors of each vertex ascend. They do after [Build].
func (g *CSR) Sorted() bool { return g.sorted }

// Simple reports whether the graph has neither self loops nor parallel edges. If rows are not
// sorted, Simple does not search for parallel edges and returns false.
func (g *CSR) Simple() bool { return g.simple }

// Degree returns the number of neighbors of a vertex, in a directed graph the out-degree. It panics
// if v is not a vertex.
func (g *CSR) Degree(v uint32) int { return int(g.offsets[v+1] - g.offsets[v]) }

// Neighbors returns the neighbors of a vertex. It panics if v is not a vertex.
func (g *CSR) Neighbors(v uint32) []uint32 {
	lo, hi := g.offsets[v], g.offsets[v+1]
	return g.neighbors[lo:hi:hi]
}

// Offsets returns the index in Targets at which each row begins, followed by the end of the last.
func (g *CSR) Offsets() []uint64 { return g.offsets }

// Targets returns the neighbors of all vertices, row by row.
func (g *CSR) Targets() []uint32 { return g.neighbors }

// Has reports whether the graph has an edge from u to v. It uses binary search if rows are sorted.
// A number that is not a vertex has no edges.
func (g *CSR) Has(u, v uint32) bool {
	if uint64(u) >= uint64(g.Vertices()) {
		return false
	}
	row := g.Neighbors(u)
	if !g.sorted {
		return slices.Contains(row, v)
	}
	_, found := slices.BinarySearch(row, v)
	return found
}

// All iterates over the arcs, as pairs of a vertex and its neighbor, in order. It yields each edge
// of an undirected graph twice, but a self loop once.
func (g *CSR) All() iter.Seq2[uint32, uint32] {
	return func(yield func(u, v uint32) bool) {
		for u := range uint32(g.Vertices()) {
			for _, v := range g.Neighbors(u) {
				if !yield(u, v) {
					return
				}
			}
		}
	}
}

// Check verifies that rows of an undirected graph have each edge at both ends, equally often. If
// not, it returns weft.ErrCorrupt with a vertex that violates this.
func (g *CSR) Check(ctx context.Context, dev device.Device) error {
	host, err := hostOf(dev)
	if err != nil || g.directed {
		return cmp.Or(err, ctx.Err())
	}
	s, err := g.Sort(ctx, dev)
	if err != nil {
		return err
	}
	asDirected := *s
	asDirected.directed = true
	t, err := asDirected.Transpose(ctx, dev)
	if err != nil {
		return err
	}
	bad := minIndex{}
	host.Parallel(s.Vertices(), grain, func(lo, hi int) {
		for v := lo; v < hi; v++ {
			if !slices.Equal(s.Neighbors(uint32(v)), t.Neighbors(uint32(v))) {
				bad.add(v)
				return
			}
		}
	})
	if v, ok := bad.value(); ok {
		return fmt.Errorf("graph: check: %w: the graph is undirected, but the edges from vertex %d differ from those that lead to it", weft.ErrCorrupt, v)
	}
	return ctx.Err()
}

// hostOf returns dev as a host, or an error if dev cannot run Go code.
func hostOf(dev device.Device) (device.Host, error) {
	host, err := cpu.Host(dev, "graphs")
	if err != nil {
		return nil, fmt.Errorf("graph: %w", err)
	}
	return host, nil
}

// minIndex computes the minimum of the indexes that cores pass to add.
type minIndex struct{ negated atomic.Int64 } // minimum less MaxInt64; 0 before the first add

func (f *minIndex) add(i int) {
	for {
		old := f.negated.Load()
		next := int64(i) - int64(^uint64(0)>>1) // negative
		if old <= next || f.negated.CompareAndSwap(old, next) {
			return
		}
	}
}

func (f *minIndex) value() (int, bool) {
	at := f.negated.Load()
	return int(at + int64(^uint64(0)>>1)), at < 0
}
