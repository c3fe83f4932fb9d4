package cpu

import (
	"structs"
	"unsafe"
)

// The types of stored keys and values. A set stores no value.
type (
	Key interface{ uint32 | uint64 }
	Val interface {
		uint32 | uint64 | struct{}
	}
)

// Slot is one entry of a hash structure (twin: kernels/include/weft/slot.cuh). The value comes
// first: a zero-sized last field would be padded, and the kernels require the key in the upper half
// of the word.
type Slot[K Key, V Val] struct {
	_   structs.HostLayout
	Val V
	Key K
}

var (
	_ [8]byte  = [unsafe.Sizeof(Slot[uint32, uint32]{})]byte{}
	_ [16]byte = [unsafe.Sizeof(Slot[uint64, uint64]{})]byte{}
	_ [4]byte  = [unsafe.Sizeof(Slot[uint32, struct{}]{})]byte{}
	_ [8]byte  = [unsafe.Sizeof(Slot[uint64, struct{}]{})]byte{}
)

// Sentinels are keys that are never stored. They count down from the largest, so "is a sentinel" is
// one comparison. Structures may have more of them.
const (
	Empty   = 0 // ^K(0): not used since the last rehash
	Dead    = 1 // deleted; the value field keeps the key
	Pending = 2 // being written by a GPU without 128-bit compare-and-swap
)

// Sentinel returns a sentinel as a key.
func Sentinel[K Key](s K) K { return ^s }

// IsSentinel reports whether a key looks like a sentinel; last is the last sentinel of the
// structure. Such keys are stored like any other, as ^key, in a place that holds nothing else. So
// every key is legal, and ordinary keys pay one comparison for it.
func IsSentinel[K Key](key, last K) bool { return key >= ^last }

// Stored returns the stored form of a key.
func Stored[K Key](key, last K) K {
	if IsSentinel(key, last) {
		return ^key
	}
	return key
}

// HeldKey reports whether a dead slot held the key. A set's slots do not keep deleted keys.
func (s *Slot[K, V]) HeldKey(key K) bool {
	return unsafe.Sizeof(s.Val) != 0 && *(*K)(unsafe.Pointer(&s.Val)) == key
}

// MarkDead makes a live slot dead.
func (s *Slot[K, V]) MarkDead() {
	if unsafe.Sizeof(s.Val) != 0 {
		*(*K)(unsafe.Pointer(&s.Val)) = s.Key
	}
	s.Key = Sentinel[K](Dead)
}
