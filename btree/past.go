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

// Versions of a tree on a GPU, after chapter 4 of Awad's thesis (kernels: btree_past.cuh, which has the
// words and how they are ordered). What is different here:
//
//   - A node does not have its time, and has all its slots: times and lists lie beside the nodes, 16 bytes
//     each, so that lookups of the present, which need none, read what they read without versions.
//   - Leaves have a past, inner nodes have none. The right node of a split begins with the list of the left
//     one, so the leaf that has a key now leads to what had it at any time, however the tree above has
//     changed; what was there then says by its high key and link what came next.
//   - A split changes no pair, so it copies nothing: the nodes of a split have one time, that of the node before.
//   - A time that nobody has set is marked with the write that it is of. The address of a head stays, so a reader that
//     is late would otherwise set the time of a later write by a clock of before, which the published code may do.
//   - A merge gives both leaves the later of their times, and what the older one was becomes its past.
//   - What is retired is freed by any later launch, or where a snapshot ends: limbo bags are not lost.
//   - Who changes a leaf dates the change before it gives the latch back, so lookups of the present read no time, but
//     where they meet a latch.
//   - A block copies to nodes that it has retired itself. In stacks that all blocks share, whose steps wait for each other,
//     a tree changed ten million times a second.

// pastControl lies at the beginning of the words (twin: PastControl in btree_past.cuh).
type pastControl struct {
	_      structs.HostLayout
	clock  uint64
	copied uint64
	reused uint64
	_      [13]uint64
	stacks [1024]uint64 // of free nodes
}

const (
	pastControlSize = int(unsafe.Sizeof(pastControl{}))
	pastBytes       = 16        // of a node
	always          = 1<<63 - 1 // a time behind all
	noFreeNode      = uint64(noNode)
	outsideShare    = 8       // of the nodes, that a launch may copy where kernels take snapshots
	outsideOps      = 1 << 18 // operations of a launch there, at least
	tilesPerBlock   = 64      // of 256 threads, where nodes have 128 bytes: the most
	bagNodes        = 1 << 10 // kBag of btree_past.cuh
	poolShares      = 16      // of a node for each tile of a launch: what tiles have, and as many that wait for the end of epochs
	threadsPerUnit  = 2048    // of a multiprocessor, at most
)

// past is what a tree with versions has of what it was.
type past struct {
	words   device.Range
	control device.Buffer
	epochs  *epoch.Reclaimer
	held    []*heldVersion // oldest first
	known   pastControl    // as of the last reading
	filled  int            // nodes whose words say something
	reserve int            // nodes that copies of the update under way leave
	pool    int            // nodes that these have
	epoch   epoch.Counters
	stocked bool // there may be free nodes in the stacks
	stale   bool // something has been copied or freed since the counters were read
	rests   bool // nobody needs it: it does not grow with the tree
}

// heldVersion is a snapshot of the host.
type heldVersion struct {
	time  uint64
	pairs uint64
	pin   *epoch.Pin
	order order
}

// newPast makes the past of a tree with so many nodes whose pairs are all older than any snapshot.
func (e *gpuEngine) newPast(s *device.Stream, t *tree) (err error) {
	p := &past{}
	t.past = p
	defer func() {
		if err != nil { // what has been submitted may use it
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
	give := func(s *device.Stream, r epoch.Ref, stacks device.Ptr, n int) error {
		ref := e.pastRef(t)
		ref.epochs = r
		params := giveParams{tree: e.refOf(t), past: ref, stacks: stacks, count: uint32(n)}
		return device.Launch(s, e.give, gpu.Wave(e.Dev, n), gpu.Block, &params)
	}
	cfg := epoch.Config{Slots: 1, Nodes: t.room(), MaxNodes: maxNodesOf(t), Bag: 1, Collect: give}
	if e.versions == OutOfPlace { // else pins alone have what is retired
		cfg.Slots, cfg.Bag = e.outsideBlocks(), bagNodes
	}
	if p.epochs, err = epoch.New(s, cfg); err != nil {
		return err
	}
	if err := p.grow(t.room()); err != nil {
		return err
	}
	p.known = pastControl{clock: e.clock + 1}
	for i := range p.known.stacks {
		p.known.stacks[i] = noFreeNode
	}
	head := unsafe.Slice((*byte)(unsafe.Pointer(&p.known)), pastControlSize)
	return errors.Join(s.CopyIn(p.control.Ptr, head), p.fill(s, t.room()))
}

// fill submits saying of nodes that have no past yet that they have always been what they are. While no snapshot is
// held, kernels that know nothing of versions change the tree: what they leave is older than the next one, too.
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

// grow takes memory for so many nodes of a tree, and their versions.
func (e *gpuEngine) grow(t *tree, nodes int) error {
	if err := t.grow(nodes); err != nil || t.past == nil || t.past.rests || t.room() <= t.past.filled {
		return err
	}
	return e.inTurn(e.Stream, func() error { return t.past.fill(e.Stream, t.room()) })
}

// lazy reports whether a tree has a past only while snapshots are held: changes cost nothing more else. Kernels of users expect one always.
func (e *gpuEngine) lazy() bool { return e.versions == InPlace && !e.refs.Load() }

// wake sees to it that a tree has a past, up to its last node. It is called with the turn.
func (e *gpuEngine) wake(t *tree) error {
	if t.past == nil {
		return e.inTurn(e.Stream, func() error { return e.newPast(e.Stream, t) })
	}
	if err := t.past.grow(t.room()); err != nil {
		return err
	}
	t.past.rests = false
	return e.inTurn(e.Stream, func() error { return t.past.fill(e.Stream, t.room()) })
}

// maxNodesOf is the number of nodes that a tree has addresses for.
func maxNodesOf(t *tree) int { return (t.reserved - controlBytes) / t.node }

// grow takes memory for the past of so many nodes.
func (p *past) grow(nodes int) error {
	if nodes*pastBytes > p.words.Mapped() {
		if err := p.words.Resize(nodes * pastBytes); err != nil {
			return fmt.Errorf("versions of %d nodes: %w", nodes, err)
		}
	}
	return p.epochs.Grow(nodes)
}

// free gives the memory back. Nothing that uses it is under way.
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

// free nodes in the stacks, as of the last reading.
func (p *past) spare() int {
	if p == nil {
		return 0
	}
	return int(p.epoch.Freed - p.known.reused)
}

// kept is the number of nodes that only snapshots read, or that wait for the end of epochs.
func (p *past) kept() int {
	if p == nil {
		return 0
	}
	return int(p.epoch.Retired - p.epoch.Freed)
}

// pastRef is the past of a tree, for kernels.
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
		r.newest = always
	}
	return r
}

// readRef is the past of a tree for readers, who retire nothing.
func (t *tree) readRef() pastRef {
	return pastRef{control: t.past.control.Ptr, words: t.past.words.Ptr()}
}

// outsideBlocks is the number of blocks of a launch that has epochs.
func (e *gpuEngine) outsideBlocks() int { return max(1, e.Dev.Properties().Units) * changeBlocks }

// copies is how many nodes n operations may copy.
func (e *gpuEngine) copies(n int) int {
	t := e.now()
	switch {
	case t.past == nil || e.versions == InPlace && len(t.past.held) == 0:
		return 0
	case e.versions == InPlace:
		return min(2*n, t.most+n)
	}
	return 2 * n
}

// keeps reports whether a change has to keep what leaves were.
func (e *gpuEngine) keeps(t *tree) bool {
	return t.past != nil && (e.versions == OutOfPlace || len(t.past.held) > 0)
}

// changed makes what is known of versions out of date. Blocks may free nodes from now on.
func (p *past) changed(outside bool) {
	if p == nil {
		return
	}
	p.stocked, p.stale = p.stocked || outside, p.stale || outside || len(p.held) > 0
	for _, h := range p.held {
		h.order.nodes = 0
	}
}

// count reads the counters, behind all changes.
func (p *past) count(ctx context.Context, s *device.Stream) (err error) {
	if p == nil || !p.stale {
		return nil
	}
	head := unsafe.Slice((*byte)(unsafe.Pointer(&p.known)), unsafe.Offsetof(p.known.stacks))
	if err = s.CopyOut(ctx, head, p.control.Ptr); err != nil {
		return err
	}
	p.epoch, err = p.epochs.Counters(ctx, s)
	p.stocked, p.stale = p.spare() > 0, err != nil
	return err
}

// find is the snapshot of a time.
func (p *past) find(time uint64) int {
	return slices.IndexFunc(p.held, func(h *heldVersion) bool { return h.time == time })
}

// at is a time and the order of its leaves, that of the present for 0.
func (t *tree) at(time uint64) *order {
	if time != 0 {
		if i := t.past.find(time); i >= 0 {
			return &t.past.held[i].order
		}
	}
	return &t.order
}

// pairsAt is the number of pairs at a time.
func (e *gpuEngine) pairsAt(t *tree, time uint64) uint64 {
	if time != 0 {
		e.turn.Lock()
		defer e.turn.Unlock()
		if i := t.past.find(time); i >= 0 {
			return t.past.held[i].pairs
		}
	}
	return t.tally.Live
}

// Pin is for [core.Versioner]. Without versions, a generation that somebody holds never changes.
func (e *gpuEngine) Pin(ctx context.Context) (version uint64, err error) {
	t := e.now()
	if e.versions == Whole {
		return 0, nil
	}
	if err := e.wake(t); err != nil {
		return 0, err
	}
	p := t.past
	e.turn.Lock()
	defer e.turn.Unlock()
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

// Unpin is for [core.Versioner]. What only the version has read goes to the one before, or is free.
func (e *gpuEngine) Unpin(_ context.Context, time uint64) error {
	t := e.now()
	if t.past == nil {
		return nil
	}
	i := t.past.find(time)
	if i < 0 {
		return nil // it was of a generation that has been replaced, and goes with that
	}
	h := t.past.held[i]
	e.turn.Lock()
	t.past.held = slices.Delete(t.past.held, i, i+1)
	e.turn.Unlock()
	e.stale = true
	t.past.stocked, t.past.stale, t.past.rests = true, true, e.lazy() && len(t.past.held) == 0
	err := e.alone(func(s *device.Stream) error { return h.pin.Release(s) })
	return errors.Join(err, h.order.free(e.Dev))
}

var _ core.Versioner = (*gpuEngine)(nil)
