package baseline

import (
	"context"
	"errors"
	"structs"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/staging"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/pm"
)

//go:generate go run ../../../cmd/weftgen -loader=false -target 80+ptx83 -type baseline::Index=indexRef -type baseline::Batch=batchRef -type baseline::Units=unitsRef slab.cu
//go:generate go run ../../../cmd/weftgen -loader=false -target 80+ptx83 -type baseline::Index=.indexRef -type baseline::Batch=.batchRef clevel.cu

// gpuTable is a table that kernels can work on.
type gpuTable interface {
	table
	// free returns the units from which operations take memory.
	free() *units
	// open loads the kernel onto a device that has mapped the pool.
	open(g *gpuIndex) error
	// launch launches a batch.
	launch(g *gpuIndex, s *device.Stream, x indexRef, b batchRef) error
}

// gpuIndex runs batches on a GPU that has mapped the pool.
type gpuIndex struct {
	gpu.Queue
	table   gpuTable
	options Options
	kernel  device.Kernel
	index   indexRef
	unmap   func() error
	buffers []device.Buffer
	totals  tally // as of the last batch
}

// tally has the counts of launches (Tally in baseline.cuh). taken is the number of units taken so
// far. given is the number of units available so far. Units are taken in the order in which they
// became free.
type tally struct {
	_            structs.HostLayout
	changed      int64
	taken, given uint64
	slabs        uint32
	failed       uint32
}

// newGPUIndex prepares a GPU to work on a table in unused memory. The caller must call close.
func newGPUIndex(ctx context.Context, dev device.Device, t gpuTable, mem *pm.Memory, o Options) (g *gpuIndex, err error) {
	g = &gpuIndex{table: t, options: o, unmap: func() error { return nil }}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.close())
		}
	}()
	if err := g.Open(dev, batch.Widths{Key: o.KeySize, Val: o.ValueSize}); err != nil {
		return g, err
	}
	pool, unmap, err := device.Map(ctx, dev, mem.Bytes())
	if err != nil {
		return g, err
	}
	u, entries := t.free(), uint64(1)
	// The queue has separate entries for taken and for returned units.
	for g.unmap = unmap; entries < 2*u.n; {
		entries *= 2
	}
	g.totals.given = u.n
	g.index = indexRef{
		pool: pool.Ptr, seed: o.Seed, keySize: uint32(o.KeySize), valueSize: uint32(o.ValueSize),
		keyWords: uint32(pm.WordsOf(o.KeySize)), valueWords: uint32(pm.WordsOf(o.ValueSize)),
		units: unitsRef{mask: entries - 1, first: u.first, words: u.words, n: u.n},
	}
	if g.index.tally, err = g.alloc(uint64(unsafe.Sizeof(g.totals))); err != nil {
		return g, err
	}
	if g.index.units.queue, err = g.alloc(4 * entries); err != nil {
		return g, err
	}
	return g, t.open(g)
}

func (g *gpuIndex) alloc(bytes uint64) (device.Ptr, error) {
	b, err := g.Dev.Alloc(int(bytes))
	if err == nil {
		g.buffers = append(g.buffers, b)
	}
	return b.Ptr, err
}

func (g *gpuIndex) close() error {
	err := errors.Join(g.Queue.Close(), g.unmap())
	for _, b := range g.buffers {
		err = errors.Join(err, g.Dev.Free(b))
	}
	return err
}

// run runs a batch in host memory. It returns the number of keys found, or the change in the number
// of keys.
func (g *gpuIndex) run(ctx context.Context, b *batch.Batch) (n int, err error) {
	err = g.WithTransfer(func(c *gpu.Transfer, s *device.Stream) error {
		if err := g.begin(s); err != nil {
			return err
		}
		_, err := c.Ring.RunInOrder(ctx, b, func(p *staging.Piece) error { return g.submit(p.Stream, p.Batch) })
		var counted error
		n, counted = g.end(s)
		return errors.Join(err, counted)
	})
	return n, err
}

// begin submits a copy of the totals to the device.
func (g *gpuIndex) begin(s *device.Stream) error {
	g.index.units.limit = g.totals.given
	return s.CopyIn(g.index.tally, g.totals.bytes())
}

// submit launches a part of a batch that lies on the device.
func (g *gpuIndex) submit(s *device.Stream, b *batch.Batch) error {
	p := batchRef{
		keys: b.Columns[batch.Keys].Ptr, vals: b.Columns[batch.Vals].Ptr, kinds: b.Columns[batch.Kinds].Ptr,
		out: b.Columns[batch.Out].Ptr, ok: b.Columns[batch.OK].Ptr, n: uint64(b.N), kind: uint32(b.Kind),
	}
	if b.Kind == op.Get && p.kinds == 0 {
		p.out, p.vals, p.alone = p.vals, 0, 1
	}
	return g.table.launch(g, s, g.index, p)
}

func (g *gpuIndex) end(s *device.Stream) (n int, err error) {
	if err := s.CopyOut(context.Background(), g.totals.bytes(), g.index.tally); err != nil {
		return 0, err
	}
	if g.totals.failed > 0 {
		err = errNoSpace
	}
	n = int(g.totals.changed)
	g.totals.taken = min(g.totals.taken, g.index.units.limit)
	g.totals.changed, g.totals.failed = 0, 0
	return n, err
}

func (t *tally) bytes() []byte { return unsafe.Slice((*byte)(unsafe.Pointer(t)), unsafe.Sizeof(*t)) }

// ---- the tables ------------------------------------------------------------------

// slabBlocks is the number of blocks of slab.cu that a multiprocessor runs at a time (kBlocks
// there).
const slabBlocks = 6

// nLogs returns the number of warps that a device runs at a time. Each has a log.
func nLogs(dev device.Device) int {
	const warp = 32
	return dev.Properties().Units * slabBlocks * gpu.BlockThreads / warp
}

func (t *slab) free() *units { return &t.values }

func (t *slab) open(g *gpuIndex) (err error) {
	if t.locks, err = g.alloc(4 * t.buckets); err != nil {
		return err
	}
	if err := g.Stream.Fill(t.locks, 0, int(t.buckets)); err != nil {
		return err
	}
	return errors.Join(gpu.Load(g.Dev, &slabImage, []gpu.Entry{{Name: "run", To: &g.kernel}}), g.Stream.Sync(context.Background()))
}

func (t *slab) launch(g *gpuIndex, s *device.Stream, x indexRef, b batchRef) error {
	p := slabParams{
		index: x, batch: b, locks: t.locks, first: t.first, buckets: t.buckets, slabs: t.slabs.first, slabLimit: uint32(t.slabs.n),
		logs: t.logs[0].at, logWords: uint32(t.logWords), slabWords: uint32(t.slabWords()),
	}
	if t.logs[0].off {
		p.noLog = 1
	}
	return device.Launch(s, g.kernel, gpu.Resident(g.Dev, 32*int(b.n), slabBlocks), gpu.Block, &p)
}

func (t *clevel) free() *units { return &t.records }

func (t *clevel) open(g *gpuIndex) error {
	return gpu.Load(g.Dev, &clevelImage, []gpu.Entry{{Name: "run", To: &g.kernel}})
}

func (t *clevel) launch(g *gpuIndex, s *device.Stream, x indexRef, b batchRef) error {
	c := t.span()
	p := clevelParams{index: x, batch: b, bits: uint32(c.low())}
	for i := range p.levels {
		p.levels[i] = t.mem.Load(t.address(c.low() + uint(i)))
	}
	return device.Launch(s, g.kernel, gpu.Grid(int(b.n)), gpu.Block, &p)
}
