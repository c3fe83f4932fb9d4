package arena

import (
	"encoding/binary"
	"hash/maphash"
)

const (
	// MaxShort is the maximum length of items that are stored in their word.
	MaxShort = 7
	// Long is set in the words of longer items, and in the hashes mixed to their keys.
	Long = 1 << 63
)

// Hasher computes the keys of items.
type Hasher struct {
	Hash func([]byte) uint64 // of items longer than MaxShort
	Seed uint64              // of short items; below Long
}

// NewHasher seeds both kinds of keys from the run's random source, so that an input that makes
// tables slow cannot be prepared.
func NewHasher() Hasher {
	seed := maphash.MakeSeed()
	return Hasher{
		Hash: func(item []byte) uint64 { return maphash.Bytes(seed, item) },
		Seed: maphash.Bytes(seed, nil) &^ Long,
	}
}

// Short returns the key of a short item with a word.
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
	case n >= 4: // two loads that overlap
		x = uint64(binary.LittleEndian.Uint32(item)) | uint64(binary.LittleEndian.Uint32(item[n-4:]))<<(8*(n-4))
	case n > 0:
		x = uint64(item[0]) | uint64(item[n/2])<<(8*(n/2)) | uint64(item[n-1])<<(8*(n-1))
	}
	return x | uint64(n)<<56
}

// Unpack appends the bytes of a short item's word to dst.
func Unpack(dst []byte, word uint64) []byte {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], word)
	return append(dst, b[:b[MaxShort]]...)
}

// Mix is a bijection. Its high and low bits both depend on all bits of x. It is two multiplications
// by odd numbers and three shifts, as in the finalizers of MurmurHash3 and SplitMix64, with the
// constants of the latter.
func Mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
