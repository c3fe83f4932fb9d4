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

// pool is where levels have their memory from. That of levels which have been merged is kept for
// those to come, which are as large again and again.
type pool struct {
	inorder.Layout
	base  int // entries of the newest level, at most; a power of two
	spare core.Spare[*level]

	mu sync.Mutex // of whoever ends a last lease
}

// mostSpare is how many blocks of memory are kept, at most.
var mostSpare = 16

const (
	// sizeSteps is how many sizes of memory there are between two powers of two, so that what
	// is kept fits again.
	sizeSteps = 8
	// leastRoom is the number of entries that there is memory for at least.
	leastRoom = 256
)

// roomFor is how many entries there is memory for where so many are needed.
func roomFor(entries int) int {
	if entries <= leastRoom {
		return leastRoom
	}
	step := 1 << max(0, bits.Len(uint(entries-1))-bits.Len(uint(sizeSteps)))
	return (entries + step - 1) &^ (step - 1)
}

// take is memory for a level of n entries at most, whose content is undefined.
func (p *pool) take(slot, n int) (*level, error) {
	room := roomFor(n)
	if l, ok := p.spare.Take(room, 2*room); ok {
		l.slot, l.n = slot, n
		return l, nil
	}
	buf, err := p.spare.Alloc(p.size(room))
	if errors.Is(err, device.ErrMemory) { // rather none for what is to come
		if err = p.spare.Trim(); err == nil {
			buf, err = p.spare.Alloc(p.size(room))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%d entries of %d and %d bytes: %w", n, p.Key, p.Val, err)
	}
	return &level{buf: buf, room: room, slot: slot, n: n}, nil
}

// bytes is the size of the levels of a generation, and of what is kept; and of all others.
func (p *pool) bytes(now *generation) (used, held int) {
	used, all := p.spare.Bytes()
	for _, l := range now.levels {
		used += l.buf.Size
	}
	return used, all - used
}
