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

// gpuPiece is the maximum number of operations of a piece. More are not faster, and each takes
// about fifty bytes while it runs. gpuLoad is the maximum for a load of an empty map.
var gpuPiece, gpuLoad = 1 << 24, 1 << 28

// Change implements core.Engine. It runs in pieces, each done as a whole.
func (e *gpuEngine) Change(ctx context.Context, s *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	for done < b.N {
		if err := ctx.Err(); err != nil {
			return done, nil, err
		}
		n := gpuPiece
		if e.now().most == 0 {
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
		err = e.Whole(ctx, &e.work, b, r.bytes, func(there *batch.Batch, at int) error {
			return change(ctx, e.Stream, there, r, e.work.Buf.Ptr+device.Ptr(at), e.SubmitWaiting)
		})
	} else if err = e.work.Room(&e.Queue, r.bytes); err == nil {
		err = change(ctx, s, b, r, e.work.Buf.Ptr, e.SubmitVisible)
	}
	if !r.used && r.to != nil {
		err = errors.Join(err, r.to.Free())
	}
	return err
}

// submitter submits launches after all earlier changes.
type submitter func(*device.Stream, func() error) error

// reservation is the memory of leaves and an index that a change takes.
type reservation struct {
	to     *gpuIndex // nil: allocated when the change has been planned
	leaves int       // max leaves to take
	most   int       // max leaves in use afterward
	rooms  int       // max capacity of the index in nodes
	bytes  int       // size of the work memory
	used   bool
	told   bool // the planned result is copied to the host
}

// bounds returns the maximum number of leaves that a batch takes, and of leaves in use afterward. A
// leaf with operations is written anew, and may get all operations but one more. Leaves that are
// split have fill pairs each.
func (e *gpuEngine) bounds(b *batch.Batch, ranges bool) (taken, most int) {
	now := e.now().most
	if ranges {
		return min(2*b.N, now), now
	}
	taken, more := min(b.N, now), 0
	if b.Inserts() {
		more = min(b.N, (b.N+leafPairs*taken)/e.fill+1)
	}
	return taken + more, now + more
}

// spareNodes returns the divisor that sets the extra capacity of new index memory.
func (e *gpuEngine) spareNodes() int {
	if e.pinned > 0 { // versions may keep it
		return 16
	}
	return 2
}

// reserve takes leaves and an index for a change before anything happens. If they may be too few,
// and more than planning the change would have to be waited for, it takes nothing yet.
func (e *gpuEngine) reserve(b *batch.Batch, ranges bool) (*reservation, error) {
	spare, need := e.spareNodes(), func() (leaves, most int) { return e.bounds(b, ranges) }
	short := func() bool {
		leaves, most := need()
		return leaves > e.pool.left || !e.pool.fits(most, spare)
	}
	if e.ahead.full() || short() {
		if err := e.learn(); err != nil {
			return nil, err
		}
	}
	r := &reservation{}
	r.leaves, r.most = need()
	_, r.rooms = rooms(r.most, spare)
	if e.now().most == 0 || ranges || !short() {
		if err := e.take(r, need); err != nil {
			return nil, err
		}
	}
	m := e.layOut(b.N, ranges, r.rooms, 0)
	r.bytes = int(m.end)
	return r, nil
}

// take takes the memory of a reservation. need returns the maximum number of leaves to take, and of
// leaves in use afterward, as far as known when it is called.
func (e *gpuEngine) take(r *reservation, need func() (leaves, most int)) (err error) {
	if r.leaves > e.pool.left {
		if err := e.findLeaves(need); err != nil {
			return err
		}
		r.leaves, r.most = need()
	}
	if r.most > maxLeaves {
		return errLeaves(r.most)
	}
	r.to, err = e.pool.take(r.most, e.spareNodes())
	return err
}

// takeExactly waits for a batch that has been planned, and takes the memory of its reservation.
func (e *gpuEngine) takeExactly(r *reservation, b *batch.Batch) error {
	l, err := e.ahead.last()
	if err != nil {
		return err
	}
	r.leaves, r.most = int(l.fresh), int(l.out)
	if l.out == 0 && b.Inserts() { // an empty map takes as many as the pairs need
		r.leaves = b.N/e.fill + 1
		r.most = r.leaves
	}
	return e.take(r, func() (leaves, most int) { return r.leaves, r.most })
}

// findLeaves ensures that enough leaves are free. Memory grows before few are free.
func (e *gpuEngine) findLeaves(need func() (leaves, most int)) error {
	taken, _ := need()
	if e.pool.unused() >= e.enough(taken) {
		return e.collectFree(false)
	}
	if _, err := e.Counters(context.Background()); err != nil {
		return err
	}
	if taken, _ = need(); taken <= e.pool.left {
		return nil
	}
	if err := e.collectFree(true); err != nil {
		return err
	}
	return e.growTo(taken, e.enough(taken), e.ample(taken))
}

// enough returns the low-water mark of free leaves for a batch that takes that many: an eighth of
// the present more.
func (e *gpuEngine) enough(taken int) int { return taken + e.now().most/8 }

// ample returns the number of leaves to have free after memory has grown. It covers a few more
// batches, so few of them search for free leaves. It exceeds what the batch takes by at most the
// leaves of the present. It does not depend on the leaves of snapshots, so a snapshot costs its
// leaves and not a share of all.
func (e *gpuEngine) ample(taken int) int {
	most := e.now().most
	return taken + max(most/8, min(3*taken, most))
}

// growTo grows the pool until ample leaves are free, or at least taken, unless enough are free
// already.
func (e *gpuEngine) growTo(taken, enough, ample int) error {
	p := e.pool
	if p.left >= enough {
		return nil
	}
	used := p.room() - p.left
	err := p.grow(e.Stream, used+ample)
	if errors.Is(err, device.ErrMemory) && taken < ample && p.room() < used+taken {
		err = p.grow(e.Stream, used+taken)
	}
	if p.room() < used+taken {
		return err
	}
	if p.listed > 0 {
		return nil // the old list, also if memory for leaves failed
	}
	return e.collectFree(true)
}

// collectFree finds the leaves that no version has, after all changes. With exactly, it waits for
// their number. Otherwise the number is a lower bound: what remains if all versions have the
// maximum that they may have.
func (e *gpuEngine) collectFree(exactly bool) error {
	p := e.pool
	room := p.room()
	if room == 0 {
		return nil
	}
	if err := e.learn(); err != nil {
		return err
	}
	q, scan, scratch := p.layOutCollect(0)
	// a planned change has other work memory
	if err := e.lists.Room(&e.Queue, int(scratch)+scan.ScratchBytes()); err != nil {
		return err
	}
	q, scan, scratch = p.layOutCollect(e.lists.Buf.Ptr)
	p.tapped = false
	if p.listed = 0; !exactly {
		p.listed = p.unused()
	}
	p.left = p.listed
	if err := e.listFree(&q, &scan, device.Buffer{Ptr: scratch, Size: scan.ScratchBytes()}); err != nil {
		p.listed, p.left = 0, 0
		return errors.Join(err, e.Stream.Sync(context.Background()))
	}
	if !exactly {
		return nil
	}
	var free [1]uint32
	err := e.Stream.CopyOut(context.Background(), device.Bytes(free[:]), scan.Offsets+device.Ptr(4*scan.N))
	p.listed = int(free[0])
	p.left = p.listed
	return err
}

// listFree submits listing the leaves that no version has.
func (e *gpuEngine) listFree(q *collectParams, scan *prim.Scan, scratch device.Buffer) error {
	p := e.pool
	p.mu.Lock() // no version ends meanwhile
	defer p.mu.Unlock()
	return e.Submit(e.Stream, func() error {
		if err := e.Stream.Fill(q.used, 0, p.room()/4); err != nil {
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

// merging is the memory of a change, which may follow other work memory.
type merging struct {
	sort   prim.Sort
	group  prim.Group // rows of each key
	deltas prim.Scan  // of the number of pairs, by key
	leaves prim.Group // keys of each leaf
	puts   bool       // all operations are Puts that report nothing

	vals, infos, hot, gaps device.Ptr
	first, begins          device.Ptr    // by window
	before                 device.Ptr    // leaves of the new index before each window, and of all
	status                 device.Buffer // of sums over windows
	windows                int
	ranks                  prim.Scan // by node of the new index
	scratch                device.Buffer
	end                    device.Ptr
}

// hotEntries is the minimum number of entries of a hot leaf (settle.cuh).
const hotEntries = 128

// layOut lays out the memory of a change of n rows or ranges from an address on. rooms is the
// maximum number of nodes of the new index.
func (e *gpuEngine) layOut(n int, ranges bool, rooms int, at device.Ptr) (m merging) {
	c := prim.Carve(at)
	if ranges {
		m.gaps = c.Take(n * gpu.GapBytes)
	} else {
		w := prim.Widths{Key: e.Widths.Key, Val: 4}
		m.sort = prim.Sort{Widths: w, N: n, Hi: 8 * w.Key, Signed: e.order != 0, To: prim.Rows{Keys: c.Take(n * w.Key), Vals: c.Take(4 * n)}}
		m.group = prim.Group{N: n, Key: w.Key, Keys: m.sort.To.Keys, Offsets: c.Take(4 * (n + 1)), Count: c.Take(4), Distinct: c.Take(n * w.Key)}
		m.deltas = prim.Scan{N: n, Width: 4, Counts: c.Take(4 * n), Offsets: c.Take(4 * (n + 1))}
		m.leaves = prim.Group{N: n, Key: 4, Keys: c.Take(4 * n), Offsets: c.Take(4 * (n + 1)), Count: c.Take(4), Distinct: c.Take(4 * n)}
		m.vals, m.infos, m.hot = c.Take(n*e.Widths.Val), c.Take(n), c.Take((n/hotEntries+1)*int(unsafe.Sizeof(hotRecord{})))
	}
	windows := nodes(e.now().most)
	m.first, m.begins = c.Take(4*(windows+1)), c.Take(4*windows)
	m.windows, m.before = windows, c.Take(8*(windows+1))
	m.status.Size = 8 * (m.tiles() + 1)
	m.status.Ptr = c.Take(m.status.Size)
	m.ranks = prim.Scan{N: rooms, Width: 8, Counts: c.Take(4 * rooms)}
	m.scratch.Size = m.scratchBytes()
	m.scratch.Ptr = c.Take(m.scratch.Size)
	m.end = device.Ptr(c)
	return m
}

// plannedWindows is the number of windows that a warp plans (settle.cuh), tileWindows that of a
// block.
const (
	warpThreads    = 32
	plannedWindows = 16
	tileWindows    = plannedWindows * gpu.BlockThreads / warpThreads
)

// tiles returns the number of blocks that plan windows. They also cover the end of the last window.
func (m *merging) tiles() int { return m.windows/tileWindows + 1 }

func (m *merging) scratchBytes() int {
	size := m.ranks.ScratchBytes()
	if m.gaps == 0 && m.sort.N > 0 {
		size = max(size, m.sort.ScratchBytes(), m.group.ScratchBytes(), m.deltas.ScratchBytes(), m.leaves.ScratchBytes())
	}
	return size
}

// into sets the index that a change writes.
func (e *gpuEngine) into(to *gpuIndex, m *merging, p *changeParams) {
	p.to, p.free, p.taken = to.ref(e.order), to.pool.free.Ptr, to.pool.taken()
	m.ranks.N, m.ranks.Offsets = to.nodes, p.to.ranks
}

// paramsOf returns the parameters of a change for kernels that only read.
func (e *gpuEngine) paramsOf(b *batch.Batch, m *merging) changeParams {
	c := &b.Columns
	return changeParams{
		old:  e.refOf(e.now()),
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

// become makes an index that a change has been submitted to write the current one. If that failed,
// the number of leaves taken is unknown.
func (e *gpuEngine) become(s *device.Stream, r *reservation, err error) error {
	if err != nil {
		e.pool.listed, e.pool.left, e.ahead.reserved = 0, 0, e.ahead.reserved[:0]
		return errors.Join(err, s.Sync(context.Background()))
	}
	r.used = true
	e.pool.left -= r.leaves
	e.pool.tapped = true
	e.stale = true
	if r.told {
		e.ahead.reserved = append(e.ahead.reserved, r.leaves)
	}
	return errors.Join(e.leases.Replace(r.to), e.pool.spare.TrimTo(1))
}

// change submits a change of a batch on the device.
func (e *gpuEngine) change(_ context.Context, s *device.Stream, b *batch.Batch, r *reservation, at device.Ptr, submit submitter) error {
	m := e.layOut(b.N, false, r.rooms, at)
	m.sort.From.Keys = b.Columns[batch.Keys].Ptr
	p := e.paramsOf(b, &m)
	c := &b.Columns
	m.puts = b.Kind == op.Put && !c[batch.Kinds].Given() && !c[batch.OK].Given() && !c[batch.Out].Given()
	if m.puts && c[batch.Vals].Width == m.sort.Val {
		m.sort.From.Vals, p.vals, p.order = p.vals, m.sort.To.Vals, 0
	}
	empty, planned := e.now().most == 0, r.to == nil
	prepare := func() error {
		if err := e.settleKeys(s, &m, &p, empty); err != nil || empty {
			return err
		}
		return e.planWindows(s, r, &m, &p, e.plan)
	}
	if planned {
		if err := submit(s, prepare); err != nil {
			return errors.Join(err, s.Sync(context.Background()))
		}
		if err := e.takeExactly(r, b); err != nil {
			return err
		}
	}
	e.into(r.to, &m, &p)
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
	return e.become(s, r, err)
}

// settleKeys submits settling the operations on each key, and finding the leaves that have some,
// unless the map is empty.
func (e *gpuEngine) settleKeys(s *device.Stream, m *merging, p *changeParams, empty bool) error {
	scratch := m.scratch
	if err := e.prims.Sort(s, &m.sort, scratch); err != nil {
		return err
	}
	if err := e.prims.Group(s, &m.group, scratch); err != nil {
		return err
	}
	if empty && p.order == 0 { // each key has a pair then
		return nil
	}
	settle := e.settle
	if m.puts {
		settle = e.settlePuts
	}
	if err := e.launch(s, settle, m.sort.N, p); err != nil {
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

// planWindows submits counting the leaves of the new index, and copying the result to the host.
func (e *gpuEngine) planWindows(s *device.Stream, r *reservation, m *merging, p *changeParams, plan device.Kernel) error {
	if err := s.Fill(m.status.Ptr, 0, m.status.Size/4); err != nil {
		return err
	}
	if err := device.Launch(s, plan, device.Dim{X: m.tiles()}, gpu.Block, p); err != nil {
		return err
	}
	r.told = true
	return e.ahead.tell(s, m.before+device.Ptr(leavesBytes*m.windows))
}

// merge submits writing the leaves that change, and the new index.
func (e *gpuEngine) merge(s *device.Stream, m *merging, p *changeParams, write device.Kernel) error {
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

// complete submits writing the upper levels and ranks of a new index.
func (e *gpuEngine) complete(s *device.Stream, m *merging, p *changeParams, finish device.Kernel) error {
	if err := e.launch(s, finish, m.ranks.N, p); err != nil {
		return err
	}
	return e.prims.Scan(s, &m.ranks, m.scratch)
}

// windowThreads is the number of threads that write a window (change.cuh): one per leaf.
const windowThreads = fanout

func (e *gpuEngine) launch(s *device.Stream, k device.Kernel, n int, p *changeParams) error {
	return device.Launch(s, k, gpu.Wave(e.Dev, n), gpu.Block, p)
}

// deleteRanges removes the pairs of ranges on the device.
func (e *gpuEngine) deleteRanges(ctx context.Context, s *device.Stream, b *batch.Batch, r *reservation, at device.Ptr, submit submitter) error {
	gaps, err := e.Gaps(ctx, s, e.now(), b, at, e)
	if err != nil || len(gaps) == 0 {
		return err
	}
	m := e.layOut(b.N, true, r.rooms, at)
	p := e.paramsOf(b, &m)
	e.into(r.to, &m, &p)
	p.gapCount = uint64(len(gaps))
	err = submit(s, func() error {
		if err := gpu.GapsIn(s, m.gaps, gaps); err != nil {
			return err
		}
		if err := e.planWindows(s, r, &m, &p, e.planGaps); err != nil {
			return err
		}
		return e.merge(s, &m, &p, e.writeGaps)
	})
	return e.become(s, r, err)
}

// compact implements engine. All pairs move to a new pool, as in a bulk load. Held versions keep
// theirs.
func (e *gpuEngine) compact(ctx context.Context) error {
	if _, err := e.Counters(ctx); err != nil {
		return err
	}
	from := e.pool
	to, err := newGPUPool(e.Stream, from.key, from.val, e.idle)
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

// refillTo copies the pairs of the current index to a pool, and makes the result the current index.
func (e *gpuEngine) refillTo(to *gpuPool) error {
	leaves := (int(e.known.Live) + e.fill - 1) / e.fill
	if err := e.growFor(max(leaves, e.least)); err != nil {
		return err
	}
	if leaves == 0 {
		return e.leases.Replace(to.empty())
	}
	x, err := to.take(leaves, 4)
	if err != nil {
		return err
	}
	m := e.layOut(0, true, x.nodes, 0)
	if err = e.work.Room(&e.Queue, int(m.end)); err == nil {
		m = e.layOut(0, true, x.nodes, e.work.Buf.Ptr)
		p := e.paramsOf(&batch.Batch{}, &m)
		e.into(x, &m, &p)
		err = e.SubmitWaiting(e.Stream, func() error {
			if err := e.launch(e.Stream, e.refill, int(e.known.Live), &p); err != nil {
				return err
			}
			return e.complete(e.Stream, &m, &p, e.finishAll)
		})
	}
	if err != nil {
		return errors.Join(err, x.Free())
	}
	x.content = content{live: e.known.Live, leaves: uint64(leaves), taken: uint64(leaves)}
	to.left -= leaves
	return e.leases.Replace(x)
}

// ensure implements engine.
func (e *gpuEngine) ensure(pairs int) error {
	e.least = (pairs + e.fill - 1) / e.fill
	return e.growFor(e.least)
}

// growFor grows the pool until that many leaves are free.
func (e *gpuEngine) growFor(leaves int) error { return e.growTo(leaves, leaves, leaves) }

// spareRoom: one in spareRoom leaves of the memory may be in use. The others are for leaves that
// batches write anew.
const spareRoom = 2

// extent implements engine.
func (e *gpuEngine) extent() (leaves, room int) { return e.now().most, e.pool.room() / spareRoom }

// usage implements engine.
func (e *gpuEngine) usage() (usage, error) {
	if err := e.collectFree(true); err != nil {
		return usage{}, err
	}
	p := e.pool
	return usage{leaves: e.now().most, room: p.room(), free: p.left, versions: e.pinned, bytes: p.bytes()}, nil
}

// errLeaves returns the error of maps with more leaves than numbers.
func errLeaves(leaves int) error {
	return fmt.Errorf("%w: %d leaves; %d have numbers", device.ErrMemory, leaves, maxLeaves)
}
