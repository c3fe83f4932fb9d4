package sim

import (
	"math/rand/v2"
	"slices"
)

// Probabilistic concurrency testing: every thread has a random priority, the
// one with the highest always runs, and at depth-1 random accesses the thread
// that runs falls below all others.
type pct struct {
	change   []uint64 // accesses at which a priority changes, ascending
	accesses uint64
	floor    int64 // below all priorities given so far
}

// guessAccesses stands in for the length of a launch until one of its kernel
// has been seen.
const guessAccesses = 1 << 10

// maxTurn bounds the accesses a thread makes before it falls: it may wait for
// a thread below it.
const maxTurn = 1 << 9

func newPCT(l *launch, depth int, last uint64) *pct {
	if last == 0 {
		last = guessAccesses
	}
	p := &pct{}
	for range depth - 1 {
		p.change = append(p.change, l.rng.Uint64N(last))
	}
	slices.Sort(p.change)
	return p
}

func (p *pct) wake(*warp) {}

func (p *pct) run(l *launch) {
	for p.admit(l); len(l.resident) > 0; p.admit(l) {
		w, lane := p.highest(l)
		if w == nil {
			l.failStuck()
			return
		}
		p.turn(w, lane)
		if l.checkBudget(w); l.failed() {
			return
		}
		if len(w.groups) > 0 {
			continue
		}
		if w.checkStuck(); l.failed() {
			return
		}
		if w.block.finished() {
			l.retire(slices.Index(l.resident, w.block))
		}
	}
}

// admit starts blocks while there is room and gives their threads priorities.
func (p *pct) admit(l *launch) {
	for !l.crowded(residentRandom) {
		b := l.admit()
		if b == nil {
			return
		}
		for _, w := range b.warps {
			for lane := range w.priority {
				w.priority[lane], w.spent[lane] = positive(l.rng), 0
			}
		}
	}
}

// positive is above every floor.
func positive(rng *rand.Rand) int64 { return int64(rng.Uint64() >> 1) }

// highest is the thread with the highest priority of those that can run.
func (p *pct) highest(l *launch) (best *warp, lane int) {
	for _, b := range l.resident {
		for _, w := range b.warps {
			for _, g := range w.groups {
				for m := g.mask; m != 0; m &= m - 1 {
					if i := lowest(m); best == nil || w.priority[i] > best.priority[lane] {
						best, lane = w, i
					}
				}
			}
		}
	}
	return best, lane
}

// turn runs a lane until it waits or ends, lets others go on who may have a
// higher priority, or loses its own.
func (p *pct) turn(w *warp, lane int) {
	l := w.launch
	w.yields = false
	for {
		g, ok := w.takeLane(lane)
		if !ok || l.failed() {
			return
		}
		in := &l.prog.code[g.pc]
		w.advance(g, noStop, burst, true)
		p.accesses++
		w.spent[lane]++
		fall := w.spent[lane] >= maxTurn || w.yields
		for len(p.change) > 0 && p.change[0] < p.accesses {
			p.change = p.change[1:]
			fall = true
		}
		if fall {
			p.floor--
			w.priority[lane], w.spent[lane] = p.floor, 0
			return
		}
		if in.kind == kindCollect || in.kind == kindBarrier {
			return
		}
	}
}

// takeLane takes one lane out of those that can run.
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
