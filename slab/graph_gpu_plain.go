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

// plain returns the parameters of kernels that change edges in place, and the grid.
func (a *arcBatch) plain(b *batch.Batch) (p plainParams, grid device.Dim) {
	e := a.of
	p = plainParams{graph: graphRefOf(e.Parts(), false), rest: a.rest.Ptr(), listed: uint32(a.rest.Len()), ticket: a.ticket}
	p.edges = plainEdges{
		from: b.Columns[batch.Keys].Ptr, to: b.Columns[batch.Keys2].Ptr, n: uint32(b.N), both: uint32(e.arcsEach() - 1), most: uint32(e.most),
	}
	return p, gpu.Grid(e.arcsIn(b))
}

// take takes a ticket, larger than all before, except that tickets wrap around to 1.
func (a *arcBatch) take() {
	if a.ticket++; a.ticket == 0 {
		a.ticket = 1
	}
}

// check submits a kernel that looks for vertices out of range. The largest ticket of such a batch
// stays stored until tickets wrap around.
func (a *arcBatch) check(s *device.Stream, p *plainParams) error {
	if p.ticket == 1 {
		if err := s.Fill(p.graph.table.counters+device.Ptr(unsafe.Offsetof(triedWords{}.bad)), 0, 2); err != nil {
			return err
		}
	}
	return device.Launch(s, a.of.graph.check, gpu.Wave(a.of.Dev, int(p.edges.n)), gpu.Block, p)
}

// erase submits deletions as one launch and does not wait.
func (a *arcBatch) erase(ctx context.Context, t *core.Table, method string, s *device.Stream, b *batch.Batch) error {
	arcs := &batch.Batch{N: a.of.arcsIn(b), Kind: b.Kind}
	return t.Changing(ctx, method, arcs, func(core.Counters) (none core.Counters, err error) {
		p, grid := a.plain(b)
		p.rest = 0 // a list of insertions, which may grow while this runs
		return none, a.of.Try(s, func() error { return device.Launch(s, a.of.graph.erase, grid, gpu.Block, &p) })
	})
}

// insert inserts edges in two steps: first those that fit into the present tables, usually most,
// then the others. For a large batch it enlarges all tables first.
func (a *arcBatch) insert(ctx context.Context, t *core.Table, method string, s *device.Stream, b *batch.Batch) error {
	if err := enlarge(ctx, a, &a.rest, min(a.of.arcsIn(b), a.listed)); err != nil {
		return err
	}
	large := b.N > a.most
	if large {
		err := t.Alone(ctx, method, func(now core.Counters) error {
			return t.Policy.(*graphPolicy).foresee(ctx, now, s, b, a.of.arcsIn(b))
		})
		if err != nil {
			return err
		}
	}
	left, err := a.insertSome(ctx, t, method, s, b, large)
	if err != nil || left <= a.rest.Len() {
		return errors.Join(err, a.insertRest(ctx, t, method, s, left))
	}
	// The list overflowed. Run the batch again in parts; edges inserted by now are found again.
	most := a.listed / a.of.arcsEach()
	for lo := 0; lo < b.N && err == nil; lo += most {
		if left, err = a.insertSome(ctx, t, method, s, b.Part(lo, min(b.N, lo+most)), true); err == nil {
			err = a.insertRest(ctx, t, method, s, left)
		}
	}
	return err
}

// insertRest submits the listed arcs that did not fit, after the tables are enlarged.
func (a *arcBatch) insertRest(ctx context.Context, t *core.Table, method string, s *device.Stream, left int) error {
	if left == 0 {
		return nil
	}
	arcs := &batch.Batch{N: left, Kind: op.PutNew}
	arcs.Columns[batch.Keys] = batch.InOn(a.rest.Sub(0, left))
	err := inOrder(
		func() error { return s.Wait(a.used) },
		func() error { return errors.Join(t.Submit(ctx, s, method, arcs), s.Record(a.used)) })
	if p := (*op.PartialError)(nil); errors.As(err, &p) { // the list is in no order
		err = fmt.Errorf("%s: %s: %w", t.Name, method, p.Err)
	}
	return err
}

// insertSome inserts arcs that fit into the present tables. It lists the others, those of vertices
// with tables that must grow, and returns their number. It takes two launches and a wait. A vertex
// out of range is an error before anything changes, unless the batch is already checked.
func (a *arcBatch) insertSome(ctx context.Context, t *core.Table, method string, s *device.Stream, b *batch.Batch, checked bool) (left int, err error) {
	e, n := a.of, a.of.arcsIn(b)
	err = t.Changing(ctx, method, &batch.Batch{N: n, Kind: b.Kind}, func(bound core.Counters) (now core.Counters, err error) {
		policy := t.Policy.(*graphPolicy)
		if err := policy.tries(ctx, bound, s, n); err != nil {
			return now, err
		}
		a.take()
		p, grid := a.plain(b)
		p.graph.longest, p.flags = e.longest(slotsIn(e.Widths.Slot)), uint32(policy.Flags(b.Kind)&batch.Reuse)
		check := p
		if checked {
			check.edges.n = 0
		}
		err = e.Try(s, func() error {
			return inOrder(
				func() error { return a.check(s, &check) },
				func() error { return device.Launch(s, e.graph.insert, grid, gpu.Block, &p) })
		})
		if err == nil {
			left, now, err = a.report(ctx, s, b, p.graph.table.counters)
		}
		return now, err
	})
	return left, err
}

// report waits for a batch of insertions that may overflow. It reads how many arcs overflowed, and
// the counters after the batch.
func (a *arcBatch) report(ctx context.Context, s *device.Stream, b *batch.Batch, from device.Ptr) (left int, now core.Counters, err error) {
	ctx = context.WithoutCancel(ctx) // the batch is running
	var r triedWords
	if err := s.CopyOut(ctx, unsafe.Slice((*byte)(unsafe.Pointer(&r)), unsafe.Sizeof(r)), from); err != nil {
		return 0, now, err
	}
	now = core.Counters{Live: r.live, Used: r.used}
	a.of.Told(now)
	now.Dead, now.Exact = now.Used-now.Live, true
	switch n := a.of.arcsIn(b); {
	case uint32(r.bad>>32) == a.ticket:
		return 0, now, a.refuse(ctx, s, b, int(^uint32(r.bad)))
	case int(r.left) > n:
		return 0, now, fmt.Errorf("%d arcs are said to find no room, of %d", r.left, n)
	}
	return int(r.left), now, nil
}

// refuse returns the error of an edge with a vertex out of range.
func (a *arcBatch) refuse(ctx context.Context, s *device.Stream, b *batch.Batch, i int) error {
	var ends [2][1]uint32
	for c, column := range []batch.Role{batch.Keys, batch.Keys2} {
		if err := s.CopyOut(ctx, device.Bytes(ends[c][:]), b.Columns[column].Ptr+device.Ptr(4*i)); err != nil {
			return err
		}
	}
	return invalidArc(a.first+i, ends[0][0], ends[1][0], a.of.most)
}
