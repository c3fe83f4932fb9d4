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

// CSR is an immutable graph in compressed sparse rows. [Build] and [NewCSR] make it. Its rows are
// slices without pointers, and it has no weights: few algorithms need them, and the others would be
// compiled for each type of weight. [Weighted] adds weights, and [DeviceCSR] lies on a device.
type CSR struct {
	offsets   []uint64 // of rows: one more than the number of vertices
	neighbors []uint32
	loops     int
	directed  bool
	sorted    bool // rows ascend
	simple    bool // no loops, and known to have no parallel edges
}

// grain is the number of arcs or vertices that a core takes at a time: some 100 µs of work.
const grain = 1 << 15

// NewCSR makes a graph of existing rows and keeps the slices. The neighbors of vertex v are
// neighbors[offsets[v]:offsets[v+1]]. An undirected graph must have each edge in the rows of both
// its ends. [CSR.Check] verifies this, NewCSR does not. Offsets that do not ascend from 0 to the
// number of neighbors, and neighbors that are no vertices, return weft.ErrOptions with their
// position.
func NewCSR(offsets []uint64, neighbors []uint32, directed bool) (*CSR, error) {
	refuse := func(format string, args ...any) (*CSR, error) {
		return nil, fmt.Errorf("graph: rows: %w: %s", weft.ErrOptions, fmt.Sprintf(format, args...))
	}
	if len(offsets) == 0 {
		return refuse("there are no offsets; a graph without vertices has one, 0")
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
			return refuse("offset %d is %d, and the one behind it %d", v, offsets[v], offsets[v+1])
		}
	}
	for v := range n {
		row := g.Neighbors(uint32(v))
		for i, u := range row {
			if uint64(u) >= uint64(n) {
				return refuse("neighbor %d of vertex %d is %d, and there are %d vertices", i, v, u, n)
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

// Vertices returns the number of vertices, which are 0 to Vertices()-1.
func (g *CSR) Vertices() int { return len(g.offsets) - 1 }

// Arcs returns the number of entries in all rows. A directed graph has one per edge. An undirected
// graph has two per edge, but one per self loop.
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

// Directed reports whether edges lead one way only.
func (g *CSR) Directed() bool { return g.directed }

// Sorted reports whether the neighbors of each vertex ascend, as Build makes them.
func (g *CSR) Sorted() bool { return g.sorted }

// Simple reports whether no vertex is its own neighbor, and none twice that of another. It is false
// for graphs with unsorted rows, whatever they hold.
func (g *CSR) Simple() bool { return g.simple }

// Degree returns the number of neighbors of a vertex, in a directed graph the out-degree. It panics
// like a slice index if v is not a vertex.
func (g *CSR) Degree(v uint32) int { return int(g.offsets[v+1] - g.offsets[v]) }

// Neighbors returns the neighbors of a vertex. It panics like a slice index if v is not a vertex.
func (g *CSR) Neighbors(v uint32) []uint32 {
	lo, hi := g.offsets[v], g.offsets[v+1]
	return g.neighbors[lo:hi:hi]
}

// Offsets returns the positions in Targets at which the rows begin, and the end of the last one.
func (g *CSR) Offsets() []uint64 { return g.offsets }

// Targets returns the neighbors of all vertices, row by row.
func (g *CSR) Targets() []uint32 { return g.neighbors }

// Has reports whether the graph has an edge from u to v, by a binary search if rows are sorted. It
// is false for numbers that are no vertices.
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

// All iterates over the arcs: vertices and their neighbors, in order. It yields each edge of an
// undirected graph twice.
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

// Check verifies what NewCSR assumes: rows of an undirected graph have each edge at both ends,
// equally often. Otherwise it returns weft.ErrCorrupt with a vertex.
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
		return fmt.Errorf("graph: check: %w: an undirected graph, in which the edges that vertex %d has are not those that lead to it", weft.ErrCorrupt, v)
	}
	return ctx.Err()
}

// hostOf returns a device as a host, on which Go code works.
func hostOf(dev device.Device) (device.Host, error) {
	host, err := cpu.Host(dev, "graphs")
	if err != nil {
		return nil, fmt.Errorf("graph: %w", err)
	}
	return host, nil
}

// minIndex is the smallest of the numbers that several cores add.
type minIndex struct{ negated atomic.Int64 } // relative to the largest int64: 0 is none

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
