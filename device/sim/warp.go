package sim

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// warp is 32 threads that share a register file; each has its own program counter. Lanes at the
// same instruction form a group, but only PTX's .sync instructions require lanes to meet.
type warp struct {
	launch *launch
	block  *block
	index  int // index in the block

	rows  []lanes
	preds []uint32
	local []*segment // local memory of each lane, allocated on first use

	live    uint32       // lanes that have not exited
	groups  []group      // lanes that can run
	meeting []rendezvous // lanes that wait in a .sync instruction
	barred  []group      // lanes that wait in a barrier of the block
	// times that a group other than the lowest ran; selects the next such group
	nYields int
	yields  bool // whether a lane has yielded to other lanes

	ready    bool             // whether the warp is in launch.ready, for Random
	priority [warpSize]int64  // priority of each lane's thread, for PCT
	spent    [warpSize]int    // accesses of each thread at its current priority
	ranked   bool             // whether first is valid, for PCT
	first    int              // runnable lane with the highest priority, or -1
	threads  [warpSize]thread // thread of each lane, for weak memory

	votes, voters uint64 // result of the last bar.red
}

// group is a set of lanes at the same instruction.
type group struct {
	pc   int32
	mask uint32
}

// rendezvous is a .sync instruction at which some lanes have arrived.
type rendezvous struct {
	in      *instr
	member  uint32
	arrived []group
}

func (r *rendezvous) mask() (m uint32) {
	for _, g := range r.arrived {
		m |= g.mask
	}
	return m
}

// reset prepares a warp to run the live lanes of a block.
func (w *warp) reset(b *block, index int, live uint32) {
	w.block, w.index, w.live = b, index, live
	w.groups = append(w.groups[:0], group{0, live})
	w.meeting, w.barred = w.meeting[:0], w.barred[:0]
	w.nYields, w.yields, w.ready = 0, false, false
	if w.launch.views != nil {
		base := *w.launch.base.copy()
		for i := range w.threads {
			w.threads[i] = thread{number: b.first + index*warpSize + i, now: base}
		}
	}
	p := w.launch.prog
	if w.rows == nil {
		f := p.registers()
		w.rows, w.preds = f.rows, f.preds
	}
	for _, s := range p.specials {
		s.fill(w, &w.rows[s.row])
	}
	for _, l := range w.local {
		if l != nil {
			l.clearWritten()
		}
	}
}

// pred returns the mask of a predicate, negated on request.
func (w *warp) pred(index int32, negated bool) uint32 {
	if negated {
		return ^w.preds[index]
	}
	return w.preds[index]
}

// localOf returns the local memory of a lane, and allocates it on first use.
func (w *warp) localOf(lane int) *segment {
	if w.local == nil {
		w.local = make([]*segment, warpSize)
	}
	if w.local[lane] == nil {
		w.local[lane] = newSegment("thread's local memory", 0, w.launch.prog.kernel.local)
		w.local[lane].private = true
	}
	return w.local[lane]
}

// fail ends the launch with a fault of a lane, unless it has a fault already.
func (w *warp) fail(in *instr, lane int, format string, args ...any) {
	l := w.launch
	if l.fault != nil {
		return
	}
	f := &Fault{
		Kernel: l.prog.kernel.name, File: l.prog.kernel.mod.name, Block: w.block.at, Warp: w.index, Lane: lane,
		Reason: fmt.Sprintf(format, args...), Seed: l.seed, Launch: l.number,
	}
	if in != nil {
		f.Line, f.Text = in.st.line, in.st.text
	}
	l.fault = f
}

const noStop = math.MaxInt32

// run executes up to quantum instructions in lockstep. It always runs the group at the lowest
// position in the program, so that paths meet where they join. A group that jumps back many times
// yields to a higher group, so that lanes may wait for each other in a loop.
func (w *warp) run(quantum int) {
	for quantum > 0 && len(w.groups) > 0 && !w.launch.failed() {
		low, stop := w.lowestGroup()
		if w.yields && len(w.groups) > 1 {
			w.yields = false
			w.nYields++
			low, stop = w.nYields%len(w.groups), noStop
		}
		g := w.groups[low]
		w.groups = slices.Delete(w.groups, low, low+1)
		quantum -= w.advance(g, stop, quantum, false)
	}
	w.checkStuck()
}

// lowestGroup merges the groups at the lowest position. It returns the index of the merged group,
// and the position of the next group.
func (w *warp) lowestGroup() (index int, stop int32) {
	stop = noStop
	for i := 1; i < len(w.groups); i++ {
		switch g := w.groups[i]; {
		case g.pc == w.groups[index].pc:
			w.groups[index].mask |= g.mask
			w.groups = slices.Delete(w.groups, i, i+1)
			i--
		case g.pc < w.groups[index].pc:
			stop = min(stop, w.groups[index].pc)
			index = i
		default:
			stop = min(stop, g.pc)
		}
	}
	return index, stop
}

// maxBacks is the number of backward jumps after which a group yields.
const maxBacks = 256

// advance executes a group until it ends, waits, splits, reaches stop or has run quantum
// instructions. If the parameter one is set, advance also stops before the second access to memory
// that threads share. It returns the number of instructions executed. Runnable lanes are then in
// w.groups again.
func (w *warp) advance(g group, stop int32, quantum int, one bool) (steps int) {
	l := w.launch
	code := l.prog.code
	backs, accesses := 0, 0
	for {
		if g.pc >= stop || steps >= quantum {
			w.groups = append(w.groups, g)
			return steps
		}
		in := &code[g.pc]
		m := g.mask
		if in.guard >= 0 {
			m &= w.pred(in.guard, in.negate)
		}
		if one && in.kind >= kindMemory && in.kind <= kindBarrier {
			if accesses++; accesses > 1 {
				w.groups = append(w.groups, g)
				return steps
			}
		}
		steps++
		l.steps++
		if l.trace != nil {
			l.trace.step(w, in, g, m)
		}
		switch in.kind {
		case kindALU:
			if m != 0 {
				in.exec(w, in, m)
			}
			g.pc++
		case kindPrivate, kindMemory:
			if m != 0 {
				if l.requests != nil && in.addresses() {
					l.request(w, in, m)
				}
				in.exec(w, in, m)
			}
			if l.trace != nil {
				l.trace.value(w, in, m)
			}
			if l.failed() {
				return steps
			}
			g.pc++
		case kindBranch:
			switch {
			case m == g.mask:
				if in.target <= g.pc {
					if backs++; backs >= maxBacks && (stop != noStop || len(w.groups) > 0) {
						w.yields = true
						w.groups = append(w.groups, group{in.target, m})
						return steps
					}
				}
				g.pc = in.target
			case m == 0:
				g.pc++
			default:
				w.groups = append(w.groups, group{g.pc + 1, g.mask &^ m}, group{in.target, m})
				return steps
			}
		default:
			if m != g.mask {
				w.groups = append(w.groups, group{g.pc + 1, g.mask &^ m})
				if m == 0 {
					return steps
				}
				w.suspend(in, group{g.pc, m})
				return steps
			}
			if w.suspend(in, g) {
				g.pc++
				continue
			}
			return steps
		}
	}
}

// suspend executes an instruction that may suspend the group. It reports whether the group
// continues unchanged at the next instruction.
func (w *warp) suspend(in *instr, g group) bool {
	switch in.kind {
	case kindCollect:
		return w.arriveSync(in, g)
	case kindBarrier:
		w.block.arrive(w, in, g)
	case kindTable:
		w.scatter(in, g)
	case kindExit:
		w.exit(g.mask)
	case kindYield:
		w.yields = true
		w.groups = append(w.groups, group{g.pc + 1, g.mask})
	case kindTrap:
		w.fail(in, lowest(g.mask), "trap")
	}
	return false
}

// scatter moves the lanes of brx.idx to their targets.
func (w *warp) scatter(in *instr, g group) {
	for rest := g.mask; rest != 0; rest &= rest - 1 {
		lane := lowest(rest)
		i := w.rows[in.a][lane]
		if i >= uint64(len(in.list)) {
			w.fail(in, lane, "branch index %d of a table of %d", i, len(in.list))
			return
		}
		w.join(group{in.list[i], 1 << lane})
	}
}

// join adds lanes to the group at their position, or creates this group.
func (w *warp) join(g group) {
	for i := range w.groups {
		if w.groups[i].pc == g.pc {
			w.groups[i].mask |= g.mask
			return
		}
	}
	w.groups = append(w.groups, g)
}

// exit ends lanes. Since .sync instructions do not wait for these lanes, exit may complete some.
func (w *warp) exit(mask uint32) {
	w.live &^= mask
	w.block.exited += bits.OnesCount32(mask)
	for i := 0; i < len(w.meeting); i++ {
		if w.complete(i) {
			i--
		}
	}
}

// arriveSync moves a group to a .sync instruction. Lanes with the same membermask wait for each
// other. Once all of them have arrived, the instruction executes. arriveSync returns true if the
// instruction executed at once for exactly this group.
func (w *warp) arriveSync(in *instr, g group) bool {
	row := &w.rows[in.member]
	member := uint32(row[lowest(g.mask)])
	same := in.uniform || row.same(g.mask)
	for rest := g.mask; rest != 0 && !(same && g.mask&^member == 0); rest &= rest - 1 {
		if lane := lowest(rest); uint32(row[lane])>>lane&1 == 0 {
			w.fail(in, lane, "membermask 0x%08x lacks the executing lane", uint32(row[lane]))
			return false
		}
	}
	if same && member&w.live == g.mask {
		in.exec(w, in, g.mask)
		return !w.launch.failed()
	}
	for rest := g.mask; rest != 0; {
		member := uint32(row[lowest(rest)])
		var part uint32
		for r := rest; r != 0; r &= r - 1 {
			if uint32(row[lowest(r)]) == member {
				part |= 1 << lowest(r)
			}
		}
		rest &^= part
		w.complete(w.wait(in, member, group{g.pc, part}))
	}
	return false
}

// wait adds lanes to a rendezvous and returns its index. Lanes may meet at different instructions
// only in bar.warp.sync. Other .sync instructions exchange values, which hardware does per
// instruction.
func (w *warp) wait(in *instr, member uint32, g group) int {
	for i := range w.meeting {
		r := &w.meeting[i]
		if r.member == member && (r.in == in || in.anywhere && r.in.anywhere) {
			for k := range r.arrived {
				if r.arrived[k].pc == g.pc {
					r.arrived[k].mask |= g.mask
					return i
				}
			}
			r.arrived = append(r.arrived, g)
			return i
		}
	}
	w.meeting = append(w.meeting, rendezvous{in, member, []group{g}})
	return len(w.meeting) - 1
}

// complete executes a rendezvous at which all live lanes have arrived, and reports whether it did.
func (w *warp) complete(i int) bool {
	r := w.meeting[i]
	arrived := r.mask()
	if r.member&w.live&^arrived != 0 {
		return false
	}
	w.meeting = slices.Delete(w.meeting, i, i+1)
	r.in.exec(w, r.in, arrived)
	for _, g := range r.arrived {
		w.join(group{g.pc + 1, g.mask})
	}
	return true
}

// checkStuck fails the launch if lanes of the warp wait for lanes that cannot arrive.
func (w *warp) checkStuck() {
	if len(w.groups) > 0 || w.live == 0 || w.launch.failed() {
		return
	}
	if len(w.meeting) > 0 {
		r := &w.meeting[0]
		arrived := r.mask()
		missing := r.member & w.live &^ arrived
		w.fail(r.in, lowest(arrived), "deadlock: membermask 0x%08x waits for lanes 0x%08x, which wait elsewhere%s", r.member, missing, w.describeWaiting(missing))
		return
	}
	w.block.checkDivergent(w)
}

// describeWaiting returns a list of the lines at which lanes in mask wait.
func (w *warp) describeWaiting(mask uint32) string {
	var s string
	for _, r := range w.meeting {
		if m := r.mask() & mask; m != 0 {
			s += fmt.Sprintf("; lanes 0x%08x at line %d (%s)", m, r.in.st.line, r.in.st.text)
		}
	}
	for _, g := range w.barred {
		if m := g.mask & mask; m != 0 {
			in := &w.launch.prog.code[g.pc]
			s += fmt.Sprintf("; lanes 0x%08x at line %d (%s)", m, in.st.line, in.st.text)
		}
	}
	return s
}

// takeLane removes a lane from a nonempty mask and returns it. It takes the lowest lane that is at
// least first, or else the lowest lane.
func takeLane(m *uint32, first int) int {
	lane := (bits.TrailingZeros32(bits.RotateLeft32(*m, -first)) + first) & (warpSize - 1)
	*m &^= 1 << lane
	return lane
}
