package device

import (
	"context"
	"fmt"
	"unsafe"
)

// These constants limit the host memory that [Device.Map] accepts. Kernels rely on the same
// alignment as in buffers, and devices may access whole words.
const (
	MapAlign = 256 // in bytes; the first byte's address must be a multiple
	MapUnit  = 8   // in bytes; the length must be a multiple
)

// ContextMapper is a device that takes long to map memory, as a GPU that locks pages one by one.
type ContextMapper interface {
	Device
	// MapContext maps host as Map does, but in pieces. When ctx ends, it unmaps the pieces that it
	// has mapped and returns the context's error.
	MapContext(ctx context.Context, host []byte) (b Buffer, unmap func() error, err error)
}

// Map calls d.Map. If d is a [ContextMapper], it calls d.MapContext, which returns when ctx ends.
func Map(ctx context.Context, d Device, host []byte) (b Buffer, unmap func() error, err error) {
	if m, ok := d.(ContextMapper); ok {
		return m.MapContext(ctx, host)
	}
	return d.Map(host)
}

// CheckMap returns ErrInvalid if host has the wrong alignment or length for Map. The error names
// the rule that host breaks. Implementations of [Device] call CheckMap.
func CheckMap(host []byte) error {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(host)))
	switch {
	case len(host) == 0:
		return fmt.Errorf("%w: Map of an empty slice", ErrInvalid)
	case at%MapAlign != 0:
		return fmt.Errorf("%w: Map of memory at %#x; it must begin at a multiple of %d bytes", ErrInvalid, at, MapAlign)
	case len(host)%MapUnit != 0:
		return fmt.Errorf("%w: Map of %d bytes; it must be a multiple of %d", ErrInvalid, len(host), MapUnit)
	}
	return nil
}
