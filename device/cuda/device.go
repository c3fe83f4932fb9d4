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

	// lostErr is the failure that lost the device; later errors wrap it.
	lostErr atomic.Pointer[error]

	// life is read-locked during driver calls. Close and Unload write-lock it, and so wait for
	// them. Callers never lock it twice.
	life   sync.RWMutex
	closed bool

	mu         sync.Mutex
	closing    bool               // no new children
	children   map[child]struct{} // open streams, events and ranges
	freeStream uintptr            // stream of Free, created on first use
	// peers holds the contexts of the GPUs that CopyPeer has copied from.
	peers map[uintptr]bool

	// events is read-locked while an event is used, and write-locked to destroy one. One lock
	// serves all events, so that calls with two events cannot block each other.
	events sync.RWMutex

	mapped     ranges  // host memory of Map
	pieces     ranges  // those of mapped that consist of several pieces
	pieceBytes uintptr // see mapPiece

	loading sync.Mutex // serializes Load, so that an image is loaded once
	modules map[*device.Image]*module
}

// child is a resource that Close closes before the device itself.
type child interface{ Close() error }

var _ device.Device = (*Device)(nil)

// Properties describe the GPU: Units are its multiprocessors.
func (d *Device) Properties() device.Properties { return d.props }

// do runs a few driver calls on a thread that has the GPU's context. If the device is closed or
// lost, it fails without calling f. It records the loss of the device. f must not wait or call do.
func (d *Device) do(f func(fr *frame) error) error {
	if p := d.lostErr.Load(); p != nil {
		return *p
	}
	return d.release(f)
}

// release is do for calls that release resources. It also runs them on a lost device.
func (d *Device) release(f func(fr *frame) error) error {
	d.life.RLock()
	defer d.life.RUnlock()
	return d.releaseLocked(f)
}

// releaseLocked is release with d.life held.
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

// withContext runs f on a thread that has the GPU's context. On a lost device it runs f even
// without the context.
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

// wrapError adds the device to an error. It declares the device lost if the driver's code is
// sticky.
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

// addChild registers a new stream, event or range, which Close then closes. Callers call it within
// do, so that Close comes before or after all of a creation.
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

// openChildren returns the open streams, events and ranges.
func (d *Device) openChildren() []child {
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
// the GPU's context. On a lost device it releases what the driver still accepts, and returns nil.
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
