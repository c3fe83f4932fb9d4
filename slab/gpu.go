package slab

import (
	"context"
	"errors"
	"fmt"
	"structs"
	"unsafe"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpubatch"
	"github.com/weftgo/weft/internal/staging"
)

//go:generate go run ../internal/kernelgen -target 80+ptx83,90+ptx83 slab.cu

// The parameters of the kernels; the twins are in layout.cuh and the headers it
// includes, where each field is explained.
type (
	list       = gpubatch.List
	rankParams = gpubatch.RankParams

	tableRef struct {
		_        structs.HostLayout
		slabs    device.Ptr
		counters device.Ptr
		alloc    AllocRef
		seed     uint64
		buckets  uint32
		unused   uint32
	}
	getParams struct {
		_      structs.HostLayout
		table  tableRef
		keys   device.Ptr
		vals   device.Ptr
		found  device.Ptr
		hits   device.Ptr
		n      uint64
		spread uint32
		unused uint32
	}
	changeParams struct {
		_        structs.HostLayout
		table    tableRef
		keys     device.Ptr
		vals     device.Ptr
		kinds    device.Ptr
		out      device.Ptr
		ok       device.Ptr
		removed  device.Ptr
		deferred list
		failed   list
		n        uint32
		first    uint32
		kind     uint32
		flags    uint32
	}
	settleParams struct {
		_     structs.HostLayout
		table tableRef
		rank  rankParams
		vals  device.Ptr
		ok    device.Ptr
	}
	appendParams struct {
		_        structs.HostLayout
		table    tableRef
		keys     device.Ptr
		vals     device.Ptr
		deferred list
		failed   list
		first    uint32
		unused   uint32
	}
	tallyParams struct {
		_      structs.HostLayout
		table  tableRef
		keys   device.Ptr
		counts device.Ptr
		n      uint64
	}
	collectParams struct {
		_       structs.HostLayout
		table   tableRef
		keys    device.Ptr
		offsets device.Ptr
		vals    device.Ptr
		rows    uint64
		n       uint64
	}
	scanParams struct {
		_       structs.HostLayout
		counts  device.Ptr
		offsets device.Ptr
		n       uint64
	}
	rehashParams struct {
		_    structs.HostLayout
		from tableRef
		to   tableRef
		lost device.Ptr
	}
	flushParams struct {
		_     structs.HostLayout
		table tableRef
	}
	exportParams struct {
		_      structs.HostLayout
		table  tableRef
		keys   device.Ptr
		vals   device.Ptr
		count  device.Ptr
		rows   uint64
		lo     uint32
		hi     uint32
		step   uint32
		unused uint32
	}
	chainParams struct {
		_       structs.HostLayout
		table   tableRef
		lengths device.Ptr
	}
)

// Tuning of the launches.
const (
	tileLanes = 4 // tuning.cuh

	// spreadKeys is the size of batches up to which each key gets a tile to
	// itself, so that the batch is back after one chain of reads and not after
	// four.
	spreadKeys = 1 << 14

	// launchOps is the number of changes in a launch that settles no duplicates.
	launchOps = 1 << 30

	// appendWarps is the number of warps that append what others leave to them,
	// in blocks of one.
	appendWarps, warpThreads = 16, 32

	// scanStrip is the number of counts a warp adds up (scan.cuh).
	scanStrip = 1024
)

// gpuEngine runs the kernels of slab.cu.
type gpuEngine struct {
	dev    device.Device
	widths batch.Widths
	kernel kernels
	gen    *generation
	queue  gpubatch.Queue

	// all reports on whole tables, in device memory: the counts of chains.
	all device.Slice[uint64]

	known counters // as of the last counts
	stale bool     // changes have been submitted since
}

// kernels are the entry points for one pair of widths. A set has no multi
// kernels.
type kernels struct {
	get, getMulti, change, changeMulti device.Kernel
	append, tally, collect             device.Kernel
	scanSums, scanStrips, scanOffsets  device.Kernel
	rehash, flush, export, chains      device.Kernel
	order                              gpubatch.OrderKernels
}

func newGPUEngine(dev device.Device, w batch.Widths, g geometry, units int, fixed bool) (_ engine, err error) {
	e := &gpuEngine{dev: dev, widths: w}
	defer func() {
		if err != nil {
			e.close()
		}
	}()
	if e.kernel, err = loadKernels(dev, w); err != nil {
		return nil, err
	}
	if err = e.queue.Open(dev, w); err != nil {
		return nil, err
	}
	if e.all, err = device.Make[uint64](dev, chainLengths); err != nil {
		return nil, err
	}
	if e.gen, err = e.allocate(g, units, fixed); err != nil {
		return nil, err
	}
	// Lookups on streams of the caller wait for nothing.
	if err = e.queue.Stream.Sync(context.Background()); err != nil {
		return nil, err
	}
	return e, nil
}

func loadKernels(dev device.Device, w batch.Widths) (k kernels, err error) {
	pair := gpubatch.Pair(w)
	entries := []gpubatch.Entry{
		{Name: "get" + pair, To: &k.get}, {Name: "change" + pair, To: &k.change}, {Name: "rehash" + pair, To: &k.rehash},
		{Name: "flush" + pair, To: &k.flush}, {Name: "export" + pair, To: &k.export}, {Name: "chains", To: &k.chains},
	}
	if w.Val > 0 {
		entries = append(entries, []gpubatch.Entry{
			{Name: "get_multi" + pair, To: &k.getMulti}, {Name: "change_multi" + pair, To: &k.changeMulti},
			{Name: "append" + pair, To: &k.append}, {Name: "tally" + pair, To: &k.tally}, {Name: "collect" + pair, To: &k.collect},
			{Name: "scan_sums", To: &k.scanSums}, {Name: "scan_strips", To: &k.scanStrips}, {Name: "scan_offsets", To: &k.scanOffsets},
		}...)
	}
	return k, gpubatch.Load(dev, &slabImage, append(entries, k.order.Entries(w)...))
}

// allocate makes an empty generation; submitted to the engine's stream.
func (e *gpuEngine) allocate(g geometry, units int, fixed bool) (*generation, error) {
	base, err := e.dev.Alloc(g.bytes())
	if err != nil {
		return nil, fmt.Errorf("%d base slabs of %d bytes: %w", g.buckets, slabBytes, err)
	}
	pool, err := newPool(e.dev, units, fixed)
	if err != nil {
		return nil, errors.Join(err, e.dev.Free(base))
	}
	gen := &generation{geometry: g, base: base, pool: pool, refs: 1, order: core.SpreadOver(g.buckets)}
	if err := e.wipe(gen); err != nil {
		return nil, errors.Join(err, e.free(gen))
	}
	return gen, nil
}

// wipe empties the base slabs of a generation.
func (e *gpuEngine) wipe(g *generation) error {
	at := countersAt(g)
	return errors.Join(
		e.queue.Stream.Fill(g.base.Ptr, ^uint32(0), int(at-g.base.Ptr)/4),
		e.queue.Stream.Fill(at, 0, slabBytes/4),
	)
}

func (e *gpuEngine) free(g *generation) error {
	return errors.Join(g.pool.Close(), e.dev.Free(g.base))
}

func countersAt(g *generation) device.Ptr {
	return g.base.Ptr + device.Ptr(int(g.buckets)+extraSlabs-1)*slabBytes
}

func refOf(g *generation) tableRef {
	return tableRef{
		slabs:    g.base.Ptr,
		counters: countersAt(g),
		alloc:    g.pool.ref(false),
		seed:     g.seed,
		buckets:  g.buckets,
	}
}

func (e *gpuEngine) geometry() geometry { return e.gen.geometry }

func (e *gpuEngine) pool() *Alloc { return e.gen.pool }

// ---- lookups ----------------------------------------------------------------

func (e *gpuEngine) getOn(s *device.Stream, b *batch.Batch) error { return e.launchGet(s, b, 0) }

func (e *gpuEngine) launchGet(s *device.Stream, b *batch.Batch, hits device.Ptr) error {
	if b.N == 0 {
		return nil
	}
	k := e.kernel.get
	if b.Flags&flagMulti != 0 {
		k = e.kernel.getMulti
	}
	p := getParams{
		table: refOf(e.gen), keys: b.Keys.Ptr, vals: b.Vals.Ptr, found: b.OK.Ptr, hits: hits, n: uint64(b.N),
	}
	threads := b.N
	if b.N <= spreadKeys {
		p.spread, threads = 1, b.N*tileLanes
	}
	return device.Launch(s, k, gpubatch.Grid(threads), gpubatch.Block, &p)
}

func (e *gpuEngine) get(ctx context.Context, b *batch.Batch) (hits int, err error) {
	return e.queue.Get(ctx, b, e.launchGet)
}

func (e *gpuEngine) present(ctx context.Context, s *device.Stream, b *batch.Batch) (int, error) {
	keys := &batch.Batch{N: b.N, Keys: b.Keys}
	if s == nil {
		return e.get(ctx, keys)
	}
	return e.queue.Present(ctx, s, func(hits device.Ptr) error { return e.launchGet(s, keys, hits) })
}

func (e *gpuEngine) tally(ctx context.Context, b *batch.Batch, counts []uint32) error {
	c, err := e.queue.Take()
	if err != nil {
		return err
	}
	defer e.queue.Give(c)
	_, err = c.Ring.Run(ctx, b.N,
		[]staging.Column{{Host: b.Keys.Host, Width: e.widths.Key}},
		[]staging.Column{{Host: device.Bytes(counts), Width: 4}},
		func(p *staging.Piece) error {
			if err := p.Stream.Wait(e.queue.Changed); err != nil {
				return err
			}
			return e.launchTally(p.Stream, p.N, p.In[0], p.Out[0])
		})
	return err
}

func (e *gpuEngine) launchTally(s *device.Stream, n int, keys, counts device.Ptr) error {
	return device.Launch(s, e.kernel.tally, gpubatch.Grid(n), gpubatch.Block,
		&tallyParams{table: refOf(e.gen), keys: keys, counts: counts, n: uint64(n)})
}

func (e *gpuEngine) tallyOn(s *device.Stream, b *batch.Batch, counts batch.Column) error {
	if b.N == 0 {
		return nil
	}
	return e.launchTally(s, b.N, b.Keys.Ptr, counts.Ptr)
}

// collectKeys and collectBytes bound the keys and the values that are on their
// way at a time, unless one key has more.
const collectKeys, collectBytes = 1 << 22, 64 << 20

func (e *gpuEngine) collect(ctx context.Context, b *batch.Batch, offsets []uint64, vals []byte) error {
	width := uint64(e.widths.Val)
	for lo := 0; lo < b.N; {
		if err := ctx.Err(); err != nil {
			return err
		}
		hi := lo + 1
		for hi < b.N && hi-lo < collectKeys && (offsets[hi+1]-offsets[lo])*width <= collectBytes {
			hi++
		}
		part := vals[offsets[lo]*width : offsets[hi]*width]
		if err := e.collectPart(ctx, b.Keys.Host[lo*e.widths.Key:hi*e.widths.Key], offsets[lo:hi+1], part); err != nil {
			return err
		}
		lo = hi
	}
	return nil
}

// collectPart fetches the values of some keys; offsets need not begin with 0.
func (e *gpuEngine) collectPart(ctx context.Context, keys []byte, offsets []uint64, vals []byte) (err error) {
	if len(vals) == 0 {
		return nil
	}
	s, n := e.queue.Stream, len(offsets)-1
	// One block of memory: offsets, values, keys.
	starts, rows := 8*len(offsets), (len(vals)+7)/8*8
	buf, err := e.dev.Alloc(starts + rows + len(keys))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.dev.Free(buf)) }()
	to := buf.Ptr + device.Ptr(starts)
	in := to + device.Ptr(rows)
	// The keys' pairs have been counted, behind all changes.
	if err := errors.Join(s.CopyIn(buf.Ptr, device.Bytes(offsets)), s.CopyIn(in, keys)); err != nil {
		return err
	}
	base := device.Ptr(offsets[0]) * device.Ptr(e.widths.Val)
	if err := e.launchCollect(s, n, in, buf.Ptr, to-base, int(offsets[n])); err != nil {
		return err
	}
	return s.CopyOut(context.WithoutCancel(ctx), vals, to)
}

func (e *gpuEngine) launchCollect(s *device.Stream, n int, keys, offsets, vals device.Ptr, rows int) error {
	return device.Launch(s, e.kernel.collect, gpubatch.Grid(n), gpubatch.Block,
		&collectParams{table: refOf(e.gen), keys: keys, offsets: offsets, vals: vals, rows: uint64(rows), n: uint64(n)})
}

// collectOn counts, adds up and writes: five launches, no copy, no wait.
func (e *gpuEngine) collectOn(s *device.Stream, b *batch.Batch, counts, offsets batch.Column, rows int) error {
	if b.N == 0 {
		return s.Fill(offsets.Ptr, 0, 2)
	}
	if err := e.launchTally(s, b.N, b.Keys.Ptr, counts.Ptr); err != nil {
		return err
	}
	p := scanParams{counts: counts.Ptr, offsets: offsets.Ptr, n: uint64(b.N)}
	warps := (b.N + scanStrip - 1) / scanStrip
	for _, scan := range []struct {
		k     device.Kernel
		warps int
	}{{e.kernel.scanSums, warps}, {e.kernel.scanStrips, 1}, {e.kernel.scanOffsets, warps}} {
		if err := device.Launch(s, scan.k, gpubatch.Grid(32*scan.warps), gpubatch.Block, &p); err != nil {
			return err
		}
	}
	return e.launchCollect(s, b.N, b.Keys.Ptr, offsets.Ptr, b.Vals.Ptr, rows)
}

// ---- changes ----------------------------------------------------------------

func (e *gpuEngine) change(ctx context.Context, b *batch.Batch) (done int, failed []uint32, err error) {
	return e.queue.Change(ctx, listing(b), e.submit)
}

// appends tells whether a batch adds pairs to a multimap.
func appends(b *batch.Batch) bool {
	return b.Flags&flagMulti != 0 && b.Kind == weft.OpPut && !b.Kinds.There()
}

// listing is the batch with the flag that makes its launch list operations to
// be settled: for pairs that are added, those that too many threads want to
// put in one place.
func listing(b *batch.Batch) *batch.Batch {
	if !appends(b) {
		return b
	}
	part := *b
	part.Flags |= batch.Order
	return &part
}

func (e *gpuEngine) changeOn(s *device.Stream, b *batch.Batch, wait bool) (failed []uint32, err error) {
	b = listing(b)
	piece := launchOps
	if b.Ordered() || wait {
		piece = gpubatch.SettleOps
		record := 0
		if wait {
			record = min(b.N, piece)
		}
		if err := e.queue.Reserve(min(b.N, piece), record); err != nil {
			return nil, err
		}
	}
	to := list{Count: e.queue.Word(gpubatch.WordLost)}
	for lo := 0; lo < b.N; lo += piece {
		part := b.Sub(lo, min(lo+piece, b.N), e.widths)
		if wait {
			to = e.queue.Failed()
			if err := e.queue.Set(s, gpubatch.WordFailed, 0); err != nil {
				return failed, err
			}
		}
		if err := e.submit(s, part, to, lo); err != nil {
			return failed, err
		}
		if !wait {
			continue
		}
		if err := e.queue.Stream.Wait(e.queue.Changed); err != nil {
			return failed, err
		}
		more, err := e.queue.ReadFailed(context.Background())
		failed = append(failed, more...)
		if err != nil {
			return failed, err
		}
	}
	return failed, nil
}

// submit launches the kernels of a change: one, or if it is ordered the one
// and those that settle duplicates. first is the part's place in its batch.
func (e *gpuEngine) submit(s *device.Stream, b *batch.Batch, failed list, first int) error {
	if b.N == 0 {
		return nil
	}
	e.stale = true
	return e.queue.Submit(s, func() error { return e.launchChange(s, b, failed, first) })
}

func (e *gpuEngine) launchChange(s *device.Stream, b *batch.Batch, failed list, first int) error {
	deferred, ok, err := e.queue.Defer(s, b)
	if err != nil {
		return err
	}
	flags := b.Flags
	if !b.Ordered() {
		flags &^= batch.Order
	}
	k := e.kernel.change
	if b.Flags&flagMulti != 0 {
		k = e.kernel.changeMulti
	}
	table := refOf(e.gen)
	if failed.Items == 0 { // nothing runs again: no free unit may be missed
		table.alloc = e.gen.pool.ref(true)
	}
	if err := device.Launch(s, k, gpubatch.Grid(b.N), gpubatch.Block, &changeParams{
		table: table, keys: b.Keys.Ptr, vals: b.Vals.Ptr, kinds: b.Kinds.Ptr, out: b.Out.Ptr, ok: ok,
		removed: b.Counts.Ptr, deferred: deferred, failed: failed,
		n: uint32(b.N), first: uint32(first), kind: uint32(b.Kind), flags: uint32(flags),
	}); err != nil {
		return err
	}
	switch {
	case !b.Ordered():
	case appends(b):
		p := appendParams{table: table, keys: b.Keys.Ptr, vals: b.Vals.Ptr, deferred: deferred, failed: failed, first: uint32(first)}
		if err := device.Launch(s, e.kernel.append, device.Dim{X: appendWarps}, device.Dim{X: warpThreads}, &p); err != nil {
			return err
		}
	default:
		rank := e.queue.Ranks(b, deferred)
		settle := settleParams{table: table, rank: rank, vals: b.Vals.Ptr, ok: ok}
		if err := gpubatch.Settle(&e.queue, s, &e.kernel.order, &rank, &settle); err != nil {
			return err
		}
	}
	return nil
}

func (e *gpuEngine) counts(ctx context.Context) (counters, error) {
	if !e.stale {
		return e.known, nil
	}
	if err := e.queue.Stream.Wait(e.queue.Changed); err != nil {
		return counters{}, err
	}
	var c counters
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&c)), unsafe.Sizeof(c))
	if err := e.queue.Stream.CopyOut(ctx, raw, countersAt(e.gen)); err != nil {
		return counters{}, err
	}
	e.known, e.stale = c, false
	return c, nil
}

func (e *gpuEngine) lost(ctx context.Context) (int, error) { return e.queue.Lost(ctx) }

func (e *gpuEngine) settle(ctx context.Context) error { return e.dev.Sync(ctx) }

// ---- whole tables -----------------------------------------------------------

func (e *gpuEngine) rehash(ctx context.Context, buckets uint32, units int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	// Lookups may be under way on streams of the caller.
	if err := e.settle(ctx); err != nil {
		return err
	}
	g := e.gen.geometry
	g.buckets = buckets
	to, err := e.allocate(g, units, e.gen.pool.opts.Light)
	if err != nil {
		return err
	}
	lost, err := e.move(e.gen, to)
	if err == nil && lost > 0 {
		err = fmt.Errorf("slab: rehash to %d buckets leaves %d pairs without room: %w", buckets, lost, weft.ErrFull)
	}
	if err != nil {
		return errors.Join(err, e.free(to))
	}
	old := e.gen
	e.gen, e.stale = to, true
	return e.release(old)
}

// move copies the live pairs of one generation to an empty other, waits for
// it, and returns how many did not fit.
func (e *gpuEngine) move(from, to *generation) (int, error) {
	if err := e.queue.Set(e.queue.Stream, gpubatch.WordResult, 0); err != nil {
		return 0, err
	}
	p := rehashParams{from: refOf(from), to: refOf(to), lost: e.queue.Word(gpubatch.WordResult)}
	if err := device.Launch(e.queue.Stream, e.kernel.rehash, e.tiles(from.buckets), gpubatch.Block, &p); err != nil {
		return 0, err
	}
	n, err := e.queue.Read(context.Background(), gpubatch.WordResult)
	return int(n), err
}

// tiles is a launch with a tile for each bucket, or a device full of them.
func (e *gpuEngine) tiles(buckets uint32) device.Dim {
	return gpubatch.Wave(e.dev, (int(buckets)+1)*tileLanes)
}

func (e *gpuEngine) flush(ctx context.Context) error {
	// Lookups may be under way on streams of the caller.
	if err := e.settle(ctx); err != nil {
		return err
	}
	e.stale = true
	p := flushParams{table: refOf(e.gen)}
	return device.Launch(e.queue.Stream, e.kernel.flush, e.tiles(e.gen.buckets), gpubatch.Block, &p)
}

func (e *gpuEngine) clear(ctx context.Context) error {
	if err := e.settle(ctx); err != nil {
		return err
	}
	e.stale = true
	return errors.Join(e.gen.pool.Clear(ctx), e.wipe(e.gen))
}

func (e *gpuEngine) hold() *generation {
	e.gen.refs++
	return e.gen
}

func (e *gpuEngine) release(g *generation) error {
	if g.refs--; g.refs > 0 {
		return nil
	}
	return e.free(g)
}

func (e *gpuEngine) export(ctx context.Context, g *generation, lo, hi uint32, keys, vals []byte) (n int, err error) {
	c, err := e.queue.Take()
	if err != nil {
		return 0, err
	}
	defer e.queue.Give(c)
	rows := len(keys) / e.widths.Key
	_, err = c.Ring.RunWhole(ctx, rows,
		[]staging.Column{{Host: keys, Width: e.widths.Key}, {Host: vals, Width: e.widths.Val}},
		func(p *staging.Piece) error {
			// Changes submitted since the iteration began may be seen or not.
			if err := p.Stream.Fill(c.Hits.Ptr(), 0, 2); err != nil {
				return err
			}
			return device.Launch(p.Stream, e.kernel.export, e.tiles(hi-lo), gpubatch.Block, &exportParams{
				table: refOf(g), keys: p.Out[0], vals: p.Out[1], count: c.Hits.Ptr(), rows: uint64(rows),
				lo: lo, hi: hi, step: g.order.Step(),
			})
		})
	if err != nil {
		return 0, err
	}
	var count [1]uint64
	err = c.Hits.CopyTo(ctx, e.queue.Stream, count[:])
	return int(count[0]), err
}

func (e *gpuEngine) chains(ctx context.Context) (lengths [chainLengths]uint64, err error) {
	s := e.queue.Stream
	if err := s.Fill(e.all.Ptr(), 0, 2*chainLengths); err != nil {
		return lengths, err
	}
	p := chainParams{table: refOf(e.gen), lengths: e.all.Ptr()}
	if err := device.Launch(s, e.kernel.chains, gpubatch.Wave(e.dev, int(e.gen.buckets)+1), gpubatch.Block, &p); err != nil {
		return lengths, err
	}
	err = e.all.CopyTo(ctx, s, lengths[:])
	return lengths, err
}

func (e *gpuEngine) close() (err error) {
	if e.queue.Stream != nil {
		err = e.settle(context.Background())
	}
	err = errors.Join(err, e.all.Free())
	if e.gen != nil {
		err = errors.Join(err, e.release(e.gen))
	}
	return errors.Join(err, e.queue.Close())
}
