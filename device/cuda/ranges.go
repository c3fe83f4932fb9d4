package cuda

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// span is a range of page-locked host memory.
type span struct {
	lo, hi uintptr
	mem    []byte  // keeps Go memory reachable while it is registered
	owner  *Device // through which it was page-locked
	host   bool    // made by AllocHost
}

// ranges are the page-locked host memory of a process. Copies ask it whether
// memory needs staging; it is changed rarely.
type ranges struct {
	n     atomic.Int32 // len(spans), read without the lock
	mu    sync.RWMutex
	spans []span // by address, disjoint
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// add enters memory that the driver has just page-locked. The driver refuses
// to lock memory twice, so it overlaps nothing.
func (r *ranges) add(owner *Device, b []byte, host bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, _ := r.search(address(b))
	r.spans = slices.Insert(r.spans, i, span{address(b), address(b) + uintptr(len(b)), b, owner, host})
	r.n.Store(int32(len(r.spans)))
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
	if r.n.Load() == 0 {
		return false
	}
	lo := address(b)
	r.mu.RLock()
	defer r.mu.RUnlock()
	i, ok := r.search(lo)
	if !ok {
		i--
	}
	return i >= 0 && r.spans[i].lo <= lo && lo+uintptr(len(b)) <= r.spans[i].hi
}
