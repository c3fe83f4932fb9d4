package arena

import (
	"encoding/binary"
	"hash/maphash"
)

const (
	// MaxShort is the maximum length of a short item, which its word contains.
	MaxShort = 7
	// Long is set in the words of long items, and in their hashes before Mix.
	Long = 1 << 63
)

// Hasher computes the keys of items.
type Hasher struct {
	Hash func([]byte) uint64 // hash of items longer than MaxShort
	Seed uint64              // mixed into the keys of short items; less than Long
}

// NewHasher returns a Hasher with random seeds. So an attacker cannot prepare an input that makes
// tables slow.
func NewHasher() Hasher {
	seed := maphash.MakeSeed()
	return Hasher{
		Hash: func(item []byte) uint64 { return maphash.Bytes(seed, item) },
		Seed: maphash.Bytes(seed, nil) &^ Long,
	}
}

// Short returns the key of the short item with the given word.
func (h *Hasher) Short(word uint64) uint64 { return Mix(word ^ h.Seed) }

// Long returns the key of a long item.
func (h *Hasher) Long(item []byte) uint64 { return Mix(h.Hash(item) | Long) }

// Key returns the key of any item.
func (h *Hasher) Key(item []byte) uint64 {
	if len(item) <= MaxShort {
		return h.Short(Pack(item))
	}
	return h.Long(item)
}

// Pack returns the word of a short item.
func Pack(item []byte) uint64 {
	n := uint(len(item))
	var x uint64
	switch {
	case n >= 4: // two overlapping loads
		x = uint64(binary.LittleEndian.Uint32(item)) | uint64(binary.LittleEndian.Uint32(item[n-4:]))<<(8*(n-4))
	case n > 0:
		x = uint64(item[0]) | uint64(item[n/2])<<(8*(n/2)) | uint64(item[n-1])<<(8*(n-1))
	}
	return x | uint64(n)<<56
}

// Unpack appends the bytes of a short item to dst, given the item's word.
func Unpack(dst []byte, word uint64) []byte {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], word)
	return append(dst, b[:b[MaxShort]]...)
}

// Mix is a bijection that makes high and low bits depend on all bits of x. It consists of two
// multiplications by odd numbers and three shifts, as in the finalizers of MurmurHash3 and
// SplitMix64. It uses the constants of SplitMix64.
func Mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
