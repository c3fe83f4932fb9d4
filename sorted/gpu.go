package sorted

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/prim"
	"github.com/weftgo/weft/internal/inorder"
	"github.com/weftgo/weft/internal/op"
)

//go:generate go run ../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 -widths 32_32,32_64,64_32,64_64 -type sorted::Array=arrayRef -type inorder::Bounds=boundsRef sorted.cu

// gpuEngine runs the kernels of sorted.cu.
//
// Changes run one after the other on all streams. Each change writes the next generation. A lookup
// submitted after the change reads that generation, once the device has written it. The next change
// reuses the memory of the previous generation, which is safe because it runs after all work on
// that generation. So only freeing memory waits for a change.
type gpuEngine struct {
	gpu.Queue
	kernels
	leases *core.Leases
	pool   *pool
	prims  *prim.Kernels
	flip   uint64

	work     gpu.Work      // work memory of the current change
	maxPairs uint64        // upper bound on the number of pairs
	cached   core.Counters // counters when last read
	stale    bool          // changes have been submitted since cached was read
}

// kernels holds the kernels that are compiled for one pair of key and value widths.
type kernels struct {
	get, seek, rows, copy           device.Kernel
	settle, move, enter, keep, fill device.Kernel
	load, add                       device.Kernel
}

func newGPUEngine(dev device.Device, w batch.Widths, p *pool, flip uint64) (engine, *core.Leases, error) {
	e := &gpuEngine{pool: p, flip: flip}
	err := e.open(dev, w)
	if err != nil {
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
	err = gpu.Load(dev, sortedImages[gpu.Variant(w)], []gpu.Entry{
		{Name: "get", To: &k.get}, {Name: "seek", To: &k.seek}, {Name: "rows", To: &k.rows}, {Name: "copy", To: &k.copy},
		{Name: "settle", To: &k.settle}, {Name: "move", To: &k.move}, {Name: "enter", To: &k.enter}, {Name: "keep", To: &k.keep},
		{Name: "index", To: &k.fill}, {Name: "load", To: &k.load}, {Name: "add", To: &k.add},
	})
	if err != nil {
		return err
	}
	e.pool.spare.WaitIdle = func() error { return e.LastChange().Sync(context.Background()) }
	first, err := e.newEmpty()
	if err == nil {
		e.leases = core.NewLeases(first)
	}
	return err
}

func (e *gpuEngine) newEmpty() (*generation, error) {
	g, err := e.pool.alloc(0)
	if err != nil {
		return nil, err
	}
	g.tally = core.Tally{}
	err = e.Submit(e.Stream, func() error { return e.Stream.Fill(g.tallyPtr(), 0, inorder.TallyBytes/4) })
	if err = errors.Join(err, e.Stream.Sync(context.Background())); err != nil {
		return nil, errors.Join(err, e.pool.spare.Free(g))
	}
	return g, nil
}

func (g *generation) tallyPtr() device.Ptr { return g.buf.Ptr + device.Ptr(g.pool.tallyAt(g.capacity)) }

func (e *gpuEngine) refOf(p core.Parts) arrayRef {
	g := p.(*generation)
	at := func(offset int) device.Ptr { return g.buf.Ptr + device.Ptr(offset) }
	return arrayRef{
		keys: at(0), vals: at(e.pool.ValsAt(g.capacity)), index: at(e.pool.IndexAt(g.capacity, 0)), counters: g.tallyPtr(),
		room: uint64(g.capacity), flip: e.flip,
	}
}

// Caps implements core.Engine.
func (e *gpuEngine) Caps() core.Caps {
	return core.Caps{ConcurrentReads: true, Streams: true, DeletesMayOverflow: true, Updates: true}
}

// Current implements core.Engine. It returns the current generation.
func (e *gpuEngine) Current() *core.Lease { return e.leases.Current() }

func (e *gpuEngine) current() *generation { return e.Current().Parts.(*generation) }

// Pin implements core.Versioner. A generation never changes, so the lease keeps the contents.
func (e *gpuEngine) Pin(context.Context) (version uint64, err error) { return 0, nil }

// Unpin implements core.Versioner.
func (e *gpuEngine) Unpin(context.Context, uint64) error { return nil }

func (e *gpuEngine) bytes() (used, held int) {
	used, held = e.pool.bytes(e.current())
	return used + e.work.Buf.Size, held
}

// trim implements engine. It waits for all changes.
func (e *gpuEngine) trim() error {
	return errors.Join(e.pool.spare.WaitIdle(), e.pool.spare.Trim(), e.work.Free(&e.Queue))
}

// Close implements core.Engine. It frees everything except the generations.
func (e *gpuEngine) Close() (err error) {
	if e.leases != nil {
		err = e.trim()
	}
	return errors.Join(err, e.pool.spare.Close(), e.Queue.Close())
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
	var c [2]uint64
	g := e.current()
	if err := e.Stream.CopyOut(ctx, device.Bytes(c[:]), g.tallyPtr()); err != nil {
		return core.Counters{}, err
	}
	g.tally = core.Tally{Live: c[0], Used: c[1]}
	e.cached, e.maxPairs, e.stale = core.Counters{Live: c[0], Used: c[1]}, c[0], false
	return e.cached, nil
}

// bound implements engine.
func (e *gpuEngine) bound() (maxPairs, counted uint64) { return e.maxPairs, e.cached.Live }

// AddPairs submits a kernel that adds the number of pairs in the map to a counter in device memory,
// or subtracts it if negate is set.
func (e *gpuEngine) AddPairs(s *device.Stream, to device.Slice[uint64], negate bool) error {
	p := addParams{counters: e.current().tallyPtr(), to: to.Ptr()}
	if negate {
		p.negate = 1
	}
	return e.Submit(s, func() error { return device.Launch(s, e.add, gpu.Grid(1), gpu.Block, &p) })
}

// ReadDropped implements core.Engine. No operation is ever dropped: a batch that lacks memory fails
// as a whole.
func (e *gpuEngine) ReadDropped(context.Context) (int, error) { return 0, nil }

// Clear implements core.Engine.
func (e *gpuEngine) Clear(context.Context) error {
	to, err := e.newEmpty()
	if err != nil {
		return err
	}
	e.cached, e.maxPairs, e.stale = core.Counters{}, 0, false
	return e.leases.Replace(to)
}

// Extent implements core.Engine. The counters must have been read since the last change.
func (e *gpuEngine) Extent(l *core.Lease) (units uint32, rows int) {
	return uint32((l.Parts.(*generation).tally.Live + unitPairs - 1) / unitPairs), unitPairs
}

// Export implements core.Engine.
func (e *gpuEngine) Export(ctx context.Context, l *core.Lease, lo, hi uint32, out *batch.Batch) (n int, err error) {
	from, to := uint64(lo)*unitPairs, min(uint64(hi)*unitPairs, l.Parts.(*generation).tally.Live)
	if n = int(to - from); n > out.N {
		return n, nil
	}
	return n, e.SeekPairs(ctx, l, out.Chunk(0, n), from, e)
}

// Lookup implements core.Engine.
func (e *gpuEngine) Lookup(ctx context.Context, s *device.Stream, l *core.Lease, b *batch.Batch, count device.Ptr) (done, hits int, err error) {
	return e.Queue.Seek(ctx, s, l, b, count, e)
}

// Expand implements core.Expander.
func (e *gpuEngine) Expand(ctx context.Context, s *device.Stream, l *core.Lease, b *batch.Batch) error {
	return e.SeekRows(ctx, s, l, b, e)
}

// Seek implements gpu.Seeker.
func (e *gpuEngine) Seek(s *device.Stream, p core.Parts, b *batch.Batch, hits device.Ptr) error {
	c := &b.Columns
	q := seekParams{
		array: e.refOf(p), lo: c[batch.Keys].Ptr, hi: c[batch.Keys2].Ptr, keys: c[batch.OutKeys].Ptr, vals: c[batch.Vals].Ptr,
		ok: c[batch.OK].Ptr, ranks: c[batch.Ranks].Ptr, counts: c[batch.Counts].Ptr, hits: hits,
		n: uint64(b.N), bounds: boundsOf(b.Ranges), kind: uint32(b.Kind),
	}
	kernel := e.seek
	if q.hi == 0 && b.Kind == op.Get {
		kernel = e.get
	}
	return device.Launch(s, kernel, gpu.Wave(e.Dev, b.N), gpu.Block, &q)
}

func boundsOf(r batch.Ranges) boundsRef {
	b := boundsRef{limit: uint32(min(r.Limit, 1<<32-1))}
	if r.Backward {
		b.backward = 1
	}
	return b
}

// Answer implements core.Answerer.
func (e *gpuEngine) Answer(_ context.Context, s *device.Stream, b *batch.Batch) error {
	if b.N == 0 {
		return nil
	}
	c := &b.Columns
	p := answerParams{array: e.refOf(e.current()), keys: c[batch.Keys].Ptr, vals: c[batch.Vals].Ptr, ok: c[batch.OK].Ptr, n: uint64(b.N)}
	return e.Submit(s, func() error { return device.Launch(s, e.load, gpu.Wave(e.Dev, b.N), gpu.Block, &p) })
}

// WriteRows implements gpu.Seeker.
func (e *gpuEngine) WriteRows(s *device.Stream, parts core.Parts, b *batch.Batch, first, limit uint64) error {
	c := &b.Columns
	p := rowsParams{
		array: e.refOf(parts), lo: c[batch.Keys].Ptr, hi: c[batch.Keys2].Ptr, offsets: c[batch.Offsets].Ptr,
		keys: c[batch.OutKeys].Ptr, vals: c[batch.Vals].Ptr, found: c[batch.Counts].Ptr,
		n: uint64(b.N), first: first, limit: limit, bounds: boundsOf(b.Ranges),
	}
	return device.Launch(s, e.rows, gpu.Wave(e.Dev, rowLanes*b.N), gpu.Block, &p)
}

// rowLanes is the number of lanes that copy the pairs of a range (sorted.cu).
const rowLanes = 8

// WritePairs implements gpu.Seeker.
func (e *gpuEngine) WritePairs(s *device.Stream, parts core.Parts, keys, vals device.Ptr, from uint64, n int, backward bool) error {
	p := copyParams{array: e.refOf(parts), keys: keys, vals: vals, from: from, n: uint64(n)}
	if backward {
		p.backward = 1
	}
	return device.Launch(s, e.copy, gpu.Wave(e.Dev, n), gpu.Block, &p)
}

// errLarge returns the error for an array that has too many pairs for positions of 32 bits.
func errLarge(pairs uint64) error {
	return fmt.Errorf("%w: %d pairs; an array on a GPU has %d at most", op.ErrFull, pairs, prim.MaxRows)
}
