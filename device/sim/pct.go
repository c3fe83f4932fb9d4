package sim

import (
	"math/rand/v2"
	"slices"
)

// pct is the scheduler for probabilistic concurrency testing. Every thread has a random priority,
// and the runnable thread with the highest priority runs. At depth-1 random accesses of a launch,
// the priority of the running thread falls below all others. Copies and launches that have not
// begun have priorities, too.
type pct struct {
	floor int64 // lowest priority assigned so far
}

// defaultAccesses is the assumed number of accesses of a kernel's first launch.
const defaultAccesses = 1 << 10

// maxAccesses bounds the accesses that a thread makes before its priority falls, because the thread
// may wait for a thread of lower priority.
const maxAccesses = 1 << 9

func (p *pct) wake(w *warp) { w.ranked, w.block.ranked = false, false }

func (p *pct) step(d *Device, ready []*work) {
	var best *work
	var highest int64
	var w *warp // warp of best to run, or nil if best has not begun
	var lane int
	for _, o := range ready {
		if o.launch != nil && o.launch.begun {
			p.startBlocks(o.launch)
			if v, i := p.highest(o.launch); v != nil && (best == nil || v.priority[i] > highest) {
				best, w, lane, highest = o, v, i, v.priority[i]
			}
			continue
		}
		if o.priority == 0 {
			o.priority = positive(d.rng)
		}
		if best == nil || o.priority > highest {
			best, w, highest = o, nil, o.priority
		}
	}
	switch {
	case best == nil: // all have begun, and none can run
		l := ready[0].launch
		l.run(l.failDeadlock)
	case best.transfer != nil:
		p.floor--
		best.priority = p.floor
		d.runPiece(best)
	case w == nil:
		p.plan(best.launch)
		best.launch.run(func() { p.startBlocks(best.launch) })
	default:
		best.launch.run(func() { p.runLane(w, lane) })
	}
}

// plan chooses the accesses of a launch at which a priority falls.
func (p *pct) plan(l *launch) {
	last := l.dev.lengths[l.prog]
	if last == 0 {
		last = defaultAccesses
	}
	for range l.dev.opts.Depth - 1 {
		l.change = append(l.change, l.rng.Uint64N(last))
	}
	slices.Sort(l.change)
}

// startBlocks starts blocks until residentRandom of them run, or more in a stalled launch, and
// assigns priorities to their threads.
func (p *pct) startBlocks(l *launch) {
	for !l.isFull(residentRandom) {
		b := l.startBlock()
		if b == nil {
			return
		}
		for _, w := range b.warps {
			p.wake(w)
			for lane := range w.priority {
				w.priority[lane], w.spent[lane] = positive(l.rng), 0
			}
		}
	}
}

// positive returns a random priority that is at least 0, and so above the floor.
func positive(rng *rand.Rand) int64 { return int64(rng.Uint64() >> 1) }

// highest returns the warp and the lane of the runnable thread with the highest priority.
func (p *pct) highest(l *launch) (best *warp, lane int) {
	var top int64
	for _, b := range l.resident {
		if !b.ranked {
			b.rank()
		}
		if b.best != nil && (best == nil || b.top > top) {
			best, top = b.best, b.top
		}
	}
	if best != nil {
		lane = best.first
	}
	return best, lane
}

// rank finds the runnable thread of a block with the highest priority. The result is valid until a
// warp of the block runs or is woken.
func (b *block) rank() {
	b.ranked, b.best = true, nil
	for _, w := range b.warps {
		if !w.ranked {
			w.rank()
		}
		if w.first >= 0 && (b.best == nil || w.priority[w.first] > b.top) {
			b.best, b.top = w, w.priority[w.first]
		}
	}
}

// rank sets first to the runnable lane with the highest priority, or to -1 if no lane can run.
func (w *warp) rank() {
	w.ranked, w.first = true, -1
	for _, g := range w.groups {
		for m := g.mask; m != 0; m &= m - 1 {
			if i := lowest(m); w.first < 0 || w.priority[i] > w.priority[w.first] {
				w.first = i
			}
		}
	}
}

// runLane runs a lane until it waits, ends, may have woken threads, or its priority falls.
func (p *pct) runLane(w *warp, lane int) {
	l := w.launch
	p.wake(w)
	p.stepLane(w, lane)
	if l.checkBudget(w); l.failed() || len(w.groups) > 0 {
		return
	}
	if w.checkStuck(); !l.failed() && w.block.finished() {
		l.removeBlock(slices.Index(l.resident, w.block))
	}
}

func (p *pct) stepLane(w *warp, stepLane int) {
	l := w.launch
	w.yields = false
	for {
		g, ok := w.takeLane(stepLane)
		if !ok || l.failed() {
			return
		}
		in := &l.prog.code[g.pc]
		w.advance(g, noStop, burst, true)
		l.accesses++
		w.spent[stepLane]++
		lower := w.spent[stepLane] >= maxAccesses || w.yields
		for len(l.change) > 0 && l.change[0] < l.accesses {
			l.change = l.change[1:]
			lower = true
		}
		if lower {
			p.floor--
			w.priority[stepLane], w.spent[stepLane] = p.floor, 0
			return
		}
		if in.kind == kindCollect || in.kind == kindBarrier {
			return
		}
	}
}

// takeLane removes a lane from the runnable groups and returns it as a group.
func (w *warp) takeLane(lane int) (group, bool) {
	for i := range w.groups {
		g := &w.groups[i]
		if g.mask>>lane&1 == 0 {
			continue
		}
		one := group{g.pc, 1 << lane}
		if g.mask &^= one.mask; g.mask == 0 {
			w.groups = slices.Delete(w.groups, i, i+1)
		}
		return one, true
	}
	return group{}, false
}
