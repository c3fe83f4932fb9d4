package staging

import (
	"cmp"
	"errors"
	"math/bits"
	"slices"

	"github.com/weftgo/weft/device"
)

// chunkBytes is the size of an allocation of an arena, unless little memory is needed, or more in
// one piece.
const chunkBytes = 16 << 20

// arena hands out parts of a few large allocations. It chooses free parts by best fit, and joins
// adjacent ones when they are released.
type arena struct {
	allocate func(size int) (chunk, error)
	free     func(chunk) error

	limit, allocated, used int    // bytes: maximum allocated, allocated, and used
	idle                   []span // sorted by chunk and place
	chunks                 int    // number of chunks so far, to number them
}

// chunk is an allocation: page-locked memory, or memory of the device.
type chunk struct {
	number int
	size   int
	host   []byte
	buf    device.Buffer
}

// span is a part of a chunk; the zero span is empty.
type span struct {
	chunk  *chunk
	lo, hi int
}

func (s span) host() []byte {
	if s.chunk == nil {
		return nil
	}
	return s.chunk.host[s.lo:s.hi:s.hi]
}

func (s span) ptr() device.Ptr {
	if s.chunk == nil {
		return 0
	}
	return s.chunk.buf.Ptr + device.Ptr(s.lo)
}

// maxSpans returns how many spans of a size a call may have, from half of what is not used.
func (a *arena) maxSpans(size int) int {
	if size == 0 {
		return int(^uint(0) >> 1)
	}
	return max(0, a.limit-a.used) / 2 / size
}

// acquire finds a span of a size; wanted is the total that the call wants. If everything else is
// free, acquire succeeds regardless of the limit.
func (a *arena) acquire(size, wanted int) (s span, found bool, err error) {
	if size == 0 {
		return span{}, true, nil
	}
	for {
		if i := a.bestFit(size); i >= 0 {
			return a.split(i, size), true, nil
		}
		if a.allocated+size > a.limit {
			if err := a.trim(max(0, a.limit-size)); err != nil {
				return span{}, false, err
			}
			if a.allocated+size > a.limit && a.used > 0 {
				return span{}, false, nil
			}
		}
		if err := a.grow(size, wanted); err != nil {
			return span{}, false, err
		}
	}
}

// bestFit returns the index of the smallest idle span of at least a size, or -1.
func (a *arena) bestFit(size int) int {
	found := -1
	for i, s := range a.idle {
		if s.hi-s.lo >= size && (found < 0 || s.hi-s.lo < a.idle[found].hi-a.idle[found].lo) {
			found = i
		}
	}
	return found
}

// split gives out the beginning of an idle span.
func (a *arena) split(i, size int) span {
	s := a.idle[i]
	a.idle[i].lo += size
	if a.idle[i].lo == s.hi {
		a.idle = slices.Delete(a.idle, i, i+1)
	}
	a.used += size
	return span{s.chunk, s.lo, s.lo + size}
}

// grow allocates another chunk.
func (a *arena) grow(size, wanted int) error {
	n := min(1<<bits.Len(uint(max(wanted, 1<<12)-1)), chunkBytes, max(0, a.limit-a.allocated))
	n = align(max(n, size))
	c, err := a.allocate(n)
	if err != nil {
		return err
	}
	a.chunks++
	c.number, c.size = a.chunks, n
	a.allocated += n
	a.idle = append(a.idle, span{&c, 0, n}) // sorted: it has the highest number
	return nil
}

// release takes a span back, and frees chunks beyond the limit.
func (a *arena) release(s span) error {
	if s.chunk == nil {
		return nil
	}
	a.used -= s.hi - s.lo
	i, _ := slices.BinarySearchFunc(a.idle, s, func(x, s span) int {
		return cmp.Or(cmp.Compare(x.chunk.number, s.chunk.number), cmp.Compare(x.lo, s.lo))
	})
	a.idle = slices.Insert(a.idle, i, s)
	for _, i := range []int{i, i - 1} { // with the next one, with the one before
		if i >= 0 && i+1 < len(a.idle) && a.idle[i].chunk == a.idle[i+1].chunk && a.idle[i].hi == a.idle[i+1].lo {
			a.idle[i].hi = a.idle[i+1].hi
			a.idle = slices.Delete(a.idle, i+1, i+2)
		}
	}
	return a.trim(a.limit)
}

// trim frees idle chunks until at most size bytes are allocated.
func (a *arena) trim(size int) (err error) {
	a.idle = slices.DeleteFunc(a.idle, func(s span) bool {
		if a.allocated <= size || s.hi-s.lo < s.chunk.size {
			return false
		}
		a.allocated -= s.chunk.size
		err = errors.Join(err, a.free(*s.chunk))
		return true
	})
	return err
}
