package alloc

import (
	"context"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/weftgo/weft/device"
)

const (
	// cpuGrain is the number of units that a core takes or frees at a time, which takes a few tens
	// of microseconds.
	cpuGrain = 1 << 12
	// cpuPiece is the number of units between two checks of the context.
	cpuPiece = 1 << 20
)

// supers holds the addresses of the super blocks, or nil for those that do not exist.
type supers = [maxSupers]unsafe.Pointer

func supersIn(table device.Slice[uint64]) *supers {
	return (*supers)(unsafe.Pointer(unsafe.SliceData(table.Host())))
}

type cpuEngine struct {
	dev    device.Host
	supers *supers
	warps  atomic.Uint32 // number of workers created so far
}

// local returns the [Local] through which cores take and free the units of a view.
func (c *cpuEngine) local(v view) Local {
	return Local{
		supers: c.supers, warps: &c.warps, view: v,
		units: uintptr(v.Blocks) * bitmapBytes, shift: uint(bits.TrailingZeros32(v.Unit)),
	}
}

func (c *cpuEngine) allocate(ctx context.Context, v view, units []uint32) (done, missing int, err error) {
	return c.forParts(ctx, units, func(units []uint32) (failed int) {
		l := c.local(v)
		w := l.Worker()
		n := w.Allocate(units)
		for i := range units[n:] {
			units[n+i] = NoUnit
		}
		return len(units) - n
	})
}

func (c *cpuEngine) release(ctx context.Context, v view, units []uint32) (done, invalid int, err error) {
	l := c.local(v)
	return c.forParts(ctx, units, func(units []uint32) (failed int) {
		for _, u := range units {
			if !l.contains(u) || !l.Free(u) {
				failed++
			}
		}
		return failed
	})
}

// forParts runs body on parts of a batch, on all cores, and returns the sum of the results.
func (c *cpuEngine) forParts(ctx context.Context, units []uint32, body func(units []uint32) int) (done, sum int, err error) {
	var total atomic.Int64
	for done < len(units) {
		if err := ctx.Err(); err != nil {
			return done, int(total.Load()), err
		}
		piece := units[done:min(done+cpuPiece, len(units))]
		c.dev.Parallel(len(piece), cpuGrain, func(lo, hi int) { total.Add(int64(body(piece[lo:hi]))) })
		done += len(piece)
	}
	return done, int(total.Load()), nil
}

// allocateOn and releaseOn run at once. The memory of a CPU device is host memory, and its streams
// have no work in flight.

func (c *cpuEngine) allocateOn(_ *device.Stream, v view, units device.Slice[uint32]) error {
	_, _, err := c.allocate(context.Background(), v, units.Host())
	return err
}

func (c *cpuEngine) releaseOn(_ *device.Stream, v view, units device.Slice[uint32]) error {
	_, _, err := c.release(context.Background(), v, units.Host())
	return err
}

func (c *cpuEngine) used(_ context.Context, v view) (int, error) {
	var total atomic.Int64
	l := c.local(v)
	c.dev.Parallel(len(v.blocks), 1<<10, func(lo, hi int) {
		n := 0
		for _, first := range v.blocks[lo:hi] {
			for w := range l.bitmap(first) {
				n += bits.OnesCount32(l.bitmap(first)[w])
			}
		}
		total.Add(int64(n))
	})
	return int(total.Load()), nil
}

func (c *cpuEngine) close() error { return nil }
