package graph

import (
	"context"
	"fmt"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// Weight constrains the types of weights. Every bit pattern is a legal weight.
type Weight = weft.Value

// Weighted is an immutable graph with a weight of type W for each edge.
type Weighted[W Weight] struct {
	*CSR
	weights []W
}

// BuildWeighted makes a graph from a list of edges and their weights. See [Build]. It panics if
// weights and edges differ in length.
func BuildWeighted[W Weight](ctx context.Context, dev device.Device, edges Edges, weights []W, opts *Options) (*Weighted[W], error) {
	if len(weights) != len(edges.From) {
		panic(fmt.Sprintf("graph: build: %d weights of %d edges", len(weights), len(edges.From)))
	}
	g, sorted, err := build(ctx, dev, edges, weights, opts)
	if err != nil {
		return nil, err
	}
	return &Weighted[W]{g, sorted}, nil
}

// NewWeighted adds weights to a graph and keeps the slice. weights has the weight of each arc, in
// the order of Targets. NewWeighted panics if the numbers of weights and arcs differ.
func NewWeighted[W Weight](g *CSR, weights []W) *Weighted[W] {
	if len(weights) != g.Arcs() {
		panic(fmt.Sprintf("graph: %d weights of %d arcs", len(weights), g.Arcs()))
	}
	return &Weighted[W]{g, weights}
}

// Weights returns the weights of the edges from a vertex, in the order of Neighbors.
func (g *Weighted[W]) Weights(v uint32) []W {
	lo, hi := g.offsets[v], g.offsets[v+1]
	return g.weights[lo:hi:hi]
}

// AllWeights returns the weights of all arcs, in the order of Targets.
func (g *Weighted[W]) AllWeights() []W { return g.weights }

// Transpose returns the graph with all edges reversed, and their weights. See [CSR.Transpose].
func (g *Weighted[W]) Transpose(ctx context.Context, dev device.Device) (*Weighted[W], error) {
	if !g.directed {
		return g, ctx.Err()
	}
	edges, o := g.reversed()
	return BuildWeighted(ctx, dev, edges, g.weights, o)
}

// Symmetric returns the graph with its edges made undirected, and their weights. See
// [CSR.Symmetric]. If edges lead both ways, the edge from the larger vertex sets the weight.
func (g *Weighted[W]) Symmetric(ctx context.Context, dev device.Device) (*Weighted[W], error) {
	if !g.directed {
		return g, ctx.Err()
	}
	edges, o := g.undirected()
	return BuildWeighted(ctx, dev, edges, g.weights, o)
}

// Sort returns the graph with the neighbors of each vertex in ascending order. See [CSR.Sort].
func (g *Weighted[W]) Sort(ctx context.Context, dev device.Device) (*Weighted[W], error) {
	if g.sorted {
		return g, ctx.Err()
	}
	edges, o := g.arcList()
	s, err := BuildWeighted(ctx, dev, edges, g.weights, o)
	if err != nil {
		return nil, err
	}
	s.directed = g.directed
	return s, nil
}
