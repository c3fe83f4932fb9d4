package sim

import "github.com/weftgo/weft/device"

// A Thread is the place of a thread in a launch.
type Thread struct {
	Launch int    // number of earlier launches of the device
	Block  [3]int // in the grid
	Warp   int    // in the block
	Lane   int    // in the warp
}

// A Domain observes the stores of kernels to memory that survives a crash, and the events that
// order them. Its methods are called in the order in which the scheduler lets stores take effect.
// If one returns an error, that is a crash at that point: the launch ends at once, the device is
// lost with the error as its cause, and the domain decides what survives.
//
// It does not observe loads, but [Before] includes their ordering. Stores that a thread has
// acquired from others, or has seen by accesses that are morally strong with them, count as its
// own.
type Domain interface {
	// Holds reports whether memory at addr survives. Stores elsewhere are not reported.
	Holds(addr device.Ptr) bool
	// Store reports that a thread's store or atomic operation has changed memory at addr to data.
	// data has 1 to 16 bytes and is valid during the call only. Stores are numbered from 0 in the
	// order of the calls.
	Store(t Thread, addr device.Ptr, data []byte) error
	// Release is called just before the Store of a releasing access. For the threads of the scope,
	// the stores before it are ordered before that store, and before no later store of the thread.
	Release(t Thread, scope Scope, before Before) error
	// Fence reports that, for the threads of the scope, the stores before it are ordered before all
	// later accesses of the thread.
	Fence(t Thread, scope Scope, before Before) error
}

// Before reports whether the store with that number comes before a fence or a release of a thread
// in PTX's causality order. It does if the thread made the store, has seen it or has acquired it,
// or if a launch ordered before did. It is valid during the call that it is passed to.
type Before func(store int) bool

// A journal numbers the stores reported to a domain, and stores enough of them to decide which
// threads have seen them.
type journal struct {
	Domain
	stores []storeRecord
}

type storeRecord struct {
	cell *cell // first cell that it changed
	mark mark
}

// before returns what a lane's thread has seen by now.
func (w *warp) before(lane int) Before {
	t, stores := &w.threads[lane], w.launch.domain.stores
	return func(store int) bool {
		return store >= 0 && store < len(stores) && t.hasSeen(stores[store].cell, &stores[store].mark)
	}
}

// threadAt returns the place of a lane's thread.
func (w *warp) threadAt(lane int) Thread {
	return Thread{Launch: w.launch.number, Block: w.block.at, Warp: w.index, Lane: lane}
}

// persist reports a store that has just changed memory.
func (w *warp) persist(in *instr, lane int, seg *segment, off uint64) {
	l, ac, addr := w.launch, in.access, device.Ptr(seg.base+off)
	if l.crash != nil || !l.domain.Holds(addr) {
		return
	}
	t := w.threadAt(lane)
	if ac.order == orderRelease || ac.order == orderAcqRel {
		if l.crash = l.domain.Release(t, ac.scope, w.before(lane)); l.crash != nil {
			return
		}
	}
	c := seg.history.at(off)
	l.domain.stores = append(l.domain.stores, storeRecord{c, c.top().mark})
	l.crash = l.domain.Store(t, addr, seg.data[off:off+uint64(ac.size)])
}

// An Access is one element of global memory that a thread read or wrote.
type Access struct {
	Thread Thread
	Addr   device.Ptr
	Size   int  // bytes
	Write  bool // a store, or an atomic operation
}

// watchAccess reports an access.
func (w *warp) watchAccess(in *instr, lane int, seg *segment, off uint64, write bool) {
	if seg.base >= heapBase {
		w.launch.watch(Access{w.threadAt(lane), device.Ptr(seg.base + off), in.access.size, write})
	}
}
