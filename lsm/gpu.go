package lsm

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/prim"
)

//go:generate go run ../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 -widths 32_32,32_64,64_32,64_64 -type sorted::Array=arrayRef -type inorder::Bounds=boundsRef -type lsm::Level=levelRef -type lsm::Levels=levelsRef lsm.cu

// gpuEngine runs the kernels of lsm.cu.
//
// Changes run one after the other on all streams. Each change writes a new level, which is part of
// the next generation. A lookup submitted after the change reads that generation, once the device
// has written it. Later changes reuse the memory of dropped levels, since they run after all work
// that reads it. So only freeing memory waits for a change. The size of a level is an upper bound
// until its entries are counted.
type gpuEngine struct {
	gpu.Queue
	kernels
	leases *core.Leases
	pool   *pool
	prims  *prim.Kernels
	flip   uint64

	work gpu.Work // work memory of the current change
	// result of the count kernel: number of keys, then number of entries by level
	counts device.Slice[uint64]
	cached core.Counters // counters when last read
	stale  bool          // changes have been submitted since cached was read
}

// kernels holds the kernels that are compiled for one pair of key and value widths.
type kernels struct {
	get, seek, walk, rows, copy device.Kernel
	settle, enter               device.Kernel
	match, move, join, index    device.Kernel
	load, count                 device.Kernel
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
	err = gpu.Load(dev, lsmImages[gpu.Variant(w)], []gpu.Entry{
		{Name: "get", To: &k.get}, {Name: "seek", To: &k.seek}, {Name: "walk", To: &k.walk}, {Name: "rows", To: &k.rows},
		{Name: "copy", To: &k.copy}, {Name: "settle", To: &k.settle}, {Name: "enter", To: &k.enter}, {Name: "match", To: &k.match},
		{Name: "move", To: &k.move}, {Name: "join", To: &k.join}, {Name: "index", To: &k.index}, {Name: "load", To: &k.load},
		{Name: "count", To: &k.count},
	})
	if err != nil {
		return err
	}
	if e.counts, err = device.Make[uint64](dev, 1+maxLevels); err != nil {
		return err
	}
	e.pool.spare.WaitIdle = func() error { return e.LastChange().Sync(context.Background()) }
	e.leases = core.NewLeases(&generation{pool: e.pool})
	return nil
}

func (e *gpuEngine) refOf(l *level) levelRef {
	at := func(offset int) device.Ptr { return l.buf.Ptr + device.Ptr(offset) }
	p := e.pool
	return levelRef{
		array: arrayRef{
			keys: at(0), vals: at(p.ValsAt(l.capacity)), index: at(p.IndexAt(l.capacity, 0)), counters: at(p.tallyAt(l.capacity)),
			room: uint64(l.capacity), flip: e.flip,
		},
		deltas: at(p.deltasAt(l.capacity)), sums: at(p.sumsAt(l.capacity)),
	}
}

func (e *gpuEngine) levelsOf(p core.Parts) (r levelsRef) {
	r.flip = e.flip
	for i, l := range p.(*generation).levels {
		r.at[i] = e.refOf(l)
		r.count++
	}
	return r
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

func (e *gpuEngine) base() int { return e.pool.base }
func (e *gpuEngine) bytes() (used, held int) {
	used, held = e.pool.bytes(e.current())
	return used + e.work.Buf.Size, held
}
func (e *gpuEngine) levels() []int { return e.current().sizes() }

// bound implements engine.
func (e *gpuEngine) bound() (maxUsed, counted uint64) {
	return uint64(e.current().entries()), e.cached.Used
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
	return errors.Join(err, e.counts.Free(), e.pool.spare.Close(), e.Queue.Close())
}

// ReadCounters implements core.Engine. If changes have been submitted since the last call, it waits
// for all of them, and counts the keys and the entries of each level.
func (e *gpuEngine) ReadCounters(ctx context.Context) (core.Counters, error) {
	if !e.stale {
		return e.cached, nil
	}
	g := e.current()
	counts := make([]uint64, 1+len(g.levels))
	p := countParams{levels: e.levelsOf(g), counts: e.counts.Ptr()}
	err := e.Submit(e.Stream, func() error { return device.Launch(e.Stream, e.count, gpu.Grid(1), gpu.Block, &p) })
	if err == nil {
		err = e.Stream.CopyOut(ctx, device.Bytes(counts), e.counts.Ptr())
	}
	if err != nil {
		return core.Counters{}, err
	}
	for i, l := range g.levels {
		l.n = int(counts[1+i])
	}
	g.tally = core.Tally{Live: counts[0], Used: uint64(g.entries())}
	e.cached, e.stale = core.Counters{Live: g.tally.Live, Used: g.tally.Used}, false
	return e.cached, nil
}

// AddPairs submits a kernel that adds the number of pairs in the map to a counter in device memory,
// or subtracts it if negate is set.
func (e *gpuEngine) AddPairs(s *device.Stream, to device.Slice[uint64], negate bool) error {
	p := countParams{levels: e.levelsOf(e.current()), add: to.Ptr()}
	if negate {
		p.negate = 1
	}
	return e.Submit(s, func() error { return device.Launch(s, e.count, gpu.Grid(1), gpu.Block, &p) })
}

// ReadDropped implements core.Engine. No operation is ever dropped: a batch that lacks memory fails
// as a whole.
func (e *gpuEngine) ReadDropped(context.Context) (int, error) { return 0, nil }

// Clear implements core.Engine.
func (e *gpuEngine) Clear(context.Context) error {
	e.cached, e.stale = core.Counters{}, false
	return e.leases.Replace(&generation{pool: e.pool})
}

// Extent implements core.Engine. The counters must have been read since the last change.
func (e *gpuEngine) Extent(l *core.Lease) (units uint32, rows int) { return extent(l) }

// Export implements core.Engine.
func (e *gpuEngine) Export(ctx context.Context, l *core.Lease, lo, hi uint32, out *batch.Batch) (n int, err error) {
	from, to := uint64(lo)*unitPairs, min(uint64(hi)*unitPairs, l.Parts.(*generation).tally.Live)
	if n = int(to - from); n > out.N {
		return n, nil
	}
	return n, e.SeekPairs(ctx, l, out.Chunk(0, n), from, e)
}

// chunk is the number of consecutive pairs that a thread finds in the copy kernel (lsm.cu).
const chunk = 64

func (e *gpuEngine) launchCopy(s *device.Stream, p *copyParams) error {
	return device.Launch(s, e.copy, gpu.Wave(e.Dev, (int(p.n)+chunk-1)/chunk), gpu.Block, p)
}

// Answer implements core.Answerer.
func (e *gpuEngine) Answer(_ context.Context, s *device.Stream, b *batch.Batch) error {
	if b.N == 0 {
		return nil
	}
	c := &b.Columns
	p := answerParams{levels: e.levelsOf(e.current()), keys: c[batch.Keys].Ptr, vals: c[batch.Vals].Ptr, ok: c[batch.OK].Ptr, n: uint64(b.N)}
	return e.Submit(s, func() error { return device.Launch(s, e.load, gpu.Wave(e.Dev, b.N), gpu.Block, &p) })
}
