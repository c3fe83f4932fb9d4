package bucketmodel

import "math"

// Even returns the number of buckets that a lookup reads in a cuckoo table with that many
// functions. All functions have equally many keys, and lookups stop at the first hit. This is what
// the paper expects of load balancing (section 3.2).
func Even(functions int) (perHit, perMiss float64) {
	f := float64(functions)
	return (f + 1) / 2, f
}

// Cuckoo is a cuckoo table of two functions.
type Cuckoo struct {
	Slots int     // per bucket
	Load  float64 // keys per slot
}

// FirstFit is a cuckoo table with new keys in the second bucket only if the first is full. A lookup
// ends at a bucket that has never been full. The numbers of buckets that a simulation reads agree
// within one in a hundred.
//
// A full bucket stays full. Every new key fills one slot of some other bucket, and all of these are
// equally likely, since the hash functions do not distinguish buckets. So the numbers of keys in
// buckets are as if keys came to each at random until it is full. They have a Poisson distribution
// of some mean, with all numbers above Slots counted as Slots. Each key with a full first bucket
// adds one key to a second bucket. It is the key itself or, if both are full, one that is moved
// there from its first bucket, since a key in its second bucket could only return to a full first
// one. If no key of the first bucket can be moved, the new key goes to its second bucket, or one
// more key moves: see extraMoves.
type FirstFit Cuckoo

// PerHit returns the average number of buckets that a lookup of a present key reads.
func (c FirstFit) PerHit() float64 { return 1 + c.secondShare() }

// PerMiss returns that number for an absent key.
func (c FirstFit) PerMiss() float64 { return 1 + c.Full() }

// PerInsert returns the number of buckets that the insertion of a new key reads before any key is
// moved. It reads the first bucket, and the second if the first is full, as does the lookup of an
// absent key.
func (c FirstFit) PerInsert() float64 { return c.PerMiss() }

// Full returns the share of full buckets.
func (c FirstFit) Full() float64 { return c.fullAt(c.mean()) }

func (c FirstFit) fullAt(mean float64) float64 {
	return 1 - sum(mean, 0, c.Slots-1, one)
}

// keysAt returns the average number of keys in a bucket.
func (c FirstFit) keysAt(mean float64) float64 {
	keys := sum(mean, 0, c.Slots-1, func(x int) float64 { return float64(x) })
	return keys + float64(c.Slots)*c.fullAt(mean)
}

// mean returns the mean of the distribution that gives the load.
func (c FirstFit) mean() float64 {
	want := c.Load * float64(c.Slots)
	lo, hi := 0., 1.
	for c.keysAt(hi) < want && hi < 1<<10 {
		hi *= 2
	}
	for range 60 {
		if middle := (lo + hi) / 2; c.keysAt(middle) < want {
			lo = middle
		} else {
			hi = middle
		}
	}
	return lo
}

// secondShare returns the share of keys in their second bucket. While the mean of a bucket grows by
// dm, (1-full)*dm keys come. A share of full finds its first bucket full, and a share of full*full
// both.
func (c FirstFit) secondShare() float64 {
	const steps = 400
	second, keys := 0., 0.
	dm := c.mean() / steps
	for i := range steps {
		full := c.fullAt((float64(i) + .5) * dm)
		share := second / max(keys, math.SmallestNonzeroFloat64)
		pNone := math.Pow(1-(1-share)*(1-full), float64(c.Slots))
		second += (full + full*full*extraMoves(pNone, share)) * (1 - full) * dm
		keys += (1 - full) * dm
	}
	return second / max(keys, math.SmallestNonzeroFloat64)
}

// extraMoves returns the additional number of keys that an eviction brings to their second bucket
// because no key of the first bucket can be moved. pNone is the probability that no key of a bucket
// can. second is the share of keys in their second bucket. Either the new key goes to its second
// bucket, if a key of that can be moved, or a key in between moves.
func extraMoves(pNone, second float64) float64 {
	return pNone*(1-pNone) + pNone*pNone*(1-2*second)
}

// Balanced is a cuckoo table with new keys in the bucket that has more free slots, or in the first
// of two equal ones, so the first have more than half of the keys. The numbers of buckets that a
// simulation reads agree within one in a hundred, or three near the maximum load.
//
// The shares of buckets with 0, 1, … keys follow from a differential equation: a new key meets two
// random buckets and goes to the one with fewer keys. If both are full, a key moves to a random
// bucket that is not full, from its first to its second or back, or two keys move: see extraMoves.
type Balanced Cuckoo

// PerHit returns the average number of buckets that a lookup of a present key reads.
func (c Balanced) PerHit() float64 {
	const perKey = 200 // steps in which one key comes to every bucket
	shares := make([]float64, c.Slots+1)
	shares[0] = 1
	steps := max(int(c.Load*float64(c.Slots)*perKey), 1)
	second := 0. // shares of new keys there, summed over the steps
	for i := range steps {
		second += c.step(shares, second/float64(max(i, 1)), 1./perKey)
	}
	return 1 + second/float64(steps)
}

// PerMiss returns that number for an absent key: both buckets.
func (c Balanced) PerMiss() float64 { return 2 }

// PerInsert returns the number of buckets that the insertion of a new key reads before any key is
// moved: both, to compare them.
func (c Balanced) PerInsert() float64 { return 2 }

// step lets dt keys come to every bucket. shares are the shares of buckets by number of keys, and
// inSecond is the share of keys in their second bucket. It returns the share of new keys that this
// brings to their second bucket.
func (c Balanced) step(shares []float64, inSecond, dt float64) (second float64) {
	full := shares[c.Slots]
	moved := full * full
	second = 1 - moved
	atLeast, before := 1., 0. // share of buckets with at least k keys, and the flow into k
	for k := range c.Slots {
		share := shares[k]
		above := atLeast - share
		flow := atLeast*atLeast - above*above // the emptier of two has k
		if full < 1 {
			flow += moved * share / (1 - full)
		}
		second -= share * share
		shares[k] += (before - flow) * dt
		atLeast, before = above, flow
	}
	shares[c.Slots] += before * dt
	pNone := math.Pow(full, float64(c.Slots))
	return second/2 + moved*(1-2*inSecond+extraMoves(pNone, inSecond))
}
