package sim

import "github.com/weftgo/weft/device"

// A Thread is the place of a thread in a launch.
type Thread struct {
	Launch int    // launches of the device before this one
	Block  [3]int // in the grid
	Warp   int    // in the block
	Lane   int    // in the warp
}

// A Domain observes the stores of kernels on their way to memory that
// survives a crash, and the fences that order them. Its methods are called in
// the order in which the scheduler lets stores take effect. An error of
// either is a crash at that point: the launch ends at once, the device is
// lost with the error as its cause, and what survives is what the domain
// says.
type Domain interface {
	// Store tells that a thread's store or atomic operation has changed
	// memory at addr to data, which is 1 to 16 bytes and valid during the
	// call only.
	Store(t Thread, addr device.Ptr, data []byte) error
	// Fence tells that the thread's earlier stores are ordered before its
	// later ones for the threads of the scope.
	Fence(t Thread, scope Scope) error
}

// name is the place of a lane's thread.
func (w *warp) name(lane int) Thread {
	return Thread{Launch: w.launch.number, Block: w.block.at, Warp: w.index, Lane: lane}
}

// persist reports a store that has just changed memory.
func (w *warp) persist(in *instr, lane int, seg *segment, off uint64) {
	l := w.launch
	if l.crash == nil {
		l.crash = l.domain.Store(w.name(lane), device.Ptr(seg.base+off), seg.data[off:off+uint64(in.access.size)])
	}
}

// An Access is one element read or written in global memory by one thread.
type Access struct {
	Thread Thread
	Addr   device.Ptr
	Size   int  // bytes
	Write  bool // a store, or an atomic operation
}

// saw reports an access.
func (w *warp) saw(in *instr, lane int, seg *segment, off uint64, write bool) {
	if seg.base >= heapBase {
		w.launch.watch(Access{w.name(lane), device.Ptr(seg.base + off), in.access.size, write})
	}
}
