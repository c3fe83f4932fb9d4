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
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/op"
)

// Apply runs a batch of insertions (weft.OpPut) and deletions (weft.OpDelete), in order. It returns
// the number of operations that inserted or deleted an edge. Unless done is nil, done[i] reports
// whether operation i did. Before anything changes, Apply returns [device.ErrInvalid] if there is
// another kind, and [weft.ErrOptions] if a vertex is out of range.
//
// Apply runs two batches: first the edges that end up deleted, then the edges that end up present.
// Concurrent calls may run between the two. After an error some operations may be done. The
// [weft.PartialError] has Done 0: running the whole batch again leads to the intended graph.
func (g *Graph) Apply(ctx context.Context, kinds []weft.OpKind, from, to []uint32, done []bool) (int, error) {
	return g.mixed(ctx, "Apply", nil, op.PutNew, kindsOf(kinds), edgeColumns(from, to, batch.Column{}, done))
}

// Apply runs insertions and deletions in order. It does not read the weights of deletions. See
// [Graph.Apply] for the results.
func (g *WeightedGraph[W]) Apply(ctx context.Context, kinds []weft.OpKind, from, to []uint32, weights []W, done []bool) (int, error) {
	return g.mixed(ctx, "Apply", nil, op.Put, kindsOf(kinds), edgeColumns(from, to, batch.Input(weights), done))
}

// ApplyOn runs insertions and deletions from slices in device memory. kinds holds values of
// [weft.OpKind]: weft.OpPut inserts, any other kind deletes. If counts is given, ApplyOn adds the
// number of operations that inserted or deleted an edge to counts[0]. The call waits until the
// operations are sorted by edge. See [Graph.Apply] for the results.
func (g *Graph) ApplyOn(s *device.Stream, kinds device.Slice[uint8], from, to device.Slice[uint32], done device.Slice[bool], counts ...device.Slice[uint64]) error {
	return g.mixedOn(s, op.PutNew, kinds, edgeColumnsOn(from, to, batch.Column{}, done), counts)
}

// ApplyOn runs insertions and deletions with weights in device memory. See [Graph.ApplyOn].
func (g *WeightedGraph[W]) ApplyOn(s *device.Stream, kinds device.Slice[uint8], from, to device.Slice[uint32], weights device.Slice[W], done device.Slice[bool], counts ...device.Slice[uint64]) error {
	return g.mixedOn(s, op.Put, kinds, edgeColumnsOn(from, to, batch.InputOn(weights), done), counts)
}

func (g *graph) mixedOn(s *device.Stream, put op.Kind, kinds device.Slice[uint8], b *batch.Batch, counts []device.Slice[uint64]) error {
	b.Columns[batch.Kinds] = batch.InputOn(kinds)
	b.MustMatch(g.core.Name, "ApplyOn")
	count, err := g.core.Counter(counts)
	if err = errors.Join(err, b.CheckDevice(g.core.Device, s)); err != nil {
		return g.rerunError("ApplyOn", err)
	}
	e, ok := g.policy.engine.(*gpuGraph)
	if !ok || b.N == 0 {
		return g.mixedOnHost(s, put, b, count)
	}
	run := func() error { return e.columns.mixed(g, s, put, b, count) }
	if g.log.journal == nil {
		return run()
	}
	return g.mixedLogged(context.Background(), "ApplyOn", s, b.N, run, func(l *edgeLogger) (deletes, puts *lastOps) {
		host := l.fetch(s, b)
		if host == nil {
			return nil, nil
		}
		deletes, puts, _ = g.lastOps(put, kindsOn(host), host)
		return deletes, puts
	})
}

func kindsOf(kinds []weft.OpKind) []op.Kind { return batch.View[op.Kind](device.Bytes(kinds)) }

// mixedOnHost runs a mixed batch on a host device, or an empty batch on any device.
func (g *graph) mixedOnHost(s *device.Stream, put op.Kind, b *batch.Batch, count device.Slice[uint64]) error {
	if err := cpu.SyncStream(s); err != nil {
		return g.rerunError("ApplyOn", err)
	}
	n, err := g.mixed(context.Background(), "ApplyOn", s, put, kindsOn(b), b)
	return errors.Join(err, g.policy.engine.addCount(s, count, uint64(n)))
}

// kindsOn returns the kinds of the operations of ApplyOn. The batch must lie in host memory.
func kindsOn(b *batch.Batch) []op.Kind {
	kinds := make([]op.Kind, b.N)
	for i, k := range batch.View[uint8](b.Columns[batch.Kinds].Host) {
		if kinds[i] = op.Delete; op.Kind(k) == op.Put {
			kinds[i] = op.Put
		}
	}
	return kinds
}

// mixed runs a mixed batch in host memory; s is the stream of ApplyOn. It runs the last operation
// on each edge, and derives the results of the earlier operations.
func (g *graph) mixed(ctx context.Context, method string, s *device.Stream, put op.Kind, kinds []op.Kind, b *batch.Batch) (n int, err error) {
	b.Columns[batch.Kinds] = batch.Input(kinds)
	b.MustMatch(g.core.Name, method)
	done := batch.View[bool](b.Columns[batch.OK].Host)
	clear(done)
	if err := g.validateMixed(kinds, b); err != nil {
		return 0, g.core.Partial(method, 0, nil, err)
	}
	deletes, puts, order := g.lastOps(put, kinds, b)
	run := func() error {
		return g.rerunError(method, inOrder(
			func() error { return deletes.run(ctx, g, method) },
			func() error { return puts.run(ctx, g, method) }))
	}
	if g.log.journal == nil {
		err = run()
	} else {
		err = g.mixedLogged(ctx, method, s, b.N, run, func(*edgeLogger) (*lastOps, *lastOps) { return deletes, puts })
	}
	if err != nil {
		return 0, err
	}
	for ops := range eachEdge(order) {
		exists := false
		if kinds[ops[len(ops)-1].at] == op.Delete {
			exists = deletes.next()
		} else {
			exists = !puts.next()
		}
		for _, o := range ops {
			if isPut := kinds[o.at] != op.Delete; isPut != exists {
				exists = isPut
				n++
				if done != nil {
					done[o.at] = true
				}
			}
		}
	}
	return n, nil
}

// lastOps returns the last operation on each edge of a mixed batch, and all operations by edge.
func (g *graph) lastOps(put op.Kind, kinds []op.Kind, b *batch.Batch) (deletes, puts *lastOps, order []edgeOp) {
	deletes, puts, order = &lastOps{kind: op.Delete}, &lastOps{kind: put}, g.byEdge(b)
	for ops := range eachEdge(order) {
		if last := ops[len(ops)-1].at; kinds[last] == op.Delete {
			deletes.add(b, last)
		} else {
			puts.add(b, last)
		}
	}
	return deletes, puts, order
}

// rerunError returns the error of a mixed batch if one of its two batches failed. The operations
// done are not a prefix of the mixed batch, so all of it must run again.
func (g *graph) rerunError(method string, err error) error {
	if err == nil {
		return nil
	}
	return g.core.Partial(method, 0, nil, op.Cause(err))
}

func (g *graph) validateMixed(kinds []op.Kind, b *batch.Batch) error {
	from, to := batch.View[uint32](b.Columns[batch.Keys].Host), batch.View[uint32](b.Columns[batch.Keys2].Host)
	for i, k := range kinds {
		switch limit := g.policy.opts.MaxVertices; {
		case k != op.Put && k != op.Delete:
			return fmt.Errorf("%w: operation %d: edges can be put and deleted, but not by %v",
				device.ErrInvalid, i, k)
		case k == op.Put && uint64(max(from[i], to[i])) >= uint64(limit):
			return rangeError(i, from[i], to[i], limit)
		}
	}
	return nil
}

// edgeOp is the position of an operation, with its edge.
type edgeOp struct {
	edge uint64
	at   int
}

// byEdge sorts the operations of a batch by edge, then by position. It leaves out loops.
func (g *graph) byEdge(b *batch.Batch) []edgeOp {
	order := make([]edgeOp, 0, b.N)
	to := batch.View[uint32](b.Columns[batch.Keys2].Host)
	for i, u := range batch.View[uint32](b.Columns[batch.Keys].Host) {
		v := to[i]
		if !g.Directed() {
			u, v = min(u, v), max(u, v)
		}
		if u != v {
			order = append(order, edgeOp{arcOf(u, v), i})
		}
	}
	slices.SortFunc(order, func(a, b edgeOp) int { return cmp.Or(cmp.Compare(a.edge, b.edge), cmp.Compare(a.at, b.at)) })
	return order
}

// eachEdge yields the operations on each edge.
func eachEdge(order []edgeOp) iter.Seq[[]edgeOp] {
	return func(yield func([]edgeOp) bool) {
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

// lastOps holds the operations of one kind that are the last on their edges.
type lastOps struct {
	kind           op.Kind
	from, to, vals []uint32
	changed        []bool
	at             int
}

func (w *lastOps) add(b *batch.Batch, i int) {
	w.from = append(w.from, batch.View[uint32](b.Columns[batch.Keys].Host)[i])
	w.to = append(w.to, batch.View[uint32](b.Columns[batch.Keys2].Host)[i])
	if vals := batch.View[uint32](b.Columns[batch.Vals].Host); vals != nil && w.kind == op.Put {
		w.vals = append(w.vals, vals[i])
	}
}

func (w *lastOps) run(ctx context.Context, g *graph, method string) error {
	w.changed = make([]bool, len(w.from))
	_, err := g.changeNow(ctx, method, nil, w.kind, w.batch(w.changed), 0)
	return err
}

// batch returns the operations as a batch that writes its results to ok.
func (w *lastOps) batch(ok []bool) *batch.Batch {
	var vals batch.Column
	if w.kind == op.Put {
		vals = batch.Input(w.vals)
	}
	return edgeColumns(w.from, w.to, vals, ok)
}

// next reports whether the next operation changed the graph.
func (w *lastOps) next() bool {
	w.at++
	return w.changed[w.at-1]
}
