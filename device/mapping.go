package device

import (
	"context"
	"fmt"
	"unsafe"
)

// What [Device.Map] asks of host memory: kernels rely on the alignment as they
// do with a buffer of the device, and devices may access whole words.
const (
	MapAlign = 256 // bytes; the first byte's address is a multiple
	MapUnit  = 8   // bytes; the length is a multiple
)

// A ContextMapper is a device to which mapping takes time: a GPU locks pages one by one.
type ContextMapper interface {
	Device
	// MapContext is Map in pieces; when ctx ends it unmaps those that it has mapped.
	MapContext(ctx context.Context, host []byte) (b Buffer, unmap func() error, err error)
}

// Map is d.Map, which ctx ends where the device is a [ContextMapper].
func Map(ctx context.Context, d Device, host []byte) (b Buffer, unmap func() error, err error) {
	if m, ok := d.(ContextMapper); ok {
		return m.MapContext(ctx, host)
	}
	return d.Map(host)
}

// CheckMap tells what is wrong with the place or the length of host memory
// that is to be mapped: ErrInvalid. It is for implementations of [Device].
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
