package btree

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/prim"
	"github.com/weftgo/weft/internal/op"
)

// Change implements core.Engine. After an error nothing of the batch has run.
func (e *gpuEngine) Change(ctx context.Context, s *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	if b.N == 0 {
		return 0, nil, nil
	}
	if err := e.ensureNodes(b); err != nil {
		return 0, nil, err
	}
	if s == nil {
		err = e.changeHost(ctx, b)
	} else {
		err = e.submitBatch(ctx, s, b, 0, e.SubmitVisible)
	}
	if err != nil {
		return 0, nil, err
	}
	return b.N, nil, nil
}

// ensureNodes ensures that enough nodes are free for a change. The policy has usually done so. An
// exception is Assign, which puts keys again that it has just inserted.
func (e *gpuEngine) ensureNodes(b *batch.Batch) error {
	if e.isLoad(b) { // a load allocates its own memory
		return nil
	}
	inserts := 0
	if b.Inserts() {
		inserts = b.N
	}
	t := e.current()
	if total := t.maxUsed + e.maxNewNodes(b.N, inserts) - e.cached.nFree(); total > t.capacity() {
		return e.grow(t, total)
	}
	return nil
}

// submitBatch submits the changes of a batch on the device. It uses work memory from offset at on.
func (e *gpuEngine) submitBatch(ctx context.Context, s *device.Stream, b *batch.Batch, at int, submit func(*device.Stream, func() error) error) error {
	mixed := b.Columns[batch.Kinds].Given()
	if b.Kind == op.DeleteRange && !mixed {
		return e.deleteRanges(ctx, s, b, at)
	}
	e.submitMu.Lock()
	defer e.submitMu.Unlock()
	t := e.current()
	if e.isLoad(b) {
		return e.load(s, b, at, submit)
	}
	if b.Flags&batch.Order != 0 {
		m := e.layOut(b.N, device.Ptr(at))
		if err := e.growBuffer(&e.work, int(m.end)); err != nil {
			return err
		}
		m = e.layOut(b.N, e.work.Ptr+device.Ptr(at))
		return e.submitChange(s, t, b, submit, func() error { return e.merge(s, t, b, &m) })
	}
	c := &b.Columns
	p := changeParams{
		tree: e.refOf(t), keys: c[batch.Keys].Ptr, vals: c[batch.Vals].Ptr, kinds: c[batch.Kinds].Ptr, out: c[batch.Out].Ptr,
		ok: c[batch.OK].Ptr, n: uint64(b.N), kind: uint32(b.Kind), flags: uint32(b.Flags &^ batch.Report),
	}
	end := prim.Carve(at)
	r := e.layOutDeferred(b.N, &end)
	if err := e.growBuffer(&e.work, int(end)); err != nil {
		return err
	}
	r = deferredMemory{e.work.Ptr + r.left, e.work.Ptr + r.grown, e.work.Ptr + r.above}
	return e.submitChange(s, t, b, submit, func() error { return e.launchChange(s, t, b, &p, r) })
}

// submitChange submits a change of a tree by launch, and marks the host's counters as stale.
func (e *gpuEngine) submitChange(s *device.Stream, t *tree, b *batch.Batch, submit func(*device.Stream, func() error) error, launch func() error) error {
	e.stale, t.order.nodes = true, 0
	t.past.markStale(e.versions == OutOfPlace)
	inserts := 0
	if b.Inserts() {
		inserts = b.N
	}
	t.maxUsed += e.maxNewNodes(b.N, inserts)
	return submit(s, launch)
}

// isEmpty reports whether the current tree certainly has no pairs.
func (e *gpuEngine) isEmpty() bool { return !e.stale && e.cached.tally.Live == 0 }

// changeBlocks is the number of blocks per multiprocessor in a change.
const changeBlocks = 4

// keptBlocks is the number of blocks per multiprocessor in a change that keeps old content of
// leaves. All blocks run at the same time, so that none delays the epochs of the others.
const keptBlocks = 2

// leftHead is the number of words before the list of rows that are left to a later launch
// (kLeftHead of change.cuh).
const leftHead = 1 + levelMask

// deferredMemory is the memory for rows that tiles leave to a later launch when they run in
// lockstep, and for new nodes that are not yet children.
type deferredMemory struct{ left, grown, above device.Ptr }

func (e *gpuEngine) layOutDeferred(n int, at *prim.Carve) deferredMemory {
	return deferredMemory{left: at.Alloc(4 * (leftHead + n)), grown: at.Alloc(e.maxSplits(n) * e.slot), above: at.Alloc(4 * n)}
}

// adoptLevels is the number of levels for which launchAdopt makes one launch each. Higher levels
// have few nodes and share one launch.
const adoptLevels = 4

// launchChange submits the kernels that change a tree. First, tiles run the rows of the batch in
// lockstep. Then new nodes become children of their parents. A last launch runs the rows that the
// tiles have left.
func (e *gpuEngine) launchChange(s *device.Stream, t *tree, b *batch.Batch, p *changeParams, r deferredMemory) error {
	p.left, p.grown, p.above = r.left, r.grown, r.above
	if err := s.Fill(r.left, 0, leftHead); err != nil {
		return err
	}
	if err := e.launchTogether(s, t, b.N, p); err != nil {
		return err
	}
	if b.Inserts() {
		if err := e.launchAdopt(s, b.N, p); err != nil {
			return err
		}
	}
	if !e.keepsOld(t) {
		return device.Launch(s, e.change, gpu.Resident(e.Dev, b.N, changeBlocks), gpu.Block, p)
	}
	kept := keptChangeParams{change: *p, past: e.pastRef(t)}
	return device.Launch(s, e.keptChange, gpu.Resident(e.Dev, b.N, keptBlocks), gpu.Block, &kept)
}

func (e *gpuEngine) launchTogether(s *device.Stream, t *tree, n int, p *changeParams) error {
	if !e.keepsOld(t) {
		return device.Launch(s, e.together, gpu.Resident(e.Dev, n, changeBlocks), gpu.Block, p)
	}
	kept := keptChangeParams{change: *p, past: e.pastRef(t)}
	return device.Launch(s, e.keptTogether, gpu.Resident(e.Dev, n, keptBlocks), gpu.Block, &kept)
}

// launchAdopt submits the kernels that make new nodes children of their parents, level by level.
// Leaves have split by then, and later changes would wait forever for a parent that lacks a child.
// So a failed launch is tried once more.
func (e *gpuEngine) launchAdopt(s *device.Stream, n int, change *changeParams) error {
	p := adoptParams{change: *change}
	launch := func(grid device.Dim) error {
		return gpu.RetryOnce(func() error { return device.Launch(s, e.adopt, grid, gpu.Block, &p) })
	}
	for ; p.level < adoptLevels; p.level++ {
		p.last = p.level
		if err := launch(gpu.Resident(e.Dev, max(1, n), changeBlocks)); err != nil {
			return err
		}
		n /= e.slots / 2
	}
	p.last = levelMask - 2 // the root has no parent
	return launch(gpu.Grid(1))
}

// changeHost runs a batch in host memory. It copies the batch to the device and the results back.
func (e *gpuEngine) changeHost(ctx context.Context, b *batch.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var at prim.Carve
	places := columnsAt(&at, b)
	devBatch := *b
	err := e.submitOrdered(e.Stream, func() error {
		if err := e.growBuffer(&e.work, e.workOf(b, at)); err != nil {
			return err
		}
		for r, c := range b.Columns {
			if !c.Given() {
				continue
			}
			devBatch.Columns[r] = c.WithPtr(e.work.Ptr + places[r])
			if c.IsInput() {
				if err := e.Stream.CopyIn(e.work.Ptr+places[r], c.Host); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err == nil {
		err = e.submitBatch(ctx, e.Stream, &devBatch, int(at), e.Submit)
	}
	ctx = context.WithoutCancel(ctx)
	for r, c := range b.Columns {
		if err == nil && c.Given() && c.IsOutput() {
			err = e.Stream.CopyOut(ctx, c.Host, e.work.Ptr+places[r])
		}
	}
	return errors.Join(err, e.Stream.Sync(ctx))
}

// workOf returns the end of the work memory that a batch needs, if that memory begins at offset at.
func (e *gpuEngine) workOf(b *batch.Batch, at prim.Carve) int {
	if e.isLoad(b) {
		return int(e.layOutLoad(b, device.Ptr(at)).end)
	}
	return int(e.layOut(b.N, device.Ptr(at)).end)
}

func columnsAt(at *prim.Carve, b *batch.Batch) (places [len(batch.Columns{})]device.Ptr) {
	for r, c := range b.Columns {
		if c.Given() {
			places[r] = at.Alloc(len(c.Host))
		}
	}
	return places
}

// changeMemory is the layout of a change's work memory.
type changeMemory struct {
	sort  prim.Sort
	group prim.Group

	keys, vals, found, states device.Ptr // by distinct key
	deferred                  deferredMemory
	// memory for the sort and for the later steps; often the same
	sorting, scratch device.Ptr
	end              device.Ptr
}

// layOut lays out the memory of a change of n rows from an address on.
func (e *gpuEngine) layOut(n int, at device.Ptr) (m changeMemory) {
	c := prim.Carve(at)
	w := prim.Widths{Key: e.Widths.Key, Val: 4}
	m.sort = prim.Sort{Widths: w, N: n, Hi: 8 * w.Key, Signed: e.flip != 0, To: prim.Rows{Keys: c.Alloc(n * w.Key), Vals: c.Alloc(4 * n)}}
	m.keys = c.Alloc(n * w.Key)
	m.group = prim.Group{N: n, Key: w.Key, Keys: m.sort.To.Keys, Offsets: c.Alloc(4 * (n + 1)), Count: c.Alloc(4), Distinct: m.keys}
	m.vals, m.found, m.states = c.Alloc(n*e.Widths.Val), c.Alloc(n), c.Alloc(n)
	m.deferred, m.scratch = e.layOutDeferred(n, &c), c.Alloc(max(m.sort.ScratchBytes(), m.group.ScratchBytes()))
	m.sorting = m.scratch
	m.end = device.Ptr(c)
	return m
}

// combine submits the kernels that sort a batch and run the operations on each key. If look is set,
// the values of the keys are first looked up in the tree.
func (e *gpuEngine) combine(s *device.Stream, t *tree, b *batch.Batch, m *changeMemory, look bool) error {
	m.sort.From.Keys = b.Columns[batch.Keys].Ptr
	if !e.takePresorted(s, b) {
		if err := e.sortKeys(s, m); err != nil {
			return err
		}
	}
	if !look {
		return e.resolveKeys(s, b, m, 0)
	}
	get := getParams{tree: e.refOf(t), keys: m.keys, vals: m.vals, found: m.found, count: m.group.Count, n: uint64(b.N)}
	if err := e.launchGet(s, t, b.N, &get, 0); err != nil {
		return err
	}
	return e.resolveKeys(s, b, m, m.found)
}

// resolveKeys submits the kernel that runs the operations on each key. found is the address of one
// flag per key, set if the tree has the key. It is 0 if the keys were not looked up.
func (e *gpuEngine) resolveKeys(s *device.Stream, b *batch.Batch, m *changeMemory, found device.Ptr) error {
	c := &b.Columns
	return device.Launch(s, e.settle, gpu.Wave(e.Dev, b.N), gpu.Block, &settleParams{
		order: m.sort.To.Vals, starts: m.group.Offsets, count: m.group.Count, vals: c[batch.Vals].Ptr, kinds: c[batch.Kinds].Ptr,
		out: c[batch.Out].Ptr, ok: c[batch.OK].Ptr, entryVals: m.vals, there: found, states: m.states,
		n: uint32(b.N), kind: uint32(b.Kind), flags: uint32(b.Flags &^ batch.Report),
	})
}

// merge submits the kernels that run a batch. The operations on each key run in batch order.
func (e *gpuEngine) merge(s *device.Stream, t *tree, b *batch.Batch, m *changeMemory) error {
	c := &b.Columns
	blind := !c[batch.Kinds].Given() && (b.Kind == op.Put || b.Kind == op.Delete) && !c[batch.OK].Given() && !c[batch.Out].Given()
	if err := e.combine(s, t, b, m, !blind); err != nil {
		return err
	}
	p := changeParams{tree: e.refOf(t), keys: m.keys, vals: m.vals, states: m.states, count: m.group.Count, n: uint64(b.N)}
	return e.launchChange(s, t, b, &p, m.deferred)
}

// deleteRanges deletes the pairs inside ranges on the device. The device finds the pairs. The host
// waits, and assigns each pair to the first range that contains it.
func (e *gpuEngine) deleteRanges(ctx context.Context, s *device.Stream, b *batch.Batch, at int) error {
	t := e.current()
	spans, err := e.spans(ctx, s, t, b)
	if err != nil {
		return err
	}
	removed, counts := core.AssignRanges(spans)
	if c := &b.Columns[batch.Counts]; c.Given() {
		if err := s.CopyIn(c.Ptr, device.Bytes(counts)); err != nil {
			return err
		}
	}
	if len(removed) == 0 {
		return nil
	}
	gaps := make([]uint64, 0, 2*len(removed))
	for _, g := range removed {
		gaps = append(gaps, uint64(g.From), uint64(g.To))
	}
	copies := 0 // each leaf may lose pairs
	if e.keepsOld(t) {
		copies = t.maxUsed
	}
	if err := e.grow(t, t.maxUsed+copies); err != nil {
		return err
	}
	mem, err := e.Dev.Alloc(8 * len(gaps))
	if err != nil {
		return err
	}
	e.submitMu.Lock()
	p := keepParams{tree: e.refOf(t), order: t.orderRef(0), gaps: mem.Ptr, count: uint64(len(removed))}
	err = e.submitChange(s, t, b, e.SubmitVisible, func() error {
		if err := s.CopyIn(p.gaps, device.Bytes(gaps)); err != nil {
			return err
		}
		return e.launchKeep(s, t, &p)
	})
	t.maxUsed += copies
	e.submitMu.Unlock()
	return errors.Join(err, s.Sync(context.Background()), e.Dev.Free(mem))
}

func (e *gpuEngine) launchKeep(s *device.Stream, t *tree, p *keepParams) error {
	if !e.keepsOld(t) {
		return device.Launch(s, e.keep, gpu.Wave(e.Dev, t.maxUsed), gpu.Block, p)
	}
	kept := keptKeepParams{keep: *p, past: e.pastRef(t)}
	return device.Launch(s, e.keptKeep, gpu.Resident(e.Dev, t.maxUsed*t.node/32, keptBlocks), gpu.Block, &kept)
}

// spans waits for all earlier changes, and returns the ranks of the pairs inside each range of the
// batch.
func (e *gpuEngine) spans(ctx context.Context, s *device.Stream, t *tree, b *batch.Batch) ([]core.Span, error) {
	mem, err := e.Dev.Alloc((8 + 4) * b.N)
	if err != nil {
		return nil, err
	}
	from, n := make([]uint64, b.N), make([]uint32, b.N)
	err = e.submitOrdered(s, func() error {
		if err := e.listLeaves(s, t, 0); err != nil {
			return err
		}
		p := placeParams{
			tree: e.refOf(t), order: t.orderRef(0), lo: b.Columns[batch.Keys].Ptr, ranks: mem.Ptr,
			n: uint64(b.N), kind: uint32(op.Rank),
		}
		if err := device.Launch(s, e.places, gpu.Wave(e.Dev, b.N), gpu.Block, &p); err != nil {
			return err
		}
		p.hi, p.ranks, p.counts, p.kind = b.Columns[batch.Keys2].Ptr, 0, mem.Ptr+device.Ptr(8*b.N), 0
		return device.Launch(s, e.places, gpu.Wave(e.Dev, b.N), gpu.Block, &p)
	})
	if err == nil {
		err = s.CopyOut(ctx, device.Bytes(from), mem.Ptr)
	}
	if err == nil {
		err = s.CopyOut(ctx, device.Bytes(n), mem.Ptr+device.Ptr(8*b.N))
	}
	spans := make([]core.Span, b.N)
	for i := range spans {
		spans[i] = core.Span{From: int(from[i]), To: int(from[i]) + int(n[i])}
	}
	return spans, errors.Join(err, s.Sync(context.Background()), e.Dev.Free(mem))
}
