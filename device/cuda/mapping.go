package cuda

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/weftgo/weft/device"
)

// Map implements [device.Device]. Memory of AllocHost, of any device of this
// package, can be mapped on each GPU; other memory is page-locked for it, as by
// Register, and so on one GPU only. Kernels that run while the host looks need
// accesses and fences of system scope to be understood.
func (d *Device) Map(host []byte) (b device.Buffer, unmap func() error, err error) {
	if err := device.CheckMap(host); err != nil {
		return b, nil, fmt.Errorf("cuda: %w", err)
	}
	if !d.mapped.add(d, host, false) {
		return b, nil, invalid("Map of %d bytes of which a part is mapped already", len(host))
	}
	within, pinned := d.drv.pinned.find(host)
	lock := !pinned || !within.host
	var at device.Ptr
	err = d.do(func(fr *frame) (err error) {
		if lock {
			if err := fr.register(host, memHostPortable|memHostDeviceMap); err != nil {
				return fmt.Errorf("mapping %d bytes: %w", len(host), err)
			}
		}
		if at, err = fr.devicePointer(host); err != nil && lock {
			err = errors.Join(err, fr.unregister(host))
		}
		return err
	})
	if err != nil {
		d.mapped.remove(d, host, false)
		return b, nil, err
	}
	if lock {
		d.drv.pinned.add(d, host, false)
	}
	var done atomic.Bool
	return device.Buffer{Ptr: at, Size: len(host)}, func() error {
		if done.Swap(true) {
			return nil
		}
		d.mapped.remove(d, host, false)
		if !lock {
			return nil
		}
		d.drv.pinned.remove(d, host, false)
		return d.release(func(fr *frame) error { return fr.unregister(host) })
	}, nil
}

// devicePointer is the GPU's address of page-locked memory.
func (fr *frame) devicePointer(host []byte) (device.Ptr, error) {
	const flags = 0
	err := fr.call(symMemHostGetDevicePointer, fr.result(0), address(host), flags)
	return device.Ptr(fr.out[0]), err
}

// register page-locks host memory.
func (fr *frame) register(b []byte, flags uintptr) error {
	fr.held = b
	err := fr.call(symMemHostRegister, address(b), uintptr(len(b)), flags)
	switch codeOf(err) {
	case alreadyRegistered:
		return fmt.Errorf("a part is registered or mapped already, or shares a page with what is: %w", err)
	case invalidValue, operatingSystem, notPermitted, notSupported:
		return fmt.Errorf("%w: %w; the system page-locks for a GPU writable anonymous memory and files of tmpfs, memfd and hugetlbfs mapped shared, but no files of ext4, xfs, btrfs and overlays",
			device.ErrUnsupported, err)
	}
	return err
}

func (fr *frame) unregister(b []byte) error { return fr.call(symMemHostUnregister, address(b)) }
