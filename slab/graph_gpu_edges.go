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

// maxExpandedEdges is the maximum number of edges that are converted to arcs at a time, and of arcs
// in the list of overflowed arcs. maxPlainEdges is the maximum number of edges that are changed in
// place at a time.
const (
	maxExpandedEdges = 1 << 22
	maxPlainEdges    = 1 << 30
)

// arcBatch holds device memory for a batch of edges and its arcs. Batches use the memory one after
// the other.
type arcBatch struct {
	sem     chan struct{} // holds a token while a call uses the other fields
	engine  *gpuGraph
	stream  *device.Stream // runs batches from host memory
	lastUse *device.Event  // recorded after the last batch
	bytes   atomic.Int64   // total size of the columns

	keys, overflow   device.Slice[uint64] // all arcs, and the arcs that overflow in an attempt
	weights          device.Slice[uint32]
	done, rerunDone  device.Slice[bool]
	from, to, values device.Slice[uint32] // device copies of edges that lie in host memory
	ok               device.Slice[bool]
	changed          device.Slice[uint64]

	ticket     uint32 // number of the last attempt
	attempting bool   // whether an attempt is being submitted

	maxEdges, maxListed int // edges converted to arcs at a time, and capacity of overflow
	first               int // position of the current part in the caller's batch
}

func (a *arcBatch) open(dev device.Device, of *gpuGraph) (err error) {
	a.engine, a.maxEdges, a.maxListed, a.sem = of, maxExpandedEdges, maxExpandedEdges, make(chan struct{}, 1)
	if a.stream, err = dev.NewStream(); err != nil {
		return err
	}
	if a.lastUse, err = dev.NewEvent(); err != nil {
		return err
	}
	a.changed, err = device.Make[uint64](dev, 1)
	return err
}

func (a *arcBatch) close() (err error) {
	if a.sem == nil { // never opened
		return nil
	}
	a.sem <- struct{}{}
	defer func() { <-a.sem }()
	if a.lastUse != nil {
		err = errors.Join(a.lastUse.Sync(context.Background()), a.lastUse.Close())
		a.lastUse = nil // closed
	}
	if a.stream != nil {
		err = errors.Join(err, a.stream.Close())
	}
	return errors.Join(err, a.keys.Free(), a.overflow.Free(), a.weights.Free(), a.done.Free(), a.rerunDone.Free(), a.from.Free(), a.to.Free(), a.values.Free(), a.ok.Free(), a.changed.Free())
}

// minRows is the minimum number of rows that growColumn allocates for a column.
const minRows = 256

// growColumn grows a column to at least n rows, after the last batch. Sizes are powers of two, so
// that growing batches rarely find a column too short.
func growColumn[T device.Elem](ctx context.Context, a *arcBatch, c *device.Slice[T], n int) error {
	if c.Len() >= n {
		return nil
	}
	if err := a.lastUse.Sync(ctx); err != nil {
		return err
	}
	before := c.Len()
	err := c.Free()
	if err == nil {
		*c, err = device.Make[T](a.engine.Dev, 1<<bits.Len(uint(max(n, minRows)-1)))
	}
	a.bytes.Add(int64(c.Len()-before) * int64(unsafe.Sizeof(*new(T))))
	return err
}

func (e *gpuGraph) arcsPerEdge() int {
	if e.directed {
		return 1
	}
	return 2
}

// apply implements graphEngine.
func (e *gpuGraph) apply(ctx context.Context, t *core.Table, method string, s *device.Stream, b *batch.Batch, count device.Ptr) (n int, err error) {
	a := &e.arcs
	select {
	case a.sem <- struct{}{}:
		defer func() { <-a.sem }()
	case <-ctx.Done():
		return 0, fmt.Errorf("%s: %s: %w", t.Name, method, ctx.Err())
	}
	if a.lastUse == nil {
		return 0, fmt.Errorf("%s: %s: %w", t.Name, method, op.ErrClosed)
	}
	// Edges are changed in place if no results are requested and their order does not matter.
	outcomes := b.Columns[batch.OK].Given() || count != 0
	plain, limit := s != nil && !outcomes && b.Kind != op.Put, a.maxEdges
	if plain {
		limit = maxPlainEdges
	}
	for done := 0; done < b.N; {
		part := b.Part(done, min(b.N, done+limit))
		var changed int
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
			changed, err = a.runHost(ctx, t, method, part)
		}
		n += changed // includes a part that an error ended
		if err != nil {
			err = inEdges(err, done, func(arc int) int { return arc / e.arcsPerEdge() })
			if p := (*op.PartialError)(nil); errors.As(err, &p) {
				b.ClearFrom(p.Done)
			}
			return n, err
		}
		done += part.N
	}
	if s == nil && b.Kind == op.Delete { // free memory; the deletion is done even if this fails
		_ = t.RunChange(ctx, method, func() (int, error) { return -n, nil })
	}
	return n, nil
}

// runHost copies a batch from host memory to the device, runs it, and copies the results back.
func (a *arcBatch) runHost(ctx context.Context, t *core.Table, method string, b *batch.Batch) (int, error) {
	err := errors.Join(growColumn(ctx, a, &a.from, b.N), growColumn(ctx, a, &a.to, b.N), growColumn(ctx, a, &a.ok, b.N))
	vals := b.Columns[batch.Vals].Host
	if vals != nil {
		err = errors.Join(err, growColumn(ctx, a, &a.values, b.N))
	}
	if err != nil {
		return 0, err
	}
	s, onDevice := a.stream, &batch.Batch{N: b.N, Kind: b.Kind}
	err = errors.Join( // after an error the copies are not used
		a.from.Sub(0, b.N).CopyFrom(s, batch.View[uint32](b.Columns[batch.Keys].Host)),
		a.to.Sub(0, b.N).CopyFrom(s, batch.View[uint32](b.Columns[batch.Keys2].Host)))
	onDevice.Columns[batch.Keys], onDevice.Columns[batch.Keys2] = batch.InputOn(a.from.Sub(0, b.N)), batch.InputOn(a.to.Sub(0, b.N))
	onDevice.Columns[batch.OK] = batch.OutputOn(a.ok.Sub(0, b.N))
	if vals != nil {
		err = errors.Join(err, a.values.Sub(0, b.N).CopyFrom(s, batch.View[uint32](vals)))
		onDevice.Columns[batch.Vals] = batch.InputOn(a.values.Sub(0, b.N))
	}
	if err != nil {
		return 0, err
	}
	if err := a.submit(ctx, t, method, s, onDevice, a.changed.Ptr()); err != nil {
		return 0, err
	}
	ctx = context.WithoutCancel(ctx) // the batch has run
	if ok := batch.View[bool](b.Columns[batch.OK].Host); ok != nil {
		err = a.ok.Sub(0, b.N).CopyTo(ctx, s, ok)
	}
	var n [1]uint64
	// Sync also counts other batches.
	err = errors.Join(err, a.changed.CopyTo(ctx, s, n[:]), op.Cause(t.Sync(ctx)))
	return int(n[0]), err
}

// edgesParams returns the parameters of the kernels that convert edges to arcs and results of arcs
// to results of edges.
func (a *arcBatch) edgesParams(b *batch.Batch) edgesParams {
	return edgesParams{
		from: b.Columns[batch.Keys].Ptr, to: b.Columns[batch.Keys2].Ptr, vals: b.Columns[batch.Vals].Ptr, keys: a.keys.Ptr(), weights: a.weights.Ptr(),
		done: a.done.Ptr(), ok: b.Columns[batch.OK].Ptr, changed: a.changed.Ptr(), n: uint32(b.N), both: uint32(a.engine.arcsPerEdge() - 1), most: uint32(a.engine.maxVertices),
	}
}

// submit converts a batch of edges on the device to arcs, submits the arcs, and submits the
// collection of their results. Insertions are first attempted in the current tables, where most
// succeed. If any overflow, the tables are enlarged and all insertions run again. submit adds the
// number of changed edges to count. If each edge is one arc and count is null, the arcs write the
// results of the edges directly.
func (a *arcBatch) submit(ctx context.Context, t *core.Table, method string, s *device.Stream, b *batch.Batch, count device.Ptr) (err error) {
	e, n, outcomes := a.engine, a.engine.arcsIn(b), b.Columns[batch.OK].Given()
	picks := count != 0 || outcomes && !e.directed
	err = growColumn(ctx, a, &a.keys, n)
	if picks {
		err = errors.Join(err, growColumn(ctx, a, &a.done, n))
	}
	if b.Columns[batch.Vals].Given() {
		err = errors.Join(err, growColumn(ctx, a, &a.weights, n))
	}
	if err != nil || n == 0 {
		return err
	}
	arcs := &batch.Batch{N: n, Kind: b.Kind}
	arcs.Columns[batch.Keys] = batch.InputOn(a.keys.Sub(0, n))
	p := a.edgesParams(b)
	if count != 0 {
		p.changed = count
	}
	switch {
	case picks:
		arcs.Columns[batch.OK] = batch.OutputOn(a.done.Sub(0, n))
	case outcomes:
		arcs.Columns[batch.OK], p.done = b.Columns[batch.OK], p.ok
	}
	if b.Columns[batch.Vals].Given() {
		arcs.Columns[batch.Vals] = batch.InputOn(a.weights.Sub(0, n))
	}
	if err := s.Wait(a.lastUse); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Record(a.lastUse)) }()
	launch := func(k device.Kernel) error { return device.Launch(s, k, gpu.Wave(e.Dev, b.N), gpu.Block, &p) }
	if b.Kind == op.Delete {
		err = inOrder(func() error { return launch(e.graph.arcs) }, func() error { return t.Submit(ctx, s, method, arcs) })
	} else {
		p.again, err = a.insertWithOutcomes(ctx, t, method, s, b, arcs)
	}
	if err != nil || !picks && p.again == 0 {
		return err
	}
	if p.changed == a.changed.Ptr() { // count only this batch
		if err := s.Fill(p.changed, 0, 2); err != nil {
			return err
		}
	}
	return launch(e.graph.pick)
}

// insertWithOutcomes converts edges to arcs and inserts them. If they run again, it returns the
// column with the results of the second run.
func (a *arcBatch) insertWithOutcomes(ctx context.Context, t *core.Table, method string, s *device.Stream, b, arcs *batch.Batch) (rerunDone device.Ptr, err error) {
	nOverflow, ran, err := a.insertAttempt(ctx, t, method, s, b, arcs)
	switch {
	case err != nil || ran && nOverflow == 0:
		return 0, err
	case !ran:
		return 0, t.Submit(ctx, s, method, arcs)
	}
	rerun := &batch.Batch{N: arcs.N, Kind: arcs.Kind, Columns: arcs.Columns}
	if arcs.Columns[batch.OK].Given() {
		if err := growColumn(ctx, a, &a.rerunDone, arcs.N); err != nil {
			return 0, err
		}
		rerunDone = a.rerunDone.Ptr()
		rerun.Columns[batch.OK] = batch.OutputOn(a.rerunDone.Sub(0, arcs.N))
	}
	return rerunDone, t.Submit(ctx, s, method, rerun)
}

// insertAttempt converts edges to arcs and inserts the arcs that fit into the current tables. It
// returns the number that do not fit. It does not run if the batch is too large for ordering
// duplicates.
func (a *arcBatch) insertAttempt(ctx context.Context, t *core.Table, method string, s *device.Stream, b, arcs *batch.Batch) (nOverflow int, ran bool, err error) {
	err = t.SubmitChange(ctx, method, arcs, func(bound core.Counters) (now core.Counters, err error) {
		if err := t.Policy.(*graphPolicy).prepareAttempt(ctx, bound, s, arcs.N); err != nil {
			return now, err
		}
		a.nextTicket()
		q, _ := a.plainParams(b)
		q.rest = 0 // these are not listed
		p := a.edgesParams(b)
		p.tried, p.ticket = q.graph.table.counters, a.ticket
		err = a.engine.SubmitUser(s, func() error {
			return inOrder(
				func() error { return a.checkRange(s, &q) },
				func() error { return device.Launch(s, a.engine.graph.arcs, gpu.Wave(a.engine.Dev, b.N), gpu.Block, &p) })
		})
		if err == nil {
			a.attempting = true
			ran, err = a.engine.SubmitCounting(ctx, s, arcs, p.tried+device.Ptr(unsafe.Offsetof(triedWords{}.left)))
			a.attempting = false
		}
		if err != nil {
			return now, err
		}
		nOverflow, now, err = a.readOutcome(ctx, s, b, p.tried)
		return now, err
	})
	return nOverflow, ran, err
}
