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

// gpuChange is a running batch of arcs on a device. The host waits once, for the plan, and
// allocates memory for rows. The rows of a binned batch are written without waiting if memory
// suffices.
type gpuChange struct {
	*gpuEngine
	s           *device.Stream
	n           int // number of arcs
	assumed     int // number of vertices that the plan assumes
	bits        int // number of bits of a vertex in a key
	maxSegments int // maximum number of vertices with arcs, plus one for dropped arcs

	// fill submits the kernel that writes the keys, into bins if bins are given.
	fill         func(keys device.Ptr, bits int, bins binsRef) error
	kinds, ok    device.Ptr
	weights      device.Ptr
	kind         op.Kind
	arcShift     uint32
	empties      bool // whether an arc to a number above all vertices removes a whole row
	keysAt       device.Ptr
	headAt       device.Ptr // head of the running plan; see headBytes
	sortedHeadAt device.Ptr // head of a plan that sorts the batch
	// number of bytes at sortedHeadAt that are zeroed, because kernels add to them
	cleared int
	scratch device.Buffer
	sort    prim.Sort
	tally   prim.Scan
	groups  prim.Sort // sorts segments by the groups of their new and old blocks
	scans   [2]scanRef
	arcs    arcsRef
	rows    rowsRef
	binPlan binnedBatch
	binned  bool   // whether arcs go to bins
	swept   *sweep // the deletion of vertices, if a scan deletes them instead of a list of arcs

	results control
	// index of the first segment of each group, among the segments sorted by group
	firsts   [257]uint32
	vertices int // number of records after the change
}

// The head consists of the results that the host copies at once: control, followed by the firsts of
// gpuChange.
const (
	groupsOffset = 64 // offset of the groups, after control
	headBytes    = groupsOffset + 4*257 + 4
)

// Constants compiled into the kernels (graph_change.cuh): arcs and segments per tile, tiles per
// thread block, and groups of blocks.
const (
	scanTile = 1024
	maxTiles = 4
	// group of a segment with a previous block, minus the class of that block
	oldGroup     = classes - 1
	retiredGroup = oldGroup + classes
	noGroup      = 255
)

// maxBatchArcs is the maximum number of arcs of a batch on the device.
const maxBatchArcs = prim.MaxRows / 2

// bitsOf returns the number of bits of a vertex in a key if all vertices are less than n. The
// largest key is not the key of an arc.
func (e *gpuEngine) bitsOf(n int) int {
	b := max(1, bits.Len(uint(max(n-1, 0))))
	if e.opts.SelfLoops && b < 32 {
		b++
	}
	return b
}

// maxSegmentsFor returns the maximum number of segments if vertices have the given number of bits.
func (c *gpuChange) maxSegmentsFor(bits int) int { return min(c.n, 1<<bits+1) }

// rowless reports whether kernels need no row numbers, which map an arc to its operation.
func (c *gpuChange) rowless() bool {
	return c.ok == 0 && c.kinds == 0 && (c.weights == 0 || c.kind == op.Delete)
}

// layOut assigns memory to the arrays of a change. at is the first address of the memory. The
// result is the end of the arrays, which does not depend on rowless.
func (c *gpuChange) layOut(at device.Ptr) device.Ptr {
	m, maxSegments, k := c.n, c.maxSegmentsFor(c.bitsOf(c.opts.MaxVertices+1)), prim.Carve(at)
	words := func(n int) device.Ptr { return k.Alloc(4 * (n + 1)) }
	if c.opts.Multi {
		c.arcs.multi = 1
	}
	sorted := k.Alloc(8 * m)
	tiles := func(n int) device.Ptr { return k.Alloc(8 * ((n + scanTile - 1) / scanTile)) }
	c.sortedHeadAt = k.Alloc(headBytes)
	next := k.Alloc(8)
	c.scans = [2]scanRef{{sums: tiles(m), heads: tiles(m), next: next}, {sums: tiles(maxSegments), next: next + 4}}
	c.cleared = int(device.Ptr(k) - c.sortedHeadAt)
	c.keysAt = k.Alloc(8 * m)
	c.sort = prim.Sort{Widths: prim.Widths{Key: 8, Val: 4}, N: m, Hi: 64, From: prim.Rows{Keys: c.keysAt}, To: prim.Rows{Keys: sorted, Vals: words(m)}}
	c.arcs = arcsRef{
		keys: c.sort.To.Keys, rows: c.sort.To.Vals, kinds: c.kinds, places: words(m), segments: words(m), nets: k.Alloc(m),
		n: uint32(m), kind: uint32(c.kind), two: c.arcShift, multi: c.arcs.multi, empties: c.arcs.empties,
	}
	c.rows = rowsRef{
		firsts: words(m), vertices: words(m), shifts: words(m), degrees: words(maxSegments), moves: k.Alloc(int(unsafe.Sizeof(move{})) * maxSegments), olds: k.Alloc(8 * (maxSegments + 1)),
		groups: words(2 * maxSegments), blocks: words(maxSegments), slots: words(maxSegments), records: k.Alloc(recordBytes * maxSegments),
	}
	c.groups = prim.Sort{Widths: prim.Widths{Key: 4, Val: 4}, N: 2 * maxSegments, Hi: 8, From: prim.Rows{Keys: c.rows.groups}, To: prim.Rows{Keys: words(2 * maxSegments), Vals: words(2 * maxSegments)}}
	c.scratch.Size = max(c.sort.ScratchBytes(), c.groups.ScratchBytes())
	if c.opts.Multi {
		c.tally = prim.Scan{N: m, Width: 4, Counts: words(m), Offsets: words(m)}
		c.scratch.Size = max(c.scratch.Size, c.tally.ScratchBytes())
	}
	c.scratch.Ptr = k.Alloc(c.scratch.Size)
	if c.rowless() {
		c.sort.Val, c.sort.To.Vals, c.arcs.rows = 0, 0, 0
	}
	return max(device.Ptr(k), c.layOutBins(at))
}

// change implements engine.
func (e *gpuEngine) change(ctx context.Context, s *device.Stream, b *batch.Batch) (changed uint64, err error) {
	e.pending = false
	if b.N > maxBatchArcs/e.arcsPerEdge() {
		return 0, fmt.Errorf("%w: %d edges in one batch on the device; %d are possible", device.ErrInvalid, b.N, maxBatchArcs/e.arcsPerEdge())
	}
	if b.N == 0 {
		return 0, nil
	}
	c := &gpuChange{gpuEngine: e, s: s, n: b.N * e.arcsPerEdge(), kind: b.Kind, arcShift: uint32(e.arcsPerEdge() - 1)}
	bytes := int(c.layOut(0))
	if s != nil {
		if err := e.work.Grow(&e.Queue, bytes); err != nil {
			return 0, err
		}
		return c.runBatch(ctx, b, e.work.Buf.Ptr)
	}
	if err := e.Stream.Wait(e.LastChange()); err != nil {
		return 0, err
	}
	c.s = e.Stream
	err = e.RunWhole(ctx, &e.work, b, bytes, func(onDevice *batch.Batch, at int) error {
		changed, err = c.runBatch(ctx, onDevice, e.work.Buf.Ptr+device.Ptr(at))
		return err
	})
	return changed, err
}

// runBatch runs a batch of edges in device memory. at is the first address of the memory for
// intermediate results.
func (c *gpuChange) runBatch(ctx context.Context, b *batch.Batch, at device.Ptr) (uint64, error) {
	c.kinds, c.ok, c.weights = b.Columns[batch.Kinds].Ptr, b.Columns[batch.OK].Ptr, b.Columns[batch.Vals].Ptr
	c.layOut(at)
	p := arcsParams{
		from: b.Columns[batch.Keys].Ptr, to: b.Columns[batch.Keys2].Ptr, kinds: c.kinds,
		n: uint32(b.N), limit: uint32(c.opts.MaxVertices), kind: uint32(b.Kind), two: c.arcShift,
	}
	if c.opts.SelfLoops {
		p.loops = 1
	}
	c.fill = func(keys device.Ptr, bits int, bins binsRef) error {
		p.keys, p.bits, p.bins, p.control, p.known = keys, uint32(bits), bins, c.headAt, uint32(c.gpuEngine.vertices)
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
		err = c.rangeError(int(bad), ends[0], ends[1], true)
	}
	return c.results.changed, err
}

// badVertex is the index of the first operation with a vertex beyond the limit.
type badVertex uint32

func (badVertex) Error() string { return "a vertex beyond the limit" }

// maxPlans bounds the number of plans of a batch: one for its vertices, one if bins overflow, one
// or two if vertices exceed the assumed number.
const maxPlans = 8

// run changes the rows. After an error nothing has changed.
func (c *gpuChange) run(ctx context.Context) error {
	step := c.plan
	switch c.assumed = c.gpuEngine.vertices; {
	case c.assumed > 0:
	case c.opts.MaxVertices <= c.n:
		c.assumed = c.opts.MaxVertices // the batch may have that many vertices
	default:
		// measure leaves results.segments 0, since the number of vertices is not yet known.
		step = c.measure
	}
	if c.empties {
		c.arcs.empties = 1
	}
	for range maxPlans {
		if err := c.Submit(c.s, step); err != nil {
			return err
		}
		if err := c.preallocate(); err != nil {
			return err
		}
		if c.binned {
			if err := c.submitFinal(c.SubmitVisible, c.s, func() error { return c.writeBins(true) }); err != nil {
				return err
			}
		}
		if err := c.readResults(ctx); err != nil {
			return err
		}
		switch {
		case c.results.bad != 0:
			return badVertex(^c.results.bad)
		case c.results.granted != 0:
			c.countGranted()
			c.growAllStacks()
			return nil
		case c.results.crowded != 0:
			c.overflow().record(c.n)
		case c.results.segments != 0 && c.isCovered():
			return c.write(ctx)
		}
		// The batch may have larger vertices than the graph.
		c.assumed, step = max(c.assumed, int(c.results.all)), c.plan
	}
	return corrupt("%d plans of a batch had no room for its vertices, up to %d", maxPlans,
		c.assumed)
}

// isCovered reports whether the keys and bins of the plan covered all vertices of the batch.
func (c *gpuChange) isCovered() bool {
	if c.binned {
		return int(c.results.all) <= c.binPlan.covered
	}
	return c.bitsOf(int(c.results.all)) <= c.bits
}

// preallocate allocates memory that the batch may need while the device plans. It allocates entries
// for all arcs, plus half a unit per row. For an empty graph and at least MaxVertices arcs it also
// allocates all records. It ignores a lack of memory: write allocates the exact amount.
func (c *gpuChange) preallocate() error {
	want := c.n/unitEntries + c.maxSegmentsFor(c.bits)/2 - (c.units - c.used - c.store.retiredUnits)
	if c.kind == op.Delete && c.kinds == 0 || want <= 0 || c.units+want > maxUnits {
		return nil
	}
	vertices := c.gpuEngine.vertices
	if vertices == 0 && c.opts.MaxVertices <= c.n {
		vertices = c.opts.MaxVertices
	}
	err := c.reserve(c.units+want, vertices, c.zero)
	if errors.Is(err, device.ErrMemory) {
		return nil
	}
	return err
}

// measure submits a kernel that finds the largest vertex of the batch.
func (c *gpuChange) measure() error {
	c.bits, c.binned = c.bitsOf(c.assumed), false
	return c.writeKeys()
}

// writeKeys submits the kernel that writes the keys, without bins.
func (c *gpuChange) writeKeys() error {
	c.headAt, c.arcs.control = c.sortedHeadAt, c.sortedHeadAt
	if err := c.s.Fill(c.headAt, 0, c.cleared/4); err != nil {
		return err
	}
	return c.fill(c.keysAt, c.bits, binsRef{})
}

// plan submits the kernels that read the graph and plan its new rows.
func (c *gpuChange) plan() error {
	if c.binned = c.assignBins(); c.binned {
		return c.planBins()
	}
	c.bits = c.bitsOf(c.assumed + int(c.arcs.empties))
	c.headAt, c.arcs.control = c.sortedHeadAt, c.sortedHeadAt
	c.maxSegments = c.maxSegmentsFor(c.bits)
	c.sort.Hi, c.arcs.bits, c.groups.N = 2*c.bits, uint32(c.bits), 2*c.maxSegments
	newest, held := c.newestSnapshot()
	v := refOf(c.currentView())
	settle := settleParams{graph: v, arcs: c.arcs, scan: c.scans[0], firsts: c.rows.firsts, vertices: c.rows.vertices, shifts: c.rows.shifts, ok: c.ok}
	plan := planParams{graph: v, arcs: c.arcs, rows: c.rows, scan: c.scans[1], most: uint32(c.maxSegments), newest: newest}
	if held {
		plan.held = 1
	}
	// A thread block waits for the sums of the blocks before it. For many arcs a block has several
	// tiles, so that fewer blocks wait.
	settle.tiles = uint32(min(maxTiles, max(1, c.n/c.arcsPerTile)))
	tiles := func(n, tile int) device.Dim { return device.Dim{X: (n + tile - 1) / tile} }
	for _, step := range []func() error{
		c.writeKeys,
		func() error { return c.prims.Sort(c.s, &c.sort, c.scratch) },
		func() error { return c.countDeletions(&settle) },
		func() error {
			return device.Launch(c.s, c.kernels.settle, tiles(c.n, int(settle.tiles)*scanTile), gpu.Block, &settle)
		},
		func() error {
			return device.Launch(c.s, c.kernels.plan, tiles(c.maxSegments, scanTile), gpu.Block, &plan)
		},
		func() error { return c.prims.Partition(c.s, &c.groups, c.headAt+groupsOffset, c.scratch) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// countDeletions submits kernels that count the deletions in a mixed batch of a multigraph.
func (c *gpuChange) countDeletions(settle *settleParams) error {
	if c.arcs.multi == 0 || c.kinds == 0 {
		return nil
	}
	settle.deletions = c.tally.Offsets
	tally := tallyParams{arcs: c.arcs, deletions: c.tally.Counts}
	if err := device.Launch(c.s, c.kernels.tally, gpu.Wave(c.Dev, c.n), gpu.Block, &tally); err != nil {
		return err
	}
	return c.prims.Scan(c.s, &c.tally, c.scratch)
}

// readResults waits for the plan and copies its results. A binned batch may already be written, so
// readResults does not return an error if ctx ends meanwhile.
func (c *gpuChange) readResults(ctx context.Context) (err error) {
	bytes := c.pinned[:headBytes]
	if c.binned {
		err = c.resultsReady.Sync(context.WithoutCancel(ctx))
	} else {
		err = c.s.CopyOut(ctx, bytes, c.headAt)
	}
	if err != nil {
		return err
	}
	c.results = batch.View[control](bytes)[0]
	c.pending = c.results.granted != 0 // otherwise no row has been written
	copy(c.firsts[:], batch.View[uint32](bytes[groupsOffset:]))
	if c.binned {
		c.sumGroups()
	}
	return c.freeDeferred()
}

// groupSize returns the number of blocks of a group.
func (c *gpuChange) groupSize(i int) int { return int(c.firsts[i+1] - c.firsts[i]) }

// blockCounts returns for each class the number of blocks needed, and the number that become free.
func (c *gpuChange) blockCounts() (needed, released [classes]int) {
	for class := 1; class < classes; class++ {
		needed[class], released[class] = c.groupSize(class), c.groupSize(oldGroup+class)
	}
	return needed, released
}

// write allocates memory for the rows and submits the kernels that write them.
func (c *gpuChange) write(ctx context.Context) error {
	needed, released := c.blockCounts()
	c.vertices = max(c.gpuEngine.vertices, int(c.results.end))
	from, units := c.blockSources(&needed)
	if err := c.reserve(units, c.vertices, c.zero); err != nil {
		return err
	}
	stacks, err := c.growStacks(&from, &released)
	if err != nil {
		return err
	}
	if err := c.allocateRetired(); err != nil {
		return err
	}
	c.gpuEngine.vertices = c.vertices // so that each has a record, which may be empty
	err = c.submitFinal(c.SubmitVisible, c.s, func() error {
		if c.binned {
			return c.writeBins(false)
		}
		return c.launch(stacks)
	})
	if err != nil {
		return errors.Join(err, c.freeUnwritten())
	}
	c.countChange(&needed, &released, units)
	c.growAllStacks()
	return nil
}

// countChange updates the counts of the host after a change.
func (c *gpuChange) countChange(needed, released *[classes]int, units int) {
	c.gpuEngine.vertices = c.vertices
	c.countAllocated(needed, units)
	c.countReleased(released, int(c.results.limbo))
	c.store.arcs += uint64(int64(int32(c.results.arcs)))
	c.store.loops += uint64(int64(int32(c.results.loops)))
}

// growStacks grows the stacks to hold the released blocks, and describes them for kernels.
func (c *gpuChange) growStacks(from *[classes]blockSource, released *[classes]int) (stacks [classes]stack, err error) {
	for class := range stacks {
		p := from[class]
		if err := c.growStack(c.s, class, p.top, p.top-p.taken+released[class]); err != nil {
			return stacks, err
		}
		stacks[class] = stack{at: c.gpuEngine.stacks[class].Ptr, top: uint32(p.top), taken: uint32(p.taken), base: uint32(p.base)}
	}
	return stacks, nil
}

// growAllStacks grows each stack to hold all blocks of its class. Growing a stack in a later batch
// would make that batch wait. The change is done, so growAllStacks ignores errors, and a later
// batch grows the stack that it needs.
func (c *gpuChange) growAllStacks() {
	for class, n := range c.allocated {
		if c.growStack(c.s, class, c.free[class], n) != nil {
			return
		}
	}
}

// allocateRetired allocates a list for the blocks that the change retires.
func (c *gpuChange) allocateRetired() error {
	n := c.groupSize(retiredGroup)
	if n == 0 {
		return nil
	}
	buf, err := c.Dev.Alloc(n * int(unsafe.Sizeof(retiredBlock{})))
	if err == nil {
		c.retired = append(c.retired, retiredList{buf, n})
	}
	return err
}

// freeUnwritten frees the list that allocateRetired allocated, which has not been written.
func (c *gpuChange) freeUnwritten() error {
	n := len(c.retired)
	if c.groupSize(retiredGroup) == 0 {
		return nil
	}
	last := c.retired[n-1]
	c.retired = c.retired[:n-1]
	return errors.Join(c.s.Sync(context.Background()), c.Dev.Free(last.buf))
}

// launch submits the kernels that write the rows.
func (c *gpuChange) launch(stacks [classes]stack) error {
	if err := c.sendStacks(c.s, &stacks); err != nil {
		return err
	}
	write := writeParams{
		graph: refOf(c.currentView()), arcs: c.arcs, rows: c.rows, stacks: c.word(stacksAt), weights: c.weights,
		present: c.word(presentAt), segments: c.results.segments, most: uint32(c.maxSegments), epoch: c.epoch,
	}
	if c.opts.Directed {
		write.directed = 1
	}
	if n := len(c.retired); n > 0 {
		write.ghosts = c.retired[n-1].buf.Ptr
	}
	err := c.assignBlocks()
	if err == nil {
		err = device.Launch(c.s, c.kernels.write, gpu.Wave(c.Dev, max(c.n, c.oldEntries()/threadEntries)), gpu.Block, &write)
	}
	if err == nil {
		err = gpu.RetryOnce(func() error {
			return device.Launch(c.s, c.commit, gpu.Wave(c.Dev, int(c.results.segments)), gpu.Block, &write)
		})
	}
	return err
}

// assignBlocks submits the kernel that assigns blocks to rows.
func (c *gpuChange) assignBlocks() error {
	p := placeParams{
		graph: refOf(c.currentView()), moves: c.rows.moves,
		sorted: sortedRef{firsts: c.headAt + groupsOffset, groups: c.groups.To.Keys, segments: c.groups.To.Vals},
		stacks: c.word(stacksAt), blocks: c.rows.blocks, slots: c.rows.slots, most: uint32(c.maxSegments),
	}
	return device.Launch(c.s, c.kernels.place, gpu.Wave(c.Dev, int(c.results.segments)), gpu.Block, &p)
}

// threadEntries is the minimum number of row entries per thread in a kernel that processes the
// entries of all rows (kInFlight in graph_table.cuh).
const threadEntries = 4

// oldEntries returns the capacity of all previous blocks in entries. One arc of a hub makes a
// kernel copy all entries of the hub.
func (c *gpuChange) oldEntries() int {
	units := int(c.results.limbo)
	for class := 1; class < classes; class++ {
		units += c.groupSize(oldGroup+class) * unitsOf(uint32(class))
	}
	return units * unitEntries
}
