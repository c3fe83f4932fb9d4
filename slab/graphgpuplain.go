package slab

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
)

// A batch is spread out over as many as 2^mostSpread times the threads that it has arcs, as long as they are no more than spreadThreads.
var mostSpread, spreadThreads = uint32(2), 1 << 17

// plain are the parameters of kernels that change edges where they lie, and the launch.
func (a *arcBatch) plain(b *batch.Batch) (p plainParams, grid device.Dim) {
	e := a.of
	p = plainParams{graph: graphRefOf(e.Parts(), false), rest: a.rest.Ptr(), ticket: a.ticket}
	p.edges = plainEdges{
		from: b.Columns[batch.Keys].Ptr, to: b.Columns[batch.Keys2].Ptr, n: uint32(b.N), both: uint32(e.arcsEach() - 1), most: uint32(e.most),
	}
	n := b.N * e.arcsEach()
	for p.edges.spread < mostSpread && n<<(p.edges.spread+1) <= spreadThreads {
		p.edges.spread++
	}
	return p, gpu.Grid(n << p.edges.spread)
}

// erase submits deletions: one launch, which nothing waits for.
func (a *arcBatch) erase(ctx context.Context, t *core.Table, method string, s *device.Stream, b *batch.Batch) error {
	arcs := &batch.Batch{N: b.N * a.of.arcsEach(), Kind: b.Kind}
	return t.Changing(ctx, method, arcs, func(core.Counters) (none core.Counters, err error) {
		p, grid := a.plain(b)
		p.rest = 0 // of insertions, which may make it larger while this is under way
		return none, a.of.Try(s, func() error { return device.Launch(s, a.of.graph.erase, grid, gpu.Block, &p) })
	})
}

// insert inserts arcs that find room where they are, which are most of them most of the time, and returns how many do not, which lie in
// rest: those of vertices whose tables are to grow. It is two launches and a wait. A vertex that cannot be is an error before anything is
// changed.
func (a *arcBatch) insert(ctx context.Context, t *core.Table, method string, s *device.Stream, b *batch.Batch) (left int, err error) {
	e, n := a.of, b.N*a.of.arcsEach()
	err = t.Changing(ctx, method, &batch.Batch{N: n, Kind: b.Kind}, func(bound core.Counters) (now core.Counters, err error) {
		policy := t.Policy.(*graphPolicy)
		if err := policy.tries(ctx, bound, n); err != nil {
			return now, err
		}
		a.ticket++
		p, grid := a.plain(b)
		p.graph.longest, p.flags = e.longest(slotsIn(e.Widths.Slot)), uint32(policy.Flags(b.Kind)&batch.Reuse)
		err = e.Try(s, func() error {
			return inOrder(
				func() error { return device.Launch(s, e.graph.check, gpu.Wave(e.Dev, b.N), gpu.Block, &p) },
				func() error { return device.Launch(s, e.graph.insert, grid, gpu.Block, &p) })
		})
		var r triedWords
		if err == nil {
			err = s.CopyOut(context.WithoutCancel(ctx), unsafe.Slice((*byte)(unsafe.Pointer(&r)), unsafe.Sizeof(r)), p.graph.table.counters)
		}
		if err != nil {
			return now, err
		}
		now = core.Counters{Live: r.live, Used: r.used}
		e.Told(now)
		now.Dead, now.Exact = now.Used-now.Live, true
		if left = int(r.left); uint32(r.bad>>32) == a.ticket {
			return now, a.refuse(s, b, int(^uint32(r.bad)))
		}
		if left > n {
			return now, fmt.Errorf("%d arcs are said to find no room, of %d", left, n)
		}
		return now, nil
	})
	return left, err
}

// refuse is the error of an edge with a vertex that cannot be.
func (a *arcBatch) refuse(s *device.Stream, b *batch.Batch, i int) error {
	var ends [2][1]uint32
	for c, column := range []batch.Role{batch.Keys, batch.Keys2} {
		if err := s.CopyOut(context.Background(), device.Bytes(ends[c][:]), b.Columns[column].Ptr+device.Ptr(4*i)); err != nil {
			return err
		}
	}
	return invalidArc(a.first+i, ends[0][0], ends[1][0], a.of.most)
}
