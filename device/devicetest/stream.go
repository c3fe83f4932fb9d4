package devicetest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/weftgo/weft/device"
)

type checkedStream struct {
	inner  device.StreamDriver
	c      *checked
	entry  *entry
	closed atomic.Bool
}

// begin is called first by every operation on a stream. It returns an error if the stream or the
// device is closed, or if a planned failure is due.
func (s *checkedStream) begin(op Op) error {
	s.c.t.Helper()
	if s.closed.Load() {
		return s.c.violation(device.ErrClosed, "%s on a closed %v", op, s.entry)
	}
	return s.c.begin(op)
}

func (s *checkedStream) CopyIn(dst device.Ptr, src []byte) error {
	s.c.t.Helper()
	if err := s.begin(OpCopyIn); err != nil {
		return err
	}
	if err := s.c.checkBuffer(OpCopyIn, dst, len(src)); err != nil {
		return err
	}
	return s.inner.CopyIn(dst, src)
}

func (s *checkedStream) CopyOut(ctx context.Context, dst []byte, src device.Ptr) error {
	s.c.t.Helper()
	if err := s.begin(OpCopyOut); err != nil {
		return err
	}
	if err := s.c.checkBuffer(OpCopyOut, src, len(dst)); err != nil {
		return err
	}
	return s.inner.CopyOut(ctx, dst, src)
}

func (s *checkedStream) CopyInAsync(dst device.Ptr, src []byte) error {
	s.c.t.Helper()
	if err := s.begin(OpCopyInAsync); err != nil {
		return err
	}
	if err := s.c.checkBuffer(OpCopyInAsync, dst, len(src)); err != nil {
		return err
	}
	if err := s.c.checkHost(OpCopyInAsync, src); err != nil {
		return err
	}
	return s.inner.CopyInAsync(dst, src)
}

func (s *checkedStream) CopyOutAsync(dst []byte, src device.Ptr) error {
	s.c.t.Helper()
	if err := s.begin(OpCopyOutAsync); err != nil {
		return err
	}
	if err := s.c.checkBuffer(OpCopyOutAsync, src, len(dst)); err != nil {
		return err
	}
	if err := s.c.checkHost(OpCopyOutAsync, dst); err != nil {
		return err
	}
	return s.inner.CopyOutAsync(dst, src)
}

func (s *checkedStream) Copy(dst, src device.Ptr, size int) error {
	s.c.t.Helper()
	if err := s.begin(OpCopy); err != nil {
		return err
	}
	for _, p := range []device.Ptr{dst, src} {
		if err := s.c.checkBuffer(OpCopy, p, size); err != nil {
			return err
		}
	}
	return s.inner.Copy(dst, src, size)
}

func (s *checkedStream) Fill(dst device.Ptr, pattern uint32, count int) error {
	s.c.t.Helper()
	if err := s.begin(OpFill); err != nil {
		return err
	}
	if err := s.c.checkBuffer(OpFill, dst, 4*count); err != nil {
		return err
	}
	return s.inner.Fill(dst, pattern, count)
}

func (s *checkedStream) Launch(k device.Kernel, grid, block device.Dim, params []byte) error {
	s.c.t.Helper()
	if err := s.begin(OpLaunch); err != nil {
		return err
	}
	return s.inner.Launch(k, grid, block, params)
}

func (s *checkedStream) Record(e device.EventDriver) error {
	s.c.t.Helper()
	if err := s.begin(OpRecord); err != nil {
		return err
	}
	inner, err := s.c.unwrap(OpRecord, e)
	if err != nil {
		return err
	}
	return s.inner.Record(inner)
}

func (s *checkedStream) Wait(e device.EventDriver) error {
	s.c.t.Helper()
	if err := s.begin(OpWait); err != nil {
		return err
	}
	inner, err := s.c.unwrap(OpWait, e)
	if err != nil {
		return err
	}
	return s.inner.Wait(inner)
}

func (s *checkedStream) Sync(ctx context.Context) error {
	s.c.t.Helper()
	if s.closed.Load() {
		return s.c.violation(device.ErrClosed, "Sync on a closed %v", s.entry)
	}
	return s.inner.Sync(ctx)
}

func (s *checkedStream) Close() error {
	s.closed.Store(true)
	s.c.removeEntry(s.entry)
	return s.inner.Close()
}

type checkedEvent struct {
	inner  device.EventDriver
	c      *checked
	entry  *entry
	closed atomic.Bool
}

// unwrap returns the event of the wrapped device, or an error if the event is closed.
func (c *checked) unwrap(op Op, e device.EventDriver) (device.EventDriver, error) {
	c.t.Helper()
	ev, ok := e.(*checkedEvent)
	if !ok {
		return nil, c.violation(device.ErrInvalid, "%s with an event that was not made by a checked device", op)
	}
	if ev.closed.Load() {
		return nil, c.violation(device.ErrClosed, "%s with a closed %v", op, ev.entry)
	}
	return ev.inner, nil
}

func (e *checkedEvent) Sync(ctx context.Context) error {
	e.c.t.Helper()
	inner, err := e.c.unwrap("Event.Sync", e)
	if err != nil {
		return err
	}
	return inner.Sync(ctx)
}

func (e *checkedEvent) Since(start device.EventDriver) (time.Duration, error) {
	e.c.t.Helper()
	first, err := e.c.unwrap("Since", start)
	if err != nil {
		return 0, err
	}
	last, err := e.c.unwrap("Since", e)
	if err != nil {
		return 0, err
	}
	return last.Since(first)
}

func (e *checkedEvent) Close() error {
	e.closed.Store(true)
	e.c.removeEntry(e.entry)
	return e.inner.Close()
}
