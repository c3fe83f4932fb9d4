package slab

import (
	"context"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/hash"
)

const (
	// allocGrain is the number of units that a core takes or frees at a time:
	// a few tens of microseconds' work.
	allocGrain = 1 << 12
	// allocPiece is the number between two looks at the context.
	allocPiece = 1 << 20
)

// cpuAlloc runs on the cores of the host.
type cpuAlloc struct {
	dev    device.Host
	supers *[maxSupers]unsafe.Pointer
	warps  atomic.Uint32 // residents so far
}

func newCPUAlloc(dev device.Host, table device.Slice[uint64]) *cpuAlloc {
	return &cpuAlloc{dev: dev, supers: (*[maxSupers]unsafe.Pointer)(unsafe.Pointer(unsafe.SliceData(table.Host())))}
}

// bitmap is that of the memory block with a unit; bit i of word w is 1 if unit
// 32w+i of the block is taken.
func (c *cpuAlloc) bitmap(unit uint32) *[bitmapWords]uint32 {
	block := unit & unitMask >> blockShift
	return (*[bitmapWords]uint32)(unsafe.Add(c.supers[unit>>superShift], uintptr(block)*bitmapBytes))
}

func (c *cpuAlloc) allocate(ctx context.Context, ref AllocRef, units []uint32) (done, missing int, err error) {
	return c.each(ctx, units, func(units []uint32) (none int) {
		r := c.resident(ref)
		n := r.take(units)
		for i := range units[n:] {
			units[n+i] = noUnit
		}
		return len(units) - n
	})
}

func (c *cpuAlloc) release(ctx context.Context, ref AllocRef, units []uint32) (done, invalid int, err error) {
	return c.each(ctx, units, func(units []uint32) (none int) {
		for _, u := range units {
			if !ref.has(u) || !c.free(u) {
				none++
			}
		}
		return none
	})
}

// each runs body for parts of a batch on all cores and adds up what it
// returns.
func (c *cpuAlloc) each(ctx context.Context, units []uint32, body func(units []uint32) int) (done, sum int, err error) {
	var total atomic.Int64
	for done < len(units) {
		if err := ctx.Err(); err != nil {
			return done, int(total.Load()), err
		}
		piece := units[done:min(done+allocPiece, len(units))]
		c.dev.Parallel(len(piece), allocGrain, func(lo, hi int) { total.Add(int64(body(piece[lo:hi]))) })
		done += len(piece)
	}
	return done, int(total.Load()), nil
}

// free frees a unit; false if it was not taken. Nobody reads what the unit
// holds on the strength of its bit.
func (c *cpuAlloc) free(unit uint32) bool {
	bit := uint32(1) << (unit % 32)
	word := &c.bitmap(unit)[unit%blockUnits/32]
	return atomic.AndUint32(word, ^bit)&bit != 0
}

// allocateOn and releaseOn: the memory of a CPU device is host memory, and its
// streams have nothing under way.

func (c *cpuAlloc) allocateOn(_ *device.Stream, ref AllocRef, units device.Slice[uint32]) error {
	_, _, err := c.allocate(context.Background(), ref, units.Host())
	return err
}

func (c *cpuAlloc) releaseOn(_ *device.Stream, ref AllocRef, units device.Slice[uint32]) error {
	_, _, err := c.release(context.Background(), ref, units.Host())
	return err
}

func (c *cpuAlloc) used(_ context.Context, ref AllocRef) (int, error) {
	var total atomic.Int64
	for i := range ref.Count {
		words := unsafe.Slice((*uint64)(c.supers[i]), int(ref.Blocks)*bitmapBytes/8)
		c.dev.Parallel(len(words), 1<<15, func(lo, hi int) {
			n := 0
			for _, w := range words[lo:hi] {
				n += bits.OnesCount64(w)
			}
			total.Add(int64(n))
		})
	}
	return int(total.Load()), nil
}

func (c *cpuAlloc) close() error { return nil }

// resident is what a worker takes units from: a memory block at a time. It
// serves one batch.
type resident struct {
	alloc   *cpuAlloc
	ref     AllocRef
	warp    uint32 // the worker's number
	changes uint32 // memory blocks so far

	first  uint32               // address of the block's first unit
	bitmap *[bitmapWords]uint32 // of the block
	taken  [bitmapWords]uint32  // the same, as last seen
	word   int                  // all before it are full
}

// resident makes a worker's resident. It has no memory block yet.
func (c *cpuAlloc) resident(ref AllocRef) resident {
	return resident{alloc: c, ref: ref, warp: c.warps.Add(1), word: bitmapWords}
}

// take fills units with addresses and returns how many it could.
func (r *resident) take(units []uint32) (n int) {
	for n < len(units) {
		if r.word == bitmapWords {
			if !r.change() {
				break
			}
			continue
		}
		ask := lowestBits(^r.taken[r.word], len(units)-n)
		if ask == 0 {
			r.word++
			continue
		}
		was := atomic.OrUint32(&r.bitmap[r.word], ask)
		r.taken[r.word] = was | ask
		for got := ask &^ was; got != 0; got &= got - 1 {
			units[n] = r.first + uint32(r.word*32+bits.TrailingZeros32(got))
			n++
		}
	}
	return n
}

// one takes a unit, or noUnit if there is none.
func (r *resident) one() uint32 {
	var u [1]uint32
	if r.take(u[:]) == 0 {
		return noUnit
	}
	return u[0]
}

// change moves to another memory block: by a hash at first, and if the worker
// is to sweep, then through all of them, so that it gives up only when there
// is no free unit.
func (r *resident) change() bool {
	if r.changes >= r.ref.Tries || r.ref.Count == 0 {
		return false
	}
	blocks := r.ref.Count * r.ref.Blocks
	i := hash.Reduce32(hash.Uint32(r.warp*hashedTries+min(r.changes, hashedTries-1), 0), blocks)
	if r.changes >= hashedTries {
		i = (i + 1 + r.changes - hashedTries) % blocks
	}
	r.changes++
	r.first = i/r.ref.Blocks<<superShift | i%r.ref.Blocks<<blockShift
	r.bitmap = r.alloc.bitmap(r.first)
	for w := range r.taken {
		r.taken[w] = atomic.LoadUint32(&r.bitmap[w])
	}
	r.word = 0
	return true
}

// lowestBits are the n lowest bits of those that are set in x, or all of them.
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
