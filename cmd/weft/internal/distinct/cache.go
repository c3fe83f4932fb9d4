package distinct

import (
	"github.com/weftgo/weft/internal/arena"
)

const (
	// ways is the number of items per bucket of the cache. A bucket takes two lines of 64 bytes.
	ways = 4
	// cacheBits is the logarithm of the number of buckets. The cache has 4<<14 items and takes 2
	// MiB, which fits in the L2 of a server core.
	cacheBits = 14
	// If the cache contains fewer than one in minHits items of a range, the next skipRanges ranges
	// bypass it.
	minHits, skipRanges = 8, 15
)

// bucket is a set of items with the same high bits of their keys.
type bucket struct {
	key   [ways]uint64
	item  [ways]string // points into the piece
	count [ways]uint64 // 0 if the slot is free
}

// cache counts frequent items of a piece for one worker.
type cache struct {
	buckets []bucket
	used    bool // contains items
	skip    int  // number of ranges to count without the cache
	hits    int  // items of the range found in the cache
}

// count counts one occurrence of an item. If its bucket is full, it evicts the least frequent item.
func (w *worker) count(key uint64, item string) {
	b := &w.buckets[key>>(64-cacheBits)]
	for i := range ways {
		// Different short items have different keys.
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

// flush emits all items and empties the cache.
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
