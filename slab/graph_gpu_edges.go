package slab

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/op"
)

// mostEdges is the number of edges that are expanded to arcs at a time, and the maximum number of
// listed arcs. mostPlain is the number of edges changed in place at a time.
const (
	mostEdges = 1 << 22
	mostPlain = 1 << 30
)

// arcBatch is device memory for a batch of edges and its arcs. Batches use it one after the other.
type arcBatch struct {
	turn   chan struct{} // holds a token while a call uses the other fields
	of     *gpuGraph
	stream *device.Stream // of batches in host memory
	used   *device.Event  // recorded after the last batch
	bytes  atomic.Int64   // size of the columns

	keys, rest       device.Slice[uint64] // arcs, and arcs that overflow at first
	weights          device.Slice[uint32]
	done, again      device.Slice[bool]
	from, to, values device.Slice[uint32] // edges from host memory
	ok               device.Slice[bool]
	changed          device.Slice[uint64]

	ticket     uint32 // of the last batch of insertions that may overflow
	attempting bool   // whether one is being submitted

	most, listed int // edges expanded at a time, and capacity of rest
	first        int // position in the caller's batch of the current part
}

func (a *arcBatch) open(dev device.Device, of *gpuGraph) (err error) {
	a.of, a.most, a.listed, a.turn = of, mostEdges, mostEdges, make(chan struct{}, 1)
	if a.stream, err = dev.NewStream(); err != nil {
		return err
	}
	if a.used, err = dev.NewEvent(); err != nil {
		return err
	}
	a.changed, err = device.Make[uint64](dev, 1)
	return err
}

func (a *arcBatch) close() (err error) {
	if a.turn == nil { // never opened
		return nil
	}
	a.turn <- struct{}{}
	defer func() { <-a.turn }()
	if a.used != nil {
		err = errors.Join(a.used.Sync(context.Background()), a.used.Close())
		a.used = nil // closed
	}
	if a.stream != nil {
		err = errors.Join(err, a.stream.Close())
	}
	return errors.Join(err, a.keys.Free(), a.rest.Free(), a.weights.Free(), a.done.Free(), a.again.Free(), a.from.Free(), a.to.Free(), a.values.Free(), a.ok.Free(), a.changed.Free())
}

// leastRows is the minimum number of rows of a column.
const leastRows = 256

// enlarge grows a column to at least n rows, after the batch that uses it. The size is a power of
// two, so growing batches mostly find the column large enough.
func enlarge[T device.Elem](ctx context.Context, a *arcBatch, c *device.Slice[T], n int) error {
	if c.Len() >= n {
		return nil
	}
	if err := a.used.Sync(ctx); err != nil {
		return err
	}
	before := c.Len()
	err := c.Free()
	if err == nil {
		*c, err = device.Make[T](a.of.Dev, 1<<bits.Len(uint(max(n, leastRows)-1)))
	}
	a.bytes.Add(int64(c.Len()-before) * int64(unsafe.Sizeof(*new(T))))
	return err
}

// arcsEach returns the number of arcs per edge.
func (e *gpuGraph) arcsEach() int {
	if e.directed {
		return 1
	}
	return 2
}

// apply implements graphEngine.
func (e *gpuGraph) apply(ctx context.Context, t *core.Table, method string, s *device.Stream, b *batch.Batch, count device.Ptr) (n int, err error) {
	a := &e.arcs
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return 0, fmt.Errorf("%s: %s: %w", t.Name, method, ctx.Err())
	}
	if a.used == nil {
		return 0, fmt.Errorf("%s: %s: %w", t.Name, method, op.ErrClosed)
	}
	// Edges are changed in place if their outcomes are not requested and their order does not
	// matter.
	told := b.Columns[batch.OK].Given() || count != 0
	plain, most := s != nil && !told && b.Kind != op.Put, a.most
	if plain {
		most = mostPlain
	}
	for done := 0; done < b.N; {
		part := b.Part(done, min(b.N, done+most))
		var some int
		a.first = done
		switch {
		case plain && b.Kind == op.Delete:
			err = a.erase(ctx, t, method, s, part)
		case plain:
			err = a.insert(ctx, t, method, s, part)
		case s != nil:
			err = a.submit(ctx, t, method, s, part, count)
		default:
			if err = ctx.Err(); err != nil {
				break
			}
			some, err = a.carry(ctx, t, method, part)
		}
		n += some // also of a part that an error ended
		if err != nil {
			err = inEdges(err, done, func(arc int) int { return arc / e.arcsEach() })
			if p := (*op.PartialError)(nil); errors.As(err, &p) {
				b.ClearFrom(p.Done)
			}
			return n, err
		}
		done += part.N
	}
	if s == nil && b.Kind == op.Delete { // the deletion is done, whatever the outcome of this
		_ = t.Changed(ctx, method, func() (int, error) { return -n, nil })
	}
	return n, nil
}

// carry copies a batch of host memory to the device, runs it there, and copies the outcomes back.
func (a *arcBatch) carry(ctx context.Context, t *core.Table, method string, b *batch.Batch) (int, error) {
	err := errors.Join(enlarge(ctx, a, &a.from, b.N), enlarge(ctx, a, &a.to, b.N), enlarge(ctx, a, &a.ok, b.N))
	vals := b.Columns[batch.Vals].Host
	if vals != nil {
		err = errors.Join(err, enlarge(ctx, a, &a.values, b.N))
	}
	if err != nil {
		return 0, err
	}
	s, there := a.stream, &batch.Batch{N: b.N, Kind: b.Kind}
	err = errors.Join( // on an error the copies are not used
		a.from.Sub(0, b.N).CopyFrom(s, batch.View[uint32](b.Columns[batch.Keys].Host)),
		a.to.Sub(0, b.N).CopyFrom(s, batch.View[uint32](b.Columns[batch.Keys2].Host)))
	there.Columns[batch.Keys], there.Columns[batch.Keys2] = batch.InOn(a.from.Sub(0, b.N)), batch.InOn(a.to.Sub(0, b.N))
	there.Columns[batch.OK] = batch.OutputOn(a.ok.Sub(0, b.N))
	if vals != nil {
		err = errors.Join(err, a.values.Sub(0, b.N).CopyFrom(s, batch.View[uint32](vals)))
		there.Columns[batch.Vals] = batch.InOn(a.values.Sub(0, b.N))
	}
	if err != nil {
		return 0, err
	}
	if err := a.submit(ctx, t, method, s, there, a.changed.Ptr()); err != nil {
		return 0, err
	}
	ctx = context.WithoutCancel(ctx) // the batch has run
	if ok := batch.View[bool](b.Columns[batch.OK].Host); ok != nil {
		err = a.ok.Sub(0, b.N).CopyTo(ctx, s, ok)
	}
	var n [1]uint64
	// Sync counts other batches, too.
	err = errors.Join(err, a.changed.CopyTo(ctx, s, n[:]), op.Cause(t.Sync(ctx)))
	return int(n[0]), err
}

// edges returns the parameters of kernels that make arcs of edges and collect the outcomes of
// edges.
func (a *arcBatch) edges(b *batch.Batch) edgesParams {
	return edgesParams{
		from: b.Columns[batch.Keys].Ptr, to: b.Columns[batch.Keys2].Ptr, vals: b.Columns[batch.Vals].Ptr, keys: a.keys.Ptr(), weights: a.weights.Ptr(),
		done: a.done.Ptr(), ok: b.Columns[batch.OK].Ptr, changed: a.changed.Ptr(), n: uint32(b.N), both: uint32(a.of.arcsEach() - 1), most: uint32(a.of.most),
	}
}

// submit makes arcs of a batch on the device, submits them, and submits the collection of outcomes.
// Insertions are first attempted in the present tables, where most succeed. If some overflow, the
// tables are enlarged and all insertions run again. The number of changed edges is added to count.
// If each edge is one arc and count is null, the arcs write the outcomes of edges directly.
func (a *arcBatch) submit(ctx context.Context, t *core.Table, method string, s *device.Stream, b *batch.Batch, count device.Ptr) (err error) {
	e, n, told := a.of, a.of.arcsIn(b), b.Columns[batch.OK].Given()
	picks := count != 0 || told && !e.directed
	err = enlarge(ctx, a, &a.keys, n)
	if picks {
		err = errors.Join(err, enlarge(ctx, a, &a.done, n))
	}
	if b.Columns[batch.Vals].Given() {
		err = errors.Join(err, enlarge(ctx, a, &a.weights, n))
	}
	if err != nil || n == 0 {
		return err
	}
	arcs := &batch.Batch{N: n, Kind: b.Kind}
	arcs.Columns[batch.Keys] = batch.InOn(a.keys.Sub(0, n))
	p := a.edges(b)
	if count != 0 {
		p.changed = count
	}
	switch {
	case picks:
		arcs.Columns[batch.OK] = batch.OutputOn(a.done.Sub(0, n))
	case told:
		arcs.Columns[batch.OK], p.done = b.Columns[batch.OK], p.ok
	}
	if b.Columns[batch.Vals].Given() {
		arcs.Columns[batch.Vals] = batch.InOn(a.weights.Sub(0, n))
	}
	if err := s.Wait(a.used); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Record(a.used)) }()
	launch := func(k device.Kernel) error { return device.Launch(s, k, gpu.Wave(e.Dev, b.N), gpu.Block, &p) }
	if b.Kind == op.Delete {
		err = inOrder(func() error { return launch(e.graph.arcs) }, func() error { return t.Submit(ctx, s, method, arcs) })
	} else {
		p.again, err = a.insertTold(ctx, t, method, s, b, arcs)
	}
	if err != nil || !picks && p.again == 0 {
		return err
	}
	if p.changed == a.changed.Ptr() { // the number of this batch alone
		if err := s.Fill(p.changed, 0, 2); err != nil {
			return err
		}
	}
	return launch(e.graph.pick)
}

// insertTold makes arcs of edges and inserts them. If they run again, it returns the column with
// the outcomes of the second run.
func (a *arcBatch) insertTold(ctx context.Context, t *core.Table, method string, s *device.Stream, b, arcs *batch.Batch) (again device.Ptr, err error) {
	left, ran, err := a.attempt(ctx, t, method, s, b, arcs)
	switch {
	case err != nil || ran && left == 0:
		return 0, err
	case !ran:
		return 0, t.Submit(ctx, s, method, arcs)
	}
	rerun := &batch.Batch{N: arcs.N, Kind: arcs.Kind, Columns: arcs.Columns}
	if arcs.Columns[batch.OK].Given() {
		if err := enlarge(ctx, a, &a.again, arcs.N); err != nil {
			return 0, err
		}
		again = a.again.Ptr()
		rerun.Columns[batch.OK] = batch.OutputOn(a.again.Sub(0, arcs.N))
	}
	return again, t.Submit(ctx, s, method, rerun)
}

// attempt makes arcs of edges and inserts those that fit into the present tables. It returns how
// many do not fit. It does not run if the batch is too large to resolve duplicates in order.
func (a *arcBatch) attempt(ctx context.Context, t *core.Table, method string, s *device.Stream, b, arcs *batch.Batch) (left int, ran bool, err error) {
	err = t.Changing(ctx, method, arcs, func(bound core.Counters) (now core.Counters, err error) {
		if err := t.Policy.(*graphPolicy).tries(ctx, bound, s, arcs.N); err != nil {
			return now, err
		}
		a.take()
		q, _ := a.plain(b)
		q.rest = 0 // not listed here
		p := a.edges(b)
		p.tried, p.ticket = q.graph.table.counters, a.ticket
		err = a.of.Try(s, func() error {
			return inOrder(
				func() error { return a.check(s, &q) },
				func() error { return device.Launch(s, a.of.graph.arcs, gpu.Wave(a.of.Dev, b.N), gpu.Block, &p) })
		})
		if err == nil {
			a.attempting = true
			ran, err = a.of.Attempt(ctx, s, arcs, p.tried+device.Ptr(unsafe.Offsetof(triedWords{}.left)))
			a.attempting = false
		}
		if err != nil {
			return now, err
		}
		left, now, err = a.report(ctx, s, b, p.tried)
		return now, err
	})
	return left, ran, err
}
