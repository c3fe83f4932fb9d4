// Package budget bounds the device memory of a call.
package budget

import (
	"fmt"
	"sync"

	"github.com/weftgo/weft/device"
)

// Device is a device with a bound on what is allocated through it. Its streams belong to it, so
// memory and streams of the device itself do not mix with them. Ranges are not counted.
type Device struct {
	device.Device
	bytes uint64 // 0: no bound

	mu   sync.Mutex
	used uint64
}

// New bounds the memory of a device to some bytes; 0 is no bound.
func New(dev device.Device, bytes int64) *Device {
	return &Device{Device: dev, bytes: uint64(bytes)}
}

// Alloc allocates memory. What exceeds the bound is device.ErrMemory.
func (d *Device) Alloc(size int) (device.Buffer, error) {
	if err := d.take(size); err != nil {
		return device.Buffer{}, err
	}
	b, err := d.Device.Alloc(size)
	if err != nil {
		d.put(size)
	}
	return b, err
}

func (d *Device) take(size int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.bytes > 0 && uint64(size) > d.bytes-d.used {
		return fmt.Errorf("%w: %d bytes with %d of %d in use, which Options.Memory bounds",
			device.ErrMemory, size, d.used, d.bytes)
	}
	d.used += uint64(size)
	return nil
}

func (d *Device) put(size int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used -= uint64(size)
}

// Free returns memory of Alloc.
func (d *Device) Free(b device.Buffer) error {
	err := d.Device.Free(b)
	if err == nil {
		d.put(b.Size)
	}
	return err
}

// Memory reads what may be allocated, of the bound if there is one.
func (d *Device) Memory() (device.Memory, error) {
	m, err := d.Device.Memory()
	if err != nil || d.bytes == 0 {
		return m, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return device.Memory{Free: min(m.Free, d.bytes-d.used), Total: d.bytes}, nil
}

// NewStream opens a stream that belongs to d.
func (d *Device) NewStream() (*device.Stream, error) {
	s, err := d.Device.NewStream()
	if err != nil {
		return nil, err
	}
	return device.NewStream(d, s.Driver()), nil
}
