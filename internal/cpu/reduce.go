package cpu

import (
	"unsafe"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

// reduce combines v into *dst. Kernels do the same in kernels/include/weft/reduce.cuh.
func reduce[V any](f batch.Flags, kind op.Kind, dst *V, v V) {
	switch unsafe.Sizeof(v) {
	case 4:
		a, b := (*uint32)(unsafe.Pointer(dst)), *(*uint32)(unsafe.Pointer(&v))
		*a = combine[uint32, float32](f, kind, *a, b)
	case 8:
		a, b := (*uint64)(unsafe.Pointer(dst)), *(*uint64)(unsafe.Pointer(&v))
		*a = combine[uint64, float64](f, kind, *a, b)
	}
}

// Reduce combines v into dst. Both hold the bytes of one value.
func Reduce(f batch.Flags, kind op.Kind, dst, v []byte) {
	if len(v) == 4 {
		reduce(f, kind, (*uint32)(unsafe.Pointer(&dst[0])), *(*uint32)(unsafe.Pointer(&v[0])))
	} else {
		reduce(f, kind, (*uint64)(unsafe.Pointer(&dst[0])), *(*uint64)(unsafe.Pointer(&v[0])))
	}
}

func addInt[V any](dst *V, v V) {
	switch unsafe.Sizeof(v) {
	case 4:
		*(*uint32)(unsafe.Pointer(dst)) += *(*uint32)(unsafe.Pointer(&v))
	case 8:
		*(*uint64)(unsafe.Pointer(dst)) += *(*uint64)(unsafe.Pointer(&v))
	}
}

// combine returns the reduction of two values given as bits. The values have type F if the flags
// include Float. If both are NaN, Min and Max return the one with the larger bits, so that the
// result does not depend on the order.
func combine[U uint32 | uint64, F float32 | float64](f batch.Flags, kind op.Kind, a, b U) U {
	switch kind {
	case op.Sum:
		if f&batch.Float == 0 {
			return a + b
		}
		sum := *(*F)(unsafe.Pointer(&a)) + *(*F)(unsafe.Pointer(&b))
		return *(*U)(unsafe.Pointer(&sum))
	case op.And:
		return a & b
	case op.Or:
		return a | b
	}
	if f&batch.Float != 0 && (isNaN(a) || isNaN(b)) {
		if isNaN(a) && (!isNaN(b) || a > b) {
			return a
		}
		return b
	}
	if x, y := rank(f, a), rank(f, b); kind == op.Min && y < x || kind == op.Max && y > x {
		return b
	}
	return a
}

// rank returns an unsigned integer that orders like the value; -0 comes before 0.
func rank[U uint32 | uint64](f batch.Flags, bits U) U {
	sign := ^(^U(0) >> 1)
	switch {
	case f&batch.Float != 0 && bits&sign != 0:
		return ^bits
	case f&(batch.Float|batch.Signed) != 0:
		return bits ^ sign
	}
	return bits
}

func isNaN[U uint32 | uint64](bits U) bool {
	infinity := U(0xff) << 23
	if unsafe.Sizeof(bits) == 8 {
		infinity = U(0x7ff) << (8*unsafe.Sizeof(bits) - 12)
	}
	return bits&(^U(0)>>1) > infinity
}
