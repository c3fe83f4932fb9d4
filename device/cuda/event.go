package cuda

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weftgo/weft/device"
)

// event implements [device.EventDriver].
type event struct {
	dev    *Device
	handle uintptr // CUevent
	closed bool    // guarded by dev.events
}

// NewEvent makes an event that can also measure time.
func (d *Device) NewEvent() (*device.Event, error) {
	e := &event{dev: d}
	err := d.do(func(fr *frame) (err error) {
		if e.handle, err = fr.newEvent(eventDefault); err != nil {
			return err
		}
		if err := d.addChild(e); err != nil {
			return errors.Join(err, fr.call(symEventDestroy, e.handle))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return device.NewEvent(e), nil
}

func (fr *frame) newEvent(flags uintptr) (uintptr, error) {
	err := fr.call(symEventCreate, fr.result(0), flags)
	return uintptr(fr.out[0]), err
}

// use calls f and keeps the event open meanwhile. f must not wait or use another event.
func (e *event) use(f func() error) error {
	e.dev.events.RLock()
	defer e.dev.events.RUnlock()
	if e.closed {
		return closed("event")
	}
	return f()
}

// eventOf returns e as an event of this package, or an error if another package made e.
func eventOf(op string, e device.EventDriver) (*event, error) {
	ev, ok := e.(*event)
	if !ok {
		return nil, invalid("%s of an event of another kind of device", op)
	}
	return ev, nil
}

func (e *event) Sync(ctx context.Context) error {
	return wait(ctx, func() (done bool, err error) {
		err = e.use(func() error {
			return e.dev.do(func(fr *frame) (err error) {
				done, err = fr.query(symEventQuery, e.handle)
				return err
			})
		})
		return done, err
	})
}

func (e *event) Since(start device.EventDriver) (elapsed time.Duration, err error) {
	first, err := eventOf("Since", start)
	if err != nil {
		return 0, err
	}
	if first.dev != e.dev {
		return 0, invalid("Since an event of another device")
	}
	err = e.use(func() error {
		if first.closed {
			return closed("event")
		}
		return e.dev.do(func(fr *frame) error {
			switch c := fr.code(symEventElapsedTime, fr.result(0), first.handle, e.handle); c {
			case success:
				elapsed = time.Duration(float64(fr.float32(0)) * float64(time.Millisecond))
				return nil
			case notReady, invalidHandle:
				return fmt.Errorf("%w: Since: an event has not been recorded, or not been reached", device.ErrInvalid)
			default:
				return fr.newError(symEventElapsedTime, c)
			}
		})
	})
	return elapsed, err
}

func (e *event) Close() error {
	e.dev.events.Lock()
	defer e.dev.events.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	defer e.dev.removeChild(e) // last, as in stream.Close
	return e.dev.release(func(fr *frame) error { return fr.call(symEventDestroy, e.handle) })
}
