package conformance

import (
	"unsafe"

	"github.com/weftgo/weft"
)

// fromBits returns the value with the given low bits. Floats take any bit pattern, NaNs included.
func fromBits[T weft.Value](bits uint64) T {
	var v T
	if unsafe.Sizeof(v) == 4 {
		*(*uint32)(unsafe.Pointer(&v)) = uint32(bits)
	} else {
		*(*uint64)(unsafe.Pointer(&v)) = bits
	}
	return v
}

// toBits returns the bits of a value. Floats are compared by them.
func toBits[T weft.Value](v T) uint64 {
	if unsafe.Sizeof(v) == 4 {
		return uint64(*(*uint32)(unsafe.Pointer(&v)))
	}
	return *(*uint64)(unsafe.Pointer(&v))
}
