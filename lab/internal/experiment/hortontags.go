package experiment

import (
	"context"
	"fmt"

	"github.com/weftgo/weft/internal/hash"
	"github.com/weftgo/weft/internal/workload"
)

// tagging is a way in which an array inside a bucket records the keys of the bucket that are in
// other buckets.
type tagging struct {
	name string
	// entries is the number of entries of an array. bits is the number of bits of an explicit tag.
	// If bits is 0, the index of an entry is its tag.
	entries, bits int
}

// taggings are the compared ways. An array has up to 63 bits. An entry consists of three bits for
// the hash function and the bits of its tag.
var taggings = []tagging{{"implicit", 63 / 3, 0}, {"explicit_4", 63 / (3 + 4), 4}, {"explicit_8", 63 / (3 + 8), 8}}

func (t tagging) tags() uint32 {
	if t.bits == 0 {
		return uint32(t.entries)
	}
	return 1 << t.bits
}

// tagSeed makes the hash for a key's tag different from the hash for its bucket.
const tagSeed = 0x9e3779b97f4a7c15

func (t tagging) tagOf(key uint32, seed uint64) uint32 {
	return hash.Reduce32(hash.Uint32(key, seed^tagSeed), t.tags())
}

// tagged holds the results for a table of buckets with a tagging.
type tagged struct {
	falseReads float64 // share of absent keys that cause a read in vain
	noEntry    float64 // share of keys that get no entry
	arraySlots float64 // share of slots that hold an array
}

// measure builds the arrays of a table with the given number of buckets, each of kindSlots slots.
// Keys that find no slot in their bucket need an entry in its array. measure then looks up absent
// keys.
func (t tagging) measure(keys, absent []uint32, seed uint64, buckets int) (r tagged) {
	bucket := func(key uint32) uint32 { return hash.Reduce32(hash.Uint32(key, seed), uint32(buckets)) }
	all := make([]uint8, buckets)
	for _, k := range keys {
		all[bucket(k)]++
	}
	// keys in slots, per bucket; pairs of bucket and tag in use
	here, set := make([]uint8, buckets), map[uint64]bool{}
	used := make([]uint8, buckets) // entries in use, per bucket
	empty := 0
	for _, k := range keys {
		b := bucket(k)
		if all[b] <= kindSlots {
			continue
		}
		if here[b] < kindSlots-1 { // the last slot holds the array
			here[b]++
			continue
		}
		tag := uint64(b)<<8 | uint64(t.tagOf(k, seed))
		switch {
		case set[tag]: // shares the entry
		case int(used[b]) == t.entries:
			empty++
		default:
			set[tag] = true
			used[b]++
		}
	}
	arrays, vain := 0, 0
	for _, n := range all {
		if n > kindSlots {
			arrays++
		}
	}
	for _, k := range absent {
		if b := bucket(k); used[b] > 0 && set[uint64(b)<<8|uint64(t.tagOf(k, seed))] {
			vain++
		}
	}
	return tagged{
		falseReads: float64(vain) / float64(len(absent)),
		noEntry:    float64(empty) / float64(len(keys)),
		arraySlots: float64(arrays) / float64(kindSlots*buckets),
	}
}

// explicitTags measures all taggings in tables of up to 2^22 slots. Larger tables of the same load
// have the same results.
func explicitTags(ctx context.Context, r *runner, slots int) error {
	slots = min(slots, 1<<22)
	for _, load := range []float64{.9, .95} {
		keys, absent := make([]uint32, int(load*float64(slots))), make([]uint32, slots)
		workload.Unique(keys, r.Seed, 0)
		workload.Unique(absent, r.Seed, workload.Misses)
		for _, t := range taggings {
			r.step("%s: %s tags at load %g", r.result.Experiment, t.name, load)
			if err := ctx.Err(); err != nil {
				return err
			}
			m := t.measure(keys, absent, r.Seed+1, slots/kindSlots)
			for what, share := range map[string]float64{"false_reads": m.falseReads, "no_entry": m.noEntry, "array_slots": m.arraySlots} {
				r.result.Parameters[fmt.Sprintf("%s_%s_%g", what, t.name, load)] = share
			}
		}
	}
	return nil
}
