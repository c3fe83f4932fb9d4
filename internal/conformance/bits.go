package conformance

import (
	"unsafe"

	"github.com/weftgo/weft"
)

// fromBits returns the value with the given low bits. A float may have any bits, even those of a
// NaN.
func fromBits[T weft.Value](bits uint64) T {
	var v T
	if unsafe.Sizeof(v) == 4 {
		*(*uint32)(unsafe.Pointer(&v)) = uint32(bits)
	} else {
		*(*uint64)(unsafe.Pointer(&v)) = bits
	}
	return v
}

// toBits returns the bits of a value. The suites compare floats by their bits.
func toBits[T weft.Value](v T) uint64 {
	if unsafe.Sizeof(v) == 4 {
		return uint64(*(*uint32)(unsafe.Pointer(&v)))
	}
	return *(*uint64)(unsafe.Pointer(&v))
}
