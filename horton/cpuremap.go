package horton

import (
	"math"

	"github.com/weftgo/weft/internal/cpu"
)

// mostNodes bounds a search for room: so many secondary keys are tried (twin: kNodes).
const mostNodes = 512

// mostTried bounds the searches for room for one key: each of two rounds, of which the second moves
// primary keys, too, ends after so many keys or homes were tried.
const mostTried = 4 * mostNodes

// longSearch is how many keys the searches for one have tried when no more pieces of a
// batch run on all cores, which cannot be stopped.
const longSearch = 4 * mostNodes

// node is a secondary key that might be moved: the number of its slot, and which node's
// key would come there; that of roots is the new one.
type node struct {
	slot   uint32
	parent int32
	stays  bool // in its secondary bucket, with others of its entry
}

// mover makes room for keys, with the whole table, by the guidelines of section 5.3:
// primary keys displace secondary ones and each other, and secondary keys only secondary
// ones.
type mover[K cpu.Key, V cpu.Val] struct {
	*cpuTable[K, V]
	still  bool  // no key moves
	urgent bool  // primary keys are moved, too, for secondary ones
	tried  int   // keys, by searches, and homes of keys that room was looked for
	end    int   // what that may come to
	fresh  int64 // slots in use that were empty, less those that no longer are
	nodes  [mostNodes]node
}

// makeRoom is a free slot for a key that is not in the table, or nil if it finds none.
// Where it is in a secondary bucket, the entry says so.
func (m *mover[K, V]) makeRoom(p path[K]) *cpu.Slot[K, V] {
	if free := freeSlot(m.bucket(p.bucket)); free != nil {
		return free
	}
	free := m.roomBy(p)
	if free == nil && !m.still {
		m.urgent = true
		free = m.roomBy(p)
		m.urgent = false
	}
	return free
}

// roomBy is a free slot for a key whose primary bucket is full, or nil.
func (m *mover[K, V]) roomBy(p path[K]) *cpu.Slot[K, V] {
	m.end = m.tried + mostTried
	slots := m.bucket(p.bucket)
	if free := m.displace(m.spread(0, p.bucket<<m.shift, 1<<m.shift, -1, nobody), nobody, none); free != nil {
		return free
	}
	m.displaceShared(p.bucket)
	// Guideline 3: only where no secondary key can leave the bucket. Other moves may
	// have made room on their way, which is seen at the end.
	if freeSlot(slots) == nil && (isArray(last(slots)) || m.promote(p.bucket)) {
		if free := m.remap(home{p.bucket, tagOf[K, V](p.key)}); free != nil {
			return free
		}
		m.swap(p.bucket)
	}
	return freeSlot(slots)
}

// displaceShared moves secondary keys away that share their entry, if there are such in
// a primary bucket.
func (m *mover[K, V]) displaceShared(bucket uint32) {
	for number := bucket << m.shift; number < (bucket+1)<<m.shift && !m.still; number++ {
		s := m.slot(number)
		if !isKey(s) || isPrimary(m.geometry, s.Key, number) {
			continue
		}
		h := homeOf[K, V](m.geometry, s.Key, number)
		if m.shared(h, number) && m.regroup(h, number>>m.wide(), 0) {
			return
		}
	}
}

// promote makes a full bucket one of type B: one of its primary keys goes to a secondary
// bucket, what is in the last slot takes its slot, and the last slot becomes the array.
func (m *mover[K, V]) promote(bucket uint32) bool {
	slots := m.bucket(bucket)
	i := len(slots) - 1
	h, free := home{}, (*cpu.Slot[K, V])(nil)
	for ; i >= 0 && free == nil && !m.still; i-- {
		if m.isHere(bucket, &slots[i]) {
			h = home{bucket, tagOf[K, V](slots[i].Key)}
			free = m.roomFor(h)
		}
	}
	if free == nil {
		return false
	}
	m.take(free)
	*free = slots[i+1]
	slots[i+1] = *last(slots)
	m.fresh--
	put(last(slots), emptyArray[K, V]())
	m.point(h, free)
	return true
}

// isHere reports whether a slot of a primary bucket has a primary key.
func (m *mover[K, V]) isHere(bucket uint32, s *cpu.Slot[K, V]) bool {
	return isKey(s) && twins(m.geometry, s.Key) == bucket>>1
}

// take counts a slot that a key is moved to.
func (m *mover[K, V]) take(free *cpu.Slot[K, V]) {
	if free.Key == cpu.Sentinel[K](cpu.Empty) {
		m.fresh++
	}
}

// swap moves one of the primary keys of a bucket of type B to a secondary bucket. Since
// both that key and the new one, which takes its slot, are primary, lookups get no longer
// by it (section 5.3.4).
func (m *mover[K, V]) swap(bucket uint32) {
	slots := m.bucket(bucket)
	for i := range slots {
		if m.still || !m.isHere(bucket, &slots[i]) {
			continue
		}
		if free := m.remap(home{bucket, tagOf[K, V](slots[i].Key)}); free != nil {
			m.move(&slots[i], free)
			return
		}
	}
}

// move moves a key.
func (m *mover[K, V]) move(from, to *cpu.Slot[K, V]) {
	m.take(to)
	*to = *from
	vacate(from)
	m.fresh--
}

// remap is a free slot for a key of a home, in the secondary bucket that the entry says
// then; nil, if there is none. The bucket of the home is of type B.
func (m *mover[K, V]) remap(h home) *cpu.Slot[K, V] {
	free := m.roomFor(h)
	if free != nil {
		m.point(h, free)
	}
	return free
}

// point sets the entry of a home to a function that gives the secondary bucket of a slot.
func (m *mover[K, V]) point(h home, to *cpu.Slot[K, V]) {
	s, entries, at := last(m.bucket(h.bucket)), entriesOf[K, V](), m.number(to)>>m.wide()
	i := uint32(1)
	for m.secondary(h, entries, i) != at {
		i++
	}
	put(s, arrayOf(s).with(h.tag, i))
}

// roomFor is a free slot for one more key of a home in a secondary bucket: where others
// are, or, if there are none, in the one with the least load, for which another secondary
// key is moved if need be. With the first that has a free slot, a table of 4,000,000 keys
// is filled to 0.9 in about the same time, and to 0.95 in 1.1 us a key instead of 0.8.
func (m *mover[K, V]) roomFor(h home) *cpu.Slot[K, V] {
	if m.tried++; m.tried > m.end {
		return nil
	}
	entries := entriesOf[K, V]()
	if s := last(m.bucket(h.bucket)); isArray(s) {
		if i := arrayOf(s).entry(h.tag); i != 0 {
			at := m.secondary(h, entries, i)
			if free := freeSlot(m.second(at)); free != nil {
				return free
			}
			if m.count(h, at) > 0 {
				return m.roomBeside(h, at)
			}
		}
	}
	var free *cpu.Slot[K, V]
	var full [functions]uint32
	n, most := 0, 0
	for i := uint32(1); i <= functions; i++ {
		at := m.secondary(h, entries, i)
		if m.around(h, at) {
			continue
		}
		full[n] = at
		n++
		if s, count := countFree(m.second(at)); count > most {
			free, most = s, count
		}
	}
	if free != nil {
		return free
	}
	roots := 0
	for _, at := range full[:n] {
		roots = m.spread(roots, at<<m.wide(), 1<<m.wide(), -1, h)
	}
	return m.displace(roots, h, none)
}

// roomBeside is a free slot for one more key of a home, of which others are in a full
// secondary bucket, or they all go to another one.
func (m *mover[K, V]) roomBeside(h home, at uint32) *cpu.Slot[K, V] {
	if free := m.displace(m.spread(0, at<<m.wide(), 1<<m.wide(), -1, h), h, at); free != nil {
		return free
	}
	if m.regroup(h, at, 1) {
		s := last(m.bucket(h.bucket))
		return freeSlot(m.second(m.secondary(h, entriesOf[K, V](), arrayOf(s).entry(h.tag))))
	}
	return nil
}

// clear makes one more slot of a secondary bucket free, where keys of a home stay: by
// moving a secondary key, or, if a key would have no place otherwise, a primary one, which
// is against guideline 1. Else one in 300,000 keys of 32-bit sets has none in buckets of
// two and four slots, so no large table could be filled.
func (m *mover[K, V]) clear(at uint32, stay home) bool {
	first := at << m.wide()
	if m.displace(m.spread(0, first, 1<<m.wide(), -1, stay), stay, at) != nil {
		return true
	}
	if !m.urgent {
		return false
	}
	m.urgent = false // once is enough
	defer func() { m.urgent = true }()
	for number := first; number < first+1<<m.wide(); number++ {
		s, bucket := m.slot(number), number>>m.shift
		if !isArray(last(m.bucket(bucket))) || !m.isHere(bucket, s) {
			continue
		}
		if free := m.remap(home{bucket, tagOf[K, V](s.Key)}); free != nil {
			m.move(s, free)
			return true
		}
	}
	return false
}

// regroup moves the keys of a home, which share an entry, from one secondary bucket to
// another one, in which so many more slots are free then: one that has so many, or else
// one that can be cleared of other keys.
func (m *mover[K, V]) regroup(h home, from uint32, more int) bool {
	entries := entriesOf[K, V]()
	for try := uint32(0); try < 2*functions && !m.still && m.tried < m.end; try++ {
		to := m.secondary(h, entries, try%functions+1)
		if m.around(h, to) || to == from {
			continue
		}
		n := m.count(h, from)
		if n == 0 {
			return false // a search has moved the only one
		}
		_, free := countFree(m.second(to))
		for try >= functions && free < n+more && m.clear(to, h) {
			_, free = countFree(m.second(to))
		}
		if free < n+more || m.count(h, from) != n {
			continue // where others have moved a key of the home meanwhile, too
		}
		slots := m.second(from)
		for i := range slots {
			if m.isOf(h, &slots[i]) {
				m.move(&slots[i], freeSlot(m.second(to)))
			}
		}
		m.point(h, &m.second(to)[0])
		return true
	}
	return false
}

// count is the number of keys of a home in a secondary bucket.
func (m *mover[K, V]) count(h home, at uint32) (n int) {
	slots := m.second(at)
	for i := range slots {
		if m.isOf(h, &slots[i]) {
			n++
		}
	}
	return n
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

// displace makes room where the first n nodes are: by a breadth-first search for the
// shortest sequence of moves, each of a secondary key to another bucket of its own, of
// which the last is to a free slot. Keys that share their entry stay in their bucket,
// since it says where all of them are, and so do those of a home; and no key goes to
// a reserved bucket. It returns the slot, or nil.
func (m *mover[K, V]) displace(n int, stay home, reserved uint32) *cpu.Slot[K, V] {
	if m.still {
		return nil
	}
	entries := entriesOf[K, V]()
	for at := 0; at < n && m.tried < m.end; at++ {
		m.tried++
		number, stays := m.nodes[at].slot, m.nodes[at].stays
		h := homeOf[K, V](m.geometry, m.slot(number).Key, number)
		for i := uint32(1); i <= functions; i++ {
			to := m.secondary(h, entries, i)
			here := to == number>>m.wide()
			if m.around(h, to) || stays && !here || to == reserved {
				continue
			}
			if free := freeSlot(m.second(to)); free != nil {
				return m.shiftAlong(int32(at), free)
			}
			if !here || stays { // it may take the slot of one that leaves the bucket
				n = m.spread(n, to<<m.wide(), 1<<m.wide(), int32(at), stay)
			}
		}
	}
	return nil
}

// none is no bucket, nobody the home of no key.
const none = math.MaxUint32

var nobody = home{bucket: none}

// spread adds the secondary keys in some slots to the nodes that may be moved, but for
// those of a home, as far as there is room.
func (m *mover[K, V]) spread(n int, first, slots uint32, parent int32, stay home) int {
	for number := first; number < first+slots && n < len(m.nodes); number++ {
		s := m.slot(number)
		if !isKey(s) || isPrimary(m.geometry, s.Key, number) {
			continue
		}
		h := homeOf[K, V](m.geometry, s.Key, number)
		stays := m.shared(h, number)
		if h == stay || stays && m.shift >= leastShift { // there is no other slot for it
			continue
		}
		m.nodes[n] = node{number, parent, stays}
		n++
	}
	return n
}

// shared reports whether another key of a home is in the secondary bucket of a slot.
func (m *mover[K, V]) shared(h home, number uint32) bool {
	slots := m.second(number >> m.wide())
	for i := range slots {
		if m.isOf(h, &slots[i]) && m.number(&slots[i]) != number {
			return true
		}
	}
	return false
}

// shiftAlong moves the key of a node to a free slot, that of its parent to its own, and
// so on, and returns the slot that is free in the end. None comes twice on the way: the
// search goes on from it the same way whenever it comes there, so the shortest way takes
// it once.
func (m *mover[K, V]) shiftAlong(at int32, to *cpu.Slot[K, V]) *cpu.Slot[K, V] {
	for ; at >= 0; at = m.nodes[at].parent {
		number := m.nodes[at].slot
		from := m.slot(number)
		h := homeOf[K, V](m.geometry, from.Key, number)
		m.move(from, to)
		m.point(h, to)
		to = from
	}
	return to
}
