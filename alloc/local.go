package alloc

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/weftgo/weft/internal/hash"
)

// Local provides access to an [Owner] from Go code on a device.Host. It corresponds to [Ref] in
// kernels and has the same lifetime. On other devices it is zero and has no units.
type Local struct {
	supers *supers
	warps  *atomic.Uint32
	units  uintptr // offset of the first unit in a super block
	shift  uint    // log2 of the size of a unit
	view
}

// Local returns access to the owner's units for Go code on a device.Host. Its workers try every
// memory block before they report that no unit is free.
func (o *Owner) Local() Local {
	o.mu.Lock()
	defer o.mu.Unlock()
	c, ok := o.pool.engine.(*cpuEngine)
	if !ok || o.closed {
		return Local{}
	}
	return c.local(o.view(true))
}

// At returns the memory of a unit. The unit must be taken.
func (l *Local) At(unit uint32) unsafe.Pointer {
	return unsafe.Add(l.supers[unit>>superShift], l.units+uintptr(unit&unitMask)<<(l.shift&31))
}

// bitmap returns the bitmap of the memory block that contains a unit. Bit i of word w is 1 if unit
// 32w+i of the block is taken.
func (l *Local) bitmap(unit uint32) *[bitmapWords]uint32 {
	block := unit & unitMask >> blockShift
	return (*[bitmapWords]uint32)(unsafe.Add(l.supers[unit>>superShift], uintptr(block)*bitmapBytes))
}

// contains reports whether the owner has the unit. For an owner with a list (see Ref.List), it
// reports only whether the super block of the unit exists.
func (l *Local) contains(unit uint32) bool {
	switch {
	case unit&unitMask >= l.Blocks*blockUnits:
		return false
	case l.List == 0:
		return unit < l.Known
	}
	return unit>>superShift < maxSupers && l.supers[unit>>superShift] != nil
}

// Free releases a unit of the owner. It returns false if the unit was not taken. Readers access a
// unit without checking its bit.
func (l *Local) Free(unit uint32) bool {
	bit := uint32(1) << (unit % 32)
	word := &l.bitmap(unit)[unit%blockUnits/32]
	return atomic.AndUint32(word, ^bit)&bit != 0
}

// Worker takes units on one core, from one memory block at a time. Use one Worker per batch and
// goroutine.
type Worker struct {
	local *Local
	warp  uint32 // number of the worker
	tried uint32 // number of memory blocks tried so far

	first  uint32               // address of the first unit in the memory block
	bitmap *[bitmapWords]uint32 // bitmap of the memory block
	taken  [bitmapWords]uint32  // copy of the bitmap when last read
	word   int                  // all words before this one are full
}

// Worker returns a worker that has no memory block yet.
func (l *Local) Worker() Worker {
	return Worker{local: l, warp: l.warps.Add(1), word: bitmapWords}
}

// Allocate takes units and stores their addresses in the slice. It returns the number of stored
// addresses, which is less than the length of the slice only if no more units are found.
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

// AllocateOne takes a unit and returns its address, or [NoUnit] if none is free.
func (w *Worker) AllocateOne() uint32 {
	var u [1]uint32
	if w.Allocate(u[:]) == 0 {
		return NoUnit
	}
	return u[0]
}

// nextBlock moves to another memory block. It chooses the first 32 by a hash. If l.Tries allows
// more, it then moves through all memory blocks in order, so the worker fails only if no unit is
// free.
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

// lowestBits returns the n lowest set bits of x, or all set bits if x has fewer.
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
