package distinct

import (
	"encoding/binary"
	"hash/maphash"
)

// An item is known by two numbers.
//
// Its word says where its bytes are. Items of at most 7 bytes are packed into
// the word itself: the bytes in the low 56 bits, first byte lowest, and the
// length above them. The word of a longer item is the longWord bit and its
// place in the arena.
//
// Its key is what tables are indexed by: mix of the packed word, or of the
// item's hash with the longWord bit set. mix is a bijection, so a short item
// has a key that no other item has, short or long.
const (
	maxShort = 7
	longWord = 1 << 63
)

// hasher turns items into keys.
type hasher struct {
	hash func([]byte) uint64 // of items longer than maxShort
	seed uint64              // of short items; below longWord
}

// newHasher seeds both kinds of keys from the run's random source, so that
// nobody can prepare an input that makes tables slow.
func newHasher() hasher {
	seed := maphash.MakeSeed()
	return hasher{
		hash: func(item []byte) uint64 { return maphash.Bytes(seed, item) },
		seed: maphash.Bytes(seed, nil) &^ longWord,
	}
}

// key is the key of the item at s of a piece with pad bytes after it.
func (h *hasher) key(padded []byte, s span) uint64 {
	if s.n <= maxShort {
		return mix(pack(padded, s) ^ h.seed)
	}
	return mix(h.hash(padded[s.off:s.off+s.n]) | longWord)
}

// pack is the word of a short item.
func pack(padded []byte, s span) uint64 {
	x := binary.LittleEndian.Uint64(padded[s.off:])
	return x&(1<<(8*uint(s.n))-1) | uint64(s.n)<<56
}

// unpack appends the bytes of a short item's word to dst.
func unpack(dst []byte, word uint64) []byte {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], word)
	return append(dst, b[:b[maxShort]]...)
}

// mix is a bijection whose high and low bits both depend on all bits of x: two
// multiplications by odd numbers and three shifts, as in the finalizers of
// MurmurHash3 and SplitMix64, with the constants of the latter.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
