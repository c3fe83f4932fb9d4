package sim

import "github.com/weftgo/weft/device"

// Thread identifies a thread of a launch.
type Thread struct {
	Launch int    // number of earlier launches on the device
	Block  [3]int // index of the block in the grid
	Warp   int    // index of the warp in the block
	Lane   int    // index of the lane in the warp
}

// Domain observes the stores of kernels to memory that survives a crash, and the events that order
// these stores. The device calls its methods in the order in which stores take effect. If a method
// returns an error, the device simulates a crash at that point: the launch ends at once, and the
// device is lost with the error as its cause. The domain then decides which stores survive.
//
// A domain does not observe loads, but [Before] includes the order that they create. Stores that a
// thread has acquired from other threads, or has seen by morally strong accesses, count as its own.
type Domain interface {
	// Holds reports whether memory at addr survives a crash. Other stores are not reported.
	Holds(addr device.Ptr) bool
	// Store reports that a store or an atomic operation of t has changed memory at addr to data.
	// data has 1 to 16 bytes and is valid only during the call. Calls number the stores from 0.
	Store(t Thread, addr device.Ptr, data []byte) error
	// Release is called just before the Store of a releasing access. For threads in scope, the
	// stores for which before returns true precede that store. They need not precede later stores
	// of t.
	Release(t Thread, scope Scope, before Before) error
	// Fence reports that, for threads in scope, the stores for which before returns true precede
	// all later accesses of t.
	Fence(t Thread, scope Scope, before Before) error
}

// Before reports whether a store precedes a fence or a release of a thread in PTX's causality
// order. The store precedes it if the thread has made, seen or acquired the store, or if an earlier
// launch did, in the order of works. A Before is valid during the call that receives it.
type Before func(store int) bool

// journal numbers the stores that a domain receives, with data to tell which threads have seen
// them.
type journal struct {
	Domain
	stores []storeRecord
}

type storeRecord struct {
	cell *cell // first cell that the store changed
	mark mark
}

// before returns a Before for the stores that a lane's thread has seen by now.
func (w *warp) before(lane int) Before {
	t, stores := &w.threads[lane], w.launch.domain.stores
	return func(store int) bool {
		return store >= 0 && store < len(stores) && t.hasSeen(stores[store].cell, &stores[store].mark)
	}
}

// threadAt returns the thread of a lane.
func (w *warp) threadAt(lane int) Thread {
	return Thread{Launch: w.launch.number, Block: w.block.at, Warp: w.index, Lane: lane}
}

// persist reports to the domain a store that has just changed memory.
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

// Access is a read or write of one element of global memory by one thread.
type Access struct {
	Thread Thread
	Addr   device.Ptr
	Size   int  // in bytes
	Write  bool // whether it is a store or an atomic operation
}

// watchAccess passes an access to global memory to Options.Watch.
func (w *warp) watchAccess(in *instr, lane int, seg *segment, off uint64, write bool) {
	if seg.base >= heapBase {
		w.launch.watch(Access{w.threadAt(lane), device.Ptr(seg.base + off), in.access.size, write})
	}
}
