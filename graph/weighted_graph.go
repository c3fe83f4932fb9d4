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
// replaces its weight. Weights of 32 bits take as much memory as neighbors, those of 64 bits twice
// that.
type WeightedGraph[W Weight] struct{ *Graph }

// NewWeightedGraph makes a graph without vertices, as [New] does.
func NewWeightedGraph[W Weight](dev device.Device, opts *Options) (*WeightedGraph[W], error) {
	g, err := newStore(dev, core.MapTypes[uint32, W]().Val, opts)
	if err != nil {
		return nil, err
	}
	return &WeightedGraph[W]{&Graph{g}}, nil
}

// Insert is [Graph.Insert] with weights. It also sets the weights of edges that exist.
func (g *WeightedGraph[W]) Insert(ctx context.Context, from, to []uint32, weights []W, inserted []bool) (int, error) {
	return g.change(ctx, nil, "Insert", edgeBatch(op.Put, from, to, batch.Input(weights), inserted))
}

// Apply is [Graph.Apply] with weights; those of deletions are not read.
func (g *WeightedGraph[W]) Apply(ctx context.Context, kinds []weft.OpKind, from, to []uint32, weights []W, done []bool) (int, error) {
	b := edgeBatch(op.Put, from, to, batch.Input(weights), done)
	b.Columns[batch.Kinds] = batch.Input(kinds)
	return g.change(ctx, nil, "Apply", b)
}

// InsertOn is [Graph.InsertOn] with weights.
func (g *WeightedGraph[W]) InsertOn(s *device.Stream, from, to device.Slice[uint32], weights device.Slice[W], inserted device.Slice[bool], counts ...device.Slice[uint64]) error {
	return g.changeOn(s, "InsertOn", edgeBatchOn(op.Put, from, to, batch.InputOn(weights), inserted), counts)
}

// ApplyOn is [Graph.ApplyOn] with weights.
func (g *WeightedGraph[W]) ApplyOn(s *device.Stream, kinds device.Slice[uint8], from, to device.Slice[uint32], weights device.Slice[W], done device.Slice[bool], counts ...device.Slice[uint64]) error {
	b := edgeBatchOn(op.Put, from, to, batch.InputOn(weights), done)
	b.Columns[batch.Kinds] = batch.InputOn(kinds)
	return g.changeOn(s, "ApplyOn", b, counts)
}

// Weight writes the weights of edges, 0 for absent ones, and returns how many edges exist; found,
// unless nil, receives which.
func (g *WeightedGraph[W]) Weight(ctx context.Context, from, to []uint32, weights []W, found []bool) (int, error) {
	return g.find(ctx, "Weight", edgeBatch(op.Get, from, to, batch.Output(weights), found))
}

// WeightOn is Weight for a batch on the device, as [Graph.HasOn].
func (g *WeightedGraph[W]) WeightOn(s *device.Stream, from, to device.Slice[uint32], weights device.Slice[W], found device.Slice[bool], hits ...device.Slice[uint64]) error {
	return g.findOn(s, "WeightOn", edgeBatchOn(op.Get, from, to, batch.OutputOn(weights), found), hits)
}

// Rows is [Graph.Rows] with the weights of the edges in the same order.
func (g *WeightedGraph[W]) Rows(ctx context.Context, vertices []uint32) (offsets []uint64, neighbors []uint32, weights []W, err error) {
	r, err := g.currentRows(ctx, "Rows", vertices)
	return r.offsets, r.ids, batch.View[W](r.weights), err
}

// RowsOn is [Graph.RowsOn] with the weights of the neighbors written. It panics if weights is
// shorter than neighbors.
func (g *WeightedGraph[W]) RowsOn(s *device.Stream, vertices, degrees device.Slice[uint32], offsets device.Slice[uint64], neighbors device.Slice[uint32], weights device.Slice[W]) error {
	if weights.Len() < neighbors.Len() {
		panic(fmt.Sprintf("graph: RowsOn: room for %d neighbors, but for %d weights", neighbors.Len(), weights.Len()))
	}
	b := rowsBatchOn(vertices, degrees, offsets, neighbors)
	b.Columns[batch.Vals] = batch.RowsOn(weights)
	return g.rowsOn(s, "RowsOn", b)
}

// CSR is [Graph.CSR] with weights.
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

// weightsOf returns a column of weights, even if it is empty.
func weightsOf[W Weight](b []byte) []W { return append([]W(nil), batch.View[W](b)...) }

// InsertCSR is [Graph.InsertCSR] with weights.
func (g *WeightedGraph[W]) InsertCSR(ctx context.Context, c *Weighted[W]) (int, error) {
	return g.insertCSR(ctx, c.CSR, batch.Input(c.weights))
}

// Snapshot is [Graph.Snapshot].
func (g *WeightedGraph[W]) Snapshot(ctx context.Context) (*WeightedSnapshot[W], error) {
	s, err := g.Graph.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return &WeightedSnapshot[W]{s}, nil
}

// WeightedSnapshot is a [Snapshot] of a [WeightedGraph].
type WeightedSnapshot[W Weight] struct{ *Snapshot }

// Weight is [WeightedGraph.Weight].
func (s *WeightedSnapshot[W]) Weight(ctx context.Context, from, to []uint32, weights []W, found []bool) (n int, err error) {
	return s.find(ctx, "Weight", edgeBatch(op.Get, from, to, batch.Output(weights), found))
}

// CSR is [WeightedGraph.CSR].
func (s *WeightedSnapshot[W]) CSR(ctx context.Context) (*Weighted[W], error) {
	rows, weights, err := s.export(ctx)
	if err != nil {
		return nil, err
	}
	return NewWeighted(rows, weightsOf[W](weights)), nil
}
