package graph

import (
	"context"
	"io"

	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/savedgraph"
)

func (g *store) savedKind() savedgraph.Kind {
	k := savedgraph.Kind{Letter: g.weights.Letter, Weight: g.weight}
	if g.opts.Directed {
		k.Flags |= savedgraph.Directed
	}
	if g.opts.SelfLoops {
		k.Flags |= savedgraph.Loops
	}
	if g.opts.Multi {
		k.Flags |= savedgraph.Multi
	}
	return k
}

// savedRows is the number of rows that save reads at a time.
const savedRows = 1 << 16

// save writes the vertices and edges of a view.
func (g *store) save(ctx context.Context, v *view, to io.Writer) error {
	w := savedgraph.NewWriter(to, g.savedKind(), v.vertices)
	alive, err := g.engine.readAlive(ctx, v)
	if err != nil {
		return err
	}
	for u := range uint32(v.vertices) {
		if alive[u/32]>>(u%32)&1 != 0 {
			w.Vertex(u)
		}
	}
	for lo := 0; lo < v.vertices && w.Err() == nil; lo += savedRows {
		vertices := make([]uint32, min(savedRows, v.vertices-lo))
		for i := range vertices {
			vertices[i] = uint32(lo + i)
		}
		r, err := g.rowsOf(ctx, v, vertices, len(vertices))
		if err != nil {
			return err
		}
		for i, u := range vertices {
			for at := r.offsets[i]; at < r.offsets[i+1]; at++ {
				if g.opts.Directed || u <= r.ids[at] {
					w.Edge(u, r.ids[at], r.weights[int(at)*v.weight:])
				}
			}
		}
	}
	return w.End()
}

func (g *store) load(ctx context.Context, in io.Reader) error {
	return savedgraph.Load(ctx, in, g.savedKind(), g.opts.MaxVertices, loaded{g})
}

// loaded adapts a store to savedgraph.Graph.
type loaded struct{ *store }

// Vertices implements savedgraph.Graph.
func (l loaded) Vertices(ctx context.Context, ids []uint32) error {
	_, err := l.insertVertices(ctx, "vertices", ids)
	return wrap("vertices", op.Cause(err))
}

// Edges implements savedgraph.Graph.
func (l loaded) Edges(ctx context.Context, from, to []uint32, weights []byte) error {
	_, err := l.change(ctx, nil, "edges", edgeBatch(op.Put, from, to, l.weightColumn(weights), nil))
	return wrap("edges", op.Cause(err))
}
