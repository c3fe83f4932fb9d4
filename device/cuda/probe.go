package cuda

import (
	"fmt"

	"github.com/weftgo/weft/device"
)

// Probe implements [device.Prober]. It accepts memory of other libraries in this process that
// allocate through the driver, such as the CUDA runtime.
func (d *Device) Probe(p device.Ptr, size int) error {
	if size <= 0 {
		return invalid("Probe of %d bytes", size)
	}
	return d.do(func(fr *frame) error {
		for _, at := range []device.Ptr{p, p + device.Ptr(size) - 1} {
			if err := d.probe(fr, at); err != nil {
				return fmt.Errorf("%d bytes at %#x: %w", size, uint64(p), err)
			}
		}
		return nil
	})
}

// probe checks that this GPU can access the memory at one address.
func (d *Device) probe(fr *frame, at device.Ptr) error {
	switch c := fr.code(symPointerGetAttribute, fr.result(0), pointerMemoryType, uintptr(at)); c {
	case success:
	case invalidValue:
		return invalid("the driver reports no memory at %#x", uint64(at))
	default:
		return fr.newError(symPointerGetAttribute, c)
	}
	if fr.int32(0) == memoryTypeHost { // page-locked memory, which all GPUs can access
		return nil
	}
	if err := fr.call(symPointerGetAttribute, fr.result(0), pointerDeviceOrdinal, uintptr(at)); err != nil {
		return err
	}
	if owner := fr.int32(0); owner != d.props.Index {
		return invalid("the memory at %#x belongs to device %d, not to device %d", uint64(at),
			owner, d.props.Index)
	}
	return nil
}
