package conformance

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// The suites are compiled only once. They represent keys and values of all types as 64-bit numbers,
// and adapters convert each batch. A value is represented by its bits. A key is represented by its
// bits, with the sign bit of signed types flipped, so that the numbers have the order of the keys.

// types describes the types of keys and values that a suite's numbers represent.
type types struct {
	keyMask, valMask uint64 // the bits of keys and values
	signBit          uint64 // sign bit of signed keys, or 0
	floats, signed   bool   // whether values are floats, or signed
	val              func(n int) uint64
	combine          func(by weft.Reduction, a, b uint64) uint64
}

func typesOf[K weft.Key, V weft.Value]() types {
	return types{
		keyMask: toBits(^K(0)), valMask: toBits(fromBits[V](^uint64(0))), signBit: signBitOf[K](),
		floats: isFloat[V](), signed: V(0)-1 < 0,
		val: func(n int) uint64 { return toBits(V(n)) },
		combine: func(by weft.Reduction, a, b uint64) uint64 {
			return toBits(combine(by, fromBits[V](a), fromBits[V](b)))
		},
	}
}

// wide describes 64-bit keys and values, for suites that test only this pair of types.
var wide = typesOf[uint64, uint64]()

func signBitOf[K weft.Key]() uint64 {
	if k := ^K(0); k < 0 {
		return toBits(k)>>1 + 1
	}
	return 0
}

// key returns the number of the key with the given bits.
func (y *types) key(bits uint64) uint64 { return bits&y.keyMask ^ y.signBit }

// numbers returns the given integers as keys.
func (y *types) numbers(numbers ...int) []uint64 {
	keys := make([]uint64, len(numbers))
	for i, n := range numbers {
		keys[i] = y.key(uint64(n))
	}
	return keys
}

// keyAfter returns the key that follows key by the given number of steps. The smallest key follows
// the largest.
func (y *types) keyAfter(key uint64, steps int) uint64 { return (key + uint64(steps)) & y.keyMask }

// bits returns the number of the value with the given bits.
func (y *types) bits(bits uint64) uint64 { return bits & y.valMask }

func (y *types) randomValue(rng *rand.Rand) uint64 { return y.bits(rng.Uint64()) }

func (y *types) randomValues(n int, rng *rand.Rand) []uint64 {
	vals := make([]uint64, n)
	for i := range vals {
		vals[i] = y.randomValue(rng)
	}
	return vals
}

// uniqueKeys returns n distinct random keys. The key type must have at least n keys.
func (y *types) uniqueKeys(n int, rng *rand.Rand) []uint64 {
	seen := make(map[uint64]bool, n)
	keys := make([]uint64, 0, n)
	for len(keys) < n {
		if k := y.key(rng.Uint64()); !seen[k] {
			seen[k] = true
			keys = append(keys, k)
		}
	}
	return keys
}

// sequence returns the keys first to first+n-1. first may be negative.
func (y *types) sequence(first, n int) []uint64 {
	keys := make([]uint64, n)
	for i := range keys {
		keys[i] = y.key(uint64(first + i))
	}
	return keys
}

// reservedPatterns are bit patterns that implementations tend to reserve.
var reservedPatterns = []uint64{
	0, 1, 2, 3, math.MaxUint64, math.MaxUint64 - 1, math.MaxUint64 - 2, math.MaxUint64 - 3,
	1 << 31, 1 << 32, 1 << 63, 0xdeadbeef, 0x7fffffff_7fffffff,
	0x7ff00000_7f800001, // as a float of 32 or 64 bits, a NaN that arithmetic would change
}

func (y *types) reservedKeys() []uint64 { return mapEach(reservedPatterns, y.key) }
func (y *types) reservedVals() []uint64 { return mapEach(reservedPatterns, y.bits) }

func mapEach(numbers []uint64, f func(uint64) uint64) []uint64 {
	out := slices.Clone(numbers)
	for i, n := range out {
		out[i] = f(n)
	}
	return out
}

// collidingKey maps a byte to a key such that random bytes repeat keys. Some of the keys look like
// sentinels.
func (y *types) collidingKey(b byte) uint64 {
	if b >= 0xf0 {
		return y.key(^uint64(b & 15))
	}
	return y.key(uint64(b))
}

// blankKeys and blankVals return n outputs with a content that no call should leave.
func (y *types) blankKeys(n int) []uint64 { return slices.Repeat([]uint64{blank & y.keyMask}, n) }
func (y *types) blankVals(n int) []uint64 { return slices.Repeat([]uint64{y.bits(blank)}, n) }

// keysOn and valsOn copy a column to device memory, in the width of its type. The copy is freed at
// the end of the test.
func (y *types) keysOn(t testing.TB, s *device.Stream, keys []uint64) words {
	t.Helper()
	return upload(t, s, keys, y.keyMask, y.signBit)
}

func (y *types) valsOn(t testing.TB, s *device.Stream, vals []uint64) words {
	t.Helper()
	return upload(t, s, vals, y.valMask, 0)
}

// words is a column of keys or values in device memory.
type words struct {
	narrow  device.Slice[uint32]
	wide    device.Slice[uint64]
	signBit uint64
}

func upload(t testing.TB, s *device.Stream, src []uint64, mask, signBit uint64) words {
	t.Helper()
	if mask == math.MaxUint64 {
		return words{wide: devicetest.Upload(t, s, mapEach(src, func(x uint64) uint64 { return x ^ signBit })), signBit: signBit}
	}
	narrow := make([]uint32, len(src))
	for i, x := range src {
		narrow[i] = uint32(x ^ signBit)
	}
	return words{narrow: devicetest.Upload(t, s, narrow), signBit: signBit}
}

// Sub returns elements [lo,hi).
func (w words) Sub(lo, hi int) words {
	if w.narrow.Device() != nil {
		w.narrow = w.narrow.Sub(lo, hi)
	} else {
		w.wide = w.wide.Sub(lo, hi)
	}
	return w
}

// CopyTo copies the first len(dst) elements to dst and waits for the copy.
func (w words) CopyTo(ctx context.Context, s *device.Stream, dst []uint64) error {
	if w.narrow.Device() == nil {
		if err := w.wide.CopyTo(ctx, s, dst); err != nil {
			return err
		}
		for i := range dst {
			dst[i] ^= w.signBit
		}
		return nil
	}
	narrow := make([]uint32, len(dst))
	if err := w.narrow.CopyTo(ctx, s, narrow); err != nil {
		return err
	}
	for i, x := range narrow {
		dst[i] = uint64(x) ^ w.signBit
	}
	return nil
}

// deviceColumn returns the slice in w as a slice of T, which has the same layout.
func deviceColumn[T weft.Value](w words) device.Slice[T] {
	if unsafe.Sizeof(T(0)) == 4 {
		return *(*device.Slice[T])(unsafe.Pointer(&w.narrow))
	}
	return *(*device.Slice[T])(unsafe.Pointer(&w.wide))
}

// hostCopy is a copy of a column in host memory, in the width of its type. It lasts for one call.
type hostCopy struct {
	of      []uint64
	narrow  []uint32
	wide    []uint64
	signBit uint64
}

func newHostCopy(of []uint64, mask, signBit uint64) hostCopy {
	l := hostCopy{of: of, signBit: signBit}
	switch {
	case of == nil:
	case mask == math.MaxUint64:
		l.wide = make([]uint64, len(of))
		for i, x := range of {
			l.wide[i] = x ^ signBit
		}
	default:
		l.narrow = make([]uint32, len(of))
		for i, x := range of {
			l.narrow[i] = uint32(x ^ signBit)
		}
	}
	return l
}

// copyBack copies changed elements back, including inputs that a call has wrongly changed. Then it
// overwrites the copy, so that tests detect a callee that keeps it.
func (l hostCopy) copyBack() {
	for i, x := range l.narrow {
		if x := uint64(x) ^ l.signBit; x != l.of[i] {
			l.of[i] = x
		}
	}
	for i, x := range l.wide {
		if x ^= l.signBit; x != l.of[i] {
			l.of[i] = x
		}
	}
	clear(l.narrow)
	clear(l.wide)
}

// hostColumn returns the copied column as a slice of T.
func hostColumn[T weft.Value](l hostCopy) []T {
	if l.narrow != nil {
		return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(l.narrow))), len(l.narrow))
	}
	if l.wide != nil {
		return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(l.wide))), len(l.wide))
	}
	return nil
}

// widened returns the numbers that represent a column of typed keys or values.
func widened[T weft.Value](vals []T, signBit uint64) []uint64 {
	out := make([]uint64, len(vals))
	for i, v := range vals {
		out[i] = toBits(v) ^ signBit
	}
	return out
}
