package staging

import (
	"cmp"
	"errors"
	"math/bits"
	"slices"

	"github.com/weftgo/weft/device"
)

// chunkBytes is the usual size of an allocation. It is smaller if the call needs less memory, and
// larger if a single span needs more.
const chunkBytes = 16 << 20

// arena divides a few large allocations into spans. It chooses idle spans by best fit, and joins
// adjacent ones when they are released.
type arena struct {
	allocate func(size int) (chunk, error)
	free     func(chunk) error

	limit, allocated, used int    // bytes: maximum to allocate, allocated, in use
	idle                   []span // sorted by chunk and offset
	chunks                 int    // number of chunks allocated so far; numbers the next chunk
}

// chunk is one allocation, either of page-locked memory or of device memory.
type chunk struct {
	number int
	size   int
	host   []byte
	buf    device.Buffer
}

// span is a range of bytes [lo,hi) of a chunk. The zero span is empty.
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

// maxSpans returns the number of spans of the given size that fit in half of the unused memory.
func (a *arena) maxSpans(size int) int {
	if size == 0 {
		return int(^uint(0) >> 1)
	}
	return max(0, a.limit-a.used) / 2 / size
}

// acquire returns a span of the given size. wanted is the total size that the call prefers; it
// determines how much to allocate. If the limit forbids the span, found is false, unless no other
// memory is in use.
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

// bestFit returns the index of the smallest idle span that has at least the given size, or -1.
func (a *arena) bestFit(size int) int {
	found := -1
	for i, s := range a.idle {
		if s.hi-s.lo >= size && (found < 0 || s.hi-s.lo < a.idle[found].hi-a.idle[found].lo) {
			found = i
		}
	}
	return found
}

// split takes the first size bytes from idle span i.
func (a *arena) split(i, size int) span {
	s := a.idle[i]
	a.idle[i].lo += size
	if a.idle[i].lo == s.hi {
		a.idle = slices.Delete(a.idle, i, i+1)
	}
	a.used += size
	return span{s.chunk, s.lo, s.lo + size}
}

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
	a.idle = append(a.idle, span{&c, 0, n}) // still sorted: the new chunk has the highest number
	return nil
}

// release makes a span idle, and frees idle chunks while more than the limit is allocated.
func (a *arena) release(s span) error {
	if s.chunk == nil {
		return nil
	}
	a.used -= s.hi - s.lo
	i, _ := slices.BinarySearchFunc(a.idle, s, func(x, s span) int {
		return cmp.Or(cmp.Compare(x.chunk.number, s.chunk.number), cmp.Compare(x.lo, s.lo))
	})
	a.idle = slices.Insert(a.idle, i, s)
	for _, i := range []int{i, i - 1} { // join with the next span, then with the previous one
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
