package linear

import (
	"context"
	"errors"
	"fmt"
	"structs"
	"unsafe"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/staging"
)

//go:generate go run ../internal/kernelgen -target 80+ptx83,90+ptx83 linear.cu

// The parameters of the kernels; the twins are in layout.cuh, where each field
// is explained.
type (
	tableRef struct {
		_        structs.HostLayout
		lines    device.Ptr
		counters device.Ptr
		seed     uint64
		nlines   uint32
		maxLines uint32
	}
	list struct {
		_     structs.HostLayout
		items device.Ptr
		count device.Ptr
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
		deferred list
		failed   list
		n        uint32
		first    uint32
		kind     uint32
		flags    uint32
	}
	rankParams struct {
		_        structs.HostLayout
		keys     device.Ptr
		ranks    device.Ptr
		deferred list
		mask     uint32
		n        uint32
		kind     uint32
		unused   uint32
	}
	settleParams struct {
		_     structs.HostLayout
		table tableRef
		rank  rankParams
		vals  device.Ptr
		ok    device.Ptr
	}
	rehashParams struct {
		_    structs.HostLayout
		from tableRef
		to   tableRef
		lost device.Ptr
	}
	exportParams struct {
		_     structs.HostLayout
		table tableRef
		keys  device.Ptr
		vals  device.Ptr
		count device.Ptr
		lo    uint32
		hi    uint32
	}
	statsParams struct {
		_       structs.HostLayout
		table   tableRef
		sum     device.Ptr
		longest device.Ptr
	}
)

// Tuning of the launches.
const (
	blockThreads = 256

	// From these loads on, whole lines are read instead of sectors
	// (tuning.cuh): below, most keys lie in their home sector and a wider read
	// costs more than it saves. A sector has two slots of 16 bytes or four and
	// more of 8 and less.
	wideGet16, wideGet8 = 0.55, 0.7
	wideChange          = 0.5

	narrowLanes, wideLanes = 2, 4 // tuning.cuh

	// spreadKeys is the size of batches up to which each key gets a tile to
	// itself, so that the batch is back after one chain of reads and not after
	// two or four.
	spreadKeys = 1 << 14

	// settleOps is the number of changes between two looks for duplicates. The
	// memory for them is 13 bytes an operation, 17 with a list of failures.
	settleOps = 1 << 23
	// launchOps is the number of changes in a launch that needs no such memory;
	// between launches the choice between sectors and lines is made anew.
	launchOps = 1 << 24
)

// gpuEngine runs the kernels of linear.cu.
type gpuEngine struct {
	dev    device.Device
	widths widths
	kernel kernels
	gen    *generation

	// stream runs what the engine does on its own account. changed is recorded
	// behind each change, on whichever stream, and waited for by the next:
	// changes run one after another.
	stream  *device.Stream
	changed *device.Event

	scratch  scratch
	carriers carriers

	known counters // as of the last counts
	stale bool     // changes have been submitted since
}

// kernels are the entry points for one pair of widths.
type kernels struct {
	get, getWide, change, changeWide     device.Kernel
	rank, claim, settleLast, settleFirst device.Kernel
	reset, rehash, export, probe         device.Kernel
}

func newGPUEngine(dev device.Device, w widths, g geometry) (_ engine, err error) {
	e := &gpuEngine{dev: dev, widths: w}
	defer func() {
		if err != nil {
			e.close()
		}
	}()
	if e.kernel, err = loadKernels(dev, w); err != nil {
		return nil, err
	}
	if e.stream, err = dev.NewStream(); err != nil {
		return nil, err
	}
	if e.changed, err = dev.NewEvent(); err != nil {
		return nil, err
	}
	if err = e.scratch.open(dev, e.stream); err != nil {
		return nil, err
	}
	if e.gen, err = e.allocate(g); err != nil {
		return nil, err
	}
	if err = e.stream.Record(e.changed); err != nil {
		return nil, err
	}
	// Lookups on streams of the caller wait for nothing.
	if err = e.stream.Sync(context.Background()); err != nil {
		return nil, err
	}
	return e, nil
}

func loadKernels(dev device.Device, w widths) (k kernels, err error) {
	mod, err := dev.Load(&linearImage)
	if err != nil {
		return k, err
	}
	pair := fmt.Sprintf("_%d_%d", w.key*8, w.val*8)
	key := fmt.Sprintf("_%d", w.key*8)
	for _, f := range []struct {
		to   *device.Kernel
		name string
	}{
		{&k.get, "get" + pair}, {&k.getWide, "get_wide" + pair}, {&k.change, "change" + pair}, {&k.changeWide, "change_wide" + pair},
		{&k.rank, "rank" + key}, {&k.claim, "claim" + key}, {&k.reset, "reset"},
		{&k.settleLast, "settle_last" + pair}, {&k.settleFirst, "settle_first" + pair},
		{&k.rehash, "rehash" + pair}, {&k.export, "export" + pair}, {&k.probe, "stats" + pair},
	} {
		if *f.to, err = mod.Kernel("linear_" + f.name); err != nil {
			return k, err
		}
	}
	return k, nil
}

// allocate makes an empty generation; submitted to the engine's stream.
func (e *gpuEngine) allocate(g geometry) (*generation, error) {
	buf, err := e.dev.Alloc(g.bytes())
	if err != nil {
		return nil, fmt.Errorf("table of %d bytes: %w", g.bytes(), err)
	}
	gen := &generation{geometry: g, buf: buf, refs: 1}
	if err := e.wipe(gen); err != nil {
		e.dev.Free(buf)
		return nil, err
	}
	return gen, nil
}

func (e *gpuEngine) wipe(g *generation) error {
	ref := refOf(g)
	if err := e.stream.Fill(ref.lines, ^uint32(0), int(ref.counters-ref.lines)/4); err != nil {
		return err
	}
	return e.stream.Fill(ref.counters, 0, lineBytes/4)
}

func refOf(g *generation) tableRef {
	return tableRef{
		lines:    g.buf.Ptr,
		counters: g.buf.Ptr + device.Ptr(int(g.lines)+extraLines-1)*lineBytes,
		seed:     g.seed,
		nlines:   g.lines,
		maxLines: g.path(),
	}
}

func (e *gpuEngine) geometry() geometry { return e.gen.geometry }

// grid is a launch of one thread per item.
func grid(n int) device.Dim { return device.Dim{X: (n + blockThreads - 1) / blockThreads} }

// wave is a launch that fills the device and strides over its items.
func (e *gpuEngine) wave(n int) device.Dim {
	return device.Dim{X: max(1, min(grid(n).X, e.dev.Properties().Units*2048/blockThreads))}
}

var block = device.Dim{X: blockThreads}

// ---- lookups ----------------------------------------------------------------

func (e *gpuEngine) getOn(s *device.Stream, b *batch) error { return e.launchGet(s, b, 0) }

func (e *gpuEngine) launchGet(s *device.Stream, b *batch, hits device.Ptr) error {
	if b.n == 0 {
		return nil
	}
	k, lanes, wide := e.kernel.get, narrowLanes, wideGet8
	if e.widths.slot == 16 {
		wide = wideGet16
	}
	if b.load > wide {
		k, lanes = e.kernel.getWide, wideLanes
	}
	p := getParams{
		table: refOf(e.gen), keys: b.keys.ptr, vals: b.vals.ptr, found: b.ok.ptr, hits: hits, n: uint64(b.n),
	}
	threads := b.n
	if b.n <= spreadKeys {
		p.spread, threads = 1, b.n*lanes
	}
	return device.Launch(s, k, grid(threads), block, &p)
}

func (e *gpuEngine) slots() int { return int(e.gen.lines) * lineBytes / e.widths.slot }

func (e *gpuEngine) get(ctx context.Context, b *batch) (hits int, err error) {
	if b.n == 0 {
		return 0, ctx.Err()
	}
	c, err := e.carriers.take(e.dev)
	if err != nil {
		return 0, err
	}
	defer e.carriers.give(c)
	if err := errors.Join(e.stream.Fill(c.hits.Ptr(), 0, 2), e.stream.Sync(ctx)); err != nil {
		return 0, err
	}
	_, err = c.ring.Run(ctx, b.n,
		[]staging.Column{{Host: b.keys.host, Width: e.widths.key}},
		[]staging.Column{{Host: b.vals.host, Width: e.widths.val}, {Host: b.ok.host, Width: 1}},
		func(p *staging.Piece) error {
			if err := p.Stream.Wait(e.changed); err != nil {
				return err
			}
			part := &batch{
				n: p.N, load: b.load,
				keys: column{ptr: p.In[0]}, vals: column{ptr: p.Out[0]}, ok: column{ptr: p.Out[1]},
			}
			return e.launchGet(p.Stream, part, c.hits.Ptr())
		})
	// All pieces that were sent have come home, so the count is theirs.
	var n [1]uint64
	if e := c.hits.CopyTo(context.WithoutCancel(ctx), e.stream, n[:]); err == nil {
		err = e
	}
	return int(n[0]), err
}

func (e *gpuEngine) present(ctx context.Context, s *device.Stream, b *batch) (int, error) {
	keys := &batch{n: b.n, keys: b.keys, load: b.load}
	if s == nil {
		return e.get(ctx, keys)
	}
	if err := errors.Join(s.Wait(e.changed), e.scratch.set(s, controlSum, 0), e.scratch.set(s, controlSum+1, 0)); err != nil {
		return 0, err
	}
	if err := e.launchGet(s, keys, e.scratch.word(controlSum)); err != nil {
		return 0, err
	}
	var n [1]uint64
	err := s.CopyOut(ctx, device.Bytes(n[:]), e.scratch.word(controlSum))
	return int(n[0]), err
}

// ---- changes ----------------------------------------------------------------

func (e *gpuEngine) change(ctx context.Context, b *batch) (done int, failed []uint32, err error) {
	// The list of failures bounds what is run at a time.
	b = b.sub(0, min(b.n, settleOps), e.widths)
	if b.n == 0 {
		return 0, nil, nil
	}
	if err := e.scratch.reserve(b.n, b.n); err != nil {
		return 0, nil, err
	}
	if err := e.stream.Wait(e.changed); err != nil {
		return 0, nil, err
	}
	if err := e.scratch.set(e.stream, controlFailed, 0); err != nil {
		return 0, nil, err
	}
	if err := e.stream.Record(e.changed); err != nil {
		return 0, nil, err
	}
	c, err := e.carriers.take(e.dev)
	if err != nil {
		return 0, nil, err
	}
	defer e.carriers.give(c)
	w := e.widths
	record := list{items: e.scratch.failed.Ptr(), count: e.scratch.word(controlFailed)}
	done, err = c.ring.RunInOrder(ctx, b.n,
		[]staging.Column{{Host: b.keys.host, Width: w.key}, {Host: b.vals.host, Width: w.val}, {Host: b.kinds.host, Width: 1}},
		[]staging.Column{{Host: b.out.host, Width: w.val}, {Host: b.ok.host, Width: 1}},
		func(p *staging.Piece) error {
			part := &batch{
				n: p.N, kind: b.kind, flags: b.flags, load: b.load + float64(p.Lo)/float64(e.slots()),
				keys: column{ptr: p.In[0]}, vals: column{ptr: p.In[1]}, kinds: column{ptr: p.In[2]},
				out: column{ptr: p.Out[0]}, ok: column{ptr: p.Out[1]},
			}
			return e.submit(p.Stream, part, record, p.Lo)
		})
	if err != nil {
		return done, nil, err
	}
	// The operations have been run, whatever has become of the context.
	failed, err = e.scratch.readFailed(context.WithoutCancel(ctx))
	return done, failed, err
}

func (e *gpuEngine) changeOn(s *device.Stream, b *batch) ([]uint32, error) {
	piece := launchOps
	if b.ordered() {
		piece = settleOps
		if err := e.scratch.reserve(min(b.n, piece), 0); err != nil {
			return nil, err
		}
	}
	for lo := 0; lo < b.n; lo += piece {
		part := b.sub(lo, min(lo+piece, b.n), e.widths)
		part.load += float64(lo) / float64(e.slots())
		if err := e.submit(s, part, list{count: e.scratch.word(controlLost)}, 0); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// submit launches the kernels of a change: one, or with flagOrder the one and
// those that settle duplicates.
func (e *gpuEngine) submit(s *device.Stream, b *batch, failed list, first int) error {
	if b.n == 0 {
		return nil
	}
	if err := s.Wait(e.changed); err != nil {
		return err
	}
	e.stale = true
	ordered := b.ordered()
	ok := b.ok.ptr
	if ordered && ok == 0 && b.kind != weft.OpPut {
		ok = e.scratch.flags.Ptr()
	}
	p := changeParams{
		table: refOf(e.gen), keys: b.keys.ptr, vals: b.vals.ptr, kinds: b.kinds.ptr, out: b.out.ptr, ok: ok,
		failed: failed, n: uint32(b.n), first: uint32(first), kind: uint32(b.kind), flags: uint32(b.flags & flagReuse),
	}
	if ordered {
		p.flags |= uint32(flagOrder)
		p.deferred = list{items: e.scratch.deferred.Ptr(), count: e.scratch.word(controlDeferred)}
		if err := e.scratch.set(s, controlDeferred, 0); err != nil {
			return err
		}
	}
	k := e.kernel.change
	if b.load > wideChange {
		k = e.kernel.changeWide
	}
	if err := device.Launch(s, k, grid(b.n), block, &p); err != nil {
		return err
	}
	if ordered {
		if err := e.settleDuplicates(s, b, &p); err != nil {
			return err
		}
	}
	return s.Record(e.changed)
}

// settleDuplicates gives the operations that the change listed the outcome of
// batch order. When it listed none, the kernels find that out and end.
func (e *gpuEngine) settleDuplicates(s *device.Stream, b *batch, p *changeParams) error {
	wave := e.wave(b.n)
	rank := rankParams{
		keys: p.keys, ranks: e.scratch.ranks.Ptr(), deferred: p.deferred,
		mask: uint32(e.scratch.ranks.Len() - 1), n: p.n, kind: p.kind,
	}
	settle := settleParams{table: p.table, rank: rank, vals: p.vals, ok: p.ok}
	if err := device.Launch(s, e.kernel.rank, wave, block, &rank); err != nil {
		return err
	}
	k := e.kernel.settleFirst
	if b.kind == weft.OpPut {
		k = e.kernel.settleLast
		if err := device.Launch(s, e.kernel.claim, wave, block, &rank); err != nil {
			return err
		}
	}
	if err := device.Launch(s, k, wave, block, &settle); err != nil {
		return err
	}
	return device.Launch(s, e.kernel.reset, wave, block, &rank)
}

func (e *gpuEngine) counts(ctx context.Context) (counters, error) {
	if !e.stale {
		return e.known, nil
	}
	if err := e.stream.Wait(e.changed); err != nil {
		return counters{}, err
	}
	var c counters
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&c)), unsafe.Sizeof(c))
	if err := e.stream.CopyOut(ctx, raw, refOf(e.gen).counters); err != nil {
		return counters{}, err
	}
	e.known, e.stale = c, false
	return c, nil
}

func (e *gpuEngine) lost(ctx context.Context) (int, error) {
	n, err := e.scratch.read(ctx, controlLost)
	if err != nil || n == 0 {
		return 0, err
	}
	return int(n), e.scratch.set(e.stream, controlLost, 0)
}

func (e *gpuEngine) settle(ctx context.Context) error { return e.dev.Sync(ctx) }

// ---- whole tables -----------------------------------------------------------

func (e *gpuEngine) rehash(ctx context.Context, lines uint32) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	// Lookups may be under way on streams of the caller.
	if err := e.settle(ctx); err != nil {
		return err
	}
	g := e.gen.geometry
	g.lines = lines
	to, err := e.allocate(g)
	if err != nil {
		return err
	}
	left, err := e.move(e.gen, to)
	if err == nil && left > 0 {
		err = fmt.Errorf("linear: rehash to %d lines leaves %d keys without room: %w", lines, left, weft.ErrFull)
	}
	if err != nil {
		e.dev.Free(to.buf)
		return err
	}
	old := e.gen
	e.gen, e.stale = to, true
	return errors.Join(e.stream.Record(e.changed), e.release(old))
}

// move copies the live pairs of one generation to an empty other, waits for
// it, and returns how many did not fit.
func (e *gpuEngine) move(from, to *generation) (int, error) {
	if err := e.scratch.set(e.stream, controlResult, 0); err != nil {
		return 0, err
	}
	slots := (int(from.lines) + 1) * lineBytes / e.widths.slot
	p := rehashParams{from: refOf(from), to: refOf(to), lost: e.scratch.word(controlResult)}
	if err := device.Launch(e.stream, e.kernel.rehash, e.wave(slots), block, &p); err != nil {
		return 0, err
	}
	n, err := e.scratch.read(context.Background(), controlResult)
	return int(n), err
}

func (e *gpuEngine) clear(ctx context.Context) error {
	if err := e.settle(ctx); err != nil {
		return err
	}
	e.stale = true
	if err := e.wipe(e.gen); err != nil {
		return err
	}
	return e.stream.Record(e.changed)
}

func (e *gpuEngine) hold() *generation {
	e.gen.refs++
	return e.gen
}

func (e *gpuEngine) release(g *generation) error {
	if g.refs--; g.refs > 0 {
		return nil
	}
	return e.dev.Free(g.buf)
}

func (e *gpuEngine) export(ctx context.Context, g *generation, lo, hi uint32, keys, vals []byte) (n int, err error) {
	c, err := e.carriers.take(e.dev)
	if err != nil {
		return 0, err
	}
	defer e.carriers.give(c)
	// The columns are as long as the slots; what is live comes first.
	slots := int(hi-lo) * lineBytes / e.widths.slot
	_, err = c.ring.RunWhole(ctx, slots,
		[]staging.Column{{Host: keys, Width: e.widths.key}, {Host: vals, Width: e.widths.val}},
		func(p *staging.Piece) error {
			err := errors.Join(p.Stream.Wait(e.changed), p.Stream.Fill(c.hits.Ptr(), 0, 2))
			if err != nil {
				return err
			}
			return device.Launch(p.Stream, e.kernel.export, e.wave(slots), block, &exportParams{
				table: refOf(g), keys: p.Out[0], vals: p.Out[1], count: c.hits.Ptr(), lo: lo, hi: hi,
			})
		})
	if err != nil {
		return 0, err
	}
	var count [1]uint64
	err = c.hits.CopyTo(ctx, e.stream, count[:])
	return int(count[0]), err
}

func (e *gpuEngine) probeLengths(ctx context.Context) (sum uint64, longest uint32, err error) {
	if err := e.stream.Wait(e.changed); err != nil {
		return 0, 0, err
	}
	if err := e.stream.Fill(e.scratch.word(controlSum), 0, 4); err != nil {
		return 0, 0, err
	}
	p := statsParams{table: refOf(e.gen), sum: e.scratch.word(controlSum), longest: e.scratch.word(controlLongest)}
	if err := device.Launch(e.stream, e.kernel.probe, e.wave(e.slots()), block, &p); err != nil {
		return 0, 0, err
	}
	var out [2]uint64
	if err := e.stream.CopyOut(ctx, device.Bytes(out[:]), e.scratch.word(controlSum)); err != nil {
		return 0, 0, err
	}
	return out[0], uint32(out[1]), nil
}

func (e *gpuEngine) close() (err error) {
	if e.stream != nil {
		err = e.settle(context.Background())
	}
	err = errors.Join(err, e.carriers.free(), e.scratch.free())
	if e.gen != nil {
		err = errors.Join(err, e.release(e.gen))
	}
	if e.changed != nil {
		err = errors.Join(err, e.changed.Close())
	}
	if e.stream != nil {
		err = errors.Join(err, e.stream.Close())
	}
	return err
}
