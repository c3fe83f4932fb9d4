package sim

import (
	"fmt"
	"math/bits"
)

// Data races: two accesses of different threads to the same bytes, one of them
// a store at least, that are not morally strong and that nothing orders.
// [Options.Races] makes them faults. They are found among the accesses
// remembered, that is the last few stores to a cell and the last few loads of
// it; what one schedule hides another one shows.

// checkRead looks for stores that race with a load of a cell, and remembers
// the load.
func (s *views) checkRead(w *warp, lane int, seg *segment, at uint64, c *cell, me mark) bool {
	t := &w.threads[lane]
	for i := range c.msgs[:c.n] {
		if !s.ordered(w, lane, seg, at, t, c, me, &c.msgs[i].mark) {
			return false
		}
	}
	s.clock++
	me.time = s.clock
	if len(c.reads) == historyLength {
		copy(c.reads, c.reads[1:])
		c.reads = c.reads[:historyLength-1]
	}
	c.reads = append(c.reads, me)
	return true
}

// checkWrite looks for loads and stores that race with a store to a cell.
func (s *views) checkWrite(w *warp, lane int, seg *segment, at uint64, c *cell, me mark) bool {
	t := &w.threads[lane]
	for i := range c.msgs[:c.n] {
		if !s.ordered(w, lane, seg, at, t, c, me, &c.msgs[i].mark) {
			return false
		}
	}
	for i := range c.reads {
		if !s.ordered(w, lane, seg, at, t, c, me, &c.reads[i]) {
			return false
		}
	}
	return true
}

// ordered fails the launch if an earlier access races with the one that a
// thread makes now.
func (s *views) ordered(w *warp, lane int, seg *segment, at uint64, t *thread, c *cell, me mark, earlier *mark) bool {
	both := me.bytes & earlier.bytes
	if both == 0 || me.morally(earlier) || t.knows(c, earlier) {
		return true
	}
	at += uint64(bits.TrailingZeros8(both))
	w.fail(me.in, lane, "data race: byte %d of a %s is accessed by line %d (%s), %s, and nothing orders the two",
		at, seg.what, earlier.in.st.line, earlier.in.st.text, w.launch.place(earlier.thread))
	return false
}

// place names the thread of a number.
func (l *launch) place(number int) string {
	b := l.resident[0]
	perBlock := len(b.warps) * warpSize
	i := number / perBlock
	return fmt.Sprintf("block %d,%d,%d, warp %d, lane %d", i%l.grid[0], i/l.grid[0]%l.grid[1], i/(l.grid[0]*l.grid[1]),
		number%perBlock/warpSize, number%warpSize)
}
