package shard

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math/bits"
	"slices"

	"github.com/weftgo/weft"
)

// A map with splitPairs pairs per rank gets its ranges from a sample. The sample has about
// sampleKeys keys from all ranks together, and minSamples or more from each. With 2,048 keys, the
// numbers of pairs on ranks differ by some 5 %. moveRows is the number of pairs that a rank sends
// at a time.
const (
	splitPairs = 256
	sampleKeys = 2048
	minSamples = 64
	moveRows   = 1 << 20
)

// sampleKey is a sampled key: at is its position, and weight is the number of keys that it
// represents, times sampleUnit.
type sampleKey struct{ at, weight uint64 }

const sampleUnit = 1 << 16

// resplit samples the pairs of all ranks and the keys of a batch, and moves pairs to their new
// owners. It does nothing if there are fewer than minKeys keys in total.
func (m *OrderedMap[K, V]) resplit(ctx context.Context, keys []K, minKeys int) error {
	r := m.r
	x := m.open(methodRebalance)
	defer x.close()
	clear(x.sent)
	held := m.shard.Len()
	r.head[headArg] = uint64(held + len(keys))
	x.agree(ctx, nil, false)
	total := uint64(0)
	for rank := range r.size {
		total += r.word(rank, headArg)
	}
	if x.err != nil || total < uint64(minKeys) {
		_, err := x.endEmpty()
		return err
	}
	var own []sampleKey
	n := max(minSamples, sampleKeys/r.size)
	x.apply(ctx, func(ctx context.Context) (_ int, err error) {
		own, err = m.sample(ctx, held, keys, n)
		return 0, err
	})
	words := make([]uint64, 4*n)
	for i, s := range own {
		words[2*i], words[2*i+1] = s.at, s.weight
	}
	all := make([]uint64, len(words)*r.size)
	if err := r.comm.AllGather(context.Background(), words, all); err != nil {
		x.err = r.commError(err)
	}
	if _, err := x.endEmpty(); err != nil {
		return err
	}
	before := m.owners
	m.owners.first = splitters(all, r.size)
	err := m.move(context.WithoutCancel(ctx))
	if err != nil {
		m.owners = before
	}
	_, derr := m.all(context.WithoutCancel(ctx), methodRebalance, m.dropForeign)
	m.split = err == nil
	return errors.Join(err, derr)
}

// sample returns at most n keys of the shard, and at most n of keys. held is the number of keys in
// the shard.
func (m *OrderedMap[K, V]) sample(
	ctx context.Context, held int, keys []K, n int,
) (sample []sampleKey, err error) {
	add := func(k K, of, among int) {
		sample = append(sample, sampleKey{position(&m.owners, k),
			uint64(of) * sampleUnit / uint64(among)})
	}
	if s := min(n, len(keys)); s > 0 {
		for i := range s {
			add(keys[i*len(keys)/s], len(keys), s)
		}
	}
	s := min(n, held)
	if s == 0 {
		return sample, nil
	}
	ranks, got := make([]uint64, s), make([]K, s)
	for i := range ranks {
		ranks[i] = uint64(i * held / s)
	}
	_, err = m.shard.Select(ctx, ranks, got, nil, nil)
	for _, k := range got {
		add(k, held, s)
	}
	return sample, err
}

// splitters returns the first position of each rank, so that all ranks have equal shares of a
// sample.
func splitters(words []uint64, size int) []uint64 {
	var sample []sampleKey
	total := uint64(0)
	for i := 0; i < len(words); i += 2 {
		if words[i+1] > 0 {
			sample, total = append(sample, sampleKey{words[i], words[i+1]}), total+words[i+1]
		}
	}
	slices.SortFunc(sample, func(a, b sampleKey) int { return cmp.Compare(a.at, b.at) })
	first, sum, i := make([]uint64, size), uint64(0), 0
	for rank := 1; rank < size; rank++ {
		hi, lo := bits.Mul64(total, uint64(rank))
		share, _ := bits.Div64(hi, lo, uint64(size))
		for i < len(sample)-1 && sum+sample[i].weight <= share {
			sum += sample[i].weight
			i++
		}
		first[rank] = sample[i].at
	}
	return first
}

// move sends pairs to their new owners. They also stay in this shard.
func (m *OrderedMap[K, V]) move(ctx context.Context) error {
	next, stop := iter.Pull2(m.shard.Pages(ctx))
	defer stop()
	var failure error
	for {
		keys, vals, more := make([]K, 0, moveRows), make([]V, 0, moveRows), true
		for more && len(keys) < moveRows {
			page, err, ok := next()
			if failure, more = err, ok && err == nil; !more {
				break
			}
			for i, k := range page.Keys {
				if m.owners.rank(position(&m.owners, k), m.r.size) != m.r.rank {
					keys, vals = append(keys, k), append(vals, page.Vals[i])
				}
			}
		}
		x := m.open(methodRebalance)
		if more {
			m.r.head[headState] |= stateMore
		}
		begin(ctx, x, keys, combineNone, false)
		k, v := sendColumn(x, keysOut, keys), sendColumn(x, valsOut, vals)
		x.failure = failure
		x.apply(ctx, func(ctx context.Context) (int, error) { return m.shard.Put(ctx, k, v) })
		if _, err := x.end(); err != nil {
			if p := (*weft.PartialError)(nil); errors.As(err, &p) {
				err = p.Err // the rows are not rows of the caller
			}
			return err
		}
		if !m.r.anyRank(stateMore) {
			return nil
		}
	}
}

func (m *OrderedMap[K, V]) dropForeign(ctx context.Context) (int, error) {
	first, last := m.owners.span(m.r.rank, m.r.size)
	top := ^uint64(0) >> (64 - keyBits[K]())
	var lo, hi []K
	if first > last {
		lo, hi = []K{m.keyAt(0)}, []K{m.keyAt(top)}
	} else {
		if first > 0 {
			lo, hi = append(lo, m.keyAt(0)), append(hi, m.keyAt(first-1))
		}
		if last < top {
			lo, hi = append(lo, m.keyAt(last+1)), append(hi, m.keyAt(top))
		}
	}
	if len(lo) == 0 {
		return 0, nil
	}
	_, err := m.shard.DeleteRange(ctx, lo, hi, nil)
	return 0, err
}
