// Package budget bounds the device memory of a call and reuses its allocations.
package budget

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/weftgo/weft/device"
)

const (
	// keptBuffers is the maximum number of freed buffers that a Device keeps for reuse. Allocating
	// and freeing a few buffers per piece of a batch takes a GPU about as long as copying the
	// piece.
	keptBuffers = 8
	keptBytes   = 256 << 20 // maximum size of a buffer that is kept
)

// Device wraps a device and bounds the memory allocated through the wrapper. Streams of the wrapper
// belong to it, so do not mix memory and streams of the two devices. Memory of a device.Range does
// not count toward the bound.
//
// A Device keeps up to keptBuffers recently freed buffers and reuses each for an allocation of
// equal size. They count toward the bound, but Alloc frees them when it needs their memory. Release
// frees them, too.
type Device struct {
	device.Device
	bytes uint64 // bound; 0 if none

	mu   sync.Mutex
	used uint64
	kept []device.Buffer // in the order in which they were freed
}

// New returns a Device that allocates at most the given number of bytes, or any number if bytes is
// 0.
func New(dev device.Device, bytes int64) *Device {
	return &Device{Device: dev, bytes: uint64(bytes)}
}

// Alloc allocates memory. It returns device.ErrMemory if the bound does not suffice.
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

// Free frees memory that Alloc returned. Work that uses the memory must have ended.
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

// Release frees the kept buffers.
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

// Memory returns the free and the total memory, limited by the bound if there is one. It frees the
// kept buffers first.
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

// NewStream returns a stream that belongs to d.
func (d *Device) NewStream() (*device.Stream, error) {
	s, err := d.Device.NewStream()
	if err != nil {
		return nil, err
	}
	return device.NewStream(d, s.Driver()), nil
}
