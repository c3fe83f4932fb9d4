package gphash

import (
	"encoding/binary"
	"math/bits"

	"github.com/weftgo/weft/internal/enum"
	"github.com/weftgo/weft/internal/hash"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/pool"
)

// hasher computes hashes of keys with the seed of a pool. The paper's hash has no seed and is
// linear, so anyone can compute a thousand keys with the same candidates.
type hasher struct {
	id   HashID
	seed [2]uint64
}

// HashID identifies the hash function of a pool's keys. Files store these numbers, so they must not
// change.
type HashID uint32

const (
	// SipHash is SipHash-1-3 with the 128-bit seed of the pool. Colliding keys cannot be chosen
	// without the seed.
	SipHash HashID = pool.SipHash
	// Fast is a faster function. Use it if no attacker chooses keys.
	Fast HashID = pool.FastHash
)

var hashIDs = enum.Names[HashID]{Type: "gphash.HashID", Names: []string{SipHash: "SipHash", Fast: "Fast"}, Err: op.ErrOptions}

// String returns the name of the function.
func (h HashID) String() string { return hashIDs.String(h) }

// MarshalText returns the name of the function, or weft.ErrOptions for an invalid value.
func (h HashID) MarshalText() ([]byte, error) { return hashIDs.Text(h) }

// UnmarshalText parses a name in upper or lower case, so that flag.TextVar accepts a HashID.
func (h *HashID) UnmarshalText(text []byte) error { return hashIDs.Read(h, text) }

func (f *hasher) hash(key []byte) uint64 {
	if f.id == Fast {
		return f.fast(key)
	}
	return f.sip13(key)
}

// fast mixes the words of a key one after the other.
func (f *hasher) fast(key []byte) uint64 {
	h := f.seed[0] ^ uint64(len(key))
	for ; len(key) >= 8; key = key[8:] {
		h = hash.Uint64(h^binary.LittleEndian.Uint64(key), f.seed[1])
	}
	if len(key) > 0 {
		h = hash.Uint64(h^tailWord(key), f.seed[1])
	}
	return h
}

// tailWord returns the last bytes of a key as a little-endian word.
func tailWord(tail []byte) (w uint64) {
	for i, b := range tail {
		w |= uint64(b) << (8 * i)
	}
	return w
}

// sip13 computes SipHash (Aumasson and Bernstein, 2012) with one round per word and three final
// ones.
func (f *hasher) sip13(key []byte) uint64 {
	v0, v1 := f.seed[0]^0x736f6d6570736575, f.seed[1]^0x646f72616e646f6d
	v2, v3 := f.seed[0]^0x6c7967656e657261, f.seed[1]^0x7465646279746573
	end := uint64(len(key)) << 56
	for ; len(key) >= 8; key = key[8:] {
		m := binary.LittleEndian.Uint64(key)
		v3 ^= m
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
		v0 ^= m
	}
	m := end | tailWord(key)
	v3 ^= m
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0 ^= m
	v2 ^= 0xff
	for range 3 {
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	}
	return v0 ^ v1 ^ v2 ^ v3
}

func sipRound(v0, v1, v2, v3 uint64) (uint64, uint64, uint64, uint64) {
	v0 += v1
	v1 = bits.RotateLeft64(v1, 13) ^ v0
	v0 = bits.RotateLeft64(v0, 32)
	v2 += v3
	v3 = bits.RotateLeft64(v3, 16) ^ v2
	v0 += v3
	v3 = bits.RotateLeft64(v3, 21) ^ v0
	v2 += v1
	v1 = bits.RotateLeft64(v1, 17) ^ v2
	v2 = bits.RotateLeft64(v2, 32)
	return v0, v1, v2, v3
}
