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

// columnWork holds kernels on columns of edges, loaded on first use, and the memory of mixed
// batches, which run one after the other.
type columnWork struct {
	of   *gpuGraph
	load sync.Once
	err  error
	prim *prim.Kernels

	keys, last, outcomes, targets device.Kernel

	turn   chan struct{} // holds a token while a call uses the fields below
	used   *device.Event // recorded after the last batch; nil: closed
	memory device.Buffer
	bytes  atomic.Int64
}

func (c *columnWork) open(dev device.Device, of *gpuGraph) (err error) {
	c.of, c.turn = of, make(chan struct{}, 1)
	c.used, err = dev.NewEvent()
	return err
}

func (c *columnWork) close() (err error) {
	if c.turn == nil { // never opened
		return nil
	}
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	if c.used == nil {
		return nil
	}
	err = errors.Join(c.free(), c.used.Close())
	c.used = nil
	return err
}

// free frees the memory after the batch that uses it.
func (c *columnWork) free() error {
	memory := c.memory
	c.memory = device.Buffer{}
	if memory.Size == 0 {
		return nil
	}
	return errors.Join(c.used.Sync(context.Background()), c.of.Dev.Free(memory))
}

// kernels loads the kernels once.
func (c *columnWork) kernels() error {
	c.load.Do(func() {
		c.err = gpu.Load(c.of.Dev, &slabColumnsImage, []gpu.Entry{
			{Name: "keys", To: &c.keys}, {Name: "last", To: &c.last}, {Name: "outcomes", To: &c.outcomes}, {Name: "targets", To: &c.targets},
		})
		if c.err == nil {
			c.prim, c.err = prim.Load(c.of.Dev)
		}
	})
	return c.err
}

// room makes the memory large enough, after the batch that uses it.
func (c *columnWork) room(bytes int) (err error) {
	if c.memory.Size >= bytes {
		return nil
	}
	if err = c.free(); err == nil {
		c.memory, err = c.of.Dev.Alloc(bytes)
	}
	c.bytes.Store(int64(c.memory.Size))
	return err
}

// mixedBatch is a mixed batch in progress.
type mixedBatch struct {
	mixedParams
	sort    prim.Sort
	scratch device.Buffer
}

// toldWords are the counts that the host reads of a mixed batch (twin: weft::slab::Told).
type toldWords [4]uint32

// lay allocates the arrays of a mixed batch in memory.
func (c *columnWork) lay(b *batch.Batch) (m mixedBatch, err error) {
	n, e := b.N, c.of
	width := bits.Len(uint(e.most))
	m.sort = prim.Sort{Widths: prim.Widths{Key: 8, Val: 4}, N: n, Hi: 2 * width}
	m.mixedParams = mixedParams{
		kinds: b.Columns[batch.Kinds].Ptr, from: b.Columns[batch.Keys].Ptr, to: b.Columns[batch.Keys2].Ptr, vals: b.Columns[batch.Vals].Ptr,
		done: b.Columns[batch.OK].Ptr, n: uint32(n), most: uint32(e.most), bits: uint32(width), both: uint32(e.arcsEach() - 1),
	}
	size := m.sort.ScratchBytes()
	if size == 0 {
		return m, fmt.Errorf("%w: a mixed batch of %d operations; a GPU sorts up to %d", device.ErrUnsupported, n, prim.MaxRows)
	}
	place := func(at prim.Carve) prim.Carve {
		m.told, m.count, m.keys, m.order, m.places = at.Take(16), at.Take(8), at.Take(8*n), at.Take(4*n), at.Take(4*n)
		m.runFrom, m.runTo, m.runVals, m.changed = at.Take(4*n), at.Take(4*n), at.Take(4*n), at.Take(n)
		m.scratch = device.Buffer{Ptr: at.Take(size), Size: size}
		return at
	}
	if err := c.room(int(place(0))); err != nil {
		return m, fmt.Errorf("memory of a mixed batch of %d operations: %w", n, err)
	}
	place(prim.Carve(c.memory.Ptr))
	m.sort.From, m.sort.To = prim.Rows{Keys: m.keys}, prim.Rows{Keys: m.keys, Vals: m.order}
	return m, nil
}

// runs returns rows lo to hi-1 of the operations to run as a batch. With tells, the batch writes
// its outcomes.
func (m *mixedBatch) runs(dev device.Device, kind op.Kind, lo, hi int, tells bool) (*batch.Batch, error) {
	column := func(at device.Ptr) (device.Slice[uint32], error) {
		return device.Wrap[uint32](dev, device.Buffer{Ptr: at + device.Ptr(4*lo), Size: 4 * (hi - lo)}, hi-lo)
	}
	from, err := column(m.runFrom)
	to, err2 := column(m.runTo)
	vals, err3 := column(m.runVals)
	var changed device.Slice[bool]
	var err4 error
	if tells {
		changed, err4 = device.Wrap[bool](dev, device.Buffer{Ptr: m.changed + device.Ptr(lo), Size: hi - lo}, hi-lo)
	}
	var weights batch.Column
	if kind == op.Put {
		weights = batch.InOn(vals)
	}
	return edgeColumnsOn(from, to, weights, changed), errors.Join(err, err2, err3, err4)
}

// mixed runs a mixed batch on a stream. It adds the number of operations with an effect to count,
// unless it is empty.
func (c *columnWork) mixed(g *graph, s *device.Stream, put op.Kind, b *batch.Batch, count device.Slice[uint64]) (err error) {
	const method = "ApplyOn"
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	m, inserts, deletes, err := c.split(s, b, count)
	if err != nil {
		return g.again(method, err)
	}
	defer func() { err = errors.Join(err, s.Record(c.used)) }()
	tells := m.done != 0 || count.Len() > 0
	run := func(kind op.Kind, lo, hi int) error {
		part, err := m.runs(g.core.Device, kind, lo, hi, tells)
		if err == nil && lo < hi {
			_, err = g.change(context.Background(), method, s, kind, part)
		}
		return g.again(method, err)
	}
	if err := inOrder(func() error { return run(op.Delete, b.N-deletes, b.N) }, func() error { return run(put, 0, inserts) }); err != nil {
		return err
	}
	if !tells {
		return nil
	}
	return device.Launch(s, c.outcomes, gpu.Wave(c.of.Dev, b.N), gpu.Block, &m.mixedParams)
}

// split finds the last operation of each edge. It returns the numbers of edges to insert and to
// delete.
func (c *columnWork) split(s *device.Stream, b *batch.Batch, count device.Slice[uint64]) (m mixedBatch, inserts, deletes int, err error) {
	if c.used == nil {
		return m, 0, 0, op.ErrClosed
	}
	if err := c.kernels(); err != nil {
		return m, 0, 0, err
	}
	if m, err = c.lay(b); err != nil {
		return m, 0, 0, err
	}
	launch := func(k device.Kernel) func() error {
		return func() error { return device.Launch(s, k, gpu.Wave(c.of.Dev, b.N), gpu.Block, &m.mixedParams) }
	}
	err = inOrder(
		func() error { return s.Wait(c.used) },
		func() error { return s.Fill(m.told, 0, len(toldWords{})) },
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
	var told toldWords
	// On an error the memory is not used.
	err = errors.Join(err, s.CopyOut(context.Background(), device.Bytes(told[:]), m.told))
	if err == nil && told[0] != 0 {
		err = c.refuse(s, &m, int(^told[0]))
	}
	return m, int(told[1]), int(told[2]), err
}

// refuse returns the error of an insertion with a vertex out of range.
func (c *columnWork) refuse(s *device.Stream, m *mixedBatch, i int) error {
	var u, v [1]uint32
	err := errors.Join(
		s.CopyOut(context.Background(), device.Bytes(u[:]), m.from+device.Ptr(4*i)),
		s.CopyOut(context.Background(), device.Bytes(v[:]), m.to+device.Ptr(4*i)))
	if err != nil {
		return err
	}
	return invalidArc(i, u[0], v[0], c.of.most)
}
