// Package bucketmodel is what theory says of tables of buckets: how many buckets a
// lookup in a Horton table or a bucketized cuckoo table reads, and how full such a
// table can be.
//
// The models of Horton tables are equations 3 to 9 of Breslow, Zhang, Greathouse,
// Jayasena and Tullsen, "Horton Tables: Fast Hash Tables for In-Memory Data-Intensive
// Computing" (2016), section 6; those of cuckoo tables section 3.2, and for first fit,
// of which the paper has none, one that is derived here. All are of large tables with
// random keys that were inserted into an empty table.
package bucketmodel

import "math"

// Horton is a Horton table of a load.
type Horton struct {
	Slots int     // of a bucket: S
	Load  float64 // keys per slot
	Tags  int     // remap entries of an array: the paper's C_tag
}

// Functions is the number of secondary hash functions: what an entry of three bits names.
const Functions = 7

// Entries of an array by the bytes of the slot that it takes, where an entry has three
// bits and one bit tells the bucket's type.
func Entries(slotBytes int) int {
	const entryBits, typeBits = 3, 1
	if slotBytes > 8 { // two words
		return 2 * Entries(8)
	}
	return (8*slotBytes - typeBits) / entryBits
}

// lambda is the mean number of keys whose primary bucket is the same.
func (h Horton) lambda() float64 { return h.Load * float64(h.Slots) }

// Poisson is the share of buckets that are the primary bucket of exactly x keys, if
// lambda are the mean (equation 3).
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

// sum is that of f(x)*P(lambda, x) for x from first to last. Terms that no sum
// notices are left out: f must not grow faster than x.
func sum(lambda float64, first, last int, f func(x int) float64) (total float64) {
	const nothing = 1e-18
	for x := first; x <= last; x++ {
		p := Poisson(lambda, x)
		total += f(x) * p
		if float64(x) > 2*lambda && p*float64(x) < nothing {
			break
		}
	}
	return total
}

// overflows is the sum over all buckets of type B: those with more keys than slots.
func (h Horton) overflows(f func(x int) float64) float64 {
	return sum(h.lambda(), h.Slots+1, math.MaxInt32, f)
}

func one(int) float64 { return 1 }

// remapped is how many of x keys a bucket of type B sends elsewhere: one of its slots
// has the remap entries.
func (h Horton) remapped(x int) float64 { return float64(x - h.Slots + 1) }

// TypeB is the share of buckets with remap entries.
func (h Horton) TypeB() float64 { return h.overflows(one) }

// Overhead is the share of slots that hold remap entries instead of a key, O_re
// (equation 4).
func (h Horton) Overhead() float64 { return h.TypeB() / float64(h.Slots) }

// Remap is the share of keys that are not in their primary bucket, I_remap
// (equation 5).
func (h Horton) Remap() float64 {
	if h.Load <= 0 {
		return 0
	}
	return h.overflows(h.remapped) / h.lambda()
}

// Primary is the share of keys in their primary bucket, I_primary (equation 6).
func (h Horton) Primary() float64 {
	if h.Load <= 0 {
		return 1
	}
	all := func(x int) float64 { return float64(x) }
	stay := func(int) float64 { return float64(h.Slots - 1) }
	return (sum(h.lambda(), 1, h.Slots, all) + h.overflows(stay)) / h.lambda()
}

// PerHit is how many buckets the lookup of a key reads that is in the table, on
// average (equation 7).
func (h Horton) PerHit() float64 { return 1 + h.Remap() }

// Alias is the share of absent keys whose entry in their primary bucket is that of
// another key, I_alias (equation 8): each remapped key has an entry of its own, and no
// bucket has more of them than there are entries.
func (h Horton) Alias() float64 {
	return sum(h.lambda(), h.Slots+1, h.Slots-1+h.Tags, h.remapped) / float64(h.Tags)
}

// PerMiss is how many buckets the lookup of a key reads that is not in the table, on
// average (equation 9).
func (h Horton) PerMiss() float64 { return 1 + h.Alias() }

// EntriesSet is how many remap entries a bucket has, on average over all buckets of
// both types, if keys of one tag share an entry, as they do in weft: fewer than keys
// are remapped, so that a miss reads 1+EntriesSet/Tags buckets, a little less than
// PerMiss.
func (h Horton) EntriesSet() float64 {
	tags := float64(h.Tags)
	return tags * h.overflows(func(x int) float64 {
		return 1 - math.Pow(1-1/tags, h.remapped(x))
	})
}

// Full is the share of buckets without a free slot, if remapped keys go to the emptiest
// of all buckets. (Where they go to the emptiest of seven, a few more are full.)
func (h Horton) Full() float64 {
	remapped := h.Remap() * h.lambda()
	level := 0 // keys in the emptiest buckets, or one more in some of them
	below := func(x int) float64 { return float64(level - x) }
	for level < h.Slots && sum(h.lambda(), 0, level, below) < remapped {
		level++
	}
	if level < h.Slots {
		return 1 - sum(h.lambda(), 0, h.Slots-1, one)
	}
	// Some that are not of type B have a slot that is free.
	free := float64(h.Slots)*(1-h.Load) - h.TypeB()
	return 1 - max(free, 0)
}

// PerInsert is how many buckets the insertion of a new key reads: its primary bucket,
// and if that is full, so many more that are compared to find room for one key. Keys that
// have to move further are left out.
func (h Horton) PerInsert(compared int) float64 { return 1 + float64(compared)*h.Full() }

// Feasible is the largest load of buckets of so many slots: what remap entries leave of
// the table takes all keys (section 6.2).
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
