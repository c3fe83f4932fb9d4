package device

import (
	"context"
	"fmt"
	"unsafe"
)

// [Device.Map] requires these of host memory. Kernels rely on the alignment as with a buffer of the
// device, and devices may access whole words.
const (
	MapAlign = 256 // bytes; the address of the first byte is a multiple
	MapUnit  = 8   // bytes; the length is a multiple
)

// A ContextMapper is a device that takes long to map memory: a GPU locks pages one by one.
type ContextMapper interface {
	Device
	// MapContext is Map in pieces. When ctx ends, it unmaps the pieces that it has mapped.
	MapContext(ctx context.Context, host []byte) (b Buffer, unmap func() error, err error)
}

// Map calls d.Map. If d is a [ContextMapper], the end of ctx ends the call.
func Map(ctx context.Context, d Device, host []byte) (b Buffer, unmap func() error, err error) {
	if m, ok := d.(ContextMapper); ok {
		return m.MapContext(ctx, host)
	}
	return d.Map(host)
}

// CheckMap returns ErrInvalid if host memory has the wrong alignment or length for Map, and says
// which. Implementations of [Device] call it.
func CheckMap(host []byte) error {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(host)))
	switch {
	case len(host) == 0:
		return fmt.Errorf("%w: Map of no memory", ErrInvalid)
	case at%MapAlign != 0:
		return fmt.Errorf("%w: Map of memory at %#x; it must begin at a multiple of %d bytes", ErrInvalid, at, MapAlign)
	case len(host)%MapUnit != 0:
		return fmt.Errorf("%w: Map of %d bytes; it must be a multiple of %d", ErrInvalid, len(host), MapUnit)
	}
	return nil
}
