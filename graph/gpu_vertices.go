package graph

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/prim"
	"github.com/weftgo/weft/internal/op"
)

// insertVertices implements engine.
func (e *gpuEngine) insertVertices(ctx context.Context, _ *device.Stream, b *batch.Batch) (uint64, error) {
	e.pending = false
	records := e.vertices
	for _, u := range batch.View[uint32](b.Columns[batch.Keys].Host) {
		records = max(records, int(u)+1)
	}
	if err := e.reserve(e.units, records, e.zero); err != nil {
		return 0, err
	}
	e.vertices = records
	before, err := e.countPresent(ctx)
	if err == nil {
		err = e.RunWhole(ctx, &e.work, b, 0, func(onDevice *batch.Batch, _ int) error {
			return e.submitFinal(e.Submit, e.Stream, func() error { return e.markVertices(e.Stream, onDevice, 0, e.word(presentAt)) })
		})
	}
	if err != nil {
		return 0, err
	}
	n, err := e.countPresent(context.WithoutCancel(ctx)) // despite ctx: the vertices are inserted
	return n - before, err
}

// markVertices submits a kernel that marks the vertices of a batch as present. If toDelete is not
// null, the kernel instead marks those vertices of the batch that are present in bitmap toDelete.
// It adds the number of marked vertices to count.
func (e *gpuEngine) markVertices(s *device.Stream, b *batch.Batch, toDelete, count device.Ptr) error {
	p := markParams{graph: refOf(e.currentView()), vertices: b.Columns[batch.Keys].Ptr, doomed: toDelete, count: count, n: uint64(b.N)}
	return device.Launch(s, e.kernels.mark, gpu.Wave(e.Dev, b.N), gpu.Block, &p)
}

// deleteVertices implements engine.
func (e *gpuEngine) deleteVertices(ctx context.Context, s *device.Stream, b *batch.Batch) (n uint64, err error) {
	e.pending = false
	switch {
	case b.N == 0:
		return 0, nil
	case b.N > maxBatchArcs:
		return 0, fmt.Errorf("%w: %d vertices in one batch on the device; %d are possible", device.ErrInvalid, b.N, maxBatchArcs)
	case s != nil:
		return e.deleteOnDevice(ctx, s, b)
	}
	if err := e.Stream.Wait(e.LastChange()); err != nil {
		return 0, err
	}
	err = e.RunWhole(ctx, &e.work, b, 0, func(onDevice *batch.Batch, _ int) error {
		n, err = e.deleteOnDevice(ctx, e.Stream, onDevice)
		return err
	})
	return n, err
}

// deleteOnDevice deletes the vertices of a batch in device memory.
func (e *gpuEngine) deleteOnDevice(ctx context.Context, s *device.Stream, b *batch.Batch) (n uint64, err error) {
	if e.shouldSweep(b.N) {
		return e.deleteBySweep(ctx, s, b)
	}
	return e.deleteByArcs(ctx, s, b)
}

// deleteByArcs deletes few vertices of an undirected graph by their arcs and the reverse arcs.
func (e *gpuEngine) deleteByArcs(ctx context.Context, s *device.Stream, b *batch.Batch) (uint64, error) {
	n := e.vertices
	var k prim.Carve
	k.Alloc(bitmapBytes(n))
	// The offsets are followed by the number of arcs and the number of vertices to delete.
	countsAt, offsetsAt := k.Alloc(4*n), k.Alloc(8*(n+2))
	scan := prim.Scan{N: n, Width: 8}
	x := device.Buffer{Ptr: k.Alloc(scan.ScratchBytes()), Size: scan.ScratchBytes()}
	if err := e.extra.Grow(&e.Queue, int(k)); err != nil {
		return 0, err
	}
	at := e.extra.Buf.Ptr
	p := doomedParams{graph: refOf(e.currentView()), doomed: at, counts: at + countsAt, present: e.word(presentAt)}
	scan.Counts, scan.Offsets, x.Ptr = at+countsAt, at+offsetsAt, at+x.Ptr
	arcsAt := scan.Offsets + device.Ptr(8*n)
	err := e.Submit(s, func() error {
		for _, step := range []func() error{
			func() error { return s.Fill(at, 0, bitmapBytes(n)/4) },
			func() error { return s.Fill(arcsAt, 0, 4) },
			func() error { return e.markVertices(s, b, at, arcsAt+8) },
			func() error { return e.launchArcs(s, &p) },
			func() error { return e.prims.Scan(s, &scan, x) },
		} {
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	var counts [2]uint64
	if err := s.CopyOut(ctx, device.Bytes(counts[:]), arcsAt); err != nil {
		return 0, err
	}
	if counts[1] == 0 {
		return 0, nil
	}
	p.offsets = scan.Offsets
	if err := e.deleteArcs(ctx, s, p, counts[0]); err != nil {
		return 0, err
	}
	p.graph = refOf(e.currentView())
	return counts[1], e.submitFinal(e.SubmitVisible, s, func() error {
		return gpu.RetryOnce(func() error { return device.Launch(s, e.bury, gpu.Wave(e.Dev, n), gpu.Block, &p) })
	})
}

// launchArcs submits a kernel that counts the arcs to delete or, if p has offsets, writes them.
func (e *gpuEngine) launchArcs(s *device.Stream, p *doomedParams) error {
	return device.Launch(s, e.kernels.doomed, gpu.Wave(e.Dev, 32*e.vertices), gpu.Block, p)
}

// deleteArcs deletes the arcs from and to the vertices to delete. n is the number of these arcs.
func (e *gpuEngine) deleteArcs(ctx context.Context, s *device.Stream, p doomedParams, n uint64) error {
	switch {
	case n == 0:
		return nil
	case n > maxBatchArcs:
		return fmt.Errorf("%w: the vertices of one batch have %d arcs, %d are possible", device.ErrInvalid, n, maxBatchArcs)
	}
	c := &gpuChange{gpuEngine: e, s: s, n: int(n), kind: op.Delete, empties: true}
	if err := e.work.Grow(&e.Queue, int(c.layOut(0))); err != nil {
		return err
	}
	c.layOut(e.work.Buf.Ptr)
	c.fill = func(keys device.Ptr, bits int, bins binsRef) error {
		p.keys, p.bits, p.bins = keys, uint32(bits), bins
		return e.launchArcs(s, &p)
	}
	return c.run(ctx)
}

// compact implements engine.
func (e *gpuEngine) compact(ctx context.Context) (*memory, error) {
	to, err := newMemory(e.Dev, e.shape, e.opts.MaxVertices)
	if err != nil {
		return nil, err
	}
	var compacted blocks
	if e.vertices > 0 {
		compacted, err = e.compactTo(ctx, to)
	}
	if err != nil {
		return nil, errors.Join(err, e.Stream.Sync(context.Background()), to.Free())
	}
	e.blocks = compacted
	return to, e.freeLists()
}

func (e *gpuEngine) compactTo(ctx context.Context, to *memory) (compacted blocks, err error) {
	n := e.vertices
	var k prim.Carve
	words := func() device.Ptr { return k.Alloc(4 * n) }
	groupsAt, degreesAt, blocksAt, keysAt, valsAt := words(), words(), words(), words(), words()
	offsetsAt := k.Alloc(8 * (n + 1))
	sort := prim.Sort{Widths: prim.Widths{Key: 4, Val: 4}, N: n, Hi: 8}
	scan := prim.Scan{N: n, Width: 8}
	// Arbitrary keys, since the scratch size does not depend on them.
	sort.From.Keys, sort.To.Keys, sort.To.Vals = 256, 256, 256
	size := max(sort.ScratchBytes(), scan.ScratchBytes())
	scratchAt := k.Alloc(size)
	if err := e.extra.Grow(&e.Queue, int(k)); err != nil {
		return compacted, err
	}
	at := e.extra.Buf.Ptr
	x := device.Buffer{Ptr: at + scratchAt, Size: size}
	sort.From.Keys, sort.To = at+groupsAt, prim.Rows{Keys: at + keysAt, Vals: at + valsAt}
	scan.Counts, scan.Offsets = at+degreesAt, at+offsetsAt
	p := compactParams{from: refOf(e.currentView()), groups: at + groupsAt, degrees: at + degreesAt, offsets: at + offsetsAt, blocks: at + blocksAt, epoch: e.epoch}
	launch := func(k device.Kernel) error {
		return device.Launch(e.Stream, k, gpu.Wave(e.Dev, n), gpu.Block, &p)
	}
	entries := func(k device.Kernel) error { // by entries, since a few vertices may have many
		return device.Launch(e.Stream, k, gpu.Wave(e.Dev, max(n, e.used*unitEntries/threadEntries)), gpu.Block, &p)
	}
	err = e.Submit(e.Stream, func() error {
		if err := launch(e.measure); err != nil {
			return err
		}
		if err := e.prims.Partition(e.Stream, &sort, e.word(firstsAt), x); err != nil {
			return err
		}
		return e.prims.Scan(e.Stream, &scan, x)
	})
	var firsts [257]uint32
	if err == nil {
		err = e.Stream.CopyOut(ctx, device.Bytes(firsts[:]), e.word(firstsAt))
	}
	if err != nil {
		return compacted, err
	}
	compacted, stacks, err := e.allocateCompacted(to, &firsts)
	if err != nil {
		return compacted, err
	}
	p.to = refOf(to.view(n))
	place := placeParams{
		sorted: sortedRef{firsts: e.word(firstsAt), groups: sort.To.Keys, segments: sort.To.Vals},
		stacks: e.word(stacksAt), blocks: p.blocks,
	}
	return compacted, e.Submit(e.Stream, func() error {
		if err := e.sendStacks(e.Stream, &stacks); err != nil {
			return err
		}
		if err := device.Launch(e.Stream, e.kernels.place, gpu.Wave(e.Dev, n), gpu.Block, &place); err != nil {
			return err
		}
		if err := launch(e.lead); err != nil {
			return err
		}
		return errors.Join(entries(e.relocate), e.Stream.Copy(to.alive.buf.Ptr, e.memory().alive.buf.Ptr, bitmapBytes(n)))
	})
}

// allocateCompacted allocates memory for the compacted graph. It returns the counts of its blocks,
// and stacks with the first unit of the blocks of each class.
func (e *gpuEngine) allocateCompacted(to *memory, firsts *[257]uint32) (compacted blocks, stacks [classes]stack, err error) {
	var needed [classes]int
	for class := 1; class < classes; class++ {
		needed[class] = int(firsts[class+1] - firsts[class])
	}
	from, units := compacted.blockSources(&needed)
	compacted.countAllocated(&needed, units)
	for class, p := range from {
		stacks[class].base = uint32(p.base)
	}
	err = errors.Join(to.records.grow(e.vertices*recordBytes), to.alive.grow(bitmapBytes(e.vertices)), to.pool.grow(units*e.unit()))
	if err == nil {
		err = errors.Join(e.zero(to.records.buf, 0), e.zero(to.alive.buf, 0))
	}
	return compacted, stacks, err
}
