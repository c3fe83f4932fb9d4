package cpu

import (
	"cmp"
	"context"
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/weftgo/weft/device"
)

// Ordered structures sort each batch by key, and keep rows with equal keys in batch order. First
// all cores together sort by the leading bits that differ. Then one core sorts each part within its
// cache. A sort of 10^7 random keys of 64 bits moves each key three times.

// Item is the key and the row number of a batch row.
type Item[K Key] struct {
	Key K // in stored form
	Row uint32
}

func compareItems[K Key](a, b Item[K]) int {
	if a.Key != b.Key {
		return cmp.Compare(a.Key, b.Key)
	}
	return cmp.Compare(a.Row, b.Row)
}

// RunEnd returns the smallest index, at least i, at which items can be cut without separating equal
// keys. i must be positive.
func RunEnd[K Key](items []Item[K], i int) int {
	for ; i < len(items); i++ {
		if items[i].Key != items[i-1].Key {
			return i
		}
	}
	return len(items)
}

// Tuning of the sort.
const (
	sortGrain         = 1 << 16 // rows that a core takes at a time
	maxComparisonSort = 1 << 10 // maximum rows for sorting by comparison
	maxInsertionSort  = 40      // maximum rows for sorting by insertion
	maxDigitBits      = 11      // maximum key bits per pass
)

// Sorter sorts the rows of batches. It reuses its memory.
type Sorter[K Key] struct {
	items, scratch []Item[K]
	counts         [][]uint32
}

// maxKeptItems is the maximum number of items for which Trim keeps memory.
const maxKeptItems = 1 << 18

// Trim frees the memory if it is larger than maxKeptItems items.
func (s *Sorter[K]) Trim() {
	if cap(s.items) > maxKeptItems {
		*s = Sorter[K]{}
	}
}

// Sort returns the rows of a batch in the order of their stored keys. A stored key is the exclusive
// or of the key and flip. The result is valid until the next call. If ctx ends, Sort ends early and
// returns its error.
func (s *Sorter[K]) Sort(ctx context.Context, dev device.Host, keys []K, flip K) ([]Item[K], error) {
	n := len(keys)
	if cap(s.items) < n {
		s.items = make([]Item[K], n)
	}
	items := s.items[:n]
	var diffBits atomic.Uint64 // bits in which keys differ
	var unsorted atomic.Bool
	all := uint64(keys[0] ^ flip)
	dev.Parallel(n, sortGrain, func(lo, hi int) {
		last, diff, descends := keys[max(lo-1, 0)]^flip, K(0), false
		for i, k := range keys[lo:hi] {
			k ^= flip
			descends = descends || k < last
			diff |= k ^ K(all)
			items[lo+i] = Item[K]{k, uint32(lo + i)}
			last = k
		}
		diffBits.Or(uint64(diff))
		if descends {
			unsorted.Store(true)
		}
	})
	switch {
	case !unsorted.Load():
		return items, ctx.Err()
	case n <= maxComparisonSort:
		slices.SortFunc(items, compareItems[K])
		return items, ctx.Err()
	}
	if cap(s.scratch) < n {
		s.scratch = make([]Item[K], n)
	}
	return s.radix(ctx, dev, items, s.scratch[:n], uint(bits.Len64(diffBits.Load())))
}

// radix sorts items with keys that differ only in the last keyBits bits.
func (s *Sorter[K]) radix(ctx context.Context, dev device.Host, items, to []Item[K], keyBits uint) ([]Item[K], error) {
	n := len(items)
	width := min(keyBits, uint(max(4, min(maxDigitBits, bits.Len(uint(n))-6))))
	shift := keyBits - width
	mask := K(1)<<width - 1
	ranges := (n + sortGrain - 1) / sortGrain
	for len(s.counts) < ranges {
		s.counts = append(s.counts, make([]uint32, 1<<maxDigitBits))
	}
	dev.Parallel(n, sortGrain, func(lo, hi int) {
		c := s.counts[lo/sortGrain]
		clear(c)
		for i := range items[lo:hi] {
			c[items[lo+i].Key>>shift&mask]++
		}
	})
	ends := make([]uint32, mask+1)
	at := uint32(0)
	for d := range ends {
		for _, c := range s.counts[:ranges] {
			at, c[d] = at+c[d], at
		}
		ends[d] = at
	}
	dev.Parallel(n, sortGrain, func(lo, hi int) {
		c := s.counts[lo/sortGrain]
		for i := range items[lo:hi] {
			item := items[lo+i]
			d := item.Key >> shift & mask
			to[c[d]] = item
			c[d]++
		}
	})
	dev.Parallel(len(ends), 8, func(lo, hi int) {
		from := uint32(0)
		if lo > 0 {
			from = ends[lo-1]
		}
		for _, end := range ends[lo:hi] {
			if ctx.Err() != nil {
				return
			}
			sortPart(to[from:end], items[from:end], shift, false)
			from = end
		}
	})
	return items, ctx.Err()
}

// sortPart sorts items with keys that differ only in the last keyBits bits. scratch is temporary
// memory of the same length. The result is in items if inPlace is set, otherwise in scratch.
func sortPart[K Key](items, scratch []Item[K], keyBits uint, inPlace bool) {
	for {
		if keyBits == 0 || len(items) <= maxInsertionSort {
			insertionSort(items)
			if !inPlace {
				copy(scratch, items)
			}
			return
		}
		width := min(keyBits, uint(max(4, min(8, bits.Len(uint(len(items)))-2))))
		keyBits -= width
		mask := K(1)<<width - 1
		var ends [257]uint32
		for i := range items {
			ends[items[i].Key>>keyBits&mask+1]++
		}
		if ends[items[0].Key>>keyBits&mask+1] == uint32(len(items)) {
			continue // all keys have the same digit
		}
		for d := range int(mask) {
			ends[d+1] += ends[d]
		}
		for _, item := range items {
			d := item.Key >> keyBits & mask
			scratch[ends[d]] = item
			ends[d]++
		}
		from := uint32(0)
		for _, end := range ends[:mask+1] {
			if from < end {
				sortPart(scratch[from:end], items[from:end], keyBits, !inPlace)
			}
			from = end
		}
		return
	}
}

func insertionSort[K Key](items []Item[K]) {
	for i := 1; i < len(items); i++ {
		item := items[i]
		j := i
		for ; j > 0 && items[j-1].Key > item.Key; j-- {
			items[j] = items[j-1]
		}
		items[j] = item
	}
}
