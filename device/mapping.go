package device

import (
	"fmt"
	"unsafe"
)

// What [Device.Map] asks of host memory: kernels rely on the alignment as they
// do with a buffer of the device, and devices may access whole words.
const (
	MapAlign = 256 // bytes; the first byte's address is a multiple
	MapUnit  = 8   // bytes; the length is a multiple
)

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
