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

// EstimateInserts returns the number of pairs that a batch is likely to add: at most its insertions
// without duplicates, or an estimate if it repeats keys. The batch is the first part of all
// operations; expect is the number of pairs that all are likely to add. Changes of present keys add
// none, because a lookup costs less than growing without need. seed is the table's secret seed, so
// adversarial keys cannot exploit it.
func EstimateInserts(ctx context.Context, e Engine, now Counters, s *device.Stream, b *batch.Batch, all int, seed uint64) (need, expect int, err error) {
	need, err = b.CountInserts(ctx, s)
	if err != nil || need == 0 {
		return 0, 0, err
	}
	present := 0
	switch {
	case now.Live == 0:
	case s != nil && e.Caps().Streams:
		present, err = e.(Presenter).CountPresent(ctx, s, b)
	default:
		_, present, err = e.Lookup(ctx, nil, e.Current(), b.Select(batch.Keys), 0)
	}
	absent := min(need, b.N-present)
	need = absent
	if keys := b.Columns[batch.Keys]; keys.Host != nil {
		need = min(absent, estimateDistinct(keys, seed))
	}
	return need, extrapolateDistinct(need, absent, float64(all)/float64(b.N)), err
}

// sampleRows is the number of keys of a batch that HasOnlyUpdates looks up.
const sampleRows = 1 << 10

// HasOnlyUpdates reports whether a long batch in host memory seems to contain no new keys, so that
// a lookup of all keys can be skipped. It looks up a sample of rows. The choice of rows depends
// only on the table's seed and history, not on anything under the control of whoever chooses the
// keys.
func HasOnlyUpdates(ctx context.Context, e Engine, now Counters, b *batch.Batch, seed uint64) (bool, error) {
	if b.N < 16*sampleRows || b.Columns[batch.Kinds].Given() {
		return false, nil
	}
	rng, rows := rand.New(rand.NewPCG(seed^countSeed, now.Used)), make([]uint32, sampleRows)
	for i := range rows {
		rows[i] = uint32(rng.IntN(b.N))
	}
	_, present, err := e.Lookup(ctx, nil, e.Current(), b.Select(batch.Keys).Gather(rows), 0)
	return present == sampleRows, err
}

// extrapolateDistinct returns the expected number of different items among n·times draws, if n
// draws show k different ones and all items are equally likely.
func extrapolateDistinct(k, n int, times float64) int {
	// Among g items, n draws show g·(1-exp(-n/g)) different ones.
	distinctAmong := func(g, n float64) float64 { return -g * math.Expm1(-n/g) }
	lo, hi := float64(k), float64(k)*1e6
	if distinctAmong(hi, float64(n)) <= float64(k) {
		return int(float64(k) * times)
	}
	for range 60 {
		if g := math.Sqrt(lo * hi); distinctAmong(g, float64(n)) < float64(k) {
			lo = g
		} else {
			hi = g
		}
	}
	return int(math.Ceil(distinctAmong(hi, float64(n)*times)))
}

// estimateDistinct estimates the number of different keys in a column. It counts the bits that they
// set by their hashes (linear counting, Whang et al. 1990), with an error of about 1%.
func estimateDistinct(keys batch.Column, seed uint64) int {
	n := keys.Rows()
	if n == 0 {
		return 0
	}
	size := uint64(1) << max(bits.Len(uint(8*n)), 10) // bits; at most an eighth are set
	var ones int
	switch {
	case keys.Data != nil:
		ones = countSetBits(hashKeys(keys), size, seed^countSeed)
	case keys.Width == 4:
		ones = countSetBits(batch.View[uint32](keys.Host), size, seed^countSeed)
	case keys.Width == 8:
		ones = countSetBits(batch.View[uint64](keys.Host), size, seed^countSeed)
	default:
		ones = countSetBits(hashKeys(keys), size, seed^countSeed)
	}
	// Round up, as if a few more keys shared bits: too many slots are better than too few.
	estimate := -float64(size) * math.Log1p(-float64(ones)/float64(size))
	return min(n, int(estimate+3*math.Sqrt(estimate))+1)
}

// hashKeys returns words that distinguish keys of other widths.
func hashKeys(keys batch.Column) []uint64 {
	all := make([]uint64, keys.Rows())
	for i := range all {
		h := fnv.New64a()
		h.Write(keys.Row(i))
		all[i] = h.Sum64()
	}
	return all
}

// countSetBits returns how many of size bits the keys set.
func countSetBits[K uint32 | uint64](keys []K, size, seed uint64) (n int) {
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

// countSeed is combined with the seed of a table to derive another seed.
const countSeed = 0x3c79ac492ba7b653
