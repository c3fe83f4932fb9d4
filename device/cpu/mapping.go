package cpu

import (
	"fmt"
	"sync/atomic"

	"github.com/weftgo/weft/device"
)

// Map implements [device.Device]. It only enters host in a table, so it costs next to nothing.
func (d *Device) Map(host []byte) (b device.Buffer, unmap func() error, err error) {
	if d.closed.Load() {
		return b, nil, errClosed("Map")
	}
	if err := device.CheckMap(host); err != nil {
		return b, nil, fmt.Errorf("cpu: %w", err)
	}
	if unmap, err = d.addMemory(&d.mapped, "Map", host); err != nil {
		return b, nil, err
	}
	return device.Buffer{Ptr: address(host), Size: len(host), Host: host[:len(host):len(host)]}, unmap, nil
}

// Register accepts any memory, because the host copies all memory at the same speed.
func (d *Device) Register(b []byte) (unregister func() error, err error) {
	if d.closed.Load() {
		return nil, errClosed("Register")
	}
	if len(b) == 0 {
		return nil, fmt.Errorf("cpu: %w: Register of an empty slice", device.ErrInvalid)
	}
	return d.addMemory(&d.registered, "Register", b)
}

// addMemory adds memory of the caller to table t. It refuses b if a part of b is already registered
// or mapped, as a GPU does.
func (d *Device) addMemory(t *table, op string, b []byte) (undo func() error, err error) {
	d.mapMu.Lock()
	defer d.mapMu.Unlock()
	if d.registered.overlaps(b) || d.mapped.overlaps(b) {
		return nil, fmt.Errorf("cpu: %s: %w: a part of the %d bytes at %#x is registered or mapped already", op, device.ErrInvalid, len(b), uint64(address(b)))
	}
	t.add(b)
	var done atomic.Bool
	return func() error {
		if !done.Swap(true) {
			t.remove(address(b), len(b))
		}
		return nil
	}, nil
}
