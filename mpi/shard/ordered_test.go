package shard

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/ordered"
	"github.com/weftgo/weft/sorted"
)

// orderedOf makes a sharded map over an ordered.Map.
func orderedOf(r *Ranks) *OrderedMap[uint64, uint64] {
	m, err := ordered.New[uint64, uint64](host, nil)
	if err != nil {
		panic(err)
	}
	return NewOrderedMap(r, m)
}

func TestOrderedMapIsModel(t *testing.T) {
	for _, c := range []struct{ ranks, programs, steps, rows int }{{1, 2, 40, 300}, {2, 6, 40, 300},
		{7, 6, 40, 300}} {
		for p := range c.programs {
			rng := rand.New(rand.NewPCG(uint64(c.ranks), uint64(p)))
			m := &model{pairs: map[uint64]uint64{}}
			// Keys are close together, so that one rank owns all of them at first.
			steps := randomSteps(rng, m, c.ranks, c.steps, c.rows,
				func() uint64 { return 1e9 + rng.Uint64N(5000) })
			onRanks(t, c.ranks, func(ctx context.Context, r *Ranks) error {
				got := orderedOf(r)
				defer got.Close()
				for _, s := range steps {
					if err := s.run(ctx, r.rank, got); err != nil {
						return err
					}
				}
				if err := m.mustHold(ctx, r, got); err != nil {
					return err
				}
				if !got.split && c.ranks > 1 {
					return errors.New("ranges are not those of a sample")
				}
				return m.mustAnswer(ctx, r.rank, got)
			})
		}
	}
}

// mustAnswer compares all answers that depend on the order of keys with the model, and then deletes
// ranges.
func (m *model) mustAnswer(ctx context.Context, rank int, got *OrderedMap[uint64, uint64]) error {
	rng := rand.New(rand.NewPCG(uint64(rank), 77))
	var keys []uint64
	for k := range m.pairs {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	n := rng.IntN(50)
	lo, hi := make([]uint64, n), make([]uint64, n)
	for i := range lo {
		lo[i] = 1e9 + rng.Uint64N(5000)
		hi[i] = lo[i] + rng.Uint64N(600) - 50
	}
	if rank == 0 {
		lo, hi = append(lo, 0), append(hi, math.MaxUint64)
	}
	in := func(i int) []uint64 {
		a, _ := slices.BinarySearch(keys, lo[i])
		b, is := slices.BinarySearch(keys, hi[i])
		if is {
			b++
		}
		return keys[a:max(a, b)]
	}
	for _, limit := range []int{0, 7} {
		var rows, back weft.PairRows[uint64, uint64]
		err := errors.Join(got.Range(ctx, lo, hi, limit, &rows),
			got.RangeBackward(ctx, lo, hi, limit, &back))
		if err != nil {
			return err
		}
		for i := range lo {
			want := in(i)
			a, vals := rows.Row(i)
			b, _ := back.Row(i)
			down := slices.Clone(want)
			slices.Reverse(down)
			if limit > 0 {
				want, down = want[:min(limit, len(want))], down[:min(limit, len(down))]
			}
			if !slices.Equal(a, want) || !slices.Equal(b, down) {
				return fmt.Errorf("rank %d, limit %d: range %d to %d has %d keys up and %d down, want %d", rank, limit,
					lo[i], hi[i], len(a), len(b), len(want))
			}
			for j, k := range a {
				if vals[j] != m.pairs[k] {
					return fmt.Errorf("key %d has value %d, want %d", k, vals[j], m.pairs[k])
				}
			}
		}
	}
	counts := make([]uint32, len(lo))
	if _, err := got.Count(ctx, lo, hi, counts); err != nil {
		return err
	}
	for i, c := range counts {
		if int(c) != len(in(i)) {
			return fmt.Errorf("Count of %d to %d is %d, want %d", lo[i], hi[i], c, len(in(i)))
		}
	}
	if err := m.mustFindNeighbors(ctx, got, lo, keys); err != nil {
		return err
	}
	return mustDeleteRanges(ctx, rank, got, keys)
}

// mustDeleteRanges deletes two overlapping ranges on all ranks.
func mustDeleteRanges(
	ctx context.Context, rank int, got *OrderedMap[uint64, uint64], keys []uint64,
) error {
	cut, end := []uint64{keys[10], keys[20]}, []uint64{keys[30], keys[len(keys)-5]}
	removed := make([]uint32, 2)
	total, err := got.DeleteRange(ctx, cut, end, removed)
	want := []uint32{21, uint32(len(keys) - 5 - 31 + 1)}
	if rank > 0 {
		want = []uint32{0, 0}
	}
	if err != nil || total != len(keys)-14 || !slices.Equal(removed, want) {
		return fmt.Errorf("rank %d: DeleteRange returns %d, %v, %v, want %v", rank, total, removed,
			err, want)
	}
	left, err := got.Len(ctx)
	return errors.Join(err, sameInt("Len", left, 14), got.Check(ctx))
}

// mustFindNeighbors compares the results of Rank, Select, Successor and Predecessor with the model.
func (m *model) mustFindNeighbors(
	ctx context.Context, got *OrderedMap[uint64, uint64], of, keys []uint64,
) error {
	n := len(of)
	ranks, next, prev := make([]uint64, n), make([]uint64, n), make([]uint64, n)
	at, vals := make([]uint64, n), make([]uint64, n)
	isNext, isPrev, isAt := make([]bool, n), make([]bool, n), make([]bool, n)
	err := got.Rank(ctx, of, ranks)
	_, err2 := got.Successor(ctx, of, next, vals, isNext)
	_, err3 := got.Predecessor(ctx, of, prev, nil, isPrev)
	_, err4 := got.Select(ctx, ranks, at, nil, isAt)
	if err := errors.Join(err, err2, err3, err4); err != nil {
		return err
	}
	for i, k := range of {
		a, is := slices.BinarySearch(keys, k)
		b := a
		if is {
			b++
		}
		var wantNext, wantPrev, wantAt uint64
		if b < len(keys) {
			wantNext = keys[b]
		}
		if a > 0 {
			wantPrev = keys[a-1]
		}
		if a < len(keys) {
			wantAt = keys[a]
		}
		if ranks[i] != uint64(a) || next[i] != wantNext || prev[i] != wantPrev || at[i] != wantAt ||
			isNext[i] != (b < len(keys)) || isPrev[i] != (a > 0) || isAt[i] != (a < len(keys)) ||
			vals[i] != m.pairs[wantNext] {
			return fmt.Errorf("key %d: rank %d, successor %d, predecessor %d, at its place %d; want %d, %d, %d, %d",
				k, ranks[i], next[i], prev[i], at[i], a, wantNext, wantPrev, wantAt)
		}
	}
	lo, _, ok, err := got.Min(ctx)
	hi, _, ok2, err2 := got.Max(ctx)
	if !ok || !ok2 || lo != keys[0] || hi != keys[len(keys)-1] {
		return errors.Join(err, err2, fmt.Errorf("Min and Max are %d and %d, want %d and %d", lo,
			hi, keys[0], keys[len(keys)-1]))
	}
	return nil
}

// sortedOf makes a sharded map over a sorted.Map.
func sortedOf(r *Ranks) *OrderedMap[int32, float32] {
	m, err := sorted.New[int32, float32](host, nil)
	if err != nil {
		panic(err)
	}
	return NewOrderedMap(r, m)
}

// A sample divides pairs evenly, and a short range is on one or two ranks. Signed keys keep their
// order. Any number of ranks can load a saved map.
func TestOrderedMapIsEven(t *testing.T) {
	const ranks, rows = 5, 20000
	dir := t.TempDir()
	onRanks(t, ranks, func(ctx context.Context, r *Ranks) error {
		m := sortedOf(r)
		defer m.Close()
		rng := rand.New(rand.NewPCG(1, uint64(r.rank)))
		keys, vals := make([]int32, rows), make([]float32, rows)
		for i := range keys {
			keys[i] = int32(rng.NormFloat64() * 1e6)
			vals[i] = float32(keys[i])
		}
		n, err := m.Build(ctx, keys, vals)
		if err == nil {
			err = m.Check(ctx)
		}
		if err != nil {
			return err
		}
		if own := m.shard.Len(); own < n/ranks*8/10 || own > n/ranks*12/10 {
			return fmt.Errorf("rank %d has %d of %d pairs", r.rank, own, n)
		}
		before := r.Stats().Sent
		if _, err := m.Count(ctx, []int32{-1000}, []int32{1000}, nil); err != nil {
			return err
		}
		if sent := r.Stats().Sent - before; sent > 2 {
			return fmt.Errorf("a short range was sent to %d ranks", sent)
		}
		lo, _, _, err := m.Min(ctx)
		hi, _, _, err2 := m.Max(ctx)
		if err := errors.Join(err, err2); err != nil || lo > -2e6 || hi < 2e6 {
			return fmt.Errorf("Min and Max are %d and %d, %v", lo, hi, err)
		}
		_, err = m.Save(ctx, dir)
		return err
	})
	for _, to := range []int{1, 2, 5, 9} {
		onRanks(t, to, func(ctx context.Context, r *Ranks) error {
			m := sortedOf(r)
			defer m.Close()
			n, err := m.Load(ctx, dir)
			if err = errors.Join(err, m.Check(ctx)); err != nil {
				return err
			}
			if own := m.shard.Len(); own < n/to*8/10 || own > n/to*12/10 {
				return fmt.Errorf("rank %d of %d has %d of %d pairs", r.rank, to, own, n)
			}
			for k, v := range m.All() {
				if v != float32(k) {
					return fmt.Errorf("key %d has %g", k, v)
				}
			}
			return nil
		})
	}
}

// If a rebalance exceeds the capacity of a rank, all pairs stay where they were.
func TestRebalanceFails(t *testing.T) {
	onRanks(t, 2, func(ctx context.Context, r *Ranks) error {
		m := orderedOf(r)
		defer m.Close()
		keys := make([]uint64, 1000)
		for i := range keys {
			keys[i] = uint64(i*2 + r.rank)
		}
		if _, err := m.Put(ctx, keys, keys); err != nil {
			return err
		}
		more := make([]uint64, 3000)
		for i := range more {
			more[i] = 1e6 + uint64(i)
		}
		if _, err := m.Put(ctx, more, more); err != nil {
			return err
		}
		whole := m.shard
		if r.rank == 0 {
			m.shard = fullMap{whole}
		}
		held := whole.Len()
		if err := m.Rebalance(ctx); !errors.Is(err, weft.ErrFull) {
			return fmt.Errorf("rank %d: Rebalance returns %v", r.rank, err)
		}
		m.shard = whole
		if err := errors.Join(sameInt("pairs of the shard", whole.Len(), held),
			m.Check(ctx)); err != nil {
			return err
		}
		if err := m.Rebalance(ctx); err != nil {
			return err
		}
		if own := whole.Len(); own < 2300 || own > 2700 {
			return fmt.Errorf("rank %d has %d pairs of 5000", r.rank, own)
		}
		n, err := m.Len(ctx)
		return errors.Join(err, sameInt("Len", n, 5000), m.Check(ctx))
	})
}

// fullMap is a map without free capacity.
type fullMap struct{ LocalOrdered[uint64, uint64] }

func (fullMap) Put(context.Context, []uint64, []uint64) (int, error) { return 0, weft.ErrFull }
