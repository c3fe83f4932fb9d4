package bucketmodel

import "math"

// Even is how many buckets lookups that stop at the first hit read in a cuckoo table of
// so many functions, each of which has as many keys as any other (section 3.2: what the
// paper expects of load balancing).
func Even(functions int) (perHit, perMiss float64) {
	f := float64(functions)
	return (f + 1) / 2, f
}

// Cuckoo is a cuckoo table of two functions.
type Cuckoo struct {
	Slots int     // of a bucket
	Load  float64 // keys per slot
}

// FirstFit is such a table whose new keys go to the second bucket only if the first is
// full. A lookup ends at a bucket that has never been full. A simulation reads as many
// buckets within one in a hundred.
//
// A bucket that is full stays full, and every new key fills one slot of a bucket that is
// not, whichever that is, since buckets do not differ to the hash functions. So the
// numbers of keys in buckets are as if keys came to each at random, until it is full:
// those of a Poisson distribution of some mean, of which all above Slots count as Slots.
// Each key whose first bucket is full brings one key more to its second: itself; or,
// where both are full, one that is moved there, out of its first, since a key in its
// second bucket could only go back to a first that is full. Where no key of the first
// bucket can be moved so, the new key goes to its second, or one more key moves: see
// vain.
type FirstFit Cuckoo

// PerHit is how many buckets the lookup of a key reads that is in the table, on
// average.
func (c FirstFit) PerHit() float64 { return 1 + c.passed() }

// PerMiss is that of a key that is not.
func (c FirstFit) PerMiss() float64 { return 1 + c.Full() }

// PerInsert is how many buckets the insertion of a new key reads before one is moved, if any
// is: its first, and if that is full its second, so as many as the lookup of an absent key.
func (c FirstFit) PerInsert() float64 { return c.PerMiss() }

// Full is the share of buckets that are full.
func (c FirstFit) Full() float64 { return c.fullAt(c.mean()) }

func (c FirstFit) fullAt(mean float64) float64 {
	return 1 - sum(mean, 0, c.Slots-1, one)
}

// keysAt is how many keys a bucket has, on average.
func (c FirstFit) keysAt(mean float64) float64 {
	keys := sum(mean, 0, c.Slots-1, func(x int) float64 { return float64(x) })
	return keys + float64(c.Slots)*c.fullAt(mean)
}

// mean is that of the distribution which gives the load.
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

// passed is the share of keys in their second bucket. While a bucket's mean grows by dm,
// (1-full)*dm keys come, of which a share of full finds its first bucket full, and a
// share of full*full both.
func (c FirstFit) passed() float64 {
	const steps = 400
	second, keys := 0., 0.
	dm := c.mean() / steps
	for i := range steps {
		full := c.fullAt((float64(i) + .5) * dm)
		share := second / max(keys, math.SmallestNonzeroFloat64)
		none := math.Pow(1-(1-share)*(1-full), float64(c.Slots))
		second += (full + full*full*vain(none, share)) * (1 - full) * dm
		keys += (1 - full) * dm
	}
	return second / max(keys, math.SmallestNonzeroFloat64)
}

// vain is how many keys more an eviction brings to their second bucket than it would if
// some key of the first bucket could be moved, where none is the chance that none of a
// bucket can, and second the share of keys in their second. Either the new key goes to
// its second bucket, if a key of that can be moved, or a key moves in between.
func vain(none, second float64) float64 {
	return none*(1-none) + none*none*(1-2*second)
}

// Balanced is such a table whose new keys go to the bucket with more free slots, and to
// the first where both have as many: so more than half of them are there. A simulation
// reads as many buckets within one in a hundred, or three next to what buckets bear.
//
// The shares of buckets with 0, 1, … keys follow from a differential equation: a new key
// meets two random buckets and goes to the one with fewer. Where both are full, a key is
// moved to a random bucket with room, from its first to its second or back, or two: see
// vain.
type Balanced Cuckoo

// PerHit is how many buckets the lookup of a key reads that is in the table, on
// average.
func (c Balanced) PerHit() float64 {
	const perKey = 200 // steps in which a key comes to every bucket
	shares := make([]float64, c.Slots+1)
	shares[0] = 1
	steps := max(int(c.Load*float64(c.Slots)*perKey), 1)
	second := 0. // keys there, as many as steps have brought
	for i := range steps {
		second += c.step(shares, second/float64(max(i, 1)), 1./perKey)
	}
	return 1 + second/float64(steps)
}

// PerMiss is that of a key that is not in the table: both.
func (c Balanced) PerMiss() float64 { return 2 }

// PerInsert is how many buckets the insertion of a new key reads before one is moved, if any
// is: both, to compare them.
func (c Balanced) PerInsert() float64 { return 2 }

// step lets dt keys come to every bucket, whose shares by number of keys these are. It
// returns the share of new keys that this brings to their second bucket, where there is
// already that share of keys.
func (c Balanced) step(shares []float64, already, dt float64) (second float64) {
	full := shares[c.Slots]
	moved := full * full
	second = 1 - moved
	atLeast, before := 1., 0. // of as many keys, and the flow into that number
	for k := range c.Slots {
		share := shares[k]
		more := atLeast - share
		flow := atLeast*atLeast - more*more // the emptier of two has k
		if full < 1 {
			flow += moved * share / (1 - full)
		}
		second -= share * share
		shares[k] += (before - flow) * dt
		atLeast, before = more, flow
	}
	shares[c.Slots] += before * dt
	none := math.Pow(full, float64(c.Slots))
	return second/2 + moved*(1-2*already+vain(none, already))
}
