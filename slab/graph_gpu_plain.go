package slab

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/op"
)

// plainParams returns the parameters and the grid of the kernels that change edges in place.
func (a *arcBatch) plainParams(b *batch.Batch) (p plainParams, grid device.Dim) {
	e := a.engine
	p = plainParams{graph: graphRefOf(e.Parts(), false), rest: a.overflow.Ptr(), listed: uint32(a.overflow.Len()), ticket: a.ticket}
	p.edges = plainEdges{
		from: b.Columns[batch.Keys].Ptr, to: b.Columns[batch.Keys2].Ptr, n: uint32(b.N), both: uint32(e.arcsPerEdge() - 1), most: uint32(e.maxVertices),
	}
	return p, gpu.Grid(e.arcsIn(b))
}

// nextTicket sets a.ticket to the next ticket. Tickets ascend and wrap around to 1.
func (a *arcBatch) nextTicket() {
	if a.ticket++; a.ticket == 0 {
		a.ticket = 1
	}
}

// checkRange submits a kernel that looks for vertices out of range. If it finds one, it stores the
// ticket of the batch. A later batch stores a larger ticket, until tickets wrap around.
func (a *arcBatch) checkRange(s *device.Stream, p *plainParams) error {
	if p.ticket == 1 {
		if err := s.Fill(p.graph.table.counters+device.Ptr(unsafe.Offsetof(triedWords{}.bad)), 0, 2); err != nil {
			return err
		}
	}
	return device.Launch(s, a.engine.graph.check, gpu.Wave(a.engine.Dev, int(p.edges.n)), gpu.Block, p)
}

// erase submits deletions as one launch. It does not wait.
func (a *arcBatch) erase(ctx context.Context, t *core.Table, method string, s *device.Stream, b *batch.Batch) error {
	arcs := &batch.Batch{N: a.engine.arcsIn(b), Kind: b.Kind}
	return t.SubmitChange(ctx, method, arcs, func(core.Counters) (none core.Counters, err error) {
		p, grid := a.plainParams(b)
		p.rest = 0 // deletions list nothing, and the list may grow while this runs
		return none, a.engine.SubmitUser(s, func() error { return device.Launch(s, a.engine.graph.erase, grid, gpu.Block, &p) })
	})
}

// insert inserts edges in two steps: first the arcs that fit into the current tables, usually most,
// then the others. For a large batch it enlarges all tables first.
func (a *arcBatch) insert(ctx context.Context, t *core.Table, method string, s *device.Stream, b *batch.Batch) error {
	if err := growColumn(ctx, a, &a.overflow, min(a.engine.arcsIn(b), a.maxListed)); err != nil {
		return err
	}
	large := b.N > a.maxEdges
	if large {
		err := t.WithWriteLock(ctx, method, func(now core.Counters) error {
			return t.Policy.(*graphPolicy).reserveBatch(ctx, now, s, b, a.engine.arcsIn(b))
		})
		if err != nil {
			return err
		}
	}
	nOverflow, err := a.insertFitting(ctx, t, method, s, b, large)
	if err != nil || nOverflow <= a.overflow.Len() {
		return errors.Join(err, a.insertOverflow(ctx, t, method, s, nOverflow))
	}
	// The list was too short. Run the batch again in parts, which find the edges inserted by now.
	maxEdges := a.maxListed / a.engine.arcsPerEdge()
	for lo := 0; lo < b.N && err == nil; lo += maxEdges {
		if nOverflow, err = a.insertFitting(ctx, t, method, s, b.Part(lo, min(b.N, lo+maxEdges)), true); err == nil {
			err = a.insertOverflow(ctx, t, method, s, nOverflow)
		}
	}
	return err
}

// insertOverflow submits the n listed arcs that did not fit. The tables are enlarged first.
func (a *arcBatch) insertOverflow(ctx context.Context, t *core.Table, method string, s *device.Stream, n int) error {
	if n == 0 {
		return nil
	}
	arcs := &batch.Batch{N: n, Kind: op.PutNew}
	arcs.Columns[batch.Keys] = batch.InputOn(a.overflow.Sub(0, n))
	err := inOrder(
		func() error { return s.Wait(a.lastUse) },
		func() error { return errors.Join(t.Submit(ctx, s, method, arcs), s.Record(a.lastUse)) })
	// the position in the list means nothing to the caller
	if p := (*op.PartialError)(nil); errors.As(err, &p) {
		err = fmt.Errorf("%s: %s: %w", t.Name, method, p.Err)
	}
	return err
}

// insertFitting inserts the arcs that fit into the current tables. It lists the arcs of vertices
// with tables that must grow, and returns their number. It takes two launches and a wait. Unless
// the batch is already checked, a vertex out of range is an error before anything changes.
func (a *arcBatch) insertFitting(ctx context.Context, t *core.Table, method string, s *device.Stream, b *batch.Batch, checked bool) (nOverflow int, err error) {
	e, n := a.engine, a.engine.arcsIn(b)
	err = t.SubmitChange(ctx, method, &batch.Batch{N: n, Kind: b.Kind}, func(bound core.Counters) (now core.Counters, err error) {
		policy := t.Policy.(*graphPolicy)
		if err := policy.prepareAttempt(ctx, bound, s, n); err != nil {
			return now, err
		}
		a.nextTicket()
		p, grid := a.plainParams(b)
		p.graph.longest, p.flags = e.maxChain(slotsIn(e.Widths.Slot)), uint32(policy.Flags(b.Kind)&batch.Reuse)
		check := p
		if checked {
			check.edges.n = 0
		}
		err = e.SubmitUser(s, func() error {
			return inOrder(
				func() error { return a.checkRange(s, &check) },
				func() error { return device.Launch(s, e.graph.insert, grid, gpu.Block, &p) })
		})
		if err == nil {
			nOverflow, now, err = a.readOutcome(ctx, s, b, p.graph.table.counters)
		}
		return now, err
	})
	return nOverflow, err
}

// readOutcome waits for a batch of insertions that may overflow. From the device memory at from, it
// reads the number of arcs that overflowed, and the counters after the batch.
func (a *arcBatch) readOutcome(ctx context.Context, s *device.Stream, b *batch.Batch, from device.Ptr) (nOverflow int, now core.Counters, err error) {
	ctx = context.WithoutCancel(ctx) // the batch is running
	var r triedWords
	if err := s.CopyOut(ctx, unsafe.Slice((*byte)(unsafe.Pointer(&r)), unsafe.Sizeof(r)), from); err != nil {
		return 0, now, err
	}
	now = core.Counters{Live: r.live, Used: r.used}
	a.engine.SetCounters(now)
	now.Dead, now.Exact = now.Used-now.Live, true
	switch n := a.engine.arcsIn(b); {
	case uint32(r.bad>>32) == a.ticket:
		return 0, now, a.rangeError(ctx, s, b, int(^uint32(r.bad)))
	case int(r.left) > n:
		return 0, now, fmt.Errorf("the device reports %d arcs without room, but the batch has %d",
			r.left, n)
	}
	return int(r.left), now, nil
}

func (a *arcBatch) rangeError(ctx context.Context, s *device.Stream, b *batch.Batch, i int) error {
	var ends [2][1]uint32
	for c, column := range []batch.Role{batch.Keys, batch.Keys2} {
		if err := s.CopyOut(ctx, device.Bytes(ends[c][:]), b.Columns[column].Ptr+device.Ptr(4*i)); err != nil {
			return err
		}
	}
	return rangeError(a.first+i, ends[0][0], ends[1][0], a.engine.maxVertices)
}
