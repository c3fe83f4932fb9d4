package sim

import (
	"fmt"
	"math/bits"
	"slices"
)

// This file finds data races. A data race is two accesses to the same bytes that are neither
// morally strong nor ordered. At least one is a store. The two accesses come from different
// threads, or from a thread and a copy. With [Options.Races], data races are faults. Only the last
// few stores to a cell and the last few loads of it are recorded. A race that one schedule hides is
// found in another.

// bulk is the completed part of a transfer, recorded as one access to many bytes.
type bulk struct {
	mark
	write  bool
	lo, hi uint64 // offsets in the segment
}

// checkRead records a load of a cell. It reports false, and fails the launch, if a store races with
// the load.
func (s *views) checkRead(w *warp, lane int, seg *segment, at uint64, c *cell, me *mark) bool {
	if c.written() {
		t := &w.threads[lane]
		for i := range c.msgs[:c.n] {
			if !s.checkOrdered(w, lane, seg, at, t, c, me, &c.msgs[i].mark) {
				return false
			}
		}
	}
	if len(seg.bulk) > 0 && !s.checkBulk(w, lane, seg, at, c, me, false) {
		return false
	}
	s.clock++
	me.time = s.clock
	c.remember(me)
	return true
}

// remember records a load.
func (c *cell) remember(m *mark) {
	c.reads[c.loads%historyLength] = *m
	c.loads++
}

// remembered yields the recorded loads of the cell, the oldest one first.
func (c *cell) remembered(yield func(m *mark) bool) {
	for i := max(0, c.loads-historyLength); i < c.loads; i++ {
		if !yield(&c.reads[i%historyLength]) {
			return
		}
	}
}

// checkWrite reports false, and fails the launch, if an earlier access races with a store.
func (s *views) checkWrite(w *warp, lane int, seg *segment, at uint64, c *cell, me *mark) bool {
	t := &w.threads[lane]
	for i := range c.msgs[:c.n] {
		if !s.checkOrdered(w, lane, seg, at, t, c, me, &c.msgs[i].mark) {
			return false
		}
	}
	for m := range c.remembered {
		if !s.checkOrdered(w, lane, seg, at, t, c, me, m) {
			return false
		}
	}
	return s.checkBulk(w, lane, seg, at, c, me, true)
}

// checkBulk reports false, and fails the launch, if a transfer races with an access to a cell.
func (s *views) checkBulk(w *warp, lane int, seg *segment, at uint64, c *cell, me *mark, write bool) bool {
	for i := range seg.bulk {
		b := &seg.bulk[i]
		if !write && !b.write || b.hi <= at || b.lo >= at+cellBytes {
			continue
		}
		m := b.mark
		m.bytes = bytesOf(b.lo, b.hi, at)
		if !s.checkOrdered(w, lane, seg, at, &w.threads[lane], c, me, &m) {
			return false
		}
	}
	return true
}

// bytesOf returns the mask of those bytes of a cell that lie in [lo,hi). at is the cell's offset.
func bytesOf(lo, hi, at uint64) (m uint8) {
	for i := range uint64(cellBytes) {
		if at+i >= lo && at+i < hi {
			m |= 1 << i
		}
	}
	return m
}

// checkOrdered reports false, and fails the launch, if an earlier access races with access me.
func (s *views) checkOrdered(w *warp, lane int, seg *segment, at uint64, t *thread, c *cell, me *mark, earlier *mark) bool {
	common := me.bytes & earlier.bytes
	if common == 0 || me.morallyStrong(earlier) || t.hasSeen(c, earlier) {
		return true
	}
	at += uint64(bits.TrailingZeros8(common))
	w.fail(me.in, lane, "data race: byte %d of a %s is accessed by %s, and nothing orders the two",
		at, seg.name, earlier.describe(w.launch))
	return false
}

// describe returns a description of an access for messages. reader is the failed launch or nil.
func (m *mark) describe(reader *launch) string {
	if m.in == nil {
		return m.work.String()
	}
	l := m.work.launch
	warps := (l.blockDim[0]*l.blockDim[1]*l.blockDim[2] + warpSize - 1) / warpSize
	number := int(m.thread) - l.firstThread
	i, n := number/(warps*warpSize), number%(warps*warpSize)
	s := fmt.Sprintf("line %d (%s), block %d,%d,%d, warp %d, lane %d", m.in.st.line, m.in.st.text,
		i%l.grid[0], i/l.grid[0]%l.grid[1], i/(l.grid[0]*l.grid[1]), n/warpSize, n%warpSize)
	if l != reader {
		s += fmt.Sprintf(", of %v", m.work)
	}
	return s
}

// transfer records the bytes [lo,hi) of a transfer as an access. It reports false, and marks the
// device as lost, if an earlier access races with the transfer.
func (s *views) transfer(w *work, lo, hi int) bool {
	t := w.transfer
	if t.done == 0 {
		s.threads++
		s.blocks++
		t.thread, t.block, t.before = s.threads-1, s.blocks, s.before(w)
	}
	if !s.races {
		return true
	}
	for _, side := range []struct {
		seg   *segment
		addr  uint64
		write bool
	}{{t.source, t.from, false}, {t.target, t.to, true}} {
		if side.seg == nil {
			continue
		}
		off := side.addr - side.seg.base
		if !s.checkTransfer(w, side.seg, off+uint64(lo), off+uint64(hi), side.write) {
			return false
		}
	}
	return true
}

// checkTransfer records the bytes [lo,hi) of one segment as an access by a transfer. It reports
// false, and marks the device as lost, if an earlier access races with the transfer.
func (s *views) checkTransfer(w *work, seg *segment, lo, hi uint64, write bool) bool {
	t := w.transfer
	races := func(c *cell, at uint64, m *mark) bool {
		common := bytesOf(lo, hi, at) & m.bytes
		if common == 0 || t.before.includes(c, m) {
			return false
		}
		s.dev.markLost(&Fault{Work: w.String(), Reason: fmt.Sprintf("data race: byte %d of a %s is accessed by %s, and nothing orders the two",
			at+uint64(bits.TrailingZeros8(common)), seg.name, m.describe(nil))})
		return true
	}
	for at, c := range seg.history.cells(lo, hi) {
		for i := range c.msgs[:c.n] {
			if races(c, at, &c.msgs[i].mark) {
				return false
			}
		}
		for m := range c.remembered {
			if write && races(c, at, m) {
				return false
			}
		}
	}
	for i := range seg.bulk {
		b := &seg.bulk[i]
		if b.work == w || !write && !b.write || b.hi <= lo || b.lo >= hi || t.before.includes(&cell{}, &b.mark) {
			continue
		}
		s.dev.markLost(&Fault{Work: w.String(), Reason: fmt.Sprintf("data race: byte %d of a %s is accessed by %s, and nothing orders the two",
			max(b.lo, lo), seg.name, b.describe(nil))})
		return false
	}
	s.clock++
	s.addBulk(seg, bulk{mark{time: s.clock, block: uint32(t.block), thread: uint32(t.thread), work: w}, write, lo, hi})
	return true
}

// maxBulk is the length of segment.bulk at which addBulk removes the entries of transfers that all
// works know (see knownToAll).
const maxBulk = 16

// addBulk adds the next piece of a transfer to the segment's list.
func (s *views) addBulk(seg *segment, b bulk) {
	if len(seg.bulk) == 0 {
		s.dirty = append(s.dirty, seg)
	}
	for i := range seg.bulk {
		if o := &seg.bulk[i]; o.work == b.work && o.write == b.write && o.hi == b.lo {
			o.hi = b.hi
			return
		}
	}
	if len(seg.bulk) >= maxBulk {
		seg.bulk = slices.DeleteFunc(seg.bulk, func(o bulk) bool { return s.dev.knownToAll(o.work) })
	}
	seg.bulk = append(seg.bulk, b)
}

// knownToAll reports whether w is ordered before all pending works and all later ones.
func (d *Device) knownToAll(w *work) bool {
	if !d.waited.include(w) {
		return false
	}
	for o := range d.pending {
		if !o.before.include(w) {
			return false
		}
	}
	return true
}

// cells yields the existing cells that overlap the bytes [lo,hi).
func (h history) cells(lo, hi uint64) func(yield func(at uint64, c *cell) bool) {
	return func(yield func(at uint64, c *cell) bool) {
		for i := lo / cellBytes; i*cellBytes < hi; i++ {
			if p := i / cellPage; p >= uint64(len(h)) || h[p] == nil {
				i = (p+1)*cellPage - 1
				continue
			}
			if c := h[i/cellPage][i%cellPage]; c != nil && !yield(i*cellBytes, c) {
				return
			}
		}
	}
}

// pushTransfer adds the bytes that a transfer has just written to the existing cells, as messages.
func (s *views) pushTransfer(w *work, seg *segment, lo, hi uint64) {
	t := w.transfer
	s.clock++
	for at, c := range seg.history.cells(lo, hi) {
		c.push(message{
			mark:  mark{time: s.clock, block: uint32(t.block), thread: uint32(t.thread), bytes: bytesOf(lo, hi, at), work: w},
			value: uint32(seg.get(at, cellBytes)), written: seg.written[at>>3] >> (at & 7) & 0xf,
		})
	}
}
