package distinct

import (
	"github.com/weftgo/weft/internal/arena"
)

const (
	// ways is the number of items of one bucket of the cache: a bucket is two lines of 64 bytes.
	ways = 4
	// cacheBits is the logarithm of the number of buckets. The cache of
	// 4<<14 items takes 2 MiB, which the L2 of a server core holds.
	cacheBits = 14
	// If fewer than one item in minHits of a range is found in the cache, the next skipRanges
	// ranges bypass it.
	minHits, skipRanges = 8, 15
)

// bucket is a set of items with the same high bits of their keys.
type bucket struct {
	key   [ways]uint64
	item  [ways]string // in the piece
	count [ways]uint64 // 0: the slot is free
}

// cache counts the frequent items of one worker in a piece.
type cache struct {
	buckets []bucket
	used    bool // has items
	skip    int  // ranges to count without the cache
	hits    int  // in the range
}

// count counts one occurrence of the item with a key.
func (w *worker) count(key uint64, item string) {
	b := &w.buckets[key>>(64-cacheBits)]
	for i := range ways {
		// Short items have unique keys.
		if b.key[i] == key && b.count[i] > 0 && (len(item) <= arena.MaxShort || b.item[i] == item) {
			b.count[i]++
			w.hits++
			return
		}
	}
	victim := 0
	for i := range ways {
		if b.count[i] < b.count[victim] {
			victim = i
		}
	}
	if n := b.count[victim]; n > 0 {
		w.emit(b.item[victim], n)
	}
	b.key[victim], b.item[victim], b.count[victim] = key, item, 1
}

// flush empties the cache.
func (w *worker) flush() {
	if !w.used {
		return
	}
	for j := range w.buckets {
		b := &w.buckets[j]
		for i, n := range b.count {
			if n > 0 {
				w.emit(b.item[i], n)
			}
		}
	}
	clear(w.buckets)
	w.used = false
}
