package core

import (
	"context"
	"hash/fnv"
	"math"
	"math/bits"
	"math/rand/v2"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/hash"
)

// Need is how many pairs a batch adds at most to a table without duplicates, or
// is likely to, if it brings keys more than once; and how many it and what
// follows, of which it is the beginning, all operations together, are likely to
// add. Updates add none: a lookup is cheaper than growing for nothing. The seed is
// that of the table, which nobody who chooses keys knows.
func Need(ctx context.Context, e Engine, now Counters, s *device.Stream, b *batch.Batch, all int, seed uint64) (need, expect int, err error) {
	need, err = b.Insertions(ctx, s)
	if err != nil || need == 0 {
		return 0, 0, err
	}
	present := 0
	switch {
	case now.Live == 0:
	case s != nil && e.Caps().Streams:
		present, err = e.(Presenter).Present(ctx, s, b)
	default:
		_, present, err = e.Look(ctx, nil, e.Current(), b.Only(batch.Keys), 0)
	}
	absent := min(need, b.N-present)
	need = absent
	if keys := b.Columns[batch.Keys]; keys.Host != nil {
		need = min(absent, distinct(keys, seed))
	}
	return need, likely(need, absent, float64(all)/float64(b.N)), err
}

// sampled is how many keys of a batch tell whether all are there.
const sampled = 1 << 10

// Updates reports whether a long batch in host memory seems to bring no new keys,
// by those of some rows: whether a lookup of all can be done without. Which rows,
// follows from the table's seed and history, as everything does, and from nothing
// that who chooses keys knows.
func Updates(ctx context.Context, e Engine, now Counters, b *batch.Batch, seed uint64) (bool, error) {
	if b.N < 16*sampled || b.Columns[batch.Kinds].Given() {
		return false, nil
	}
	rng, rows := rand.New(rand.NewPCG(seed^countSeed, now.Used)), make([]uint32, sampled)
	for i := range rows {
		rows[i] = uint32(rng.IntN(b.N))
	}
	_, present, err := e.Look(ctx, nil, e.Current(), b.Only(batch.Keys).Gather(rows), 0)
	return present == sampled, err
}

// likely is how many of different things there are among times as many as n, of
// which k are different, if any is as likely as another.
func likely(k, n int, times float64) int {
	// Of g things, n draws show g·(1-exp(-n/g)) different ones.
	shown := func(g, n float64) float64 { return -g * math.Expm1(-n/g) }
	lo, hi := float64(k), float64(k)*1e6
	if shown(hi, float64(n)) <= float64(k) {
		return int(float64(k) * times)
	}
	for range 60 {
		if g := math.Sqrt(lo * hi); shown(g, float64(n)) < float64(k) {
			lo = g
		} else {
			hi = g
		}
	}
	return int(math.Ceil(shown(hi, float64(n)*times)))
}

// distinct is about how many different keys there are in a column: it counts the
// bits that they set by their hashes (linear counting, Whang et al. 1990), and is
// right to a hundredth.
func distinct(keys batch.Column, seed uint64) int {
	n := keys.Rows()
	if n == 0 {
		return 0
	}
	size := uint64(1) << max(bits.Len(uint(8*n)), 10) // bits, of which an eighth are set at most
	var ones int
	switch {
	case keys.Data != nil:
		ones = setBits(sums(keys), size, seed^countSeed)
	case keys.Width == 4:
		ones = setBits(batch.View[uint32](keys.Host), size, seed^countSeed)
	case keys.Width == 8:
		ones = setBits(batch.View[uint64](keys.Host), size, seed^countSeed)
	default:
		ones = setBits(sums(keys), size, seed^countSeed)
	}
	// As if some more keys shared bits: too many slots are better than too few.
	estimate := -float64(size) * math.Log1p(-float64(ones)/float64(size))
	return min(n, int(estimate+3*math.Sqrt(estimate))+1)
}

// sums are words that tell keys of other widths apart.
func sums(keys batch.Column) []uint64 {
	all := make([]uint64, keys.Rows())
	for i := range all {
		h := fnv.New64a()
		h.Write(keys.Row(i))
		all[i] = h.Sum64()
	}
	return all
}

// setBits is how many of so many bits keys set.
func setBits[K uint32 | uint64](keys []K, size, seed uint64) (n int) {
	set := make([]uint64, size/64)
	for _, k := range keys {
		h := hash.Uint64(uint64(k), seed) % size
		set[h/64] |= 1 << (h % 64)
	}
	for _, w := range set {
		n += bits.OnesCount64(w)
	}
	return n
}

// countSeed makes another seed of that of a table.
const countSeed = 0x3c79ac492ba7b653
