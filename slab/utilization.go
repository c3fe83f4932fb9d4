package slab

import "math"

// Memory utilization is the share of the memory of all slabs that holds pairs (the paper, section
// III-C). It follows from the number of keys per bucket. That number is Poisson distributed, since
// the hash spreads keys evenly and independently. A bucket of k keys has ceil(k/M) slabs of M
// slots, and at least the base slab.
//
// Utilization does not grow evenly with the number of keys per bucket. At about M keys nearly every
// bucket takes a second slab, mostly empty. With M = 15 utilization stays at 0.65 from 12 to 18
// keys per bucket, while searches double.
//
// In a multimap a key brings several pairs, all to one bucket. Other buckets stay empty, and still
// take a base slab. The number of pairs per key, each, is estimated from the number of slabs; see
// pairsPerKey.

// meanSlabs returns the expected number of slabs of a bucket at a mean number of pairs per bucket.
func meanSlabs(pairs, each float64, perSlab int) float64 {
	m, keys := float64(perSlab), pairs/each
	// With many slabs, the last one holds any number of pairs from 1 to M.
	if keys > 64*m {
		return pairs/m + (m-1)/(2*m)
	}
	// Beyond twelve standard deviations nothing is left.
	from := math.Max(0, math.Floor(keys-12*math.Sqrt(keys)))
	to := math.Ceil(keys + 12*math.Sqrt(keys) + 24)
	var mean float64
	for k := from; k <= to; k++ {
		lg, _ := math.Lgamma(k + 1)
		mean += math.Exp(k*math.Log(keys)-keys-lg) * slabsOf(k, each, m)
	}
	return mean
}

// slabsOf returns the expected number of slabs of k keys with each pairs on average. The number of
// pairs is spread around its mean. If all keys had exactly each pairs, they would fill their slabs
// well or badly by chance.
func slabsOf(k, each, perSlab float64) float64 {
	pairs, spread := k*each, (each-1)/2*math.Sqrt(k)
	if spread == 0 {
		return math.Max(1, math.Ceil(pairs/perSlab))
	}
	// area is the integral of the number of slabs.
	area := func(pairs float64) float64 {
		if pairs < 0 {
			return pairs
		}
		full := math.Floor(pairs / perSlab)
		return perSlab*full*(full+1)/2 + (pairs-full*perSlab)*(full+1)
	}
	return (area(pairs+spread) - area(pairs-spread)) / (2 * spread)
}

// utilizationAt returns the utilization expected at a mean number of pairs per bucket.
func utilizationAt(pairs, each float64, slotBytes int) float64 {
	return pairs * float64(slotBytes) / (meanSlabs(pairs, each, slotsIn(slotBytes)) * slabBytes)
}

// pairsPerBucket returns the smallest mean number of pairs per bucket that reaches a utilization.
// It returns false if chains of reasonable length do not reach it.
func pairsPerBucket(utilization, each float64, slotBytes int) (pairs float64, ok bool) {
	const step = 1.01
	hi := utilization * slabBytes / float64(slotBytes) // no chains at all
	for utilizationAt(hi, each, slotBytes) < utilization {
		if hi *= step; hi > 64*float64(slotsIn(slotBytes)) {
			return 0, false
		}
	}
	lo := hi / step
	for range 40 {
		if mid := (lo + hi) / 2; utilizationAt(mid, each, slotBytes) < utilization {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi, true
}

// mostPairs is the upper limit for pairsPerKey. More pairs per key make no difference: they fill
// whole slabs.
const mostPairs = 1 << 10

// pairsPerKey estimates the mean number of pairs per key in a table of n pairs with the given
// number of chained slabs. If chance explains the number of slabs, keys have one pair.
func pairsPerKey(n uint64, buckets uint32, chained, slotBytes int) float64 {
	pairs, b := float64(n)/float64(buckets), float64(buckets)
	expect := func(each float64) float64 { return (meanSlabs(pairs, each, slotsIn(slotBytes)) - 1) * b }
	distinct := expect(1)
	if float64(chained) <= 1.02*distinct+4*math.Sqrt(distinct)+spareUnits {
		return 1
	}
	lo, hi := 1.0, float64(mostPairs)
	for range 20 {
		if mid := math.Sqrt(lo * hi); expect(mid) < float64(chained) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// bucketsFor returns the number of buckets for n keys. It returns false if that exceeds maxBuckets.
func bucketsFor(n uint64, perBucket float64) (buckets uint32, ok bool) {
	want := math.Ceil(float64(n) / perBucket)
	if want > maxBuckets {
		return 0, false
	}
	return max(uint32(want), 1), true
}

// chainedFor returns the expected number of chained slabs for n pairs, with a margin for chance.
func chainedFor(n uint64, each float64, buckets uint32, slotBytes int) int {
	if n == 0 {
		return 0
	}
	mean := meanSlabs(float64(n)/float64(buckets), each, slotsIn(slotBytes)) - 1
	expect := mean * float64(buckets)
	return int(expect + expect/8 + spareUnits)
}

// spareUnits is added to the expected number of units. Small tables stray from their mean, and
// warps that lose a race for a link free their unit a moment later.
const spareUnits = 64

// unitsInHand bounds the units that operations hold without linking them, because they are about to
// lose the race for a link. The bound is one for each tile of the largest GPU. It does not depend
// on the device, so neither does the memory of a fixed structure.
const unitsInHand = 1 << 17

// chainUnits is the initial pool size of a structure with Options.Buckets. It makes super blocks
// large enough for 60 million pairs of 8 bytes.
const chainUnits = 1 << 16

// mostChained returns the maximum number of units that n insertions take: one for each bucket of
// full slabs, and one for each slab that they fill.
func mostChained(n int, buckets uint32, slotBytes int) int {
	return min(n, n/slotsIn(slotBytes)+int(buckets)+1)
}
