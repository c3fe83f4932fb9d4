// Package bucketmodel implements theoretical models of hash tables with buckets. The models predict
// how many buckets a lookup in a Horton table or a bucketized cuckoo table reads, and how full such
// a table can be. The model of Horton tables is equations 3 to 9 of Breslow, Zhang, Greathouse,
// Jayasena and Tullsen, "Horton Tables: Fast Hash Tables for In-Memory Data-Intensive Computing"
// (2016), section 6. The models of cuckoo tables are from section 3.2, except the model of first
// fit, which is derived here. All models describe large tables after insertions of random keys into
// an empty table.
package bucketmodel

import "math"

// Horton models a Horton table at a load.
type Horton struct {
	Slots int     // slots per bucket, the paper's S
	Load  float64 // keys per slot
	Tags  int     // remap entries per array, the paper's C_tag
}

// Functions is the number of secondary hash functions that an entry of three bits can select.
const Functions = 7

// Entries returns the number of remap entries in a slot of the given size. An entry has three bits,
// and one bit of a word gives the bucket's type.
func Entries(slotBytes int) int {
	const entryBits, typeBits = 3, 1
	if slotBytes > 8 { // two words
		return 2 * Entries(8)
	}
	return (8*slotBytes - typeBits) / entryBits
}

// lambda returns the mean number of keys per primary bucket.
func (h Horton) lambda() float64 { return h.Load * float64(h.Slots) }

// Poisson returns the share of buckets that are the primary bucket of exactly x keys. The mean is
// lambda (equation 3).
func Poisson(lambda float64, x int) float64 {
	if lambda <= 0 {
		if x == 0 {
			return 1
		}
		return 0
	}
	logFactorial, _ := math.Lgamma(float64(x) + 1)
	return math.Exp(float64(x)*math.Log(lambda) - lambda - logFactorial)
}

// sum returns the sum of f(x)*Poisson(lambda, x) for x from first to last. It omits terms too small
// to matter, so f must not grow faster than x.
func sum(lambda float64, first, last int, f func(x int) float64) (total float64) {
	const epsilon = 1e-18
	for x := first; x <= last; x++ {
		p := Poisson(lambda, x)
		total += f(x) * p
		if float64(x) > 2*lambda && p*float64(x) < epsilon {
			break
		}
	}
	return total
}

// overflows returns the sum of f(x)*Poisson(lambda, x) over all buckets of type B. These have more
// keys than slots.
func (h Horton) overflows(f func(x int) float64) float64 {
	return sum(h.lambda(), h.Slots+1, math.MaxInt32, f)
}

func one(int) float64 { return 1 }

// remapped returns how many of a type B bucket's x keys are in secondary buckets. One slot of the
// bucket holds remap entries.
func (h Horton) remapped(x int) float64 { return float64(x - h.Slots + 1) }

// TypeB returns the share of buckets with remap entries.
func (h Horton) TypeB() float64 { return h.overflows(one) }

// Overhead returns the share of slots that hold remap entries, O_re (equation 4).
func (h Horton) Overhead() float64 { return h.TypeB() / float64(h.Slots) }

// Remap returns the share of keys outside their primary bucket, I_remap (equation 5).
func (h Horton) Remap() float64 {
	if h.Load <= 0 {
		return 0
	}
	return h.overflows(h.remapped) / h.lambda()
}

// Primary returns the share of keys in their primary bucket, I_primary (equation 6).
func (h Horton) Primary() float64 {
	if h.Load <= 0 {
		return 1
	}
	count := func(x int) float64 { return float64(x) }
	primaryKeys := func(int) float64 { return float64(h.Slots - 1) }
	return (sum(h.lambda(), 1, h.Slots, count) + h.overflows(primaryKeys)) / h.lambda()
}

// PerHit returns the average number of buckets that a lookup of a present key reads (equation 7).
func (h Horton) PerHit() float64 { return 1 + h.Remap() }

// Alias returns the share of absent keys that find another key's entry in their primary bucket,
// I_alias (equation 8). The model assumes that each remapped key has its own entry, up to the
// number of entries.
func (h Horton) Alias() float64 {
	return sum(h.lambda(), h.Slots+1, h.Slots-1+h.Tags, h.remapped) / float64(h.Tags)
}

// PerMiss returns the average number of buckets that a lookup of an absent key reads (equation 9).
func (h Horton) PerMiss() float64 { return 1 + h.Alias() }

// EntriesSet returns the average number of remap entries per bucket of any type, if keys with one
// tag share an entry, as in weft. It is less than the number of remapped keys. So a miss reads
// 1+EntriesSet/Tags buckets, a little less than PerMiss.
func (h Horton) EntriesSet() float64 {
	tags := float64(h.Tags)
	return tags * h.overflows(func(x int) float64 {
		return 1 - math.Pow(1-1/tags, h.remapped(x))
	})
}

// Full returns the share of buckets without a free slot, if remapped keys go to the emptiest of all
// buckets. If they go to the emptiest of seven, a few more buckets are full.
func (h Horton) Full() float64 {
	remapped := h.Remap() * h.lambda()
	level := 0 // number of keys in the emptiest buckets; a part of them has one more
	missing := func(x int) float64 { return float64(level - x) }
	for level < h.Slots && sum(h.lambda(), 0, level, missing) < remapped {
		level++
	}
	if level < h.Slots {
		return 1 - sum(h.lambda(), 0, h.Slots-1, one)
	}
	// Not all buckets of type A are full.
	free := float64(h.Slots)*(1-h.Load) - h.TypeB()
	return 1 - max(free, 0)
}

// PerInsert returns the number of buckets that an insertion of a new key reads. It reads the
// primary bucket. If that is full, it also reads compared buckets to find a slot. The model ignores
// moves of other keys.
func (h Horton) PerInsert(compared int) float64 { return 1 + float64(compared)*h.Full() }

// Feasible returns the maximum load of buckets with the given number of slots. At this load, keys
// and remap entries fill all slots (section 6.2).
func Feasible(slots int) float64 {
	lo, hi := 0., 1.
	for range 60 {
		load := (lo + hi) / 2
		if (1 - Horton{Slots: slots, Load: load}.Overhead()) >= load {
			lo = load
		} else {
			hi = load
		}
	}
	return lo
}
