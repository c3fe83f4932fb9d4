package sim

import (
	"fmt"
	"math/bits"
)

// block is a resident block: its warps, its shared memory and its barriers.
type block struct {
	at       [3]int // index in the grid
	number   int    // number among all blocks of the device
	first    int    // number of its first thread
	warps    []*warp
	shared   *segment
	exited   int // number of threads that have exited
	threads  int
	barriers [16]barrier

	ranked bool  // whether best is valid, for PCT
	best   *warp // warp of the thread with the highest priority, or nil
	top    int64 // priority of that thread
}

// barrier counts the threads that have arrived.
type barrier struct {
	in       *instr
	expected int // number of threads that must arrive
	arrived  int
	voters   int // bar.red: number of threads that take part
	votes    int // bar.red: number of threads whose predicate is true
	warps    []*warp
}

func (b *block) finished() bool { return b.exited == b.threads }

// buildBarrier resolves "bar.sync a[, b]". a is the number of the barrier. b is the number of
// threads that take part, by default all threads of the block.
func buildBarrier(a *assembler, s *statement, f form) (instr, error) {
	o := a.operands(s)
	in := instr{kind: kindBarrier, a: o.src(u32), b: -1}
	if o.more() {
		in.b = o.src(u32)
	}
	return in, o.done()
}

// buildBarrierReduce resolves "bar.red.op.type d, a[, b], [!]p", a barrier with a vote. Every
// thread receives the number of true predicates (popc), or whether all (and) or any (or) predicates
// are true.
func buildBarrierReduce(a *assembler, s *statement, f form) (instr, error) {
	o := a.operands(s)
	in := instr{kind: kindBarrier, b: -1, votes: true}
	if f.last().kind == 'p' {
		in.d = o.predDst()
	} else {
		in.d = o.dst(u32)
	}
	in.a = o.src(u32)
	if len(s.args) == 4 {
		in.b = o.src(u32)
	}
	in.c, in.flip = o.pred()
	switch f[2] {
	case "popc":
		in.exec = func(w *warp, in *instr, m uint32) { w.broadcast(in.d, m, w.votes) }
	case "and":
		in.exec = func(w *warp, in *instr, m uint32) { w.setPred(in.d, m, w.votes == w.voters) }
	case "or":
		in.exec = func(w *warp, in *instr, m uint32) { w.setPred(in.d, m, w.votes != 0) }
	}
	return in, o.done()
}

// arrive moves lanes of a warp into a barrier. The warp counts as arrived when all its live lanes
// are at the same instruction. When enough threads have arrived, the barrier releases its warps.
func (b *block) arrive(w *warp, in *instr, g group) {
	lane := lowest(g.mask)
	id := w.rows[in.a][lane]
	if id >= uint64(len(b.barriers)) {
		w.fail(in, lane, "barrier %d does not exist: there are %d", id, len(b.barriers))
		return
	}
	merged := false
	for i := range w.barred {
		if w.barred[i].pc == g.pc {
			w.barred[i].mask |= g.mask
			g.mask, merged = w.barred[i].mask, true
		}
	}
	if !merged {
		w.barred = append(w.barred, g)
	}
	if g.mask != w.live {
		return
	}
	bar := &b.barriers[id]
	expected := b.threads
	if in.b >= 0 {
		expected = int(w.rows[in.b][lane])
		if expected <= 0 || expected > len(b.warps)*warpSize || expected%warpSize != 0 {
			w.fail(in, lane, "barrier of %d threads in a block of %d: not a number of whole warps of the block", expected, b.threads)
			return
		}
	}
	if bar.arrived > 0 && bar.expected != expected {
		w.fail(in, lane, "barrier %d of %d threads, but other warps wait at it for %d", id,
			expected, bar.expected)
		return
	}
	bar.in, bar.expected = in, expected
	bar.arrived += bits.OnesCount32(g.mask)
	bar.warps = append(bar.warps, w)
	if in.votes {
		bar.voters += bits.OnesCount32(g.mask)
		bar.votes += bits.OnesCount32(w.pred(in.c, in.flip) & g.mask)
	}
	if in.b >= 0 {
		// The thread count is in whole warps.
		bar.arrived += warpSize - bits.OnesCount32(g.mask)
	}
	if bar.arrived >= bar.expected {
		bar.release(w)
	}
}

// release lets the warps of a complete barrier continue. The barrier orders their memory accesses.
func (bar *barrier) release(last *warp) {
	if v := last.launch.views; v != nil {
		v.joinWarps(bar.warps)
	}
	for _, w := range bar.warps {
		for _, g := range w.barred {
			if in := &w.launch.prog.code[g.pc]; in.votes {
				w.votes, w.voters = uint64(bar.votes), uint64(bar.voters)
				in.exec(w, in, g.mask)
			}
			w.groups = append(w.groups, group{g.pc + 1, g.mask})
		}
		w.barred = w.barred[:0]
		w.launch.dev.sched.wake(w)
	}
	*bar = barrier{warps: bar.warps[:0]}
}

// checkDivergent fails the launch if a warp waits in barriers that it cannot pass, because its
// lanes reached different barriers or some lanes have exited.
func (b *block) checkDivergent(w *warp) {
	if len(w.barred) > 1 {
		w.fail(&w.launch.prog.code[w.barred[0].pc], lowest(w.barred[0].mask), "divergent barrier%s", w.describeWaiting(w.live))
		return
	}
	if len(w.barred) == 1 && w.live != w.block.initialMask(w.index) {
		g := w.barred[0]
		w.fail(&w.launch.prog.code[g.pc], lowest(g.mask), "divergent barrier: lanes 0x%08x of the warp have exited", w.block.initialMask(w.index)&^w.live)
	}
}

// initialMask returns the mask of the lanes that exist in a warp.
func (b *block) initialMask(warp int) uint32 {
	n := b.threads - warp*warpSize
	if n >= warpSize {
		return fullMask
	}
	return 1<<n - 1
}

// deadlock returns why no warp of the block can run, with a warp and an instruction for the
// message.
func (b *block) deadlock() (w *warp, in *instr, reason string) {
	for id := range b.barriers {
		bar := &b.barriers[id]
		if bar.arrived > 0 {
			return bar.warps[0], bar.in, fmt.Sprintf("deadlock: barrier %d has %d of %d threads; %d threads of the block have exited", id, bar.arrived, bar.expected, b.exited)
		}
	}
	return b.warps[0], nil, "deadlock"
}
