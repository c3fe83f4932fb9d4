package slab

import (
	"iter"
	"sync/atomic"
	"unsafe"

	"github.com/weftgo/weft/alloc"
	"github.com/weftgo/weft/internal/cpu"
)

// cpuTable reads and writes a generation in Go. Only base, alloc.Local, slots and linkOf use
// pointer arithmetic.
type cpuTable[K cpu.Key, V cpu.Val] struct {
	geometry
	bases    unsafe.Pointer
	vertices []vertex    // nil unless the table is a graph
	units    alloc.Local // chained slabs
	long     *atomic.Bool
}

// A bucket counts as long if it has at least longChain chained slabs. A piece of changes to a
// single shorter bucket, in the cache, does not delay cancellation noticeably.
const longChain = 32

func tableOf[K cpu.Key, V cpu.Val](g *generation) cpuTable[K, V] {
	t := cpuTable[K, V]{
		geometry: g.geometry,
		bases:    unsafe.Pointer(unsafe.SliceData(g.Buf.Host)),
		units:    g.units.Local(),
		long:     &g.long,
	}
	if g.dict != nil {
		t.vertices = g.dict.entries()
	}
	return t
}

// base returns the base slab of a bucket.
func (t *cpuTable[K, V]) base(bucket uint32) unsafe.Pointer {
	return unsafe.Add(t.bases, uintptr(bucket)*slabBytes)
}

// unit returns the chained slab at an address.
func (t *cpuTable[K, V]) unit(address uint32) unsafe.Pointer {
	return t.units.At(address)
}

func linkOf(slab unsafe.Pointer) *link { return (*link)(unsafe.Add(slab, linkAt)) }

// next returns the slab that follows a slab, or nil.
func (t *cpuTable[K, V]) next(slab unsafe.Pointer) unsafe.Pointer {
	if u := linkOf(slab).next; u != noUnit {
		return t.unit(u)
	}
	return nil
}

func (t *cpuTable[K, V]) slots(slab unsafe.Pointer) []cpu.Slot[K, V] {
	return unsafe.Slice((*cpu.Slot[K, V])(slab), t.perSlab())
}

// perSlab returns the number of slots in a slab, a constant of each instantiation.
func (t *cpuTable[K, V]) perSlab() int {
	var s cpu.Slot[K, V]
	return linkAt / int(unsafe.Sizeof(s))
}

// full reports whether a slab has no empty slot. Only then may the bucket have another slab.
func (t *cpuTable[K, V]) full(slab unsafe.Pointer) bool {
	slots := t.slots(slab)
	return slots[len(slots)-1].Key != cpu.Sentinel[K](cpu.Empty)
}

// match returns the index of the first slot of a slab that holds a key, or an index beyond the last
// slot.
//
// match takes the same steps for all slabs, because one mispredicted jump costs as much as reading
// a whole slab. For the same reason it also reads the link, as if it were a slot. The compiler
// turns the assignments into conditional moves if the result is not used as an address in the same
// function.
//
//go:noinline
func match[K cpu.Key, V cpu.Val](slab unsafe.Pointer, key K) int {
	var one cpu.Slot[K, V]
	size := int(unsafe.Sizeof(one))
	at := slabBytes / size
	eight := unsafe.Add(slab, slabBytes)
	for i := slabBytes/size - 8; i >= 0; i -= 8 {
		eight = unsafe.Add(eight, -8*size)
		s := (*[8]cpu.Slot[K, V])(eight)
		in := 8
		if s[7].Key == key {
			in = 7
		}
		if s[6].Key == key {
			in = 6
		}
		if s[5].Key == key {
			in = 5
		}
		if s[4].Key == key {
			in = 4
		}
		if s[3].Key == key {
			in = 3
		}
		if s[2].Key == key {
			in = 2
		}
		if s[1].Key == key {
			in = 1
		}
		if s[0].Key == key {
			in = 0
		}
		if in < 8 {
			at = i + in
		}
	}
	return at
}

// find returns the first slot of a bucket that holds key, in its stored form, or nil. Slots fill in
// order, so an empty slot ends the search.
func (t *cpuTable[K, V]) find(base unsafe.Pointer, key K) *cpu.Slot[K, V] {
	for slab := base; slab != nil; slab = t.next(slab) {
		if at := match[K, V](slab, key); at < t.perSlab() {
			return &t.slots(slab)[at]
		}
		if !t.full(slab) {
			break
		}
	}
	return nil
}

// tombstones returns two dead slots of a bucket, or nil: the first of all, and the first that
// remembers a key.
func (t *cpuTable[K, V]) tombstones(base unsafe.Pointer, key K) (first, ownDead *cpu.Slot[K, V]) {
	for slab := base; slab != nil; slab = t.next(slab) {
		slots := t.slots(slab)
		for i := range slots {
			switch slots[i].Key {
			case cpu.Sentinel[K](cpu.Empty):
				return first, ownDead
			case cpu.Sentinel[K](cpu.Dead):
				if first == nil {
					first = &slots[i]
				}
				if ownDead == nil && slots[i].HeldKey(key) {
					ownDead = &slots[i]
				}
			}
		}
	}
	return first, ownDead
}

// appendSlot returns the first empty slot of a bucket. If all slots are full, it links a new slab,
// or returns nil if the pool is empty. It begins at the tail hint of the bucket (link.tail).
func (t *cpuTable[K, V]) appendSlot(base unsafe.Pointer, units *alloc.Worker) *cpu.Slot[K, V] {
	slab := base
	if tail := linkOf(base).tail; tail != noUnit {
		slab = t.unit(tail)
	}
	for t.full(slab) {
		next := linkOf(slab).next
		if next == noUnit {
			if next = units.AllocateOne(); next == noUnit {
				return nil
			}
			t.setChainNumber(next, slab, base)
			linkOf(slab).next = next
		}
		slab = t.unit(next)
		linkOf(base).tail = next
	}
	return &t.slots(slab)[match[K, V](slab, cpu.Sentinel[K](cpu.Empty))]
}

// setChainNumber stores in a new slab its number in the chain. It stores nothing if a GPU wrote the
// preceding slab, since GPUs do not number slabs.
func (t *cpuTable[K, V]) setChainNumber(unit uint32, prev, base unsafe.Pointer) {
	n := uint32(1)
	if prev != base {
		if n += linkOf(prev).tail; n == 0 {
			return
		}
	}
	if linkOf(t.unit(unit)).tail = n; n == longChain {
		t.long.Store(true)
	}
}

// chainLength returns the number of slabs of a bucket up to its tail hint (link.tail).
func (t *cpuTable[K, V]) chainLength(base unsafe.Pointer) int {
	if tail := linkOf(base).tail; tail != noUnit {
		return max(1, int(linkOf(t.unit(tail)).tail+1)) // the sum is 0 if the slab has no number
	}
	return 1
}

// live iterates over the live slots of buckets [lo,hi), bucket by bucket.
func (t *cpuTable[K, V]) live(lo, hi uint32) iter.Seq[*cpu.Slot[K, V]] {
	return func(yield func(*cpu.Slot[K, V]) bool) {
		for b := lo; b < hi; b++ {
			for slab := t.base(b); slab != nil; slab = t.next(slab) {
				slots := t.slots(slab)
				for i := range slots {
					if slots[i].Key == cpu.Sentinel[K](cpu.Empty) {
						break
					}
					if !isSentinel(slots[i].Key) && !yield(&slots[i]) {
						return
					}
				}
			}
		}
	}
}

// deleteAll marks all slots of a bucket that hold key, in its stored form, as dead. It returns
// their number.
func (t *cpuTable[K, V]) deleteAll(base unsafe.Pointer, key K) (n uint32) {
	for slab := base; slab != nil; slab = t.next(slab) {
		continues := visitMatches(t.slots(slab), key, func(s *cpu.Slot[K, V]) {
			s.MarkDead()
			n++
		})
		if !continues {
			break
		}
	}
	return n
}
