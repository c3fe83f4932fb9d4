package sim

import (
	"math/rand/v2"
	"slices"
	"sync"
)

// Weak memory as a view machine. Memory is cut into cells of four bytes; a
// cell that is written keeps the messages stored in it, newest last, until all
// of them are known to all. Every thread has a view: the oldest message of each
// cell that it may still read. A load takes any message its view allows; stores
// and read-modify-write operations always go on top. Releasing stores and
// fences attach the thread's view to what it writes, acquiring loads and fences
// take it over.
//
// A launch begins with what is ordered before it, which is decided when it is
// submitted: see [work]. So do copies and fills, which are weak accesses to all
// their bytes.
//
// What this does not show: loads never return values stored later (no load
// buffering), and no more than historyLength messages of a cell are kept.
type views struct {
	dev     *Device
	rng     *rand.Rand
	races   bool   // are faults
	newest  bool   // loads read what was stored last
	clock   uint32 // of stores, and of what races look at
	cells   int    // cells with an id
	threads int    // of all works
	blocks  int    // of all launches; copies count as one
	touched []*segment
	store   []*cellChunk // of the cells in use
	stored  int          // cells in use
	// What threads had seen at their fence.sc, by block; 0 is for those of
	// wider scope, of all blocks.
	sc map[int]*view
}

// A thread is what one thread has seen. What it wrote itself is seen without
// being in now.
type thread struct {
	number int // of all threads of the device
	now    view
	fenced []release // attached to its strong stores since its last fences
	// What its releases of a cell attach to its later strong stores there, and
	// what relaxed loads of a cell found attached, for a later acquiring load
	// there and for fences.
	released, found map[*cell][]release
}

// A release is what a thread had seen at a release or a fence, for others to
// take over: those of its block, or with a wide scope all.
type release struct {
	block int // of the thread
	wide  bool
	seen  *view
}

// reaches reports whether a thread of a block acquires it at a scope.
func (r release) reaches(block int, scope Scope) bool {
	return r.block == block || r.wide && scope > ScopeBlock
}

// with is a list of releases with another one.
func with(list []release, r release) []release {
	list = slices.Clone(list)
	for i, o := range list {
		if o.block == r.block && o.wide == r.wide {
			list[i].seen = both(o.seen, r.seen)
			return list
		}
	}
	return append(list, r)
}

// A history holds the cells of a segment that were written, and where races
// count also those that were read, in pages of cellPage; nil where none was.
type history [][]*cell

const (
	cellBytes     = 4
	maxElement    = 16 // bytes
	cellPage      = 256
	historyLength = 4
)

// A cell is four bytes that the launch has written, or read where races count.
type cell struct {
	id    int // index in views, 0 while no view needs one
	n     int
	msgs  [historyLength]message // in order of time
	reads [historyLength]mark    // the last ones, where races count, in a ring
	loads int                    // that it has seen
}

// A message is one store to a cell.
type message struct {
	mark
	value    uint32
	known    uint8 // bytes that have been written at all
	attached []release
}

// A mark is what is remembered of an access.
type mark struct {
	time   uint32
	thread uint32 // number; no launch gets to start so many that they wrap around
	block  uint32 // number
	strong bool   // not weak
	scope  Scope
	bytes  uint8
	in     *instr // nil: a copy or a fill
	work   *work  // nil: what nobody need be told of
}

// mark is that of an access that a lane makes now.
func (s *views) mark(w *warp, in *instr, lane int, off uint64) mark {
	ac := in.access
	return mark{
		time: s.clock, strong: ac.order != orderWeak, scope: ac.scope, bytes: bytesIn(off, ac.size),
		block: uint32(w.block.number), thread: uint32(w.threads[lane].number), in: in, work: w.launch.work,
	}
}

// bytesIn has a bit for each byte of a cell that an element overlaps, the same
// in all its cells.
func bytesIn(off uint64, size int) uint8 {
	if size >= cellBytes {
		return 1<<cellBytes - 1
	}
	return (1<<size - 1) << (off & (cellBytes - 1))
}

// morally reports whether two accesses are morally strong: neither is weak,
// and the scope of each includes the other. PTX asks for the same size, too.
func (m *mark) morally(o *mark) bool {
	return m.strong && o.strong && (m.block == o.block || m.scope > ScopeBlock && o.scope > ScopeBlock)
}

func newViews(d *Device) *views {
	v := &views{dev: d, rng: d.rng, races: d.opts.Races}
	v.forget()
	return v
}

// forget lets everybody have seen everything, which is so when no work is
// under way and the host has waited for all.
func (s *views) forget() {
	for _, seg := range s.touched {
		seg.history, seg.bulk = nil, nil
	}
	for _, chunk := range s.store {
		cellChunks.Put(chunk)
	}
	s.store, s.stored, s.touched = s.store[:0], 0, s.touched[:0]
	s.clock, s.cells, s.threads, s.blocks, s.sc = 0, 0, 0, 0, map[int]*view{}
}

// begin numbers the threads and blocks of a launch, and says what is ordered
// before it.
func (s *views) begin(l *launch) {
	l.base = s.before(l.work)
	l.end = l.base
	l.firstThread, l.firstBlock = s.threads, s.blocks+1 // 0 is no block
	warps := (l.blockDim[0]*l.blockDim[1]*l.blockDim[2] + warpSize - 1) / warpSize
	s.threads += l.blocks() * warps * warpSize
	s.blocks += l.blocks()
}

// before is what is ordered before a work that begins now.
func (s *views) before(w *work) *view {
	v := &view{works: w.before}
	v.join(w.stream.learned)
	v.join(w.learned)
	return v.copy()
}

// retire adds what the threads of a block have learned to what is ordered
// behind their launch: it matters while there are other works.
func (s *views) retire(l *launch, b *block) {
	if s.alone(l.work) {
		return
	}
	sum := l.end.copy()
	for _, w := range b.warps {
		for i := range w.threads {
			sum.join(&w.threads[i].now) // nobody looks at it again
		}
	}
	l.end = sum.copy()
}

// alone reports whether all works but those behind it are ordered before w.
func (s *views) alone(w *work) bool {
	for i, n := range s.dev.last {
		if i != w.stream.index && w.before.at(i) < n {
			return false
		}
	}
	return true
}

// at is the cell of an offset, nil if there is none yet.
func (h history) at(off uint64) *cell {
	i := off / cellBytes
	if p := i / cellPage; p < uint64(len(h)) && h[p] != nil {
		return h[p][i%cellPage]
	}
	return nil
}

// make is the cell of an offset, made with what memory holds now.
func (s *views) make(seg *segment, off uint64) *cell {
	if c := seg.history.at(off); c != nil {
		return c
	}
	if seg.history == nil {
		seg.history = make(history, (seg.size/cellBytes+cellPage)/cellPage)
		if seg.base >= heapBase { // shared memory is wiped by itself
			s.touched = append(s.touched, seg)
		}
	}
	i := off / cellBytes
	page := &seg.history[i/cellPage]
	if *page == nil {
		*page = make([]*cell, cellPage)
	}
	c := s.cell()
	at := off &^ (cellBytes - 1)
	c.msgs[0] = message{value: uint32(seg.get(at, cellBytes)), known: seg.known[at>>3] >> (at & 7) & 0xf}
	(*page)[i%cellPage] = c
	return c
}

// A cellChunk is cells that lie together. Those of an era that has ended serve
// the next ones, of any device.
type cellChunk [64]cell

var cellChunks = sync.Pool{New: func() any { return new(cellChunk) }}

// cell is one that nobody uses yet.
func (s *views) cell() *cell {
	i := s.stored % len(cellChunk{})
	if i == 0 {
		s.store = append(s.store, cellChunks.Get().(*cellChunk))
	}
	s.stored++
	c := &s.store[len(s.store)-1][i]
	*c = cell{n: 1}
	return c
}

// push puts a message on top of a cell.
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

// changing reports whether the cell is written by a launch or beside it.
func (c *cell) changing(l *launch) bool {
	for i := range c.msgs[:c.n] {
		if m := &c.msgs[i]; !l.base.sees(c, &m.mark) {
			return true
		}
	}
	return false
}

func (c *cell) top() *message { return &c.msgs[c.n-1] }

// seen is the time of the newest message of the cell that the thread must
// have seen.
func (t *thread) seen(c *cell) uint32 {
	for i := c.n - 1; i > 0; i-- {
		if m := &c.msgs[i]; t.knows(c, &m.mark) {
			return m.time
		}
	}
	return c.msgs[0].time
}

// knows reports whether the thread must have seen an access to a cell.
func (t *thread) knows(c *cell, m *mark) bool {
	return m.thread == uint32(t.number) && m.work != nil || t.now.sees(c, m)
}

// snapshot is what the thread has seen, its own stores included.
func (s *views) snapshot(t *thread) *view {
	t.now.threads.raise(t.number, s.clock)
	return t.now.copy()
}

// before is the newest message that is no newer than time.
func (c *cell) before(time uint32) *message {
	for i := c.n - 1; i > 0; i-- {
		if c.msgs[i].time <= time {
			return &c.msgs[i]
		}
	}
	return &c.msgs[0]
}

// span visits the cells that an element overlaps; there are 1, 2 or 4.
func span(off uint64, size int) (first uint64, n int) {
	return off &^ (cellBytes - 1), max(1, size/cellBytes)
}

// load reads one element.
func (s *views) load(w *warp, in *instr, lane int, seg *segment, off uint64) (v [2]uint64, ok bool) {
	return s.read(w, in, lane, seg, off, false)
}

// read reads one element. It is read whole: as it was at one time that is no
// older than the view allows for any of its cells, nor, if it is to be
// modified, older than a message that is morally strong with this access.
func (s *views) read(w *warp, in *instr, lane int, seg *segment, off uint64, modify bool) (v [2]uint64, ok bool) {
	ac := in.access
	me := s.mark(w, in, lane, off)
	first, n := span(off, ac.size)
	var room [maxElement / cellBytes]*cell
	cells := s.find(room[:n], seg, first)
	t := &w.threads[lane]
	time, written := s.pick(t, &me, cells, modify)
	if !written && !s.races {
		return w.loadNow(in, lane, seg, off)
	}
	if written && ac.readOnly && slices.ContainsFunc(cells, func(c *cell) bool { return c != nil && c.changing(w.launch) }) {
		w.fail(in, lane, "reads byte %d of a %s through the read-only path, but this launch writes it, or one beside it", off, seg.what)
		return v, false
	}
	for i, c := range cells {
		at := first + uint64(i*cellBytes)
		var value uint32
		var known uint8
		if c == nil {
			value, known = uint32(seg.get(at, cellBytes)), seg.known[at>>3]>>(at&7)&0xf
		} else {
			if s.races && !s.checkRead(w, lane, seg, at, c, &me) {
				return v, false
			}
			m := c.before(time)
			value, known = m.value, m.known
			s.observe(t, ac.order, &me, c, m)
		}
		if ac.size < cellBytes {
			value = value >> (8 * (off & (cellBytes - 1))) & uint32(ac.typ.mask())
		}
		if me.bytes&^known != 0 {
			why := "which was never written"
			if now := seg.known[at>>3] >> (at & 7); me.bytes&^now == 0 {
				why = "whose writing this thread need not have seen"
			}
			w.fail(in, lane, "reads byte %d of a %s, %s", off, seg.what, why)
			return v, false
		}
		v[i/2] |= uint64(value) << (32 * (i % 2))
	}
	return v, true
}

// find looks cells up, nil where there is none.
func (s *views) find(cells []*cell, seg *segment, first uint64) []*cell {
	for i := range cells {
		if at := first + uint64(i*cellBytes); s.races { // what is read first and written later may race, too
			cells[i] = s.make(seg, at)
		} else {
			cells[i] = seg.history.at(at)
		}
	}
	return cells
}

// pick chooses the time at which an element is read: half of the time now,
// else any of those allowed at which it changed. It reports false if no cell
// of the element was written.
func (s *views) pick(t *thread, me *mark, cells []*cell, modify bool) (time uint32, written bool) {
	var oldest uint32
	for _, c := range cells {
		if c != nil && c.written() { // else its message is older than all
			written = true
			oldest = max(oldest, t.seen(c))
			for k := range c.msgs[:c.n] {
				if m := &c.msgs[k]; modify && (m.work == nil || m.morally(me)) {
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

// observe records that a thread has read a message. Unless the two accesses
// are morally strong this promises nothing about what is read next.
func (s *views) observe(t *thread, o order, me *mark, c *cell, m *message) {
	if !m.morally(me) {
		return
	}
	if !t.knows(c, &m.mark) {
		if c.id == 0 {
			s.cells++
			c.id = s.cells
		}
		t.now.cells.raise(c.id, m.time)
	}
	for _, r := range m.attached {
		enter(&t.found, c, r)
	}
	if o == orderAcquire || o == orderAcqRel {
		t.acquire(c, int(me.block), me.scope)
	}
}

// acquire takes over what was found attached in a cell, as far as it reaches.
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

// enter adds a release to those of a cell.
func enter(m *map[*cell][]release, c *cell, r release) {
	if *m == nil {
		*m = map[*cell][]release{}
	}
	(*m)[c] = with((*m)[c], r)
}

// write puts one element on top of its cells; memory itself is still as
// before. A read-modify-write operation passes on what was attached to the
// message it read.
func (s *views) write(w *warp, in *instr, lane int, seg *segment, off uint64, v [2]uint64, modify bool) (ok bool) {
	ac := in.access
	t := &w.threads[lane]
	s.clock++
	me := s.mark(w, in, lane, off)
	releases := ac.order == orderRelease || ac.order == orderAcqRel
	var own release
	if releases {
		own = release{w.block.number, ac.scope > ScopeBlock, s.snapshot(t)}
	}
	first, n := span(off, ac.size)
	for i := range n {
		at := first + uint64(i*cellBytes)
		c := s.make(seg, at)
		if s.races && !s.checkWrite(w, lane, seg, at, c, &me) {
			return false
		}
		if releases {
			enter(&t.released, c, own)
		}
		m := message{mark: me, value: uint32(v[i/2] >> (32 * (i % 2))), known: 0xf, attached: t.attaches(c, &me, modify)}
		if ac.size < cellBytes {
			top, shift := c.top(), off&(cellBytes-1)
			mask := uint32(ac.typ.mask()) << (8 * shift)
			m.value = top.value&^mask | m.value<<(8*shift)&mask
			m.known = top.known | me.bytes
		}
		c.push(m)
	}
	return true
}

// attaches lists what a store of the thread to a cell attaches.
func (t *thread) attaches(c *cell, me *mark, modify bool) []release {
	if !me.strong {
		return nil
	}
	list := t.fenced
	for _, r := range t.released[c] {
		list = with(list, r)
	}
	if top := c.top(); modify && top.morally(me) {
		for _, r := range top.attached {
			list = with(list, r)
		}
	}
	return list
}

// fence takes over what earlier loads found attached, and attaches what the
// thread has seen to its later stores. A fence.sc is also ordered with those
// others whose scopes and its own include each other.
func (s *views) fence(w *warp, lane int, o order, scope Scope) {
	t := &w.threads[lane]
	block, wide := w.block.number, scope > ScopeBlock
	for c := range t.found { // in any order: views only grow
		t.acquire(c, block, scope)
	}
	if o == orderSC {
		s.meetSC(t, block)
		if wide {
			s.meetSC(t, 0)
		}
		s.meetSC(t, block) // what came from other blocks
	}
	own := release{block, wide, s.snapshot(t)}
	if wide {
		t.fenced = []release{own}
		return
	}
	t.fenced = append(slices.DeleteFunc(slices.Clone(t.fenced), func(r release) bool { return !r.wide }), own)
}

// meetSC exchanges what was seen with the fences of one kind so far.
func (s *views) meetSC(t *thread, kind int) {
	if s.sc[kind] == nil {
		s.sc[kind] = &view{}
	}
	t.now.join(s.sc[kind].copy())
	s.sc[kind].join(s.snapshot(t))
}

// joinLanes lets lanes that met in a bar.warp.sync see what any has seen.
func (s *views) joinLanes(w *warp, m uint32) {
	s.join(func(yield func(t *thread) bool) { w.visit(m, yield) })
}

// joinWarps does the same for the warps that met in a barrier.
func (s *views) joinWarps(warps []*warp) {
	s.join(func(yield func(t *thread) bool) {
		for _, w := range warps {
			w.visit(w.live, yield)
		}
	})
}

// visit passes on the threads of some lanes.
func (w *warp) visit(m uint32, yield func(t *thread) bool) {
	for ; m != 0; m &= m - 1 {
		yield(&w.threads[lowest(m)])
	}
}

// join lets threads see what any of them has seen. That is one view from then
// on, until they change it: the sum is made of theirs as they are, since nobody
// looks at those again.
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
