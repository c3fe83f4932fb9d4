package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/weftgo/weft/device"
)

// event implements [device.EventDriver]. It refers to the marker that was recorded last.
type event struct {
	dev    *Device
	last   *marker
	closed bool
}

var (
	errClosedEvent = fmt.Errorf("sim: event: %w", device.ErrClosed)
	errNotReached  = fmt.Errorf("sim: %w: Since: an event has not been recorded, or not been reached", device.ErrInvalid)
)

// NewEvent implements [device.Device].
func (d *Device) NewEvent() (*device.Event, error) {
	if err := d.lock(); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	return device.NewEvent(&event{dev: d}), nil
}

// event returns e as an event of this package, or an error if e is of another device or closed.
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
	d := e.dev
	if err := d.lock(); err != nil {
		return err
	}
	defer d.mu.Unlock()
	switch m := e.last; {
	case e.closed:
		return errClosedEvent
	case m == nil:
		return nil
	default:
		return d.await(ctx, m.work)
	}
}

// Since returns the time between two markers. A tick of the clock counts as a nanosecond.
func (e *event) Since(start device.EventDriver) (time.Duration, error) {
	d := e.dev
	if err := d.lock(); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	s, err := d.event(start)
	switch {
	case err != nil:
		return 0, err
	case e.closed:
		return 0, errClosedEvent
	case e.last == nil || s.last == nil || !e.last.reached || !s.last.reached:
		return 0, errNotReached
	}
	return time.Duration(e.last.at - s.last.at), nil
}

// Close closes the event. It is a fault if the host has not waited for the event or for any work
// after it, since queued works may still need the event.
func (e *event) Close() error {
	d := e.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	if e.last == nil || d.closed || d.lost != nil || d.waited.include(e.last.work) {
		return nil
	}
	needed := e.last.work
	for w := range d.pending {
		if w.wait == e.last {
			needed = w
			break
		}
	}
	return d.markLost(&Fault{Reason: "an event was closed while queued work may still need it", Work: needed.String()})
}
