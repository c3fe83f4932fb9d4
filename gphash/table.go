package gphash

import (
	"encoding/binary"

	"github.com/weftgo/weft/internal/pm"
)

// table is the index that operations use: levels of buckets in the memory of a pool.
type table struct {
	layout
	hasher
	mem    *pm.Memory
	hashes int
	// live holds the levels from the top down. closed is the number of levels at its end that are
	// being drained and accept no new keys. Searches begin with these levels, so a search always
	// finds a key that is moving up.
	live   []level
	closed int
	values *values
	// nil if batches are not atomic
	redo *redoLog
}

// openLevels returns the levels that accept new keys, from the top down; drainingLevels returns the
// other levels.
func (t *table) openLevels() []level     { return t.live[:len(t.live)-t.closed] }
func (t *table) drainingLevels() []level { return t.live[len(t.live)-t.closed:] }

type item struct {
	key []byte // nil matches any key with the same tag, if tags are hashes
	// the key itself, or its hash if the key does not fit in a word
	tag  uint64
	hash uint64
}

func (t *table) item(key []byte) item {
	h := t.hash(key)
	if t.keyWords > 0 || t.records() {
		return item{key, h, h}
	}
	return item{key, tailWord(key), h}
}

// holds reports whether a slot holds a key. The result is valid until the control word changes.
func (t *table) holds(at slotRef, c control, it *item) bool {
	switch {
	case t.mem.Load(t.tag(at)) != it.tag || !t.values.isBlock(c.block()):
		return false
	case t.records():
		return it.key == nil || t.values.hasKey(c.block(), it.key)
	}
	return t.keyWords == 0 || t.mem.Equal(t.key(at), it.key)
}

// buckets returns the distinct candidate buckets of a key in a level, in ascending order.
func (t *table) buckets(l level, h uint64, to []uint64) []uint64 {
	to = to[:0]
	for j := range t.hashes {
		b := l.base + l.bucket(h, j)*t.bucketWords
		i := len(to)
		for i > 0 && to[i-1] > b {
			i--
		}
		if i > 0 && to[i-1] == b {
			continue
		}
		to = append(to, 0)
		copy(to[i+1:], to[i:])
		to[i] = b
	}
	return to
}

// eachBucket calls f with the candidate buckets of a key until f returns false. Levels that are
// being drained come first. The other buckets follow in the order of validity (section 3.2.2): if a
// key has several slots, the valid slot is in the highest level, there in the lowest bucket, and
// there at the lowest index.
func (t *table) eachBucket(h uint64, f func(bucket uint64, open bool) bool) {
	var memory [maxHashes]uint64
	for _, l := range t.drainingLevels() {
		for _, b := range t.buckets(l, h, memory[:]) {
			if !f(b, false) {
				return
			}
		}
	}
	for _, l := range t.openLevels() {
		for _, b := range t.buckets(l, h, memory[:]) {
			if !f(b, true) {
				return
			}
		}
	}
}

// find returns the valid slot of a key and the slot's control word. Most slots have another tag and
// are skipped before their state is read. If the tag matches, it is read again after the control
// word. In pools with records, another key's record may have replaced the record meanwhile. Then
// the control word has changed, and find reads both again.
func (t *table) find(it *item) (at slotRef, c control, ok bool) {
	t.eachBucket(it.hash, func(bucket uint64, _ bool) bool {
		for slot := range t.slots {
			at = slotRef{bucket, slot}
			if t.mem.Load(t.tag(at)) != it.tag {
				continue
			}
			for previous := control(0); !ok; previous = c {
				if c = control(t.mem.Load(t.control(at))); c.state() != full || c == previous {
					break
				}
				if ok = t.holds(at, c, it); !ok && !t.records() {
					break
				}
			}
			if ok {
				return false
			}
		}
		return true
	})
	return at, c, ok
}

// get finds a key and reads its value into buf, unless buf is nil. It retries if the slot has
// changed meanwhile, since the slot may then hold another key.
func (t *table) get(it *item, buf []byte) (value []byte, ok bool) {
	for {
		at, c, ok := t.find(it)
		if !ok {
			return nil, false
		}
		value = t.values.get(c.block(), buf)
		if control(t.mem.Load(t.control(at))) == c {
			return value, true
		}
	}
}

// get reads the value at a block into buf, unless buf is nil.
func (v *values) get(block uint64, buf []byte) []byte {
	switch {
	case buf == nil:
	case v.records:
		return v.appendValue(block, buf[:0])
	default:
		v.read(block, buf)
	}
	return buf
}

// probe is the result of a search for a key. If the key is absent, the result includes a free slot
// for it, if one exists.
type probe struct {
	at          slotRef // slot of the key
	control     control
	ok          bool // the key exists
	free        slotRef
	freeControl control
	hasFree     bool // a free slot exists
}

// probe searches all candidate buckets for a key. If the key is absent, probe looks for a free slot
// in the candidate bucket with the most free slots (section 3.1).
func (t *table) probe(it *item) (p probe) {
	if p.at, p.control, p.ok = t.find(it); !p.ok {
		p.free, p.freeControl, p.hasFree = t.vacantSlot(it)
	}
	return p
}

// keyAt returns the key of a slot. In pools with records it reads the record that c refers to.
func (t *table) keyAt(at slotRef, c control, key []byte) []byte {
	if t.records() {
		return t.values.appendKey(c.block(), key[:0])
	}
	return t.keyOf(at, key)
}

// itemToMove returns the key of a slot for a move to another slot. In pools with records the hash
// suffices, since the control word refers to the record.
func (t *table) itemToMove(at slotRef, key []byte) item {
	if t.records() {
		h := t.mem.Load(t.tag(at))
		return item{tag: h, hash: h}
	}
	return t.item(t.keyOf(at, key))
}

// keyOf reads the key of a slot in a pool without records. No other thread may change the slot.
func (t *table) keyOf(at slotRef, key []byte) []byte {
	if t.keyWords > 0 {
		t.mem.Read(t.key(at), key)
		return key
	}
	var w [pm.Word]byte
	binary.LittleEndian.PutUint64(w[:], t.mem.Load(t.tag(at)))
	copy(key, w[:])
	return key
}
