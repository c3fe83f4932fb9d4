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

// CSR returns an immutable copy of the graph, with neighbors in ascending order. It has a row for
// each vertex up to the largest with an edge. Algorithms (package graph/algo) run on it.
func (g *Graph) CSR(ctx context.Context) (*graphs.CSR, error) {
	c, _, err := downloadGraph[uint32](ctx, &g.graph, false)
	return c, err
}

// CSR returns an immutable copy of the graph with weights. See [Graph.CSR].
func (g *WeightedGraph[W]) CSR(ctx context.Context) (*graphs.Weighted[W], error) {
	c, weights, err := downloadGraph[W](ctx, &g.graph, true)
	if err != nil {
		return nil, err
	}
	return graphs.NewWeighted(c, weights), nil
}

// CSROn returns an immutable copy of the graph on the same device, which the caller must free. The
// rows are not copied through the host. CSROn waits until they are written. A GPU sorts the rows,
// which takes 20 bytes of temporary memory per arc, 28 with weights.
func (g *Graph) CSROn(ctx context.Context, s *device.Stream) (*graphs.DeviceCSR, error) {
	d, _, err := exportGraph[uint32](ctx, &g.graph, "CSROn", s, false)
	return d, err
}

// CSROn returns an immutable copy of the graph with weights on the same device. See [Graph.CSROn].
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

// exportGraph writes all rows to new device memory and waits until they are written.
func exportGraph[W graphs.Weight](ctx context.Context, g *graph, method string, s *device.Stream, weighted bool) (d *graphs.DeviceCSR, weights device.Slice[W], err error) {
	dev := g.core.Device
	if err := errors.Join((&batch.Batch{}).CheckDevice(dev, s), g.readable()); err != nil {
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

// InsertCSR inserts the edges of an immutable graph, except self loops. It returns the number of
// edges that were absent. It returns [weft.ErrOptions] if c has more than MaxVertices vertices.
func (g *Graph) InsertCSR(ctx context.Context, c *graphs.CSR) (int, error) {
	return g.insertRows(ctx, op.PutNew, c, batch.Column{})
}

// InsertCSR inserts the edges of an immutable graph with weights, and replaces the weights of
// existing edges. See [Graph.InsertCSR].
func (g *WeightedGraph[W]) InsertCSR(ctx context.Context, c *graphs.Weighted[W]) (int, error) {
	return g.insertRows(ctx, op.Put, c.CSR, batch.Input(c.AllWeights()))
}

// insertRows inserts the arcs of a graph in parts. It skips the second arc of each undirected edge.
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

// Arcs holds arcs in columns: arc i leads from From[i] to To[i]. The columns are valid until the
// next iteration of the loop.
type Arcs[W Weight] struct {
	From, To []uint32
	Weights  []W // empty without weights
}

// All iterates over the arcs, as pairs of a vertex and its neighbor, in no order. It yields each
// edge of an undirected graph twice, once from each end. It yields an arc exactly once if the arc
// does not change meanwhile. The body of the loop holds no lock and may change the graph. An error
// ends the iteration early. Only Pages returns the error.
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

// Pages iterates over the arcs as All does, in columns of some hundred thousand arcs. The last page
// is empty and has the error, if one occurs or ctx ends.
func (g *Graph) Pages(ctx context.Context) iter.Seq2[Arcs[uint32], error] {
	return pagesOf[uint32](ctx, &g.graph, false)
}

// Pages iterates over the arcs and their weights. See [Graph.Pages].
func (g *WeightedGraph[W]) Pages(ctx context.Context) iter.Seq2[Arcs[W], error] {
	return pagesOf[W](ctx, &g.graph, true)
}

func pagesOf[W Weight](ctx context.Context, g *graph, weighted bool) iter.Seq2[Arcs[W], error] {
	return func(yield func(Arcs[W], error) bool) {
		var page Arcs[W]
		ok := true
		if err := g.readable(); err != nil {
			yield(page, g.wrap("Pages", err))
			return
		}
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
