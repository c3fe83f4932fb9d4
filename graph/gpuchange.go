package graph

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/prim"
	"github.com/weftgo/weft/internal/op"
)

// gpuChange is a batch of arcs under way on a device. The host waits for it once, between what is planned and what is written: it finds the
// memory for the rows.
type gpuChange struct {
	*gpuEngine
	s    *device.Stream
	n    int // arcs
	bits int // of an end in a key

	// fill submits writing the keys.
	fill        func(keys device.Ptr, bits int) error
	kinds, ok   device.Ptr
	weights     device.Ptr
	kind        op.Kind
	two         uint32
	keysAt      device.Ptr
	scratch     device.Ptr
	sort        prim.Sort
	scan        prim.Scan
	group       prim.Group
	sorts       [2]prim.Sort // of segments, by the class of their new block and of the old one
	entries     prim.Scan
	arcs        arcsRef
	rows        rowsRef
	scratchSize int

	told     control
	news     [257]uint32
	olds     [257]uint32
	vertices int // that have records then
}

// layOut gives a change its memory from a place on, and returns the end.
func (c *gpuChange) layOut(at device.Ptr) device.Ptr {
	m, k := c.n, prim.Carve(at)
	words := func() device.Ptr { return k.Take(4 * (m + 1)) }
	c.keysAt = k.Take(8 * m)
	c.sort = prim.Sort{Widths: prim.Widths{Key: 8, Val: 4}, N: m, Hi: 64, From: prim.Rows{Keys: c.keysAt}, To: prim.Rows{Keys: k.Take(8 * m), Vals: words()}}
	c.arcs = arcsRef{
		keys: c.sort.To.Keys, rows: c.sort.To.Vals, kinds: c.kinds, sources: words(), places: words(), deltas: words(), nets: k.Take(m),
		control: c.word(controlAt), n: uint32(m), kind: uint32(c.kind), two: c.two,
	}
	if c.opts.Multi {
		c.arcs.multi = 1
	}
	c.rows = rowsRef{firsts: words(), vertices: words(), shifts: words(), degrees: words(), classes: words(), olds: words(), blocks: words(), records: k.Take(recordBytes * m)}
	c.scan = prim.Scan{N: m, Width: 4, Counts: c.arcs.deltas, Offsets: c.rows.shifts}
	c.group = prim.Group{N: m, Key: 4, Keys: c.arcs.sources, Offsets: c.rows.firsts, Count: c.word(controlAt) + device.Ptr(unsafe.Offsetof(control{}.segments)), Distinct: c.rows.vertices}
	for i, keys := range []device.Ptr{c.rows.classes, c.rows.olds} {
		c.sorts[i] = prim.Sort{Widths: prim.Widths{Key: 4, Val: 4}, N: m, Hi: 8, From: prim.Rows{Keys: keys}, To: prim.Rows{Keys: words(), Vals: words()}}
	}
	c.entries = prim.Scan{N: m, Width: 8, Counts: c.rows.degrees, Offsets: k.Take(8 * (m + 1))}
	c.scratchSize = max(c.sort.ScratchBytes(), c.scan.ScratchBytes(), c.group.ScratchBytes(), c.sorts[0].ScratchBytes(), c.entries.ScratchBytes())
	c.scratch = k.Take(c.scratchSize)
	return device.Ptr(k)
}

func (c *gpuChange) scratchBuffer() device.Buffer {
	return device.Buffer{Ptr: c.scratch, Size: c.scratchSize}
}

// change is for [engine].
func (e *gpuEngine) change(ctx context.Context, s *device.Stream, b *batch.Batch) (changed uint64, err error) {
	if b.N > prim.MaxRows/e.arcsOf() {
		return 0, fmt.Errorf("%w: %d edges in one batch on the device; %d are possible", device.ErrInvalid, b.N, prim.MaxRows/e.arcsOf())
	}
	if b.N == 0 {
		return 0, nil
	}
	c := &gpuChange{gpuEngine: e, s: s, n: b.N * e.arcsOf(), kind: b.Kind, two: uint32(e.arcsOf() - 1)}
	bytes := int(c.layOut(0))
	if s != nil {
		if err := e.work.Room(&e.Queue, bytes); err != nil {
			return 0, err
		}
		return c.runBatch(ctx, b, e.work.Buf.Ptr)
	}
	if err := e.Stream.Wait(e.Changed()); err != nil {
		return 0, err
	}
	c.s = e.Stream
	err = e.Whole(ctx, &e.work, b, bytes, func(there *batch.Batch, at int) error {
		changed, err = c.runBatch(ctx, there, e.work.Buf.Ptr+device.Ptr(at))
		return err
	})
	return changed, err
}

// runBatch runs edges on the device.
func (c *gpuChange) runBatch(ctx context.Context, b *batch.Batch, at device.Ptr) (uint64, error) {
	c.kinds, c.ok, c.weights = b.Columns[batch.Kinds].Ptr, b.Columns[batch.OK].Ptr, b.Columns[batch.Vals].Ptr
	c.layOut(at)
	p := arcsParams{
		from: b.Columns[batch.Keys].Ptr, to: b.Columns[batch.Keys2].Ptr, kinds: c.kinds, control: c.word(controlAt),
		n: uint32(b.N), limit: uint32(c.opts.MaxVertices), kind: uint32(b.Kind), two: c.two,
	}
	if c.opts.SelfLoops {
		p.loops = 1
	}
	c.fill = func(keys device.Ptr, bits int) error {
		p.keys, p.bits = keys, uint32(bits)
		return device.Launch(c.s, c.kernels.arcs, gpu.Wave(c.Dev, b.N), gpu.Block, &p)
	}
	err := c.run(ctx)
	var bad badVertex
	if errors.As(err, &bad) {
		var ends [2]uint32
		for i, r := range []batch.Role{batch.Keys, batch.Keys2} {
			if err := c.s.CopyOut(ctx, device.Bytes(ends[i:i+1]), b.Columns[r].Ptr+device.Ptr(4*uint32(bad))); err != nil {
				return 0, err
			}
		}
		err = c.beyond(int(bad), ends[0], ends[1], true)
	}
	return c.told.changed, err
}

// badVertex is the first operation with a vertex beyond the limit.
type badVertex uint32

func (badVertex) Error() string { return "a vertex beyond the limit" }

// run changes the rows: all of it or, after an error, nothing.
func (c *gpuChange) run(ctx context.Context) error {
	c.bits = max(1, bits.Len(uint(c.gpuEngine.vertices)))
	for {
		if err := c.Submit(c.s, c.plan); err != nil {
			return err
		}
		if err := c.listen(ctx); err != nil {
			return err
		}
		need := bits.Len32(c.told.all)
		switch {
		case c.told.bad != ^uint32(0):
			return badVertex(c.told.bad)
		case need <= c.bits:
			return c.write(ctx)
		}
		c.bits = need // there are larger vertices than before
	}
}

// plan submits all that reads the graph and writes nothing of it.
func (c *gpuChange) plan() error {
	start := control{bad: ^uint32(0)}
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&start)), unsafe.Sizeof(start))
	c.sort.Hi, c.arcs.bits = 2*c.bits, uint32(c.bits)
	newest, held := c.newest()
	v := refOf(c.now())
	settle := settleParams{graph: v, arcs: c.arcs, ok: c.ok}
	plan := planParams{graph: v, arcs: c.arcs, rows: c.rows, newest: newest}
	if held {
		plan.held = 1
	}
	x, grid := c.scratchBuffer(), gpu.Wave(c.Dev, c.n)
	for _, step := range []func() error{
		func() error { return c.s.CopyIn(c.word(controlAt), bytes) },
		func() error { return c.fill(c.keysAt, c.bits) },
		func() error { return c.prims.Sort(c.s, &c.sort, x) },
		func() error { return c.deletions(&settle, grid, x) },
		func() error { return device.Launch(c.s, c.kernels.settle, grid, gpu.Block, &settle) },
		func() error { return c.prims.Scan(c.s, &c.scan, x) },
		func() error { return c.prims.Group(c.s, &c.group, x) },
		func() error { return device.Launch(c.s, c.kernels.plan, grid, gpu.Block, &plan) },
		func() error { return c.prims.Partition(c.s, &c.sorts[0], c.word(newsAt), x) },
		func() error { return c.prims.Partition(c.s, &c.sorts[1], c.word(oldsAt), x) },
		func() error { return c.prims.Scan(c.s, &c.entries, x) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// deletions adds up those of a mixed batch for a multigraph, where the sums of deltas will be.
func (c *gpuChange) deletions(settle *settleParams, grid device.Dim, x device.Buffer) error {
	if c.arcs.multi == 0 || c.kinds == 0 {
		return nil
	}
	settle.deletions = c.rows.shifts
	if err := device.Launch(c.s, c.tally, grid, gpu.Block, &c.arcs); err != nil {
		return err
	}
	return c.prims.Scan(c.s, &c.scan, x)
}

// listen waits for what was planned.
func (c *gpuChange) listen(ctx context.Context) error {
	var words [readBytes / 8]uint64
	bytes := device.Bytes(words[:])
	if err := c.s.CopyOut(ctx, bytes, c.word(controlAt)); err != nil {
		return err
	}
	c.told = batch.View[control](bytes)[0]
	copy(c.news[:], batch.View[uint32](bytes[newsAt:]))
	copy(c.olds[:], batch.View[uint32](bytes[oldsAt:]))
	return c.sweep()
}

// write submits writing the rows.
func (c *gpuChange) write(ctx context.Context) error {
	var need, released [classes]int
	for class := 1; class < classes; class++ {
		need[class] = int(c.news[class+1] - c.news[class])
		released[class] = int(c.olds[class+1] - c.olds[class])
	}
	c.vertices = max(c.gpuEngine.vertices, int(c.told.end))
	from, units := c.take(&need)
	if err := c.room(units, c.vertices, c.zero); err != nil {
		return err
	}
	stacks, err := c.pile(&from, &released)
	if err != nil {
		return err
	}
	limbo, err := c.limboOf()
	if err != nil {
		return err
	}
	c.gpuEngine.vertices = c.vertices
	c.took(&need, units)
	c.gave(&released, limbo)
	c.store.arcs += uint64(int64(int32(c.told.arcs)))
	c.store.loops += uint64(int64(int32(c.told.loops)))
	return c.SubmitVisible(c.s, func() error { return c.launch(stacks) })
}

// pile is the stacks as kernels find them, large enough for the blocks that are released.
func (c *gpuChange) pile(from *[classes]placing, released *[classes]int) (stacks [classes]stack, err error) {
	for class := range stacks {
		p := from[class]
		if err := c.reserve(c.s, class, p.top, p.top-p.taken+released[class]); err != nil {
			return stacks, err
		}
		stacks[class] = stack{at: c.gpuEngine.stacks[class].Ptr, top: uint32(p.top), taken: uint32(p.taken), base: uint32(p.base)}
	}
	return stacks, nil
}

// limboClass is added to the class of blocks that go to snapshots.
const limboClass = 128

// limboOf takes memory for the list of blocks that go to snapshots, and counts their units.
func (c *gpuChange) limboOf() (units int, err error) {
	for class := range classes {
		units += int(c.olds[limboClass+class+1]-c.olds[limboClass+class]) * unitsOf(uint32(class))
	}
	n := int(c.olds[limboClass+classes] - c.olds[limboClass])
	if n == 0 {
		return 0, nil
	}
	buf, err := c.Dev.Alloc(n * int(unsafe.Sizeof(ghost{})))
	if err == nil {
		c.ghosts = append(c.ghosts, ghosts{buf, n})
	}
	return units, err
}

// launch submits the launches that write.
func (c *gpuChange) launch(stacks [classes]stack) error {
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&stacks)), unsafe.Sizeof(stacks))
	if err := c.s.CopyIn(c.word(stacksAt), bytes); err != nil {
		return err
	}
	v := refOf(c.now())
	place := placeParams{sorted: c.sorted(0, newsAt), stacks: c.word(stacksAt), blocks: c.rows.blocks, n: uint32(c.n)}
	release := releaseParams{graph: v, sorted: c.sorted(1, oldsAt), rows: c.rows, stacks: c.word(stacksAt), n: uint32(c.n), epoch: c.epoch}
	if n := len(c.ghosts); n > 0 {
		release.ghosts = c.ghosts[n-1].buf.Ptr
	}
	write := writeParams{
		graph: v, arcs: c.arcs, rows: c.rows, olds: c.entries.Offsets, weights: c.weights, present: c.word(presentAt),
		segments: c.told.segments, epoch: c.epoch,
	}
	grid := gpu.Wave(c.Dev, c.n)
	err := device.Launch(c.s, c.kernels.place, grid, gpu.Block, &place)
	if err == nil {
		err = device.Launch(c.s, c.kernels.release, grid, gpu.Block, &release)
	}
	if err == nil {
		err = device.Launch(c.s, c.keep, gpu.Wave(c.Dev, max(c.n, entriesOf(&c.olds)/threadEntries)), gpu.Block, &write)
	}
	for _, k := range []device.Kernel{c.enter, c.commit} {
		if err == nil {
			err = device.Launch(c.s, k, grid, gpu.Block, &write)
		}
	}
	return err
}

// threadEntries is how many entries of rows a thread has that goes through those of all rows (kSlab / kTile in graph_table.cuh).
const threadEntries = 8

// entriesOf is how many entries old blocks have memory for, by where those of each class begin: an edge of a hub is one
// arc, and all entries of the hub are work.
func entriesOf(firsts *[257]uint32) (n int) {
	for class := range classes {
		blocks := firsts[class+1] - firsts[class] + firsts[limboClass+class+1] - firsts[limboClass+class]
		n += int(blocks) * unitsOf(uint32(class)) * unitEntries
	}
	return n
}

func (c *gpuChange) sorted(i, at int) sortedRef {
	return sortedRef{firsts: c.word(at), classes: c.sorts[i].To.Keys, segments: c.sorts[i].To.Vals}
}
