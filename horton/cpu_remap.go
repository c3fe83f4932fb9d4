package horton

import (
	"math"

	"github.com/weftgo/weft/internal/cpu"
)

// maxNodes is the maximum number of secondary keys that a search for a slot tries (twin: kNodes).
const maxNodes = 512

// maxTried bounds the searches for a slot for one key. Each of two rounds ends after maxTried
// keys or homes; the second round moves primary keys, too.
const maxTried = 4 * maxNodes

// longSearch is a number of keys tried for one key. Once searches have tried more, no more pieces
// of a batch run on all cores, which cannot be stopped.
const longSearch = 4 * maxNodes

// node is a secondary key that might be moved: the number of its slot, and the node with the key
// that would take that slot. The parent of a root is the new key, -1.
type node struct {
	slot     uint32
	parent   int32
	isShared bool // in its secondary bucket, with others of its entry
}

// mover frees slots for keys, with the whole table, by the guidelines of section 5.3: primary keys
// displace secondary ones and each other, and secondary keys only secondary ones.
type mover[K cpu.Key, V cpu.Val] struct {
	*cpuTable[K, V]
	pinned   bool  // no key moves
	urgent   bool  // primary keys are moved, too, for secondary ones
	tried    int   // keys tried by searches, and homes for which a slot was sought
	maxTried int   // the limit of tried
	used     int64 // slots in use that were empty, less those that are empty now
	nodes    [maxNodes]node
}

// makeSlot returns a free slot for a key that is absent from the table, or nil if it finds none. If
// the slot is in a secondary bucket, makeSlot has set the entry.
func (m *mover[K, V]) makeSlot(p path[K]) *cpu.Slot[K, V] {
	if free := freeSlot(m.bucket(p.bucket)); free != nil {
		return free
	}
	free := m.tryMakeSlot(p)
	if free == nil && !m.pinned {
		m.urgent = true
		free = m.tryMakeSlot(p)
		m.urgent = false
	}
	return free
}

// tryMakeSlot returns a free slot for a key with a full primary bucket, or nil.
func (m *mover[K, V]) tryMakeSlot(p path[K]) *cpu.Slot[K, V] {
	m.maxTried = m.tried + maxTried
	slots := m.bucket(p.bucket)
	if free := m.displace(m.addNodes(0, p.bucket<<m.shift, 1<<m.shift, -1, noHome), noHome, noBucket); free != nil {
		return free
	}
	m.displaceShared(p.bucket)
	// Guideline 3: only if no secondary key can leave the bucket. Other moves may have freed a slot
	// on their way, which the last line finds.
	if freeSlot(slots) == nil && (isArray(last(slots)) || m.promote(p.bucket)) {
		if free := m.remap(home{p.bucket, tagOf[K, V](p.key)}); free != nil {
			return free
		}
		m.swapPrimary(p.bucket)
	}
	return freeSlot(slots)
}

// displaceShared moves secondary keys that share an entry out of a primary bucket, if it has any.
func (m *mover[K, V]) displaceShared(bucket uint32) {
	for number := bucket << m.shift; number < (bucket+1)<<m.shift && !m.pinned; number++ {
		s := m.slot(number)
		if !isKey(s) || isPrimary(m.geometry, s.Key, number) {
			continue
		}
		h := homeOf[K, V](m.geometry, s.Key, number)
		if m.shared(h, number) && m.regroup(h, number>>m.secondaryShift(), 0) {
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
	for ; i >= 0 && free == nil && !m.pinned; i-- {
		if m.hasPrimaryKey(bucket, &slots[i]) {
			h = home{bucket, tagOf[K, V](slots[i].Key)}
			free = m.secondarySlot(h)
		}
	}
	if free == nil {
		return false
	}
	m.countUsed(free)
	*free = slots[i+1]
	slots[i+1] = *last(slots)
	m.used--
	writeArray(last(slots), emptyArray[K, V]())
	m.setEntry(h, free)
	return true
}

// hasPrimaryKey reports whether a slot of a primary bucket has a primary key.
func (m *mover[K, V]) hasPrimaryKey(bucket uint32, s *cpu.Slot[K, V]) bool {
	return isKey(s) && twins(m.geometry, s.Key) == bucket>>1
}

// countUsed counts a slot that a key is moved to.
func (m *mover[K, V]) countUsed(free *cpu.Slot[K, V]) {
	if free.Key == cpu.Sentinel[K](cpu.Empty) {
		m.used++
	}
}

// swapPrimary moves one of the primary keys of a bucket of type B to a secondary bucket. Both that
// key and the new one, which takes its slot, are primary, so lookups get no longer (section 5.3.4).
func (m *mover[K, V]) swapPrimary(bucket uint32) {
	slots := m.bucket(bucket)
	for i := range slots {
		if m.pinned || !m.hasPrimaryKey(bucket, &slots[i]) {
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
	m.countUsed(to)
	*to = *from
	vacate(from)
	m.used--
}

// remap returns a free slot for a key of a home, in the secondary bucket that it sets in the entry,
// or nil. The bucket of the home is of type B.
func (m *mover[K, V]) remap(h home) *cpu.Slot[K, V] {
	free := m.secondarySlot(h)
	if free != nil {
		m.setEntry(h, free)
	}
	return free
}

// setEntry sets the entry of a home to a function that gives the secondary bucket of a slot.
func (m *mover[K, V]) setEntry(h home, to *cpu.Slot[K, V]) {
	s, entries, at := last(m.bucket(h.bucket)), entriesOf[K, V](), m.number(to)>>m.secondaryShift()
	i := uint32(1)
	for m.secondary(h, entries, i) != at {
		i++
	}
	writeArray(s, arrayOf(s).withEntry(h.tag, i))
}

// secondarySlot returns a free slot for one more key of a home in a secondary bucket. If the home
// has keys in one, it is that bucket; otherwise the least loaded, from which another secondary key
// is moved if necessary. With the first bucket that has a free slot instead, filling a table of
// 4,000,000 keys to 0.9 takes about the same time. Filling it to 0.95 takes 1.1 us a key instead of
// 0.8.
func (m *mover[K, V]) secondarySlot(h home) *cpu.Slot[K, V] {
	if m.tried++; m.tried > m.maxTried {
		return nil
	}
	entries := entriesOf[K, V]()
	if s := last(m.bucket(h.bucket)); isArray(s) {
		if i := arrayOf(s).entry(h.tag); i != 0 {
			at := m.secondary(h, entries, i)
			if free := freeSlot(m.secondaryBucket(at)); free != nil {
				return free
			}
			if m.count(h, at) > 0 {
				return m.secondarySlotIn(h, at)
			}
		}
	}
	var free *cpu.Slot[K, V]
	var full [functions]uint32
	n, maxFree := 0, 0
	for i := uint32(1); i <= functions; i++ {
		at := m.secondary(h, entries, i)
		if m.overlaps(h, at) {
			continue
		}
		full[n] = at
		n++
		if s, count := countFree(m.secondaryBucket(at)); count > maxFree {
			free, maxFree = s, count
		}
	}
	if free != nil {
		return free
	}
	roots := 0
	for _, at := range full[:n] {
		roots = m.addNodes(roots, at<<m.secondaryShift(), 1<<m.secondaryShift(), -1, h)
	}
	return m.displace(roots, h, noBucket)
}

// secondarySlotIn returns a free slot for one more key of a home with other keys in a full
// secondary bucket. If necessary, all of them go to another one.
func (m *mover[K, V]) secondarySlotIn(h home, at uint32) *cpu.Slot[K, V] {
	if free := m.displace(m.addNodes(0, at<<m.secondaryShift(), 1<<m.secondaryShift(), -1, h), h, at); free != nil {
		return free
	}
	if m.regroup(h, at, 1) {
		s := last(m.bucket(h.bucket))
		return freeSlot(m.secondaryBucket(m.secondary(h, entriesOf[K, V](), arrayOf(s).entry(h.tag))))
	}
	return nil
}

// freeSecondary frees one more slot of a secondary bucket without moving the keys of home except.
// It moves a secondary key, or, if a key would have no place otherwise, a primary one, which is
// against guideline 1. Without that, one in 300,000 keys of 32-bit sets has no place in buckets of
// two and four slots, so no large table could be filled.
func (m *mover[K, V]) freeSecondary(at uint32, except home) bool {
	first := at << m.secondaryShift()
	if m.displace(m.addNodes(0, first, 1<<m.secondaryShift(), -1, except), except, at) != nil {
		return true
	}
	if !m.urgent {
		return false
	}
	m.urgent = false // once is enough
	defer func() { m.urgent = true }()
	for number := first; number < first+1<<m.secondaryShift(); number++ {
		s, bucket := m.slot(number), number>>m.shift
		if !isArray(last(m.bucket(bucket))) || !m.hasPrimaryKey(bucket, s) {
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
func (m *mover[K, V]) regroup(h home, from uint32, spare int) bool {
	entries := entriesOf[K, V]()
	for try := uint32(0); try < 2*functions && !m.pinned && m.tried < m.maxTried; try++ {
		to := m.secondary(h, entries, try%functions+1)
		if m.overlaps(h, to) || to == from {
			continue
		}
		n := m.count(h, from)
		if n == 0 {
			return false // a search has moved the only one
		}
		_, free := countFree(m.secondaryBucket(to))
		for try >= functions && free < n+spare && m.freeSecondary(to, h) {
			_, free = countFree(m.secondaryBucket(to))
		}
		if free < n+spare || m.count(h, from) != n {
			continue // freeSecondary may have moved a key of the home, too
		}
		slots := m.secondaryBucket(from)
		for i := range slots {
			if m.isOf(h, &slots[i]) {
				m.move(&slots[i], freeSlot(m.secondaryBucket(to)))
			}
		}
		m.setEntry(h, &m.secondaryBucket(to)[0])
		return true
	}
	return false
}

// count returns the number of keys of a home in a secondary bucket.
func (m *mover[K, V]) count(h home, at uint32) (n int) {
	slots := m.secondaryBucket(at)
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
// home except, and no key goes to a reserved bucket. It returns the slot, or nil.
func (m *mover[K, V]) displace(n int, except home, reserved uint32) *cpu.Slot[K, V] {
	if m.pinned {
		return nil
	}
	entries := entriesOf[K, V]()
	for at := 0; at < n && m.tried < m.maxTried; at++ {
		m.tried++
		number, isShared := m.nodes[at].slot, m.nodes[at].isShared
		h := homeOf[K, V](m.geometry, m.slot(number).Key, number)
		for i := uint32(1); i <= functions; i++ {
			to := m.secondary(h, entries, i)
			same := to == number>>m.secondaryShift()
			if m.overlaps(h, to) || isShared && !same || to == reserved {
				continue
			}
			if free := freeSlot(m.secondaryBucket(to)); free != nil {
				return m.moveAlong(int32(at), free)
			}
			if !same || isShared { // it may take the slot of a key that leaves the bucket
				n = m.addNodes(n, to<<m.secondaryShift(), 1<<m.secondaryShift(), int32(at), except)
			}
		}
	}
	return nil
}

// noBucket is no bucket, noHome the home of no key.
const noBucket = math.MaxUint32

var noHome = home{bucket: noBucket}

// addNodes adds the secondary keys in some slots to the nodes, except those of a home, as far as
// the nodes have space.
func (m *mover[K, V]) addNodes(n int, first, slots uint32, parent int32, except home) int {
	for number := first; number < first+slots && n < len(m.nodes); number++ {
		s := m.slot(number)
		if !isKey(s) || isPrimary(m.geometry, s.Key, number) {
			continue
		}
		h := homeOf[K, V](m.geometry, s.Key, number)
		isShared := m.shared(h, number)
		// no other slot is possible for it
		if h == except || isShared && m.shift >= minSecondaryShift {
			continue
		}
		m.nodes[n] = node{number, parent, isShared}
		n++
	}
	return n
}

// shared reports whether another key of a home is in the secondary bucket of a slot.
func (m *mover[K, V]) shared(h home, number uint32) bool {
	slots := m.secondaryBucket(number >> m.secondaryShift())
	for i := range slots {
		if m.isOf(h, &slots[i]) && m.number(&slots[i]) != number {
			return true
		}
	}
	return false
}

// moveAlong moves the key of a node to a free slot, that of its parent to the slot of the node,
// and so on, and returns the slot that is free in the end. No slot occurs twice on the way: from a
// slot the search always goes on the same way, so the shortest way takes it once.
func (m *mover[K, V]) moveAlong(at int32, to *cpu.Slot[K, V]) *cpu.Slot[K, V] {
	for ; at >= 0; at = m.nodes[at].parent {
		number := m.nodes[at].slot
		from := m.slot(number)
		h := homeOf[K, V](m.geometry, from.Key, number)
		m.move(from, to)
		m.setEntry(h, to)
		to = from
	}
	return to
}
