package cpu

import (
	"cmp"
	"context"
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/weftgo/weft/device"
)

// Ordered structures sort a batch by keys, with the rows of one key in batch order. All cores sort
// by the first bits that differ. Then each part is sorted by one core, within its cache. 10^7
// random keys of 64 bits move three times.

// Item is a row of a batch.
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

// RunEnd returns the first position from i > 0 on where items may be cut: after the last item of a
// key.
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
	sortGrain = 1 << 16 // rows that a core takes at a time
	smallSort = 1 << 10 // up to this many rows, sort by comparison
	shortSort = 40      // up to this many rows, sort by insertion
	widest    = 11      // maximum key bits per pass
)

// Sorter keeps its memory from batch to batch.
type Sorter[K Key] struct {
	items, other []Item[K]
	counts       [][]uint32
}

// keptItems is the maximum number of items to keep memory for.
const keptItems = 1 << 18

// Trim frees the memory of large batches.
func (s *Sorter[K]) Trim() {
	if cap(s.items) > keptItems {
		*s = Sorter[K]{}
	}
}

// Sort returns the rows of a batch in the order of their stored keys, which are the keys xor flip.
// The result is valid until the next call. Sort ends early with ctx.
func (s *Sorter[K]) Sort(ctx context.Context, dev device.Host, keys []K, flip K) ([]Item[K], error) {
	n := len(keys)
	if cap(s.items) < n {
		s.items = make([]Item[K], n)
	}
	items := s.items[:n]
	var differ atomic.Uint64 // the bits that differ between keys
	var falls atomic.Bool
	all := uint64(keys[0] ^ flip)
	dev.Parallel(n, sortGrain, func(lo, hi int) {
		last, some, down := keys[max(lo-1, 0)]^flip, K(0), false
		for i, k := range keys[lo:hi] {
			k ^= flip
			down = down || k < last
			some |= k ^ K(all)
			items[lo+i] = Item[K]{k, uint32(lo + i)}
			last = k
		}
		differ.Or(uint64(some))
		if down {
			falls.Store(true)
		}
	})
	switch {
	case !falls.Load():
		return items, ctx.Err()
	case n <= smallSort:
		slices.SortFunc(items, compareItems[K])
		return items, ctx.Err()
	}
	if cap(s.other) < n {
		s.other = make([]Item[K], n)
	}
	return s.radix(ctx, dev, items, s.other[:n], uint(bits.Len64(differ.Load())))
}

// radix sorts items with keys that differ only in the last differ bits.
func (s *Sorter[K]) radix(ctx context.Context, dev device.Host, items, to []Item[K], differ uint) ([]Item[K], error) {
	n := len(items)
	width := min(differ, uint(max(4, min(widest, bits.Len(uint(n))-6))))
	shift := differ - width
	mask := K(1)<<width - 1
	ranges := (n + sortGrain - 1) / sortGrain
	for len(s.counts) < ranges {
		s.counts = append(s.counts, make([]uint32, 1<<widest))
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
			it := items[lo+i]
			d := it.Key >> shift & mask
			to[c[d]] = it
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

// sortPart sorts items with keys that differ only in the last differ bits, using other as temporary
// memory of the same size. The result is in other, or in items with stay.
func sortPart[K Key](items, other []Item[K], differ uint, stay bool) {
	for {
		if differ == 0 || len(items) <= shortSort {
			insert(items)
			if !stay {
				copy(other, items)
			}
			return
		}
		width := min(differ, uint(max(4, min(8, bits.Len(uint(len(items)))-2))))
		differ -= width
		mask := K(1)<<width - 1
		var ends [257]uint32
		for i := range items {
			ends[items[i].Key>>differ&mask+1]++
		}
		if ends[items[0].Key>>differ&mask+1] == uint32(len(items)) {
			continue // all the same
		}
		for d := range int(mask) {
			ends[d+1] += ends[d]
		}
		for _, it := range items {
			d := it.Key >> differ & mask
			other[ends[d]] = it
			ends[d]++
		}
		from := uint32(0)
		for _, end := range ends[:mask+1] {
			if from < end {
				sortPart(other[from:end], items[from:end], differ, !stay)
			}
			from = end
		}
		return
	}
}

// insert sorts a few items by insertion, which keeps the order of equal keys.
func insert[K Key](items []Item[K]) {
	for i := 1; i < len(items); i++ {
		it := items[i]
		j := i
		for ; j > 0 && items[j-1].Key > it.Key; j-- {
			items[j] = items[j-1]
		}
		items[j] = it
	}
}
