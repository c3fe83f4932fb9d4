package sim

import (
	"math/rand/v2"
	"slices"
	"sync"
)

// views implements weak memory as a view machine. Memory is divided into cells of four bytes. A
// written cell keeps the messages stored in it, newest last, until all threads know all of them.
// Every thread has a view: the oldest message of each cell that it may still read. A load takes any
// message that its view allows. Stores and read-modify-write operations always add a message on
// top. Releasing stores and fences attach the thread's view to the messages that they write.
// Acquiring loads and fences join attached views to their own.
//
// A launch, a copy or a fill begins with the view of everything ordered before it, which is fixed
// at its submission; see [work]. Copies and fills are weak accesses to all their bytes.
//
// Two things are not modelled. Loads never return values stored later (load buffering), and a cell
// keeps at most historyLength messages.
type views struct {
	dev     *Device
	rng     *rand.Rand
	races   bool   // whether races are faults
	newest  bool   // whether loads always read the newest message
	clock   uint32 // counts stores and copies, and also loads if races are checked
	cells   int    // number of cells that have an id
	threads int    // number of threads of all works
	blocks  int    // number of blocks of all launches; a transfer counts as one block
	dirty   []*segment
	store   []*cellChunk // memory for cells in use
	stored  int          // number of cells in use
	// sc is the union of the views of threads at their fence.sc, by block. Index 0 is for fences of
	// a scope wider than the block.
	sc map[int]*view
}

// thread holds the view of one thread. Its own writes count as seen, even if not in now.
type thread struct {
	number int // number among all threads of the device
	now    view
	fenced []release // releases of its last fences, attached to its later strong stores
	// released holds, for a cell, the thread's releases there, which its later strong stores to the
	// cell attach. found holds, for a cell, the releases that relaxed loads found attached. A later
	// acquiring load of the cell, or a fence, acquires them.
	released, found map[*cell][]release
}

// A release is the view that a thread had when it executed a release or a fence. Threads of the
// same block can acquire it. If the release is wide, all threads can.
type release struct {
	block int // block number of the thread
	wide  bool
	seen  *view
}

// reaches reports whether a thread of the given block acquires the release at the given scope.
func (r release) reaches(block int, scope Scope) bool {
	return r.block == block || r.wide && scope > ScopeBlock
}

// with returns a copy of list with r added.
func with(list []release, r release) []release {
	list = slices.Clone(list)
	for i, o := range list {
		if o.block == r.block && o.wide == r.wide {
			list[i].seen = joinViews(o.seen, r.seen)
			return list
		}
	}
	return append(list, r)
}

// history holds the written cells of a segment in pages of cellPage entries. Other entries are nil.
// If races are checked, it also holds the cells that were read.
type history [][]*cell

const (
	cellBytes     = 4
	maxElement    = 16 // in bytes
	cellPage      = 256
	historyLength = 4
)

// cell is four bytes of memory that have been written, or read if races are checked.
type cell struct {
	id    int // index in view.cells; 0 until a view needs one
	n     int
	msgs  [historyLength]message // ascending by time
	reads [historyLength]mark    // ring of the last loads, if races are checked
	loads int                    // number of loads recorded in reads so far
}

// message is one store to a cell.
type message struct {
	mark
	value    uint32
	written  uint8 // mask of the bytes ever written
	attached []release
}

// mark is the record of an access.
type mark struct {
	time   uint32
	thread uint32 // number of the thread; a launch cannot start enough threads to overflow it
	block  uint32 // number of the block
	strong bool   // whether the access is not weak
	scope  Scope
	bytes  uint8
	in     *instr // nil for a copy or a fill
	work   *work  // nil for an initial value, which all threads have seen
}

// mark returns the mark of an access that a lane makes now.
func (s *views) mark(w *warp, in *instr, lane int, off uint64) mark {
	ac := in.access
	return mark{
		time: s.clock, strong: ac.order != orderWeak, scope: ac.scope, bytes: bytesIn(off, ac.size),
		block: uint32(w.block.number), thread: uint32(w.threads[lane].number), in: in, work: w.launch.work,
	}
}

// bytesIn returns the mask of the bytes of a cell that an element covers. The mask is the same for
// all cells of the element.
func bytesIn(off uint64, size int) uint8 {
	if size >= cellBytes {
		return 1<<cellBytes - 1
	}
	return (1<<size - 1) << (off & (cellBytes - 1))
}

// morallyStrong reports whether two accesses are morally strong: neither is weak, and the scope of
// each includes the other. PTX also requires that the sizes are equal, which is not checked here.
func (m *mark) morallyStrong(o *mark) bool {
	return m.strong && o.strong && (m.block == o.block || m.scope > ScopeBlock && o.scope > ScopeBlock)
}

func newViews(d *Device) *views {
	v := &views{dev: d, rng: d.rng, races: d.opts.Races}
	v.reset()
	return v
}

// reset drops all history. It is called when every work is done and the host has waited for all
// works, so that all accesses count as seen.
func (s *views) reset() {
	for _, seg := range s.dirty {
		seg.history, seg.bulk = nil, nil
	}
	for _, chunk := range s.store {
		cellChunks.Put(chunk)
	}
	s.store, s.stored, s.dirty = s.store[:0], 0, s.dirty[:0]
	s.clock, s.cells, s.threads, s.blocks, s.sc = 0, 0, 0, 0, map[int]*view{}
}

// begin assigns numbers to the threads and blocks of a launch, and sets l.base.
func (s *views) begin(l *launch) {
	l.base = s.before(l.work)
	l.end = l.base
	l.firstThread, l.firstBlock = s.threads, s.blocks+1 // block numbers start at 1
	warps := (l.blockDim[0]*l.blockDim[1]*l.blockDim[2] + warpSize - 1) / warpSize
	s.threads += l.blocks() * warps * warpSize
	s.blocks += l.blocks()
}

// before returns the view that is ordered before work w, which begins now.
func (s *views) before(w *work) *view {
	v := &view{works: w.before}
	v.join(w.stream.observed)
	v.join(w.observed)
	return v.copy()
}

// joinBlock joins the views of a block's threads to l.end. It does nothing if no other work can be
// concurrent with the launch.
func (s *views) joinBlock(l *launch, b *block) {
	if s.isLast(l.work) {
		return
	}
	sum := l.end.copy()
	for _, w := range b.warps {
		for i := range w.threads {
			sum.join(&w.threads[i].now) // now is not read again
		}
	}
	l.end = sum.copy()
}

// isLast reports whether all works, except those after w in its stream, are ordered before w.
func (s *views) isLast(w *work) bool {
	for i, n := range s.dev.lastWork {
		if i != w.stream.index && w.before.at(i) < n {
			return false
		}
	}
	return true
}

// at returns the cell at an offset, or nil if it does not exist.
func (h history) at(off uint64) *cell {
	i := off / cellBytes
	if p := i / cellPage; p < uint64(len(h)) && h[p] != nil {
		return h[p][i%cellPage]
	}
	return nil
}

// makeCell returns the cell at an offset. It creates a missing cell from the current memory.
func (s *views) makeCell(seg *segment, off uint64) *cell {
	if c := seg.history.at(off); c != nil {
		return c
	}
	if seg.history == nil {
		seg.history = make(history, (seg.size/cellBytes+cellPage)/cellPage)
		if seg.base >= heapBase { // shared memory is cleared separately
			s.dirty = append(s.dirty, seg)
		}
	}
	i := off / cellBytes
	page := &seg.history[i/cellPage]
	if *page == nil {
		*page = make([]*cell, cellPage)
	}
	c := s.newCell()
	at := off &^ (cellBytes - 1)
	c.msgs[0] = message{value: uint32(seg.get(at, cellBytes)), written: seg.written[at>>3] >> (at & 7) & 0xf}
	(*page)[i%cellPage] = c
	return c
}

// cellChunk is an array of cells. When reset drops the history of a device, any device may reuse
// its chunks.
type cellChunk [64]cell

var cellChunks = sync.Pool{New: func() any { return new(cellChunk) }}

// newCell returns an unused cell.
func (s *views) newCell() *cell {
	i := s.stored % len(cellChunk{})
	if i == 0 {
		s.store = append(s.store, cellChunks.Get().(*cellChunk))
	}
	s.stored++
	c := &s.store[len(s.store)-1][i]
	*c = cell{n: 1}
	return c
}

// push adds a message on top of the cell. If the cell is full, it drops the oldest message.
func (c *cell) push(m message) {
	if c.n == historyLength {
		copy(c.msgs[:], c.msgs[1:])
		c.n--
	}
	c.msgs[c.n] = m
	c.n++
}

// written reports whether the cell has been written.
func (c *cell) written() bool { return c.n > 1 || c.msgs[0].work != nil }

// contended reports whether the launch, or a concurrent work, has written the cell.
func (c *cell) contended(l *launch) bool {
	for i := range c.msgs[:c.n] {
		if m := &c.msgs[i]; !l.base.includes(c, &m.mark) {
			return true
		}
	}
	return false
}

func (c *cell) top() *message { return &c.msgs[c.n-1] }

// minTime returns the time of the newest message of c that the thread must have seen.
func (t *thread) minTime(c *cell) uint32 {
	for i := c.n - 1; i > 0; i-- {
		if m := &c.msgs[i]; t.hasSeen(c, &m.mark) {
			return m.time
		}
	}
	return c.msgs[0].time
}

// hasSeen reports whether the thread must have seen access m to cell c.
func (t *thread) hasSeen(c *cell, m *mark) bool {
	return m.thread == uint32(t.number) && m.work != nil || t.now.includes(c, m)
}

// snapshot returns a copy of the thread's view that includes its own stores.
func (s *views) snapshot(t *thread) *view {
	t.now.threads.raise(t.number, s.clock)
	return t.now.copy()
}

// before returns the newest message of the cell that is not newer than the given time.
func (c *cell) before(time uint32) *message {
	for i := c.n - 1; i > 0; i-- {
		if c.msgs[i].time <= time {
			return &c.msgs[i]
		}
	}
	return &c.msgs[0]
}

// span returns the offset of the first cell of an element, and the number of its cells: 1, 2 or 4.
func span(off uint64, size int) (first uint64, n int) {
	return off &^ (cellBytes - 1), max(1, size/cellBytes)
}

// load reads one element.
func (s *views) load(w *warp, in *instr, lane int, seg *segment, off uint64) (v [2]uint64, ok bool) {
	return s.read(w, in, lane, seg, off, false)
}

// read reads one element as it was at one point in time. The time is at least as new as the view
// requires for each of the cells. If modify is set, it is also at least as new as every message
// that is morally strong with this access.
func (s *views) read(w *warp, in *instr, lane int, seg *segment, off uint64, modify bool) (v [2]uint64, ok bool) {
	ac := in.access
	me := s.mark(w, in, lane, off)
	first, n := span(off, ac.size)
	var buf [maxElement / cellBytes]*cell
	cells := s.find(buf[:n], seg, first)
	t := &w.threads[lane]
	time, written := s.pick(t, &me, cells, modify)
	if !written && !s.races {
		return w.loadLatest(in, lane, seg, off)
	}
	if written && ac.readOnly && slices.ContainsFunc(cells, func(c *cell) bool { return c != nil && c.contended(w.launch) }) {
		w.fail(in, lane, "reads byte %d of a %s through the read-only path, but this launch or a concurrent one writes it", off, seg.name)
		return v, false
	}
	for i, c := range cells {
		at := first + uint64(i*cellBytes)
		var value uint32
		var known uint8
		if c == nil {
			value, known = uint32(seg.get(at, cellBytes)), seg.written[at>>3]>>(at&7)&0xf
		} else {
			if s.races && !s.checkRead(w, lane, seg, at, c, &me) {
				return v, false
			}
			m := c.before(time)
			value, known = m.value, m.written
			s.observe(t, ac.order, &me, c, m)
		}
		if ac.size < cellBytes {
			value = value >> (8 * (off & (cellBytes - 1))) & uint32(ac.typ.mask())
		}
		if me.bytes&^known != 0 {
			reason := "which was never written"
			if now := seg.written[at>>3] >> (at & 7); me.bytes&^now == 0 {
				reason = "whose write need not be visible to this thread"
			}
			w.fail(in, lane, "reads byte %d of a %s, %s", off, seg.name, reason)
			return v, false
		}
		v[i/2] |= uint64(value) << (32 * (i % 2))
	}
	return v, true
}

// find returns the cells from offset first on. Missing cells are nil, or are created if races are
// checked.
func (s *views) find(cells []*cell, seg *segment, first uint64) []*cell {
	for i := range cells {
		// Cells are created, because a load can race with a later store.
		if at := first + uint64(i*cellBytes); s.races {
			cells[i] = s.makeCell(seg, at)
		} else {
			cells[i] = seg.history.at(at)
		}
	}
	return cells
}

// pick chooses the time at which an element is read. With probability 1/2 it is now, otherwise any
// allowed time at which the element changed. It reports false if no cell was written.
func (s *views) pick(t *thread, me *mark, cells []*cell, modify bool) (time uint32, written bool) {
	var oldest uint32
	for _, c := range cells {
		if c != nil && c.written() { // otherwise its only message is older than all others
			written = true
			oldest = max(oldest, t.minTime(c))
			for k := range c.msgs[:c.n] {
				if m := &c.msgs[k]; modify && (m.work == nil || m.morallyStrong(me)) {
					oldest = max(oldest, m.time)
				}
			}
		}
	}
	if !written {
		return 0, false
	}
	if s.newest || s.rng.Uint32()&1 == 0 {
		return s.clock, true
	}
	time, choices := oldest, uint32(1)
	for _, c := range cells {
		if c == nil {
			continue
		}
		for k := range c.msgs[:c.n] {
			if m := &c.msgs[k]; m.time > oldest {
				if choices++; s.rng.Uint32N(choices) == 0 {
					time = m.time
				}
			}
		}
	}
	return time, true
}

// observe records that a thread has read message m. If the load and the store are not morally
// strong, the thread learns nothing about later reads.
func (s *views) observe(t *thread, o order, me *mark, c *cell, m *message) {
	if !m.morallyStrong(me) {
		return
	}
	if !t.hasSeen(c, &m.mark) {
		if c.id == 0 {
			s.cells++
			c.id = s.cells
		}
		t.now.cells.raise(c.id, m.time)
	}
	for _, r := range m.attached {
		addRelease(&t.found, c, r)
	}
	if o == orderAcquire || o == orderAcqRel {
		t.acquire(c, int(me.block), me.scope)
	}
}

// acquire joins the releases found in a cell to the thread's view, if they reach its block.
func (t *thread) acquire(c *cell, block int, scope Scope) {
	if t.found[c] == nil {
		return
	}
	t.found[c] = slices.DeleteFunc(t.found[c], func(r release) bool {
		if r.reaches(block, scope) {
			t.now.join(r.seen)
			return true
		}
		return false
	})
	if len(t.found[c]) == 0 {
		delete(t.found, c)
	}
}

// addRelease adds a release to the list of cell c.
func addRelease(m *map[*cell][]release, c *cell, r release) {
	if *m == nil {
		*m = map[*cell][]release{}
	}
	(*m)[c] = with((*m)[c], r)
}

// write adds a message to each cell of an element. Memory itself does not change yet. A
// read-modify-write operation also attaches the releases of the message that it read.
func (s *views) write(w *warp, in *instr, lane int, seg *segment, off uint64, v [2]uint64, modify bool) (ok bool) {
	ac := in.access
	t := &w.threads[lane]
	s.clock++
	me := s.mark(w, in, lane, off)
	releases := ac.order == orderRelease || ac.order == orderAcqRel
	var rel release
	if releases {
		rel = release{w.block.number, ac.scope > ScopeBlock, s.snapshot(t)}
	}
	first, n := span(off, ac.size)
	for i := range n {
		at := first + uint64(i*cellBytes)
		c := s.makeCell(seg, at)
		if s.races && !s.checkWrite(w, lane, seg, at, c, &me) {
			return false
		}
		if releases {
			addRelease(&t.released, c, rel)
		}
		m := message{mark: me, value: uint32(v[i/2] >> (32 * (i % 2))), written: 0xf, attached: t.attaches(c, &me, modify)}
		if ac.size < cellBytes {
			top, shift := c.top(), off&(cellBytes-1)
			mask := uint32(ac.typ.mask()) << (8 * shift)
			m.value = top.value&^mask | m.value<<(8*shift)&mask
			m.written = top.written | me.bytes
		}
		c.push(m)
	}
	return true
}

// attaches returns the releases that a store of the thread to cell c attaches to its message.
func (t *thread) attaches(c *cell, me *mark, modify bool) []release {
	if !me.strong {
		return nil
	}
	list := t.fenced
	for _, r := range t.released[c] {
		list = with(list, r)
	}
	if top := c.top(); modify && top.morallyStrong(me) {
		for _, r := range top.attached {
			list = with(list, r)
		}
	}
	return list
}

// fence acquires the releases that earlier loads found, and attaches the thread's view to its later
// stores. A fence.sc is also ordered with every other fence.sc if their scopes include each other.
func (s *views) fence(w *warp, lane int, o order, scope Scope) {
	t := &w.threads[lane]
	block, wide := w.block.number, scope > ScopeBlock
	for c := range t.found { // in any order, since views only grow
		t.acquire(c, block, scope)
	}
	if o == orderSC {
		s.joinSC(t, block)
		if wide {
			s.joinSC(t, 0)
		}
		s.joinSC(t, block) // again, for views of other blocks
	}
	rel := release{block, wide, s.snapshot(t)}
	if wide {
		t.fenced = []release{rel}
		return
	}
	t.fenced = append(slices.DeleteFunc(slices.Clone(t.fenced), func(r release) bool { return !r.wide }), rel)
}

// joinSC joins the views of the earlier fence.sc of this kind to the thread's view, and adds the
// thread's view to them. kind is a block number, or 0 for fences of a scope wider than the block.
func (s *views) joinSC(t *thread, kind int) {
	if s.sc[kind] == nil {
		s.sc[kind] = &view{}
	}
	t.now.join(s.sc[kind].copy())
	s.sc[kind].join(s.snapshot(t))
}

// joinLanes joins the views of lanes that met in a bar.warp.sync.
func (s *views) joinLanes(w *warp, m uint32) {
	s.join(func(yield func(t *thread) bool) { w.visit(m, yield) })
}

// joinWarps joins the views of all live threads of warps that met in a barrier.
func (s *views) joinWarps(warps []*warp) {
	s.join(func(yield func(t *thread) bool) {
		for _, w := range warps {
			w.visit(w.live, yield)
		}
	})
}

// visit yields the threads of the lanes in m.
func (w *warp) visit(m uint32, yield func(t *thread) bool) {
	for ; m != 0; m &= m - 1 {
		yield(&w.threads[lowest(m)])
	}
}

// join sets the view of each thread to the union of their views. The threads then share one view
// until they change it. The union uses their old views without copies, since these are not read
// again.
func (s *views) join(threads func(yield func(t *thread) bool)) {
	var sum view
	for t := range threads {
		sum.join(&t.now)
	}
	for t := range threads {
		sum.threads.raise(t.number, s.clock)
	}
	now := *sum.copy()
	for t := range threads {
		t.now = now
	}
}
