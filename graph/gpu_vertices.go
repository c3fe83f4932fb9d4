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
	most := e.vertices
	for _, u := range batch.View[uint32](b.Columns[batch.Keys].Host) {
		most = max(most, int(u)+1)
	}
	if err := e.room(e.units, most, e.zero); err != nil {
		return 0, err
	}
	e.vertices = most
	before, err := e.present(ctx)
	if err == nil {
		err = e.Whole(ctx, &e.work, b, 0, func(there *batch.Batch, _ int) error {
			return done(e.Submit, e.Stream, func() error { return e.mark(e.Stream, there, 0, e.word(presentAt)) })
		})
	}
	if err != nil {
		return 0, err
	}
	n, err := e.present(context.WithoutCancel(ctx)) // they have been inserted
	return n - before, err
}

// mark submits marking vertices as present, or with doomed, marking those present in a bitmap. It
// adds the number of vertices marked to a word.
func (e *gpuEngine) mark(s *device.Stream, there *batch.Batch, doomed, count device.Ptr) error {
	p := markParams{graph: refOf(e.now()), vertices: there.Columns[batch.Keys].Ptr, doomed: doomed, count: count, n: uint64(there.N)}
	return device.Launch(s, e.kernels.mark, gpu.Wave(e.Dev, there.N), gpu.Block, &p)
}

// deleteVertices implements engine.
func (e *gpuEngine) deleteVertices(ctx context.Context, s *device.Stream, b *batch.Batch) (n uint64, err error) {
	switch {
	case b.N == 0:
		return 0, nil
	case b.N > mostArcs:
		return 0, fmt.Errorf("%w: %d vertices in one batch on the device; %d are possible", device.ErrInvalid, b.N, mostArcs)
	case s != nil:
		return e.deleteThere(ctx, s, b)
	}
	if err := e.Stream.Wait(e.Changed()); err != nil {
		return 0, err
	}
	err = e.Whole(ctx, &e.work, b, 0, func(there *batch.Batch, _ int) error {
		n, err = e.deleteThere(ctx, e.Stream, there)
		return err
	})
	return n, err
}

// deleteThere deletes vertices in a batch on the device.
func (e *gpuEngine) deleteThere(ctx context.Context, s *device.Stream, b *batch.Batch) (n uint64, err error) {
	if e.sweeps(b.N) {
		return e.sweepOut(ctx, s, b)
	}
	return e.takeOut(ctx, s, b)
}

// takeOut deletes few vertices of an undirected graph, by their arcs and the reverse arcs.
func (e *gpuEngine) takeOut(ctx context.Context, s *device.Stream, b *batch.Batch) (uint64, error) {
	n := e.vertices
	var k prim.Carve
	k.Take(aliveBytes(n))
	// The offsets are followed by the numbers of arcs and of doomed vertices.
	countsAt, offsetsAt := k.Take(4*n), k.Take(8*(n+2))
	scan := prim.Scan{N: n, Width: 8}
	x := device.Buffer{Ptr: k.Take(scan.ScratchBytes()), Size: scan.ScratchBytes()}
	if err := e.extra.Room(&e.Queue, int(k)); err != nil {
		return 0, err
	}
	at := e.extra.Buf.Ptr
	p := doomedParams{graph: refOf(e.now()), doomed: at, counts: at + countsAt, present: e.word(presentAt)}
	scan.Counts, scan.Offsets, x.Ptr = at+countsAt, at+offsetsAt, at+x.Ptr
	arcsAt := scan.Offsets + device.Ptr(8*n)
	err := e.Submit(s, func() error {
		for _, step := range []func() error{
			func() error { return s.Fill(at, 0, aliveBytes(n)/4) },
			func() error { return s.Fill(arcsAt, 0, 4) },
			func() error { return e.mark(s, b, at, arcsAt+8) },
			func() error { return e.launchDoomed(s, &p) },
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
	var told [2]uint64
	if err := s.CopyOut(ctx, device.Bytes(told[:]), arcsAt); err != nil {
		return 0, err
	}
	if told[1] == 0 {
		return 0, nil
	}
	p.offsets = scan.Offsets
	if err := e.deleteArcs(ctx, s, p, told[0]); err != nil {
		return 0, err
	}
	p.graph = refOf(e.now())
	return told[1], done(e.SubmitVisible, s, func() error {
		return gpu.Twice(func() error { return device.Launch(s, e.bury, gpu.Wave(e.Dev, n), gpu.Block, &p) })
	})
}

// launchDoomed submits counting arcs or writing them.
func (e *gpuEngine) launchDoomed(s *device.Stream, p *doomedParams) error {
	return device.Launch(s, e.kernels.doomed, gpu.Wave(e.Dev, 32*e.vertices), gpu.Block, p)
}

// deleteArcs deletes the n arcs from and to doomed vertices.
func (e *gpuEngine) deleteArcs(ctx context.Context, s *device.Stream, p doomedParams, n uint64) error {
	switch {
	case n == 0:
		return nil
	case n > mostArcs:
		return fmt.Errorf("%w: the vertices of one batch have %d arcs, %d are possible", device.ErrInvalid, n, mostArcs)
	}
	c := &gpuChange{gpuEngine: e, s: s, n: int(n), kind: op.Delete, empties: true}
	if err := e.work.Room(&e.Queue, int(c.layOut(0))); err != nil {
		return err
	}
	c.layOut(e.work.Buf.Ptr)
	c.fill = func(keys device.Ptr, bits int, bins binsRef) error {
		p.keys, p.bits, p.bins = keys, uint32(bits), bins
		return e.launchDoomed(s, &p)
	}
	return c.run(ctx)
}

// compact implements engine.
func (e *gpuEngine) compact(ctx context.Context) (*memory, error) {
	to, err := newMemory(e.Dev, e.shape, e.opts.MaxVertices)
	if err != nil {
		return nil, err
	}
	var all blocks
	if e.vertices > 0 {
		all, err = e.compactTo(ctx, to)
	}
	if err != nil {
		return nil, errors.Join(err, e.Stream.Sync(context.Background()), to.Free())
	}
	e.blocks = all
	return to, e.empty()
}

func (e *gpuEngine) compactTo(ctx context.Context, to *memory) (all blocks, err error) {
	n := e.vertices
	var k prim.Carve
	words := func() device.Ptr { return k.Take(4 * n) }
	groupsAt, degreesAt, blocksAt, keysAt, valsAt := words(), words(), words(), words(), words()
	offsetsAt := k.Take(8 * (n + 1))
	sort := prim.Sort{Widths: prim.Widths{Key: 4, Val: 4}, N: n, Hi: 8}
	scan := prim.Scan{N: n, Width: 8}
	// Arbitrary: the size of its scratch does not depend on it.
	sort.From.Keys, sort.To.Keys, sort.To.Vals = 256, 256, 256
	size := max(sort.ScratchBytes(), scan.ScratchBytes())
	scratchAt := k.Take(size)
	if err := e.extra.Room(&e.Queue, int(k)); err != nil {
		return all, err
	}
	at := e.extra.Buf.Ptr
	x := device.Buffer{Ptr: at + scratchAt, Size: size}
	sort.From.Keys, sort.To = at+groupsAt, prim.Rows{Keys: at + keysAt, Vals: at + valsAt}
	scan.Counts, scan.Offsets = at+degreesAt, at+offsetsAt
	p := compactParams{from: refOf(e.now()), groups: at + groupsAt, degrees: at + degreesAt, offsets: at + offsetsAt, blocks: at + blocksAt, epoch: e.epoch}
	launch := func(k device.Kernel) error {
		return device.Launch(e.Stream, k, gpu.Wave(e.Dev, n), gpu.Block, &p)
	}
	entries := func(k device.Kernel) error { // a few vertices may have many
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
		return all, err
	}
	all, stacks, err := e.renewIn(to, &firsts)
	if err != nil {
		return all, err
	}
	p.to = refOf(to.view(n))
	place := placeParams{
		sorted: sortedRef{firsts: e.word(firstsAt), groups: sort.To.Keys, segments: sort.To.Vals},
		stacks: e.word(stacksAt), blocks: p.blocks,
	}
	return all, e.Submit(e.Stream, func() error {
		if err := e.sendStacks(e.Stream, &stacks); err != nil {
			return err
		}
		if err := device.Launch(e.Stream, e.kernels.place, gpu.Wave(e.Dev, n), gpu.Block, &place); err != nil {
			return err
		}
		if err := launch(e.lead); err != nil {
			return err
		}
		return errors.Join(entries(e.relocate), e.Stream.Copy(to.alive.buf.Ptr, e.memory().alive.buf.Ptr, aliveBytes(n)))
	})
}

// renewIn allocates new memory for the blocks of each class, and returns their places.
func (e *gpuEngine) renewIn(to *memory, firsts *[257]uint32) (all blocks, stacks [classes]stack, err error) {
	var need [classes]int
	for class := 1; class < classes; class++ {
		need[class] = int(firsts[class+1] - firsts[class])
	}
	from, units := all.take(&need)
	all.took(&need, units)
	for class, p := range from {
		stacks[class].base = uint32(p.base)
	}
	err = errors.Join(to.records.grow(e.vertices*recordBytes), to.alive.grow(aliveBytes(e.vertices)), to.pool.grow(units*e.unit()))
	if err == nil {
		err = errors.Join(e.zero(to.records.buf, 0), e.zero(to.alive.buf, 0))
	}
	return all, stacks, err
}
