package baseline

import (
	"runtime"
	"sync/atomic"

	"github.com/weftgo/weft/internal/pm"
)

// clevel is Clevel hashing (Chen, Hua, Ding and Zuo, "Lock-free Concurrent Level Hashing for
// Persistent Memory", ATC 2020). Level i has 2^i buckets of eight slots, and a key has two buckets
// in each level. A slot is one word: the address of a record with the key and the value, and a part
// of the key's hash. A record is written, fenced, and then named by a compare-and-swap of a slot,
// so no operation needs a log. Updates write a new record. When a key finds no slot, a level is
// added on top, and the records of the lowest level move up, some with each insertion. The context
// holds the present levels. A thread that has not found a key looks again if the context has
// changed meanwhile. A thread that has changed a slot moves its record up if its level is being
// drained by then.
//
// Two details differ from the paper. There, a moving record is in two slots at a time, and every
// operation looks for both. Here its first slot is marked as moving, and a thread that needs to
// change it waits until it has moved. And other threads wait while one adds a level.
type clevel struct {
	mem       *pm.Memory
	first     uint64 // word of the context; the levels' addresses follow it
	levels    uint64 // first word of the levels
	end       uint64 // end of the levels
	keySize   int
	valueSize int
	records   units
	seed      uint64

	next  uint64 // first word of the next level; protected by the lock of the context
	drain atomic.Pointer[drainState]
}

// drainState is the progress of draining the lowest level.
type drainState struct {
	bits       uint
	next, done atomic.Uint64 // numbers of buckets
}

const (
	bucketSlots = 8
	maxLevels   = 32
	headWords   = 64 // the context and the levels' addresses, whole lines of memory
)

// span is what the paper calls the context: the lowest and the highest level in use. If it covers
// more than two levels, the lowest is drained and accepts no new records.
type span uint64

const locked span = 1 << 63 // being changed

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

// slotWord is a slot: empty, or a record with part of its key's hash.
type slotWord uint64

const (
	moving slotWord = 1 << 63 // being copied to a higher level
	moved  slotWord = 1 << 62 // has been copied; this slot is empty

	addressBits = 48
	tagMask     = 1<<14 - 1
)

func newSlotWord(record, hash uint64) slotWord { return slotWord(record | hash&tagMask<<addressBits) }

func (n slotWord) record() uint64 { return uint64(n) & (1<<addressBits - 1) }
func (n slotWord) busy() bool     { return n&(moving|moved) != 0 }

// matchesTag reports whether the record may have a key with this hash.
func (n slotWord) matchesTag(hash uint64) bool {
	return n != 0 && uint64(n)>>addressBits&tagMask == hash&tagMask
}

// CreateClevel makes a Clevel hashing index in a pool of a new file.
func CreateClevel(path string, o Options) (*Index, error) {
	return create(path, o, func(mem *pm.Memory, first, end uint64, _ int) (gpuTable, error) {
		t := newClevel(mem, first, end, o)
		return t, t.recover()
	})
}

// newClevel returns an index in words [first,end), which are zero or as a crash has left them.
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

// format makes the first two levels.
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

// address returns the word with the address of a level.
func (t *clevel) address(bits uint) uint64 { return t.first + 1 + uint64(bits) }

// span waits while the context is locked: a level must be durable before anything that depends on
// it.
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

// forEach calls f for the candidate buckets of a level, until it returns false.
func (t *clevel) forEach(bits uint, it *item, f func(bucket uint64) bool) bool {
	a, b := t.bucket(bits, it, false), t.bucket(bits, it, true)
	return f(a) && (a == b || f(b))
}

// found is the position of a key.
type found struct {
	slot uint64
	is   slotWord
	bits uint // of the level
}

// find looks for a key from the lowest level up, in the direction in which records move. It returns
// the first slot of the key that wanted accepts, or the first one if wanted is nil.
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

// is reports whether a slot has a key.
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

// write writes a record, durably.
func (t *clevel) write(record uint64, it *item, value []byte) {
	t.mem.Write(record, it.key)
	t.mem.Write(record+t.keyWords(), value)
	t.mem.Fence()
}

// swap changes a slot, unless it has changed or is moving.
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

// insert names a record of an absent key. If another thread has inserted the key meanwhile, it
// withdraws the record and returns false.
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

// removeDuplicate empties the slot of a record, wherever it has moved. It reports false if another
// thread has updated it.
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

// freeSlot returns an empty slot for a key in the lowest level of a range that has one, in the less
// loaded of the key's buckets there.
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
