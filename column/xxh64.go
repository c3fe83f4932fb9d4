package column

import (
	"encoding/binary"
	"math/bits"
)

// The primes of XXH64.
const (
	prime1 = 0x9e3779b185ebca87
	prime2 = 0xc2b2ae3d27d4eb4f
	prime3 = 0x165667b19e3779f9
	prime4 = 0x85ebca77c2b2ae63
	prime5 = 0x27d4eb2f165667c5
)

func le64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// xxh64 is XXH64 of Collet's "xxHash fast digest algorithm", version 0.1.1. Most languages have a
// library of it. xxh64 reads long strings in four lanes of 8 bytes, and the rest by 8, 4 and 1.
func xxh64(b []byte, seed uint64) uint64 {
	h := seed + prime5
	n := uint64(len(b))
	if len(b) >= 32 {
		h, b = xxh64Lanes(b, seed)
	}
	h += n
	for ; len(b) >= 8; b = b[8:] {
		h = bits.RotateLeft64(h^round(0, le64(b)), 27)*prime1 + prime4
	}
	if len(b) >= 4 {
		h = bits.RotateLeft64(h^uint64(binary.LittleEndian.Uint32(b))*prime1, 23)*prime2 + prime3
		b = b[4:]
	}
	for _, x := range b {
		h = bits.RotateLeft64(h^uint64(x)*prime5, 11) * prime1
	}
	h ^= h >> 33
	h *= prime2
	h ^= h >> 29
	h *= prime3
	return h ^ h>>32
}

func round(lane, x uint64) uint64 { return bits.RotateLeft64(lane+x*prime2, 31) * prime1 }

// xxh64Lanes hashes all whole stripes of 32 bytes, and returns the bytes after them.
func xxh64Lanes(b []byte, seed uint64) (h uint64, rest []byte) {
	const lane1, lane4 = (prime1 + prime2) & (1<<64 - 1), 1<<64 - prime1
	v1, v2, v3, v4 := seed+lane1, seed+prime2, seed, seed+lane4
	for ; len(b) >= 32; b = b[32:] {
		v1 = round(v1, le64(b))
		v2 = round(v2, le64(b[8:]))
		v3 = round(v3, le64(b[16:]))
		v4 = round(v4, le64(b[24:]))
	}
	h = bits.RotateLeft64(v1, 1) + bits.RotateLeft64(v2, 7) + bits.RotateLeft64(v3, 12) +
		bits.RotateLeft64(v4, 18)
	for _, v := range [...]uint64{v1, v2, v3, v4} {
		h = (h^round(0, v))*prime1 + prime4
	}
	return h, b
}
