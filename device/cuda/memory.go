package cuda

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/weftgo/weft/device"
)

// Memory reads the GPU's free and total memory. Memory that other processes use is not free.
func (d *Device) Memory() (m device.Memory, err error) {
	err = d.do(func(fr *frame) error {
		err := fr.call(symMemGetInfo, fr.result(0), fr.result(1))
		m = device.Memory{Free: fr.out[0], Total: fr.out[1]}
		return err
	})
	return m, err
}

// Alloc implements [device.Device]. The driver aligns the memory to 256 bytes or more.
func (d *Device) Alloc(size int) (device.Buffer, error) {
	if size <= 0 {
		return device.Buffer{}, invalid("Alloc of %d bytes", size)
	}
	b := device.Buffer{Size: size}
	err := d.do(func(fr *frame) error {
		if err := fr.call(symMemAlloc, fr.result(0), uintptr(size)); err != nil {
			return fmt.Errorf("allocating %d bytes: %w", size, err)
		}
		b.Ptr = device.Ptr(fr.out[0])
		return nil
	})
	if err != nil {
		return device.Buffer{}, err
	}
	return b, nil
}

// Free releases device memory without waiting for work. cuMemFree would wait for the work of all
// streams, and meanwhile no thread could launch a kernel. Free calls cuMemFree only if the driver
// does not support asynchronous frees, as on some virtual GPUs.
func (d *Device) Free(b device.Buffer) error {
	if b.Size == 0 {
		return nil
	}
	return d.release(func(fr *frame) error {
		s, err := d.freeingStream(fr)
		if err != nil {
			return errors.Join(err, fr.call(symMemFree, uintptr(b.Ptr)))
		}
		switch c := fr.code(symMemFreeAsync, uintptr(b.Ptr), s); c {
		case success:
			// The stream holds only frees. After this call the memory is available again.
			return fr.call(symStreamSynchronize, s)
		case notSupported:
			return fr.call(symMemFree, uintptr(b.Ptr))
		default:
			return fr.newError(symMemFreeAsync, c)
		}
	})
}

// freeingStream returns freeStream. The first call creates it.
func (d *Device) freeingStream(fr *frame) (uintptr, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.freeStream == 0 {
		if err := fr.call(symStreamCreate, fr.result(0), streamNonBlocking); err != nil {
			return 0, err
		}
		d.freeStream = uintptr(fr.out[0])
	}
	return d.freeStream, nil
}

// AllocHost allocates page-locked host memory. Every GPU copies from and to it without staging.
func (d *Device) AllocHost(size int) ([]byte, error) {
	if size <= 0 {
		return nil, invalid("AllocHost of %d bytes", size)
	}
	var b []byte
	err := d.do(func(fr *frame) (err error) {
		b, err = fr.allocHost(size)
		return err
	})
	if err != nil {
		return nil, err
	}
	d.drv.pinned.add(d, b, true)
	return b, nil
}

func (fr *frame) allocHost(size int) ([]byte, error) {
	if err := fr.call(symMemHostAlloc, fr.resultPtr(), uintptr(size), memHostPortable|memHostDeviceMap); err != nil {
		return nil, fmt.Errorf("allocating %d bytes of page-locked host memory: %w", size, err)
	}
	return unsafe.Slice((*byte)(fr.ptr), size), nil
}

func (fr *frame) freeHost(b []byte) error { return fr.call(symMemFreeHost, address(b)) }

// FreeHost releases memory that AllocHost returned. It returns ErrInvalid if b is not a whole block
// of this device, has been freed, or is still mapped.
func (d *Device) FreeHost(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if d.mapped.overlaps(b) {
		return invalid("FreeHost of %d bytes: a part is still mapped to the GPU", len(b))
	}
	if !d.drv.pinned.remove(d, b, true) {
		if err := d.checkUsable(); err != nil {
			return err
		}
		return invalid("FreeHost of %d bytes that AllocHost of this device did not return, or that were freed before", len(b))
	}
	return d.release(func(fr *frame) error { return fr.freeHost(b) })
}

// Pinned implements [device.Device].
func (d *Device) Pinned(b []byte) bool { return d.drv.pinned.holds(b) }

// Register page-locks memory of the caller. Locking and unlocking take about 50 us per MiB, as long
// as a copy. Register therefore pays off for memory that is copied many times. A second call of
// unregister does nothing. Register returns ErrInvalid if b is already registered or mapped, and
// ErrUnsupported for memory that Map refuses.
func (d *Device) Register(b []byte) (unregister func() error, err error) {
	if len(b) == 0 {
		return nil, invalid("Register of an empty slice")
	}
	err = d.do(func(fr *frame) error {
		if err := fr.register(b, memHostPortable); err != nil {
			return fmt.Errorf("page-locking %d bytes: %w", len(b), err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	d.drv.pinned.add(d, b, false)
	var done atomic.Bool
	return func() error {
		if done.Swap(true) {
			return nil
		}
		d.drv.pinned.remove(d, b, false)
		return d.release(func(fr *frame) error { return fr.unregister(b) })
	}, nil
}
