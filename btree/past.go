package btree

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"structs"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/epoch"
	"github.com/weftgo/weft/internal/gpu"
)

// Versions of a tree on a GPU follow chapter 4 of Awad's thesis. btree_past.cuh in the kernels
// describes the words and their memory order. The differences from the thesis are:
//
//   - A node does not hold its time, and keeps all its slots. Times and lists lie beside the nodes,
//     16 bytes per node. Lookups of the present do not read them, so they read as much as without
//     versions.
//   - Leaves have a past, inner nodes have none. The right node of a split begins with the list of
//     the left one. So the leaf that has a key now leads to the content that had it at any time,
//     however the tree above has changed. The high key and link of an old leaf then lead to its
//     successor.
//   - A split changes no pair, so it copies nothing. Both nodes of a split keep the time of the
//     node that was split.
//   - A time that is not set yet carries a mark of its write, since the address of a head stays.
//     Otherwise a slow reader could set the time of a later write from an older clock, which may
//     happen in the published code.
//   - A merge gives both leaves the later of their times. The old content of the leaf with the
//     earlier time becomes its past.
//   - Retired nodes are freed by any later launch, or when a snapshot ends. Limbo bags are not
//     lost.
//   - A writer sets the time of its change before it releases the latch. So lookups of the present
//     read no time unless they meet a latch.
//   - A block copies to nodes that it has retired itself. With stacks shared by all blocks, which
//     wait for each other at each step, a tree did ten million changes a second.

// pastControl holds the clock, the counters and the stacks of free nodes of a past (PastControl in
// btree_past.cuh).
type pastControl struct {
	_      structs.HostLayout
	clock  uint64
	copied uint64
	reused uint64
	_      [13]uint64
	stacks [1024]uint64 // stacks of free nodes
}

const (
	pastControlSize = int(unsafe.Sizeof(pastControl{}))
	pastBytes       = 16        // size of the words of a node
	maxTime         = 1<<63 - 1 // later than all other times
	noFreeNode      = uint64(noNode)
	// in a launch, one of copyShare nodes may be copied, if kernels take snapshots
	copyShare     = 8
	minCopyOps    = 1 << 18 // minimum number of operations of such a launch
	tilesPerBlock = 64      // maximum number: 256 threads, nodes of 128 bytes
	bagNodes      = 1 << 10 // kBag in btree_past.cuh
	// poolShares is the number of pool nodes per tile of a launch. It counts the nodes that a tile
	// has, and as many that wait for the end of epochs.
	poolShares     = 16
	threadsPerUnit = 2048 // maximum number of threads per multiprocessor
)

// past holds the versions of the leaves of a tree.
type past struct {
	words   device.Range
	control device.Buffer
	epochs  *epoch.Reclaimer
	held    []*heldVersion // held snapshots, oldest first
	cached  pastControl    // counters when last read
	filled  int            // number of nodes with initialized words
	reserve int            // number of free nodes that copies of the current update must leave
	pool    int            // number of nodes that these copies may use
	epoch   epoch.Counters
	stocked bool // the stacks may have free nodes
	stale   bool // nodes may have been copied or freed since the counters were read
	dormant bool // not in use, so past does not grow with the tree
}

// heldVersion is a snapshot that the host has taken.
type heldVersion struct {
	time  uint64
	pairs uint64
	pin   *epoch.Pin
	order order
}

// newPast makes the past of a tree. It treats all current pairs as older than any snapshot.
func (e *gpuEngine) newPast(s *device.Stream, t *tree) (err error) {
	p := &past{}
	t.past = p
	defer func() {
		if err != nil { // wait, since submitted work may use p
			err = errors.Join(err, s.Sync(context.Background()), p.free(e.Dev))
			t.past = nil
		}
	}()
	if p.words, err = e.Dev.Reserve(maxNodesOf(t) * pastBytes); err != nil {
		return fmt.Errorf("versions of %d nodes: %w", maxNodesOf(t), err)
	}
	if p.control, err = e.Dev.Alloc(pastControlSize); err != nil {
		return err
	}
	collect := func(s *device.Stream, r epoch.Ref, stacks device.Ptr, n int) error {
		ref := e.pastRef(t)
		ref.epochs = r
		params := giveParams{tree: e.refOf(t), past: ref, stacks: stacks, count: uint32(n)}
		return device.Launch(s, e.give, gpu.Wave(e.Dev, n), gpu.Block, &params)
	}
	cfg := epoch.Config{Slots: 1, Nodes: t.capacity(), MaxNodes: maxNodesOf(t), Bag: 1, Collect: collect}
	if e.versions == OutOfPlace { // otherwise only pins hold retired nodes
		cfg.Slots, cfg.Bag = e.epochBlocks(), bagNodes
	}
	if p.epochs, err = epoch.New(s, cfg); err != nil {
		return err
	}
	if err := p.grow(t.capacity()); err != nil {
		return err
	}
	p.cached = pastControl{clock: e.clock + 1}
	for i := range p.cached.stacks {
		p.cached.stacks[i] = noFreeNode
	}
	head := unsafe.Slice((*byte)(unsafe.Pointer(&p.cached)), pastControlSize)
	return errors.Join(s.CopyIn(p.control.Ptr, head), p.fill(s, t.capacity()))
}

// fill submits the initialization of the words of new nodes, which marks their content as older
// than any snapshot. While no snapshot is held, kernels without versions change the tree. Their
// writes are also older than the next snapshot.
func (p *past) fill(s *device.Stream, nodes int) error {
	if nodes <= p.filled {
		return nil
	}
	at := p.words.Ptr() + device.Ptr(p.filled*pastBytes)
	if err := s.Fill(at, 0, (nodes-p.filled)*pastBytes/4); err != nil {
		return err
	}
	p.filled = nodes
	return nil
}

// grow allocates memory for the given number of nodes of a tree, and for the versions of these
// nodes.
func (e *gpuEngine) grow(t *tree, nodes int) error {
	if err := t.grow(nodes); err != nil || t.past == nil || t.past.dormant || t.capacity() <= t.past.filled {
		return err
	}
	return e.submitOrdered(e.Stream, func() error { return t.past.fill(e.Stream, t.capacity()) })
}

// isLazy reports whether a tree has a past only while snapshots are held. Changes then cost nothing
// more at other times. If kernels of users run, a past must always exist.
func (e *gpuEngine) isLazy() bool { return e.versions == InPlace && !e.needVersions.Load() }

// activate makes the past of a tree cover all its nodes. The caller holds the writer lock.
func (e *gpuEngine) activate(t *tree) error {
	if t.past == nil {
		return e.submitOrdered(e.Stream, func() error { return e.newPast(e.Stream, t) })
	}
	if err := t.past.grow(t.capacity()); err != nil {
		return err
	}
	t.past.dormant = false
	return e.submitOrdered(e.Stream, func() error { return t.past.fill(e.Stream, t.capacity()) })
}

// maxNodesOf returns the number of nodes that fit the address range of a tree.
func maxNodesOf(t *tree) int { return (t.reserved - controlBytes) / t.node }

// grow allocates memory for the versions of the given number of nodes.
func (p *past) grow(nodes int) error {
	if nodes*pastBytes > p.words.Mapped() {
		if err := p.words.Resize(nodes * pastBytes); err != nil {
			return fmt.Errorf("versions of %d nodes: %w", nodes, err)
		}
	}
	return p.epochs.Grow(nodes)
}

// free frees the memory. No work that uses it may be running.
func (p *past) free(dev device.Device) (err error) {
	if p == nil {
		return nil
	}
	for _, h := range p.held {
		err = errors.Join(err, h.order.free(dev))
	}
	if p.epochs != nil {
		err = errors.Join(err, p.epochs.Close())
	}
	if p.words != nil {
		err = errors.Join(err, p.words.Free())
	}
	if p.control.Size > 0 {
		err = errors.Join(err, dev.Free(p.control))
	}
	return err
}

func (p *past) bytes() int {
	if p == nil {
		return 0
	}
	n := p.words.Mapped() + p.control.Size + p.epochs.Bytes()
	for _, h := range p.held {
		n += h.order.buf.Size
	}
	return n
}

// nSpare returns the number of free nodes in the stacks when the counters were last read.
func (p *past) nSpare() int {
	if p == nil {
		return 0
	}
	return int(p.epoch.Freed - p.cached.reused)
}

// nKept returns the number of nodes that only snapshots read or that wait for the end of epochs.
func (p *past) nKept() int {
	if p == nil {
		return 0
	}
	return int(p.epoch.Retired - p.epoch.Freed)
}

// pastRef returns the parameter that gives kernels the past of a tree.
func (e *gpuEngine) pastRef(t *tree) pastRef {
	p := t.past
	r := pastRef{control: p.control.Ptr, words: p.words.Ptr(), epochs: p.epochs.Ref(), reserve: noNode}
	if p.stocked {
		r.stocked = 1
	}
	if n := len(p.held); n > 0 {
		r.newest = p.held[n-1].time
	}
	if e.versions == OutOfPlace {
		r.newest = maxTime
	}
	return r
}

// readRef returns the parameter that gives the past to kernels that only read it and retire no
// nodes.
func (t *tree) readRef() pastRef {
	return pastRef{control: t.past.control.Ptr, words: t.past.words.Ptr()}
}

// epochBlocks returns the number of blocks in a launch that uses epochs.
func (e *gpuEngine) epochBlocks() int { return max(1, e.Dev.Properties().Units) * changeBlocks }

// maxCopies returns the maximum number of nodes that n operations copy.
func (e *gpuEngine) maxCopies(n int) int {
	t := e.current()
	switch {
	case t.past == nil || e.versions == InPlace && len(t.past.held) == 0:
		return 0
	case e.versions == InPlace:
		return min(2*n, t.maxUsed+n)
	}
	return 2 * n
}

// keepsOld reports whether a change must keep the old content of leaves.
func (e *gpuEngine) keepsOld(t *tree) bool {
	return t.past != nil && (e.versions == OutOfPlace || len(t.past.held) > 0)
}

// markStale marks the counters as stale before a change. With OutOfPlace, blocks may free nodes
// from then on.
func (p *past) markStale(outOfPlace bool) {
	if p == nil {
		return
	}
	p.stocked, p.stale = p.stocked || outOfPlace, p.stale || outOfPlace || len(p.held) > 0
	for _, h := range p.held {
		h.order.nodes = 0
	}
}

// readCounters reads the counters from the device. All changes must be done before.
func (p *past) readCounters(ctx context.Context, s *device.Stream) (err error) {
	if p == nil || !p.stale {
		return nil
	}
	head := unsafe.Slice((*byte)(unsafe.Pointer(&p.cached)), unsafe.Offsetof(p.cached.stacks))
	if err = s.CopyOut(ctx, head, p.control.Ptr); err != nil {
		return err
	}
	p.epoch, err = p.epochs.ReadCounters(ctx, s)
	p.stocked, p.stale = p.nSpare() > 0, err != nil
	return err
}

// find returns the index in p.held of the snapshot at time, or -1.
func (p *past) find(time uint64) int {
	return slices.IndexFunc(p.held, func(h *heldVersion) bool { return h.time == time })
}

// orderAt returns the list of leaves as of the given time. Time 0 is the present.
func (t *tree) orderAt(time uint64) *order {
	if time != 0 {
		if i := t.past.find(time); i >= 0 {
			return &t.past.held[i].order
		}
	}
	return &t.order
}

// pairsAt returns the number of pairs as of the given time. Time 0 is the present.
func (e *gpuEngine) pairsAt(t *tree, time uint64) uint64 {
	if time != 0 {
		e.submitMu.Lock()
		defer e.submitMu.Unlock()
		if i := t.past.find(time); i >= 0 {
			return t.past.held[i].pairs
		}
	}
	return t.tally.Live
}

// Pin implements core.Versioner. With Whole it does nothing, since a generation with open leases
// never changes.
func (e *gpuEngine) Pin(ctx context.Context) (version uint64, err error) {
	t := e.current()
	if e.versions == Whole {
		return 0, nil
	}
	if err := e.activate(t); err != nil {
		return 0, err
	}
	p := t.past
	e.submitMu.Lock()
	defer e.submitMu.Unlock()
	var pin *epoch.Pin
	err = e.Submit(e.Stream, func() (err error) {
		if pin, err = p.epochs.Pin(e.Stream); err != nil {
			return err
		}
		tick := tickParams{past: e.pastRef(t), time: e.Word(gpu.WordSum)}
		return device.Launch(e.Stream, e.tick, gpu.Grid(1), gpu.Block, &tick)
	})
	var time [1]uint64
	if err == nil {
		err = e.Stream.CopyOut(ctx, device.Bytes(time[:]), e.Word(gpu.WordSum))
	}
	if err != nil {
		if pin != nil {
			err = errors.Join(err, pin.Release(e.Stream))
		}
		return 0, errors.Join(err, e.Stream.Sync(context.Background()))
	}
	p.held = append(p.held, &heldVersion{time: time[0], pairs: t.tally.Live, pin: pin})
	e.clock = max(e.clock, time[0])
	return time[0], nil
}

// Unpin implements core.Versioner. Nodes that only this version reads pass to the previous version
// if it reads them. Others are freed.
func (e *gpuEngine) Unpin(_ context.Context, time uint64) error {
	t := e.current()
	if t.past == nil {
		return nil
	}
	i := t.past.find(time)
	if i < 0 {
		return nil // the version belonged to a replaced generation, which is freed as a whole
	}
	h := t.past.held[i]
	e.submitMu.Lock()
	t.past.held = slices.Delete(t.past.held, i, i+1)
	e.submitMu.Unlock()
	e.stale = true
	t.past.stocked, t.past.stale, t.past.dormant = true, true, e.isLazy() && len(t.past.held) == 0
	err := e.runSync(func(s *device.Stream) error { return h.pin.Release(s) })
	return errors.Join(err, h.order.free(e.Dev))
}

var _ core.Versioner = (*gpuEngine)(nil)
