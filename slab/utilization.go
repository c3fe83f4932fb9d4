package slab

import "math"

// Memory utilization is the share of the memory of all slabs that holds pairs
// (the paper, section III-C). How much of it there is follows from how many
// keys there are per bucket. Their number in one bucket is Poisson distributed,
// since the hash spreads keys evenly and independently; a bucket of k keys has
// ceil(k/M) slabs of M slots, and at least the base slab.
//
// Utilization does not grow evenly with the number of keys per bucket. At
// about M of them nearly every bucket takes a second slab, mostly empty: with
// M = 15 it stays at .65 from 12 to 18 keys per bucket, while searches double.

// meanSlabs is the expected number of slabs of a bucket at a mean number of
// keys per bucket.
func meanSlabs(keys float64, perSlab int) float64 {
	m := float64(perSlab)
	// With many slabs, the last one holds any number of keys from 1 to M.
	if keys > 64*m {
		return keys/m + (m-1)/(2*m)
	}
	// Beyond twelve deviations nothing is left.
	from := math.Max(0, math.Floor(keys-12*math.Sqrt(keys)))
	to := math.Ceil(keys + 12*math.Sqrt(keys) + 24)
	var mean float64
	for k := from; k <= to; k++ {
		lg, _ := math.Lgamma(k + 1)
		mean += math.Exp(k*math.Log(keys)-keys-lg) * math.Max(1, math.Ceil(k/m))
	}
	return mean
}

// utilizationAt is the utilization expected at a mean number of keys per
// bucket.
func utilizationAt(keys float64, slotBytes int) float64 {
	return keys * float64(slotBytes) / (meanSlabs(keys, slotsIn(slotBytes)) * slabBytes)
}

// keysPerBucket is the smallest mean number of keys per bucket at which a
// utilization is reached; ok is false if chains of reasonable length don't.
func keysPerBucket(utilization float64, slotBytes int) (keys float64, ok bool) {
	const step = 1.01
	hi := utilization * slabBytes / float64(slotBytes) // no chains at all
	for utilizationAt(hi, slotBytes) < utilization {
		if hi *= step; hi > 64*float64(slotsIn(slotBytes)) {
			return 0, false
		}
	}
	lo := hi / step
	for range 40 {
		if mid := (lo + hi) / 2; utilizationAt(mid, slotBytes) < utilization {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi, true
}

// bucketsFor is the number of buckets for n keys; ok is false if there is no
// such table.
func bucketsFor(n uint64, perBucket float64) (buckets uint32, ok bool) {
	want := math.Ceil(float64(n) / perBucket)
	if want > maxBuckets {
		return 0, false
	}
	return max(uint32(want), 1), true
}

// chainedFor is how many slabs behind the base slabs n keys are expected to
// need, with a margin for chance.
func chainedFor(n uint64, buckets uint32, slotBytes int) int {
	if n == 0 {
		return 0
	}
	mean := meanSlabs(float64(n)/float64(buckets), slotsIn(slotBytes)) - 1
	expect := mean * float64(buckets)
	return int(expect + expect/8 + spareUnits)
}

// spareUnits are kept beyond what is expected: small tables stray from their
// mean, and warps that lose a race for a link give a unit back a moment later.
const spareUnits = 64

// unitsInHand is how many units operations may have in hand that they don't
// link, because they are about to lose the race for it: one for each tile of
// the largest GPU. It does not depend on the device, so that the memory of a
// fixed structure doesn't either.
const unitsInHand = 1 << 17

// chainUnits are those that the pool of a structure with Options.Buckets begins
// with: its super blocks get large enough for 60 million pairs of 8 bytes.
const chainUnits = 1 << 16

// mostChained is how many units n insertions take at most: one for each bucket
// whose slabs are all full, and one for as many as fill it.
func mostChained(n int, buckets uint32, slotBytes int) int {
	return min(n, n/slotsIn(slotBytes)+int(buckets)+1)
}
