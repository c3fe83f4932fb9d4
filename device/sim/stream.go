package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/weftgo/weft/device"
)

// stream runs everything at once, so there is nothing to wait for.
type stream struct {
	dev    *Device
	closed bool
}

var errClosedStream = fmt.Errorf("sim: stream: %w", device.ErrClosed)

// do runs f while holding the device.
func (s *stream) do(f func(d *Device) error) error {
	if err := s.dev.use(); err != nil {
		return err
	}
	defer s.dev.mu.Unlock()
	if s.closed {
		return errClosedStream
	}
	return f(s.dev)
}

// copyRate is the bytes that a copy moves in one tick of the clock, as an H200
// does in a nanosecond.
const copyRate = 4096

// transfer runs a copy of size bytes; what it says went wrong becomes an
// error.
func (s *stream) transfer(size int, f func(h *heap) string) error {
	return s.do(func(d *Device) error {
		if why := f(d.heap); why != "" {
			return fmt.Errorf("sim: copy: %w: %s", device.ErrInvalid, why)
		}
		d.clock += uint64(size) / copyRate
		return nil
	})
}

func (s *stream) CopyIn(dst device.Ptr, src []byte) error {
	return s.transfer(len(src), func(h *heap) string { return h.write(uint64(dst), src) })
}

func (s *stream) CopyOut(ctx context.Context, dst []byte, src device.Ptr) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.CopyOutAsync(dst, src)
}

func (s *stream) CopyInAsync(dst device.Ptr, src []byte) error { return s.CopyIn(dst, src) }

func (s *stream) CopyOutAsync(dst []byte, src device.Ptr) error {
	return s.transfer(len(dst), func(h *heap) string { return h.read(dst, uint64(src)) })
}

func (s *stream) Copy(dst, src device.Ptr, size int) error {
	return s.transfer(size, func(h *heap) string { return h.move(uint64(dst), uint64(src), size) })
}

func (s *stream) Fill(dst device.Ptr, pattern uint32, count int) error {
	return s.transfer(4*count, func(h *heap) string { return h.fill(uint64(dst), pattern, count) })
}

func (s *stream) Launch(k device.Kernel, grid, block device.Dim, params []byte) error {
	return s.do(func(d *Device) error { return d.launch(k, grid, block, params) })
}

func (s *stream) Record(e device.EventDriver) error {
	return s.do(func(d *Device) error {
		ev, err := d.event(e)
		if err == nil {
			ev.at, ev.recorded = d.clock, true
		}
		return err
	})
}

func (s *stream) Wait(e device.EventDriver) error {
	return s.do(func(d *Device) error {
		_, err := d.event(e)
		return err
	})
}

func (s *stream) Sync(ctx context.Context) error {
	if err := s.do(func(*Device) error { return nil }); err != nil {
		return err
	}
	return ctx.Err()
}

func (s *stream) Close() error {
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	s.closed = true
	return nil
}

// event marks a time of the device's clock, one nanosecond per warp
// instruction.
type event struct {
	dev      *Device
	at       uint64
	recorded bool
	closed   bool
}

var (
	errClosedEvent = fmt.Errorf("sim: event: %w", device.ErrClosed)
	errNotRecorded = fmt.Errorf("sim: %w: event was not recorded", device.ErrInvalid)
)

// event checks that an event is one of the device's, and open.
func (d *Device) event(e device.EventDriver) (*event, error) {
	ev, ok := e.(*event)
	switch {
	case !ok || ev.dev != d:
		return nil, fmt.Errorf("sim: %w: event of another device", device.ErrInvalid)
	case ev.closed:
		return nil, errClosedEvent
	}
	return ev, nil
}

func (e *event) Sync(ctx context.Context) error {
	if err := e.dev.use(); err != nil {
		return err
	}
	defer e.dev.mu.Unlock()
	if e.closed {
		return errClosedEvent
	}
	return ctx.Err()
}

func (e *event) Since(start device.EventDriver) (time.Duration, error) {
	if err := e.dev.use(); err != nil {
		return 0, err
	}
	defer e.dev.mu.Unlock()
	s, err := e.dev.event(start)
	switch {
	case err != nil:
		return 0, err
	case e.closed:
		return 0, errClosedEvent
	case !e.recorded || !s.recorded:
		return 0, errNotRecorded
	}
	return time.Duration(e.at - s.at), nil
}

func (e *event) Close() error {
	e.dev.mu.Lock()
	defer e.dev.mu.Unlock()
	e.closed = true
	return nil
}
