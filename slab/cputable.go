package slab

import (
	"iter"
	"unsafe"

	"github.com/weftgo/weft/alloc"
)

// cpuTable reads and writes a generation from Go. All pointer arithmetic is in
// base, alloc.Local, slots and linkOf.
type cpuTable[K storedKey, V storedVal] struct {
	geometry
	bases unsafe.Pointer
	units alloc.Local // the slabs behind the base slabs
}

func tableOf[K storedKey, V storedVal](g *generation) cpuTable[K, V] {
	return cpuTable[K, V]{
		geometry: g.geometry,
		bases:    unsafe.Pointer(unsafe.SliceData(g.base.Host)),
		units:    g.units.Local(),
	}
}

// base is the first slab of a bucket.
func (t *cpuTable[K, V]) base(bucket uint32) unsafe.Pointer {
	return unsafe.Add(t.bases, uintptr(bucket)*slabBytes)
}

// unit is a slab behind a base slab, by its address.
func (t *cpuTable[K, V]) unit(address uint32) unsafe.Pointer {
	return t.units.At(address)
}

func linkOf(slab unsafe.Pointer) *link { return (*link)(unsafe.Add(slab, linkAt)) }

// next is the slab behind a slab, or nil.
func (t *cpuTable[K, V]) next(slab unsafe.Pointer) unsafe.Pointer {
	if u := linkOf(slab).next; u != noUnit {
		return t.unit(u)
	}
	return nil
}

// slots are those of a slab.
func (t *cpuTable[K, V]) slots(slab unsafe.Pointer) []slot[K, V] {
	return unsafe.Slice((*slot[K, V])(slab), t.perSlab())
}

// perSlab is the number of slots in a slab: a constant of each instantiation.
func (t *cpuTable[K, V]) perSlab() int {
	var s slot[K, V]
	return linkAt / int(unsafe.Sizeof(s))
}

// full tells whether a slab has no empty slot: whether the bucket goes on.
func (t *cpuTable[K, V]) full(slab unsafe.Pointer) bool {
	slots := t.slots(slab)
	return slots[len(slots)-1].key != mark[K](markEmpty)
}

// match is the first slot of a slab that holds a key, by number; a number
// beyond the last slot, if there is none.
//
// It takes the same steps whatever it finds, because one jump that a core
// expects wrongly costs as much as looking at a whole slab. For the same reason
// it looks at the link too, as if there were a slot. The compiler makes
// conditional moves of the assignments if the result is not an address in the
// same function.
//
//go:noinline
func match[K storedKey, V storedVal](slab unsafe.Pointer, key K) int {
	var one slot[K, V]
	size := int(unsafe.Sizeof(one))
	at := slabBytes / size
	eight := unsafe.Add(slab, slabBytes)
	for i := slabBytes/size - 8; i >= 0; i -= 8 {
		eight = unsafe.Add(eight, -8*size)
		s := (*[8]slot[K, V])(eight)
		in := 8
		if s[7].key == key {
			in = 7
		}
		if s[6].key == key {
			in = 6
		}
		if s[5].key == key {
			in = 5
		}
		if s[4].key == key {
			in = 4
		}
		if s[3].key == key {
			in = 3
		}
		if s[2].key == key {
			in = 2
		}
		if s[1].key == key {
			in = 1
		}
		if s[0].key == key {
			in = 0
		}
		if in < 8 {
			at = i + in
		}
	}
	return at
}

// find is the first slot of a stored key in a bucket, or nil. Slots fill in
// order, so an empty one ends the search.
func (t *cpuTable[K, V]) find(base unsafe.Pointer, key K) *slot[K, V] {
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

// graves looks for dead slots in a bucket: the first of all, and the one that
// remembers a key.
func (t *cpuTable[K, V]) graves(base unsafe.Pointer, key K) (first, own *slot[K, V]) {
	for slab := base; slab != nil; slab = t.next(slab) {
		slots := t.slots(slab)
		for i := range slots {
			switch slots[i].key {
			case mark[K](markEmpty):
				return first, own
			case mark[K](markDead):
				if first == nil {
					first = &slots[i]
				}
				if own == nil && remembers(&slots[i], key) {
					own = &slots[i]
				}
			}
		}
	}
	return first, own
}

// end is the first empty slot of a bucket, in a new slab if need be; nil if
// there is none to be had. It begins where the bucket's hint says.
func (t *cpuTable[K, V]) end(base unsafe.Pointer, units *alloc.Worker) *slot[K, V] {
	slab := base
	if tail := linkOf(base).tail; tail != noUnit {
		slab = t.unit(tail)
	}
	for t.full(slab) {
		next := linkOf(slab).next
		if next == noUnit {
			if next = units.One(); next == noUnit {
				return nil
			}
			linkOf(slab).next = next
		}
		slab = t.unit(next)
		linkOf(base).tail = next
	}
	return &t.slots(slab)[match[K, V](slab, mark[K](markEmpty))]
}

// remembers tells whether a dead slot was the key's. A set's slots cannot
// remember.
func remembers[K storedKey, V storedVal](s *slot[K, V], key K) bool {
	return unsafe.Sizeof(s.val) != 0 && *(*K)(unsafe.Pointer(&s.val)) == key
}

// kill makes a live slot dead.
func kill[K storedKey, V storedVal](s *slot[K, V]) {
	if unsafe.Sizeof(s.val) != 0 {
		*(*K)(unsafe.Pointer(&s.val)) = s.key
	}
	s.key = mark[K](markDead)
}

// live iterates over the live slots of buckets [lo,hi), each bucket in order.
func (t *cpuTable[K, V]) live(lo, hi uint32) iter.Seq[*slot[K, V]] {
	return func(yield func(*slot[K, V]) bool) {
		for b := lo; b < hi; b++ {
			for slab := t.base(b); slab != nil; slab = t.next(slab) {
				slots := t.slots(slab)
				for i := range slots {
					if slots[i].key == mark[K](markEmpty) {
						break
					}
					if !isMark(slots[i].key) && !yield(&slots[i]) {
						return
					}
				}
			}
		}
	}
}

// killAll makes all live slots of a stored key dead, and counts them.
func (t *cpuTable[K, V]) killAll(base unsafe.Pointer, key K) (n uint32) {
	for slab := base; slab != nil; slab = t.next(slab) {
		on := matches(t.slots(slab), key, func(s *slot[K, V]) {
			kill(s)
			n++
		})
		if !on {
			break
		}
	}
	return n
}
