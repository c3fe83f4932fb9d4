package distinct

import (
	"bytes"
	"sync/atomic"

	"github.com/weftgo/weft/internal/arena"
)

const (
	// ways is the number of items of one bucket of the cache: four keys and
	// four words are one line of 64 bytes.
	ways = 4
	// cacheBits is the logarithm of the number of buckets. The cache of
	// 4<<14 items takes 1.5 MiB, which the L2 of a server core holds.
	cacheBits = 14
	// flushEvery is the number of items after which a worker empties its
	// counts: often enough that none overflows, so seldom that it costs
	// nothing.
	flushEvery = 1 << 20
)

// What a slot's ref says. Larger values are an item's number plus firstID.
const (
	free    = 0 // the slot is empty
	pending = 1 // the item is new in this round; its word is a miss's index
	firstID = 2
)

// bucket is a set of items whose keys have the same high bits.
type bucket struct {
	key   [ways]uint64
	word  [ways]uint64
	ref   [ways]uint32
	count [ways]uint32 // occurrences not yet added to the item's total
}

// miss is an item that the cache did not know.
type miss struct {
	key   uint64
	span  span
	id    uint32 // item number, set by resolve
	named bool   // the item is this one's
	count uint32 // occurrences, of those that have left the cache
}

// cache counts the frequent items of one worker. Between rounds it holds
// numbered items only; during a round also pending ones.
type cache struct {
	buckets []bucket
	misses  []miss
	// sinceFlush is the number of items added since the last flushAll.
	sinceFlush int
}

func (c *cache) bucket(key uint64) *bucket { return &c.buckets[key>>(64-cacheBits)] }

// add counts one occurrence of the item at s.
func (w *worker) add(key uint64, s span) {
	b := w.bucket(key)
	for i := range ways {
		if b.key[i] == key && b.ref[i] != free && (s.n <= arena.MaxShort || w.same(b, i, s)) {
			b.count[i]++
			return
		}
	}
	w.miss(b, key, s)
}

// same compares the bytes of slot i's item with those at s: two long items
// may have the same key.
func (w *worker) same(b *bucket, i int, s span) bool {
	item := w.item(s)
	if b.ref[i] == pending {
		return bytes.Equal(w.item(w.misses[b.word[i]].span), item)
	}
	return bytes.Equal(w.items.arena.At(b.word[i]), item)
}

// miss notes a new item and gives it the slot of the least frequent item of
// its bucket.
func (w *worker) miss(b *bucket, key uint64, s span) {
	victim := 0
	for i := range ways {
		if b.ref[i] == free {
			victim = i
			break
		}
		if b.count[i] < b.count[victim] {
			victim = i
		}
	}
	w.flush(b, victim)
	b.key[victim] = key
	b.word[victim] = uint64(len(w.misses))
	b.ref[victim] = pending
	b.count[victim] = 1
	w.misses = append(w.misses, miss{key: key, span: s})
}

// flush moves the count of slot i to where it is kept for good.
func (w *worker) flush(b *bucket, i int) {
	n := b.count[i]
	b.count[i] = 0
	switch {
	case n == 0:
	case b.ref[i] == pending:
		w.misses[b.word[i]].count += n
	default:
		atomic.AddUint64(&w.items.counts[b.ref[i]-firstID], uint64(n))
	}
}

// endRound ends a round whose misses have numbers. Their counts
// go to the items' totals, and the slots that were pending learn the numbers.
func (w *worker) endRound() {
	for i := range w.misses {
		m := &w.misses[i]
		b := w.bucket(m.key)
		for j := range ways {
			if b.ref[j] == pending && b.word[j] == uint64(i) {
				w.flush(b, j)
				b.ref[j] = m.id + firstID
				b.word[j] = w.items.words[m.id]
			}
		}
		if m.count > 0 {
			atomic.AddUint64(&w.items.counts[m.id], uint64(m.count))
		}
	}
	w.misses = w.misses[:0]
	if w.sinceFlush >= flushEvery {
		w.flushAll()
	}
}

// flushAll moves all counts to the items' totals, between rounds. The cache
// keeps its items, but counts start again at zero, so that what was frequent
// long ago gives way.
func (w *worker) flushAll() {
	for j := range w.buckets {
		for i := range ways {
			w.flush(&w.buckets[j], i)
		}
	}
	w.sinceFlush = 0
}
