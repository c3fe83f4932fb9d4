package ordered

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/prim"
	"github.com/weftgo/weft/internal/op"
)

//go:generate go run ../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 -widths 32_32,32_64,64_32,64_64 -type ordered::Index=indexRef ordered.cu
//go:generate go run ../cmd/weftgen -target 80+ptx83,90+ptx83 -struct weft::ordered::Content -struct weft::ordered::Hot -struct weft::ordered::Leaves -type ordered::Content=content -type ordered::Hot=hotRecord -type ordered::Leaves=leavesRecord settle.cuh

// gpuEngine runs the kernels of ordered.cu.
//
// Changes run one after the other on all streams. Each change writes new leaves in place of those
// that it touches, and a new index. A lookup submitted after a change reads the new index, once the
// device has written it. So lookups run alongside later changes, and a snapshot is a retained
// index. The host keeps an upper bound on the number of leaves, and waits only if memory for them
// may be short. While memory suffices, it waits at most for the plan of the last batch. See
// [planResults].
type gpuEngine struct {
	gpu.Queue
	kernels
	leases *core.Leases
	pool   *gpuPool
	prims  *prim.Kernels
	order  uint64
	fill   int

	work      gpu.Work
	lists     gpu.Work // memory for the search for free leaves
	results   planResults
	cached    core.Counters
	stale     bool // changes have been submitted since cached was read
	minLeaves int  // number of leaves for which memory is always kept
	pinned    int  // number of open snapshots and iterations
}

// kernels holds the kernels that are compiled for one pair of key and value widths.
type kernels struct {
	get, seek, count, ranges, copy, before                                            device.Kernel
	kernel, settlePuts, plan, planGaps, write, writeGaps, enter, load, refill, reread device.Kernel
	finish, finishAll, mark, survey, collect, add                                     device.Kernel
}

func newGPUEngine(dev device.Device, w batch.Widths, order uint64, fill int) (engine, *core.Leases, error) {
	e := &gpuEngine{order: order, fill: fill}
	if err := e.open(dev, w); err != nil {
		return nil, nil, errors.Join(err, e.Close())
	}
	return e, e.leases, nil
}

func (e *gpuEngine) open(dev device.Device, w batch.Widths) (err error) {
	if err = e.Open(dev, w); err != nil {
		return err
	}
	if e.prims, err = prim.Load(dev); err != nil {
		return err
	}
	k := &e.kernels
	err = gpu.Load(dev, orderedImages[gpu.Variant(w)], []gpu.Entry{
		{Name: "get", To: &k.get}, {Name: "seek", To: &k.seek}, {Name: "count", To: &k.count}, {Name: "range", To: &k.ranges},
		{Name: "copy", To: &k.copy}, {Name: "before", To: &k.before},
		{Name: "settle", To: &k.kernel}, {Name: "settle_puts", To: &k.settlePuts}, {Name: "plan", To: &k.plan}, {Name: "plan_gaps", To: &k.planGaps},
		{Name: "write", To: &k.write}, {Name: "write_gaps", To: &k.writeGaps}, {Name: "enter", To: &k.enter},
		{Name: "load", To: &k.load}, {Name: "refill", To: &k.refill}, {Name: "reread", To: &k.reread},
		{Name: "finish", To: &k.finish}, {Name: "finish_all", To: &k.finishAll},
		{Name: "mark", To: &k.mark}, {Name: "survey", To: &k.survey}, {Name: "collect", To: &k.collect}, {Name: "add", To: &k.add},
	})
	if err != nil {
		return err
	}
	if e.pool, err = newGPUPool(e.Stream, w.Key, w.Val, e.waitChanges); err != nil {
		return err
	}
	if err = e.results.open(dev); err != nil {
		return err
	}
	e.leases = core.NewLeases(e.pool.empty())
	return nil
}

func (e *gpuEngine) waitChanges() error { return e.LastChange().Sync(context.Background()) }

func (e *gpuEngine) refOf(p core.Parts) indexRef { return p.(*gpuIndex).ref(e.order) }

// Caps implements core.Engine.
func (e *gpuEngine) Caps() core.Caps {
	return core.Caps{ConcurrentReads: true, Streams: true, DeletesMayOverflow: true, Updates: true}
}

// Current implements core.Engine. It returns the current generation.
func (e *gpuEngine) Current() *core.Lease { return e.leases.Current() }

func (e *gpuEngine) current() *gpuIndex { return e.Current().Parts.(*gpuIndex) }

// Pin implements core.Versioner. A generation never changes, so the lease keeps the contents.
func (e *gpuEngine) Pin(context.Context) (version uint64, err error) {
	e.pinned++
	return 0, nil
}

// Unpin implements core.Versioner.
func (e *gpuEngine) Unpin(context.Context, uint64) error {
	e.pinned--
	return nil
}

// Close implements core.Engine. It frees everything except the memory of held versions.
func (e *gpuEngine) Close() (err error) {
	if e.leases != nil {
		err = errors.Join(e.waitChanges(), e.work.Free(&e.Queue), e.lists.Free(&e.Queue))
	}
	if e.pool != nil {
		err = errors.Join(err, e.pool.close())
	}
	return errors.Join(err, e.results.close(e.Dev), e.Queue.Close())
}

// ReadCounters implements core.Engine. If changes have been submitted since the last call, it waits
// for all of them and reads the counters that the last one wrote.
func (e *gpuEngine) ReadCounters(ctx context.Context) (core.Counters, error) {
	if !e.stale {
		return e.cached, nil
	}
	if err := e.Stream.Wait(e.LastChange()); err != nil {
		return core.Counters{}, err
	}
	x := e.current()
	var c [3]uint64
	if err := e.Stream.CopyOut(ctx, device.Bytes(c[:]), e.refOf(x).content); err != nil {
		return core.Counters{}, err
	}
	x.content, x.maxLeaves = content{live: c[0], leaves: c[1], taken: c[2]}, int(c[1])
	if e.pool.listUsed {
		e.pool.minFree = max(0, e.pool.listed-int(c[2]))
	}
	e.cached, e.stale, e.results.reserved = core.Counters{Live: c[0], Used: c[0]}, false, e.results.reserved[:0]
	return e.cached, nil
}

// AddPairs submits a kernel that adds the number of pairs in the map to a counter in device memory,
// or subtracts it if negate is set.
func (e *gpuEngine) AddPairs(s *device.Stream, to device.Slice[uint64], negate bool) error {
	p := addParams{content: e.refOf(e.current()).content, to: to.Ptr()}
	if negate {
		p.negate = 1
	}
	return e.Submit(s, func() error { return device.Launch(s, e.add, gpu.Grid(1), gpu.Block, &p) })
}

// ReadDropped implements core.Engine. No operation is ever dropped: a piece that lacks memory fails
// as a whole.
func (e *gpuEngine) ReadDropped(context.Context) (int, error) { return 0, nil }

// Clear implements core.Engine.
func (e *gpuEngine) Clear(context.Context) error {
	e.cached, e.stale, e.results.reserved = core.Counters{}, false, e.results.reserved[:0]
	return e.leases.Replace(e.pool.empty())
}

// Extent implements core.Engine. Units are leaves. The counters must have been read since the last
// change.
func (e *gpuEngine) Extent(l *core.Lease) (units uint32, rows int) {
	return uint32(l.Parts.(*gpuIndex).content.leaves), leafPairs
}

// Export implements core.Engine.
func (e *gpuEngine) Export(ctx context.Context, l *core.Lease, lo, hi uint32, out *batch.Batch) (n int, err error) {
	c, err := e.AcquireTransfer()
	if err != nil {
		return 0, err
	}
	s, err := c.Ring.Work()
	var at [2]uint64
	for i, leaf := range []uint32{lo, hi} {
		p := beforeParams{x: e.refOf(l.Parts), to: c.Hits.Ptr(), leaf: leaf}
		if err == nil {
			err = device.Launch(s, e.before, gpu.Grid(1), gpu.Block, &p)
		}
		if err == nil {
			err = s.CopyOut(ctx, device.Bytes(at[i:i+1]), p.to)
		}
	}
	e.ReleaseTransfer(c)
	if n = int(at[1] - at[0]); n > out.N || err != nil {
		return n, err
	}
	return n, e.SeekPairs(ctx, l, out.Chunk(0, n), at[0], e)
}

// Lookup implements core.Engine.
func (e *gpuEngine) Lookup(ctx context.Context, s *device.Stream, l *core.Lease, b *batch.Batch, count device.Ptr) (done, hits int, err error) {
	return e.Queue.Seek(ctx, s, l, b, count, e)
}

// Expand implements core.Expander.
func (e *gpuEngine) Expand(ctx context.Context, s *device.Stream, l *core.Lease, b *batch.Batch) error {
	return e.SeekRows(ctx, s, l, b, e)
}

func (e *gpuEngine) seekOf(p core.Parts, b *batch.Batch) seekParams {
	c := &b.Columns
	q := seekParams{
		x: e.refOf(p), lo: c[batch.Keys].Ptr, hi: c[batch.Keys2].Ptr, keys: c[batch.OutKeys].Ptr, vals: c[batch.Vals].Ptr,
		ok: c[batch.OK].Ptr, ranks: c[batch.Ranks].Ptr, counts: c[batch.Counts].Ptr,
		n: uint64(b.N), rows: ^uint64(0), limit: uint32(min(b.Limit, 1<<32-1)), kind: uint32(b.Kind),
	}
	if b.Backward {
		q.backward = 1
	}
	return q
}

// Seek implements gpu.Seeker.
func (e *gpuEngine) Seek(s *device.Stream, p core.Parts, b *batch.Batch, hits device.Ptr) error {
	q := e.seekOf(p, b)
	q.hits = hits
	kernel := e.seek
	switch {
	case q.hi != 0 && q.keys == 0 && q.vals == 0:
		kernel = e.count
	case q.hi != 0:
		kernel = e.ranges
	case q.keys == 0 && b.Kind == op.Get:
		kernel = e.get
	}
	return device.Launch(s, kernel, gpu.Wave(e.Dev, b.N), gpu.Block, &q)
}

// WriteRows implements gpu.Seeker.
func (e *gpuEngine) WriteRows(s *device.Stream, p core.Parts, b *batch.Batch, first, limit uint64) error {
	q := e.seekOf(p, b)
	q.offsets, q.first, q.rows = b.Columns[batch.Offsets].Ptr, first, limit
	return device.Launch(s, e.ranges, gpu.Wave(e.Dev, b.N), gpu.Block, &q)
}

// WritePairs implements gpu.Seeker.
func (e *gpuEngine) WritePairs(s *device.Stream, p core.Parts, keys, vals device.Ptr, from uint64, n int, backward bool) error {
	q := copyParams{x: e.refOf(p), keys: keys, vals: vals, from: from, n: uint64(n)}
	if backward {
		q.backward = 1
	}
	return device.Launch(s, e.copy, gpu.Wave(e.Dev, n), gpu.Block, &q)
}

// Answer implements core.Answerer.
func (e *gpuEngine) Answer(_ context.Context, s *device.Stream, b *batch.Batch) error {
	if b.N == 0 {
		return nil
	}
	c := &b.Columns
	p := answerParams{x: e.refOf(e.current()), keys: c[batch.Keys].Ptr, vals: c[batch.Vals].Ptr, ok: c[batch.OK].Ptr, n: uint64(b.N)}
	return e.Submit(s, func() error { return device.Launch(s, e.reread, gpu.Wave(e.Dev, b.N), gpu.Block, &p) })
}
