package slab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

// Apply runs a mixed batch of weft.OpPut and weft.OpDelete, in its order, and returns how many times it inserted or deleted an edge; done,
// unless nil, receives which operations did. Other kinds are [device.ErrInvalid], and a vertex that cannot be is [weft.ErrOptions]; then nothing is run.
//
// It runs as two batches, of the edges that it leaves out and of those that it leaves in: calls beside it may come between these, and
// behind an error the first may be done. To run it again leads to what it should have led to.
func (g *Graph) Apply(ctx context.Context, kinds []weft.OpKind, from, to []uint32, done []bool) (int, error) {
	return g.mixed(ctx, op.PutNew, kinds, edgeColumns(from, to, batch.Column{}, done))
}

// Apply is [Graph.Apply] with weights, which count where the operation is weft.OpPut.
func (g *WeightedGraph[W]) Apply(ctx context.Context, kinds []weft.OpKind, from, to []uint32, weights []W, done []bool) (int, error) {
	return g.mixed(ctx, op.Put, kinds, edgeColumns(from, to, batch.In(weights), done))
}

// mixed runs a mixed batch of the host: of each edge, its last operation. What that finds tells what those before it found.
func (g *graph) mixed(ctx context.Context, put op.Kind, kinds []op.Kind, b *batch.Batch) (n int, err error) {
	b.Columns[batch.Kinds] = batch.In(kinds)
	b.MustMatch(g.core.Name, "Apply")
	done := batch.View[bool](b.Columns[batch.OK].Host)
	clear(done)
	if err := g.admitMixed(kinds, b); err != nil {
		return 0, fmt.Errorf("%s: Apply: %w", g.core.Name, err)
	}
	puts, deletes := lastWords{kind: put}, lastWords{kind: op.Delete}
	order := g.byEdge(b)
	for same := range eachEdge(order) {
		if last := same[len(same)-1].at; kinds[last] == op.Delete {
			deletes.add(b, last)
		} else {
			puts.add(b, last)
		}
	}
	if err = deletes.run(ctx, g); err == nil {
		err = puts.run(ctx, g)
	}
	if p := (*op.PartialError)(nil); errors.As(err, &p) { // which counts operations of a part
		err = fmt.Errorf("%s: Apply: %w", g.core.Name, p.Err)
	}
	if err != nil {
		return 0, err
	}
	for same := range eachEdge(order) {
		there := false
		if kinds[same[len(same)-1].at] == op.Delete {
			there = deletes.next()
		} else {
			there = !puts.next()
		}
		for _, o := range same {
			if puts := kinds[o.at] != op.Delete; puts != there {
				there = puts
				n++
				if done != nil {
					done[o.at] = true
				}
			}
		}
	}
	return n, nil
}

// admitMixed checks a mixed batch before anything is changed.
func (g *graph) admitMixed(kinds []op.Kind, b *batch.Batch) error {
	from, to := batch.View[uint32](b.Columns[batch.Keys].Host), batch.View[uint32](b.Columns[batch.Keys2].Host)
	for i, k := range kinds {
		switch most := g.policy.opts.MaxVertices; {
		case k != op.Put && k != op.Delete:
			return fmt.Errorf("%w: operation %d: edges are put and deleted, and there is no %v", device.ErrInvalid, i, k)
		case k == op.Put && uint64(max(from[i], to[i])) >= uint64(most):
			return invalidArc(i, from[i], to[i], most)
		}
	}
	return nil
}

// ofEdge is an operation of a batch, by its edge.
type ofEdge struct {
	edge uint64
	at   int
}

// byEdge are the operations of a batch in the order of edges, those on one edge in theirs; loops are left out.
func (g *graph) byEdge(b *batch.Batch) []ofEdge {
	order := make([]ofEdge, 0, b.N)
	to := batch.View[uint32](b.Columns[batch.Keys2].Host)
	for i, u := range batch.View[uint32](b.Columns[batch.Keys].Host) {
		v := to[i]
		if !g.Directed() {
			u, v = min(u, v), max(u, v)
		}
		if u != v {
			order = append(order, ofEdge{arcOf(u, v), i})
		}
	}
	slices.SortFunc(order, func(a, b ofEdge) int { return cmp.Or(cmp.Compare(a.edge, b.edge), cmp.Compare(a.at, b.at)) })
	return order
}

// eachEdge are the operations on each edge.
func eachEdge(order []ofEdge) iter.Seq[[]ofEdge] {
	return func(yield func([]ofEdge) bool) {
		for lo, hi := 0, 0; lo < len(order); lo = hi {
			for hi = lo + 1; hi < len(order) && order[hi].edge == order[lo].edge; {
				hi++
			}
			if !yield(order[lo:hi]) {
				return
			}
		}
	}
}

// lastWords are operations of a kind that are the last ones on their edges.
type lastWords struct {
	kind           op.Kind
	from, to, vals []uint32
	changed        []bool
	at             int
}

func (w *lastWords) add(b *batch.Batch, i int) {
	w.from = append(w.from, batch.View[uint32](b.Columns[batch.Keys].Host)[i])
	w.to = append(w.to, batch.View[uint32](b.Columns[batch.Keys2].Host)[i])
	if vals := batch.View[uint32](b.Columns[batch.Vals].Host); vals != nil && w.kind == op.Put {
		w.vals = append(w.vals, vals[i])
	}
}

func (w *lastWords) run(ctx context.Context, g *graph) error {
	w.changed = make([]bool, len(w.from))
	var vals batch.Column
	if w.kind == op.Put {
		vals = batch.In(w.vals)
	}
	_, err := g.change(ctx, "Apply", nil, w.kind, edgeColumns(w.from, w.to, vals, w.changed))
	return err
}

// next is whether the next of them changed the graph.
func (w *lastWords) next() bool {
	w.at++
	return w.changed[w.at-1]
}
