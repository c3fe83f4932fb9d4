package workload

import (
	"github.com/weftgo/weft"
)

// Unique fills dst with the keys of the counters first, first+1, …; see [Key]. The keys are
// distinct. They are random to a table that uses another seed.
func Unique[K weft.Key](dst []K, seed, first uint64) {
	fill(dst, func(i uint64) K { return Key[K](seed, first+i) })
}

// Shuffled fills dst with keys of the counters [first, first+count), each at most once, in random
// order. The parameter order is its seed. Shuffled panics if dst is longer than count.
func Shuffled[K weft.Key](dst []K, seed, first, count, order uint64) {
	if uint64(len(dst)) > count {
		panic("workload: more keys asked for than counters given")
	}
	if count == 0 {
		return
	}
	p := NewPermutation(count, order)
	fill(dst, func(i uint64) K { return Key[K](seed, first+p.At(i)) })
}

// Lookups fills dst with hits and misses in random order. The parameter order is its seed. Hits are
// keys of the counters [0, count), each at most once. Misses are keys of counters from [Misses] on.
// Lookups returns the number of hits, round(share*len(dst)). It panics if that is more than count.
func Lookups[K weft.Key](dst []K, seed, count uint64, share float64, order uint64) (hits int) {
	n := uint64(len(dst))
	if n == 0 {
		return 0
	}
	hit := uint64(share*float64(n) + .5)
	if hit > count {
		panic("workload: more hits asked for than counters given")
	}
	place := NewPermutation(n, order)
	present := NewPermutation(max(count, 1), order+1)
	fill(dst, func(i uint64) K {
		j := place.At(i)
		if j < hit {
			return Key[K](seed, present.At(j))
		}
		return Key[K](seed, Misses+j)
	})
	return int(hit)
}

// Uniform fills dst with independent uniform draws from the keys of the counters [0, count).
func Uniform[K weft.Key](dst []K, seed, count, draw uint64) {
	fill(dst, func(i uint64) K { return Key[K](seed, Below(Random(draw, i), count)) })
}

// Zipfian fills dst with draws from the keys of the counters [0, z.N()). The key of counter r has
// the probability of rank r. Keys are random, so frequent keys are not adjacent.
func Zipfian[K weft.Key](dst []K, seed uint64, z *Zipf, draw uint64) {
	fill(dst, func(i uint64) K { return Key[K](seed, z.Rank(Random(draw, i))) })
}

// Sequential fills dst with first, first+1, …. It wraps around after the largest key.
func Sequential[K weft.Key](dst []K, first K) {
	fill(dst, func(i uint64) K { return first + K(i) })
}

// Equal fills dst with one key.
func Equal[K weft.Key](dst []K, k K) {
	fill(dst, func(uint64) K { return k })
}

// Alternating fills dst with a, b, a, b, ….
func Alternating[K weft.Key](dst []K, a, b K) {
	fill(dst, func(i uint64) K {
		if i&1 == 0 {
			return a
		}
		return b
	})
}

// Values fills dst with the [Value] of each key. It panics if the lengths differ.
func Values[K weft.Key, V weft.Value](dst []V, keys []K) {
	if len(dst) != len(keys) {
		panic("workload: values and keys differ in length")
	}
	fill(dst, func(i uint64) V { return Value[K, V](keys[i]) })
}
