package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"gonum.org/v1/gonum/graph/simple"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/graph/algo"
	"github.com/weftgo/weft/lab/internal/command"
)

// measure runs all operations on a graph. In each run it measures both libraries.
func measure(ctx context.Context, dev device.Device, edges graph.Edges, runs int) (*report, error) {
	var builds, counts, updates [2][]float64
	r := &report{}
	for range runs {
		runtime.GC() // garbage of the last run must not slow down this run
		start := time.Now()
		g, err := graph.Build(ctx, dev, edges, nil)
		if err != nil {
			return nil, err
		}
		builds[0] = append(builds[0], since(start))
		start = time.Now()
		if r.Triangles, err = algo.Triangles(ctx, dev, g); err != nil {
			return nil, err
		}
		counts[0] = append(counts[0], since(start))
		r.Vertices, r.Edges = g.Vertices(), g.Edges()

		runtime.GC()
		start = time.Now()
		peer := build(edges)
		builds[1] = append(builds[1], since(start))
		start = time.Now()
		found := triangles(peer)
		counts[1] = append(counts[1], since(start))
		if found != r.Triangles || peer.Edges().Len() != r.Edges {
			return nil, fmt.Errorf("gonum has %d edges and %d triangles, weft %d and %d", peer.Edges().Len(), found, r.Edges, r.Triangles)
		}
		list := sampleEdges(g)
		weftTime, err := update(ctx, dev, g, list)
		if err != nil {
			return nil, err
		}
		updates[0] = append(updates[0], weftTime)
		start = time.Now()
		updatePeer(peer, list)
		updates[1] = append(updates[1], since(start))
		if peer.Edges().Len() != r.Edges {
			return nil, fmt.Errorf("gonum has %d edges after updates, want %d", peer.Edges().Len(), r.Edges)
		}
	}
	var both [2][]float64
	for i := range both {
		for k := range runs {
			both[i] = append(both[i], builds[i][k]+counts[i][k])
		}
	}
	for _, x := range []struct {
		name string
		ms   [2][]float64
	}{{"bulk build", builds}, {"triangles", counts}, {"both", both}, {fmt.Sprintf("edges deleted and inserted again, in batches of %d", batch), updates}} {
		r.Rows = append(r.Rows, row{x.name, command.Median(x.ms[0]), command.Median(x.ms[1])})
	}
	return r, nil
}

func since(start time.Time) float64 { return float64(time.Since(start).Microseconds()) / 1000 }

// build makes gonum's graph, edge by edge, without self loops.
func build(edges graph.Edges) *simple.UndirectedGraph {
	g := simple.NewUndirectedGraph()
	for i, u := range edges.From {
		if v := edges.To[i]; u != v {
			g.SetEdge(simple.Edge{F: simple.Node(u), T: simple.Node(v)})
		}
	}
	return g
}

// triangles counts triangles of gonum's graph. It looks for an edge between any two larger
// neighbors of a vertex.
func triangles(g *simple.UndirectedGraph) (count uint64) {
	for nodes := g.Nodes(); nodes.Next(); {
		u := nodes.Node().ID()
		for first := g.From(u); first.Next(); {
			v := first.Node().ID()
			if v <= u {
				continue
			}
			for second := g.From(v); second.Next(); {
				if w := second.Node().ID(); w > v && g.HasEdgeBetween(u, w) {
					count++
				}
			}
		}
	}
	return count
}

// batch is the number of edges per batch. batches is the maximum number of batches.
const (
	batch   = 1 << 12
	batches = 16
)

// sampleEdges returns edges from all over the graph.
func sampleEdges(g *graph.CSR) (e graph.Edges) {
	stride := max(1, g.Arcs()/(2*batch*batches))
	i := 0
	for u, v := range g.All() {
		if u < v {
			if i%stride == 0 && len(e.From) < batch*batches {
				e.From, e.To = append(e.From, u), append(e.To, v)
			}
			i++
		}
	}
	return e
}

// update deletes edges from a changing graph, batch by batch, and inserts them again. It returns
// the time in milliseconds.
func update(ctx context.Context, dev device.Device, c *graph.CSR, e graph.Edges) (ms float64, err error) {
	g, err := graph.New(dev, nil)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	if _, err := g.InsertCSR(ctx, c); err != nil {
		return 0, err
	}
	start := time.Now()
	for _, change := range []func(context.Context, []uint32, []uint32, []bool) (int, error){g.Delete, g.Insert} {
		for lo := 0; lo < len(e.From); lo += batch {
			hi := min(lo+batch, len(e.From))
			if _, err := change(ctx, e.From[lo:hi], e.To[lo:hi], nil); err != nil {
				return 0, err
			}
		}
	}
	ms = since(start)
	if g.Edges() != c.Edges() {
		return 0, fmt.Errorf("weft has %d edges after updates, want %d", g.Edges(), c.Edges())
	}
	return ms, nil
}

// updatePeer deletes edges from gonum's graph, one by one, and inserts them again.
func updatePeer(g *simple.UndirectedGraph, e graph.Edges) {
	for i, u := range e.From {
		g.RemoveEdge(int64(u), int64(e.To[i]))
	}
	for i, u := range e.From {
		g.SetEdge(simple.Edge{F: simple.Node(u), T: simple.Node(e.To[i])})
	}
}
