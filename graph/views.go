package graph

import (
	"context"

	"github.com/weftgo/weft/device"
)

// Transpose returns the graph with all edges reversed: a row has the sources of the edges to a
// vertex, in ascending order. An undirected graph is its own transpose.
func (g *CSR) Transpose(ctx context.Context, dev device.Device) (*CSR, error) {
	if !g.directed {
		return g, ctx.Err()
	}
	edges, o := g.reversed()
	return Build(ctx, dev, edges, o)
}

// Symmetric returns the undirected graph of a directed one. Edges that lead both ways become one.
// For an undirected graph it returns the graph itself.
func (g *CSR) Symmetric(ctx context.Context, dev device.Device) (*CSR, error) {
	if !g.directed {
		return g, ctx.Err()
	}
	edges, o := g.undirected()
	return Build(ctx, dev, edges, o)
}

// Sort returns the graph with the neighbors of each vertex in ascending order. If rows are sorted,
// it returns the graph itself.
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

// reversed returns the edges that Transpose builds, with weights or without.
func (g *CSR) reversed() (Edges, *Options) {
	edges, o := g.arcList()
	edges.From, edges.To = edges.To, edges.From
	return edges, o
}

// undirected returns the edges that Symmetric builds.
func (g *CSR) undirected() (Edges, *Options) {
	return Edges{g.Vertices(), g.sources(), g.neighbors}, &Options{SelfLoops: true, MaxVertices: maxVertices}
}

// arcList returns the edges that Sort builds.
func (g *CSR) arcList() (Edges, *Options) {
	return Edges{g.Vertices(), g.sources(), g.neighbors}, &Options{Directed: true, SelfLoops: true, Multi: true, MaxVertices: maxVertices}
}

// sources returns the vertices of the rows of all arcs.
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

// Oriented returns a view of an undirected graph that has each edge once, from the end of smaller
// degree to the other. For equal degrees, the edge leads from the smaller number. Self loops are
// left out, and parallel edges appear once. Rows ascend, and none is longer than the square root of
// twice the edges: triangles are counted on it. For a directed graph it uses [CSR.Symmetric].
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
	const vertices = 1 << 10 // that a core takes at a time
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

// orientRow counts the distinct neighbors of a vertex to which its edges are oriented. It writes as
// many of them to out as fit.
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
