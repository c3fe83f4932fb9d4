package graph

import (
	"context"

	"github.com/weftgo/weft/device"
)

// Transpose returns the graph with all edges reversed. The row of a vertex then holds the sources
// of its incoming edges, in ascending order. An undirected graph is its own transpose.
func (g *CSR) Transpose(ctx context.Context, dev device.Device) (*CSR, error) {
	if !g.directed {
		return g, ctx.Err()
	}
	edges, o := g.reversed()
	return Build(ctx, dev, edges, o)
}

// Symmetric returns the graph with its edges made undirected. Edges from u to v and from v to u
// become one. If the graph is undirected, Symmetric returns the graph itself.
func (g *CSR) Symmetric(ctx context.Context, dev device.Device) (*CSR, error) {
	if !g.directed {
		return g, ctx.Err()
	}
	edges, o := g.undirected()
	return Build(ctx, dev, edges, o)
}

// Sort returns the graph with the neighbors of each vertex in ascending order. If the rows are
// sorted, Sort returns the graph itself.
func (g *CSR) Sort(ctx context.Context, dev device.Device) (*CSR, error) {
	if g.sorted {
		return g, ctx.Err()
	}
	edges, o := g.arcList()
	s, err := Build(ctx, dev, edges, o)
	if err != nil {
		return nil, err
	}
	s.directed = g.directed
	return s, nil
}

// reversed returns the edges and options from which Transpose builds a graph.
func (g *CSR) reversed() (Edges, *Options) {
	edges, o := g.arcList()
	edges.From, edges.To = edges.To, edges.From
	return edges, o
}

// undirected returns the edges and options from which Symmetric builds a graph.
func (g *CSR) undirected() (Edges, *Options) {
	return Edges{g.Vertices(), g.sources(), g.neighbors}, &Options{SelfLoops: true, MaxVertices: maxVertices}
}

// arcList returns the edges and options from which Sort builds a graph.
func (g *CSR) arcList() (Edges, *Options) {
	return Edges{g.Vertices(), g.sources(), g.neighbors}, &Options{Directed: true, SelfLoops: true, Multi: true, MaxVertices: maxVertices}
}

// sources returns the source vertex of each arc.
func (g *CSR) sources() []uint32 {
	from := make([]uint32, len(g.neighbors))
	for v := range g.Vertices() {
		row := from[g.offsets[v]:g.offsets[v+1]]
		for i := range row {
			row[i] = uint32(v)
		}
	}
	return from
}

// Oriented returns a directed graph with each edge once, from the end of smaller degree to the
// other end. If the degrees are equal, the edge leads from the smaller vertex. Self loops are left
// out, and parallel edges appear once. Rows ascend, and no row is longer than the square root of
// twice the number of edges. Triangles are counted on this graph. Oriented of a directed graph
// orients the graph that [CSR.Symmetric] returns.
func (g *CSR) Oriented(ctx context.Context, dev device.Device) (*CSR, error) {
	if dev != nil && !isHost(dev) {
		return g.orientByKernels(ctx, dev)
	}
	host, err := hostOf(dev)
	if err != nil {
		return nil, err
	}
	if g, err = g.Symmetric(ctx, dev); err != nil {
		return nil, err
	}
	if g, err = g.Sort(ctx, dev); err != nil {
		return nil, err
	}
	n := g.Vertices()
	o := &CSR{offsets: make([]uint64, n+1), directed: true, sorted: true, simple: true}
	const vertices = 1 << 10 // number that a core processes at a time
	host.Parallel(n, vertices, func(lo, hi int) {
		for v := lo; v < hi && ctx.Err() == nil; v++ {
			o.offsets[v+1] = uint64(g.orientRow(uint32(v), nil))
		}
	})
	for v := range n {
		o.offsets[v+1] += o.offsets[v]
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	o.neighbors = make([]uint32, o.offsets[n])
	host.Parallel(n, vertices, func(lo, hi int) {
		for v := lo; v < hi && ctx.Err() == nil; v++ {
			g.orientRow(uint32(v), o.neighbors[o.offsets[v]:o.offsets[v+1]])
		}
	})
	return o, ctx.Err()
}

// orientRow returns the length of the row of v in the oriented graph. It writes as many entries of
// the row to out as fit.
func (g *CSR) orientRow(v uint32, out []uint32) (count int) {
	degree := g.Degree(v)
	row := g.Neighbors(v)
	for i, u := range row {
		d := g.Degree(u)
		if d < degree || d == degree && u <= v || i > 0 && row[i-1] == u {
			continue
		}
		if count < len(out) {
			out[count] = u
		}
		count++
	}
	return count
}
