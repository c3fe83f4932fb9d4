package gphash

import (
	"encoding/binary"

	"github.com/weftgo/weft/internal/pm"
)

// table is the index as operations see it: levels of buckets in the memory of a pool.
type table struct {
	layout
	hasher
	mem    *pm.Memory
	hashes int
	// live are the levels from the top down. The last ones may be closed: they are
	// drained, and nothing is inserted there any more. Searches begin with them, so
	// what moves up meanwhile is seen on one side at least.
	live   []level
	closed int
	values *values
	redo   *redoLog // nil: of a batch each operation for itself is there or not
}

// open are the levels that take new keys, from the top down, draining the others.
func (t *table) open() []level     { return t.live[:len(t.live)-t.closed] }
func (t *table) draining() []level { return t.live[len(t.live)-t.closed:] }

// item is a key as slots hold it.
type item struct {
	key  []byte // nil: of any key with this tag, where that is a hash
	tag  uint64 // the key, or the hash of a key that does not fit a word
	hash uint64
}

func (t *table) item(key []byte) item {
	h := t.of(key)
	if t.keyWords > 0 || t.records() {
		return item{key, h, h}
	}
	return item{key, last(key), h}
}

// holds reports whether the slot has the key, which is for sure only as long as the
// control word stays the same.
func (t *table) holds(at place, c control, it *item) bool {
	switch {
	case t.mem.Load(t.tag(at)) != it.tag || !t.values.sound(c.block()):
		return false
	case t.records():
		return it.key == nil || t.values.hasKey(c.block(), it.key)
	}
	return t.keyWords == 0 || t.mem.Equal(t.key(at), it.key)
}

// buckets are the candidates of a key in a level, in order of their number, each once.
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

// each calls f with the candidate buckets of a key, the one whose item is valid first
// (section 3.2.2: the highest level, there the lowest bucket, there the lowest slot),
// behind those of levels that are drained; until it returns false.
func (t *table) each(h uint64, f func(bucket uint64, open bool) bool) {
	var memory [maxHashes]uint64
	for _, l := range t.draining() {
		for _, b := range t.buckets(l, h, memory[:]) {
			if !f(b, false) {
				return
			}
		}
	}
	for _, l := range t.open() {
		for _, b := range t.buckets(l, h, memory[:]) {
			if !f(b, true) {
				return
			}
		}
	}
}

// find is where a key is valid, and the control word by which it is there. Most slots
// have another tag, and are passed by without a look at their state; where it is the
// key's it is read again behind the control word. A record that is another key's may be
// one that has come meanwhile where the key's was: then the control word has changed.
func (t *table) find(it *item) (at place, c control, ok bool) {
	t.each(it.hash, func(bucket uint64, _ bool) bool {
		for slot := range t.slots {
			at = place{bucket, slot}
			if t.mem.Load(t.tag(at)) != it.tag {
				continue
			}
			for was := control(0); !ok; was = c {
				if c = control(t.mem.Load(t.control(at))); c.state() != full || c == was {
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

// get reads the value of a key to the memory of another one, unless that is nil. A slot
// that has changed meanwhile may have held another key when the value was read.
func (t *table) get(it *item, there []byte) (value []byte, ok bool) {
	for {
		at, c, ok := t.find(it)
		if !ok {
			return nil, false
		}
		value = t.values.get(c.block(), there)
		if control(t.mem.Load(t.control(at))) == c {
			return value, true
		}
	}
}

// get reads a value to the memory of another one, unless that is nil.
func (v *values) get(block uint64, there []byte) []byte {
	switch {
	case there == nil:
	case v.records:
		return v.appendValue(block, there[:0])
	default:
		v.read(block, there)
	}
	return there
}

// probe is what a search for a key, or for a place for it, has come to.
type probe struct {
	at    place // of the key
	found control
	ok    bool // it is there
	free  place
	was   control
	space bool // there is a free slot
}

// probe looks for a key at all candidates and, if it is not there, for a free slot in
// the bucket that has most of them (section 3.1).
func (t *table) probe(it *item) (p probe) {
	if p.at, p.found, p.ok = t.find(it); !p.ok {
		p.free, p.was, p.space = t.vacant(it)
	}
	return p
}

// keyAt is keyOf for keys of any length, which have their records by a control word.
func (t *table) keyAt(at place, c control, key []byte) []byte {
	if t.records() {
		return t.values.appendKey(c.block(), key[:0])
	}
	return t.keyOf(at, key)
}

// moving is the key of a slot as far as it takes to give it another one: a record goes with
// the control word.
func (t *table) moving(at place, key []byte) item {
	if t.records() {
		h := t.mem.Load(t.tag(at))
		return item{tag: h, hash: h}
	}
	return t.item(t.keyOf(at, key))
}

// keyOf reads the key of a slot, which must be free to change by nobody else.
func (t *table) keyOf(at place, key []byte) []byte {
	if t.keyWords > 0 {
		t.mem.Read(t.key(at), key)
		return key
	}
	var w [pm.Word]byte
	binary.LittleEndian.PutUint64(w[:], t.mem.Load(t.tag(at)))
	copy(key, w[:])
	return key
}
