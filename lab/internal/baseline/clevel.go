package baseline

import (
	"runtime"
	"sync/atomic"

	"github.com/weftgo/weft/internal/pm"
)

// clevel is Clevel hashing (Chen, Hua, Ding and Zuo, "Lock-free Concurrent Level Hashing for
// Persistent Memory", ATC 2020). Level i has 2^i buckets of eight slots, and a key two
// buckets in each of them; a slot is one word, the address of a record with the key and the
// value and, beside it, a part of the key's hash. A record is written, fenced, and then named
// by a compare-and-swap of a slot, so that no operation needs a log; updates write another
// record. When a key finds no slot, a level is added on top, and the records of the lowest move
// up, some with each insertion. Which levels there are is the context: who has not found a key
// looks again if the context has changed meanwhile, and who has changed a slot moves it up if
// its level has become one that is drained.
//
// Two things are done in another way than in the paper. There, what moves is in two slots at
// a time, and every operation looks for both; here its first slot says so, and who wants to
// change it waits until it has moved. And who adds a level has the others wait for it.
type clevel struct {
	mem       *pm.Memory
	first     uint64 // word of the context, behind which the levels' addresses are
	levels    uint64 // words from which on levels are
	end       uint64 // of the levels
	keySize   int
	valueSize int
	records   units
	seed      uint64

	next  uint64 // word at which the next level begins; for who has locked the context
	drain atomic.Pointer[drained]
}

// drained is how far the lowest level has been drained.
type drained struct {
	bits       uint
	next, done atomic.Uint64 // buckets
}

const (
	bucketSlots = 8
	maxLevels   = 32
	headWords   = 64 // the context and the levels' addresses, whole lines of memory
)

// span is the paper's context: the lowest and the highest level. While there are more than
// two the lowest is drained, and takes nothing new.
type span uint64

const locked span = 1 << 63 // somebody changes it

func newSpan(low, high uint) span { return span(low) | span(high)<<8 | 1<<16 }

func (c span) low() uint      { return uint(c & 0xff) }
func (c span) high() uint     { return uint(c >> 8 & 0xff) }
func (c span) draining() bool { return c.high()-c.low() > 1 }

// open is the lowest level that takes something new.
func (c span) open() uint {
	if c.draining() {
		return c.low() + 1
	}
	return c.low()
}

// named is a slot: nothing, or a record and what is known of its key without reading it.
type named uint64

const (
	moving named = 1 << 63 // it is being copied to a higher level
	moved  named = 1 << 62 // that has been done; there is nothing here any more

	addressBits = 48
	tagMask     = 1<<14 - 1
)

func name(record, hash uint64) named { return named(record | hash&tagMask<<addressBits) }

func (n named) record() uint64 { return uint64(n) & (1<<addressBits - 1) }
func (n named) busy() bool     { return n&(moving|moved) != 0 }

// may reports whether the record can be that of a key of this hash.
func (n named) may(hash uint64) bool { return n != 0 && uint64(n)>>addressBits&tagMask == hash&tagMask }

// CreateClevel makes an index by Clevel hashing in a pool of a new file.
func CreateClevel(path string, o Options) (*Index, error) {
	return create(path, o, func(mem *pm.Memory, first, end uint64, _ int) (farTable, error) {
		t := newClevel(mem, first, end, o)
		return t, t.recover()
	})
}

// newClevel is an index in words [first,end), which are zero or what a crash has left.
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

// address is the word that tells where a level is.
func (t *clevel) address(bits uint) uint64 { return t.first + 1 + uint64(bits) }

// span waits while somebody changes it: what depends on a level must not be durable before
// the level is.
func (t *clevel) span() span {
	for {
		if c := span(t.mem.Load(t.first)); c&locked == 0 {
			return c
		}
		runtime.Gosched()
	}
}

// bucket is the word at which a key's candidate in a level begins.
func (t *clevel) bucket(bits uint, it *item, second bool) uint64 {
	h := it.hash
	if second {
		h = it.other()
	}
	return t.mem.Load(t.address(bits)) + h>>(64-bits)*bucketSlots
}

// each calls f with the candidate buckets of a level, until it returns false.
func (t *clevel) each(bits uint, it *item, f func(bucket uint64) bool) bool {
	a, b := t.bucket(bits, it, false), t.bucket(bits, it, true)
	return f(a) && (a == b || f(b))
}

// found is where a key is.
type found struct {
	slot uint64
	is   named
	bits uint // of the level
}

// find looks for a key from the lowest level up, which is the way that records move: of its
// slots the first one that is wanted, or the first one.
func (t *clevel) find(it *item, wanted func(is named) bool) (f found, ok bool) {
	for {
		c := t.span()
		for f.bits = c.low(); f.bits <= c.high(); f.bits++ {
			if !t.each(f.bits, it, func(bucket uint64) bool {
				for f.slot = bucket; f.slot < bucket+bucketSlots; f.slot++ {
					f.is = named(t.mem.Load(f.slot))
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
func (t *clevel) is(n named, it *item) bool {
	return n.may(it.hash) && n&moved == 0 && t.mem.Equal(n.record(), it.key)
}

func (t *clevel) get(_ *thread, it *item, value []byte) bool {
	f, ok := t.find(it, nil)
	if ok {
		t.mem.Read(f.is.record()+t.keyWords(), value)
	}
	return ok
}

func (t *clevel) put(th *thread, it *item, value []byte) (inserted bool, err error) {
	record, err := th.records.take(&t.records)
	if err != nil {
		return false, err
	}
	t.write(record, it, value)
	is := name(record, it.hash)
	for {
		f, ok := t.find(it, nil)
		switch {
		case !ok:
			if ok, err = t.insert(it, is); ok && err == nil {
				t.help()
			}
		case t.swap(f, is):
			th.records.stale = append(th.records.stale, f.is.record())
			return false, t.settle(f.slot, f.bits)
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

// swap changes a slot, unless it has changed since or moves.
func (t *clevel) swap(f found, to named) bool {
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

// insert names a record of a key that was not there. If another thread has inserted the key
// meanwhile, it takes that back and reports false.
func (t *clevel) insert(it *item, is named) (done bool, err error) {
	c := t.span()
	slot, bits, ok := t.vacant(it, c.open(), c.high())
	if !ok {
		return false, t.expand(c)
	}
	if !t.swap(found{slot, 0, bits}, is) {
		return false, nil
	}
	others := func(other named) bool { return other.record() != is.record() }
	if _, again := t.find(it, others); again && t.withdraw(it, is.record()) {
		return false, nil
	}
	return true, t.settle(slot, bits)
}

// withdraw makes a record's slot empty, wherever it has moved. It reports false if another
// thread has updated it.
func (t *clevel) withdraw(it *item, record uint64) bool {
	for {
		f, ok := t.find(it, func(is named) bool { return is.record() == record })
		if !ok {
			return false
		}
		if t.swap(f, 0) {
			return true
		}
	}
}

// vacant is an empty slot of a key in the lowest of some levels that has one, in the less
// loaded of its buckets there.
func (t *clevel) vacant(it *item, low, high uint) (slot uint64, bits uint, ok bool) {
	for bits = low; bits <= high && !ok; bits++ {
		most := 0
		t.each(bits, it, func(bucket uint64) bool {
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
