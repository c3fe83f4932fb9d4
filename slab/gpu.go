package slab

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/alloc"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/op"
)

//go:generate go run ../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 -widths 32_32,64_64,32_0,64_0 -type slab::Table=tableRef -type weft::Allocator=alloc.Ref -type weft::Lookup=internal/gpu.Lookup -type weft::Changes=internal/gpu.Changes -type weft::Winners=internal/gpu.Winners -type weft::Contest=internal/gpu.Contest -type weft::Export=internal/gpu.Export slab.cu
//go:generate go run ../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 -widths 32_32,32_64,64_32,64_64 -type slab::Table=.tableRef -type GetParams=.getParams -type weft::ChangeParams=.changeParams slab_multi.cu
//go:generate go run ../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 -widths 32_32,32_64,64_32,64_64,32_0,64_0 -type weft::ChangeParams=.changeParams slab_mixed.cu

// Parameters that tune the launches.
const (
	tileLanes = 4 // lanes per tile, as in tuning.cuh

	// appendWarps is the number of warps, one per block, that append the contended pairs of a
	// change.
	appendWarps, warpThreads = 16, 32
)

// gpuEngine runs the kernels of slab.cu.
type gpuEngine struct {
	gpu.Engine
	kernel kernels
	fixed  bool
}

// kernels holds the kernels for slots of one pair of widths. mixed holds the kernels that combine
// values, loaded on first use. The kernels on the last line are loaded only for multimaps.
type kernels struct {
	engine *gpu.Engine
	widths batch.Widths

	get, change, rehash, flush, export, chains    device.Kernel
	mixed                                         gpu.MixedKernels
	getMulti, changeMulti, append, tally, collect device.Kernel
}

func newGPUEngine(dev device.Device, w batch.Widths, g geometry, units int, fixed, multi bool) (_ engine, _ *core.Leases, err error) {
	e := &gpuEngine{fixed: fixed}
	e.kernel = kernels{engine: &e.Engine, widths: w}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	if err = e.kernel.load(dev, &e.Order, multi); err != nil {
		return nil, nil, err
	}
	if err = e.OpenEngine(dev, w, slotsIn(w.Slot), &e.kernel); err != nil {
		return nil, nil, err
	}
	gen, err := allocate(dev, g, units, fixed)
	if err != nil {
		return nil, nil, err
	}
	leases, err := e.Start(gen)
	return e, leases, err
}

func (k *kernels) load(dev device.Device, order *gpu.OrderKernels, multi bool) error {
	if err := gpu.Load(dev, slabImages[gpu.SlotVariant(k.widths)], append(order.Entries(k.widths), []gpu.Entry{
		{Name: "get", To: &k.get}, {Name: "change", To: &k.change}, {Name: "rehash", To: &k.rehash},
		{Name: "flush", To: &k.flush}, {Name: "export", To: &k.export}, {Name: "chains", To: &k.chains},
	}...)); err != nil || !multi {
		return err
	}
	return gpu.Load(dev, slabMultiImages[gpu.Variant(k.widths)], []gpu.Entry{
		{Name: "get", To: &k.getMulti}, {Name: "change", To: &k.changeMulti},
		{Name: "append", To: &k.append}, {Name: "tally", To: &k.tally}, {Name: "collect", To: &k.collect},
	})
}

// loadMixed loads the kernels for batches that mix operations or combine values.
func (k *kernels) loadMixed(dev device.Device) (_ *gpu.MixedKernels, err error) {
	if k.mixed.Change == nil {
		err = gpu.Load(dev, slabMixedImages[gpu.Variant(k.widths)], k.mixed.Entries("", k.widths))
	}
	return &k.mixed, err
}

func refOf(p core.Parts) tableRef {
	g := p.(*generation)
	return tableRef{
		slabs:    g.Buf.Ptr,
		counters: g.TallyPtr(),
		alloc:    g.units.Ref(false),
		seed:     g.seed,
		buckets:  g.buckets,
	}
}

// refFor returns the table as a parameter of kernels that run change c. If operations of the change
// are not retried, the allocator must find any free unit.
func refFor(p core.Parts, c *gpu.Change) tableRef {
	ref := refOf(p)
	if c.Args.Failed.Items == 0 {
		ref.alloc = p.(*generation).units.Ref(true)
	}
	return ref
}

// Lookup implements gpu.Structure.
func (k *kernels) Lookup(s *device.Stream, p core.Parts, b *batch.Batch, hits device.Ptr) error {
	if counts := b.Columns[batch.Counts]; counts.Given() {
		return device.Launch(s, k.tally, gpu.Grid(b.N), gpu.Block,
			&tallyParams{table: refOf(p), keys: b.Columns[batch.Keys].Ptr, counts: counts.Ptr, n: uint64(b.N)})
	}
	kernel := k.get
	if b.Flags&batch.Multi != 0 {
		kernel = k.getMulti
	}
	lookup, grid := gpu.LookupOf(b, hits, tileLanes)
	return device.Launch(s, kernel, grid, gpu.Block, &getParams{table: refOf(p), lookup: lookup})
}

// Change implements gpu.Structure. If the change adds pairs to a multimap, Change also launches a
// kernel that appends the contended pairs, which the first kernel lists.
func (k *kernels) Change(s *device.Stream, p core.Parts, c *gpu.Change) (contended bool, err error) {
	kernel := k.change
	if c.Flags&batch.Multi != 0 {
		kernel = k.changeMulti
	}
	params := changeParams{table: refFor(p, c), changes: c.Args}
	err = c.Submit(s.Device(), k.widths, kernel, gpu.Grid(c.N),
		func() (*gpu.MixedKernels, error) { return k.loadMixed(s.Device()) },
		func(k device.Kernel, grid device.Dim) error { return device.Launch(s, k, grid, gpu.Block, &params) })
	if err != nil || !c.Appends() {
		return c.Ordered(), err
	}
	return false, device.Launch(s, k.append, device.Dim{X: appendWarps}, device.Dim{X: warpThreads}, &params)
}

// ResolveWinners implements gpu.Structure.
func (k *kernels) ResolveWinners(s *device.Stream, p core.Parts, c *gpu.Change, w *gpu.Winners) error {
	return device.Launch(s, k.engine.Order.Winners(c.Kind), gpu.Wave(s.Device(), c.N), gpu.Block,
		&winnersParams{table: refFor(p, c), winners: *w})
}

// Export implements gpu.Structure.
func (k *kernels) Export(s *device.Stream, p core.Parts, lo, hi uint32, out *batch.Batch, count device.Ptr) error {
	return device.Launch(s, k.export, tiles(s.Device(), hi-lo), gpu.Block, &exportParams{
		table: refOf(p), to: gpu.ExportOf(out, p.(*generation).Memory(), lo, hi, count),
	})
}

// tiles returns the size of a launch with one tile per bucket, limited to a full device.
func tiles(dev device.Device, buckets uint32) device.Dim {
	return gpu.Wave(dev, (int(buckets)+1)*tileLanes)
}

// WriteRows implements gpu.Expander. It launches a kernel that writes the values of n keys to vals.
// The values of key i begin at row offsets[i]. It writes only rows from first to limit-1.
func (k *kernels) WriteRows(s *device.Stream, p core.Parts, n int, keys, offsets, vals, found device.Ptr, first, limit uint64) error {
	return device.Launch(s, k.collect, gpu.Grid(n), gpu.Block, &collectParams{
		table: refOf(p), keys: keys, offsets: offsets, vals: vals, first: first, rows: limit, found: found, n: uint64(n),
	})
}

// ---- engine -----------------------------------------------------------------

// Change implements core.Engine. If a multimap adds pairs, Change sets the Order flag, so that the
// kernel lists the pairs that contend with too many others.
func (e *gpuEngine) Change(ctx context.Context, s *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	if b.Appends() {
		listing := *b
		listing.Flags |= batch.Order
		b = &listing
	}
	return e.Engine.Change(ctx, s, b)
}

// Expand implements core.Expander.
func (e *gpuEngine) Expand(ctx context.Context, s *device.Stream, l *core.Lease, b *batch.Batch) error {
	return e.Engine.Expand(ctx, s, l, b, &e.kernel)
}

func (e *gpuEngine) generation() *generation { return e.Parts().(*generation) }

func (e *gpuEngine) geometry() geometry { return e.generation().geometry }

func (e *gpuEngine) units() *alloc.Owner { return e.generation().units }

func (e *gpuEngine) rehash(ctx context.Context, buckets uint32, units int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	from := e.generation()
	to, err := allocate(e.Dev, geometry{seed: from.seed, buckets: buckets}, units, e.fixed)
	if err != nil {
		return err
	}
	dropped, err := e.Move(ctx, to, func(s *device.Stream, p core.Parts, dropped device.Ptr) error {
		return device.Launch(s, e.kernel.rehash, tiles(e.Dev, from.buckets), gpu.Block,
			&rehashParams{from: refOf(p), to: refOf(to), lost: dropped})
	})
	if err == nil && dropped > 0 {
		err = fmt.Errorf("rehash to %d buckets leaves %d pairs without room: %w", buckets, dropped, op.ErrFull)
	}
	return err
}

func (e *gpuEngine) flush(ctx context.Context) error {
	return e.RunExclusive(ctx, func(s *device.Stream) error {
		g := e.generation()
		return device.Launch(s, e.kernel.flush, tiles(e.Dev, g.buckets), gpu.Block, &flushParams{table: refOf(g)})
	})
}

// Clear implements core.Engine.
func (e *gpuEngine) Clear(ctx context.Context) error {
	// Clear the slabs first, so that no chain leads to a free unit.
	if err := e.Engine.Clear(ctx); err != nil {
		return err
	}
	return e.units().Clear(ctx)
}

func (e *gpuEngine) chains(ctx context.Context) (lengths [chainLengths]uint64, err error) {
	g := e.generation()
	err = e.Report(ctx, lengths[:], func(to device.Ptr) error {
		return device.Launch(e.Stream, e.kernel.chains, gpu.Wave(e.Dev, int(g.buckets)+1), gpu.Block, &chainParams{table: refOf(g), lengths: to})
	})
	return lengths, err
}
