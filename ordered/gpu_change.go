package ordered

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/prim"
	"github.com/weftgo/weft/internal/op"
)

// gpuPiece is the maximum number of operations in a piece of a batch. Larger pieces are not faster,
// and each operation takes about fifty bytes while it runs. gpuLoad is the maximum number of
// operations in a load of an empty map.
var gpuPiece, gpuLoad = 1 << 24, 1 << 28

// Change implements core.Engine. It runs the batch in pieces. Each piece succeeds or fails as a
// whole.
func (e *gpuEngine) Change(ctx context.Context, s *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	for done < b.N {
		if err := ctx.Err(); err != nil {
			return done, nil, err
		}
		n := gpuPiece
		if e.current().maxLeaves == 0 {
			n = gpuLoad
		}
		n = min(n, b.N-done)
		if err := e.changePiece(ctx, s, b.Chunk(done, done+n)); err != nil {
			return done, nil, err
		}
		done += n
	}
	return done, nil, nil
}

func (e *gpuEngine) changePiece(ctx context.Context, s *device.Stream, b *batch.Batch) error {
	ranges := b.Kind == op.DeleteRange && !b.Columns[batch.Kinds].Given()
	r, err := e.reserve(b, ranges)
	if err != nil {
		return err
	}
	change := e.change
	if ranges {
		change = e.deleteRanges
	}
	if s == nil {
		err = e.RunWhole(ctx, &e.work, b, r.bytes, func(devBatch *batch.Batch, at int) error {
			return change(ctx, e.Stream, devBatch, r, e.work.Buf.Ptr+device.Ptr(at), e.SubmitSync)
		})
	} else if err = e.work.Grow(&e.Queue, r.bytes); err == nil {
		err = change(ctx, s, b, r, e.work.Buf.Ptr, e.SubmitVisible)
	}
	if !r.published && r.to != nil {
		err = errors.Join(err, r.to.Free())
	}
	return err
}

// submitter calls a function that launches kernels on a stream. The kernels run after all earlier
// changes.
type submitter func(*device.Stream, func() error) error

// reservation describes the memory that a change takes for its new leaves and its new index.
type reservation struct {
	to           *gpuIndex // nil: allocated once the change has been planned
	fresh        int       // max leaves to take
	total        int       // max leaves in use afterward
	maxNodes     int       // max capacity of the index in nodes
	bytes        int       // size of the work memory
	published    bool
	resultCopied bool // a copy of the planned result to the host has been submitted
}

// bounds returns upper bounds on the leaves that a batch takes, and on the leaves in use afterward.
// Each leaf with operations is written anew. These leaves have at most leafPairs pairs each before
// the batch, and the batch adds at most one pair per operation. Leaves that are split have e.fill
// pairs each.
func (e *gpuEngine) bounds(b *batch.Batch, ranges bool) (fresh, total int) {
	now := e.current().maxLeaves
	if ranges {
		return min(2*b.N, now), now
	}
	fresh, splits := min(b.N, now), 0
	if b.Inserts() {
		splits = min(b.N, (b.N+leafPairs*fresh)/e.fill+1)
	}
	return fresh + splits, now + splits
}

// spareDivisor returns the divisor for the extra capacity of new index memory. New memory has
// 1/divisor more nodes than needed.
func (e *gpuEngine) spareDivisor() int {
	if e.pinned > 0 { // a version may keep the memory
		return 16
	}
	return 2
}

// reserve takes leaves and an index for a change before the change is submitted. If memory may be
// short, it takes none, and acquirePlanned takes them once the device has planned the change.
// Deletes of ranges and loads of an empty map always take them here.
func (e *gpuEngine) reserve(b *batch.Batch, ranges bool) (*reservation, error) {
	spare, bounds := e.spareDivisor(), func() (fresh, total int) { return e.bounds(b, ranges) }
	short := func() bool {
		fresh, total := bounds()
		return fresh > e.pool.minFree || !e.pool.fits(total, spare)
	}
	if e.results.full() || short() {
		if err := e.readResults(); err != nil {
			return nil, err
		}
	}
	r := &reservation{}
	r.fresh, r.total = bounds()
	_, r.maxNodes = nodeBounds(r.total, spare)
	if e.current().maxLeaves == 0 || ranges || !short() {
		if err := e.acquire(r, bounds); err != nil {
			return nil, err
		}
	}
	m := e.layOut(b.N, ranges, r.maxNodes, 0)
	r.bytes = int(m.end)
	return r, nil
}

// acquire takes the memory of a reservation. bounds returns upper bounds on the leaves to take, and
// on the leaves in use afterward. acquire calls bounds again after it has read the counters.
func (e *gpuEngine) acquire(r *reservation, bounds func() (fresh, total int)) (err error) {
	if r.fresh > e.pool.minFree {
		if err := e.ensureFree(bounds); err != nil {
			return err
		}
		r.fresh, r.total = bounds()
	}
	if r.total > maxLeaves {
		return errLeaves(r.total)
	}
	r.to, err = e.pool.allocIndex(r.total, e.spareDivisor())
	return err
}

// acquirePlanned waits until the device has planned a batch, and takes the memory of its
// reservation.
func (e *gpuEngine) acquirePlanned(r *reservation, b *batch.Batch) error {
	l, err := e.results.waitPlanned()
	if err != nil {
		return err
	}
	r.fresh, r.total = int(l.fresh), int(l.out)
	if l.out == 0 && b.Inserts() { // an empty map has no plan
		r.fresh = b.N/e.fill + 1
		r.total = r.fresh
	}
	return e.acquire(r, func() (fresh, total int) { return r.fresh, r.total })
}

// ensureFree makes enough leaves free for a batch. It searches for free leaves first. The pool
// grows if fewer than lowWater leaves are free.
func (e *gpuEngine) ensureFree(bounds func() (fresh, total int)) error {
	fresh, _ := bounds()
	if e.pool.minUnused() >= e.lowWater(fresh) {
		return e.collectFree(false)
	}
	if _, err := e.ReadCounters(context.Background()); err != nil {
		return err
	}
	if fresh, _ = bounds(); fresh <= e.pool.minFree {
		return nil
	}
	if err := e.collectFree(true); err != nil {
		return err
	}
	return e.growTo(fresh, e.lowWater(fresh), e.freeTarget(fresh))
}

// lowWater returns the low-water mark of free leaves for a batch: the leaves that it takes, and an
// eighth of the leaves in use.
func (e *gpuEngine) lowWater(fresh int) int { return fresh + e.current().maxLeaves/8 }

// freeTarget returns the number of leaves to have free after memory has grown. It covers a few more
// batches, so few of them search for free leaves. It exceeds the leaves that the batch takes by at
// most the leaves in use. Leaves of snapshots do not count, so a snapshot costs its leaves and no
// share of the spare memory.
func (e *gpuEngine) freeTarget(fresh int) int {
	inUse := e.current().maxLeaves
	return fresh + max(inUse/8, min(3*fresh, inUse))
}

// growTo grows the pool until at least target leaves are free. If memory is short, fresh free
// leaves suffice. It does nothing if lowWater leaves are free already.
func (e *gpuEngine) growTo(fresh, lowWater, target int) error {
	p := e.pool
	if p.minFree >= lowWater {
		return nil
	}
	used := p.capacity() - p.minFree
	err := p.grow(e.Stream, used+target)
	if errors.Is(err, device.ErrMemory) && fresh < target && p.capacity() < used+fresh {
		err = p.grow(e.Stream, used+fresh)
	}
	if p.capacity() < used+fresh {
		return err
	}
	if p.listed > 0 {
		return nil // the pool did not grow, so the list is still valid
	}
	return e.collectFree(true)
}

// collectFree lists the leaves that no version uses after all submitted changes. If exact is set,
// it waits until their number is known. Otherwise it uses a lower bound, which assumes that each
// version has its maximum number of leaves.
func (e *gpuEngine) collectFree(exact bool) error {
	p := e.pool
	capacity := p.capacity()
	if capacity == 0 {
		return nil
	}
	if err := e.readResults(); err != nil {
		return err
	}
	q, scan, scratch := p.layOutCollect(0)
	// A planned change uses e.work, so the search has its own memory.
	if err := e.lists.Grow(&e.Queue, int(scratch)+scan.ScratchBytes()); err != nil {
		return err
	}
	q, scan, scratch = p.layOutCollect(e.lists.Buf.Ptr)
	p.listUsed = false
	if p.listed = 0; !exact {
		p.listed = p.minUnused()
	}
	p.minFree = p.listed
	if err := e.listFree(&q, &scan, device.Buffer{Ptr: scratch, Size: scan.ScratchBytes()}); err != nil {
		p.listed, p.minFree = 0, 0
		return errors.Join(err, e.Stream.Sync(context.Background()))
	}
	if !exact {
		return nil
	}
	var free [1]uint32
	err := e.Stream.CopyOut(context.Background(), device.Bytes(free[:]), scan.Offsets+device.Ptr(4*scan.N))
	p.listed = int(free[0])
	p.minFree = p.listed
	return err
}

// listFree submits the search for leaves that no version uses.
func (e *gpuEngine) listFree(q *collectParams, scan *prim.Scan, scratch device.Buffer) error {
	p := e.pool
	p.mu.Lock() // so that no version ends meanwhile
	defer p.mu.Unlock()
	return e.Submit(e.Stream, func() error {
		if err := e.Stream.Fill(q.used, 0, p.capacity()/4); err != nil {
			return err
		}
		for _, x := range p.versions {
			m := markParams{x: x.ref(e.order), used: q.used}
			if err := device.Launch(e.Stream, e.mark, gpu.Wave(e.Dev, x.nodes*fanout), gpu.Block, &m); err != nil {
				return err
			}
		}
		if err := device.Launch(e.Stream, e.survey, gpu.Wave(e.Dev, scan.N), gpu.Block, q); err != nil {
			return err
		}
		if err := e.prims.Scan(e.Stream, scan, scratch); err != nil {
			return err
		}
		return device.Launch(e.Stream, e.collect, gpu.Wave(e.Dev, scan.N), gpu.Block, q)
	})
}

// changeMemory is the layout of a change's work memory.
type changeMemory struct {
	sort   prim.Sort
	group  prim.Group // groups rows by key
	deltas prim.Scan  // sums up the change in the number of pairs, by key
	leaves prim.Group // groups keys by leaf
	puts   bool       // all operations are Puts without results

	vals, infos, hot, gaps device.Ptr
	// by window: index of its first touched leaf; mask of the leaves that begin a group
	first, begins device.Ptr
	// by window: number of leaves before it in the new index; the last entry is the total
	before  device.Ptr
	status  device.Buffer // state of the running sums over windows
	windows int
	ranks   prim.Scan // sums up pairs, by node of the new index
	scratch device.Buffer
	end     device.Ptr
}

// hotEntries is the maximum number of keys with operations in a leaf that is not hot (settle.cuh).
const hotEntries = 128

// layOut lays out the work memory of a change from an address on. The change has n rows or ranges.
// maxNodes is the maximum number of nodes of the new index.
func (e *gpuEngine) layOut(n int, ranges bool, maxNodes int, at device.Ptr) (m changeMemory) {
	c := prim.Carve(at)
	if ranges {
		m.gaps = c.Alloc(n * gpu.GapBytes)
	} else {
		w := prim.Widths{Key: e.Widths.Key, Val: 4}
		m.sort = prim.Sort{Widths: w, N: n, Hi: 8 * w.Key, Signed: e.order != 0, To: prim.Rows{Keys: c.Alloc(n * w.Key), Vals: c.Alloc(4 * n)}}
		m.group = prim.Group{N: n, Key: w.Key, Keys: m.sort.To.Keys, Offsets: c.Alloc(4 * (n + 1)), Count: c.Alloc(4), Distinct: c.Alloc(n * w.Key)}
		m.deltas = prim.Scan{N: n, Width: 4, Counts: c.Alloc(4 * n), Offsets: c.Alloc(4 * (n + 1))}
		m.leaves = prim.Group{N: n, Key: 4, Keys: c.Alloc(4 * n), Offsets: c.Alloc(4 * (n + 1)), Count: c.Alloc(4), Distinct: c.Alloc(4 * n)}
		m.vals, m.infos, m.hot = c.Alloc(n*e.Widths.Val), c.Alloc(n), c.Alloc((n/hotEntries+1)*int(unsafe.Sizeof(hotRecord{})))
	}
	windows := nodes(e.current().maxLeaves)
	m.first, m.begins = c.Alloc(4*(windows+1)), c.Alloc(4*windows)
	m.windows, m.before = windows, c.Alloc(8*(windows+1))
	m.status.Size = 8 * (m.tiles() + 1)
	m.status.Ptr = c.Alloc(m.status.Size)
	m.ranks = prim.Scan{N: maxNodes, Width: 8, Counts: c.Alloc(4 * maxNodes)}
	m.scratch.Size = m.scratchBytes()
	m.scratch.Ptr = c.Alloc(m.scratch.Size)
	m.end = device.Ptr(c)
	return m
}

// plannedWindows is the number of windows that a warp plans (settle.cuh). tileWindows is the number
// that a block plans. A window is the leaves below one node of the index.
const (
	warpThreads    = 32
	plannedWindows = 16
	tileWindows    = plannedWindows * gpu.BlockThreads / warpThreads
)

// tiles returns the number of blocks that plan m.windows windows and one more, which marks the end.
func (m *changeMemory) tiles() int { return m.windows/tileWindows + 1 }

func (m *changeMemory) scratchBytes() int {
	size := m.ranks.ScratchBytes()
	if m.gaps == 0 && m.sort.N > 0 {
		size = max(size, m.sort.ScratchBytes(), m.group.ScratchBytes(), m.deltas.ScratchBytes(), m.leaves.ScratchBytes())
	}
	return size
}

// setOutput sets the index that a change writes to.
func (e *gpuEngine) setOutput(to *gpuIndex, m *changeMemory, p *changeParams) {
	p.to, p.free, p.taken = to.ref(e.order), to.pool.free.Ptr, to.pool.takenPtr()
	m.ranks.N, m.ranks.Offsets = to.nodes, p.to.ranks
}

// paramsOf returns the parameters for the kernels of a change. setOutput adds those that kernels
// need for writing.
func (e *gpuEngine) paramsOf(b *batch.Batch, m *changeMemory) changeParams {
	c := &b.Columns
	return changeParams{
		old:  e.refOf(e.current()),
		keys: m.group.Distinct, order: m.sort.To.Vals, starts: m.group.Offsets, count: m.group.Count,
		vals: c[batch.Vals].Ptr, kinds: c[batch.Kinds].Ptr, out: c[batch.Out].Ptr, ok: c[batch.OK].Ptr,
		entryVals: m.vals, leaves: m.leaves.Keys, deltas: m.deltas.Counts, infos: m.infos, sums: m.deltas.Offsets,
		touched: m.leaves.Distinct, firsts: m.leaves.Offsets, touches: m.leaves.Count,
		firstTouched: m.first, begins: m.begins, before: m.before,
		status: m.status.Ptr + 8, next: m.status.Ptr, anyHot: m.status.Ptr + 4,
		hot: m.hot, nodeSums: m.ranks.Counts, gaps: m.gaps,
		n: uint32(b.N), windows: uint32(m.windows), fill: uint32(e.fill), kind: uint32(b.Kind), flags: uint32(b.Flags),
	}
}

// publish makes the index of a submitted change the current one. If the submission failed with err,
// publish discards the list of free leaves, since the number taken is unknown.
func (e *gpuEngine) publish(s *device.Stream, r *reservation, err error) error {
	if err != nil {
		e.pool.listed, e.pool.minFree, e.results.reserved = 0, 0, e.results.reserved[:0]
		return errors.Join(err, s.Sync(context.Background()))
	}
	r.published = true
	e.pool.minFree -= r.fresh
	e.pool.listUsed = true
	e.stale = true
	if r.resultCopied {
		e.results.reserved = append(e.results.reserved, r.fresh)
	}
	return errors.Join(e.leases.Replace(r.to), e.pool.spare.TrimTo(1))
}

// change submits the changes of a batch on the device.
func (e *gpuEngine) change(_ context.Context, s *device.Stream, b *batch.Batch, r *reservation, at device.Ptr, submit submitter) error {
	m := e.layOut(b.N, false, r.maxNodes, at)
	m.sort.From.Keys = b.Columns[batch.Keys].Ptr
	p := e.paramsOf(b, &m)
	c := &b.Columns
	m.puts = b.Kind == op.Put && !c[batch.Kinds].Given() && !c[batch.OK].Given() && !c[batch.Out].Given()
	if m.puts && c[batch.Vals].Width == m.sort.Val {
		m.sort.From.Vals, p.vals, p.order = p.vals, m.sort.To.Vals, 0
	}
	empty, planned := e.current().maxLeaves == 0, r.to == nil
	prepare := func() error {
		if err := e.resolveKeys(s, &m, &p, empty); err != nil || empty {
			return err
		}
		return e.planWindows(s, r, &m, &p, e.plan)
	}
	if planned {
		if err := submit(s, prepare); err != nil {
			return errors.Join(err, s.Sync(context.Background()))
		}
		if err := e.acquirePlanned(r, b); err != nil {
			return err
		}
	}
	e.setOutput(r.to, &m, &p)
	err := submit(s, func() error {
		if !planned {
			if err := prepare(); err != nil {
				return err
			}
		}
		if !empty {
			return e.merge(s, &m, &p, e.write)
		}
		if err := e.launch(s, e.load, m.sort.N, &p); err != nil {
			return err
		}
		return e.complete(s, &m, &p, e.finish)
	})
	return e.publish(s, r, err)
}

// resolveKeys submits the kernels that run the operations on each key and find the leaves that have
// operations. An empty map has no leaves to find.
func (e *gpuEngine) resolveKeys(s *device.Stream, m *changeMemory, p *changeParams, empty bool) error {
	scratch := m.scratch
	if err := e.prims.Sort(s, &m.sort, scratch); err != nil {
		return err
	}
	if err := e.prims.Group(s, &m.group, scratch); err != nil {
		return err
	}
	if empty && p.order == 0 { // each key has one pair then
		return nil
	}
	kernel := e.kernel
	if m.puts {
		kernel = e.settlePuts
	}
	if err := e.launch(s, kernel, m.sort.N, p); err != nil {
		return err
	}
	if err := e.prims.Scan(s, &m.deltas, scratch); err != nil {
		return err
	}
	if empty {
		return nil
	}
	return e.prims.Group(s, &m.leaves, scratch)
}

// planWindows submits the kernel that counts the leaves of the new index, and a copy of the totals
// to the host.
func (e *gpuEngine) planWindows(s *device.Stream, r *reservation, m *changeMemory, p *changeParams, plan device.Kernel) error {
	if err := s.Fill(m.status.Ptr, 0, m.status.Size/4); err != nil {
		return err
	}
	if err := device.Launch(s, plan, device.Dim{X: m.tiles()}, gpu.Block, p); err != nil {
		return err
	}
	r.resultCopied = true
	return e.results.copyResult(s, m.before+device.Ptr(leavesBytes*m.windows))
}

// merge submits the kernels that write the changed leaves and the new index.
func (e *gpuEngine) merge(s *device.Stream, m *changeMemory, p *changeParams, write device.Kernel) error {
	if err := e.launch(s, write, windowThreads*m.windows, p); err != nil {
		return err
	}
	if m.gaps == 0 {
		if err := e.launch(s, e.enter, m.sort.N, p); err != nil {
			return err
		}
	}
	return e.complete(s, m, p, e.finish)
}

// complete submits the kernels that write the upper levels and ranks of a new index.
func (e *gpuEngine) complete(s *device.Stream, m *changeMemory, p *changeParams, finish device.Kernel) error {
	if err := e.launch(s, finish, m.ranks.N, p); err != nil {
		return err
	}
	return e.prims.Scan(s, &m.ranks, m.scratch)
}

// windowThreads is the number of threads that write a window (change.cuh), one thread per leaf.
const windowThreads = fanout

func (e *gpuEngine) launch(s *device.Stream, k device.Kernel, n int, p *changeParams) error {
	return device.Launch(s, k, gpu.Wave(e.Dev, n), gpu.Block, p)
}

func (e *gpuEngine) deleteRanges(ctx context.Context, s *device.Stream, b *batch.Batch, r *reservation, at device.Ptr, submit submitter) error {
	gaps, err := e.FindGaps(ctx, s, e.current(), b, at, e)
	if err != nil || len(gaps) == 0 {
		return err
	}
	m := e.layOut(b.N, true, r.maxNodes, at)
	p := e.paramsOf(b, &m)
	e.setOutput(r.to, &m, &p)
	p.gapCount = uint64(len(gaps))
	err = submit(s, func() error {
		if err := gpu.CopyGaps(s, m.gaps, gaps); err != nil {
			return err
		}
		if err := e.planWindows(s, r, &m, &p, e.planGaps); err != nil {
			return err
		}
		return e.merge(s, &m, &p, e.writeGaps)
	})
	return e.publish(s, r, err)
}

// compact implements engine. All pairs move to a new pool, as in a bulk load. Held versions keep
// the old pool.
func (e *gpuEngine) compact(ctx context.Context) error {
	if _, err := e.ReadCounters(ctx); err != nil {
		return err
	}
	from := e.pool
	to, err := newGPUPool(e.Stream, from.key, from.val, e.waitChanges)
	if err != nil {
		return err
	}
	e.pool = to
	if err := e.refillTo(to); err != nil {
		e.pool = from
		return errors.Join(err, to.close())
	}
	return from.close()
}

// refillTo copies the pairs of the current index to a pool. The copy becomes the current index.
func (e *gpuEngine) refillTo(to *gpuPool) error {
	leaves := (int(e.cached.Live) + e.fill - 1) / e.fill
	if err := e.growFor(max(leaves, e.minLeaves)); err != nil {
		return err
	}
	if leaves == 0 {
		return e.leases.Replace(to.empty())
	}
	x, err := to.allocIndex(leaves, 4)
	if err != nil {
		return err
	}
	m := e.layOut(0, true, x.nodes, 0)
	if err = e.work.Grow(&e.Queue, int(m.end)); err == nil {
		m = e.layOut(0, true, x.nodes, e.work.Buf.Ptr)
		p := e.paramsOf(&batch.Batch{}, &m)
		e.setOutput(x, &m, &p)
		err = e.SubmitSync(e.Stream, func() error {
			if err := e.launch(e.Stream, e.refill, int(e.cached.Live), &p); err != nil {
				return err
			}
			return e.complete(e.Stream, &m, &p, e.finishAll)
		})
	}
	if err != nil {
		return errors.Join(err, x.Free())
	}
	x.content = content{live: e.cached.Live, leaves: uint64(leaves), taken: uint64(leaves)}
	to.minFree -= leaves
	return e.leases.Replace(x)
}

// ensure implements engine.
func (e *gpuEngine) ensure(pairs int) error {
	e.minLeaves = (pairs + e.fill - 1) / e.fill
	return e.growFor(e.minLeaves)
}

func (e *gpuEngine) growFor(leaves int) error { return e.growTo(leaves, leaves, leaves) }

// capacityShare is the divisor of the leaves in memory. At most 1/capacityShare of them may be in
// use, since batches need the others to write leaves anew.
const capacityShare = 2

// extent implements engine.
func (e *gpuEngine) extent() (leaves, capacity int) {
	return e.current().maxLeaves, e.pool.capacity() / capacityShare
}

// usage implements engine.
func (e *gpuEngine) usage() (usage, error) {
	if err := e.collectFree(true); err != nil {
		return usage{}, err
	}
	p := e.pool
	return usage{leaves: e.current().maxLeaves, capacity: p.capacity(), free: p.minFree, versions: e.pinned, bytes: p.bytes()}, nil
}

// errLeaves returns the error for a map that needs more than maxLeaves leaves.
func errLeaves(leaves int) error {
	return fmt.Errorf("%w: %d leaves, but at most %d can be numbered", device.ErrMemory, leaves,
		maxLeaves)
}
