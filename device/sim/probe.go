package sim

import (
	"fmt"

	"github.com/weftgo/weft/device"
)

// Probe implements [device.Prober]: memory that this device has allocated or mapped, and not freed,
// passes.
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

// Blocks lists the current global memory by ascending address: allocated or mapped blocks, and
// variables of images. It helps to assign a [Request] to a block.
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
