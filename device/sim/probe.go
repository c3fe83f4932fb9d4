package sim

import (
	"fmt"

	"github.com/weftgo/weft/device"
)

// Probe implements [device.Prober]: memory is what this device has allocated or
// mapped, and not freed.
func (d *Device) Probe(p device.Ptr, size int) error {
	if err := d.use(); err != nil {
		return err
	}
	defer d.mu.Unlock()
	if size <= 0 {
		return fmt.Errorf("sim: %w: Probe of %d bytes", device.ErrInvalid, size)
	}
	for _, at := range []device.Ptr{p, p + device.Ptr(size) - 1} {
		if s, why := d.heap.find(uint64(at), 1); s == nil {
			return fmt.Errorf("sim: %w: %d bytes at 0x%x: %s", device.ErrInvalid, size, uint64(p), why)
		}
	}
	return nil
}

// Blocks lists the global memory that there is now, by ascending address: what is
// allocated or mapped, and variables of images. So a [Request] is told from others.
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
