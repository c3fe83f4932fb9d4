package conformance

import (
	"math/big"
	"testing"
)

// Unhash returns the key with the 64-bit hash h under a seed. It inverts the finalizer of the hash.
func Unhash(h, seed uint64) uint64 {
	const inverse = 0x153ed04bd89cfaf5 // inverse of the multiplier 0xe9846af9b1a615d modulo 2^64
	h ^= h>>28 ^ h>>56
	h *= inverse
	h ^= h >> 32
	h *= inverse
	h ^= h >> 32
	return h ^ seed
}

// Colliding returns n keys with the hashes 1 to n under a seed. In every table, the home of each of
// them is the first slot.
func Colliding(n int, seed uint64) []uint64 {
	keys := make([]uint64, n)
	for i := range keys {
		keys[i] = Unhash(uint64(i)+1, seed)
	}
	return keys
}

// FillAndHalve puts keys into a map, a tenth at a time, looks them up, and deletes half of them. It
// calls full when all keys are present.
func FillAndHalve(t testing.TB, m AnyMap[uint64, uint64], keys []uint64, full func()) {
	t.Helper()
	n := len(keys)
	for lo := 0; lo < n; lo += n / 10 {
		got, err := m.Put(ctx(), keys[lo:lo+n/10], keys[lo:lo+n/10])
		WantCount(t, "Put", got, n/10, err)
	}
	WantPairs(t, m, keys)
	full()
	got, err := m.Delete(ctx(), keys[:n/2], nil)
	WantCount(t, "Delete", got, n/2, err)
	WantPairs(t, m, keys[n/2:])
}

// Homes returns the home of a 64-bit key, and the home of its lower half as a 32-bit key. homes is
// the number of homes in the table. Homes computes with arbitrary-precision integers, independently
// of package hash.
func Homes(key, seed uint64, homes uint64) (wide, narrow uint64) {
	x := new(big.Int).SetUint64(key ^ seed)
	shiftXor(x, 32)
	times(x, 0xe9846af9b1a615d, 64)
	shiftXor(x, 32)
	times(x, 0xe9846af9b1a615d, 64)
	shiftXor(x, 28)
	wide = reduce(x, homes, 64)
	x = new(big.Int).SetUint64(uint64(uint32(key) ^ uint32(seed)))
	shiftXor(x, 16)
	times(x, 0x21f0aaad, 32)
	shiftXor(x, 15)
	times(x, 0xd35a2d97, 32)
	shiftXor(x, 15)
	return wide, reduce(x, homes, 32)
}

func shiftXor(x *big.Int, s uint) { x.Xor(x, new(big.Int).Rsh(x, s)) }

func times(x *big.Int, factor uint64, width uint) {
	x.Mod(x.Mul(x, new(big.Int).SetUint64(factor)), new(big.Int).Lsh(big.NewInt(1), width))
}

func reduce(x *big.Int, n uint64, width uint) uint64 {
	return x.Rsh(x.Mul(x, new(big.Int).SetUint64(n)), width).Uint64()
}
