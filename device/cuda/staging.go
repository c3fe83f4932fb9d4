package cuda

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/weftgo/weft/device"
)

// These constants size the staging ring. On an H200 with 16 cores, copies of 256 MiB run at 38 GB/s
// to the device and 33 GB/s from it. With half the slots and movers, copies to the device run at 20
// GB/s; with half the slot size, at 28. Page-locked memory is copied at 53 GB/s.
const (
	// slotSize is large enough that the few microseconds of a driver call do not matter, and small
	// enough that a copy of several MiB uses several slots at a time.
	slotSize = 1 << 20
	// maxSlots is the maximum number of slots of a stream.
	maxSlots = 16
	// maxMovers is the maximum number of goroutines that move the bytes of one copy. One core moves
	// about 10 GB/s, whereas a GPU copies 25 to 55 GB/s.
	maxMovers = 8
	// smallCopy is the maximum size of a copy to the device that shares a slot with others. Sharing
	// lets many small copies be in flight.
	smallCopy = 64 << 10
	// slotAlign is the alignment of copies within a shared slot.
	slotAlign = 256
)

// slot is a block of page-locked memory through which other memory is copied.
type slot struct {
	mem   []byte
	event uintptr // recorded after the last copy from or to mem
	busy  bool    // whether event may not have been reached yet
}

// ring holds the slots of a stream, which it allocates on demand. No goroutine uses a slot in idle,
// but the slot's last copy may still run.
type ring struct {
	s     *stream
	idle  chan *slot
	mu    sync.Mutex // guards the field all
	all   []*slot
	small sync.Mutex // guards tail and used
	tail  *slot      // slot that small copies share
	used  int        // used bytes of tail
}

func (r *ring) init(s *stream) {
	r.s = s
	r.idle = make(chan *slot, maxSlots)
}

// acquire returns a slot after its last copy has completed. If the next idle slot is not ready,
// acquire allocates a slot. If the ring already has maxSlots slots, acquire waits instead.
func (r *ring) acquire(ctx context.Context) (*slot, error) {
	select {
	case sl := <-r.idle:
		ready, err := r.ready(sl)
		if ready {
			return sl, nil
		}
		r.idle <- sl
		if err != nil {
			return nil, err
		}
	default:
	}
	if sl, err := r.grow(); sl != nil || err != nil {
		return sl, err
	}
	select {
	case sl := <-r.idle:
		if err := r.await(ctx, sl); err != nil {
			r.idle <- sl
			return nil, err
		}
		return sl, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ready reports whether a slot's last copy has completed.
func (r *ring) ready(sl *slot) (bool, error) {
	if !sl.busy {
		return true, nil
	}
	err := r.s.dev.do(func(fr *frame) error {
		done, err := fr.query(symEventQuery, sl.event)
		sl.busy = !done
		return err
	})
	return !sl.busy && err == nil, err
}

// await waits for a slot's last copy.
func (r *ring) await(ctx context.Context, sl *slot) error {
	return wait(ctx, func() (bool, error) { return r.ready(sl) })
}

// grow allocates another slot. It returns nil if the ring has maxSlots.
func (r *ring) grow() (*slot, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) == maxSlots {
		return nil, nil
	}
	sl := new(slot)
	err := r.s.dev.do(func(fr *frame) (err error) {
		if sl.event, err = fr.newEvent(eventDisableTiming); err != nil {
			return err
		}
		if sl.mem, err = fr.allocHost(slotSize); err != nil {
			return errors.Join(err, fr.call(symEventDestroy, sl.event))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	r.all = append(r.all, sl)
	return sl, nil
}

// submit calls the driver function sym, which copies from or to a slot. It marks the slot as busy
// until the copy has completed.
func (r *ring) submit(sl *slot, sym symbol, to, from uintptr, size int) error {
	var submitted bool
	err := r.s.dev.do(func(fr *frame) error {
		if err := fr.call(sym, to, from, uintptr(size), r.s.handle); err != nil {
			return err
		}
		submitted, sl.busy = true, true
		return fr.call(symEventRecord, sl.event, r.s.handle)
	})
	if submitted && err != nil {
		// Without the event, only a sync of the stream shows that the copy has completed.
		return errors.Join(err, r.s.sync(context.Background()))
	}
	return err
}

func (r *ring) free(fr *frame) error {
	var errs []error
	for _, sl := range r.all {
		errs = append(errs, fr.freeHost(sl.mem), fr.call(symEventDestroy, sl.event))
	}
	r.all, r.tail = nil, nil
	return errors.Join(errs...)
}

// copyIn copies src to the device through slots. The caller may change src after the call.
func (r *ring) copyIn(dst device.Ptr, src []byte) error {
	if len(src) <= smallCopy {
		return r.copyInSmall(dst, src)
	}
	return inPieces(len(src), func(lo, hi int) error {
		sl, err := r.acquire(context.Background())
		if err != nil {
			return err
		}
		copy(sl.mem, src[lo:hi])
		err = r.submit(sl, symMemcpyHtoDAsync, uintptr(dst)+uintptr(lo), address(sl.mem), hi-lo)
		r.idle <- sl
		return err
	})
}

// copyInSmall copies src through the slot that small copies share.
func (r *ring) copyInSmall(dst device.Ptr, src []byte) error {
	r.small.Lock()
	defer r.small.Unlock()
	if r.tail != nil && r.used+len(src) > slotSize {
		r.idle <- r.tail
		r.tail = nil
	}
	if r.tail == nil {
		sl, err := r.acquire(context.Background())
		if err != nil {
			return err
		}
		r.tail, r.used = sl, 0
	}
	at := r.tail.mem[r.used:]
	copy(at, src)
	r.used += (len(src) + slotAlign - 1) &^ (slotAlign - 1)
	return r.submit(r.tail, symMemcpyHtoDAsync, uintptr(dst), address(at), len(src))
}

// copyOut copies device memory to dst through slots. After copyOut returns, even with an error, no
// goroutine writes to dst.
func (r *ring) copyOut(ctx context.Context, dst []byte, src device.Ptr) error {
	return inPieces(len(dst), func(lo, hi int) error {
		sl, err := r.acquire(ctx)
		if err != nil {
			return err
		}
		defer func() { r.idle <- sl }()
		if err := r.submit(sl, symMemcpyDtoHAsync, address(sl.mem), uintptr(src)+uintptr(lo), hi-lo); err != nil {
			return err
		}
		if err := r.await(ctx, sl); err != nil {
			return err
		}
		copy(dst[lo:hi], sl.mem)
		return nil
	})
}

// inPieces divides [0,n) into pieces of slotSize and calls f for each. Several goroutines call f,
// so that one moves a piece while the GPU copies another. After a failure it starts no more pieces.
func inPieces(n int, f func(lo, hi int) error) error {
	if n <= slotSize {
		return f(0, n)
	}
	var (
		next   atomic.Int64
		failed atomic.Pointer[error]
		movers sync.WaitGroup
	)
	pieces := (n + slotSize - 1) / slotSize
	move := func() {
		for failed.Load() == nil {
			i := int(next.Add(1)) - 1
			if i >= pieces {
				return
			}
			if err := f(i*slotSize, min((i+1)*slotSize, n)); err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		}
	}
	// At least two movers run, so that one moves a piece while the GPU copies the other's.
	for range min(pieces, maxMovers, max(runtime.GOMAXPROCS(0), 2)) - 1 {
		movers.Go(move)
	}
	move()
	movers.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}
