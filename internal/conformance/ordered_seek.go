package conformance

import (
	"context"
	"errors"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

func (s orderedSuite) seekHost(t testing.TB, m erasedSeeker, x *seeks) *seekResults {
	t.Helper()
	a := s.newSeekResults(x)
	for _, c := range a.seekCalls(ctx(), m, x) {
		if _, err := c.run(); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
	}
	return a
}

func (y *types) newSeekResults(x *seeks) *seekResults {
	n := len(x.lo)
	return &seekResults{
		first: y.newFixedRanges(n, x.stride()), last: y.newFixedRanges(n, x.stride()), counts: blanks[uint32](n), ranks: blanks[uint64](n),
		picked: y.newFoundPairs(n), next: y.newFoundPairs(n), previous: y.newFoundPairs(n),
	}
}

// seekCall is one lookup with its name.
type seekCall struct {
	name string
	run  func() (hits int, err error)
}

// seekCalls returns all lookups for batches in host memory. They write their results to a.
func (a *seekResults) seekCalls(c context.Context, m erasedSeeker, x *seeks) []seekCall {
	counted := func(to *int, ask func() (int, error)) func() (int, error) {
		return func() (n int, err error) {
			*to, err = ask()
			return *to, err
		}
	}
	found := func(f *foundPairs, ask func(keys []uint64, vals []uint64, ok []bool) (int, error)) func() (int, error) {
		return counted(&f.hits, func() (int, error) { return ask(f.keys, f.vals, f.ok) })
	}
	return []seekCall{
		{"Range", func() (int, error) { return 0, m.Range(c, x.lo, x.hi, x.limit, &a.up) }},
		{"RangeBackward", func() (int, error) { return 0, m.RangeBackward(c, x.lo, x.hi, x.limit, &a.down) }},
		{"RangeFirst", counted(&a.first.hits, func() (int, error) {
			return m.RangeFirst(c, x.lo, x.hi, x.stride(), a.first.counts, a.first.keys, a.first.vals)
		})},
		{"RangeLast", counted(&a.last.hits, func() (int, error) {
			return m.RangeLast(c, x.lo, x.hi, x.stride(), a.last.counts, a.last.keys, a.last.vals)
		})},
		{"Count", counted(&a.total, func() (int, error) { return m.Count(c, x.lo, x.hi, a.counts) })},
		{"Rank", func() (int, error) { return 0, m.Rank(c, x.lo, a.ranks) }},
		{"Select", found(&a.picked, func(keys []uint64, vals []uint64, ok []bool) (int, error) {
			return m.Select(c, x.ranks, keys, vals, ok)
		})},
		{"Successor", found(&a.next, func(keys []uint64, vals []uint64, ok []bool) (int, error) {
			return m.Successor(c, x.lo, keys, vals, ok)
		})},
		{"Predecessor", found(&a.previous, func(keys []uint64, vals []uint64, ok []bool) (int, error) {
			return m.Predecessor(c, x.lo, keys, vals, ok)
		})},
	}
}

// guardedColumn is an output column in device memory with a margin on either side. download
// requires the margins to be unchanged.
type guardedColumn[T device.Elem, C column[T, C]] struct {
	whole, inner C
	initial      []T
}

type column[T, C any] interface {
	Sub(lo, hi int) C
	CopyTo(ctx context.Context, s *device.Stream, dst []T) error
}

const margin = 3

func newOutput[T device.Elem, C column[T, C]](t testing.TB, st *device.Stream, s []T, upload func(testing.TB, *device.Stream, []T) C) guardedColumn[T, C] {
	was := slices.Concat(make([]T, margin), s, make([]T, margin))
	all := upload(t, st, was)
	return guardedColumn[T, C]{all, all.Sub(margin, margin+len(s)), was}
}

// download copies the output to s.
func (o *guardedColumn[T, C]) download(t testing.TB, st *device.Stream, s []T) {
	t.Helper()
	now := slices.Clone(o.initial)
	must(t, o.whole.CopyTo(ctx(), st, now))
	if string(device.Bytes(now[:margin])) != string(device.Bytes(o.initial[:margin])) ||
		string(device.Bytes(now[len(now)-margin:])) != string(device.Bytes(o.initial[len(now)-margin:])) {
		t.Fatal("memory beside an output was written")
	}
	copy(s, now[margin:])
}

// seekDevice runs all lookups with On methods. up and down are the capacities for the pairs that
// RangeOn and RangeBackwardOn find.
func (s orderedSuite) seekDevice(t testing.TB, m erasedSeeker, st *device.Stream, x *seeks, up, down int) *seekResults {
	t.Helper()
	n := len(x.lo)
	lo, hi, ranks := s.keysOn(t, st, x.lo), s.keysOn(t, st, x.hi), devicetest.Upload(t, st, x.ranks)
	a := &seekResults{counts: blanks[uint32](n), ranks: blanks[uint64](n)}
	a.up = s.rowsOn(t, st, n, up, func(counts device.Slice[uint32], offsets device.Slice[uint64], keys, vals words) error {
		return m.RangeOn(st, lo, hi, x.limit, counts, offsets, keys, vals)
	})
	a.down = s.rowsOn(t, st, n, down, func(counts device.Slice[uint32], offsets device.Slice[uint64], keys, vals words) error {
		return m.RangeBackwardOn(st, lo, hi, x.limit, counts, offsets, keys, vals)
	})
	a.first = s.fixedRangesOn(t, st, n, x.stride(), func(counts device.Slice[uint32], keys, vals words, hits device.Slice[uint64]) error {
		return m.RangeFirstOn(st, lo, hi, x.stride(), counts, keys, vals, hits)
	})
	a.last = s.fixedRangesOn(t, st, n, x.stride(), func(counts device.Slice[uint32], keys, vals words, hits device.Slice[uint64]) error {
		return m.RangeLastOn(st, lo, hi, x.stride(), counts, keys, vals, hits)
	})
	counts, places := newOutput(t, st, a.counts, devicetest.Upload[uint32]), newOutput(t, st, a.ranks, devicetest.Upload[uint64])
	must(t, errors.Join(m.CountOn(st, lo, hi, counts.inner), m.RankOn(st, lo, places.inner)))
	counts.download(t, st, a.counts)
	places.download(t, st, a.ranks)
	for _, c := range a.counts {
		a.total += int(c)
	}
	type call = func(keys, vals words, ok device.Slice[bool], hits device.Slice[uint64]) error
	for f, ask := range map[*foundPairs]call{
		&a.picked: func(keys, vals words, ok device.Slice[bool], hits device.Slice[uint64]) error {
			return m.SelectOn(st, ranks, keys, vals, ok, hits)
		},
		&a.next: func(keys, vals words, ok device.Slice[bool], hits device.Slice[uint64]) error {
			return m.SuccessorOn(st, lo, keys, vals, ok, hits)
		},
		&a.previous: func(keys, vals words, ok device.Slice[bool], hits device.Slice[uint64]) error {
			return m.PredecessorOn(st, lo, keys, vals, ok, hits)
		},
	} {
		*f = s.foundOn(t, st, n, ask)
	}
	return a
}

func (s orderedSuite) rowsOn(t testing.TB, st *device.Stream, n, capacity int, ask func(device.Slice[uint32], device.Slice[uint64], words, words) error) (r weft.PairRows[uint64, uint64]) {
	t.Helper()
	counts, offsets := blanks[uint32](n), blanks[uint64](n+1)
	r.Keys, r.Vals = s.blankKeys(capacity), s.blankVals(capacity)
	c, o := newOutput(t, st, counts, devicetest.Upload[uint32]), newOutput(t, st, offsets, devicetest.Upload[uint64])
	k, v := newOutput(t, st, r.Keys, s.keysOn), newOutput(t, st, r.Vals, s.valsOn)
	must(t, ask(c.inner, o.inner, k.inner, v.inner))
	c.download(t, st, counts)
	o.download(t, st, offsets)
	k.download(t, st, r.Keys)
	v.download(t, st, r.Vals)
	for i, at := range offsets[:n] {
		if at+uint64(counts[i]) != offsets[i+1] {
			t.Fatalf("range %d of %d pairs is at %d, and the next one at %d", i, counts[i], at, offsets[i+1])
		}
	}
	r.Offsets = offsets
	return r
}

func (s orderedSuite) fixedRangesOn(t testing.TB, st *device.Stream, n, limit int, ask func(device.Slice[uint32], words, words, device.Slice[uint64]) error) fixedRanges {
	t.Helper()
	a := s.newFixedRanges(n, limit)
	c, h := newOutput(t, st, a.counts, devicetest.Upload[uint32]), newHits(t, st)
	k, v := newOutput(t, st, a.keys, s.keysOn), newOutput(t, st, a.vals, s.valsOn)
	must(t, ask(c.inner, k.inner, v.inner, h.inner))
	c.download(t, st, a.counts)
	k.download(t, st, a.keys)
	v.download(t, st, a.vals)
	a.hits = hitsOn(t, st, h)
	return a
}

func (s orderedSuite) foundOn(t testing.TB, st *device.Stream, n int, ask func(words, words, device.Slice[bool], device.Slice[uint64]) error) foundPairs {
	t.Helper()
	f := s.newFoundPairs(n)
	k, v := newOutput(t, st, f.keys, s.keysOn), newOutput(t, st, f.vals, s.valsOn)
	ok, h := newOutput(t, st, f.ok, devicetest.Upload[bool]), newHits(t, st)
	must(t, ask(k.inner, v.inner, ok.inner, h.inner))
	k.download(t, st, f.keys)
	v.download(t, st, f.vals)
	ok.download(t, st, f.ok)
	f.hits = hitsOn(t, st, h)
	return f
}

// newHits returns a counter in device memory with the initial value 1000.
func newHits(t testing.TB, st *device.Stream) guardedColumn[uint64, device.Slice[uint64]] {
	return newOutput(t, st, []uint64{1000}, devicetest.Upload[uint64])
}

// hitsOn returns the count that has been added to a counter from newHits.
func hitsOn(t testing.TB, st *device.Stream, h guardedColumn[uint64, device.Slice[uint64]]) int {
	t.Helper()
	var hits [1]uint64
	h.download(t, st, hits[:])
	return int(hits[0]) - 1000
}

// checkEqual requires a and want to be equal.
func (a *seekResults) checkEqual(t testing.TB, where string, x *seeks, want *seekResults) {
	t.Helper()
	for _, r := range []struct {
		method    string
		got, want *weft.PairRows[uint64, uint64]
	}{{"Range", &a.up, &want.up}, {"RangeBackward", &a.down, &want.down}} {
		if !slices.Equal(r.got.Offsets, r.want.Offsets) {
			t.Fatalf("%s: %s with limit %d: rows %v, want %v", where, r.method, x.limit, r.got.Offsets, r.want.Offsets)
		}
		for i := range r.want.Len() {
			keys, vals := r.got.Row(i)
			if k, v := r.want.Row(i); !slices.Equal(keys, k) || !slices.Equal(vals, v) {
				t.Fatalf("%s: %s from %#x to %#x, limit %d: keys %#x, want %#x; or other values", where, r.method, x.lo[i], x.hi[i], x.limit, keys, k)
			}
		}
	}
	for _, r := range []struct {
		method    string
		got, want *fixedRanges
	}{{"RangeFirst", &a.first, &want.first}, {"RangeLast", &a.last, &want.last}} {
		if !slices.Equal(r.got.counts, r.want.counts) || r.got.hits != r.want.hits {
			t.Fatalf("%s: %s with limit %d: %d hits, want %d; counts %v, want %v", where, r.method, x.stride(), r.got.hits, r.want.hits, r.got.counts, r.want.counts)
		}
		for i, n := range r.want.counts {
			lo, hi := i*x.stride(), i*x.stride()+int(n)
			if !slices.Equal(r.got.keys[lo:hi], r.want.keys[lo:hi]) || !slices.Equal(r.got.vals[lo:hi], r.want.vals[lo:hi]) {
				t.Fatalf("%s: %s from %#x to %#x, limit %d: keys %#x, want %#x; or other values", where, r.method, x.lo[i], x.hi[i], x.stride(), r.got.keys[lo:hi], r.want.keys[lo:hi])
			}
		}
	}
	if !slices.Equal(a.counts, want.counts) || a.total != want.total {
		t.Fatalf("%s: Count: %d pairs, want %d: %v, want %v", where, a.total, want.total, a.counts, want.counts)
	}
	if !slices.Equal(a.ranks, want.ranks) {
		t.Fatalf("%s: Rank: %v, want %v", where, a.ranks, want.ranks)
	}
	a.picked.checkEqual(t, where+": Select", x.ranks, &want.picked)
	a.next.checkEqual(t, where+": Successor", x.lo, &want.next)
	a.previous.checkEqual(t, where+": Predecessor", x.lo, &want.previous)
}

func (f *foundPairs) checkEqual(t testing.TB, desc string, of []uint64, want *foundPairs) {
	t.Helper()
	for i := range want.keys {
		if f.keys[i] != want.keys[i] || f.vals[i] != want.vals[i] || f.ok[i] != want.ok[i] {
			t.Fatalf("%s of %#x: %#x %#x %v, want %#x %#x %v", desc, of[i], f.keys[i], f.vals[i], f.ok[i], want.keys[i], want.vals[i], want.ok[i])
		}
	}
	if f.hits != want.hits {
		t.Fatalf("%s: %d pairs found, want %d", desc, f.hits, want.hits)
	}
}

// checkSeeks requires a map or a snapshot to return the results of its model, in both forms of each
// lookup. It also checks Min and Max.
func (s orderedSuite) checkSeeks(t testing.TB, where string, m erasedSeeker, o *erasedModel, x *seeks) {
	t.Helper()
	want := o.seekResults(x)
	s.seekHost(t, m, x).checkEqual(t, where, x, want)
	st := devicetest.NewStream(t, s.dev)
	s.seekDevice(t, m, st, x, len(want.up.Keys), len(want.down.Keys)).checkEqual(t, where+", on the device", x, want)
	s.checkEnds(t, where, m, o)
}

func (s orderedSuite) checkEnds(t testing.TB, where string, m erasedSeeker, o *erasedModel) {
	t.Helper()
	if m.Len() != len(o.keys) {
		t.Fatalf("%s: Len = %d, want %d", where, m.Len(), len(o.keys))
	}
	k, v, ok, err := m.Min(ctx())
	must(t, err)
	if wk, wv, wok := o.pairAt(0); k != wk || v != wv || ok != wok {
		t.Fatalf("%s: Min is %#x %#x %v, want %#x %#x %v", where, k, v, ok, wk, wv, wok)
	}
	k, v, ok, err = m.Max(ctx())
	must(t, err)
	if wk, wv, wok := o.pairAt(len(o.keys) - 1); k != wk || v != wv || ok != wok {
		t.Fatalf("%s: Max is %#x %#x %v, want %#x %#x %v", where, k, v, ok, wk, wv, wok)
	}
}

// fillRandom puts n random pairs into a map and returns its model.
func (s orderedSuite) fillRandom(t testing.TB, m erasedOrderedMap, rng *rand.Rand, n int) *erasedModel {
	t.Helper()
	keys := s.uniqueKeys(n, rng)
	vals := s.randomValues(n, rng)
	s.put(t, m, keys, vals, n)
	o := s.newModel()
	o.put(keys, vals)
	return o
}

func (s orderedSuite) put(t testing.TB, m erasedOrderedMap, keys []uint64, vals []uint64, n int) {
	t.Helper()
	mapSuite{}.put(t, m, keys, vals, n)
}

func (s orderedSuite) nSeeks() int { return min(s.scale.Rows(), 3000) / 3 }

func (s orderedSuite) empty(t testing.TB, m erasedOrderedMap) {
	o, g := s.newModel(), rng()
	s.checkSeeks(t, "an empty map", m, o, s.seeks(g, o, 40, 3))
	s.checkSeeks(t, "no questions", m, o, &seeks{})
	s.checkOrder(t, m, o)
	n, err := m.DeleteRange(ctx(), s.numbers(0), s.numbers(100), nil)
	WantCount(t, "DeleteRange of an empty map", n, 0, err)
	n, err = m.Build(ctx(), nil, nil)
	WantCount(t, "Build of nothing", n, 0, err)
}

func (s orderedSuite) seek(t testing.TB, m erasedOrderedMap) {
	g := rng()
	o := s.fillRandom(t, m, g, s.scale.Rows())
	for _, limit := range []int{0, 1, 3, 40} {
		s.checkSeeks(t, "random pairs", m, o, s.seeks(g, o, s.nSeeks(), limit))
	}
	for _, n := range []int{0, 1, 2, 31, 32, 33, 257} {
		s.checkSeeks(t, "a small batch", m, o, s.seeks(g, o, n, 2))
	}
}

// Lookups must find keys that look like sentinels, and accept them as bounds.
func (s orderedSuite) everyKey(t testing.TB, m erasedOrderedMap) {
	o, g := s.newModel(), rng()
	keys := distinct(s.reservedKeys())
	keys = distinct(append(keys, 0, s.keyMask, 1, s.keyMask-1))
	for i := range keys {
		vals := s.randomValues(1, g)
		s.put(t, m, keys[i:i+1], vals, 1)
		o.put(keys[i:i+1], vals)
		s.checkSeeks(t, "odd keys", m, o, s.seeks(g, o, 24, i%3))
	}
	x := &seeks{}
	for _, lo := range keys {
		for _, hi := range keys {
			x.lo, x.hi, x.ranks = append(x.lo, lo), append(x.hi, hi), append(x.ranks, uint64(len(x.lo)))
		}
	}
	s.checkSeeks(t, "from and to odd keys", m, o, x)
	s.checkOrder(t, m, o)
}

// Lookups must be correct if most keys are adjacent and some are missing.
func (s orderedSuite) dense(t testing.TB, m erasedOrderedMap) {
	n, g, o := min(s.scale.Rows(), 4000), rng(), s.newModel()
	keys := s.sequence(-n/2, n)
	for k := range uint64(50) { // the smallest keys
		keys = append(keys, k)
	}
	keys = distinct(keys)
	vals := s.randomValues(len(keys), g)
	s.put(t, m, keys, vals, len(keys))
	o.put(keys, vals)
	deleted := keys[n/3 : n/3+n/10]
	if _, err := m.Delete(ctx(), deleted, nil); err != nil {
		t.Fatal(err)
	}
	o.remove(deleted)
	for _, limit := range []int{0, 7} {
		s.checkSeeks(t, "dense keys", m, o, s.seeks(g, o, s.nSeeks(), limit))
	}
}

// Lookups must be correct after batches of all kinds.
func (s orderedSuite) churn(t testing.TB, m erasedOrderedMap) {
	n, g, o := min(s.scale.Rows(), 3000)/3, rng(), s.newModel()
	pool := s.uniqueKeys(2*n, g)
	drawBatch := func() []uint64 {
		keys := make([]uint64, n)
		for i := range keys {
			keys[i] = pool[g.IntN(len(pool))]
		}
		return keys
	}
	for round := range 12 {
		keys, vals := drawBatch(), s.randomValues(n, g)
		_, err := m.Put(ctx(), keys, vals)
		must(t, err)
		o.put(keys, vals)
		deleted := drawBatch()[:n/3]
		_, err = m.Delete(ctx(), deleted, nil)
		must(t, err)
		o.remove(deleted)
		if round%3 == 2 {
			lo, hi := slices.Min(deleted[:5]), slices.Min(deleted[5:12])
			_, err := m.DeleteRange(ctx(), []uint64{lo}, []uint64{hi}, nil)
			must(t, err)
			o.remove(o.keysBetween(lo, hi, 0, false))
		}
		s.checkSeeks(t, "after some batches", m, o, s.seeks(g, o, 60, round%4))
	}
	s.checkOrder(t, m, o)
}

// Lookups must work without their optional arguments.
func (s orderedSuite) nilOutputs(t testing.TB, m erasedOrderedMap) {
	g := rng()
	o := s.fillRandom(t, m, g, 300)
	x := s.seeks(g, o, 50, 0)
	want := o.seekResults(x)
	keys := make([]uint64, 50)
	n, err := m.Select(ctx(), x.ranks, keys, nil, nil)
	WantCount(t, "Select", n, want.picked.hits, err)
	if !slices.Equal(keys, want.picked.keys) {
		t.Errorf("Select without values: %v, want %v", keys, want.picked.keys)
	}
	n, err = m.Successor(ctx(), x.lo, keys, nil, nil)
	WantCount(t, "Successor", n, want.next.hits, err)
	n, err = m.Predecessor(ctx(), x.lo, keys, nil, nil)
	WantCount(t, "Predecessor", n, want.previous.hits, err)
	n, err = m.Count(ctx(), x.lo, x.hi, nil)
	WantCount(t, "Count", n, want.total, err)
	st := devicetest.NewStream(t, s.dev)
	lo, ranks, to := s.keysOn(t, st, x.lo), devicetest.Upload(t, st, x.ranks), s.keysOn(t, st, keys)
	must(t, m.SelectOn(st, ranks, to, words{}, device.Slice[bool]{}))
	must(t, m.PredecessorOn(st, lo, to, words{}, device.Slice[bool]{}))
	must(t, m.SuccessorOn(st, lo, to, words{}, device.Slice[bool]{}))
	must(t, to.CopyTo(ctx(), st, keys))
	if !slices.Equal(keys, want.next.keys) {
		t.Errorf("SuccessorOn without values: %v, want %v", keys, want.next.keys)
	}
	n, err = m.DeleteRange(ctx(), x.lo[:1], x.hi[:1], nil)
	WantCount(t, "DeleteRange", n, int(want.counts[0]), err)
}

func (s orderedSuite) lengths(t testing.TB, m erasedOrderedMap) {
	k2, k3, v2, v3, c2, r2, r3 := make([]uint64, 2), make([]uint64, 3), make([]uint64, 2), make([]uint64, 3), make([]uint32, 2), make([]uint64, 2), make([]uint64, 3)
	var rows weft.PairRows[uint64, uint64]
	mustPanic(t, "Range", func() { m.Range(ctx(), k3, k2, 0, &rows) })
	mustPanic(t, "RangeBackward", func() { m.RangeBackward(ctx(), k2, k3, 0, &rows) })
	mustPanic(t, "RangeFirst counts", func() { m.RangeFirst(ctx(), k3, k3, 1, c2, k3, v3) })
	mustPanic(t, "RangeFirst keys", func() { m.RangeFirst(ctx(), k2, k2, 1, c2, k3, v2) })
	mustPanic(t, "RangeFirst vals", func() { m.RangeFirst(ctx(), k2, k2, 1, c2, k2, v3) })
	mustPanic(t, "RangeLast keys", func() { m.RangeLast(ctx(), k2, k2, 2, c2, k3, make([]uint64, 4)) })
	mustPanic(t, "Count hi", func() { m.Count(ctx(), k3, k2, nil) })
	mustPanic(t, "Count counts", func() { m.Count(ctx(), k3, k3, c2) })
	mustPanic(t, "Rank", func() { m.Rank(ctx(), k3, r2) })
	mustPanic(t, "Select keys", func() { m.Select(ctx(), r3, k2, nil, nil) })
	mustPanic(t, "Select vals", func() { m.Select(ctx(), r3, k3, v2, nil) })
	mustPanic(t, "Successor", func() { m.Successor(ctx(), k3, k2, nil, nil) })
	mustPanic(t, "Predecessor found", func() { m.Predecessor(ctx(), k3, k3, nil, make([]bool, 2)) })
	mustPanic(t, "Build", func() { m.Build(ctx(), k3, v2) })
	mustPanic(t, "DeleteRange hi", func() { m.DeleteRange(ctx(), k3, k2, nil) })
	mustPanic(t, "DeleteRange removed", func() { m.DeleteRange(ctx(), k3, k3, c2) })
	if m.Len() != 0 {
		t.Errorf("Len = %d after calls that panic", m.Len())
	}
}

func (s orderedSuite) limits(t testing.TB, m erasedOrderedMap) {
	k, v, c := s.numbers(0, 0), make([]uint64, 2), make([]uint32, 2)
	rows := weft.PairRows[uint64, uint64]{Offsets: []uint64{0, 0}}
	st := devicetest.NewStream(t, s.dev)
	on, vals, counts := s.keysOn(t, st, k), s.valsOn(t, st, v), devicetest.Upload(t, st, c)
	offsets := devicetest.Upload(t, st, make([]uint64, 3))
	_, zeroLimit := m.RangeFirst(ctx(), k, k, 0, c, k, v)
	_, negative := m.RangeLast(ctx(), k, k, -1, c, k, v)
	for desc, err := range map[string]error{
		"Range":           m.Range(ctx(), k, k, -1, &rows),
		"RangeBackward":   m.RangeBackward(ctx(), k, k, -5, &rows),
		"RangeFirst":      zeroLimit,
		"RangeLast":       negative,
		"RangeOn":         m.RangeOn(st, on, on, -1, counts, offsets, on, vals),
		"RangeBackwardOn": m.RangeBackwardOn(st, on, on, -1, counts, offsets, on, vals),
		"RangeFirstOn":    m.RangeFirstOn(st, on, on, 0, counts, on, vals),
		"RangeLastOn":     m.RangeLastOn(st, on, on, -1, counts, on, vals),
	} {
		if !errors.Is(err, device.ErrInvalid) {
			t.Errorf("%s with an invalid limit: %v", desc, err)
		}
	}
	if rows.Len() != 1 {
		t.Errorf("there are %d rows after calls that are refused", rows.Len())
	}
	const huge = 1 << 62 // 4 such rows have 2^64 pairs; one row has 2^64 bytes of 4-byte values
	hits, err := m.RangeFirst(ctx(), nil, nil, huge, nil, nil, nil)
	WantCount(t, "RangeFirst of no range, with a huge limit", hits, 0, err)
	if _, more := rows.Next(0, -1, 0); more {
		t.Error("a range goes on after a negative limit")
	}
	if _, more := rows.NextBackward(0, -1, 0); more {
		t.Error("a range goes on backward after a negative limit")
	}
	// Limits that overflow 32 bits, or 64 bits plus one, mean no limit.
	o := s.newModel()
	s.fill(t, m, o, s.numbers(1, 2, 3, 4))
	for _, limit := range []int{math.MaxUint32, math.MaxUint32 + 1, math.MaxInt} {
		for _, backward := range []bool{false, true} {
			rows.Reset()
			find := m.Range
			if backward {
				find = m.RangeBackward
			}
			must(t, find(ctx(), s.numbers(2, 1), s.numbers(4, 3), limit, &rows))
			want := [][]uint64{o.keysBetween(s.key(2), s.key(4), 0, backward), o.keysBetween(s.key(1), s.key(3), 0, backward)}
			if first, _ := rows.Row(0); !slices.Equal(first, want[0]) || !slices.Equal(rows.Keys[rows.Offsets[1]:], want[1]) {
				t.Errorf("with limit %d, backward: %v, there are %v at %v, want %v", limit, backward, rows.Keys, rows.Offsets, want)
			}
		}
		// the range [0, 0], twice
		must(t, m.RangeOn(st, on, on, limit, counts, offsets, on.Sub(0, 0), vals.Sub(0, 0)))
	}
	mustPanic(t, "RangeLast of more than an int counts", func() {
		_, _ = m.RangeLast(ctx(), make([]uint64, 4), make([]uint64, 4), huge, make([]uint32, 4), nil, nil)
	})
}

// calls returns calls of all lookups in host memory, by name, with arguments for n rows.
func (s orderedSuite) calls(c context.Context, m erasedSeeker, n int) map[string]func() error {
	keys, to, vals, counts, ranks := make([]uint64, n), make([]uint64, n), make([]uint64, n), make([]uint32, n), make([]uint64, n)
	uncounted := func(_ int, err error) error { return err }
	return map[string]func() error{
		"Get":      func() error { return uncounted(m.Get(c, keys, vals, nil)) },
		"Contains": func() error { return uncounted(m.Contains(c, keys, nil)) },
		"Range":    func() error { return m.Range(c, keys, keys, 0, &weft.PairRows[uint64, uint64]{}) },
		"RangeBackward": func() error {
			return m.RangeBackward(c, keys, keys, 2, &weft.PairRows[uint64, uint64]{})
		},
		"RangeFirst":  func() error { return uncounted(m.RangeFirst(c, keys, keys, 1, counts, to, vals)) },
		"RangeLast":   func() error { return uncounted(m.RangeLast(c, keys, keys, 1, counts, to, vals)) },
		"Count":       func() error { return uncounted(m.Count(c, keys, keys, counts)) },
		"Rank":        func() error { return m.Rank(c, keys, ranks) },
		"Select":      func() error { return uncounted(m.Select(c, ranks, to, vals, nil)) },
		"Successor":   func() error { return uncounted(m.Successor(c, keys, to, vals, nil)) },
		"Predecessor": func() error { return uncounted(m.Predecessor(c, keys, to, vals, nil)) },
		"Min":         func() error { _, _, _, err := m.Min(c); return err },
		"Max":         func() error { _, _, _, err := m.Max(c); return err },
		"Between":     func() error { return lastOf(m.Between(c, s.key(0), s.key(5))) },
		"Pages":       func() error { return lastOf(m.Pages(c)) },
	}
}

func lastOf[P any](pages iter.Seq2[P, error]) (err error) {
	for _, err = range pages {
		continue
	}
	return err
}

// changes returns calls of methods that only ordered maps have and that change the map or take a
// snapshot, by name.
func (s orderedSuite) changes(t testing.TB, c context.Context, m erasedOrderedMap, n int) map[string]func() error {
	keys, vals := make([]uint64, n), make([]uint64, n)
	return map[string]func() error{
		"Build":       func() error { _, err := m.Build(c, keys, vals); return err },
		"DeleteRange": func() error { _, err := m.DeleteRange(c, keys, keys, nil); return err },
		"Snapshot":    func() error { _, err := snapshotOf(t, c, m); return err },
	}
}

// A call with an expired context must return an error and do nothing.
func (s orderedSuite) cancelled(t testing.TB, m erasedOrderedMap) {
	g := rng()
	o := s.fillRandom(t, m, g, 300)
	calls := s.calls(expired(), m, 200)
	for name, call := range s.changes(t, expired(), m, 200) {
		calls[name] = call
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a context that has ended: %v", name, err)
		}
	}
	counts, ranks := blanks[uint32](2), blanks[uint64](2)
	_, err := m.Count(expired(), o.keys[:2], o.keys[:2], counts)
	err2 := m.Rank(expired(), o.keys[:2], ranks)
	if err == nil || err2 == nil || slices.Max(counts) != 0 || slices.Max(ranks) != 0 {
		t.Errorf("Count and Rank that are not run leave %v and %v: %v, %v", counts, ranks, err, err2)
	}
	s.checkSeeks(t, "after calls that were cancelled", m, o, s.seeks(g, o, 30, 2))
}

// All calls on a closed map must return an error.
func (s orderedSuite) closed(t testing.TB, _ erasedOrderedMap) {
	m := s.open(t, s.dev)
	s.fillRandom(t, m, rng(), 20)
	st := devicetest.NewStream(t, s.dev)
	on := s.submissions(t, m, st, st)
	must(t, m.Close())
	calls := s.calls(ctx(), m, 10)
	for name, call := range s.changes(t, ctx(), m, 10) {
		calls[name] = call
	}
	for name, call := range on {
		calls[name] = call
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, weft.ErrClosed) {
			t.Errorf("%s of a closed map: %v", name, err)
		}
	}
}

// submissions returns calls of all On methods that only ordered maps have, by name. The calls
// submit to the stream st. Their columns lie on the device of the second stream.
func (s orderedSuite) submissions(t testing.TB, m erasedOrderedMap, st, of *device.Stream) map[string]func() error {
	const n = 4
	keys, vals, ok := s.keysOn(t, of, make([]uint64, n)), s.valsOn(t, of, make([]uint64, n)), devicetest.Upload(t, of, make([]bool, n))
	counts, ranks, offsets := devicetest.Upload(t, of, make([]uint32, n)), devicetest.Upload(t, of, make([]uint64, n)), devicetest.Upload(t, of, make([]uint64, n+1))
	return map[string]func() error{
		"RangeOn":         func() error { return m.RangeOn(st, keys, keys, 0, counts, offsets, keys, vals) },
		"RangeBackwardOn": func() error { return m.RangeBackwardOn(st, keys, keys, 0, counts, offsets, keys, vals) },
		"RangeFirstOn":    func() error { return m.RangeFirstOn(st, keys, keys, 1, counts, keys, vals) },
		"RangeLastOn":     func() error { return m.RangeLastOn(st, keys, keys, 1, counts, keys, vals) },
		"CountOn":         func() error { return m.CountOn(st, keys, keys, counts) },
		"RankOn":          func() error { return m.RankOn(st, keys, ranks) },
		"SelectOn":        func() error { return m.SelectOn(st, ranks, keys, vals, ok) },
		"SuccessorOn":     func() error { return m.SuccessorOn(st, keys, keys, vals, ok) },
		"PredecessorOn":   func() error { return m.PredecessorOn(st, keys, keys, vals, ok) },
		"BuildOn":         func() error { return m.BuildOn(st, keys, vals) },
		"DeleteRangeOn":   func() error { return m.DeleteRangeOn(st, keys, keys, counts) },
	}
}

// On methods must reject columns on another device, a missing stream, and a stream of another
// device.
func (s orderedSuite) onRefuses(t testing.TB, m erasedOrderedMap) {
	st, foreign := devicetest.NewStream(t, s.dev), devicetest.NewStream(t, devicetest.OpenCPU(t, 2))
	for desc, calls := range map[string]map[string]func() error{
		"no stream":                  s.submissions(t, m, nil, st),
		"a stream of another device": s.submissions(t, m, foreign, st),
		"columns on another device":  s.submissions(t, m, st, foreign),
	} {
		for name, call := range calls {
			if err := call(); !errors.Is(err, device.ErrInvalid) {
				t.Errorf("%s with %s: %v, want ErrInvalid", name, desc, err)
			}
		}
	}
	must(t, m.Sync(ctx()))
	if m.Len() != 0 {
		t.Errorf("Len = %d after batches that were refused", m.Len())
	}
}

// Lookups on a stream must see the changes submitted to it earlier, even if the caller has not
// waited for them.
func (s orderedSuite) onBehindChanges(t testing.TB, m erasedOrderedMap) {
	g, o, st := rng(), s.newModel(), devicetest.NewStream(t, s.dev)
	n := min(s.scale.Rows(), 2000)
	for round := range 4 {
		keys, vals := s.uniqueKeys(n, g), s.randomValues(n, g)
		before := len(o.keys)
		total := devicetest.Upload(t, st, []uint64{7, 7})
		put := m.PutOn
		if round%2 == 0 {
			put = m.BuildOn
		}
		must(t, put(st, s.keysOn(t, st, keys), s.valsOn(t, st, vals), total.Sub(0, 1)))
		o.put(keys, vals)
		x := s.seeks(g, o, 100, round)
		want := o.seekResults(x)
		s.seekDevice(t, m, st, x, len(want.up.Keys), len(want.down.Keys)).checkEqual(t,
			"after changes", x, want)
		lo, hi := []uint64{o.keys[n/3], o.keys[n/2]}, []uint64{o.keys[n/2], o.keys[2*n/3]}
		removed := make([]uint32, 2)
		out := newOutput(t, st, removed, devicetest.Upload[uint32])
		must(t, m.DeleteRangeOn(st, s.keysOn(t, st, lo), s.keysOn(t, st, hi), out.inner, total.Sub(1, 2)))
		out.download(t, st, removed)
		var sums [2]uint64
		must(t, total.CopyTo(ctx(), st, sums[:]))
		deleted := uint64(2*n/3 - n/3 + 1)
		if wanted := [2]uint64{7 + uint64(len(o.keys)-before), 7 + deleted}; sums != wanted || removed[0] != uint32(n/2-n/3+1) || uint64(removed[0]+removed[1]) != deleted {
			t.Fatalf("round %d: counts %v, want %v; removed %v", round, sums, wanted, removed)
		}
		o.remove(o.keysBetween(lo[0], hi[1], 0, false))
	}
	must(t, m.Sync(ctx()))
	s.checkSeeks(t, "in the end", m, o, s.seeks(g, o, 100, 0))
}
