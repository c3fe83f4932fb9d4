package number

import (
	"math/bits"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/weftgo/weft/internal/hostmem"
)

// mapped is the memory of an index outside the Go heap, in huge pages. All parts have the same
// number of slots there. A part that needs more has its slots on the Go heap, until resize enlarges
// the mapping for all parts. If an index is not closed, the collector frees the mapping.
type mapped struct {
	cleanup runtime.Cleanup
	memory  []byte // nil: all parts are on the Go heap
	per     int    // slots per part
	grown   atomic.Bool
}

const (
	// At most 1/strayShare of all parts may be on the Go heap.
	strayShare = 16
	// moveBytes is the number of bytes to move before their old memory is returned.
	moveBytes = 4 * hostmem.HugePage
)

// newMapped returns the mapping of an index, which has no memory yet. Callers must keep the index
// reachable until its methods return.
func newMapped(x *inHost) *mapped {
	m := new(mapped)
	m.cleanup = runtime.AddCleanup(x, func(m *mapped) { _ = m.free() }, m)
	return m
}

func (m *mapped) close() error {
	if m == nil {
		return nil
	}
	m.cleanup.Stop()
	return m.free()
}

func (m *mapped) free() error {
	if m.memory == nil {
		return nil
	}
	return hostmem.Unmap(m.memory)
}

// expect reserves memory for new keys. Parameter more is the number of new keys in the given rows.
// From it, expect estimates the number of new keys in the rows after them. Small parts on the Go
// heap get this memory when they grow.
func (x *inHost) expect(more, rows int) {
	if x.measured {
		return
	}
	later := min(more*x.coming/rows, x.n+more)
	x.want = slotsForShare(x.n+more+later, len(x.parts))
	x.resize(more, later)
}

// resize moves the index to a new mapping if the index is large enough for one, or exceeds its
// mapping. Parameters more and later are the numbers of keys to be added now and after that. See
// move for the memory of both mappings.
func (x *inHost) resize(more, later int) {
	m, parts := x.mapped, len(x.parts)
	if m == nil {
		return
	}
	need, size := slotsForShare(x.n+more, parts), slotsForShare(x.n+more+later, parts)
	if m.memory == nil {
		if bytesOf(parts*need) >= hostmem.HugePage {
			x.move(parts, size)
		}
		return
	}
	strays := 0
	if m.grown.Swap(false) {
		for i := range x.parts {
			if len(x.parts[i].slots) > m.per {
				strays++
			}
		}
	}
	if need > m.per || strays > parts/strayShare {
		x.move(parts, max(size, m.per+m.per/2))
	}
}

// move moves the index to a new mapping with n parts of the given number of slots. It returns false
// if the system lacks the memory. It returns the old mapping piece by piece, so that old and new
// slots never take memory as a whole.
func (x *inHost) move(n, slots int) bool {
	memory, err := hostmem.Map(int(bytesOf(n * slots)))
	if err != nil {
		return false
	}
	old, from := x.parts, x.mapped.memory
	size := int(bytesOf(x.mapped.per))
	x.parts, x.shift = make([]part, n), uint(bits.TrailingZeros(uint(n)))
	x.mapped.memory, x.mapped.per = memory, slots
	all := unsafe.Slice((*slot)(unsafe.Pointer(unsafe.SliceData(memory))), n*slots)
	for i := range x.parts {
		x.parts[i].slots = all[i*slots : (i+1)*slots : (i+1)*slots]
		if n == len(old) {
			x.parts[i].fresh, x.parts[i].moved = old[i].fresh, old[i].fresh
		}
	}
	step := max(1, moveBytes/(size+1))
	for lo, returned := 0, 0; lo < len(old); lo += step {
		some := old[lo:min(lo+step, len(old))]
		x.parallel(len(some), 1, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				x.enterAll(some[i].slots)
				some[i].slots = nil
			}
		})
		if end := (lo + len(some)) * size &^ (hostmem.HugePage - 1); end > returned {
			hostmem.Discard(from[returned:end])
			returned = end
		}
	}
	if from != nil {
		_ = hostmem.Unmap(from) // fails only for what Map has not returned
	}
	return true
}

// enterAll enters the keys in slots with their numbers.
func (x *inHost) enterAll(slots []slot) {
	var p *part
	room := 0
	for _, s := range slots {
		if s.number == 0 {
			continue
		}
		if to := x.part(s.key()); to != p {
			p, room = to, to.room()
		}
		if room == 0 {
			x.grow(p, stretch(len(p.slots), p.n+1))
			room = p.room()
		}
		settle(p.slots, s, x.home(s.key(), len(p.slots)))
		p.n++
		room--
	}
}
