package slab

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/prim"
	"github.com/weftgo/weft/internal/op"
)

//go:generate go run ../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 slab_columns.cu

// columnWork holds the kernels on columns of edges, loaded on first use, and the memory of mixed
// batches. Mixed batches run one after the other.
type columnWork struct {
	engine *gpuGraph
	load   sync.Mutex
	prim   *prim.Kernels // nil until all kernels are loaded

	keys, last, outcomes, targets device.Kernel

	sem     chan struct{} // holds a token while a call uses the following fields
	lastUse *device.Event // recorded after the last batch; nil if closed
	memory  device.Buffer
	bytes   atomic.Int64
}

func (c *columnWork) open(dev device.Device, of *gpuGraph) (err error) {
	c.engine, c.sem = of, make(chan struct{}, 1)
	c.lastUse, err = dev.NewEvent()
	return err
}

func (c *columnWork) close() (err error) {
	if c.sem == nil { // never opened
		return nil
	}
	c.sem <- struct{}{}
	defer func() { <-c.sem }()
	if c.lastUse == nil {
		return nil
	}
	err = errors.Join(c.free(), c.lastUse.Close())
	c.lastUse = nil
	return err
}

func (c *columnWork) free() error {
	memory := c.memory
	c.memory = device.Buffer{}
	if memory.Size == 0 {
		return nil
	}
	return errors.Join(c.lastUse.Sync(context.Background()), c.engine.Dev.Free(memory))
}

func (c *columnWork) loadKernels() error {
	c.load.Lock()
	defer c.load.Unlock()
	if c.prim != nil {
		return nil
	}
	err := gpu.Load(c.engine.Dev, &slabColumnsImage, []gpu.Entry{
		{Name: "keys", To: &c.keys}, {Name: "last", To: &c.last}, {Name: "outcomes", To: &c.outcomes}, {Name: "targets", To: &c.targets},
	})
	if err != nil {
		return err
	}
	kernels, err := prim.Load(c.engine.Dev)
	if err == nil {
		c.prim = kernels
	}
	return err
}

// reserve ensures that the memory has at least the given size in bytes. It waits for the last batch
// before it replaces the memory.
func (c *columnWork) reserve(bytes int) (err error) {
	if c.memory.Size >= bytes {
		return nil
	}
	if err = c.free(); err == nil {
		c.memory, err = c.engine.Dev.Alloc(bytes)
	}
	c.bytes.Store(int64(c.memory.Size))
	return err
}

// mixedBatch is a running mixed batch.
type mixedBatch struct {
	mixedParams
	sort    prim.Sort
	scratch device.Buffer
}

// mixedCounts holds the counts of a mixed batch that the host reads. It has the layout of the CUDA
// struct weft::slab::Told.
type mixedCounts [4]uint32

// layOut assigns device memory to the arrays of a mixed batch.
func (c *columnWork) layOut(b *batch.Batch) (m mixedBatch, err error) {
	n, g := b.N, c.engine
	width := bits.Len(uint(g.maxVertices))
	m.sort = prim.Sort{Widths: prim.Widths{Key: 8, Val: 4}, N: n, Hi: 2 * width}
	m.mixedParams = mixedParams{
		kinds: b.Columns[batch.Kinds].Ptr, from: b.Columns[batch.Keys].Ptr, to: b.Columns[batch.Keys2].Ptr, vals: b.Columns[batch.Vals].Ptr,
		done: b.Columns[batch.OK].Ptr, n: uint32(n), most: uint32(g.maxVertices), bits: uint32(width), both: uint32(g.arcsPerEdge() - 1),
	}
	size := m.sort.ScratchBytes()
	if size == 0 {
		return m, fmt.Errorf("%w: a mixed batch of %d operations; a GPU sorts up to %d", device.ErrUnsupported, n, prim.MaxRows)
	}
	place := func(at prim.Carve) prim.Carve {
		m.told, m.count, m.keys, m.order, m.places = at.Alloc(16), at.Alloc(8), at.Alloc(8*n), at.Alloc(4*n), at.Alloc(4*n)
		m.runFrom, m.runTo, m.runVals, m.changed = at.Alloc(4*n), at.Alloc(4*n), at.Alloc(4*n), at.Alloc(n)
		m.scratch = device.Buffer{Ptr: at.Alloc(size), Size: size}
		return at
	}
	if err := c.reserve(int(place(0))); err != nil {
		return m, fmt.Errorf("memory of a mixed batch of %d operations: %w", n, err)
	}
	place(prim.Carve(c.memory.Ptr))
	m.sort.From, m.sort.To = prim.Rows{Keys: m.keys}, prim.Rows{Keys: m.keys, Vals: m.order}
	return m, nil
}

// part returns operations lo to hi-1 as a batch. If outcomes is set, the batch writes its results.
func (m *mixedBatch) part(dev device.Device, kind op.Kind, lo, hi int, outcomes bool) (*batch.Batch, error) {
	column := func(at device.Ptr) (device.Slice[uint32], error) {
		return device.Wrap[uint32](dev, device.Buffer{Ptr: at + device.Ptr(4*lo), Size: 4 * (hi - lo)}, hi-lo)
	}
	from, err := column(m.runFrom)
	to, err2 := column(m.runTo)
	vals, err3 := column(m.runVals)
	var changed device.Slice[bool]
	var err4 error
	if outcomes {
		changed, err4 = device.Wrap[bool](dev, device.Buffer{Ptr: m.changed + device.Ptr(lo), Size: hi - lo}, hi-lo)
	}
	var weights batch.Column
	if kind == op.Put {
		weights = batch.InputOn(vals)
	}
	return edgeColumnsOn(from, to, weights, changed), errors.Join(err, err2, err3, err4)
}

// mixed runs a mixed batch on a stream. It adds the number of operations that changed an edge to
// count, unless count is empty.
func (c *columnWork) mixed(g *graph, s *device.Stream, put op.Kind, b *batch.Batch, count device.Slice[uint64]) (err error) {
	const method = "ApplyOn"
	c.sem <- struct{}{}
	defer func() { <-c.sem }()
	m, inserts, deletes, err := c.split(s, b, count)
	if err != nil {
		return g.rerunError(method, err)
	}
	defer func() { err = errors.Join(err, s.Record(c.lastUse)) }()
	outcomes := m.done != 0 || count.Len() > 0
	run := func(kind op.Kind, lo, hi int) error {
		part, err := m.part(g.core.Device, kind, lo, hi, outcomes)
		if err == nil && lo < hi {
			_, err = g.changeNow(context.Background(), method, s, kind, part, 0)
		}
		return g.rerunError(method, err)
	}
	if err := inOrder(func() error { return run(op.Delete, b.N-deletes, b.N) }, func() error { return run(put, 0, inserts) }); err != nil {
		return err
	}
	if !outcomes {
		return nil
	}
	return device.Launch(s, c.outcomes, gpu.Wave(c.engine.Dev, b.N), gpu.Block, &m.mixedParams)
}

// split finds the last operation on each edge. It returns the numbers of edges to insert and
// delete.
func (c *columnWork) split(s *device.Stream, b *batch.Batch, count device.Slice[uint64]) (m mixedBatch, inserts, deletes int, err error) {
	if c.lastUse == nil {
		return m, 0, 0, op.ErrClosed
	}
	if err := c.loadKernels(); err != nil {
		return m, 0, 0, err
	}
	if m, err = c.layOut(b); err != nil {
		return m, 0, 0, err
	}
	launch := func(k device.Kernel) func() error {
		return func() error { return device.Launch(s, k, gpu.Wave(c.engine.Dev, b.N), gpu.Block, &m.mixedParams) }
	}
	err = inOrder(
		func() error { return s.Wait(c.lastUse) },
		func() error { return s.Fill(m.told, 0, len(mixedCounts{})) },
		func() error {
			if count.Len() > 0 {
				m.count = count.Ptr()
				return nil
			}
			return s.Fill(m.count, 0, 2)
		},
		launch(c.keys),
		func() error { return c.prim.Sort(s, &m.sort, m.scratch) },
		launch(c.last))
	var counts mixedCounts
	// Copy the counts even after an error, so that the memory is no longer in use.
	err = errors.Join(err, s.CopyOut(context.Background(), device.Bytes(counts[:]), m.told))
	if err == nil && counts[0] != 0 {
		err = c.rangeError(s, &m, int(^counts[0]))
	}
	return m, int(counts[1]), int(counts[2]), err
}

func (c *columnWork) rangeError(s *device.Stream, m *mixedBatch, i int) error {
	var u, v [1]uint32
	err := errors.Join(
		s.CopyOut(context.Background(), device.Bytes(u[:]), m.from+device.Ptr(4*i)),
		s.CopyOut(context.Background(), device.Bytes(v[:]), m.to+device.Ptr(4*i)))
	if err != nil {
		return err
	}
	return rangeError(i, u[0], v[0], c.engine.maxVertices)
}
