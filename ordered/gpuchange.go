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

// gpuPiece is the number of operations of a piece, at most: more are not faster, and each takes
// some fifty bytes while it runs. One that loads an empty map may be larger.
var gpuPiece, gpuLoad = 1 << 24, 1 << 28

// Change is for [core.Engine]: in pieces, of which each is done as a whole.
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

// submitter submits launches, behind all changes before.
type submitter func(*device.Stream, func() error) error

// reservation is the memory of leaves and an index that a change takes.
type reservation struct {
	to     *gpuIndex // nil: is taken when the change has been planned
	leaves int       // that are taken at most
	most   int       // that there are then at most
	rooms  int       // nodes that the index has memory for, at most
	bytes  int       // of what the change works with
	used   bool
	told   bool // the host is told what the change comes to, which has been planned
}

// bounds are how many leaves a batch takes at most, and how many there are then. A leaf with
// operations is written anew, and has all but one of them more at most; leaves that are split have fill pairs each.
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

// spareNodes is the part of an index that new memory for one has more.
func (e *gpuEngine) spareNodes() int {
	if e.pinned > 0 { // versions may keep it
		return 16
	}
	return 2
}

// reserve takes leaves and an index for a change, before anything happens. If there may be too few, and more than it takes to plan
// the change would have to be waited for, nothing is taken yet.
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

// take takes the memory of a reservation. need is how many leaves are taken at most, and how many there are then, as
// far as that is known when it is called.
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

// takeExactly takes the memory of a reservation for a batch that has been planned, which it waits for.
func (e *gpuEngine) takeExactly(r *reservation, b *batch.Batch) error {
	l, err := e.ahead.last()
	if err != nil {
		return err
	}
	r.leaves, r.most = int(l.fresh), int(l.out)
	if l.out == 0 && b.Inserts() { // or as many as pairs take that come to an empty map
		r.leaves = b.N/e.fill + 1
		r.most = r.leaves
	}
	return e.take(r, func() (leaves, most int) { return r.leaves, r.most })
}

// findLeaves sees to as many free leaves as are needed. Memory grows before few are free.
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

// enough is how many leaves should be free for a batch that takes so many: a few more.
func (e *gpuEngine) enough(taken int) int { return taken + e.now().most/8 }

// ample is how many are free for it when memory has grown: enough for a few batches more, so that few have to find free ones. That is no
// more than the present has, and the same however many leaves snapshots have: so what these cost is those leaves, and not a share of all.
func (e *gpuEngine) ample(taken int) int {
	most := e.now().most
	return taken + max(most/8, min(3*taken, most))
}

// growTo grows the pool, if fewer leaves are free than should be, until ample are, or at least as many as are taken.
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
		return nil // the list is the one there was, also where there was no memory for leaves
	}
	return e.collectFree(true)
}

// collectFree finds out which leaves no version has, behind all changes. exactly: it waits for how many these are; else
// they are taken to be as many as versions leave that have all that they may have.
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
	if err := e.lists.Room(&e.Queue, int(scratch)+scan.ScratchBytes()); err != nil { // a change that has been planned has other work
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

// merging is the memory of a change, behind what else lies in the work memory.
type merging struct {
	sort   prim.Sort
	group  prim.Group // rows of each key
	deltas prim.Scan  // of the number of pairs, by key
	leaves prim.Group // keys of each leaf
	puts   bool       // all operations are Puts that report nothing

	vals, infos, hot, gaps device.Ptr
	first, begins          device.Ptr    // of windows
	before                 device.Ptr    // leaves of the new index before windows, and of all
	status                 device.Buffer // of sums over windows
	windows                int
	ranks                  prim.Scan // of nodes of the new index
	scratch                device.Buffer
	end                    device.Ptr
}

// hotEntries are how many entries a hot leaf has at least (settle.cuh).
const hotEntries = 128

// layOut gives a change of n rows, or ranges, to an index of so many nodes at most its memory, from a place on.
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

// plannedWindows are those that a warp plans (settle.cuh), and tileWindows those of a block.
const (
	warpThreads    = 32
	plannedWindows = 16
	tileWindows    = plannedWindows * gpu.BlockThreads / warpThreads
)

// tiles are the blocks that plan windows, and what lies behind the last one.
func (m *merging) tiles() int { return m.windows/tileWindows + 1 }

func (m *merging) scratchBytes() int {
	size := m.ranks.ScratchBytes()
	if m.gaps == 0 && m.sort.N > 0 {
		size = max(size, m.sort.ScratchBytes(), m.group.ScratchBytes(), m.deltas.ScratchBytes(), m.leaves.ScratchBytes())
	}
	return size
}

// into says which index a change writes.
func (e *gpuEngine) into(to *gpuIndex, m *merging, p *changeParams) {
	p.to, p.free, p.taken = to.ref(e.order), to.pool.free.Ptr, to.pool.taken()
	m.ranks.N, m.ranks.Offsets = to.nodes, p.to.ranks
}

// paramsOf is a change as kernels take it that only read.
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

// become makes an index the one in use that a change has been submitted to write, unless that went
// wrong: then nobody knows how many leaves have been taken.
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

// settleKeys submits settling the operations on each key, and finding the leaves that have some, if there
// are leaves.
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

// planWindows submits working out how many leaves there will be, and telling the host of it.
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

// complete submits writing what lies above the lines of a new index.
func (e *gpuEngine) complete(s *device.Stream, m *merging, p *changeParams, finish device.Kernel) error {
	if err := e.launch(s, finish, m.ranks.N, p); err != nil {
		return err
	}
	return e.prims.Scan(s, &m.ranks, m.scratch)
}

// windowThreads are those that write a window (change.cuh): one a leaf.
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

// compact is for [engine]. All pairs move to a pool of their own, as a bulk load would have written them;
// versions that are held keep theirs.
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

// refillTo fills a pool from the one in use, and makes what it has the one in use.
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

// ensure is for [engine].
func (e *gpuEngine) ensure(pairs int) error {
	e.least = (pairs + e.fill - 1) / e.fill
	return e.growFor(e.least)
}

// growFor grows the pool until so many leaves are free.
func (e *gpuEngine) growFor(leaves int) error { return e.growTo(leaves, leaves, leaves) }

// spareRoom is the share of the leaves that there is memory for which may be in use: others are for what
// batches write anew.
const spareRoom = 2

// extent is for [engine].
func (e *gpuEngine) extent() (leaves, room int) { return e.now().most, e.pool.room() / spareRoom }

// usage is for [engine].
func (e *gpuEngine) usage() (usage, error) {
	if err := e.collectFree(true); err != nil {
		return usage{}, err
	}
	p := e.pool
	return usage{leaves: e.now().most, room: p.room(), free: p.left, versions: e.pinned, bytes: p.bytes()}, nil
}

// errLeaves is the error of maps whose leaves have no numbers.
func errLeaves(leaves int) error {
	return fmt.Errorf("%w: %d leaves; %d have numbers", device.ErrMemory, leaves, maxLeaves)
}
