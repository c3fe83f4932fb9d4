package horton

import (
	"context"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/bucket"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/op"
)

//go:generate go run ../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 -widths 32_32,64_64,32_0,64_0 -type horton::Table=tableRef -type weft::Lookup=internal/gpu.Lookup -type weft::Changes=internal/gpu.Changes -type weft::List=internal/gpu.List -type weft::Winners=internal/gpu.Winners -type weft::Contest=internal/gpu.Contest -type weft::Export=internal/gpu.Export horton.cu
//go:generate go run ../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 -widths 32_32,32_64,64_32,64_64,32_0,64_0 -type weft::ChangeParams=.changeParams -type weft::EvictParams=.evictParams horton_mixed.cu

const (
	// strideBlocks is the number of blocks per multiprocessor in kernels that stride over a table.
	// It exceeds the number that run at the same time.
	strideBlocks = 8

	lanes = 4 // as in horton_table.cuh

	// narrowBytes is the maximum size of a bucket that narrow kernels read, in one step. Wide
	// kernels read larger buckets, twice as much at a time.
	narrowBytes = 64
)

// gpuEngine runs the kernels of horton.cu.
type gpuEngine struct {
	gpu.Engine
	kernel    kernels
	deletions deletions
}

// kernels holds the kernels that are compiled for one pair of key and value widths.
type kernels struct {
	engine *gpu.Engine
	widths batch.Widths
	mode

	get, getWide, getOfEight                           device.Kernel
	change, changeWide, changeOfEight, displace, evict device.Kernel
	rehash, reclaim, export, stats                     device.Kernel
	mixed                                              gpu.MixedKernels
	mixedEvict                                         device.Kernel

	// reclaimDue is set if deletes have left buckets to reclaim later.
	reclaimDue bool
}

func newGPUEngine(dev device.Device, w batch.Widths, first bucket.Size, m mode) (engine, *core.Leases, error) {
	e := &gpuEngine{}
	e.kernel = kernels{engine: &e.Engine, widths: w, mode: m}
	e.Capacity = m.capacity
	leases, err := bucket.OpenGPU(&e.Engine, dev, w, &e.kernel, func() (*generation, error) { return allocate(dev, m.layout.geometry(first)) })
	return e, leases, err
}

// Load implements [bucket.Kernels].
func (k *kernels) Load(dev device.Device, order *gpu.OrderKernels) error {
	entries := append(order.Entries(k.widths), []gpu.Entry{
		{Name: "get", To: &k.get}, {Name: "get_of_eight", To: &k.getOfEight}, {Name: "change", To: &k.change}, {Name: "change_of_eight", To: &k.changeOfEight},
		{Name: "displace", To: &k.displace}, {Name: "evict", To: &k.evict},
		{Name: "rehash", To: &k.rehash}, {Name: "reclaim", To: &k.reclaim}, {Name: "export", To: &k.export}, {Name: "stats", To: &k.stats},
	}...)
	if bucket.MaxSlots*k.widths.Slot > narrowBytes {
		entries = append(entries, gpu.Entry{Name: "get_wide", To: &k.getWide}, gpu.Entry{Name: "change_wide", To: &k.changeWide})
	}
	return gpu.Load(dev, hortonImages[gpu.SlotVariant(k.widths)], entries)
}

// minUrgentSlots is the minimum size of tables that displace primary keys, against guideline 1,
// before they refuse a key. For smaller tables another seed costs less.
const minUrgentSlots = 1 << 11

// reachableKeys returns a number of keys for which the table surely has slots. Up to that number, a
// search for a slot is worth its time.
func (g geometry) reachableKeys() uint64 {
	slots := int(g.buckets) << g.shift
	if slots < minUrgentSlots {
		return 0
	}
	return uint64(maxLoads[1<<g.shift] * float64(slots))
}

func refOf(p core.Parts) tableRef {
	g := p.(*generation)
	return tableRef{
		lines: g.Buf.Ptr, counters: g.TallyPtr(), locks: g.Locks(), seed: g.seed,
		nlines: g.lines, buckets: g.buckets, shift: g.shift, lockMask: g.LockMask(),
		bears: g.reachableKeys(),
	}
}

// selectKernel returns narrow or wide, depending on the size of buckets.
func (k *kernels) selectKernel(narrow, wide device.Kernel) device.Kernel {
	if k.layout.slots*k.layout.slotBytes > narrowBytes {
		return wide
	}
	return narrow
}

// Lookup implements [gpu.Structure].
func (k *kernels) Lookup(s *device.Stream, p core.Parts, b *batch.Batch, hits device.Ptr) error {
	kernel, lanes := k.selectKernel(k.get, k.getWide), lanes
	if k.layout.slots == bucket.DefaultSlots {
		kernel, lanes = k.getOfEight, bucket.RoundLanes(k.widths.Slot)
	}
	lookup, grid := gpu.LookupOf(b, hits, lanes)
	return device.Launch(s, kernel, gpu.Strides(s.Device(), grid, strideBlocks), gpu.Block, &getParams{table: refOf(p), lookup: lookup})
}

// Change implements [gpu.Structure]. The first launch moves no keys. A second launch runs the
// insertions that found no slot.
func (k *kernels) Change(s *device.Stream, p core.Parts, c *gpu.Change) (contended bool, err error) {
	first := changeParams{table: refOf(p), changes: c.Args}
	first.changes.Failed, first.changes.First = c.Spilled, 0
	change, grid := k.selectKernel(k.change, k.changeWide), gpu.Grid(c.N)
	if k.layout.slots == bucket.DefaultSlots {
		change, grid = k.changeOfEight, gpu.Strides(s.Device(), grid, strideBlocks)
	}
	err = c.Submit(s.Device(), k.widths, change, grid,
		func() (*gpu.MixedKernels, error) { return k.loadMixed(s.Device()) },
		func(kernel device.Kernel, grid device.Dim) error {
			return device.Launch(s, kernel, grid, gpu.Block, &first)
		})
	if err == nil && c.Inserts() {
		err = k.insert(s, &first, c)
	}
	if err == nil && (c.Kind == op.Delete || c.Columns[batch.Kinds].Given()) {
		err = k.reclaimDeleted(s, &first, c.NoMoves)
	}
	return c.Ordered(), err
}

// reclaimDeleted launches a kernel that reclaims the buckets of deleted keys, or sets reclaimDue.
func (k *kernels) reclaimDeleted(s *device.Stream, c *changeParams, pinned bool) error {
	if !k.eager || pinned {
		k.reclaimDue = true
		return nil
	}
	return k.launchReclaim(s, reclaimParams{table: c.table, keys: c.changes.Keys, hi: c.changes.N, narrow: c.changes.Narrow})
}

// insert launches the insertions of keys that found no slot. Insertions that need only one move run
// first.
func (k *kernels) insert(s *device.Stream, first *changeParams, c *gpu.Change) error {
	evict := evictParams{table: first.table, changes: c.Args, spilled: c.Spilled}
	if c.NoMoves {
		evict.still = 1
	}
	if k.layout.slots == bucket.DefaultSlots && !c.NoMoves {
		if err := device.Launch(s, k.displace, gpu.Wave(s.Device(), c.N), gpu.Block, &evict); err != nil {
			return err
		}
	}
	kernel := k.evict
	if c.Combines() && k.widths.Val > 0 {
		kernel = k.mixedEvict
	}
	return device.Launch(s, kernel, gpu.Wave(s.Device(), c.N), gpu.Block, &evict)
}

func (k *kernels) launchReclaim(s *device.Stream, p reclaimParams) error {
	return device.Launch(s, k.reclaim, gpu.Wave(s.Device(), int(p.hi)), gpu.Block, &p)
}

// loadMixed loads the kernels of batches that mix operations or combine values.
func (k *kernels) loadMixed(dev device.Device) (_ *gpu.MixedKernels, err error) {
	if k.mixed.Change == nil {
		entries := k.mixed.Entries("", k.widths)
		if k.widths.Val > 0 {
			entries = append(entries, gpu.Entry{Name: "evict", To: &k.mixedEvict})
		}
		err = gpu.Load(dev, hortonMixedImages[gpu.Variant(k.widths)], entries)
	}
	return &k.mixed, err
}

// ResolveWinners implements [gpu.Structure]. It launches the kernel that resolves duplicates.
func (k *kernels) ResolveWinners(s *device.Stream, p core.Parts, c *gpu.Change, w *gpu.Winners) error {
	return device.Launch(s, k.engine.Order.Winners(c.Kind), gpu.Wave(s.Device(), c.N), gpu.Block,
		&winnersParams{table: refOf(p), winners: *w})
}

// Export implements [gpu.Structure]. It launches the kernel that copies the pairs of lines [lo,hi).
func (k *kernels) Export(s *device.Stream, p core.Parts, lo, hi uint32, out *batch.Batch, count device.Ptr) error {
	slots := int(hi-lo) * lineBytes / k.widths.Slot
	return device.Launch(s, k.export, gpu.Wave(s.Device(), slots), gpu.Block, &exportParams{
		table: refOf(p), to: gpu.ExportOf(out, p.(*generation).Memory(), lo, hi, count),
	})
}

func (e *gpuEngine) geometry() geometry { return e.Parts().(*generation).geometry }

// Size implements [bucket.Engine].
func (e *gpuEngine) Size() bucket.Size { return e.geometry().Size() }

// Change implements [core.Engine].
func (e *gpuEngine) Change(ctx context.Context, s *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	e.kernel.reclaimDue = false
	done, failed, err = e.Engine.Change(ctx, s, b)
	// also after an error, since a part of the batch may have run
	inserts, deletes := countPossible(b)
	if !e.kernel.reclaimDue {
		deletes = 0
	}
	e.deletions.addSubmitted(inserts, deletes)
	return done, failed, err
}

// countPossible counts the operations of a batch that may insert a key, and those that may delete
// one. In a mixed batch on the device, each operation may do both.
func countPossible(b *batch.Batch) (inserts, deletes int) {
	kinds := b.Columns[batch.Kinds]
	switch {
	case !kinds.Given() && b.Inserts():
		return b.N, 0
	case !kinds.Given():
		return 0, b.N
	case kinds.Host == nil:
		return b.N, b.N
	}
	for _, kind := range batch.View[op.Kind](kinds.Host)[:b.N] {
		if kind == op.Delete {
			deletes++
		} else if kind.Inserts() {
			inserts++
		}
	}
	return inserts, deletes
}

// ReadCounters implements [core.Engine].
func (e *gpuEngine) ReadCounters(ctx context.Context) (core.Counters, error) {
	now, err := e.Engine.ReadCounters(ctx)
	if err == nil {
		e.deletions.setLive(now.Live)
	}
	return now, err
}

func (e *gpuEngine) deleted() uint64 { return e.deletions.bound() }

func (e *gpuEngine) reclaim(ctx context.Context) (done bool, err error) {
	done, err = e.Rearrange(ctx, func(s *device.Stream) error {
		return e.kernel.launchReclaim(s, reclaimParams{table: refOf(e.Parts()), hi: e.geometry().buckets})
	})
	if done {
		e.deletions.setReclaimed()
	}
	return done, err
}

// Clear implements [core.Engine].
func (e *gpuEngine) Clear(ctx context.Context) error {
	err := e.Engine.Clear(ctx)
	if err == nil {
		e.deletions = deletions{}
	}
	return err
}

func (e *gpuEngine) countBuckets(ctx context.Context) (c bucketCounts, err error) {
	var out [5]uint64
	err = e.Report(ctx, out[:], func(to device.Ptr) error {
		return device.Launch(e.Stream, e.kernel.stats, gpu.Wave(e.Dev, int(e.geometry().buckets)), gpu.Block,
			&statsParams{table: refOf(e.Parts()), sums: to})
	})
	return bucketCounts{arrays: out[0], entries: out[1], secondary: out[2], displaced: out[3], full: out[4]}, err
}

// Rehash implements [bucket.Engine].
func (e *gpuEngine) Rehash(ctx context.Context, size bucket.Size) error {
	allocate := func() (*generation, error) { return allocate(e.Dev, e.kernel.layout.geometry(size)) }
	err := bucket.RehashGPU(ctx, &e.Engine, allocate, func(s *device.Stream, from, to *generation, lo, hi uint32, dropped device.Ptr) error {
		p := rehashParams{from: refOf(from), to: refOf(to), lo: lo, hi: hi, lost: dropped}
		return device.Launch(s, e.kernel.rehash, gpu.Wave(e.Dev, int(hi-lo)*lineBytes/e.Widths.Slot), gpu.Block, &p)
	})
	if err == nil {
		e.deletions.setReclaimed()
	}
	return err
}
