package cuda

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/weftgo/weft/device"
)

// Device is a GPU. It implements [device.Device].
type Device struct {
	drv    *driver
	props  device.Properties
	handle uintptr // CUdevice
	ctx    uintptr // its primary context

	// first is the failure that lost the device, as errors from then on
	// report it.
	first atomic.Pointer[error]

	// life is held for reading during driver calls, and for writing by Close
	// and Unload, which so wait for them. It is never taken twice.
	life   sync.RWMutex
	closed bool

	mu       sync.Mutex
	closing  bool               // no new children
	children map[child]struct{} // open streams and events
	freeing  uintptr            // a stream for Free, made when first needed
	reached  map[uintptr]bool   // contexts of GPUs that CopyPeer has copied from

	// events is held for reading while an event is used, and for writing to
	// destroy one. One lock for all, so that calls with two events cannot
	// block each other.
	events sync.RWMutex

	mapped ranges  // host memory of Map
	pieces ranges  // of it, what is in several pieces
	piece  uintptr // see mapPiece

	loading sync.Mutex // one Load at a time, so that an image is loaded once
	modules map[*device.Image]*module
}

// child is what Close closes before the device itself.
type child interface{ Close() error }

var _ device.Device = (*Device)(nil)

// Properties describe the GPU: Units are its multiprocessors.
func (d *Device) Properties() device.Properties { return d.props }

// do runs a few driver calls on a thread that has the GPU's context. It fails
// without calling if the device is closed or lost, and notices when it gets
// lost. f must not wait, nor use do again.
func (d *Device) do(f func(fr *frame) error) error {
	if p := d.first.Load(); p != nil {
		return *p
	}
	return d.release(f)
}

// release is do for calls that give something back, which are tried on a lost
// device too.
func (d *Device) release(f func(fr *frame) error) error {
	d.life.RLock()
	defer d.life.RUnlock()
	return d.attempt(f)
}

// attempt is release with d.life held.
func (d *Device) attempt(f func(fr *frame) error) error {
	if d.closed {
		return closed("device")
	}
	lost := d.first.Load()
	err := d.withContext(f)
	switch {
	case lost != nil:
		return *lost
	case err != nil:
		return d.failed(err)
	}
	return nil
}

// usable fails if the device is closed or lost.
func (d *Device) usable() error { return d.do(func(*frame) error { return nil }) }

// withContext runs f on a thread that has the GPU's context. On a lost device
// it runs f in any case.
func (d *Device) withContext(f func(fr *frame) error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	fr := d.drv.frame()
	defer fr.put()
	if err := fr.call(symCtxSetCurrent, d.ctx); err != nil && d.first.Load() == nil {
		return err
	}
	return f(fr)
}

// failed adds to an error which device it is about, and declares the device
// lost if the driver's code says so.
func (d *Device) failed(err error) error {
	err = fmt.Errorf("cuda: device %d: %w", d.props.Index, err)
	if !codeOf(err).sticky() {
		return err
	}
	lost := fmt.Errorf("cuda: device %d: %w by an earlier failure, which may be of any work submitted before: %w",
		d.props.Index, device.ErrLost, errors.Unwrap(err))
	d.first.CompareAndSwap(nil, &lost)
	return err
}

// adopt enters a new stream or event, to be closed with the device. It is
// called within do, so that Close comes before or after all of a creation.
func (d *Device) adopt(c child) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closing {
		return device.ErrClosed
	}
	d.children[c] = struct{}{}
	return nil
}

func (d *Device) disown(c child) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.children, c)
}

// open lists the open streams and events.
func (d *Device) open() []child {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := make([]child, 0, len(d.children))
	for c := range d.children {
		list = append(list, c)
	}
	return list
}

// Sync waits for the streams of this device that are open now.
func (d *Device) Sync(ctx context.Context) error {
	if err := d.usable(); err != nil {
		return err
	}
	for _, c := range d.open() {
		s, ok := c.(*stream)
		if !ok {
			continue
		}
		if err := s.Sync(ctx); err != nil && !errors.Is(err, device.ErrClosed) {
			return err
		}
	}
	return nil
}

// Close waits for the work of open streams, closes what is open, unloads the
// kernels and gives the GPU's context back. On a lost device it gives back
// what the driver still takes, and returns nil.
func (d *Device) Close() error {
	d.mu.Lock()
	again := d.closing
	d.closing = true
	d.mu.Unlock()
	if again {
		return nil
	}
	var errs []error
	for _, c := range d.open() {
		errs = append(errs, c.Close())
	}
	d.loading.Lock()
	defer d.loading.Unlock()
	d.life.Lock()
	defer d.life.Unlock()
	errs = append(errs, d.withContext(func(fr *frame) error {
		err := d.unload(fr)
		if d.freeing != 0 {
			err = errors.Join(err, fr.call(symStreamDestroy, d.freeing))
		}
		return err
	}))
	d.closed = true
	d.drv.pinned.drop(d)
	fr := d.drv.frame()
	defer fr.put()
	errs = append(errs, fr.call(symPrimaryCtxRelease, d.handle))
	if d.first.Load() != nil {
		return nil
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("cuda: closing device %d: %w", d.props.Index, err)
	}
	return nil
}
