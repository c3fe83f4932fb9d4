package sim

import (
	"math/rand/v2"
)

// A launch is one run of a kernel.
type launch struct {
	prog     *program
	grid     [3]int
	blockDim [3]int
	params   *segment
	heap     *heap
	near     []*segment // block of memory each access touched last
	number   int        // launches before this one
	seed     uint64     // of the device, for messages
	rng      *rand.Rand // of this launch

	start  uint64 // of the clock
	steps  uint64 // warp instructions executed
	budget uint64 // steps allowed

	resident []*block
	idle     []*block // finished, to be used again
	admitted int      // blocks of the grid that have started
	retired  uint64   // steps when the last one finished
	policy   scheduler
	views    *views // nil: memory is sequentially consistent
	domain   *journal
	watch    func(Access)
	trace    *tracer
	fault    *Fault
	crash    error // what the persistence domain ended the launch with
}

// A scheduler decides which warp, and which lanes of it, run next.
type scheduler interface {
	// run executes the launch until all blocks have finished or one failed.
	run(l *launch)
	// wake tells that lanes of a warp that waited can run.
	wake(w *warp)
}

func (l *launch) wake(w *warp) { l.policy.wake(w) }

// blocks is the number of blocks of the grid.
func (l *launch) blocks() int { return l.grid[0] * l.grid[1] * l.grid[2] }

// failed reports whether the launch is to end now.
func (l *launch) failed() bool { return l.fault != nil || l.crash != nil }

// admit starts the next block of the grid, if there is one.
func (l *launch) admit() *block {
	if l.admitted == l.blocks() {
		return nil
	}
	var b *block
	if n := len(l.idle); n > 0 {
		b, l.idle = l.idle[n-1], l.idle[:n-1]
	} else {
		b = l.newBlock()
	}
	for _, w := range b.warps {
		w.launch = l
	}
	i := l.admitted
	l.admitted++
	b.at = [3]int{i % l.grid[0], i / l.grid[0] % l.grid[1], i / (l.grid[0] * l.grid[1])}
	b.number, b.exited = l.admitted, 0
	b.barriers = [16]barrier{}
	b.shared.wipe()
	for k, w := range b.warps {
		w.reset(b, k, b.initial(k))
	}
	l.resident = append(l.resident, b)
	return b
}

// shape is what blocks that are used again must have in common.
type shape struct {
	prog    *program
	threads int
}

func (l *launch) shape() shape {
	return shape{l.prog, l.blockDim[0] * l.blockDim[1] * l.blockDim[2]}
}

func (l *launch) newBlock() *block {
	threads := l.blockDim[0] * l.blockDim[1] * l.blockDim[2]
	b := &block{threads: threads, shared: newSegment("block's shared memory", 0, l.prog.kernel.shared)}
	for range (threads + warpSize - 1) / warpSize {
		b.warps = append(b.warps, &warp{})
	}
	return b
}

const (
	// maxResident is how many blocks run at the same time at most: as many of
	// 256 threads as an H200 holds.
	maxResident = 8 * units
	// patience is the number of steps without a block that finishes after
	// which another one starts: those that run may wait for it.
	patience = 1 << 13
)

// crowded reports whether enough blocks run, where so many do at first.
func (l *launch) crowded(first int) bool {
	return len(l.resident) >= min(first+int((l.steps-l.retired)/patience), maxResident)
}

// retire removes a finished block.
func (l *launch) retire(i int) {
	l.retired = l.steps
	l.idle = append(l.idle, l.resident[i])
	l.resident = append(l.resident[:i], l.resident[i+1:]...)
}

// checkBudget fails the launch once it has run too long.
func (l *launch) checkBudget(w *warp) {
	if l.steps > l.budget && l.fault == nil {
		in, lane := w.position()
		w.fail(in, lane, "ran %d warp instructions, the budget of a launch: does it ever end?", l.budget)
	}
}

// position is an instruction a warp is at, and a lane of those there.
func (w *warp) position() (*instr, int) {
	switch {
	case len(w.groups) > 0:
		return &w.launch.prog.code[w.groups[0].pc], lowest(w.groups[0].mask)
	case len(w.meeting) > 0:
		return w.meeting[0].in, lowest(w.meeting[0].mask())
	case len(w.barred) > 0:
		return &w.launch.prog.code[w.barred[0].pc], lowest(w.barred[0].mask)
	}
	return nil, -1
}

// failStuck ends a launch none of whose warps can run.
func (l *launch) failStuck() {
	w, in, why := l.resident[0].stuck()
	lane := -1
	if in != nil {
		_, lane = w.position()
	}
	w.fail(in, lane, "%s", why)
}

// firstLane is the lane that an instruction treats first where lanes touch
// memory one after another.
func (l *launch) firstLane() int {
	if l.rng == nil {
		return 0
	}
	return int(l.rng.Uint32() & (warpSize - 1))
}
