package horton

import (
	"math"

	"github.com/weftgo/weft/internal/cpu"
)

// mostNodes bounds a search for room: so many secondary keys are tried (twin: kNodes).
const mostNodes = 512

// longSearch is how many keys a search has tried when no more pieces of a batch run
// on all cores, which cannot be stopped.
const longSearch = 4 * mostNodes

// node is a secondary key that might be moved: the number of its slot, and which node's
// key would come there; that of roots is the new one.
type node struct {
	slot   uint32
	parent int32
}

// mover makes room for keys, with the whole table, by the guidelines of section 5.3:
// primary keys displace secondary ones and each other, and secondary keys only secondary
// ones.
type mover[K cpu.Key, V cpu.Val] struct {
	*cpuTable[K, V]
	still bool  // no key moves
	tried int   // keys, by searches
	fresh int64 // slots in use that were not, less those that have become arrays
	nodes [mostNodes]node
}

// makeRoom is a free slot for a key that is not in the table, or nil if it finds none.
// Where it is in a secondary bucket, the entry says so.
func (m *mover[K, V]) makeRoom(p path[K]) *cpu.Slot[K, V] {
	slots := m.bucket(p.bucket)
	if free := freeSlot(slots); free != nil {
		return free
	}
	if free, _ := m.displace([]uint32{p.bucket}, nobody); free != nil {
		return free
	}
	// Guideline 3: only where no secondary key can leave the bucket.
	if !isArray(last(slots)) && !m.promote(p.bucket) {
		return nil
	}
	if free := m.remap(home{p.bucket, tagOf[K, V](p.key)}); free != nil || m.still {
		return free
	}
	return m.swap(p.bucket)
}

// promote makes a full bucket one of type B: one of its primary keys goes to a secondary
// bucket, the key in the last slot takes its slot, and the last slot becomes the array.
func (m *mover[K, V]) promote(bucket uint32) bool {
	if m.still {
		return false
	}
	slots := m.bucket(bucket)
	for i := len(slots) - 1; i >= 0; i-- {
		if twins(m.geometry, slots[i].Key) != bucket>>1 {
			continue
		}
		h := home{bucket, tagOf[K, V](slots[i].Key)}
		free, at := m.roomFor(h)
		if free == nil {
			continue
		}
		m.take(free)
		*free = slots[i]
		slots[i] = *last(slots)
		m.fresh--
		put(last(slots), emptyArray[K, V]())
		m.point(h, at)
		return true
	}
	return false
}

// take counts a slot that a key is moved to.
func (m *mover[K, V]) take(free *cpu.Slot[K, V]) {
	if free.Key == cpu.Sentinel[K](cpu.Empty) {
		m.fresh++
	}
}

// swap moves one of the primary keys of a bucket of type B to a secondary bucket, and
// returns its slot. Since both that key and the new one are primary, lookups get no
// longer by it (section 5.3.4).
func (m *mover[K, V]) swap(bucket uint32) *cpu.Slot[K, V] {
	slots := m.bucket(bucket)
	for i := range slots[:len(slots)-1] {
		if twins(m.geometry, slots[i].Key) != bucket>>1 {
			continue
		}
		if free := m.remap(home{bucket, tagOf[K, V](slots[i].Key)}); free != nil {
			m.take(free)
			*free = slots[i]
			slots[i].Key = cpu.Sentinel[K](cpu.Dead)
			return &slots[i]
		}
	}
	return nil
}

// remap is a free slot for a key of a home, in the secondary bucket that the entry says
// then; nil, if there is none. The bucket is of type B.
func (m *mover[K, V]) remap(h home) *cpu.Slot[K, V] {
	free, at := m.roomFor(h)
	if free != nil {
		m.point(h, at)
	}
	return free
}

// point sets the entry of a home to a function that gives a bucket.
func (m *mover[K, V]) point(h home, at uint32) {
	s, entries := last(m.bucket(h.bucket)), entriesOf[K, V]()
	i := uint32(1)
	for m.secondary(h, entries, i) != at {
		i++
	}
	put(s, arrayOf(s).with(h.tag, i))
}

// roomFor is a free slot for one more key of a home in a secondary bucket, and which it
// is: where others are, or, if there are none, the one with the least load, for which
// another secondary key is moved if need be.
func (m *mover[K, V]) roomFor(h home) (free *cpu.Slot[K, V], at uint32) {
	entries := entriesOf[K, V]()
	if s := last(m.bucket(h.bucket)); isArray(s) {
		if i := arrayOf(s).entry(h.tag); i != 0 {
			at = m.secondary(h, entries, i)
			if free = freeSlot(m.bucket(at)); free != nil {
				return free, at
			}
			if m.anyOf(h, at) {
				return m.displace([]uint32{at}, h)
			}
		}
	}
	var among [functions]uint32
	n, most := 0, 0
	for i := uint32(1); i <= functions; i++ {
		b := m.secondary(h, entries, i)
		if b>>1 == h.bucket>>1 {
			continue
		}
		among[n] = b
		n++
		if s, count := countFree(m.bucket(b)); count > most {
			free, at, most = s, b, count
		}
	}
	if free == nil {
		return m.displace(among[:n], h)
	}
	return free, at
}

// countFree counts the slots without a key, of which it returns the first.
func countFree[K cpu.Key, V cpu.Val](slots []cpu.Slot[K, V]) (first *cpu.Slot[K, V], n int) {
	for i := len(slots) - 1; i >= 0; i-- {
		if isFree(slots[i].Key) {
			first = &slots[i]
			n++
		}
	}
	return first, n
}

// anyOf reports whether a key of a home is in a bucket.
func (m *mover[K, V]) anyOf(h home, at uint32) bool {
	slots := m.bucket(at)
	for i := range slots {
		if m.isOf(h, &slots[i], at) {
			return true
		}
	}
	return false
}

// displace makes room in one of some full buckets: by a breadth-first search for the
// shortest sequence of moves, each of a secondary key to another bucket of its own, of
// which the last is to a free slot. Keys that share their entry stay, since it says where
// all of them are, and so do those of a home. It returns the slot, which is dead, and
// its bucket; or nil.
func (m *mover[K, V]) displace(buckets []uint32, stay home) (free *cpu.Slot[K, V], at uint32) {
	if m.still {
		return nil, 0
	}
	n := 0
	for _, b := range buckets {
		n = m.spread(n, b, -1, stay)
	}
	entries := entriesOf[K, V]()
	for at := 0; at < n; at++ {
		m.tried++
		s, b := m.slot(m.nodes[at].slot), m.nodes[at].slot>>m.shift
		h := homeOf[K, V](m.geometry, s.Key, b)
		for i := uint32(1); i <= functions; i++ {
			to := m.secondary(h, entries, i)
			if to>>1 == h.bucket>>1 || to == b {
				continue
			}
			if free := freeSlot(m.bucket(to)); free != nil {
				return m.shiftAlong(int32(at), free, to)
			}
			n = m.spread(n, to, int32(at), stay)
		}
	}
	return nil, 0
}

// nobody is the home of no key.
var nobody = home{bucket: math.MaxUint32}

// spread adds the secondary keys of a bucket to the nodes that may be moved, as far as
// there is room.
func (m *mover[K, V]) spread(n int, bucket uint32, parent int32, stay home) int {
	var homes [mostSlots]home
	slots := m.bucket(bucket)
	for i := range slots {
		if homes[i] = (home{bucket, 0}); isKey(&slots[i]) {
			homes[i] = homeOf[K, V](m.geometry, slots[i].Key, bucket)
		}
	}
	for i := range slots {
		h := homes[i]
		if n == len(m.nodes) {
			break
		}
		if h.bucket == bucket || h == stay || shared(homes[:len(slots)], i) {
			continue
		}
		m.nodes[n] = node{bucket<<m.shift + uint32(i), parent}
		n++
	}
	return n
}

// shared reports whether another key has the home of number i.
func shared(homes []home, i int) bool {
	for j := range homes {
		if j != i && homes[j] == homes[i] {
			return true
		}
	}
	return false
}

// shiftAlong moves the key of a node to a free slot of a bucket, that of its parent to
// its own, and so on, and returns the slot that is free in the end, and its bucket. None
// comes twice on the way: the search goes on from it the same way whenever it comes there, so the
// shortest way takes it once.
func (m *mover[K, V]) shiftAlong(at int32, to *cpu.Slot[K, V], bucket uint32) (*cpu.Slot[K, V], uint32) {
	m.take(to)
	for ; at >= 0; at = m.nodes[at].parent {
		number := m.nodes[at].slot
		from := m.slot(number)
		h := homeOf[K, V](m.geometry, from.Key, number>>m.shift)
		*to = *from
		from.Key = cpu.Sentinel[K](cpu.Dead)
		m.point(h, bucket)
		to, bucket = from, number>>m.shift
	}
	return to, bucket
}
