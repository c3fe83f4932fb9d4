package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/weftgo/weft/device"
)

// This file implements mapped host memory, and ranges, which grow.

// reserve reserves size bytes of addresses and returns an empty segment at the first one.
func (h *heap) reserve(size int) (*segment, bool) {
	if h.next >= sharedWindow || uint64(size) > (sharedWindow-h.next)/2 {
		return nil, false
	}
	s, ok := h.alloc(0)
	if ok {
		h.next = (h.next + uint64(size) + heapAlign - 1) &^ (heapAlign - 1)
	}
	return s, ok
}

// Map returns a buffer that consists of the host's bytes. They count as written, and do not count
// against the memory of the device. It is a fault to unmap the buffer before the host has waited
// for the works that use it.
func (d *Device) Map(host []byte) (b device.Buffer, unmap func() error, err error) {
	if err := d.lock(); err != nil {
		return b, nil, err
	}
	defer d.mu.Unlock()
	if err := device.CheckMap(host); err != nil {
		return b, nil, fmt.Errorf("sim: %w", err)
	}
	if err := d.checkUnpinned("Map", host); err != nil {
		return b, nil, err
	}
	s, ok := d.heap.reserve(len(host))
	if !ok {
		return b, nil, fmt.Errorf("sim: %w: no addresses left to map %d bytes", device.ErrMemory, len(host))
	}
	// Cells are read as a whole, and no cell may extend beyond the end. The length is therefore a
	// multiple of eight bytes.
	s.name, s.size, s.data = fmt.Sprintf("mapping of %d bytes", len(host)), len(host), host[:len(host):len(host)]
	s.written = bytes.Repeat([]byte{0xff}, len(host)/8)
	d.mapped = append(d.mapped, s)
	p := &pin{host}
	d.pinned[p] = true
	return device.Buffer{Ptr: device.Ptr(s.base), Size: s.size}, func() error { return d.unmap(p, s) }, nil
}

func (d *Device) unmap(p *pin, s *segment) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.pinned[p] || d.closed {
		return nil // a second call does nothing
	}
	delete(d.pinned, p)
	d.mapped = slices.DeleteFunc(d.mapped, func(o *segment) bool { return o == s })
	err := d.checkUnused(s, "unmapped")
	d.heap.used += uint64(s.size) // heap.free subtracts it again
	d.heap.free(s)
	return errors.Join(err, d.checkReleased(p.memory))
}

// refreshMapped drops the history of mapped memory once the host has waited for all works that use
// the memory. The host may then write the memory, and later works must see these writes.
func (d *Device) refreshMapped() {
	for _, s := range d.mapped {
		if d.unfinished(s.users) == nil {
			s.history, s.bulk = nil, nil
		}
	}
}

// rangeStep is the unit of growth of a range, in bytes. It is small, so that small structures in
// tests grow often, and accesses beyond the end are found.
const rangeStep = 256

// reservation implements [device.Range] by a segment of variable size, under the device's lock.
type reservation struct {
	dev   *Device
	seg   *segment
	size  int // maximum of seg.size
	freed bool
}

// Reserve implements [device.Device].
func (d *Device) Reserve(size int) (device.Range, error) {
	if err := d.lock(); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	if size <= 0 {
		return nil, fmt.Errorf("sim: %w: range of %d bytes", device.ErrInvalid, size)
	}
	if size > math.MaxInt-rangeStep {
		return nil, fmt.Errorf("sim: %w: no addresses for a range of %d bytes", device.ErrMemory, size)
	}
	size = roundUp(size)
	s, ok := d.heap.reserve(size)
	if !ok {
		return nil, fmt.Errorf("sim: %w: no addresses for a range of %d bytes", device.ErrMemory, size)
	}
	s.resize(0)
	return &reservation{dev: d, seg: s, size: size}, nil
}

func roundUp(size int) int { return (size + rangeStep - 1) &^ (rangeStep - 1) }

// resize changes the size of a range's segment in place.
func (s *segment) resize(size int) {
	fresh := newSegment(fmt.Sprintf("range with %d bytes mapped", size), s.base, size)
	kept := min(s.size, size)
	copy(fresh.data, s.data[:kept])
	copy(fresh.written, s.written[:kept/8])
	s.name, s.size, s.data, s.written, s.history = fresh.name, fresh.size, fresh.data, fresh.written, s.history.resize(size)
}

// resize returns the history of the first size bytes, with a list of pages for all of them.
func (h history) resize(size int) history {
	if h == nil {
		return nil
	}
	cells := size / cellBytes
	fresh := make(history, (cells+cellPage)/cellPage)
	copy(fresh, h)
	if last := fresh[len(fresh)-1]; last != nil {
		clear(last[cells%cellPage:])
	}
	return fresh
}

func (r *reservation) Ptr() device.Ptr { return device.Ptr(r.seg.base) }

func (r *reservation) Mapped() int {
	r.dev.mu.Lock()
	defer r.dev.mu.Unlock()
	if r.freed {
		return 0
	}
	return r.seg.size
}

func (r *reservation) Buffer() device.Buffer {
	return device.Buffer{Ptr: r.Ptr(), Size: r.Mapped()}
}

func (r *reservation) Resize(n int) error {
	d := r.dev
	if err := d.lock(); err != nil {
		return err
	}
	defer d.mu.Unlock()
	if n >= 0 && n < r.seg.size {
		if err := r.waitUnused(); err != nil {
			return err
		}
	}
	switch {
	case r.freed:
		return fmt.Errorf("sim: Resize: range %w", device.ErrClosed)
	case n < 0 || n > r.size:
		return fmt.Errorf("sim: Resize: %w: %d bytes in a range of %d", device.ErrInvalid, n, r.size)
	}
	n = roundUp(n)
	used := d.heap.used - uint64(r.seg.size)
	if uint64(n) > d.heap.limit-used {
		return fmt.Errorf("sim: Resize: %w: %d bytes requested, %d free", device.ErrMemory, n,
			d.heap.limit-used)
	}
	if n != r.seg.size {
		d.heap.used = used + uint64(n)
		r.seg.resize(n)
	}
	return nil
}

// waitUnused waits for all work of the device until no unfinished work uses the range. It repeats
// the wait, because other goroutines may submit work meanwhile. Callers hold the device's lock,
// which waitUnused releases while it waits.
func (r *reservation) waitUnused() error {
	for {
		if err := r.dev.drainAll(context.Background()); err != nil {
			return err
		}
		if r.dev.unfinished(r.seg.users) == nil {
			return nil
		}
	}
}

func (r *reservation) Free() error {
	d := r.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	var err error
	if !r.freed && !d.closed && d.lost == nil {
		err = r.waitUnused()
	}
	if !r.freed && !d.closed { // checked again, since waitUnused releases the lock
		d.heap.free(r.seg)
	}
	r.freed = true
	return err
}
