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

// EstimateInserts estimates how many pairs a batch is likely to add. need is at most the number of
// insertions in b. If keys repeat in host memory, need estimates the number of distinct keys. b is
// the first part of a batch. The parameter all is the number of operations in the whole batch, and
// expect is need extrapolated to it. Present keys count as adding nothing, because looking them up
// costs less than growing without need. seed is the table's secret seed, so that adversarial keys
// cannot exploit the estimate.
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
// a lookup of all keys can be skipped. It looks up a sample of rows. Only the table's seed and
// history determine the rows, so that whoever chooses the keys cannot control the sample.
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

// extrapolateDistinct returns the expected number of distinct items among n·times draws. n draws
// have shown k distinct items; all items are assumed to be equally likely.
func extrapolateDistinct(k, n int, times float64) int {
	// Of g items, n draws show an expected g·(1-exp(-n/g)).
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

// estimateDistinct estimates the number of distinct keys in a column with an error of about 1%. It
// sets one bit per key at the key's hash and counts the set bits (linear counting, Whang et al.
// 1990).
func estimateDistinct(keys batch.Column, seed uint64) int {
	n := keys.Rows()
	if n == 0 {
		return 0
	}
	size := uint64(1) << max(bits.Len(uint(8*n)), 10) // number of bits; at most an eighth are set
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
	// Assume that a few more keys share bits: too many slots are better than too few.
	estimate := -float64(size) * math.Log1p(-float64(ones)/float64(size))
	return min(n, int(estimate+3*math.Sqrt(estimate))+1)
}

// hashKeys returns a 64-bit hash of each key. It supports keys of any width.
func hashKeys(keys batch.Column) []uint64 {
	all := make([]uint64, keys.Rows())
	for i := range all {
		h := fnv.New64a()
		h.Write(keys.Row(i))
		all[i] = h.Sum64()
	}
	return all
}

// countSetBits hashes each key to one of the given number of bits and returns how many bits are
// set.
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

// countSeed is combined with the table's seed to get a seed for estimates.
const countSeed = 0x3c79ac492ba7b653
