package sim

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/weftgo/weft/device"
)

// launch is one run of a kernel.
type launch struct {
	dev      *Device
	work     *work
	module   *loaded
	prog     *program
	grid     [3]int
	blockDim [3]int
	params   *segment
	heap     *heap
	lastSegs []*segment // by access.index: segment that the instruction accessed last
	number   int        // number of earlier launches on the device
	seed     uint64     // seed of the device, for messages
	rng      *rand.Rand // source of the device; nil under Fast

	begun  bool
	start  uint64 // clock minus steps
	steps  uint64 // number of warp instructions executed
	budget uint64 // maximum of steps

	resident   []*block
	freeBlocks *[]*block // finished blocks to be reused
	admitted   int       // number of blocks of the grid that have started
	retired    uint64    // value of steps when a block last finished
	ready      []*warp   // warps with runnable lanes, under Random
	change     []uint64  // accesses at which a priority falls, ascending, under PCT
	accesses   uint64    // number of accesses so far, under PCT

	views       *views // nil if memory is sequentially consistent
	firstThread int    // number of its first thread
	firstBlock  int    // number of its first block
	base        *view  // view ordered before the launch
	end         *view  // base joined with the views of its finished threads

	domain   *journal
	watch    func(Access)
	requests func(Request)
	trace    *tracer
	fault    *Fault
	crash    error // error of the domain that ended the launch
}

// newLaunch checks the arguments and returns a launch that has not begun.
func (d *Device) newLaunch(k device.Kernel, grid, block device.Dim, params []byte) (*launch, error) {
	e, ok := k.(*entry)
	if !ok || e == nil || e.dev != d {
		return nil, fmt.Errorf("sim: %w: a kernel that was not loaded on this device",
			device.ErrInvalid)
	}
	if err := e.module.checkLoaded(); err != nil {
		return nil, err
	}
	if len(params) != e.prog.kernel.paramSize {
		return nil, fmt.Errorf("sim: %w: kernel %s takes %d bytes of parameters, got %d", device.ErrInvalid, k.Name(), e.prog.kernel.paramSize, len(params))
	}
	limit := maxThreads
	if m := e.prog.kernel.maxBlock; m > 0 {
		limit = min(limit, m)
	}
	if !withinLimit(grid, maxGrid) || !withinLimit(block, maxBlock) || threadsOf(block) > limit {
		return nil, fmt.Errorf("sim: %w: kernel %s with a grid of %v and blocks of %v: at most %v blocks of %v threads, %d in all",
			device.ErrInvalid, k.Name(), grid, block, maxGrid, maxBlock, limit)
	}
	l := &launch{dev: d, module: e.module, prog: e.prog, grid: extent(grid), blockDim: extent(block), heap: d.heap, rng: d.rng, views: d.views}
	l.params = newSegment("parameters", 0, len(params))
	l.params.private = true
	copy(l.params.data, params)
	l.params.mark(0, len(params), true)
	l.seed, l.number, l.budget = d.opts.Seed, d.launches, d.opts.Budget
	l.trace, l.domain, l.watch, l.requests = d.trace, d.journal, d.opts.Watch, d.opts.Requests
	d.launches++
	return l, nil
}

// paramSegments yields the segments that addresses in the parameters point to.
func (l *launch) paramSegments(yield func(s *segment) bool) {
	for i := 0; i+8 <= l.params.size; i += 8 {
		addr := binary.LittleEndian.Uint64(l.params.data[i:])
		if s, _ := l.heap.find(addr, 1); s != nil && !yield(s) {
			return
		}
	}
}

// begin prepares the launch for its first step.
func (l *launch) begin() {
	d := l.dev
	l.begun = true
	l.lastSegs = make([]*segment, l.prog.accesses)
	s := l.shape()
	if d.freeBlocks[s] == nil {
		d.freeBlocks[s] = new([]*block)
	}
	l.freeBlocks = d.freeBlocks[s]
	if l.views != nil {
		l.views.begin(l)
	}
	if l.trace != nil {
		l.trace.launch(l)
	}
}

// finishLaunch ends a launch that has failed or in which all blocks have finished.
func (d *Device) finishLaunch(l *launch) {
	if l.accesses > 0 {
		d.lengths[l.prog] = l.accesses
	}
	switch {
	case l.crash != nil:
		d.markLost(l.crash)
	case l.fault != nil:
		d.markLost(l.fault)
	}
	if l.views != nil {
		l.work.stream.observed = l.end
	}
	l.lastSegs, l.ready = nil, nil
	d.finish(l.work)
}

// finished reports whether all blocks have finished.
func (l *launch) finished() bool { return l.admitted == l.blocks() && len(l.resident) == 0 }

// blocks returns the number of blocks in the grid.
func (l *launch) blocks() int { return l.grid[0] * l.grid[1] * l.grid[2] }

// failed reports whether the launch must end now, because of a fault or a crash.
func (l *launch) failed() bool { return l.fault != nil || l.crash != nil }

// startBlock starts the next block of the grid, or returns nil if all have started.
func (l *launch) startBlock() *block {
	if l.admitted == l.blocks() {
		return nil
	}
	var b *block
	if n := len(*l.freeBlocks); n > 0 {
		b, *l.freeBlocks = (*l.freeBlocks)[n-1], (*l.freeBlocks)[:n-1]
	} else {
		b = l.newBlock()
	}
	for _, w := range b.warps {
		w.launch = l
	}
	i := l.admitted
	l.admitted++
	b.at = [3]int{i % l.grid[0], i / l.grid[0] % l.grid[1], i / (l.grid[0] * l.grid[1])}
	b.number, b.first, b.exited = l.firstBlock+i, l.firstThread+i*len(b.warps)*warpSize, 0
	b.barriers = [16]barrier{}
	b.shared.clearWritten()
	for k, w := range b.warps {
		w.reset(b, k, b.initialMask(k))
	}
	l.resident = append(l.resident, b)
	return b
}

// shape identifies blocks that a launch of the same program can reuse.
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
	// maxResident is the maximum number of blocks that run at the same time. An H200 holds as many
	// blocks of 256 threads.
	maxResident = 8 * units
	// stallSteps is the number of steps without a finished block after which another block starts,
	// because the running blocks may wait for it.
	stallSteps = 1 << 13
)

// isFull reports whether the maximum number of blocks run. The maximum is the parameter first plus
// 1 per stallSteps steps since a block last finished, up to maxResident.
func (l *launch) isFull(first int) bool {
	return len(l.resident) >= min(first+int((l.steps-l.retired)/stallSteps), maxResident)
}

// removeBlock removes the finished block l.resident[i].
func (l *launch) removeBlock(i int) {
	l.retired = l.steps
	if l.views != nil {
		l.views.joinBlock(l, l.resident[i])
	}
	*l.freeBlocks = append(*l.freeBlocks, l.resident[i])
	l.resident = append(l.resident[:i], l.resident[i+1:]...)
}

// checkBudget fails the launch once it has exceeded its budget.
func (l *launch) checkBudget(w *warp) {
	if l.steps > l.budget && l.fault == nil {
		in, lane := w.position()
		w.fail(in, lane, "ran %d warp instructions, the budget of a launch: does it ever end?%s", l.budget, l.describeBlocker())
	}
}

// describeBlocker names another launch that l may wait for. It prefers a launch that cannot begin
// before l ends to a concurrent launch.
func (l *launch) describeBlocker() string {
	var concurrent *launch
	for w := range l.dev.pending {
		switch o := w.launch; {
		case o == nil || o == l:
		case w.before.include(l.work):
			return fmt.Sprintf(" (%v is queued after it)", w)
		case concurrent == nil || o.begun && !concurrent.begun:
			concurrent = o
		}
	}
	if concurrent == nil {
		return ""
	}
	return fmt.Sprintf(" (%v runs alongside it)", concurrent.work)
}

// position returns the next instruction of some lanes of a warp, and the lowest of these lanes.
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

// failDeadlock fails a launch that has no runnable warps.
func (l *launch) failDeadlock() {
	w, in, reason := l.resident[0].deadlock()
	lane := -1
	if in != nil {
		_, lane = w.position()
	}
	w.fail(in, lane, "%s", reason)
}

// firstLane returns the lane that begins when lanes access memory one after another.
func (l *launch) firstLane() int {
	if l.rng == nil {
		return 0
	}
	return int(l.rng.Uint32() & (warpSize - 1))
}
