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
	ctx    uintptr // the GPU's primary context

	// lostErr is the failure that made the device unusable. Later errors wrap it.
	lostErr atomic.Pointer[error]

	// life is read-locked during driver calls. Close and Unload write-lock it to wait for these
	// calls. Callers never lock it twice.
	life   sync.RWMutex
	closed bool

	mu         sync.Mutex
	closing    bool               // set by Close; addChild then fails
	children   map[child]struct{} // open streams, events and ranges
	freeStream uintptr            // stream for Free, created at its first call
	// peers holds the contexts of GPUs from which this GPU may read memory, for CopyPeer.
	peers map[uintptr]bool

	// events is read-locked while an event is used, and write-locked while an event is destroyed.
	// One lock serves all events, so that calls with two events cannot deadlock.
	events sync.RWMutex

	mapped     ranges  // host memory mapped by Map
	pieces     ranges  // mapped memory that consists of several pieces
	pieceBytes uintptr // mapPiece, or less in tests

	loading sync.Mutex // serializes Load, so that each image is loaded once
	modules map[*device.Image]*module
}

// child is a stream, event or range, which Close closes before it releases the device.
type child interface{ Close() error }

var _ device.Device = (*Device)(nil)

// Properties describe the GPU. Units is the number of multiprocessors.
func (d *Device) Properties() device.Properties { return d.props }

// do calls f on a thread that has the GPU's context. f makes a few driver calls; it must not wait
// or call do. If the device is closed or lost, do fails without calling f. If an error of f shows
// that the device is lost, do records the loss.
func (d *Device) do(f func(fr *frame) error) error {
	if p := d.lostErr.Load(); p != nil {
		return *p
	}
	return d.release(f)
}

// release calls f as do does, but also on a lost device. Calls that release resources use it.
func (d *Device) release(f func(fr *frame) error) error {
	d.life.RLock()
	defer d.life.RUnlock()
	return d.releaseLocked(f)
}

// releaseLocked is the body of release. Callers hold d.life.
func (d *Device) releaseLocked(f func(fr *frame) error) error {
	if d.closed {
		return closed("device")
	}
	lost := d.lostErr.Load()
	err := d.withContext(f)
	switch {
	case lost != nil:
		return *lost
	case err != nil:
		return d.wrapError(err)
	}
	return nil
}

// checkUsable returns an error if the device is closed or lost.
func (d *Device) checkUsable() error { return d.do(func(*frame) error { return nil }) }

// withContext calls f on a thread that has the GPU's context. On a lost device it calls f even if
// the context cannot be set.
func (d *Device) withContext(f func(fr *frame) error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	fr := d.drv.frame()
	defer fr.put()
	if err := fr.call(symCtxSetCurrent, d.ctx); err != nil && d.lostErr.Load() == nil {
		return err
	}
	return f(fr)
}

// wrapError adds the device's index to an error. If the driver's code is sticky, the device is
// lost.
func (d *Device) wrapError(err error) error {
	err = fmt.Errorf("cuda: device %d: %w", d.props.Index, err)
	if !codeOf(err).sticky() {
		return err
	}
	lost := fmt.Errorf("cuda: device %d: %w by an earlier failure, which may be of any work submitted before: %w",
		d.props.Index, device.ErrLost, errors.Unwrap(err))
	d.lostErr.CompareAndSwap(nil, &lost)
	return err
}

// addChild registers a stream, event or range, so that Close closes it. Callers call addChild
// within do, so that Close runs either before or after a whole creation.
func (d *Device) addChild(c child) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closing {
		return device.ErrClosed
	}
	d.children[c] = struct{}{}
	return nil
}

func (d *Device) removeChild(c child) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.children, c)
}

func (d *Device) openChildren() []child {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := make([]child, 0, len(d.children))
	for c := range d.children {
		list = append(list, c)
	}
	return list
}

// Sync waits for all streams of this device that are open when it is called.
func (d *Device) Sync(ctx context.Context) error {
	if err := d.checkUsable(); err != nil {
		return err
	}
	for _, c := range d.openChildren() {
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

// Close waits for the work of open streams, closes all children, unloads the kernels and releases
// the GPU's context. On a lost device it releases what it can, and returns nil.
func (d *Device) Close() error {
	d.mu.Lock()
	already := d.closing
	d.closing = true
	d.mu.Unlock()
	if already {
		return nil
	}
	var errs []error
	for _, c := range d.openChildren() {
		errs = append(errs, c.Close())
	}
	d.loading.Lock()
	defer d.loading.Unlock()
	d.life.Lock()
	defer d.life.Unlock()
	errs = append(errs, d.withContext(func(fr *frame) error {
		err := d.unload(fr)
		if d.freeStream != 0 {
			err = errors.Join(err, fr.call(symStreamDestroy, d.freeStream))
		}
		return err
	}))
	d.closed = true
	d.drv.pinned.removeOwner(d)
	fr := d.drv.frame()
	defer fr.put()
	errs = append(errs, fr.call(symPrimaryCtxRelease, d.handle))
	if d.lostErr.Load() != nil {
		return nil
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("cuda: closing device %d: %w", d.props.Index, err)
	}
	return nil
}
