package sim

import (
	"math/bits"
	"math/rand/v2"
	"slices"
)

// Random scheduling: before every access to shared memory, any lanes of any resident warp of any
// launch may run next, and so may a piece of a copy. Lanes at one instruction mostly run together.
// They are separated now and then, because hardware may let a warp's lanes drift apart at any time.
//
// Streams are chosen by weights, which change at random times. So a stream may begin late, stand
// still for a while, or do all its work in the midst of another's.
type random struct {
	turnsLeft int // number of turns until the weights change
}

const (
	// residentRandom is the number of blocks that run at the same time at first.
	residentRandom = 16
	// burst bounds the instructions between two accesses.
	burst = 1 << 12
	// weightBits and phaseBits bound weights, and the number of turns that they last, by powers of
	// two.
	weightBits, phaseBits = 8, 11
)

func (r *random) wake(w *warp) {
	if !w.ready {
		w.ready = true
		w.launch.ready = append(w.launch.ready, w)
	}
}

func (r *random) step(d *Device, ready []*work) {
	w := ready[0]
	if len(ready) > 1 {
		w = r.chooseWork(d.rng, ready)
	}
	if w.transfer != nil {
		d.runPiece(w)
		return
	}
	w.launch.run(func() { r.runWarp(w.launch) })
}

// chooseWork chooses one of several works by the weights of their streams.
func (r *random) chooseWork(rng *rand.Rand, ready []*work) *work {
	if r.turnsLeft--; r.turnsLeft < 0 {
		r.turnsLeft = 1 << rng.IntN(phaseBits)
		for _, w := range ready {
			w.stream.weight = 1 << rng.IntN(weightBits)
		}
	}
	var sum uint32
	for _, w := range ready {
		sum += w.stream.weight
	}
	at := rng.Uint32N(sum)
	for _, w := range ready {
		if at < w.stream.weight {
			return w
		}
		at -= w.stream.weight
	}
	return nil // not reached: the weights sum up to more than at
}

// startBlocks starts blocks until enough run.
func (r *random) startBlocks(l *launch) {
	for !l.isFull(residentRandom) {
		b := l.startBlock()
		if b == nil {
			return
		}
		for _, w := range b.warps {
			r.wake(w)
		}
	}
}

// runWarp runs some lanes of a warp up to their next access but one.
func (r *random) runWarp(l *launch) {
	r.startBlocks(l)
	if len(l.ready) == 0 {
		l.failDeadlock()
		return
	}
	w := l.ready[l.rng.IntN(len(l.ready))]
	w.advance(r.chooseGroup(w), noStop, burst, true)
	if l.checkBudget(w); l.failed() || len(w.groups) > 0 {
		return
	}
	w.ready = false
	// A barrier that w completed may have appended warps to the list.
	i := slices.Index(l.ready, w)
	l.ready[i] = l.ready[len(l.ready)-1]
	l.ready = l.ready[:len(l.ready)-1]
	if w.checkStuck(); l.failed() {
		return
	}
	if w.block.finished() {
		l.removeBlock(slices.Index(l.resident, w.block))
	}
}

// chooseGroup removes a runnable group, and merges others at the same instruction into it, or takes
// only some of its lanes.
func (r *random) chooseGroup(w *warp) group {
	rng := w.launch.rng
	i := 0
	if len(w.groups) > 1 {
		i = rng.IntN(len(w.groups))
	}
	g := w.groups[i]
	last := len(w.groups) - 1
	w.groups[i] = w.groups[last]
	w.groups = w.groups[:last]
	dice := rng.Uint32()
	switch {
	case dice&1 == 0 && last > 0:
		for k := 0; k < len(w.groups); k++ {
			if w.groups[k].pc == g.pc {
				g.mask |= w.groups[k].mask
				w.groups = slices.Delete(w.groups, k, k+1)
				k--
			}
		}
	case dice&14 == 0 && bits.OnesCount32(g.mask) > 1:
		if part := g.mask & rng.Uint32(); part != 0 && part != g.mask {
			w.groups = append(w.groups, group{g.pc, g.mask &^ part})
			g.mask = part
		}
	}
	return g
}
