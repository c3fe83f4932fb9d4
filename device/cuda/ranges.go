package cuda

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// span is a range of host memory that is page-locked or mapped.
type span struct {
	lo, hi uintptr
	mem    []byte  // keeps Go memory reachable until it is given back
	owner  *Device // through which it was page-locked
	host   bool    // made by AllocHost
}

// ranges are the page-locked host memory of a process, or what a GPU maps of
// it. Copies ask it whether memory needs staging; it is changed rarely.
type ranges struct {
	n     atomic.Int32 // len(spans), read without the lock
	mu    sync.RWMutex
	spans []span // by address, disjoint
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// add enters memory, unless it overlaps what is there. Memory that the driver
// has just page-locked does not: it refuses to lock memory twice.
func (r *ranges) add(owner *Device, b []byte, host bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.overlap(b) {
		return false
	}
	i, _ := r.search(address(b))
	r.spans = slices.Insert(r.spans, i, span{address(b), address(b) + uintptr(len(b)), b, owner, host})
	r.n.Store(int32(len(r.spans)))
	return true
}

// covers reports whether the byte at an address is held.
func (r *ranges) covers(at uintptr) bool {
	if r.n.Load() == 0 {
		return false
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	i, _ := r.search(at + 1) // the first that does not begin at or before it
	return i > 0 && r.spans[i-1].hi > at
}

// overlaps reports whether a byte of b is held.
func (r *ranges) overlaps(b []byte) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.overlap(b)
}

// overlap is overlaps with the lock held.
func (r *ranges) overlap(b []byte) bool {
	i, _ := r.search(address(b)) // the first that does not begin before b
	return i > 0 && r.spans[i-1].hi > address(b) ||
		i < len(r.spans) && r.spans[i].lo < address(b)+uintptr(len(b))
}

// search finds the position of the first span that starts at or after lo.
func (r *ranges) search(lo uintptr) (int, bool) {
	return slices.BinarySearchFunc(r.spans, lo, func(s span, lo uintptr) int { return cmp.Compare(s.lo, lo) })
}

// remove takes out exactly b, if it belongs to owner and is of the kind asked
// for.
func (r *ranges) remove(owner *Device, b []byte, host bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, ok := r.search(address(b))
	if !ok || len(b) == 0 {
		return false
	}
	if s := r.spans[i]; s.hi != s.lo+uintptr(len(b)) || s.owner != owner || s.host != host {
		return false
	}
	r.spans = slices.Delete(r.spans, i, i+1)
	r.n.Store(int32(len(r.spans)))
	return true
}

// drop takes out everything of owner.
func (r *ranges) drop(owner *Device) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spans = slices.DeleteFunc(r.spans, func(s span) bool { return s.owner == owner })
	r.n.Store(int32(len(r.spans)))
}

// holds reports whether all of b is page-locked.
func (r *ranges) holds(b []byte) bool {
	_, ok := r.find(b)
	return ok
}

// find gives the span that holds all of b.
func (r *ranges) find(b []byte) (span, bool) {
	if r.n.Load() == 0 {
		return span{}, false
	}
	lo := address(b)
	r.mu.RLock()
	defer r.mu.RUnlock()
	i, ok := r.search(lo)
	if !ok {
		i--
	}
	if i < 0 || r.spans[i].lo > lo || lo+uintptr(len(b)) > r.spans[i].hi {
		return span{}, false
	}
	return r.spans[i], true
}
