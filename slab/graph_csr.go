package slab

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/weftgo/weft/device"
	graphs "github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

// ---- rows that do not change --------------------------------------------------

// CSR returns the graph as immutable rows, with neighbors in ascending order, for all vertices up
// to the largest with an edge. Algorithms (package graph/algo) run on it.
func (g *Graph) CSR(ctx context.Context) (*graphs.CSR, error) {
	c, _, err := downloadGraph[uint32](ctx, &g.graph, false)
	return c, err
}

// CSR is [Graph.CSR] with weights.
func (g *WeightedGraph[W]) CSR(ctx context.Context) (*graphs.Weighted[W], error) {
	c, weights, err := downloadGraph[W](ctx, &g.graph, true)
	if err != nil {
		return nil, err
	}
	return graphs.NewWeighted(c, weights), nil
}

// CSROn is CSR in the memory of the graph's device, without a copy through the host. It waits for
// the rows to be written. A GPU sorts them, in another 20 bytes per arc, 28 with weights.
func (g *Graph) CSROn(ctx context.Context, s *device.Stream) (*graphs.DeviceCSR, error) {
	d, _, err := exportGraph[uint32](ctx, &g.graph, "CSROn", s, false)
	return d, err
}

// CSROn is [Graph.CSROn] with weights.
func (g *WeightedGraph[W]) CSROn(ctx context.Context, s *device.Stream) (*graphs.DeviceWeighted[W], error) {
	d, weights, err := exportGraph[W](ctx, &g.graph, "CSROn", s, true)
	if err != nil {
		return nil, err
	}
	return graphs.NewDeviceWeighted(d, weights), nil
}

// downloadGraph copies all rows to host memory.
func downloadGraph[W graphs.Weight](ctx context.Context, g *graph, weighted bool) (c *graphs.CSR, weights []W, err error) {
	s, err := g.core.Device.NewStream()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: CSR: %w", g.core.Name, err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	d, deviceWeights, err := exportGraph[W](ctx, g, "CSR", s, weighted)
	if err != nil {
		return nil, nil, err
	}
	if c, err = d.Download(ctx, s); err == nil && weighted {
		weights = make([]W, deviceWeights.Len())
		err = deviceWeights.CopyTo(ctx, s, weights)
	}
	return c, weights, errors.Join(err, d.Free(), deviceWeights.Free())
}

// exportGraph writes all rows to new memory and waits for that.
func exportGraph[W graphs.Weight](ctx context.Context, g *graph, method string, s *device.Stream, weighted bool) (d *graphs.DeviceCSR, weights device.Slice[W], err error) {
	dev := g.core.Device
	if err := (&batch.Batch{}).CheckDevice(dev, s); err != nil {
		return nil, weights, fmt.Errorf("%s: %s: %w", g.core.Name, method, err)
	}
	err = g.core.WithWriteLock(ctx, method, func(now core.Counters) (err error) {
		b := &batch.Batch{N: int(now.Live)}
		targets, err := device.Make[uint32](dev, b.N)
		if err == nil && weighted {
			weights, err = device.Make[W](dev, b.N)
			b.Columns[batch.Vals] = batch.OutputOn(weights)
		}
		b.Columns[batch.OutKeys] = batch.OutputOn(targets)
		var offsets device.Slice[uint64]
		if err == nil {
			offsets, err = g.policy.engine.exportRows(ctx, s, b)
		}
		if err == nil {
			d, err = graphs.NewDeviceCSR(offsets, targets, &graphs.Options{Directed: g.Directed()})
		}
		if err != nil {
			err = errors.Join(err, s.Sync(context.Background()), offsets.Free(), targets.Free(), weights.Free())
		}
		return err
	})
	return d, weights, err
}

// InsertCSR inserts the edges of an immutable graph, without self loops, and returns how many were
// absent. It returns [weft.ErrOptions] if the graph has more than MaxVertices vertices.
func (g *Graph) InsertCSR(ctx context.Context, c *graphs.CSR) (int, error) {
	return g.insertRows(ctx, op.PutNew, c, batch.Column{})
}

// InsertCSR is [Graph.InsertCSR] with weights. It also sets the weights of edges that exist.
func (g *WeightedGraph[W]) InsertCSR(ctx context.Context, c *graphs.Weighted[W]) (int, error) {
	return g.insertRows(ctx, op.Put, c.CSR, batch.Input(c.AllWeights()))
}

// insertRows inserts the arcs of a graph part by part. It skips the second arc of an undirected
// edge.
func (g *graph) insertRows(ctx context.Context, kind op.Kind, c *graphs.CSR, vals batch.Column) (n int, err error) {
	const method = "InsertCSR"
	if limit := g.policy.opts.MaxVertices; c.Vertices() > limit {
		return 0, fmt.Errorf("%s: %s: %w", g.core.Name, method, core.Invalid("%d vertices, MaxVertices is %d", c.Vertices(), limit))
	}
	all := batch.View[uint32](vals.Host)
	var from, to, weights []uint32
	flush := func() error {
		var column batch.Column
		if all != nil {
			column = batch.Input(weights)
		}
		changed, err := g.change(ctx, method, nil, kind, edgeColumns(from, to, column, nil))
		n += changed
		from, to, weights = from[:0], to[:0], weights[:0]
		if err != nil {
			err = fmt.Errorf("%s: %s: %w", g.core.Name, method, op.Cause(err))
		}
		return err
	}
	for u := range uint32(c.Vertices()) {
		first := c.Offsets()[u]
		for i, v := range c.Neighbors(u) {
			if !g.Directed() && !c.Directed() && v < u {
				continue
			}
			if from, to = append(from, u), append(to, v); all != nil {
				weights = append(weights, all[first+uint64(i)])
			}
			if len(from) == maxExpandedEdges {
				if err := flush(); err != nil {
					return n, err
				}
			}
		}
	}
	return n, flush()
}

// ---- iteration ----------------------------------------------------------------

// Arcs holds edges in columns: edge i leads from From[i] to To[i]. They are valid until the next
// iteration of the loop.
type Arcs[W Weight] struct {
	From, To []uint32
	Weights  []W // empty, if the graph has none
}

// All iterates over the arcs, vertices and their neighbors, in no order. It yields each edge of an
// undirected graph twice, once from each end. An edge that does not change meanwhile is seen
// exactly once from each end. The body of the loop holds no lock and may change the graph. An
// iteration ends early on an error, which only Pages returns.
func (g *graph) All() iter.Seq2[uint32, uint32] {
	return func(yield func(u, v uint32) bool) {
		for page := range pagesOf[uint32](context.Background(), g, false) {
			for i, u := range page.From {
				if !yield(u, page.To[i]) {
					return
				}
			}
		}
	}
}

// Pages iterates as All does, in columns of some hundred thousand arcs. An error, or the end of
// ctx, comes with the last, empty page.
func (g *Graph) Pages(ctx context.Context) iter.Seq2[Arcs[uint32], error] {
	return pagesOf[uint32](ctx, &g.graph, false)
}

// Pages is [Graph.Pages] with weights.
func (g *WeightedGraph[W]) Pages(ctx context.Context) iter.Seq2[Arcs[W], error] {
	return pagesOf[W](ctx, &g.graph, true)
}

func pagesOf[W Weight](ctx context.Context, g *graph, weighted bool) iter.Seq2[Arcs[W], error] {
	return func(yield func(Arcs[W], error) bool) {
		var page Arcs[W]
		ok := true
		err := g.core.Pages(ctx, "Pages", nil, func(p *core.Page) bool {
			page.From, page.To = page.From[:0], page.To[:0]
			for _, arc := range batch.View[uint64](p.Keys.Host) {
				page.From, page.To = append(page.From, uint32(arc>>32)), append(page.To, uint32(arc))
			}
			if weighted {
				page.Weights = batch.View[W](p.Vals.Host)
			}
			ok = yield(page, nil)
			return ok
		})
		if err != nil && ok {
			yield(Arcs[W]{}, err)
		}
	}
}
