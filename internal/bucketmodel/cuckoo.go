package bucketmodel

import "math"

// Even returns the average numbers of buckets that lookups read in a cuckoo table with the given
// number of functions. It assumes that each function has equally many keys and that a lookup stops
// at a hit. The paper expects this of load balancing (section 3.2).
func Even(functions int) (perHit, perMiss float64) {
	f := float64(functions)
	return (f + 1) / 2, f
}

// Cuckoo describes a cuckoo table with two hash functions.
type Cuckoo struct {
	Slots int     // per bucket
	Load  float64 // keys per slot
}

// FirstFit models a cuckoo table that puts a new key in its second bucket only if the first is
// full. A lookup ends at a bucket that has never been full. In a simulation, the numbers of buckets
// read differ by at most one in a hundred.
//
// A full bucket stays full. Every new key fills one slot of another bucket. All buckets that are
// not full are equally likely, since the hash functions do not distinguish buckets. So the numbers
// of keys in buckets are as if keys came to each bucket at random until it is full. They have a
// Poisson distribution with some mean, and all numbers above Slots count as Slots. Each key whose
// first bucket is full adds one key to a second bucket. This is the key itself or, if both buckets
// are full, a key that is moved from its first bucket to its second. A key in its second bucket
// could only return to a full first bucket. If no key of the first bucket can be moved, the new key
// goes to its second bucket, or one more key moves: see extraMoves.
type FirstFit Cuckoo

// PerHit returns the average number of buckets that a lookup of a present key reads.
func (c FirstFit) PerHit() float64 { return 1 + c.secondShare() }

// PerMiss returns the average number of buckets that a lookup of an absent key reads.
func (c FirstFit) PerMiss() float64 { return 1 + c.Full() }

// PerInsert returns the average number of buckets that an insertion of a new key reads before any
// key is moved. It reads the same buckets as a lookup of an absent key.
func (c FirstFit) PerInsert() float64 { return c.PerMiss() }

// Full returns the share of full buckets.
func (c FirstFit) Full() float64 { return c.fullAt(c.mean()) }

func (c FirstFit) fullAt(mean float64) float64 {
	return 1 - sum(mean, 0, c.Slots-1, one)
}

// keysAt returns the average number of keys per bucket if the distribution has the given mean.
func (c FirstFit) keysAt(mean float64) float64 {
	keys := sum(mean, 0, c.Slots-1, func(x int) float64 { return float64(x) })
	return keys + float64(c.Slots)*c.fullAt(mean)
}

// mean returns the mean of the distribution that leads to the load.
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

// secondShare returns the share of keys in their second bucket. While the mean grows by dm,
// (1-full)*dm keys come to each bucket. A share full of these keys finds its first bucket full. A
// share full*full finds both full.
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

// extraMoves returns how many additional keys an eviction brings to their second bucket because no
// key of the first bucket can be moved. pNone is the probability that no key of a bucket can be
// moved. second is the share of keys in their second bucket. In one case a key of the new key's
// second bucket can be moved, and the new key goes there. In the other case a further key moves.
func extraMoves(pNone, second float64) float64 {
	return pNone*(1-pNone) + pNone*pNone*(1-2*second)
}

// Balanced models a cuckoo table that puts a new key in the bucket with more free slots. If both
// have equally many, it takes the first, so first buckets have more than half of the keys. In a
// simulation, the numbers of buckets read differ by at most one in a hundred, or three near the
// maximum load.
//
// The shares of buckets with 0, 1, … keys follow from a differential equation: a new key meets two
// random buckets and goes to the bucket with fewer keys. If both are full, a key moves to a random
// bucket that is not full, from its first to its second or back, or two keys move: see extraMoves.
type Balanced Cuckoo

// PerHit returns the average number of buckets that a lookup of a present key reads.
func (c Balanced) PerHit() float64 {
	const perKey = 200 // number of steps that bring one key per bucket
	shares := make([]float64, c.Slots+1)
	shares[0] = 1
	steps := max(int(c.Load*float64(c.Slots)*perKey), 1)
	second := 0. // sum over the steps of the share of new keys in second buckets
	for i := range steps {
		second += c.step(shares, second/float64(max(i, 1)), 1./perKey)
	}
	return 1 + second/float64(steps)
}

// PerMiss returns the number of buckets that a lookup of an absent key reads: both.
func (c Balanced) PerMiss() float64 { return 2 }

// PerInsert returns the number of buckets that an insertion of a new key reads before any key is
// moved: both, to compare them.
func (c Balanced) PerInsert() float64 { return 2 }

// step adds dt keys per bucket. shares has the shares of buckets by number of keys. inSecond is the
// share of keys in their second bucket. step returns the share of new keys that this adds to second
// buckets.
func (c Balanced) step(shares []float64, inSecond, dt float64) (second float64) {
	full := shares[c.Slots]
	moved := full * full
	second = 1 - moved
	atLeast, before := 1., 0. // share of buckets with at least k keys, and the flow into k
	for k := range c.Slots {
		share := shares[k]
		above := atLeast - share
		// probability that the emptier of two buckets has k keys
		flow := atLeast*atLeast - above*above
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
