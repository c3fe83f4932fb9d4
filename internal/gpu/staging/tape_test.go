package staging_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/weftgo/weft/device"
)

// tape is a device that records the calls of its streams and events in order. It can make one call
// fail, and computes which copies the host may consider done.
type tape struct {
	device.Device

	mu      sync.Mutex
	streams []*tapeStream
	events  int
	calls   []string
	fail    int // number of calls before the one that fails; negative: none fails
	known   done
}

// done is the number of copies of each stream that are known to be done.
type done map[int]int

// add merges the counts of another stream or event.
func (d done) add(of done) {
	for stream, copies := range of {
		d[stream] = max(d[stream], copies)
	}
}

var errTape = errors.New("the call failed")

func newTape(dev device.Device) *tape { return &tape{Device: dev, fail: -1, known: done{}} }

// note records a call and, unless it fails, applies its effect.
func (t *tape) note(effect func(), format string, args ...any) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls = append(t.calls, fmt.Sprintf(format, args...))
	if len(t.calls)-1 == t.fail {
		return errTape
	}
	effect()
	return nil
}

// failed reports whether the failing call has been made.
func (t *tape) failed() bool { return t.fail >= 0 && len(t.calls) > t.fail }

// underWay reports whether the device may still be copying, from the point of view of the host. If
// a wait failed, that is unavoidable.
func (t *tape) underWay() bool {
	if t.failed() && strings.Contains(t.calls[t.fail], "Sync") {
		return false
	}
	for _, s := range t.streams {
		if t.known[s.id] < s.copies {
			return true
		}
	}
	return false
}

// rewind forgets the calls, and sets the number of the call that fails.
func (t *tape) rewind(fail int) { t.calls, t.fail = nil, fail }

func (t *tape) NewStream() (*device.Stream, error) {
	s, err := t.Device.NewStream()
	if err != nil {
		return nil, err
	}
	t.streams = append(t.streams, &tapeStream{s.Driver(), t, len(t.streams) + 1, 0, done{}})
	return device.NewStream(t, t.streams[len(t.streams)-1]), nil
}

func (t *tape) NewEvent() (*device.Event, error) {
	e, err := t.Device.NewEvent()
	if err != nil {
		return nil, err
	}
	t.events++
	return device.NewEvent(&tapeEvent{e.Driver(), t, t.events, done{}}), nil
}

type tapeStream struct {
	device.StreamDriver
	t      *tape
	id     int
	copies int  // submitted
	past   done // the copies that precede the next one
}

// submit records the effect of a copy.
func (s *tapeStream) submit() {
	s.copies++
	s.past[s.id] = s.copies
}

func (s *tapeStream) CopyInAsync(dst device.Ptr, src []byte) error {
	if err := s.t.note(s.submit, "stream %d: CopyInAsync of %d bytes", s.id, len(src)); err != nil {
		return err
	}
	return s.StreamDriver.CopyInAsync(dst, src)
}

func (s *tapeStream) CopyOutAsync(dst []byte, src device.Ptr) error {
	if err := s.t.note(s.submit, "stream %d: CopyOutAsync of %d bytes", s.id, len(dst)); err != nil {
		return err
	}
	return s.StreamDriver.CopyOutAsync(dst, src)
}

func (s *tapeStream) Copy(dst, src device.Ptr, size int) error {
	if err := s.t.note(s.submit, "stream %d: Copy of %d bytes", s.id, size); err != nil {
		return err
	}
	return s.StreamDriver.Copy(dst, src, size)
}

func (s *tapeStream) Record(e device.EventDriver) error {
	event := e.(*tapeEvent)
	if err := s.t.note(func() { event.past = maps.Clone(s.past) }, "stream %d: Record event %d", s.id, event.id); err != nil {
		return err
	}
	return s.StreamDriver.Record(event.EventDriver)
}

func (s *tapeStream) Wait(e device.EventDriver) error {
	event := e.(*tapeEvent)
	if err := s.t.note(func() { s.past.add(event.past) }, "stream %d: Wait for event %d", s.id, event.id); err != nil {
		return err
	}
	return s.StreamDriver.Wait(event.EventDriver)
}

func (s *tapeStream) Sync(ctx context.Context) error {
	if err := s.t.note(func() { s.t.known.add(s.past) }, "stream %d: Sync", s.id); err != nil {
		return err
	}
	return s.StreamDriver.Sync(ctx)
}

type tapeEvent struct {
	device.EventDriver
	t    *tape
	id   int
	past done
}

func (e *tapeEvent) Sync(ctx context.Context) error {
	if err := e.t.note(func() { e.t.known.add(e.past) }, "event %d: Sync", e.id); err != nil {
		return err
	}
	return e.EventDriver.Sync(ctx)
}
