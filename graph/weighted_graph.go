package graph

import (
	"context"
	"fmt"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

// WeightedGraph is a [Graph] with a weight of type W for each edge. Inserting an edge again
// replaces its weight. A row entry takes 8 bytes, or 12 bytes with 64-bit weights.
type WeightedGraph[W Weight] struct{ *Graph }

// NewWeightedGraph makes a graph without vertices.
func NewWeightedGraph[W Weight](dev device.Device, opts *Options) (*WeightedGraph[W], error) {
	g, err := newStore(dev, core.MapTypes[uint32, W]().Val, opts)
	if err != nil {
		return nil, err
	}
	return &WeightedGraph[W]{&Graph{g}}, nil
}

// Insert inserts edges with weights, and replaces the weights of existing edges. See
// [Graph.Insert].
func (g *WeightedGraph[W]) Insert(ctx context.Context, from, to []uint32, weights []W, inserted []bool) (int, error) {
	return g.change(ctx, nil, "Insert", edgeBatch(op.Put, from, to, batch.Input(weights), inserted))
}

// Apply runs insertions and deletions in order. It does not read the weights of deletions. See
// [Graph.Apply] for the results.
func (g *WeightedGraph[W]) Apply(ctx context.Context, kinds []weft.OpKind, from, to []uint32, weights []W, done []bool) (int, error) {
	b := edgeBatch(op.Put, from, to, batch.Input(weights), done)
	b.Columns[batch.Kinds] = batch.Input(kinds)
	return g.change(ctx, nil, "Apply", b)
}

// InsertOn inserts edges with weights from slices in device memory. See [Graph.InsertOn].
func (g *WeightedGraph[W]) InsertOn(s *device.Stream, from, to device.Slice[uint32], weights device.Slice[W], inserted device.Slice[bool], counts ...device.Slice[uint64]) error {
	return g.changeOn(s, "InsertOn", edgeBatchOn(op.Put, from, to, batch.InputOn(weights), inserted), counts)
}

// ApplyOn runs insertions and deletions from slices in device memory. See [Graph.ApplyOn].
func (g *WeightedGraph[W]) ApplyOn(s *device.Stream, kinds device.Slice[uint8], from, to device.Slice[uint32], weights device.Slice[W], done device.Slice[bool], counts ...device.Slice[uint64]) error {
	b := edgeBatchOn(op.Put, from, to, batch.InputOn(weights), done)
	b.Columns[batch.Kinds] = batch.InputOn(kinds)
	return g.changeOn(s, "ApplyOn", b, counts)
}

// Weight writes the weights of edges, and 0 for absent edges. It returns the number of edges that
// exist. Unless found is nil, found[i] reports whether edge i exists.
func (g *WeightedGraph[W]) Weight(ctx context.Context, from, to []uint32, weights []W, found []bool) (int, error) {
	return g.find(ctx, "Weight", edgeBatch(op.Get, from, to, batch.Output(weights), found))
}

// WeightOn looks up the weights of edges in device memory. If hits is given, it adds the number of
// edges found to hits[0].
func (g *WeightedGraph[W]) WeightOn(s *device.Stream, from, to device.Slice[uint32], weights device.Slice[W], found device.Slice[bool], hits ...device.Slice[uint64]) error {
	return g.findOn(s, "WeightOn", edgeBatchOn(op.Get, from, to, batch.OutputOn(weights), found), hits)
}

// Rows returns the neighbors of several vertices, and the weights in the same order. See
// [Graph.Rows].
func (g *WeightedGraph[W]) Rows(ctx context.Context, vertices []uint32) (offsets []uint64, neighbors []uint32, weights []W, err error) {
	r, err := g.currentRows(ctx, "Rows", vertices)
	return r.offsets, r.ids, batch.View[W](r.weights), err
}

// RowsOn writes the degrees, neighbors and weights of vertices to device memory. See
// [Graph.RowsOn]. It panics if weights is shorter than neighbors.
func (g *WeightedGraph[W]) RowsOn(s *device.Stream, vertices, degrees device.Slice[uint32], offsets device.Slice[uint64], neighbors device.Slice[uint32], weights device.Slice[W]) error {
	if weights.Len() < neighbors.Len() {
		panic(fmt.Sprintf("graph: RowsOn: room for %d neighbors, but for %d weights", neighbors.Len(), weights.Len()))
	}
	b := rowsBatchOn(vertices, degrees, offsets, neighbors)
	b.Columns[batch.Vals] = batch.RowsOn(weights)
	return g.rowsOn(s, "RowsOn", b)
}

// CSR returns an immutable copy of the graph with weights. See [Graph.CSR].
func (g *WeightedGraph[W]) CSR(ctx context.Context) (c *Weighted[W], err error) {
	err = g.read(ctx, nil, func(v *view) error {
		rows, weights, err := g.export(ctx, v, g.loops)
		if err == nil {
			c = NewWeighted(rows, weightsOf[W](weights))
		}
		return err
	})
	return c, wrap("CSR", err)
}

// weightsOf returns a copy of a column of weights.
func weightsOf[W Weight](b []byte) []W { return append([]W(nil), batch.View[W](b)...) }

// InsertCSR inserts the vertices, edges and weights of an immutable graph. See [Graph.InsertCSR].
func (g *WeightedGraph[W]) InsertCSR(ctx context.Context, c *Weighted[W]) (int, error) {
	return g.insertCSR(ctx, c.CSR, batch.Input(c.weights))
}

// Snapshot takes a snapshot with weights. See [Graph.Snapshot].
func (g *WeightedGraph[W]) Snapshot(ctx context.Context) (*WeightedSnapshot[W], error) {
	s, err := g.Graph.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return &WeightedSnapshot[W]{s}, nil
}

// WeightedSnapshot is a [Snapshot] of a [WeightedGraph].
type WeightedSnapshot[W Weight] struct{ *Snapshot }

// Weight looks up the weights of edges of the snapshot. See [WeightedGraph.Weight].
func (s *WeightedSnapshot[W]) Weight(ctx context.Context, from, to []uint32, weights []W, found []bool) (n int, err error) {
	return s.find(ctx, "Weight", edgeBatch(op.Get, from, to, batch.Output(weights), found))
}

// CSR returns the snapshot as an immutable graph with weights. See [Graph.CSR].
func (s *WeightedSnapshot[W]) CSR(ctx context.Context) (*Weighted[W], error) {
	rows, weights, err := s.export(ctx)
	if err != nil {
		return nil, err
	}
	return NewWeighted(rows, weightsOf[W](weights)), nil
}
