// Package workload makes the keys of experiments and tests: unique random keys without a set of
// used keys, uniform and Zipf-distributed draws, and patterns that are bad for hash tables.
//
// Every function depends only on a seed and an index. A column is therefore the same for any number
// of cores that fill it, and any key can be computed again later.
package workload

import (
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/weftgo/weft"
)

// Misses is the first counter of keys that must be absent. Experiments insert Key(seed, i) for i <
// Misses and look up Key(seed, Misses+i). These keys differ, because [Key] is a bijection. For
// 32-bit keys, half of the counters are below Misses.
const Misses = 1 << 31

// Key returns key i of a seed; i is the counter of the key. Key is a bijection of i, so different
// counters have different keys. For 32-bit keys, i is taken modulo 2^32.
func Key[K weft.Key](seed, i uint64) K {
	var zero K
	if unsafe.Sizeof(zero) == 4 {
		return K(mix32(uint32(i) ^ uint32(mix64(seed))))
	}
	return K(mix64(i ^ mix64(seed)))
}

// Value returns the value that experiments store with a key. Since it is a function of the key, the
// result of a lookup can be checked without a copy of the stored values.
func Value[K weft.Key, V weft.Value](k K) V { return V(uint32(k) >> 1) }

// mix64 is the finalizer of splitmix64, a bijection (Steele, Lea, Flood: "Fast splittable
// pseudorandom number generators", 2014). Its constants differ from those of the tables' hash, so
// that keys do not correlate with their home slots.
func mix64(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	x ^= x >> 31
	return x
}

// mix32 applies three rounds of xorshift-multiply, a bijection of 32-bit words with almost no bias
// (constants: Wellons, "Prospecting for hash functions").
func mix32(x uint32) uint32 {
	x ^= x >> 17
	x *= 0xed5ad4bb
	x ^= x >> 11
	x *= 0xac4c1b51
	x ^= x >> 15
	x *= 0x31848bab
	x ^= x >> 14
	return x
}

// Random returns draw i of a seed, a uniform 64-bit number (splitmix64).
func Random(seed, i uint64) uint64 {
	return mix64(mix64(seed) + (i+1)*0x9e3779b97f4a7c15)
}

// Below maps a uniform 64-bit draw to [0,n).
func Below(draw, n uint64) uint64 {
	hi, _ := bits.Mul64(draw, n)
	return hi
}

// Permutation is a bijection of [0,n) that is computed, not stored.
type Permutation struct {
	n, mask, seed uint64
	shift         uint
}

// NewPermutation returns the permutation of [0,n) that seed selects. n must be positive.
func NewPermutation(n, seed uint64) Permutation {
	width := max(bits.Len64(n-1), 1)
	return Permutation{n: n, mask: ^uint64(0) >> (64 - width), seed: mix64(seed), shift: uint(width+1) / 2}
}

// At returns the image of i, which must be less than n. The method rounds permutes the numbers
// below the next power of two. At repeats it until the result is less than n, which takes fewer
// than two steps on average.
func (p Permutation) At(i uint64) uint64 {
	for {
		i = p.rounds(i)
		if i < p.n {
			return i
		}
	}
}

// rounds is a bijection of the numbers in the mask. It consists of additions and odd
// multiplications modulo a power of two, and of xorshifts.
func (p Permutation) rounds(x uint64) uint64 {
	seed := p.seed
	for range 4 {
		x = (x + seed) & p.mask
		x = (x * (0x9e3779b97f4a7c15 ^ seed<<1)) & p.mask
		x ^= x >> p.shift
		seed = bits.RotateLeft64(seed, 17)
	}
	return x
}

// fill sets dst[i] = f(i) on all cores. f must depend on i only.
func fill[T any](dst []T, f func(i uint64) T) {
	const grain = 1 << 15 // some 100 us of work
	workers := min(runtime.GOMAXPROCS(0), (len(dst)+grain-1)/grain)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				lo := int(next.Add(grain)) - grain
				if lo >= len(dst) {
					return
				}
				part := dst[lo:min(lo+grain, len(dst))]
				for i := range part {
					part[i] = f(uint64(lo + i))
				}
			}
		})
	}
	wg.Wait()
}
