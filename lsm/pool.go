package lsm

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"

	"github.com/weftgo/weft/device"
)

// pool is where levels have their memory from. That of levels which have been merged is kept for
// those to come, which are as large again and again.
type pool struct {
	dev      device.Device
	key, val int // bytes
	base     int // entries of the newest level, at most; a power of two
	// idle waits until nothing submitted reads or writes levels that are in use no more, before
	// their memory is freed; nil: nothing does. What is taken again comes behind it.
	idle func() error

	mu     sync.Mutex // of whoever ends a last lease
	spare  []*level
	taken  int // bytes of all memory that has been taken and not been freed
	closed bool
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
	p.mu.Lock()
	at := -1
	for i, l := range p.spare {
		if l.room >= room && l.room <= 2*room && (at < 0 || l.room < p.spare[at].room) {
			at = i
		}
	}
	if at >= 0 {
		l := p.spare[at]
		p.spare = slices.Delete(p.spare, at, at+1)
		p.mu.Unlock()
		l.slot, l.n = slot, n
		return l, nil
	}
	p.mu.Unlock()
	buf, err := p.dev.Alloc(p.size(room))
	if errors.Is(err, device.ErrMemory) { // rather none for what is to come
		if err = p.trim(); err == nil {
			buf, err = p.dev.Alloc(p.size(room))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%d entries of %d and %d bytes: %w", n, p.key, p.val, err)
	}
	p.mu.Lock()
	p.taken += buf.Size
	p.mu.Unlock()
	return &level{buf: buf, room: room, slot: slot, n: n}, nil
}

// keep keeps the memory of a level, and returns what is to be freed instead: what has been kept
// for longest. Its caller has the mutex.
func (p *pool) keep(l *level) (freed []*level) {
	if p.closed {
		return []*level{l}
	}
	p.spare = append(p.spare, l)
	if len(p.spare) > mostSpare {
		freed = append(freed, p.spare[0])
		p.spare = slices.Delete(p.spare, 0, 1)
	}
	return freed
}

// free frees memory, if there is any.
func (p *pool) free(levels []*level) (err error) {
	if len(levels) == 0 {
		return nil
	}
	p.mu.Lock()
	idle := p.idle
	p.mu.Unlock()
	if idle != nil {
		if err := idle(); err != nil {
			return err
		}
	}
	for _, l := range levels {
		err = errors.Join(err, p.drop(l))
	}
	return err
}

// drop frees memory that nothing reads or writes.
func (p *pool) drop(l *level) error {
	p.mu.Lock()
	p.taken -= l.buf.Size
	p.mu.Unlock()
	return p.dev.Free(l.buf)
}

// trim frees what is kept.
func (p *pool) trim() error {
	p.mu.Lock()
	levels := p.spare
	p.spare = nil
	p.mu.Unlock()
	return p.free(levels)
}

// close frees it, and keeps nothing from now on. Nothing is under way any more.
func (p *pool) close() error {
	p.mu.Lock()
	p.closed, p.idle = true, nil
	p.mu.Unlock()
	return p.trim()
}

// bytes is the size of the levels of a generation, and of what is kept; and of all others.
func (p *pool) bytes(now *generation) (used, held int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range now.levels {
		used += l.buf.Size
	}
	for _, l := range p.spare {
		used += l.buf.Size
	}
	return used, p.taken - used
}
