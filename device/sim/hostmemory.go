package sim

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/weftgo/weft/device"
)

// pin is host memory that is registered or mapped.
type pin struct{ memory []byte }

// checkUnpinned returns an error if a part of b is registered or mapped.
func (d *Device) checkUnpinned(op string, b []byte) error {
	for p := range d.pinned {
		if overlap(b, p.memory) {
			return fmt.Errorf("sim: %s: %w: a part of the %d bytes is registered or mapped", op,
				device.ErrInvalid, len(b))
		}
	}
	return nil
}

// AllocHost implements [device.Device].
func (d *Device) AllocHost(size int) ([]byte, error) {
	if err := d.lock(); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	if size <= 0 {
		return nil, fmt.Errorf("sim: %w: allocation of %d bytes", device.ErrInvalid, size)
	}
	b := make([]byte, size+device.MapAlign)
	skip := int(-address(b) & (device.MapAlign - 1))
	b = b[skip : skip+size : skip+size]
	d.host[&b[0]] = size
	return b, nil
}

// FreeHost releases memory that AllocHost returned. It is a fault while an asynchronous copy may
// use b.
func (d *Device) FreeHost(b []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(b) == 0 || d.host[&b[0]] != len(b) {
		return fmt.Errorf("sim: %w: not memory from AllocHost (freed twice?)", device.ErrInvalid)
	}
	if err := d.checkUnpinned("FreeHost", b); err != nil {
		return err
	}
	delete(d.host, &b[0])
	return d.checkReleased(b)
}

// Register only records b, because all host memory is copied at the same speed. To unregister b is
// a fault while an asynchronous copy may use it.
func (d *Device) Register(b []byte) (func() error, error) {
	if err := d.lock(); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	if len(b) == 0 {
		return nil, fmt.Errorf("sim: %w: Register of an empty slice", device.ErrInvalid)
	}
	if err := d.checkUnpinned("Register", b); err != nil {
		return nil, err
	}
	p := &pin{b}
	d.pinned[p] = true
	return func() error { // a second call does nothing
		d.mu.Lock()
		defer d.mu.Unlock()
		if !d.pinned[p] {
			return nil
		}
		delete(d.pinned, p)
		return d.checkReleased(b)
	}, nil
}

// checkReleased is called when the host frees, unregisters or unmaps b. It marks the device as lost
// if the host has not waited for an asynchronous copy that uses b.
func (d *Device) checkReleased(b []byte) error {
	if d.closed || d.lost != nil {
		return nil
	}
	d.copies = slices.DeleteFunc(d.copies, d.waited.include)
	for _, w := range d.copies {
		if overlap(w.transfer.host, b) {
			return d.markLost(&Fault{Reason: "host memory was freed or unregistered while an asynchronous copy may still use it", Work: w.String()})
		}
	}
	return nil
}

// Pinned implements [device.Device].
func (d *Device) Pinned(b []byte) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for first, size := range d.host {
		if inside(b, unsafe.Slice(first, size)) {
			return true
		}
	}
	for p := range d.pinned {
		if inside(b, p.memory) {
			return true
		}
	}
	return false
}

// inside reports whether outer contains all of b.
func inside(b, outer []byte) bool {
	lo, base := address(b), address(outer)
	return lo >= base && lo+uintptr(len(b)) <= base+uintptr(len(outer))
}

// overlap reports whether two slices share memory.
func overlap(a, b []byte) bool {
	return address(a) < address(b)+uintptr(len(b)) && address(b) < address(a)+uintptr(len(a))
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
