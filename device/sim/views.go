package sim

import "math/rand/v2"

// Weak memory as a view machine. Memory is cut into cells of four bytes; a
// cell that the launch writes keeps the messages stored in it, newest last.
// Every thread has a view: the oldest message of each cell that it may still
// read. A load takes any message its view allows; stores and read-modify-
// write operations always go on top. Releasing stores and fences attach the
// thread's view to what it writes, acquiring loads and fences take it over.
//
// What this does not show: loads never return values stored later (no load
// buffering), and no more than historyLength messages of a cell are kept.
type views struct {
	rng     *rand.Rand
	clock   uint32 // of stores
	cells   int    // cells with an id
	written []*segment
	sc      view // what threads had seen at their fence.sc
}

// A thread is what one thread has seen. What it wrote itself is seen without
// being in now.
type thread struct {
	number int // in the launch
	now    view
	// What relaxed loads found attached, for a later acquiring fence: from
	// threads of the same block, and from all.
	block, all view
	// What its stores attach since its last releasing fence, for readers of
	// the same block, and for all.
	released [2]*view
}

// Readers of a message see one of two views attached to it.
const (
	forBlock = 0 // the reader is in the writer's block
	forAll   = 1
)

// A history holds the cells of a segment that were written, in pages of
// cellPage; nil where none was.
type history [][]*cell

const (
	cellBytes     = 4
	cellPage      = 256
	historyLength = 4
)

// A cell is four bytes that the launch has written.
type cell struct {
	id   int // index in views, 0 while no view needs one
	n    int
	msgs [historyLength]message // in order of time
}

// A message is one store to a cell.
type message struct {
	time     uint32
	value    uint32
	known    uint8 // bytes that have been written at all
	strong   bool  // not a weak store
	scope    Scope
	block    int      // 1 + index in the grid of the writer's block; 0: before the launch
	thread   int      // number of the writer
	attached [2]*view // released views
}

func newViews(l *launch) *views { return &views{rng: l.rng} }

// settle makes the end of a launch: everybody sees everything.
func (s *views) settle() {
	for _, seg := range s.written {
		seg.history = nil
	}
}

// at is the cell of an offset, nil if it was not written in this launch.
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
		s.written = append(s.written, seg)
	}
	i := off / cellBytes
	page := &seg.history[i/cellPage]
	if *page == nil {
		*page = make([]*cell, cellPage)
	}
	c := &cell{n: 1}
	at := off &^ (cellBytes - 1)
	c.msgs[0] = message{thread: -1, value: uint32(seg.get(at, cellBytes)), known: seg.known[at>>3] >> (at & 7) & 0xf}
	(*page)[i%cellPage] = c
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

func (c *cell) top() *message { return &c.msgs[c.n-1] }

// seen is the time of the newest message of the cell that the thread must
// have seen.
func (t *thread) seen(c *cell) uint32 {
	read := t.now.cells.at(c.id)
	for i := c.n - 1; i > 0; i-- {
		m := &c.msgs[i]
		if m.time <= read || m.thread == t.number || m.thread >= 0 && m.time <= t.now.threads.at(m.thread) {
			return m.time
		}
	}
	return c.msgs[0].time
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

// load reads one element. An element is read whole: as it was at one time
// that is no older than the view allows for any of its cells.
func (s *views) load(w *warp, in *instr, lane int, seg *segment, off uint64) (v [2]uint64, ok bool) {
	ac := in.access
	t := &w.threads[lane]
	first, n := span(off, ac.size)
	time, fresh := s.pick(t, seg, first, n)
	if !fresh {
		return w.loadNow(in, lane, seg, off)
	}
	if ac.readOnly {
		w.fail(in, lane, "reads byte %d of a %s through the read-only path, but this launch writes it", off, seg.what)
		return v, false
	}
	for i := range n {
		at := first + uint64(i*cellBytes)
		value, known := uint32(seg.get(at, cellBytes)), seg.known[at>>3]>>(at&7)&0xf
		if c := seg.history.at(at); c != nil {
			m := c.before(time)
			value, known = m.value, m.known
			s.observe(w, t, ac.order, ac.scope, c, m)
		}
		need := uint8(0xf)
		if ac.size < cellBytes {
			shift := off & (cellBytes - 1)
			need = (1<<ac.size - 1) << shift
			value = value >> (8 * shift) & uint32(ac.typ.mask())
		}
		if known&need != need {
			why := "which was never written"
			if now := seg.known[at>>3] >> (at & 7); now&need == need {
				why = "whose writing this thread need not have seen"
			}
			w.fail(in, lane, "reads byte %d of a %s, %s", off, seg.what, why)
			return v, false
		}
		v[i/2] |= uint64(value) << (32 * (i % 2))
	}
	return v, true
}

// pick chooses the time at which an element is read: half of the time now,
// else any of those allowed at which it changed. It reports false if no cell
// of the element was written in this launch.
func (s *views) pick(t *thread, seg *segment, first uint64, n int) (time uint32, written bool) {
	var oldest uint32
	for i := range n {
		if c := seg.history.at(first + uint64(i*cellBytes)); c != nil {
			written = true
			oldest = max(oldest, t.seen(c))
		}
	}
	if !written {
		return 0, false
	}
	if s.rng.Uint32()&1 == 0 {
		return s.clock, true
	}
	time, choices := oldest, uint32(1)
	for i := range n {
		c := seg.history.at(first + uint64(i*cellBytes))
		if c == nil {
			continue
		}
		for _, m := range c.msgs[:c.n] {
			if m.time > oldest {
				if choices++; s.rng.Uint32N(choices) == 0 {
					time = m.time
				}
			}
		}
	}
	return time, true
}

// observe records that a thread has read a message. Weak loads promise
// nothing about what is read next.
func (s *views) observe(w *warp, t *thread, o order, scope Scope, c *cell, m *message) {
	if o == orderWeak {
		return
	}
	if m.thread != t.number && m.time > t.seen(c) {
		if c.id == 0 {
			s.cells++
			c.id = s.cells
		}
		t.now.cells.raise(c.id, m.time)
	}
	near := m.block == w.block.number
	if !m.strong || !near && (scope <= ScopeBlock || m.scope <= ScopeBlock) {
		return // not morally strong: nothing is passed on
	}
	if near {
		t.block.join(m.attached[forBlock])
	}
	attached := m.attached[forAll]
	if near {
		attached = m.attached[forBlock]
	}
	t.all.join(attached)
	if o == orderAcquire || o == orderAcqRel {
		t.now.join(attached)
	}
}

// store puts one element on top of its cells; memory itself is still as
// before.
func (s *views) store(w *warp, in *instr, lane int, seg *segment, off uint64, v [2]uint64) {
	s.write(w, in, lane, seg, off, v, false)
}

// update is load and store of a read-modify-write operation, which takes the
// newest value; writes is false for a compare-and-swap that failed.
func (s *views) update(w *warp, in *instr, lane int, seg *segment, off uint64, v [2]uint64, writes bool) {
	ac := in.access
	t := &w.threads[lane]
	first, n := span(off, ac.size)
	for i := range n {
		if c := seg.history.at(first + uint64(i*cellBytes)); c != nil {
			s.observe(w, t, ac.order, ac.scope, c, c.top())
		}
	}
	if writes {
		s.write(w, in, lane, seg, off, v, true)
	}
}

// write makes the messages of a store. A read-modify-write operation passes
// on what was attached to the message it read.
func (s *views) write(w *warp, in *instr, lane int, seg *segment, off uint64, v [2]uint64, modify bool) {
	ac := in.access
	t := &w.threads[lane]
	s.clock++
	first, n := span(off, ac.size)
	attached := t.released
	m := message{time: s.clock, strong: ac.order != orderWeak, scope: ac.scope, block: w.block.number, thread: t.number}
	cells := [4]*cell{}
	for i := range n {
		cells[i] = s.make(seg, first+uint64(i*cellBytes))
	}
	switch {
	case !m.strong:
		attached = [2]*view{}
	case ac.order == orderRelease || ac.order == orderAcqRel:
		attached[forBlock] = s.snapshot(t)
		if ac.scope > ScopeBlock {
			attached[forAll] = attached[forBlock]
		}
	}
	for i, c := range cells[:n] {
		top := c.top()
		m.attached = attached
		if m.strong && top.strong && (modify || top.thread == m.thread) {
			for k := range m.attached {
				m.attached[k] = both(m.attached[k], top.attached[k])
			}
		}
		m.value, m.known = uint32(v[i/2]>>(32*(i%2))), 0xf
		if ac.size < cellBytes {
			shift := off & (cellBytes - 1)
			mask := uint32(ac.typ.mask()) << (8 * shift)
			m.value = top.value&^mask | m.value<<(8*shift)&mask
			m.known = top.known | (1<<ac.size-1)<<shift
		}
		c.push(m)
	}
}

// both is a view that has seen what either has.
func both(a, b *view) *view {
	switch {
	case a == nil || a == b:
		return b
	case b == nil:
		return a
	}
	sum := a.copy()
	sum.join(b)
	return sum.copy()
}

// fence takes over what earlier loads found attached, and attaches what the
// thread has seen to its later stores. A fence.sc is also ordered with all
// others of its kind.
func (s *views) fence(w *warp, lane int, o order, scope Scope) {
	t := &w.threads[lane]
	if scope > ScopeBlock {
		t.now.join(t.all.copy())
	} else {
		t.now.join(t.block.copy())
	}
	if o == orderSC {
		t.now.join(s.sc.copy())
		s.sc.join(s.snapshot(t))
	}
	t.released[forBlock] = s.snapshot(t)
	if scope > ScopeBlock {
		t.released[forAll] = t.released[forBlock]
	}
}

// joinLanes lets lanes that met in a bar.warp.sync see what any has seen.
func (s *views) joinLanes(w *warp, m uint32) {
	var sum view
	for rest := m; rest != 0; rest &= rest - 1 {
		sum.join(s.snapshot(&w.threads[lowest(rest)]))
	}
	for rest := m; rest != 0; rest &= rest - 1 {
		w.threads[lowest(rest)].now = *sum.copy()
	}
}

// joinWarps does the same for the warps that met in a barrier.
func (s *views) joinWarps(warps []*warp) {
	var sum view
	for _, w := range warps {
		for lane := range w.threads {
			sum.join(s.snapshot(&w.threads[lane]))
		}
	}
	for _, w := range warps {
		for lane := range w.threads {
			w.threads[lane].now = *sum.copy()
		}
	}
}
