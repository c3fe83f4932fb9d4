package linear

import (
	"context"
	"errors"
	"fmt"
	"structs"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpubatch"
	"github.com/weftgo/weft/internal/staging"
)

//go:generate go run ../internal/kernelgen -target 80+ptx83,90+ptx83 linear.cu

// The parameters of the kernels; the twins are in layout.cuh and order.cuh,
// where each field is explained.
type (
	list       = gpubatch.List
	rankParams = gpubatch.RankParams

	tableRef struct {
		_        structs.HostLayout
		lines    device.Ptr
		counters device.Ptr
		seed     uint64
		nlines   uint32
		maxLines uint32
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
		lo   uint32
		hi   uint32
	}
	inPlaceParams struct {
		_        structs.HostLayout
		table    tableRef
		borders  device.Ptr
		found    device.Ptr
		segments uint32
		lo       uint32
		hi       uint32
		unused   uint32
	}
	exportParams struct {
		_      structs.HostLayout
		table  tableRef
		keys   device.Ptr
		vals   device.Ptr
		count  device.Ptr
		lo     uint32
		hi     uint32
		step   uint32
		unused uint32
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
	// From these loads on, whole lines are read instead of sectors
	// (tuning.cuh): below, most keys lie in their home sector and a wider read
	// costs more than it saves. A sector has two slots of 16 bytes or four and
	// more of 8 and less.
	wideGet16, wideGet8 = 0.55, 0.7
	wideChange          = 0.5

	narrowLanes, wideLanes = 2, 4 // tuning.cuh
	warpThreads            = 32

	// spreadKeys is the size of batches up to which each key gets a tile to
	// itself, so that the batch is back after one chain of reads and not after
	// two or four.
	spreadKeys = 1 << 14

	// launchOps is the number of changes in a launch that settles no duplicates;
	// between launches the choice between sectors and lines is made anew.
	launchOps = 1 << 24
)

// gpuEngine runs the kernels of linear.cu.
type gpuEngine struct {
	dev    device.Device
	widths batch.Widths
	kernel kernels
	gen    *generation
	queue  gpubatch.Queue

	// borders are those of the segments, in a fixed table: what a rehash in
	// place needs of memory.
	borders device.Slice[uint32]

	known counters // as of the last counts
	stale bool     // changes have been submitted since
}

// kernels are the entry points for one pair of widths.
type kernels struct {
	get, getWide, change, changeWide device.Kernel
	rehash, borders, inPlace         device.Kernel
	export, probe                    device.Kernel
	order                            gpubatch.OrderKernels
}

func newGPUEngine(dev device.Device, w batch.Widths, g geometry, fixed bool) (_ engine, err error) {
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
	if e.gen, err = e.allocate(g); err != nil {
		return nil, err
	}
	if fixed {
		if err = e.reserveBorders(g); err != nil {
			return nil, err
		}
	}
	// Lookups on streams of the caller wait for nothing.
	if err = e.queue.Stream.Sync(context.Background()); err != nil {
		return nil, err
	}
	return e, nil
}

func loadKernels(dev device.Device, w batch.Widths) (k kernels, err error) {
	pair := gpubatch.Pair(w)
	err = gpubatch.Load(dev, &linearImage, append(k.order.Entries(w), []gpubatch.Entry{
		{Name: "get" + pair, To: &k.get}, {Name: "get_wide" + pair, To: &k.getWide},
		{Name: "change" + pair, To: &k.change}, {Name: "change_wide" + pair, To: &k.changeWide},
		{Name: "rehash" + pair, To: &k.rehash}, {Name: "borders" + pair, To: &k.borders}, {Name: "in_place" + pair, To: &k.inPlace},
		{Name: "export" + pair, To: &k.export}, {Name: "stats" + pair, To: &k.probe},
	}...))
	return k, err
}

// allocate makes an empty generation; submitted to the engine's stream.
func (e *gpuEngine) allocate(g geometry) (*generation, error) {
	buf, err := e.dev.Alloc(g.bytes())
	if err != nil {
		return nil, fmt.Errorf("table of %d bytes: %w", g.bytes(), err)
	}
	gen := &generation{geometry: g, buf: buf, refs: 1, order: core.SpreadOver(g.lines)}
	if err := e.wipe(gen); err != nil {
		e.dev.Free(buf)
		return nil, err
	}
	return gen, nil
}

func (e *gpuEngine) wipe(g *generation) error {
	ref := refOf(g)
	if err := e.queue.Stream.Fill(ref.lines, ^uint32(0), int(ref.counters-ref.lines)/4); err != nil {
		return err
	}
	return e.queue.Stream.Fill(ref.counters, 0, lineBytes/4)
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

// ---- lookups ----------------------------------------------------------------

func (e *gpuEngine) getOn(s *device.Stream, b *batch.Batch) error { return e.launchGet(s, b, 0) }

func (e *gpuEngine) launchGet(s *device.Stream, b *batch.Batch, hits device.Ptr) error {
	if b.N == 0 {
		return nil
	}
	k, lanes, wide := e.kernel.get, narrowLanes, wideGet8
	if e.widths.Slot == 16 {
		wide = wideGet16
	}
	if b.Load > wide {
		k, lanes = e.kernel.getWide, wideLanes
	}
	p := getParams{
		table: refOf(e.gen), keys: b.Keys.Ptr, vals: b.Vals.Ptr, found: b.OK.Ptr, hits: hits, n: uint64(b.N),
	}
	threads := b.N
	if b.N <= spreadKeys {
		p.spread, threads = 1, b.N*lanes
	}
	return device.Launch(s, k, gpubatch.Grid(threads), gpubatch.Block, &p)
}

func (e *gpuEngine) slots() int { return int(e.gen.lines) * lineBytes / e.widths.Slot }

func (e *gpuEngine) get(ctx context.Context, b *batch.Batch) (hits int, err error) {
	return e.queue.Get(ctx, b, e.launchGet)
}

func (e *gpuEngine) present(ctx context.Context, s *device.Stream, b *batch.Batch) (int, error) {
	keys := &batch.Batch{N: b.N, Keys: b.Keys, Load: b.Load}
	if s == nil {
		return e.get(ctx, keys)
	}
	return e.queue.Present(ctx, s, func(hits device.Ptr) error { return e.launchGet(s, keys, hits) })
}

// ---- changes ----------------------------------------------------------------

func (e *gpuEngine) change(ctx context.Context, b *batch.Batch) (done int, failed []uint32, err error) {
	return e.queue.Change(ctx, b, e.submit)
}

func (e *gpuEngine) changeOn(s *device.Stream, b *batch.Batch) ([]uint32, error) {
	piece := launchOps
	if b.Ordered() {
		piece = gpubatch.SettleOps
		if err := e.queue.Reserve(min(b.N, piece), 0); err != nil {
			return nil, err
		}
	}
	lost := list{Count: e.queue.Word(gpubatch.WordLost)}
	for lo := 0; lo < b.N; lo += piece {
		part := b.Sub(lo, min(lo+piece, b.N), e.widths)
		if err := e.submit(s, part, lost, lo); err != nil {
			return nil, err
		}
	}
	return nil, nil
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
	if b.Load+float64(first)/float64(e.slots()) > wideChange {
		k = e.kernel.changeWide
	}
	table := refOf(e.gen)
	if err := device.Launch(s, k, gpubatch.Grid(b.N), gpubatch.Block, &changeParams{
		table: table, keys: b.Keys.Ptr, vals: b.Vals.Ptr, kinds: b.Kinds.Ptr, out: b.Out.Ptr, ok: ok,
		deferred: deferred, failed: failed,
		n: uint32(b.N), first: uint32(first), kind: uint32(b.Kind), flags: uint32(flags),
	}); err != nil {
		return err
	}
	if b.Ordered() {
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
	if err := e.queue.Stream.CopyOut(ctx, raw, refOf(e.gen).counters); err != nil {
		return counters{}, err
	}
	e.known, e.stale = c, false
	return c, nil
}

func (e *gpuEngine) lost(ctx context.Context) (int, error) { return e.queue.Lost(ctx) }

func (e *gpuEngine) settle(ctx context.Context) error { return e.dev.Sync(ctx) }

// ---- whole tables -----------------------------------------------------------

func (e *gpuEngine) clear(ctx context.Context) error {
	if err := e.settle(ctx); err != nil {
		return err
	}
	e.stale = true
	return e.wipe(e.gen)
}

func (e *gpuEngine) hold() *generation {
	e.gen.refs++
	return e.gen
}

func (e *gpuEngine) revert(to *generation) error {
	var from *generation
	from, e.gen = e.gen, to
	e.stale = true
	return e.release(from)
}

func (e *gpuEngine) release(g *generation) error {
	if g.refs--; g.refs > 0 {
		return nil
	}
	return e.dev.Free(g.buf)
}

func (e *gpuEngine) export(ctx context.Context, g *generation, lo, hi uint32, keys, vals []byte) (n int, err error) {
	c, err := e.queue.Take()
	if err != nil {
		return 0, err
	}
	defer e.queue.Give(c)
	// The columns are as long as the slots; what is live comes first.
	slots := int(hi-lo) * lineBytes / e.widths.Slot
	_, err = c.Ring.RunWhole(ctx, slots,
		[]staging.Column{{Host: keys, Width: e.widths.Key}, {Host: vals, Width: e.widths.Val}},
		func(p *staging.Piece) error {
			// Changes submitted since the iteration began may be seen or not.
			if err := p.Stream.Fill(c.Hits.Ptr(), 0, 2); err != nil {
				return err
			}
			return device.Launch(p.Stream, e.kernel.export, gpubatch.Wave(e.dev, slots), gpubatch.Block, &exportParams{
				table: refOf(g), keys: p.Out[0], vals: p.Out[1], count: c.Hits.Ptr(), lo: lo, hi: hi, step: g.order.Step(),
			})
		})
	if err != nil {
		return 0, err
	}
	var count [1]uint64
	err = c.Hits.CopyTo(ctx, e.queue.Stream, count[:])
	return int(count[0]), err
}

func (e *gpuEngine) probeLengths(ctx context.Context) (sum uint64, longest uint32, err error) {
	if err := e.queue.Stream.Fill(e.queue.Word(gpubatch.WordSum), 0, 4); err != nil {
		return 0, 0, err
	}
	p := statsParams{table: refOf(e.gen), sum: e.queue.Word(gpubatch.WordSum), longest: e.queue.Word(gpubatch.WordLongest)}
	if err := device.Launch(e.queue.Stream, e.kernel.probe, gpubatch.Wave(e.dev, e.slots()), gpubatch.Block, &p); err != nil {
		return 0, 0, err
	}
	var out [2]uint64
	if err := e.queue.Stream.CopyOut(ctx, device.Bytes(out[:]), e.queue.Word(gpubatch.WordSum)); err != nil {
		return 0, 0, err
	}
	return out[0], uint32(out[1]), nil
}

func (e *gpuEngine) close() error {
	err := errors.Join(e.queue.Close(), e.borders.Free())
	if e.gen != nil {
		err = errors.Join(err, e.release(e.gen))
	}
	return err
}
