package cuckoo

import (
	"context"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/bucket"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
)

//go:generate go run ../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 -widths 32_32,64_64,32_0,64_0 -type cuckoo::Table=tableRef -type weft::Lookup=internal/gpu.Lookup -type weft::Changes=internal/gpu.Changes -type weft::List=internal/gpu.List -type weft::Winners=internal/gpu.Winners -type weft::Contest=internal/gpu.Contest -type weft::Export=internal/gpu.Export cuckoo.cu
//go:generate go run ../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 -widths 32_32,32_64,64_32,64_64,32_0,64_0 -type weft::ChangeParams=.changeParams -type weft::EvictParams=.evictParams cuckoo_mixed.cu

const (
	// strideBlocks is the number of blocks per multiprocessor in kernels that stride over a table.
	// It exceeds the number that run at the same time.
	strideBlocks = 8

	// wideGet and wideChange are the loads above which kernels read 64 bytes of a bucket at a time
	// instead of a sector. Below, the first sector usually suffices, since buckets fill from their
	// first slot.
	wideGet, wideChange = 0.4, 0.4

	narrowLanes, wideLanes = 2, 4 // as in cuckoo_table.cuh
	laneBytes              = 16
)

// gpuEngine runs the kernels of cuckoo.cu.
type gpuEngine struct {
	gpu.Engine
	kernel kernels
}

// kernels holds the kernels that are compiled for one pair of key and value widths.
type kernels struct {
	engine *gpu.Engine
	widths batch.Widths
	mode

	get, getWide, getOfEight, getAll            device.Kernel
	change, changeWide, changeEven              device.Kernel
	changeOfEight, evenOfEight, displace, evict device.Kernel
	rehash, rehashEven, export, stats           device.Kernel
	// for FirstFit and LoadBalancing
	mixed      [2]gpu.MixedKernels
	mixedEvict device.Kernel

	wideGet, wideChange float64
}

func newGPUEngine(dev device.Device, w batch.Widths, first bucket.Size, m mode) (engine, *core.Leases, error) {
	e := &gpuEngine{}
	e.kernel = kernels{engine: &e.Engine, widths: w, mode: m, wideGet: wideGet, wideChange: wideChange}
	e.Capacity = m.capacity
	leases, err := bucket.OpenGPU(&e.Engine, dev, w, &e.kernel, func() (*generation, error) { return allocate(dev, m.layout.geometry(first)) })
	return e, leases, err
}

// Load implements [bucket.Kernels].
func (k *kernels) Load(dev device.Device, order *gpu.OrderKernels) error {
	return gpu.Load(dev, cuckooImages[gpu.SlotVariant(k.widths)], append(order.Entries(k.widths), []gpu.Entry{
		{Name: "get", To: &k.get}, {Name: "get_wide", To: &k.getWide}, {Name: "get_of_eight", To: &k.getOfEight}, {Name: "get_all", To: &k.getAll},
		{Name: "change", To: &k.change}, {Name: "change_wide", To: &k.changeWide}, {Name: "change_even", To: &k.changeEven},
		{Name: "change_of_eight", To: &k.changeOfEight}, {Name: "even_of_eight", To: &k.evenOfEight},
		{Name: "displace", To: &k.displace}, {Name: "evict", To: &k.evict}, {Name: "rehash", To: &k.rehash}, {Name: "rehash_even", To: &k.rehashEven},
		{Name: "export", To: &k.export}, {Name: "stats", To: &k.stats},
	}...))
}

func (k *kernels) refOf(p core.Parts) tableRef {
	g := p.(*generation)
	ref := tableRef{
		lines: g.Buf.Ptr, counters: g.TallyPtr(), locks: g.Locks(), seed: g.seed,
		nlines: g.lines, stash: g.stash, buckets: g.buckets, functions: g.functions, shift: g.shift,
		lockMask: g.LockMask(),
	}
	if k.loadBalancing {
		ref.balances = 1
	}
	return ref
}

// loadFactor returns the share of slots in use. If changes have been submitted since the last
// count, it returns an upper bound.
func (k *kernels) loadFactor(p core.Parts) float64 {
	g := p.(*generation)
	return float64(k.engine.Used()) / float64(int(g.buckets)<<g.shift)
}

// wide reports whether kernels should read 64 bytes of a bucket at a time. They do if a bucket is
// larger than a sector and the load exceeds minLoad.
func (k *kernels) wide(p core.Parts, minLoad float64) bool {
	return k.widths.Slot<<p.(*generation).shift > narrowLanes*laneBytes && k.loadFactor(p) > minLoad
}

// Lookup implements [gpu.Structure].
func (k *kernels) Lookup(s *device.Stream, p core.Parts, b *batch.Batch, hits device.Ptr) error {
	kernel, lanes := k.get, narrowLanes
	switch {
	case k.readsAll:
		kernel, lanes = k.getAll, wideLanes
	case k.layout.slots == bucket.DefaultSlots:
		kernel, lanes = k.getOfEight, bucket.RoundLanes(k.widths.Slot)
	case k.wide(p, k.wideGet):
		kernel, lanes = k.getWide, wideLanes
	}
	lookup, grid := gpu.LookupOf(b, hits, lanes)
	return device.Launch(s, kernel, gpu.Strides(s.Device(), grid, strideBlocks), gpu.Block, &getParams{table: k.refOf(p), lookup: lookup})
}

// Change implements [gpu.Structure]. The first launch moves no keys. Later launches run the
// insertions that found no slot.
func (k *kernels) Change(s *device.Stream, p core.Parts, c *gpu.Change) (contended bool, err error) {
	first := changeParams{table: k.refOf(p), changes: c.Args}
	first.changes.Failed, first.changes.First = c.Spilled, 0
	change, grid := k.change, gpu.Grid(c.N)
	ofEight := k.layout.slots == bucket.DefaultSlots
	if ofEight {
		grid = gpu.Strides(s.Device(), grid, strideBlocks)
	}
	switch {
	case ofEight && k.loadBalancing:
		change = k.evenOfEight
	case ofEight:
		change = k.changeOfEight
	case k.loadBalancing:
		change = k.changeEven
	case k.wide(p, k.wideChange):
		change = k.changeWide
	}
	err = c.Submit(s.Device(), k.widths, change, grid,
		func() (*gpu.MixedKernels, error) { return k.loadMixed(s.Device()) },
		func(kernel device.Kernel, grid device.Dim) error {
			return device.Launch(s, kernel, grid, gpu.Block, &first)
		})
	if err != nil || !c.Inserts() {
		return c.Ordered(), err
	}
	evict := evictParams{table: first.table, changes: c.Args, spilled: c.Spilled}
	if c.NoMoves {
		evict.still = 1
	}
	if ofEight && !c.NoMoves {
		if err := device.Launch(s, k.displace, gpu.Wave(s.Device(), c.N), gpu.Block, &evict); err != nil {
			return c.Ordered(), err
		}
	}
	kernel := k.evict
	if c.Combines() && k.widths.Val > 0 {
		kernel = k.mixedEvict
	}
	return c.Ordered(), device.Launch(s, kernel, gpu.Wave(s.Device(), c.N), gpu.Block, &evict)
}

// loadMixed loads the kernels of batches that mix operations or combine values.
func (k *kernels) loadMixed(dev device.Device) (_ *gpu.MixedKernels, err error) {
	if k.mixed[0].Change == nil {
		entries := append(k.mixed[0].Entries("", k.widths), k.mixed[1].Entries("_even", k.widths)...)
		if k.widths.Val > 0 {
			entries = append(entries, gpu.Entry{Name: "evict", To: &k.mixedEvict})
		}
		err = gpu.Load(dev, cuckooMixedImages[gpu.Variant(k.widths)], entries)
	}
	if k.loadBalancing {
		return &k.mixed[1], err
	}
	return &k.mixed[0], err
}

// ResolveWinners implements [gpu.Structure]. It launches the kernel that resolves duplicates.
func (k *kernels) ResolveWinners(s *device.Stream, p core.Parts, c *gpu.Change, w *gpu.Winners) error {
	return device.Launch(s, k.engine.Order.Winners(c.Kind), gpu.Wave(s.Device(), c.N), gpu.Block,
		&winnersParams{table: k.refOf(p), winners: *w})
}

// Export implements [gpu.Structure]. It launches the kernel that copies the pairs of lines [lo,hi).
func (k *kernels) Export(s *device.Stream, p core.Parts, lo, hi uint32, out *batch.Batch, count device.Ptr) error {
	slots := int(hi-lo) * lineBytes / k.widths.Slot
	return device.Launch(s, k.export, gpu.Wave(s.Device(), slots), gpu.Block, &exportParams{
		table: k.refOf(p), to: gpu.ExportOf(out, p.(*generation).Memory(), lo, hi, count),
	})
}

func (e *gpuEngine) geometry() geometry { return e.Parts().(*generation).geometry }

// Size implements [bucket.Engine].
func (e *gpuEngine) Size() bucket.Size { return e.geometry().Size() }

func (e *gpuEngine) countBuckets(ctx context.Context) (c bucketCounts, err error) {
	var out [3]uint64
	err = e.Report(ctx, out[:], func(to device.Ptr) error {
		p := statsParams{table: e.kernel.refOf(e.Parts()), sums: to}
		return device.Launch(e.Stream, e.kernel.stats, gpu.Wave(e.Dev, int(e.geometry().buckets)), gpu.Block, &p)
	})
	return bucketCounts{passed: out[0], full: out[1], stashed: out[2]}, err
}

// Rehash implements [bucket.Engine].
func (e *gpuEngine) Rehash(ctx context.Context, size bucket.Size) error {
	kernel := e.kernel.rehash
	if e.kernel.loadBalancing {
		kernel = e.kernel.rehashEven
	}
	allocate := func() (*generation, error) { return allocate(e.Dev, e.kernel.layout.geometry(size)) }
	return bucket.RehashGPU(ctx, &e.Engine, allocate, func(s *device.Stream, from, to *generation, lo, hi uint32, dropped device.Ptr) error {
		p := rehashParams{from: e.kernel.refOf(from), to: e.kernel.refOf(to), lo: lo, hi: hi, lost: dropped}
		return device.Launch(s, kernel, gpu.Wave(e.Dev, int(hi-lo)*lineBytes/e.Widths.Slot), gpu.Block, &p)
	})
}
