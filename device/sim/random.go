package sim

import (
	"math/bits"
	"math/rand/v2"
	"slices"
)

// random is the random scheduler. Before every access to memory that threads share, it may switch
// to any lanes of any resident warp of any launch, or to a copy. Lanes at the same instruction
// mostly run together. random separates them now and then, because hardware may let the lanes of a
// warp drift apart at any time.
//
// It chooses streams by weights, which change at random times. A stream may therefore begin late,
// pause for a while, or do all its work between two steps of another stream.
type random struct {
	turnsLeft int // number of steps until the weights change
}

const (
	// residentRandom is the number of blocks that run at the same time, unless the launch stalls.
	residentRandom = 16
	// burst bounds the number of instructions between two accesses.
	burst = 1 << 12
	// weightBits and phaseBits bound the exponents of random powers of two: of the weights, and of
	// the number of steps until the weights change.
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

// chooseWork chooses a work by the weights of the streams.
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
	return nil // not reached, since the sum of the weights exceeds at
}

// startBlocks starts blocks until residentRandom of them run, or more in a stalled launch.
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

// runWarp runs some lanes of a warp until just before their second access to memory that threads
// share.
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
	// i is looked up again, because a barrier that w completed may have appended warps to the list.
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

// chooseGroup removes a group from the runnable groups. Sometimes it merges the other groups at the
// same instruction into it, and sometimes it splits the group and returns only some of its lanes.
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
