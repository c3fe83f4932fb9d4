package cpu

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"
	"unsafe"

	"github.com/weftgo/weft/device"
)

// copyGrain is the number of bytes that one worker copies or fills at a time. Copying them takes
// longer than waking the worker.
const copyGrain = 1 << 20

// NewStream implements [device.Device]. Operations of the stream have completed when they return.
func (d *Device) NewStream() (*device.Stream, error) {
	if d.closed.Load() {
		return nil, errClosed("NewStream")
	}
	return device.NewStream(d, &stream{dev: d}), nil
}

// stream implements device.StreamDriver.
type stream struct {
	dev    *Device
	mu     sync.Mutex // serializes operations
	closed bool
}

// do runs one operation under the locks, unless the device or the stream is closed.
func (s *stream) do(op string, f func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dev.work.RLock()
	defer s.dev.work.RUnlock()
	if s.dev.closed.Load() {
		return errClosed(op)
	}
	if s.closed {
		return fmt.Errorf("cpu: %s: stream %w", op, device.ErrClosed)
	}
	return f()
}

// block returns the device memory [p,p+size), or an error that names operation op.
func (s *stream) block(op string, p device.Ptr, size int) ([]byte, error) {
	for _, t := range []*table{&s.dev.blocks, &s.dev.ranges, &s.dev.mapped} {
		if b, ok := t.slice(p, size); ok {
			return b, nil
		}
	}
	return nil, fmt.Errorf("cpu: %s: %w: %d bytes at %#x are not within memory of this device", op, device.ErrInvalid, size, uint64(p))
}

func (s *stream) CopyIn(dst device.Ptr, src []byte) error {
	return s.do("CopyIn", func() error {
		b, err := s.block("CopyIn", dst, len(src))
		if err == nil {
			s.dev.move(b, src)
		}
		return err
	})
}

func (s *stream) CopyOut(ctx context.Context, dst []byte, src device.Ptr) error {
	return s.do("CopyOut", func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := s.block("CopyOut", src, len(dst))
		if err == nil {
			s.dev.move(dst, b)
		}
		return err
	})
}

func (s *stream) CopyInAsync(dst device.Ptr, src []byte) error { return s.CopyIn(dst, src) }

func (s *stream) CopyOutAsync(dst []byte, src device.Ptr) error {
	return s.CopyOut(context.Background(), dst, src)
}

func (s *stream) Copy(dst, src device.Ptr, size int) error {
	return s.do("Copy", func() error {
		from, err := s.block("Copy from", src, size)
		if err != nil {
			return err
		}
		to, err := s.block("Copy to", dst, size)
		if err == nil {
			s.dev.move(to, from)
		}
		return err
	})
}

func (s *stream) Fill(dst device.Ptr, pattern uint32, count int) error {
	return s.do("Fill", func() error {
		if dst%4 != 0 || count < 0 || count > math.MaxInt/4 {
			return fmt.Errorf("cpu: Fill: %w: %d patterns at %#x; the address must be a multiple of 4", device.ErrInvalid, count, uint64(dst))
		}
		b, err := s.block("Fill", dst, 4*count)
		if err != nil || count == 0 {
			return err
		}
		words := unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(b))), count)
		s.dev.Parallel(count, copyGrain/4, func(lo, hi int) {
			for i := range words[lo:hi] {
				words[lo+i] = pattern
			}
		})
		return nil
	})
}

func (s *stream) Launch(k device.Kernel, _, _ device.Dim, _ []byte) error {
	return fmt.Errorf("cpu: Launch of %s: %w; use the Go engine", k.Name(), device.ErrNoKernels)
}

func (s *stream) Record(e device.EventDriver) error {
	return s.do("Record", func() error {
		ev, err := eventOf("Record", e)
		if err == nil {
			err = ev.record()
		}
		return err
	})
}

func (s *stream) Wait(e device.EventDriver) error {
	return s.do("Wait", func() error {
		ev, err := eventOf("Wait", e)
		if err == nil {
			_, err = ev.read("Wait")
		}
		return err
	})
}

func (s *stream) Sync(ctx context.Context) error {
	return s.do("Sync", ctx.Err)
}

func (s *stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// move copies src to dst on all cores. If the two overlap, it copies on one core.
func (d *Device) move(dst, src []byte) {
	lo, hi := address(dst), address(src)
	if lo > hi {
		lo, hi = hi, lo
	}
	if hi-lo < device.Ptr(len(src)) {
		copy(dst, src)
		return
	}
	d.Parallel(len(src), copyGrain, func(lo, hi int) { copy(dst[lo:hi], src[lo:hi]) })
}

// NewEvent makes an event. The event stores the time at which it was last recorded.
func (d *Device) NewEvent() (*device.Event, error) {
	if d.closed.Load() {
		return nil, errClosed("NewEvent")
	}
	return device.NewEvent(&event{}), nil
}

// event implements device.EventDriver.
type event struct {
	mu     sync.Mutex
	at     time.Time // zero if never recorded
	closed bool
}

func eventOf(op string, e device.EventDriver) (*event, error) {
	ev, ok := e.(*event)
	if !ok {
		return nil, fmt.Errorf("cpu: %s: %w: event of another device", op, device.ErrInvalid)
	}
	return ev, nil
}

func (e *event) record() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return errEventClosed("Record")
	}
	e.at = time.Now()
	return nil
}

func (e *event) read(op string) (time.Time, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return time.Time{}, errEventClosed(op)
	}
	return e.at, nil
}

func (e *event) Sync(ctx context.Context) error {
	if _, err := e.read("Event.Sync"); err != nil {
		return err
	}
	return ctx.Err()
}

func (e *event) Since(start device.EventDriver) (time.Duration, error) {
	first, err := eventOf("Since", start)
	if err != nil {
		return 0, err
	}
	from, err := first.read("Since")
	if err != nil {
		return 0, err
	}
	to, err := e.read("Since")
	if err != nil {
		return 0, err
	}
	if from.IsZero() || to.IsZero() {
		return 0, fmt.Errorf("cpu: Since: %w: an event was never recorded", device.ErrInvalid)
	}
	return to.Sub(from), nil
}

func (e *event) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	return nil
}

func errEventClosed(op string) error {
	return fmt.Errorf("cpu: %s: event %w", op, device.ErrClosed)
}
