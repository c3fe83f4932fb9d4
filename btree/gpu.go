package btree

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/prim"
)

//go:generate go run ../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 -widths 32_32,32_64,64_32,64_64 -type btree::Tree=treeRef -type btree::Order=orderRef -type inorder::Bounds=boundsRef btree.cu
//go:generate go run ../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 -widths 32_32,32_64,64_32,64_64 -type btree::Tree=.treeRef -type btree::GetParams=.getParams -type btree::SeekParams=.seekParams -type btree::CollectParams=.collectParams -type btree::ChangeParams=.changeParams -type btree::KeepParams=.keepParams -type weft::EpochRef=internal/epoch.Ref -type btree::Past=pastRef btree_versions.cu

// gpuEngine runs the kernels of btree.cu.
//
// Changes run one after the other on all streams. Reads of more than one leaf also run between
// changes. Lookups of single keys run alongside changes.
type gpuEngine struct {
	gpu.Queue
	kernels
	shape
	leases *core.Leases
	prims  *prim.Kernels
	flip   uint64
	fill   int // slots per node that a bulk load uses

	versions     Versions
	clock        uint64      // time of the newest snapshot in all generations
	minPool      int         // minimum number of nodes for copies of an update
	needVersions atomic.Bool // kernels of users need versions of leaves at all times

	submitMu sync.Mutex // serializes submissions that are ordered among the changes

	work      device.Buffer // work memory of the current change
	sorts     device.Buffer // work memory for listing leaves; used only between changes
	cached    control       // control when last read
	stale     bool          // changes have been submitted since cached was read
	presorted presorted
	// e.Stream already waits for the changes before the presort, so reading counters need not wait
	// for the sort
	streamWaits bool
}

// kernels holds the kernels that are compiled for one pair of key and value widths.
type kernels struct {
	get, seek                                                      device.Kernel
	collect, sizes, places, rows, copy                             device.Kernel
	settle, together, adopt, change, keep, bulk, sweep, swept, add device.Kernel
	account                                                        device.Kernel

	// Loaded only with versions:
	thenGet, nowGet, thenSeek, thenCollect, keptTogether, keptChange, keptKeep, tick, give device.Kernel
}

func newGPUEngine(dev device.Device, w batch.Widths, flip uint64, o *Options) (engine, *core.Leases, error) {
	e := &gpuEngine{shape: shapeOf(w.Slot), flip: flip, versions: o.Versions}
	e.fill = fillOf(o.Fill, e.slots)
	if err := e.open(dev, w); err != nil {
		return nil, nil, errors.Join(err, e.Close())
	}
	return e, e.leases, nil
}

func (e *gpuEngine) open(dev device.Device, w batch.Widths) (err error) {
	if err = e.Open(dev, w); err != nil {
		return err
	}
	e.minPool = poolShares * e.epochBlocks() * tilesPerBlock
	if e.prims, err = prim.Load(dev); err != nil {
		return err
	}
	k := &e.kernels
	err = gpu.Load(dev, btreeImages[gpu.Variant(w)], []gpu.Entry{
		{Name: "get", To: &k.get}, {Name: "seek", To: &k.seek}, {Name: "collect", To: &k.collect}, {Name: "sizes", To: &k.sizes},
		{Name: "places", To: &k.places}, {Name: "rows", To: &k.rows}, {Name: "copy", To: &k.copy}, {Name: "settle", To: &k.settle},
		{Name: "together", To: &k.together}, {Name: "adopt", To: &k.adopt}, {Name: "change", To: &k.change}, {Name: "keep", To: &k.keep}, {Name: "bulk", To: &k.bulk}, {Name: "sweep", To: &k.sweep},
		{Name: "swept", To: &k.swept}, {Name: "add", To: &k.add}, {Name: "account", To: &k.account},
	})
	if err == nil && e.versions != Whole {
		err = gpu.Load(dev, btreeVersionsImages[gpu.Variant(w)], []gpu.Entry{
			{Name: "get", To: &k.thenGet}, {Name: "now", To: &k.nowGet}, {Name: "seek", To: &k.thenSeek}, {Name: "collect", To: &k.thenCollect},
			{Name: "together", To: &k.keptTogether}, {Name: "change", To: &k.keptChange}, {Name: "keep", To: &k.keptKeep}, {Name: "tick", To: &k.tick}, {Name: "give", To: &k.give},
		})
	}
	if err != nil {
		return err
	}
	first, err := e.newEmpty()
	if err == nil {
		e.leases = core.NewLeases(first)
	}
	return err
}

// makeTree makes a tree with memory for the given number of nodes. The words of its versions are
// initialized on e.Stream.
func (e *gpuEngine) makeTree(nodes int) (*tree, error) {
	t, err := newTree(e.Dev, e.shape, nodes)
	if err != nil || e.versions == Whole || e.isLazy() {
		return t, err
	}
	if err = e.newPast(e.Stream, t); err != nil {
		return nil, errors.Join(err, e.Stream.Sync(context.Background()), t.Free())
	}
	return t, nil
}

func (e *gpuEngine) newEmpty() (*tree, error) {
	t, err := e.makeTree(newNodes)
	if err != nil {
		return nil, err
	}
	err = e.Stream.CopyIn(t.buf.Ptr, e.shape.emptyImage())
	if err = errors.Join(err, e.Stream.Sync(context.Background())); err != nil {
		return nil, errors.Join(err, t.Free())
	}
	e.cached, e.stale, t.maxUsed = control{top: newNodes}, false, newNodes
	return t, nil
}

func (e *gpuEngine) refOf(p core.Parts) treeRef {
	t := p.(*tree)
	return treeRef{memory: t.buf.Ptr, freed: t.freed.Ptr, flip: e.flip, nodes: uint32(t.capacity())}
}

// Caps implements core.Engine.
func (e *gpuEngine) Caps() core.Caps {
	return core.Caps{ConcurrentReads: true, Streams: true, DeletesMayOverflow: true, Updates: true}
}

// Current implements core.Engine. It returns the current generation.
func (e *gpuEngine) Current() *core.Lease { return e.leases.Current() }

func (e *gpuEngine) current() *tree { return e.Current().Parts.(*tree) }

// submitOrdered submits work that must run after all earlier changes and before all later ones.
func (e *gpuEngine) submitOrdered(s *device.Stream, launch func() error) error {
	e.submitMu.Lock()
	defer e.submitMu.Unlock()
	return e.Submit(s, launch)
}

// runSync submits ordered work and waits for it.
func (e *gpuEngine) runSync(launch func(s *device.Stream) error) error {
	err := e.submitOrdered(e.Stream, func() error { return launch(e.Stream) })
	return errors.Join(err, e.Stream.Sync(context.Background()))
}

func (e *gpuEngine) waitChanges() error { return e.LastChange().Sync(context.Background()) }

// Close implements core.Engine. It frees everything except the generations.
func (e *gpuEngine) Close() (err error) {
	if e.leases != nil {
		err = e.waitChanges()
	}
	for _, buf := range []device.Buffer{e.work, e.sorts} {
		if buf.Size > 0 {
			err = errors.Join(err, e.Dev.Free(buf))
		}
	}
	return errors.Join(err, e.Queue.Close())
}

// ReadCounters implements core.Engine. It waits for all changes if counters are stale.
func (e *gpuEngine) ReadCounters(ctx context.Context) (core.Counters, error) {
	t := e.current()
	waits := e.streamWaits
	e.streamWaits = false
	if e.stale {
		if !waits {
			if err := e.Stream.Wait(e.LastChange()); err != nil {
				return core.Counters{}, err
			}
		}
		var c [1]control
		if err := e.Stream.CopyOut(ctx, unsafe.Slice((*byte)(unsafe.Pointer(&c[0])), unsafe.Sizeof(c)), t.buf.Ptr); err != nil {
			return core.Counters{}, err
		}
		if err := t.past.readCounters(ctx, e.Stream); err != nil {
			return core.Counters{}, err
		}
		e.cached, e.stale = c[0], false
		if !waits {
			if err := e.trimWork(e.maxWork()); err != nil {
				return core.Counters{}, err
			}
		}
	}
	t.tally, t.maxUsed = e.cached.tally, e.cached.nAllocated()
	return core.Counters{Live: t.tally.Live, Used: t.tally.Used}, nil
}

// AddPairs submits a kernel that adds the number of pairs in the map to a counter in device memory,
// or subtracts it if negate is set.
func (e *gpuEngine) AddPairs(s *device.Stream, to device.Slice[uint64], negate bool) error {
	p := addParams{control: e.current().buf.Ptr, to: to.Ptr()}
	if negate {
		p.negate = 1
	}
	return e.submitOrdered(s, func() error { return device.Launch(s, e.add, gpu.Grid(1), gpu.Block, &p) })
}

// Clear implements core.Engine.
func (e *gpuEngine) Clear(context.Context) error {
	t, err := e.newEmpty()
	if err != nil {
		return err
	}
	return e.leases.Replace(t)
}

// usage implements engine.
func (e *gpuEngine) usage() usage {
	t := e.current()
	return usage{
		nodes: t.maxUsed - e.cached.nFree() - int(e.cached.dead) - t.past.nKept() - t.past.nSpare(), dead: int(e.cached.dead), capacity: t.capacity(),
		kept: t.past.nKept(), bytes: t.buf.Size + t.freed.Size + t.order.buf.Size + t.past.bytes() + e.work.Size + e.sorts.Size,
	}
}

// ensure implements engine.
func (e *gpuEngine) ensure(pairs int) error { return e.grow(e.current(), nodesFor(pairs, e.fill)) }

// maxNewNodes returns the maximum number of nodes that n operations take. inserts is the number of
// operations that may insert a key.
func (e *gpuEngine) maxNewNodes(n, inserts int) int {
	copies := e.maxCopies(n)
	if inserts > 0 {
		copies += e.maxSplitNodes(inserts)
	}
	return copies
}

// maxSplitNodes returns the maximum number of nodes that n insertions take for splits. It includes
// one node per tile, which the tile may take without using it.
func (e *gpuEngine) maxSplitNodes(n int) int {
	lanes := e.node / 32
	return e.maxSplits(n) + (n+lanes-1)/lanes + 2*levelMask
}

// maxSplits returns the maximum number of nodes that n insertions split. Each insertion splits at
// most one leaf. An inner node splits if it is full already, and again for each half node of new
// children.
func (e *gpuEngine) maxSplits(n int) int {
	half := e.slots/2 - 1
	return n + n/half + min(n, e.current().maxUsed/half)
}

// fits implements engine.
func (e *gpuEngine) fits(n, inserts int) bool {
	return n <= e.opsLimit() && !e.mustCopy() && e.current().maxUsed+e.maxNewNodes(n, inserts)-e.cached.nFree() <= e.current().capacity()
}

// mustCopy reports whether the tree must be copied before it is changed.
func (e *gpuEngine) mustCopy() bool { return e.versions == Whole && e.leases.Held() }

// opsLimit returns the maximum number of operations to run at once. With OutOfPlace, each operation
// may copy a leaf. The limit is then an eighth of the nodes, so that copies grow memory by no more
// than that.
func (e *gpuEngine) opsLimit() int {
	if e.versions != OutOfPlace {
		return maxOps
	}
	return min(maxOps, max(minCopyOps, e.current().maxUsed/copyShare))
}

// reserveOps implements engine. With Whole, it first copies the tree if a lease is held.
func (e *gpuEngine) reserveOps(n int, inserts bool) (int, error) {
	if e.mustCopy() {
		if err := e.copyTree(); err != nil {
			return 0, err
		}
	}
	t := e.current()
	for n = min(n, e.opsLimit()); ; n = (n + 3) / 4 {
		nInserts := 0
		if inserts {
			nInserts = n
		}
		err := e.grow(t, t.maxUsed+e.maxNewNodes(n, nInserts))
		if err == nil || n <= 1 || !errors.Is(err, device.ErrMemory) {
			return n, err
		}
	}
}

// copyTree copies all nodes and makes the copy the current generation. The old generation stays
// until its leases end.
func (e *gpuEngine) copyTree() error {
	t := e.current()
	to, err := newTree(e.Dev, e.shape, t.maxUsed)
	if err != nil {
		return err
	}
	to.tally, to.maxUsed = t.tally, t.maxUsed
	if t.freed.Size > 0 {
		if to.freed, err = e.Dev.Alloc(t.freed.Size); err != nil {
			return errors.Join(err, to.Free())
		}
	}
	err = e.runSync(func(s *device.Stream) error {
		if t.freed.Size > 0 {
			if err := s.Copy(to.freed.Ptr, t.freed.Ptr, t.freed.Size); err != nil {
				return err
			}
		}
		return s.Copy(to.buf.Ptr, t.buf.Ptr, t.bytesFor(t.maxUsed))
	})
	if err != nil {
		return errors.Join(err, to.Free())
	}
	return e.leases.Replace(to)
}

// reclaim implements engine.
func (e *gpuEngine) reclaim(ctx context.Context) error {
	if e.leases.Held() || e.cached.dead == 0 {
		return nil
	}
	t := e.current()
	freed, err := e.Dev.Alloc(4 * (int(e.cached.dead) + e.cached.nFree()))
	if err != nil {
		return err
	}
	if err := e.leases.BeginExclusive(ctx); err != nil {
		return errors.Join(err, e.Dev.Free(freed))
	}
	defer e.leases.EndExclusive()
	p := sweepParams{tree: e.refOf(t), freed: freed.Ptr, count: e.Word(gpu.WordResult)}
	e.stale = true
	err = e.runSync(func(s *device.Stream) error {
		if err := e.SetWord(s, gpu.WordResult, 0); err != nil {
			return err
		}
		if err := device.Launch(s, e.sweep, gpu.Wave(e.Dev, t.maxUsed), gpu.Block, &p); err != nil {
			return err
		}
		return device.Launch(s, e.swept, gpu.Grid(1), gpu.Block, &p)
	})
	old := t.freed
	t.freed = freed
	if old.Size > 0 {
		err = errors.Join(err, e.Dev.Free(old))
	}
	return err
}

// compact implements engine.
func (e *gpuEngine) compact(ctx context.Context) error {
	now, err := e.ReadCounters(ctx)
	if err != nil {
		return err
	}
	if now.Live == 0 {
		return e.Clear(ctx)
	}
	t, n := e.current(), int(now.Live)
	to, err := e.makeTree(nodesFor(n, e.fill))
	if err != nil {
		return err
	}
	err = e.runSync(func(s *device.Stream) error { return e.copyAll(s, t, to, n) })
	if err != nil {
		return errors.Join(err, to.Free())
	}
	return e.publish(to, n)
}

// copyAll submits kernels that lay out the n pairs of t in the tree to.
func (e *gpuEngine) copyAll(s *device.Stream, t, to *tree, n int) error {
	if err := e.listLeaves(s, t, 0); err != nil {
		return err
	}
	var c prim.Carve
	keys, vals, count := c.Alloc(n*e.Widths.Key), c.Alloc(n*e.Widths.Val), c.Alloc(4)
	if err := e.growBuffer(&e.work, int(c)); err != nil {
		return err
	}
	p := copyParams{tree: e.refOf(t), order: t.orderRef(0), keys: e.work.Ptr + keys, vals: e.work.Ptr + vals, n: uint64(n)}
	if err := device.Launch(s, e.copy, gpu.Wave(e.Dev, n), gpu.Block, &p); err != nil {
		return err
	}
	if err := s.Fill(e.work.Ptr+count, uint32(n), 1); err != nil {
		return err
	}
	return e.layOutTree(s, to, bulkParams{keys: p.keys, vals: p.vals, count: e.work.Ptr + count}, n)
}

// growBuffer grows a buffer to at least the given size. Before it frees the old memory, it waits
// for all work that is ordered with the changes. The content is lost.
func (e *gpuEngine) growBuffer(buf *device.Buffer, bytes int) (err error) {
	if buf.Size >= bytes {
		return nil
	}
	if buf.Size > 0 {
		if err := e.waitChanges(); err != nil {
			return err // running work may use the buffer
		}
		old := *buf
		*buf = device.Buffer{}
		if err := e.Dev.Free(old); err != nil {
			return err
		}
	}
	*buf, err = e.Dev.Alloc(bytes + bytes/4)
	if errors.Is(err, device.ErrMemory) {
		*buf, err = e.Dev.Alloc(bytes)
	}
	return err
}
