package slab

import "math"

// Memory utilization is the share of the memory of all slabs that holds pairs (the paper, section
// III-C). It follows from the number of keys per bucket. That number is Poisson distributed, since
// the hash spreads keys evenly and independently. A bucket of k keys has ceil(k/M) slabs of M
// slots, and at least the base slab.
//
// Utilization does not grow evenly with the number of keys per bucket. At about M keys nearly every
// bucket gets a second slab, which is mostly empty. With M = 15 utilization stays at 0.65 from 12
// to 18 keys per bucket, while searches read twice as many slabs.
//
// In a multimap a key has several pairs, all in one bucket. Other buckets stay empty, but each has
// a base slab. perKey, the pairs per key, is estimated from the number of slabs.

// meanSlabs returns the expected number of slabs per bucket, given the mean number of pairs.
func meanSlabs(pairs, perKey float64, perSlab int) float64 {
	m, keys := float64(perSlab), pairs/perKey
	// With many slabs, the last slab holds 1 to M pairs with equal probability.
	if keys > 64*m {
		return pairs/m + (m-1)/(2*m)
	}
	// Further than twelve standard deviations from the mean, probabilities are negligible.
	from := math.Max(0, math.Floor(keys-12*math.Sqrt(keys)))
	to := math.Ceil(keys + 12*math.Sqrt(keys) + 24)
	logFactorial, _ := math.Lgamma(from + 1)
	probability := math.Exp(from*math.Log(keys) - keys - logFactorial)
	var mean float64
	for k := from; k <= to; k++ {
		mean += probability * slabsOf(k, perKey, m)
		probability *= keys / (k + 1)
	}
	return mean
}

// slabsOf returns the expected number of slabs for k keys with perKey pairs on average. It assumes
// that the number of pairs per key varies around perKey, since exactly perKey pairs might happen to
// fill slabs well or badly.
func slabsOf(k, perKey, perSlab float64) float64 {
	pairs, deviation := k*perKey, (perKey-1)/2*math.Sqrt(k)
	if deviation == 0 {
		return math.Max(1, math.Ceil(pairs/perSlab))
	}
	// area returns the integral of the number of slabs from 0 to pairs.
	area := func(pairs float64) float64 {
		if pairs < 0 {
			return pairs
		}
		full := math.Floor(pairs / perSlab)
		return perSlab*full*(full+1)/2 + (pairs-full*perSlab)*(full+1)
	}
	return (area(pairs+deviation) - area(pairs-deviation)) / (2 * deviation)
}

// utilizationAt returns the expected utilization, given the mean number of pairs per bucket.
func utilizationAt(pairs, perKey float64, slotBytes int) float64 {
	return pairs * float64(slotBytes) / (meanSlabs(pairs, perKey, slotsIn(slotBytes)) * slabBytes)
}

// pairsPerBucket returns the smallest mean number of pairs per bucket that reaches a utilization.
// ok is false if no chains of reasonable length reach it.
func pairsPerBucket(utilization, perKey float64, slotBytes int) (pairs float64, ok bool) {
	const step = 1.01
	hi := utilization * slabBytes / float64(slotBytes) // if each bucket had one slab
	for utilizationAt(hi, perKey, slotBytes) < utilization {
		if hi *= step; hi > 64*float64(slotsIn(slotBytes)) {
			return 0, false
		}
	}
	lo := hi / step
	for range 40 {
		if mid := (lo + hi) / 2; utilizationAt(mid, perKey, slotBytes) < utilization {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi, true
}

// maxPairs bounds pairsPerKey. More pairs per key make no difference, since they fill whole slabs.
const maxPairs = 1 << 10

// pairsPerKey estimates the mean number of pairs per key in a table of n pairs. chained is the
// number of its chained slabs. pairsPerKey returns 1 if that number can result from chance.
func pairsPerKey(n uint64, buckets uint32, chained, slotBytes int) float64 {
	pairs, b := float64(n)/float64(buckets), float64(buckets)
	expected := func(perKey float64) float64 { return (meanSlabs(pairs, perKey, slotsIn(slotBytes)) - 1) * b }
	distinct := expected(1)
	if float64(chained) <= 1.02*distinct+4*math.Sqrt(distinct)+spareUnits {
		return 1
	}
	lo, hi := 1.0, float64(maxPairs)
	for range 20 {
		if mid := math.Sqrt(lo * hi); expected(mid) < float64(chained) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// bucketsFor returns the number of buckets for n keys. ok is false if the number exceeds
// maxBuckets.
func bucketsFor(n uint64, perBucket float64) (buckets uint32, ok bool) {
	exact := math.Ceil(float64(n) / perBucket)
	if exact > maxBuckets {
		return 0, false
	}
	return max(uint32(exact), 1), true
}

// chainedFor returns the expected number of chained slabs for n pairs, plus a margin for chance.
func chainedFor(n uint64, perKey float64, buckets uint32, slotBytes int) int {
	if n == 0 {
		return 0
	}
	mean := meanSlabs(float64(n)/float64(buckets), perKey, slotsIn(slotBytes)) - 1
	expected := mean * float64(buckets)
	return int(expected + expected/8 + spareUnits)
}

// spareUnits is added to the expected number of units. Small tables deviate from the mean, and a
// warp that loses a race for a link frees its unit a moment later.
const spareUnits = 64

// maxUnlinked bounds the units that operations have taken, but will not link because they lose the
// race for a link. It is the number of tiles of the largest GPU. It does not depend on the device,
// so that the memory of a fixed structure does not either.
const maxUnlinked = 1 << 17

// chainUnits is the initial pool size of a structure with Options.Buckets. The super blocks are
// then large enough for 60 million pairs of 8 bytes.
const chainUnits = 1 << 16

// maxChained returns the maximum number of units that n insertions take: one per bucket that was
// full, and one per slab that they fill.
func maxChained(n int, buckets uint32, slotBytes int) int {
	return min(n, n/slotsIn(slotBytes)+int(buckets)+1)
}
