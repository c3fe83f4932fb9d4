package horton

import (
	"math"

	"github.com/weftgo/weft/internal/cpu"
)

// mostNodes is the maximum number of secondary keys that a search for a slot tries (twin: kNodes).
const mostNodes = 512

// mostTried bounds the searches for a slot for one key. Each of two rounds ends after mostTried
// keys or homes; the second round moves primary keys, too.
const mostTried = 4 * mostNodes

// longSearch is a number of keys tried for one key. Once searches have tried more, no more pieces
// of a batch run on all cores, which cannot be stopped.
const longSearch = 4 * mostNodes

// node is a secondary key that might be moved: the number of its slot, and the node with the key
// that would take that slot. The parent of a root is the new key, -1.
type node struct {
	slot   uint32
	parent int32
	stays  bool // in its secondary bucket, with others of its entry
}

// mover frees slots for keys, with the whole table, by the guidelines of section 5.3: primary keys
// displace secondary ones and each other, and secondary keys only secondary ones.
type mover[K cpu.Key, V cpu.Val] struct {
	*cpuTable[K, V]
	still  bool  // no key moves
	urgent bool  // primary keys are moved, too, for secondary ones
	tried  int   // keys tried by searches, and homes for which a slot was sought
	end    int   // the limit of tried
	fresh  int64 // slots in use that were empty, less those that are empty now
	nodes  [mostNodes]node
}

// makeRoom returns a free slot for a key that is absent from the table, or nil if it finds none. If
// the slot is in a secondary bucket, makeRoom has set the entry.
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

// roomBy returns a free slot for a key with a full primary bucket, or nil.
func (m *mover[K, V]) roomBy(p path[K]) *cpu.Slot[K, V] {
	m.end = m.tried + mostTried
	slots := m.bucket(p.bucket)
	if free := m.displace(m.spread(0, p.bucket<<m.shift, 1<<m.shift, -1, nobody), nobody, none); free != nil {
		return free
	}
	m.displaceShared(p.bucket)
	// Guideline 3: only if no secondary key can leave the bucket. Other moves may have freed a slot
	// on their way, which the last line finds.
	if freeSlot(slots) == nil && (isArray(last(slots)) || m.promote(p.bucket)) {
		if free := m.remap(home{p.bucket, tagOf[K, V](p.key)}); free != nil {
			return free
		}
		m.swap(p.bucket)
	}
	return freeSlot(slots)
}

// displaceShared moves secondary keys that share an entry out of a primary bucket, if it has any.
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

// promote makes a full bucket one of type B. One of its primary keys goes to a secondary bucket,
// the key in the last slot takes its slot, and the last slot becomes the array.
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

// swap moves one of the primary keys of a bucket of type B to a secondary bucket. Both that key and
// the new one, which takes its slot, are primary, so lookups get no longer (section 5.3.4).
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

// remap returns a free slot for a key of a home, in the secondary bucket that it sets in the entry,
// or nil. The bucket of the home is of type B.
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

// roomFor returns a free slot for one more key of a home in a secondary bucket. If the home has
// keys in one, it is that bucket; otherwise the least loaded, from which another secondary key is
// moved if necessary. With the first bucket that has a free slot instead, filling a table of
// 4,000,000 keys to 0.9 takes about the same time. Filling it to 0.95 takes 1.1 us a key instead of
// 0.8.
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

// roomBeside returns a free slot for one more key of a home with other keys in a full secondary
// bucket. If necessary, all of them go to another one.
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

// clear frees one more slot of a secondary bucket without moving the keys of home stay. It moves a
// secondary key, or, if a key would have no place otherwise, a primary one, which is against
// guideline 1. Without that, one in 300,000 keys of 32-bit sets has no place in buckets of two and
// four slots, so no large table could be filled.
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

// regroup moves the keys of a home, which share an entry, from one secondary bucket to another one
// with `more` free slots left over. It takes a bucket with enough free slots, or one that can be
// cleared of other keys.
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
			continue // clear may have moved a key of the home, too
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

// count returns the number of keys of a home in a secondary bucket.
func (m *mover[K, V]) count(h home, at uint32) (n int) {
	slots := m.second(at)
	for i := range slots {
		if m.isOf(h, &slots[i]) {
			n++
		}
	}
	return n
}

// countFree counts the slots without a key and returns the first of them.
func countFree[K cpu.Key, V cpu.Val](slots []cpu.Slot[K, V]) (first *cpu.Slot[K, V], n int) {
	for i := len(slots) - 1; i >= 0; i-- {
		if isFree(slots[i].Key) {
			first = &slots[i]
			n++
		}
	}
	return first, n
}

// displace frees a slot among the first n nodes. A breadth-first search finds the shortest sequence
// of moves, each of a secondary key to another of its buckets, that ends at a free slot. Keys that
// share their entry stay in their bucket, since the entry holds for all of them. So do the keys of
// home stay, and no key goes to a reserved bucket. It returns the slot, or nil.
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
			if !here || stays { // it may take the slot of a key that leaves the bucket
				n = m.spread(n, to<<m.wide(), 1<<m.wide(), int32(at), stay)
			}
		}
	}
	return nil
}

// none is no bucket, nobody the home of no key.
const none = math.MaxUint32

var nobody = home{bucket: none}

// spread adds the secondary keys in some slots to the nodes, except those of a home, as far as the
// nodes have space.
func (m *mover[K, V]) spread(n int, first, slots uint32, parent int32, stay home) int {
	for number := first; number < first+slots && n < len(m.nodes); number++ {
		s := m.slot(number)
		if !isKey(s) || isPrimary(m.geometry, s.Key, number) {
			continue
		}
		h := homeOf[K, V](m.geometry, s.Key, number)
		stays := m.shared(h, number)
		if h == stay || stays && m.shift >= leastShift { // no other slot is possible for it
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

// shiftAlong moves the key of a node to a free slot, that of its parent to the slot of the node,
// and so on, and returns the slot that is free in the end. No slot occurs twice on the way: from a
// slot the search always goes on the same way, so the shortest way takes it once.
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
