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
	mem    []byte  // keeps Go memory reachable
	owner  *Device // device that page-locked or mapped the memory
	host   bool    // allocated by AllocHost
}

// ranges is a set of spans: the page-locked host memory of a process, or the memory mapped on one
// GPU. Copies look up memory in it to find out whether the memory needs staging. Changes are rare.
type ranges struct {
	n     atomic.Int32 // len(spans), read without the lock
	mu    sync.RWMutex
	spans []span // disjoint, ascending by address
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// add inserts memory unless it overlaps a span. Memory that the driver has just page-locked
// overlaps no span, because the driver refuses to lock memory twice.
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

// covers reports whether a span contains the byte at an address.
func (r *ranges) covers(at uintptr) bool {
	if r.n.Load() == 0 {
		return false
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	// i is the first span that starts after at.
	i, _ := r.search(at + 1)
	return i > 0 && r.spans[i-1].hi > at
}

// overlaps reports whether a span contains a byte of b.
func (r *ranges) overlaps(b []byte) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.overlap(b)
}

// overlap is the body of overlaps. Callers hold the lock.
func (r *ranges) overlap(b []byte) bool {
	i, _ := r.search(address(b)) // first span that starts at or after b
	return i > 0 && r.spans[i-1].hi > address(b) ||
		i < len(r.spans) && r.spans[i].lo < address(b)+uintptr(len(b))
}

// search returns the index of the first span from lo on, and whether that span starts at lo.
func (r *ranges) search(lo uintptr) (int, bool) {
	return slices.BinarySearchFunc(r.spans, lo, func(s span, lo uintptr) int { return cmp.Compare(s.lo, lo) })
}

// remove deletes the span of exactly b with the given owner and host. It reports whether it did.
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

// removeOwner deletes all spans of owner.
func (r *ranges) removeOwner(owner *Device) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spans = slices.DeleteFunc(r.spans, func(s span) bool { return s.owner == owner })
	r.n.Store(int32(len(r.spans)))
}

// holds reports whether one span contains all of b.
func (r *ranges) holds(b []byte) bool {
	_, ok := r.find(b)
	return ok
}

// find returns the span that contains all of b.
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
