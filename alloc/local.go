package alloc

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/weftgo/weft/internal/hash"
)

// Local is an [Owner] as Go code on a device.Host sees it: the twin of [Ref] for engines that run
// on cores, with the same lifetime. On other devices it is zero and has no units.
type Local struct {
	supers *supers
	warps  *atomic.Uint32
	units  uintptr // offset of the units in a super block
	shift  uint    // binary logarithm of the size of a unit
	view
}

// Local returns the owner for Go code of the caller, on a device.Host. Its workers try every memory
// block before they give up.
func (o *Owner) Local() Local {
	o.mu.Lock()
	defer o.mu.Unlock()
	c, ok := o.pool.engine.(*cpuEngine)
	if !ok || o.closed {
		return Local{}
	}
	return c.local(o.view(true))
}

// At returns the memory of a unit, which must be taken.
func (l *Local) At(unit uint32) unsafe.Pointer {
	return unsafe.Add(l.supers[unit>>superShift], l.units+uintptr(unit&unitMask)<<(l.shift&31))
}

// bitmap returns the bitmap of the memory block with a unit. Bit i of word w is 1 if unit 32w+i of
// the block is taken.
func (l *Local) bitmap(unit uint32) *[bitmapWords]uint32 {
	block := unit & unitMask >> blockShift
	return (*[bitmapWords]uint32)(unsafe.Add(l.supers[unit>>superShift], uintptr(block)*bitmapBytes))
}

// contains reports whether the owner has a unit with an address. If the owner has a list, contains
// reports it for the pool.
func (l *Local) contains(unit uint32) bool {
	switch {
	case unit&unitMask >= l.Blocks*blockUnits:
		return false
	case l.List == 0:
		return unit < l.Known
	}
	return unit>>superShift < maxSupers && l.supers[unit>>superShift] != nil
}

// Free releases a unit, and returns false if it was not taken. No reader relies on a unit's bit to
// read its content. The address must be of a unit of the owner.
func (l *Local) Free(unit uint32) bool {
	bit := uint32(1) << (unit % 32)
	word := &l.bitmap(unit)[unit%blockUnits/32]
	return atomic.AndUint32(word, ^bit)&bit != 0
}

// Worker takes units on one core, from one memory block at a time. It serves one batch and one
// goroutine.
type Worker struct {
	local *Local
	warp  uint32 // the worker's number
	tried uint32 // memory blocks so far

	first  uint32               // address of the block's first unit
	bitmap *[bitmapWords]uint32 // of the block
	taken  [bitmapWords]uint32  // the same, as last seen
	word   int                  // all before it are full
}

// Worker makes a worker that has no memory block yet.
func (l *Local) Worker() Worker {
	return Worker{local: l, warp: l.warps.Add(1), word: bitmapWords}
}

// Allocate fills units with addresses and returns the number filled.
func (w *Worker) Allocate(units []uint32) (n int) {
	for n < len(units) {
		if w.word == bitmapWords {
			if !w.nextBlock() {
				break
			}
			continue
		}
		mask := lowestBits(^w.taken[w.word], len(units)-n)
		if mask == 0 {
			w.word++
			continue
		}
		old := atomic.OrUint32(&w.bitmap[w.word], mask)
		w.taken[w.word] = old | mask
		for taken := mask &^ old; taken != 0; taken &= taken - 1 {
			units[n] = w.first + uint32(w.word*32+bits.TrailingZeros32(taken))
			n++
		}
	}
	return n
}

// AllocateOne takes a unit. It returns [NoUnit] if none is free.
func (w *Worker) AllocateOne() uint32 {
	var u [1]uint32
	if w.Allocate(u[:]) == 0 {
		return NoUnit
	}
	return u[0]
}

// nextBlock moves to another memory block, by a hash at first. If the worker sweeps, it then moves
// through all of them, so that it gives up only if no unit is free.
func (w *Worker) nextBlock() bool {
	l := w.local
	blocks := uint32(len(l.blocks))
	if w.tried >= l.Tries || blocks == 0 {
		return false
	}
	i := hash.Reduce32(hash.Uint32(w.warp*hashedTries+min(w.tried, hashedTries-1), 0), blocks)
	if w.tried >= hashedTries {
		i = (i + 1 + w.tried - hashedTries) % blocks
	}
	w.tried++
	w.first = l.blocks[i]
	w.bitmap = l.bitmap(w.first)
	for i := range w.taken {
		w.taken[i] = atomic.LoadUint32(&w.bitmap[i])
	}
	w.word = 0
	return true
}

// lowestBits returns the n lowest of the bits set in x, or all of them.
func lowestBits(x uint32, n int) uint32 {
	if n >= bits.OnesCount32(x) {
		return x
	}
	rest := x
	for range n {
		rest &= rest - 1
	}
	return x ^ rest
}
