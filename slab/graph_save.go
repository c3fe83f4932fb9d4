package slab

import (
	"context"
	"fmt"
	"io"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/savedgraph"
)

// Save writes the edges in the format that Load reads on any device, here and in package graph.
// Changes wait until Save returns.
func (g *graph) Save(ctx context.Context, to io.Writer) error {
	if err := g.readable(); err != nil {
		return g.wrap("Save", err)
	}
	return g.core.WithWriteLock(ctx, "Save", func(core.Counters) error {
		_, err := g.save(ctx, to, func(read func() error) error { return read() })
		return err
	})
}

// savedRows is the number of rows that save reads at a time.
const savedRows = 1 << 16

func (g *graph) savedKind() savedgraph.Kind {
	k := savedgraph.Kind{Letter: g.core.Types.Val.Letter, Weight: g.policy.widths.Val}
	if g.Directed() {
		k.Flags = savedgraph.Directed
	}
	return k
}

// save writes all edges and returns the number of arcs that Load makes of them. It reads the graph
// in parts, each in a call of locked, which takes the writer lock. The caller excludes changes.
func (g *graph) save(ctx context.Context, to io.Writer, locked func(read func() error) error) (arcs int, err error) {
	var all []uint32
	if err := locked(func() (err error) { all, err = g.verticesNow(ctx); return err }); err != nil {
		return 0, err
	}
	k := g.savedKind()
	w, arcsPerEdge := savedgraph.NewWriter(to, k, len(all)), 2
	if g.Directed() {
		arcsPerEdge = 1
	}
	for lo := 0; lo < len(all) && w.Err() == nil; lo += savedRows {
		part := all[lo:min(lo+savedRows, len(all))]
		var offsets []uint64
		var ids []uint32
		var weights []byte
		err := locked(func() (err error) { offsets, ids, weights, err = g.rowsNow(ctx, part, k.Weight > 0); return err })
		if err != nil {
			return 0, err
		}
		for i, u := range part {
			for at := offsets[i]; at < offsets[i+1]; at++ {
				if g.Directed() || u < ids[at] {
					w.Edge(u, ids[at], weights[int(at)*k.Weight:])
					arcs += arcsPerEdge
				}
			}
		}
	}
	return arcs, w.End()
}

// verticesNow returns the vertices up to the last one with neighbors. The caller holds the writer
// lock.
func (g *graph) verticesNow(ctx context.Context) ([]uint32, error) {
	all := sequence(0, g.policy.engine.dict().n)
	degrees := make([]uint32, len(all))
	b := &batch.Batch{N: len(all), Columns: batch.Columns{batch.Keys: batch.Input(all), batch.Counts: batch.Output(degrees)}}
	if err := g.policy.engine.degrees(ctx, nil, g.generation(), b); err != nil {
		return nil, err
	}
	for len(all) > 0 && degrees[len(all)-1] == 0 {
		all = all[:len(all)-1]
	}
	return all, nil
}

// Load inserts the edges of a graph that this package or package graph saved. It skips self loops,
// and keeps one of several parallel edges. If the data is damaged, truncated or of another kind,
// Load returns [weft.ErrFormat]. If vertices are not less than MaxVertices, it returns
// [weft.ErrOptions]. Edges before the damage may have been inserted.
func (g *graph) Load(ctx context.Context, from io.Reader) error {
	err := savedgraph.Load(ctx, from, g.savedKind(), g.policy.opts.MaxVertices, loadedGraph{g})
	if err != nil {
		err = fmt.Errorf("%s: Load: %w", g.core.Name, err)
	}
	return err
}

// loadedGraph adapts a graph to savedgraph.Graph.
type loadedGraph struct{ *graph }

// Vertices implements savedgraph.Graph. It does nothing, since all vertices exist.
func (l loadedGraph) Vertices(context.Context, []uint32) error { return nil }

// Edges implements savedgraph.Graph.
func (l loadedGraph) Edges(ctx context.Context, from, to []uint32, weights []byte) error {
	kind, vals := op.PutNew, batch.Column{}
	if w := l.policy.widths.Val; w > 0 {
		kind, vals = op.Put, batch.Input(weights).WithWidth(w)
	}
	_, err := l.change(ctx, "Load", nil, kind, edgeColumns(from, to, vals, nil))
	return op.Cause(err)
}
