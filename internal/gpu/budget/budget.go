// Package budget bounds the device memory of a call, and reuses allocations for repeated work.
package budget

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/weftgo/weft/device"
)

const (
	// keptBuffers and keptBytes bound the freed memory that is kept. Allocating and freeing some
	// buffers for each piece of a batch takes about as long on a GPU as copying the piece.
	keptBuffers = 8
	keptBytes   = 256 << 20 // per buffer
)

// Device is a device with a bound on the memory allocated through it. Its streams belong to it, so
// memory and streams of the device itself do not mix with them. Ranges are not counted.
//
// It keeps a few of the most recently freed buffers for allocations of the same size. They count
// toward the bound until their memory is needed. Release frees them.
type Device struct {
	device.Device
	bytes uint64 // 0: no bound

	mu   sync.Mutex
	used uint64
	kept []device.Buffer // in the order in which they were freed
}

// New bounds the memory of a device to the given number of bytes; 0 is no bound.
func New(dev device.Device, bytes int64) *Device {
	return &Device{Device: dev, bytes: uint64(bytes)}
}

// Alloc allocates memory. It returns device.ErrMemory beyond the bound.
func (d *Device) Alloc(size int) (device.Buffer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.IndexFunc(d.kept, func(b device.Buffer) bool { return b.Size == size }); i >= 0 {
		b := d.kept[i]
		d.kept = slices.Delete(d.kept, i, i+1)
		return b, nil
	}
	b, err := d.alloc(size)
	if errors.Is(err, device.ErrMemory) && len(d.kept) > 0 {
		if err := d.release(); err != nil {
			return device.Buffer{}, err
		}
		return d.alloc(size)
	}
	return b, err
}

func (d *Device) alloc(size int) (device.Buffer, error) {
	if d.bytes > 0 && uint64(size) > d.bytes-d.used {
		return device.Buffer{}, fmt.Errorf("%w: %d bytes, with %d in use of the %d of Options.Memory",
			device.ErrMemory, size, d.used, d.bytes)
	}
	b, err := d.Device.Alloc(size)
	if err == nil {
		d.used += uint64(size)
	}
	return b, err
}

// Free frees memory of Alloc. Work that uses it must have completed.
func (d *Device) Free(b device.Buffer) error {
	if b.Size == 0 {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if b.Size > keptBytes {
		return d.free(b)
	}
	d.kept = append(d.kept, b)
	if len(d.kept) <= keptBuffers {
		return nil
	}
	oldest := d.kept[0]
	d.kept = slices.Delete(d.kept, 0, 1)
	return d.free(oldest)
}

func (d *Device) free(b device.Buffer) error {
	err := d.Device.Free(b)
	if err == nil {
		d.used -= uint64(b.Size)
	}
	return err
}

// Release frees the kept memory.
func (d *Device) Release() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.release()
}

func (d *Device) release() (err error) {
	for _, b := range d.kept {
		err = errors.Join(err, d.free(b))
	}
	d.kept = nil
	return err
}

// Memory returns how much may be allocated, within the bound if set. It frees the kept memory.
func (d *Device) Memory() (device.Memory, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.release(); err != nil {
		return device.Memory{}, err
	}
	m, err := d.Device.Memory()
	if err != nil || d.bytes == 0 {
		return m, err
	}
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
