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

// Save writes the edges to a stream, as Load reads it on any device, and as graphs of package graph do. Changes wait until it is written.
func (g *graph) Save(ctx context.Context, to io.Writer) error {
	return g.core.Alone(ctx, "Save", func(core.Counters) error { return g.save(ctx, to) })
}

// savedRows is how many rows are read at a time.
const savedRows = 1 << 16

func (g *graph) savedKind() savedgraph.Kind {
	k := savedgraph.Kind{Letter: g.core.Types.Val.Letter, Weight: g.policy.widths.Val}
	if g.Directed() {
		k.Flags = savedgraph.Directed
	}
	return k
}

// save is Save in a writer's turn.
func (g *graph) save(ctx context.Context, to io.Writer) error {
	all := sequence(0, g.policy.engine.dict().n)
	degrees := make([]uint32, len(all))
	b := &batch.Batch{N: len(all), Columns: batch.Columns{batch.Keys: batch.In(all), batch.Counts: batch.Output(degrees)}}
	if err := g.policy.engine.degrees(ctx, nil, g.generation(), b); err != nil {
		return err
	}
	for len(all) > 0 && degrees[len(all)-1] == 0 {
		all = all[:len(all)-1]
	}
	k := g.savedKind()
	w := savedgraph.NewWriter(to, k, len(all))
	for lo := 0; lo < len(all) && w.Err() == nil; lo += savedRows {
		some := all[lo:min(lo+savedRows, len(all))]
		offsets, ids, weights, err := g.rowsNow(ctx, some, k.Weight > 0)
		if err != nil {
			return err
		}
		for i, u := range some {
			for at := offsets[i]; at < offsets[i+1]; at++ {
				if g.Directed() || u < ids[at] {
					w.Edge(u, ids[at], weights[int(at)*k.Weight:])
				}
			}
		}
	}
	return w.End()
}

// Load inserts the edges of a saved graph of this package or of package graph; loops are left out, and of parallel edges one counts. A stream of
// another kind, a damaged one or one that ends early is [weft.ErrFormat], and vertices beyond MaxVertices are [weft.ErrOptions]; of what came before
// the damage some may have been inserted.
func (g *graph) Load(ctx context.Context, from io.Reader) error {
	err := savedgraph.Load(ctx, from, g.savedKind(), g.policy.opts.MaxVertices, loadedGraph{g})
	if err != nil {
		err = fmt.Errorf("%s: Load: %w", g.core.Name, err)
	}
	return err
}

// loadedGraph is a graph that takes what has been saved.
type loadedGraph struct{ *graph }

// Vertices is for [savedgraph.Graph]: all are there.
func (l loadedGraph) Vertices(context.Context, []uint32) error { return nil }

// Edges is for [savedgraph.Graph].
func (l loadedGraph) Edges(ctx context.Context, from, to []uint32, weights []byte) error {
	kind, vals := op.PutNew, batch.Column{}
	if w := l.policy.widths.Val; w > 0 {
		kind, vals = op.Put, batch.In(weights).Of(w)
	}
	_, err := l.change(ctx, "Load", nil, kind, edgeColumns(from, to, vals, nil))
	return op.Cause(err)
}
