package sim

import "github.com/weftgo/weft/device"

// A Thread is the place of a thread in a launch.
type Thread struct {
	Launch int    // launches of the device before this one
	Block  [3]int // in the grid
	Warp   int    // in the block
	Lane   int    // in the warp
}

// A Domain observes the stores of kernels on their way to memory that survives
// a crash, and what orders them. Its methods are called in the order in which
// the scheduler lets stores take effect. An error of one is a crash at that
// point: the launch ends at once, the device is lost with the error as its
// cause, and what survives is what the domain says.
//
// Of loads it hears nothing, but what they order is in what [Before] reports:
// the stores that a thread has acquired from others, or has seen by accesses
// that are morally strong with them, count as its own do.
type Domain interface {
	// Holds reports whether memory at addr survives. Stores elsewhere are not
	// told of.
	Holds(addr device.Ptr) bool
	// Store tells that a thread's store or atomic operation has changed
	// memory at addr to data, which is 1 to 16 bytes and valid during the
	// call only. These stores are numbered from 0 in the order of the calls.
	Store(t Thread, addr device.Ptr, data []byte) error
	// Release is called just before the Store of a releasing access: for the
	// threads of the scope, the stores before it are ordered before that one,
	// and before no other that the thread makes later.
	Release(t Thread, scope Scope, before Before) error
	// Fence tells that, for the threads of the scope, the stores before it
	// are ordered before all that the thread makes later.
	Fence(t Thread, scope Scope, before Before) error
}

// Before reports whether the store of a number comes before a fence or a
// release of a thread in PTX's causality order: whether the thread itself made
// it, has seen it, or has acquired it, or whether a launch did that is ordered
// before. It is valid during the call it is passed to.
type Before func(store int) bool

// A journal numbers the stores that a domain hears of and remembers enough of
// them to tell who has seen them.
type journal struct {
	Domain
	stores []stored
}

type stored struct {
	cell *cell // the first one it changed
	mark mark
}

// before is what a lane's thread has seen by now.
func (w *warp) before(lane int) Before {
	t, stores := &w.threads[lane], w.launch.domain.stores
	return func(store int) bool {
		return store >= 0 && store < len(stores) && t.knows(stores[store].cell, &stores[store].mark)
	}
}

// name is the place of a lane's thread.
func (w *warp) name(lane int) Thread {
	return Thread{Launch: w.launch.number, Block: w.block.at, Warp: w.index, Lane: lane}
}

// persist reports a store that has just changed memory.
func (w *warp) persist(in *instr, lane int, seg *segment, off uint64) {
	l, ac, addr := w.launch, in.access, device.Ptr(seg.base+off)
	if l.crash != nil || !l.domain.Holds(addr) {
		return
	}
	t := w.name(lane)
	if ac.order == orderRelease || ac.order == orderAcqRel {
		if l.crash = l.domain.Release(t, ac.scope, w.before(lane)); l.crash != nil {
			return
		}
	}
	c := seg.history.at(off)
	l.domain.stores = append(l.domain.stores, stored{c, c.top().mark})
	l.crash = l.domain.Store(t, addr, seg.data[off:off+uint64(ac.size)])
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
