package sim

import (
	"fmt"

	"github.com/weftgo/weft/device"
)

// Probe implements [device.Prober]. It accepts memory that this device has allocated or mapped.
func (d *Device) Probe(p device.Ptr, size int) error {
	if err := d.lock(); err != nil {
		return err
	}
	defer d.mu.Unlock()
	if size <= 0 {
		return fmt.Errorf("sim: %w: Probe of %d bytes", device.ErrInvalid, size)
	}
	for _, at := range []device.Ptr{p, p + device.Ptr(size) - 1} {
		if s, reason := d.heap.find(uint64(at), 1); s == nil {
			return fmt.Errorf("sim: %w: %d bytes at 0x%x: %s", device.ErrInvalid, size, uint64(p), reason)
		}
	}
	return nil
}

// Blocks lists the current segments of global memory by ascending address: allocated or mapped
// buffers, and variables of images. A program can use it to find the buffer of a [Request].
func (d *Device) Blocks() []device.Buffer {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []device.Buffer
	for _, s := range d.heap.segs {
		if s.data != nil {
			all = append(all, device.Buffer{Ptr: device.Ptr(s.base), Size: s.size})
		}
	}
	return all
}
