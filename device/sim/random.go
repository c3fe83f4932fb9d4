package sim

import (
	"math/bits"
	"slices"
)

// Random scheduling: before every access to shared memory, any lanes of any
// resident warp may be the next to run. Lanes at one instruction mostly run
// together and are parted now and then, because a warp's lanes may drift
// apart whenever the hardware likes.
type random struct {
	ready []*warp // warps with lanes that can run
}

const (
	// residentRandom is how many blocks run at the same time at first.
	residentRandom = 16
	// burst bounds the instructions between two accesses.
	burst = 1 << 12
)

func newRandom(*launch) scheduler { return &random{} }

func (r *random) wake(w *warp) {
	if !w.ready {
		w.ready = true
		r.ready = append(r.ready, w)
	}
}

// admit starts blocks while there is room.
func (r *random) admit(l *launch) {
	for !l.crowded(residentRandom) {
		b := l.admit()
		if b == nil {
			return
		}
		for _, w := range b.warps {
			r.wake(w)
		}
	}
}

func (r *random) run(l *launch) {
	for r.admit(l); len(l.resident) > 0; r.admit(l) {
		if len(r.ready) == 0 {
			l.failStuck()
			return
		}
		i := l.rng.IntN(len(r.ready))
		w := r.ready[i]
		w.advance(r.choose(w), noStop, burst, true)
		if l.checkBudget(w); l.failed() {
			return
		}
		if len(w.groups) > 0 {
			continue
		}
		w.ready = false
		// A barrier that w completed has put warps at the end of the list.
		i = slices.Index(r.ready, w)
		r.ready[i] = r.ready[len(r.ready)-1]
		r.ready = r.ready[:len(r.ready)-1]
		if w.checkStuck(); l.failed() {
			return
		}
		if w.block.finished() {
			l.retire(slices.Index(l.resident, w.block))
		}
	}
}

// choose takes a group out of those that can run, joins others that stand at
// the same instruction to it, or takes only some of its lanes.
func (r *random) choose(w *warp) group {
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
