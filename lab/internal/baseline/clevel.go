package baseline

import (
	"runtime"
	"sync/atomic"

	"github.com/weftgo/weft/internal/pm"
)

// clevel is Clevel hashing (Chen, Hua, Ding and Zuo, "Lock-free Concurrent Level Hashing for
// Persistent Memory", ATC 2020). Level i has 2^i buckets of eight slots, and a key has two
// candidate buckets in each level. A slot is one word: the address of a record, and a part of the
// key's hash. A record contains the key and the value. A thread writes a record, makes it durable,
// and then puts its address into a slot by a compare-and-swap, so no operation needs a log. Updates
// write a new record.
//
// If a key finds no slot, a thread adds a level on top. The records of the lowest level then move
// up, a few with each insertion. The context holds the range of levels in use. A thread that has
// not found a key searches again if the context has changed meanwhile. A thread that has changed a
// slot moves the record up if the slot's level is being drained by then.
//
// Two details differ from the paper. In the paper, a moving record is in two slots at the same
// time, and every operation searches both. Here its first slot is marked as moving, and a thread
// that needs to change the slot waits until the move ends. While one thread adds a level, other
// threads wait.
type clevel struct {
	mem       *pm.Memory
	first     uint64 // word of the context; the addresses of levels follow
	levels    uint64 // first word of the levels
	end       uint64 // end of the levels
	keySize   int
	valueSize int
	records   units
	seed      uint64

	next  uint64 // first word of the next level; guarded by the lock of the context
	drain atomic.Pointer[drainState]
}

// drainState is the progress of draining the lowest level.
type drainState struct {
	bits       uint
	next, done atomic.Uint64 // numbers of buckets taken and drained
}

const (
	bucketSlots = 8
	maxLevels   = 32
	headWords   = 64 // the context and the addresses of levels; whole lines of memory
)

// span is the word that the paper calls the context: the lowest and the highest level in use. If it
// covers more than two levels, the lowest level is being drained and accepts no new records.
type span uint64

const locked span = 1 << 63 // the span is being changed

func newSpan(low, high uint) span { return span(low) | span(high)<<8 | 1<<16 }

func (c span) low() uint      { return uint(c & 0xff) }
func (c span) high() uint     { return uint(c >> 8 & 0xff) }
func (c span) draining() bool { return c.high()-c.low() > 1 }

// open returns the lowest level that accepts records.
func (c span) open() uint {
	if c.draining() {
		return c.low() + 1
	}
	return c.low()
}

// slotWord is the word of a slot: 0 if empty, else the address of a record and a part of the key's
// hash.
type slotWord uint64

const (
	moving slotWord = 1 << 63 // the record is being copied to a higher level
	moved  slotWord = 1 << 62 // the record has been copied, so the slot is empty

	addressBits = 48
	tagMask     = 1<<14 - 1
)

func newSlotWord(record, hash uint64) slotWord { return slotWord(record | hash&tagMask<<addressBits) }

func (n slotWord) record() uint64 { return uint64(n) & (1<<addressBits - 1) }
func (n slotWord) busy() bool     { return n&(moving|moved) != 0 }

func (n slotWord) matchesTag(hash uint64) bool {
	return n != 0 && uint64(n)>>addressBits&tagMask == hash&tagMask
}

// CreateClevel creates a Clevel hashing index in a new pool.
func CreateClevel(path string, o Options) (*Index, error) {
	return create(path, o, func(mem *pm.Memory, first, end uint64, _ int) (gpuTable, error) {
		t := newClevel(mem, first, end, o)
		return t, t.recover()
	})
}

// newClevel returns an index in words [first,end), which are zero or contain the state after a
// crash.
func newClevel(mem *pm.Memory, first, end uint64, o Options) *clevel {
	t := &clevel{mem: mem, first: first, levels: first + headWords, keySize: o.KeySize, valueSize: o.ValueSize, seed: o.Seed}
	t.end = t.levels + (end-t.levels)/4/bucketSlots*bucketSlots
	words := t.keyWords() + pm.WordsOf(o.ValueSize)
	t.records = units{first: t.end, words: words, n: (end - t.end) / words}
	if mem.Load(first) == 0 {
		low := uint(0)
		for bucketSlots*3<<low*7/10 < o.Capacity {
			low++
		}
		t.format(low)
	}
	return t
}

func (t *clevel) format(low uint) {
	at := t.levels
	for bits := low; bits <= low+1; bits++ {
		t.mem.Store(t.address(bits), at)
		at += bucketSlots << bits
	}
	t.mem.Fence()
	t.mem.Store(t.first, uint64(newSpan(low, low+1)))
	t.mem.Fence()
}

func (t *clevel) keyWords() uint64 { return pm.WordsOf(t.keySize) }

func (t *clevel) address(bits uint) uint64 { return t.first + 1 + uint64(bits) }

// span returns the span. It waits while the span is locked, because a level must be durable before
// anything that depends on it.
func (t *clevel) span() span {
	for {
		if c := span(t.mem.Load(t.first)); c&locked == 0 {
			return c
		}
		runtime.Gosched()
	}
}

// bucket returns the first word of a key's candidate bucket in a level.
func (t *clevel) bucket(bits uint, it *item, second bool) uint64 {
	h := it.hash
	if second {
		h = it.secondHash()
	}
	return t.mem.Load(t.address(bits)) + h>>(64-bits)*bucketSlots
}

// forEach calls f for the candidate buckets of a level until f returns false.
func (t *clevel) forEach(bits uint, it *item, f func(bucket uint64) bool) bool {
	a, b := t.bucket(bits, it, false), t.bucket(bits, it, true)
	return f(a) && (a == b || f(b))
}

// found is the slot of a key.
type found struct {
	slot uint64
	is   slotWord
	bits uint // level of the slot
}

// find searches a key from the lowest level up, because records move in that direction. It returns
// the first slot that holds the key and satisfies wanted. A nil wanted accepts every slot.
func (t *clevel) find(it *item, wanted func(is slotWord) bool) (f found, ok bool) {
	for {
		c := t.span()
		for f.bits = c.low(); f.bits <= c.high(); f.bits++ {
			if !t.forEach(f.bits, it, func(bucket uint64) bool {
				for f.slot = bucket; f.slot < bucket+bucketSlots; f.slot++ {
					f.is = slotWord(t.mem.Load(f.slot))
					if t.is(f.is, it) && (wanted == nil || wanted(f.is)) {
						return false
					}
				}
				return true
			}) {
				return f, true
			}
		}
		if t.span() == c {
			return f, false
		}
	}
}

// is reports whether a slot holds a key.
func (t *clevel) is(n slotWord, it *item) bool {
	return n.matchesTag(it.hash) && n&moved == 0 && t.mem.Equal(n.record(), it.key)
}

func (t *clevel) get(_ *thread, it *item, value []byte) bool {
	f, ok := t.find(it, nil)
	if ok {
		t.mem.Read(f.is.record()+t.keyWords(), value)
	}
	return ok
}

func (t *clevel) put(th *thread, it *item, value []byte) (inserted bool, err error) {
	record, err := th.records.alloc(&t.records)
	if err != nil {
		return false, err
	}
	t.write(record, it, value)
	is := newSlotWord(record, it.hash)
	for {
		f, ok := t.find(it, nil)
		switch {
		case !ok:
			if ok, err = t.insert(it, is); ok && err == nil {
				t.helpDrain()
			}
		case t.swap(f, is):
			th.records.stale = append(th.records.stale, f.is.record())
			return false, t.moveIfDrained(f.slot, f.bits)
		default:
			continue
		}
		if ok || err != nil {
			return ok, err
		}
	}
}

// write writes a record and makes it durable.
func (t *clevel) write(record uint64, it *item, value []byte) {
	t.mem.Write(record, it.key)
	t.mem.Write(record+t.keyWords(), value)
	t.mem.Fence()
}

// swap changes a slot, unless its word has changed or the record is moving.
func (t *clevel) swap(f found, to slotWord) bool {
	if f.is.busy() {
		runtime.Gosched()
		return false
	}
	if !t.mem.CompareAndSwap(f.slot, uint64(f.is), uint64(to)) {
		return false
	}
	t.mem.Fence()
	return true
}

// insert puts the record of an absent key into a slot. If another thread has inserted the key
// meanwhile, insert removes the record and returns false.
func (t *clevel) insert(it *item, is slotWord) (done bool, err error) {
	c := t.span()
	slot, bits, ok := t.freeSlot(it, c.open(), c.high())
	if !ok {
		return false, t.expand(c)
	}
	if !t.swap(found{slot, 0, bits}, is) {
		return false, nil
	}
	isOther := func(other slotWord) bool { return other.record() != is.record() }
	if _, again := t.find(it, isOther); again && t.removeDuplicate(it, is.record()) {
		return false, nil
	}
	return true, t.moveIfDrained(slot, bits)
}

// removeDuplicate empties the slot of a record, to which the record may have moved. It returns
// false if another thread has updated the record.
func (t *clevel) removeDuplicate(it *item, record uint64) bool {
	for {
		f, ok := t.find(it, func(is slotWord) bool { return is.record() == record })
		if !ok {
			return false
		}
		if t.swap(f, 0) {
			return true
		}
	}
}

// freeSlot returns an empty slot for a key. It takes the lowest level that has one, and there the
// bucket with more empty slots.
func (t *clevel) freeSlot(it *item, low, high uint) (slot uint64, bits uint, ok bool) {
	for bits = low; bits <= high && !ok; bits++ {
		most := 0
		t.forEach(bits, it, func(bucket uint64) bool {
			empty, at := 0, uint64(0)
			for s := bucket; s < bucket+bucketSlots; s++ {
				if t.mem.Load(s) == 0 {
					empty, at = empty+1, s
				}
			}
			if empty > most {
				most, slot, ok = empty, at, true
			}
			return true
		})
	}
	return slot, bits - 1, ok
}

func (t *clevel) slots() (n uint64) {
	c := t.span()
	for bits := c.low(); bits <= c.high(); bits++ {
		n += bucketSlots << bits
	}
	return n
}

func (t *clevel) remove(th *thread, it *item) bool {
	for {
		f, ok := t.find(it, nil)
		if !ok {
			return false
		}
		if t.swap(f, 0) {
			th.records.stale = append(th.records.stale, f.is.record())
			return true
		}
	}
}

func (t *clevel) recycle(th *thread) { th.records.recycle() }
