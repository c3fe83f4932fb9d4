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

// mostEdges is how many edges become arcs at a time.
const mostEdges = 1 << 22

// arcBatch is memory of the device for a batch of edges and the arcs that it is for the table, one batch after the other.
type arcBatch struct {
	turn   chan struct{} // has one while a call works with the rest
	of     *gpuGraph
	stream *device.Stream // of batches in host memory
	used   *device.Event  // behind the last batch
	bytes  atomic.Int64   // of the columns

	keys, rest       device.Slice[uint64] // of arcs, and of those that find no room at once
	weights          device.Slice[uint32]
	done             device.Slice[bool]
	from, to, values device.Slice[uint32] // of edges in host memory
	ok               device.Slice[bool]
	changed          device.Slice[uint64]

	ticket uint32 // of the last batch of insertions that need not find room

	most  int // edges that become arcs at a time
	first int // edges of the batch that are before those at work
}

func (a *arcBatch) open(dev device.Device, of *gpuGraph) (err error) {
	a.of, a.most, a.turn = of, mostEdges, make(chan struct{}, 1)
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
	if a.turn == nil { // it has not been opened
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
	return errors.Join(err, a.keys.Free(), a.rest.Free(), a.weights.Free(), a.done.Free(), a.from.Free(), a.to.Free(), a.values.Free(), a.ok.Free(), a.changed.Free())
}

// leastRows is how many rows a column has at least.
const leastRows = 256

// enlarge makes a column have n rows, behind the batch that has it: a power of two, so that batches that get larger find it large
// enough most of the time.
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

// arcsEach is how many arcs an edge has.
func (e *gpuGraph) arcsEach() int {
	if e.directed {
		return 1
	}
	return 2
}

// apply is for [graphEngine].
func (e *gpuGraph) apply(ctx context.Context, t *core.Table, method string, s *device.Stream, b *batch.Batch) (n int, err error) {
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
	for done := 0; done < b.N; {
		part := b.Part(done, min(b.N, done+a.most))
		var some int
		a.first = done
		if s != nil {
			err = a.submit(ctx, t, method, s, part, false)
		} else if err = ctx.Err(); err == nil {
			some, err = a.carry(ctx, t, method, part)
		}
		n += some // also of a part that an error ended
		if err != nil {
			if done > 0 {
				err = &op.PartialError{Done: done, Err: err}
			}
			return n, err
		}
		done += part.N
	}
	if s == nil && b.Kind == op.Delete { // what the core does behind batches of the host
		err = t.Alone(ctx, method, func(now core.Counters) error { return t.Policy.After(ctx, now, -n) })
	}
	return n, err
}

// carry brings a batch of host memory to the device, runs it there, and brings back what became of it.
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
	err = errors.Join( // what was brought is not used behind an error
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
	if err := a.submit(ctx, t, method, s, there, true); err != nil {
		return 0, err
	}
	ctx = context.WithoutCancel(ctx) // it has been run
	if ok := batch.View[bool](b.Columns[batch.OK].Host); ok != nil {
		err = a.ok.Sub(0, b.N).CopyTo(ctx, s, ok)
	}
	var n [1]uint64
	err = errors.Join(err, a.changed.CopyTo(ctx, s, n[:]), t.Sync(ctx))
	return int(n[0]), err
}

// submit makes arcs of a batch on the device, submits them, and what became of its edges. Where nobody wants to know that, deletions and
// edges without weights are run where they lie, and only those that find no room are made arcs.
func (a *arcBatch) submit(ctx context.Context, t *core.Table, method string, s *device.Stream, b *batch.Batch, counts bool) error {
	if b.N == 0 {
		return nil
	}
	told, n := b.Columns[batch.OK].Given() || counts, b.N*a.of.arcsEach()
	switch {
	case told || b.Kind == op.Put:
		return a.resolved(ctx, t, method, s, b, told)
	case b.Kind == op.Delete:
		return a.erase(ctx, t, method, s, b)
	}
	if err := enlarge(ctx, a, &a.rest, n); err != nil {
		return err
	}
	left, err := a.insert(ctx, t, method, s, b)
	if err != nil || left == 0 {
		return err
	}
	arcs := &batch.Batch{N: left, Kind: b.Kind}
	arcs.Columns[batch.Keys] = batch.InOn(a.rest.Sub(0, left))
	return inOrder(
		func() error { return s.Wait(a.used) },
		func() error { return errors.Join(t.Submit(ctx, s, method, arcs), s.Record(a.used)) })
}

// resolved submits arcs whose duplicates are resolved.
func (a *arcBatch) resolved(ctx context.Context, t *core.Table, method string, s *device.Stream, b *batch.Batch, told bool) (err error) {
	e, n := a.of, b.N*a.of.arcsEach()
	err = enlarge(ctx, a, &a.keys, n)
	if told {
		err = errors.Join(err, enlarge(ctx, a, &a.done, n))
	}
	vals := b.Columns[batch.Vals]
	if vals.Given() {
		err = errors.Join(err, enlarge(ctx, a, &a.weights, n))
	}
	if err != nil {
		return err
	}
	p := edgesParams{
		from: b.Columns[batch.Keys].Ptr, to: b.Columns[batch.Keys2].Ptr, vals: vals.Ptr, keys: a.keys.Ptr(), weights: a.weights.Ptr(),
		done: a.done.Ptr(), ok: b.Columns[batch.OK].Ptr, changed: a.changed.Ptr(), n: uint32(b.N), both: uint32(e.arcsEach() - 1), most: uint32(e.most),
	}
	launch := func(k device.Kernel) error { return device.Launch(s, k, gpu.Wave(e.Dev, b.N), gpu.Block, &p) }
	if err := inOrder(func() error { return s.Wait(a.used) }, func() error { return launch(e.graph.arcs) }); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Record(a.used)) }()
	arcs := &batch.Batch{N: n, Kind: b.Kind}
	arcs.Columns[batch.Keys] = batch.InOn(a.keys.Sub(0, n))
	if told {
		arcs.Columns[batch.OK] = batch.OutputOn(a.done.Sub(0, n))
	}
	if vals.Given() {
		arcs.Columns[batch.Vals] = batch.InOn(a.weights.Sub(0, n))
	}
	if err := t.Submit(ctx, s, method, arcs); err != nil || !told {
		return err
	}
	return inOrder(func() error { return s.Fill(a.changed.Ptr(), 0, 2) }, func() error { return launch(e.graph.pick) })
}
