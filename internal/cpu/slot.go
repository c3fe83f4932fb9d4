package cpu

import (
	"structs"
	"unsafe"
)

// Key and Val are the types of stored keys and values. A set stores empty structs as values.
type (
	Key interface{ uint32 | uint64 }
	Val interface {
		uint32 | uint64 | struct{}
	}
)

// Slot is one entry of a hash structure. Kernels define the same slot in
// kernels/include/weft/slot.cuh. The value precedes the key because Go pads a zero-sized last
// field, and because kernels require the key in the upper half of the word.
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

// Sentinels are keys that are never stored as such. They count down from the largest key, so that
// one comparison detects all of them. Structures may define more.
const (
	Empty   = 0 // ^K(0): not used since the last rehash
	Dead    = 1 // deleted; the value field holds the deleted key
	Pending = 2 // being written by a GPU without 128-bit compare-and-swap
)

// Sentinel returns the key that represents sentinel number s.
func Sentinel[K Key](s K) K { return ^s }

// IsSentinel reports whether a key looks like a sentinel. last is the last sentinel of the
// structure. Such a key is stored as ^key, in a place reserved for such keys. So every key is
// legal, at the cost of one comparison per ordinary key.
func IsSentinel[K Key](key, last K) bool { return key >= ^last }

// Stored returns the form in which a key is stored: ^key if it looks like a sentinel, otherwise
// key.
func Stored[K Key](key, last K) K {
	if IsSentinel(key, last) {
		return ^key
	}
	return key
}

// HeldKey reports whether a dead slot held the key before its deletion. It returns false for sets,
// because their dead slots do not hold deleted keys.
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
