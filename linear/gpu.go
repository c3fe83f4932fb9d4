package linear

import (
	"context"
	"errors"
	"math"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
)

//go:generate go run ../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 -widths 32_32,64_64,32_0,64_0 -type linear::Table=tableRef -type weft::Lookup=internal/gpu.Lookup -type weft::Changes=internal/gpu.Changes -type weft::Winners=internal/gpu.Winners -type weft::Contest=internal/gpu.Contest -type weft::Export=internal/gpu.Export linear.cu
//go:generate go run ../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 -widths 32_32,32_64,64_32,64_64,32_0,64_0 -type weft::ChangeParams=.changeParams linear_mixed.cu

// Tuning of the launches.
const (
	// Kernels read whole lines instead of sectors if the load exceeds these limits (tuning.cuh). At
	// lower loads most keys lie in their home sector, so that a wider read costs more than it
	// saves. A sector has two slots of 16 bytes, or at least four smaller slots.
	wideGet16, wideGet8 = 0.55, 0.7
	wideChange          = 0.5

	narrowLanes, wideLanes = 2, 4 // tuning.cuh
	warpThreads            = 32

	// Maximum blocks per multiprocessor in launches on tables that fit in the L2 cache
	// (tuning.cuh).
	getCachedBlocks, changeCachedBlocks = 4, 4
)

type gpuEngine struct {
	gpu.Engine
	kernel kernels

	// borders is memory for the first border of each segment. A rehash in place needs it.
	borders device.Slice[uint32]
}

// kernels holds the kernels for one pair of widths. It implements [gpu.Structure].
type kernels struct {
	engine *gpu.Engine
	widths batch.Widths

	get, getWide, getCached          device.Kernel
	change, changeWide, changeCached device.Kernel
	rehash, borders, inPlace         device.Kernel
	export, probe                    device.Kernel
	mixed                            [2]gpu.MixedKernels // reading sectors, reading lines

	// wideGet and wideChange are the loads above which kernels read whole lines.
	wideGet, wideChange float64
	// segments is the number of segments per launch in a rehash in place.
	segments uint32
}

func newGPUEngine(dev device.Device, w batch.Widths, g geometry, fixed bool) (_ engine, _ *core.Leases, err error) {
	e := &gpuEngine{}
	e.kernel = kernels{engine: &e.Engine, widths: w}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	if err = e.kernel.load(dev, &e.Order); err != nil {
		return nil, nil, err
	}
	if err = e.OpenEngine(dev, w, lineBytes/w.Slot, &e.kernel); err != nil {
		return nil, nil, err
	}
	if fixed {
		if err = e.reserveBorders(g); err != nil {
			return nil, nil, err
		}
	}
	gen, err := allocate(dev, g)
	if err != nil {
		return nil, nil, err
	}
	leases, err := e.Start(gen)
	return e, leases, err
}

func (k *kernels) load(dev device.Device, order *gpu.OrderKernels) error {
	k.wideGet, k.wideChange, k.segments = wideGet8, wideChange, inPlaceSegments
	if k.widths.Slot == 16 {
		k.wideGet = wideGet16
	}
	return gpu.Load(dev, linearImages[gpu.SlotVariant(k.widths)], append(order.Entries(k.widths), []gpu.Entry{
		{Name: "get", To: &k.get}, {Name: "get_wide", To: &k.getWide},
		{Name: "change", To: &k.change}, {Name: "change_wide", To: &k.changeWide},
		{Name: "get_cached", To: &k.getCached}, {Name: "change_cached", To: &k.changeCached},
		{Name: "rehash", To: &k.rehash}, {Name: "borders", To: &k.borders}, {Name: "in_place", To: &k.inPlace},
		{Name: "export", To: &k.export}, {Name: "stats", To: &k.probe},
	}...))
}

func refOf(p core.Parts) tableRef {
	g := p.(*generation)
	return tableRef{
		lines:    g.Buf.Ptr,
		counters: g.TallyPtr(),
		seed:     g.seed,
		nlines:   g.lines,
		maxLines: g.maxPathLines(),
	}
}

func slots(p core.Parts, w batch.Widths) int {
	return int(p.(*generation).lines) * lineBytes / w.Slot
}

// loadFactor returns the fraction of slots in use, or an upper bound if changes have been submitted
// since the last count.
func (k *kernels) loadFactor(p core.Parts) float64 {
	return float64(k.engine.Used()) / float64(slots(p, k.widths))
}

// cached reports whether a table fits in the L2 cache. If so, each lane of a warp first works on
// its own operation alone.
func (k *kernels) cached(p core.Parts) bool {
	return p.(*generation).Memory().Bytes() <= k.engine.Dev.Properties().L2
}

// Lookup implements [gpu.Structure].
func (k *kernels) Lookup(s *device.Stream, p core.Parts, b *batch.Batch, hits device.Ptr) error {
	kernel, lanes := k.get, narrowLanes
	if k.loadFactor(p) > k.wideGet {
		kernel, lanes = k.getWide, wideLanes
	}
	lookup, grid := gpu.LookupOf(b, hits, lanes)
	if lookup.Spread == 0 && k.cached(p) && uint64(b.N) <= math.MaxUint32 {
		kernel, grid = k.getCached, gpu.Resident(s.Device(), b.N, getCachedBlocks)
	}
	return device.Launch(s, kernel, grid, gpu.Block, &getParams{table: refOf(p), lookup: lookup})
}

// Change implements [gpu.Structure].
func (k *kernels) Change(s *device.Stream, p core.Parts, c *gpu.Change) (contended bool, err error) {
	params := changeParams{table: refOf(p), changes: c.Args}
	limit := k.wideChange
	if c.Combines() && !c.Reduces() {
		// In most mixed batches, most operations are lookups or find their key.
		limit = k.wideGet
	}
	cached, wide := k.cached(p), k.loadFactor(p) > limit
	if cached {
		// for mixed batches, because operations that lanes cannot finish alone lie far from home
		wide = true
		params.changes.Flags |= gpu.Cached
	}
	change, grid := k.change, gpu.Grid(c.N)
	switch {
	case cached:
		change, grid = k.changeCached, gpu.Resident(s.Device(), c.N, changeCachedBlocks)
	case wide:
		change = k.changeWide
	}
	return c.Ordered(), c.Submit(s.Device(), k.widths, change, grid,
		func() (*gpu.MixedKernels, error) { return k.loadMixed(s.Device(), wide) },
		func(k device.Kernel, grid device.Dim) error { return device.Launch(s, k, grid, gpu.Block, &params) })
}

func (k *kernels) loadMixed(dev device.Device, wide bool) (_ *gpu.MixedKernels, err error) {
	if k.mixed[1].Change == nil {
		err = gpu.Load(dev, linearMixedImages[gpu.Variant(k.widths)],
			append(k.mixed[0].Entries("", k.widths), k.mixed[1].Entries("_wide", k.widths)...))
	}
	if wide {
		return &k.mixed[1], err
	}
	return &k.mixed[0], err
}

// ResolveWinners implements [gpu.Structure].
func (k *kernels) ResolveWinners(s *device.Stream, p core.Parts, c *gpu.Change, w *gpu.Winners) error {
	return device.Launch(s, k.engine.Order.Winners(c.Kind), gpu.Wave(s.Device(), c.N), gpu.Block,
		&winnersParams{table: refOf(p), winners: *w})
}

// Export implements [gpu.Structure].
func (k *kernels) Export(s *device.Stream, p core.Parts, lo, hi uint32, out *batch.Batch, count device.Ptr) error {
	slots := int(hi-lo) * lineBytes / k.widths.Slot
	return device.Launch(s, k.export, gpu.Wave(s.Device(), slots), gpu.Block, &exportParams{
		table: refOf(p), to: gpu.ExportOf(out, p.(*generation).Memory(), lo, hi, count),
	})
}

// ---- whole tables -----------------------------------------------------------

func (e *gpuEngine) geometry() geometry { return e.Parts().(*generation).geometry }

func (e *gpuEngine) probeLengths(ctx context.Context) (sum uint64, longest uint32, err error) {
	var out [2]uint64
	err = e.Report(ctx, out[:], func(to device.Ptr) error {
		p := statsParams{table: refOf(e.Parts()), sum: to, longest: to + 8}
		return device.Launch(e.Stream, e.kernel.probe, gpu.Wave(e.Dev, slots(e.Parts(), e.Widths)), gpu.Block, &p)
	})
	return out[0], uint32(out[1]), err
}

// Close implements [core.Engine].
func (e *gpuEngine) Close() error { return errors.Join(e.Engine.Close(), e.borders.Free()) }
