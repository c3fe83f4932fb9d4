package lsm

import (
	"errors"
	"fmt"
	"math/bits"
	"sync"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/inorder"
)

// pool allocates the memory of levels. The memory of merged levels is kept for new levels, which
// often have the same size.
type pool struct {
	inorder.Layout
	base  int // capacity of the newest level in entries; a power of two
	spare core.Spare[*level]

	mu sync.Mutex // guards level.refs, which the end of a last lease changes
}

// maxSpare is the maximum number of unused levels to keep.
var maxSpare = 16

const (
	// sizeSteps is the number of memory sizes between two powers of two. Sizes are rounded up to
	// these, so that kept memory can be reused.
	sizeSteps = 8
	// minCapacity is the minimum capacity of a level's memory in entries.
	minCapacity = 256
)

// capacityFor returns the capacity to allocate for the given number of entries.
func capacityFor(entries int) int {
	if entries <= minCapacity {
		return minCapacity
	}
	step := 1 << max(0, bits.Len(uint(entries-1))-bits.Len(uint(sizeSteps)))
	return (entries + step - 1) &^ (step - 1)
}

// alloc returns memory for a level of at most n entries. Its content is undefined.
func (p *pool) alloc(slot, n int) (*level, error) {
	capacity := capacityFor(n)
	if l, ok := p.spare.Acquire(capacity, 2*capacity); ok {
		l.slot, l.n = slot, n
		return l, nil
	}
	buf, err := p.spare.Alloc(p.size(capacity))
	if errors.Is(err, device.ErrMemory) { // free the kept memory and try again
		if err = p.spare.Trim(); err == nil {
			buf, err = p.spare.Alloc(p.size(capacity))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%d entries of %d and %d bytes: %w", n, p.Key, p.Val, err)
	}
	return &level{buf: buf, capacity: capacity, slot: slot, n: n}, nil
}

// bytes implements engine. It counts the levels of generation now and the kept memory as used, and
// all other levels as held.
func (p *pool) bytes(now *generation) (used, held int) {
	used, all := p.spare.Bytes()
	for _, l := range now.levels {
		used += l.buf.Size
	}
	return used, all - used
}
