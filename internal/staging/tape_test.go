package staging_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/weftgo/weft/device"
)

// tape is a device that notes the calls of its streams and events in their
// order, and makes one of them fail.
type tape struct {
	device.Device

	mu      sync.Mutex
	streams int
	events  int
	calls   []string
	fail    int // the number of calls before the one that fails; negative: none
}

var errTape = errors.New("the call failed")

func newTape(dev device.Device) *tape { return &tape{Device: dev, fail: -1} }

// note writes down a call.
func (t *tape) note(format string, args ...any) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls = append(t.calls, fmt.Sprintf(format, args...))
	if len(t.calls)-1 == t.fail {
		return errTape
	}
	return nil
}

// rewind forgets the calls, and makes the one of that number fail.
func (t *tape) rewind(fail int) { t.calls, t.fail = nil, fail }

func (t *tape) NewStream() (*device.Stream, error) {
	s, err := t.Device.NewStream()
	if err != nil {
		return nil, err
	}
	t.streams++
	return device.NewStream(t, &tapeStream{s.Driver(), t, t.streams}), nil
}

func (t *tape) NewEvent() (*device.Event, error) {
	e, err := t.Device.NewEvent()
	if err != nil {
		return nil, err
	}
	t.events++
	return device.NewEvent(&tapeEvent{e.Driver(), t, t.events}), nil
}

type tapeStream struct {
	device.StreamDriver
	t  *tape
	id int
}

func (s *tapeStream) CopyInAsync(dst device.Ptr, src []byte) error {
	if err := s.t.note("stream %d: CopyInAsync of %d bytes", s.id, len(src)); err != nil {
		return err
	}
	return s.StreamDriver.CopyInAsync(dst, src)
}

func (s *tapeStream) CopyOutAsync(dst []byte, src device.Ptr) error {
	if err := s.t.note("stream %d: CopyOutAsync of %d bytes", s.id, len(dst)); err != nil {
		return err
	}
	return s.StreamDriver.CopyOutAsync(dst, src)
}

func (s *tapeStream) Copy(dst, src device.Ptr, size int) error {
	if err := s.t.note("stream %d: Copy of %d bytes", s.id, size); err != nil {
		return err
	}
	return s.StreamDriver.Copy(dst, src, size)
}

func (s *tapeStream) Record(e device.EventDriver) error {
	event := e.(*tapeEvent)
	if err := s.t.note("stream %d: Record event %d", s.id, event.id); err != nil {
		return err
	}
	return s.StreamDriver.Record(event.EventDriver)
}

func (s *tapeStream) Wait(e device.EventDriver) error {
	event := e.(*tapeEvent)
	if err := s.t.note("stream %d: Wait for event %d", s.id, event.id); err != nil {
		return err
	}
	return s.StreamDriver.Wait(event.EventDriver)
}

func (s *tapeStream) Sync(ctx context.Context) error {
	if err := s.t.note("stream %d: Sync", s.id); err != nil {
		return err
	}
	return s.StreamDriver.Sync(ctx)
}

type tapeEvent struct {
	device.EventDriver
	t  *tape
	id int
}

func (e *tapeEvent) Sync(ctx context.Context) error {
	if err := e.t.note("event %d: Sync", e.id); err != nil {
		return err
	}
	return e.EventDriver.Sync(ctx)
}
