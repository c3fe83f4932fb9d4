package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"gonum.org/v1/gonum/graph/simple"

	"github.com/weftgo/weft/bench/internal/command"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/graph/algo"
)

// measure builds a graph of edges and counts its triangles, both ways, turn by turn.
func measure(ctx context.Context, dev device.Device, edges graph.Edges, runs int) (*report, error) {
	var builds, counts [2][]float64
	r := &report{}
	for range runs {
		runtime.GC() // what the last run left is not this one's
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
	}{{"bulk build", builds}, {"triangles", counts}, {"both", both}} {
		r.Rows = append(r.Rows, row{x.name, command.Median(x.ms[0]), command.Median(x.ms[1])})
	}
	return r, nil
}

func since(start time.Time) float64 { return float64(time.Since(start).Microseconds()) / 1000 }

// build makes gonum's graph, edge after edge; it has no self loops.
func build(edges graph.Edges) *simple.UndirectedGraph {
	g := simple.NewUndirectedGraph()
	for i, u := range edges.From {
		if v := edges.To[i]; u != v {
			g.SetEdge(simple.Edge{F: simple.Node(u), T: simple.Node(v)})
		}
	}
	return g
}

// triangles looks for an edge between any two larger neighbors of a vertex.
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
