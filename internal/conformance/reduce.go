package conformance

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

func isFloat[V weft.Value]() bool { return V(1)/2 != 0 }

func (y *types) reductions() []weft.Reduction {
	if y.floats {
		return []weft.Reduction{weft.Sum, weft.Min, weft.Max}
	}
	return []weft.Reduction{weft.Sum, weft.Min, weft.Max, weft.And, weft.Or}
}

// combine returns the reduction of two values. Of two NaNs, it returns the one with the larger
// bits.
func combine[V weft.Value](by weft.Reduction, a, b V) V {
	switch by {
	case weft.Sum:
		return a + b
	case weft.And:
		return fromBits[V](toBits(a) & toBits(b))
	case weft.Or:
		return fromBits[V](toBits(a) | toBits(b))
	}
	switch {
	case a != a && (b == b || toBits(a) > toBits(b)):
		return a
	case b != b:
		return b
	case by == weft.Min:
		return min(a, b)
	}
	return max(a, b)
}

// reducible returns n random values such that a reduction does not depend on their order. For sums,
// floats are whole numbers.
func (y *types) reducible(by weft.Reduction, n int, rng *rand.Rand) []uint64 {
	vals := make([]uint64, n)
	for i := range vals {
		if vals[i] = y.randomValue(rng); by == weft.Sum && y.floats {
			vals[i] = y.val(rng.IntN(1000) - 500)
		}
	}
	return vals
}

// Each reduction must have the same effect as on a Go map. Keys repeat in a batch, have been
// deleted before, or look like sentinels.
func (s mapSuite) reduce(t testing.TB, m erasedMap) {
	rng, n := s.rng(), s.scale.Rows()
	for _, by := range s.reductions() {
		must(t, m.Clear(ctx()))
		model := map[uint64]uint64{}
		sizes := []int{n / 16}
		if by == weft.Sum {
			sizes = []int{n, n / 16, 3}
		}
		for _, groups := range sizes {
			pool := append(s.uniqueKeys(groups, rng), s.reservedKeys()...)
			keys, vals := make([]uint64, n), s.reducible(by, n, rng)
			fresh := 0
			for i := range keys {
				keys[i] = pool[rng.IntN(len(pool))]
				old, present := model[keys[i]]
				if model[keys[i]] = vals[i]; present {
					model[keys[i]] = s.combine(by, old, vals[i])
				} else {
					fresh++
				}
			}
			got, err := m.Reduce(ctx(), keys, vals, by)
			must(t, err)
			if got != fresh {
				t.Fatalf("Reduce by %v of %d pairs: %d new keys, want %d", weft.OpKind(by), n, got, fresh)
			}
			s.checkEqual(t, m, model)
			deleted := keys[:n/8]
			_, err = m.Delete(ctx(), deleted, nil)
			must(t, err)
			for _, k := range deleted {
				delete(model, k)
			}
		}
	}
}

// Reductions must work if all values of a batch have the same key.
func (s mapSuite) reduceOneKey(t testing.TB, m erasedMap) {
	rng, n := s.rng(), s.scale.Rows()
	for _, k := range s.numbers(1, -1) {
		keys, vals := make([]uint64, n), s.reducible(weft.Sum, n, rng)
		var sum uint64
		for i, v := range vals {
			keys[i], sum = k, s.combine(weft.Sum, sum, v)
		}
		for i := range 2 {
			got, err := m.Reduce(ctx(), keys, vals, weft.Sum)
			must(t, err)
			if got != 1-i {
				t.Errorf("Reduce of one key: %d new keys, want %d", got, 1-i)
			}
		}
		s.checkPresent(t, m, []uint64{k}, []uint64{s.combine(weft.Sum, sum, sum)})
	}
}

// Reduce must reject reductions that the values do not support, and do nothing.
func (s mapSuite) reduceRefuses(t testing.TB, m erasedMap) {
	refused := []weft.Reduction{weft.Reduction(weft.OpGet), weft.Reduction(weft.OpPut), weft.Or + 1, 255}
	if s.floats {
		refused = append(refused, weft.And, weft.Or)
	}
	for _, by := range refused {
		n, err := m.Reduce(ctx(), s.numbers(1), []uint64{s.val(2)}, by)
		var p *weft.PartialError
		if n != 0 || !errors.Is(err, device.ErrInvalid) || !errors.As(err, &p) || p.Done != 0 {
			t.Errorf("Reduce by %d: %d, %v", by, n, err)
		}
		res := []weft.Result[uint64]{{Value: 1, OK: true}, {Value: 1, OK: true}}
		ops := []weft.Op[uint64, uint64]{{Kind: weft.OpPut, Key: s.key(1)}, {Kind: weft.OpKind(by), Key: s.key(1)}}
		if weft.OpKind(by) > weft.OpDelete {
			if err := m.Apply(ctx(), ops, res); !errors.Is(err, device.ErrInvalid) || res[0] != (weft.Result[uint64]{}) {
				t.Errorf("Apply of kind %d: %v, %v", by, res, err)
			}
		}
	}
	mustPanic(t, "Reduce vals", func() { m.Reduce(ctx(), s.numbers(1, 2), make([]uint64, 1), weft.Sum) })
	s.checkLen(t, m, 0)
}

// kindOf returns a random kind of operation that maps with these values support. It excludes sums
// of floats, because the bits of a NaN result are unspecified.
func (y *types) kindOf(rng *rand.Rand) weft.OpKind {
	k := weft.OpKind(rng.IntN(9))
	switch {
	case k < weft.OpDeleteAll:
		return k
	case y.floats:
		return weft.OpMin + k%2
	}
	return k + 1
}
