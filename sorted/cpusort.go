package sorted

import (
	"context"
	"math/bits"
	"unsafe"

	"github.com/weftgo/weft/device"
)

const (
	// digitBits of the keys are sorted by in a pass: a core writes to as many places at once.
	digitBits = 8
	digits    = 1 << digitBits

	// leastPart is the number of rows that it pays to give a core.
	leastPart = 1 << 12
	// partsPerCore are more than one, lest all wait for the last.
	partsPerCore = 4

	// keptRows is up to how many rows of memory are kept from one batch to the next.
	keptRows = 1 << 22
)

// sorter sorts the rows of a batch by their keys, those with one key in batch order: a radix
// sort, of the bits that differ. It keeps its memory; only writers have it.
type sorter[K uint32 | uint64] struct {
	keys, otherKeys   []K
	order, otherOrder []uint32
}

// grain is the number of rows of a part, of which each core has some.
func grain(dev device.Host, n int) int {
	parts := partsPerCore * dev.Properties().Units
	return max(leastPart, (n+parts-1)/parts)
}

// sort returns the keys, as unsigned numbers in order, and which rows they are of. Both are
// good until the next call.
func (s *sorter[K]) sort(ctx context.Context, dev device.Host, of []K, flip K) (keys []K, order []uint32, err error) {
	n := len(of)
	s.room(n)
	keys, order = s.keys[:n], s.order[:n]
	differ, ascending := s.fill(dev, of, flip)
	if ascending {
		return keys, order, ctx.Err()
	}
	otherKeys, otherOrder := s.otherKeys[:n], s.otherOrder[:n]
	for differ != 0 {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		shift := bits.TrailingZeros64(uint64(differ))
		differ &^= (digits - 1) << shift
		pass(dev, keys, order, otherKeys, otherOrder, shift)
		keys, order, otherKeys, otherOrder = otherKeys, otherOrder, keys, order
	}
	return keys, order, nil
}

func (s *sorter[K]) room(n int) {
	if len(s.keys) < n {
		s.keys, s.otherKeys, s.order, s.otherOrder = make([]K, n), make([]K, n), make([]uint32, n), make([]uint32, n)
	}
}

// release gives much memory back.
func (s *sorter[K]) release() {
	if len(s.keys) > keptRows {
		*s = sorter[K]{}
	}
}

// fill copies keys, and finds out in which bits they differ and whether they are sorted
// already.
func (s *sorter[K]) fill(dev device.Host, of []K, flip K) (differ K, ascending bool) {
	if len(of) == 0 {
		return 0, true
	}
	size := grain(dev, len(of))
	type result struct {
		differ K
		falls  bool
	}
	results := make([]result, (len(of)+size-1)/size)
	dev.Parallel(len(of), size, func(lo, hi int) {
		r := &results[lo/size]
		last := of[max(lo-1, 0)] ^ flip
		first := of[0] ^ flip
		for i := lo; i < hi; i++ {
			k := of[i] ^ flip
			s.keys[i], s.order[i] = k, uint32(i)
			r.differ |= k ^ first
			r.falls = r.falls || k < last
			last = k
		}
	})
	ascending = true
	for _, r := range results {
		differ |= r.differ
		ascending = ascending && !r.falls
	}
	return differ, ascending
}

// pass moves rows in the order of a digit.
func pass[K uint32 | uint64](dev device.Host, keys []K, order []uint32, toKeys []K, toOrder []uint32, shift int) {
	size := grain(dev, len(keys))
	starts := make([][digits]int, (len(keys)+size-1)/size)
	digit := func(k K) uint8 { return uint8(k >> (shift & int(8*unsafe.Sizeof(k)-1))) }
	dev.Parallel(len(keys), size, func(lo, hi int) {
		count := &starts[lo/size]
		for _, k := range keys[lo:hi] {
			count[digit(k)]++
		}
	})
	at := 0
	for d := range digits {
		for p := range starts {
			starts[p][d], at = at, at+starts[p][d]
		}
	}
	dev.Parallel(len(keys), size, func(lo, hi int) {
		start := &starts[lo/size]
		for i := lo; i < hi; i++ {
			k := keys[i]
			d := digit(k)
			toKeys[start[d]], toOrder[start[d]] = k, order[i]
			start[d]++
		}
	})
}
