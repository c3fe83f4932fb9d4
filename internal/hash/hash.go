// Package hash implements the hash of keys in Go, as kernels/include/weft/hash.cuh does in C++. A
// structure built on one device may be read on another, so both must agree bit for bit.
package hash

import (
	"math/bits"
	"unsafe"
)

// Uint32 returns the hash of x. It is Murmur3's finalizer with better-mixing constants, keyed by
// the low half of seed. It is a bijection for every seed.
func Uint32(x uint32, seed uint64) uint32 {
	x ^= uint32(seed)
	x ^= x >> 16
	x *= 0x21f0aaad
	x ^= x >> 15
	x *= 0xd35a2d97
	x ^= x >> 15
	return x
}

// Uint64 returns the hash of x. It is a bijection for every seed.
func Uint64(x, seed uint64) uint64 {
	x ^= seed
	x ^= x >> 32
	x *= 0xe9846af9b1a615d
	x ^= x >> 32
	x *= 0xe9846af9b1a615d
	x ^= x >> 28
	return x
}

// Unmix32 is the inverse of Uint32.
func Unmix32(x uint32, seed uint64) uint32 {
	x ^= x>>15 ^ x>>30
	x *= 0x37132227
	x ^= x>>15 ^ x>>30
	x *= 0x333c4925
	x ^= x >> 16
	return x ^ uint32(seed)
}

// Unmix64 is the inverse of Uint64.
func Unmix64(x, seed uint64) uint64 {
	x ^= x>>28 ^ x>>56
	x *= 0x153ed04bd89cfaf5
	x ^= x >> 32
	x *= 0x153ed04bd89cfaf5
	x ^= x >> 32
	return x ^ seed
}

// Reduce32 maps a hash to [0,n) by the high half of a product. It works for any n, takes no modulo,
// and keeps the order of hashes.
func Reduce32(h, n uint32) uint32 { return uint32(uint64(h) * uint64(n) >> 32) }

// Reduce64 maps a hash to [0,n) in the same way as Reduce32.
func Reduce64(h, n uint64) uint64 {
	hi, _ := bits.Mul64(h, n)
	return hi
}

// Home returns the index of a key's home slot in a table of n slots. Home slots are in the order of
// the hashes. A key that is equal to extra or larger looks like a sentinel; its home is an
// additional slot with index n.
func Home[K uint32 | uint64](key, extra K, seed uint64, n uint32) uint32 {
	if key >= extra {
		return n
	}
	if unsafe.Sizeof(key) == 4 {
		return Reduce32(Uint32(uint32(key), seed), n)
	}
	return uint32(Reduce64(Uint64(uint64(key), seed), uint64(n)))
}
