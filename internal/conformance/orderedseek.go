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

// host asks in the forms for batches of the host.
func (s orderedSuite[K, V]) host(t testing.TB, m AnySeeker[K, V], x *seeks[K]) *answers[K, V] {
	t.Helper()
	a := newAnswers[K, V](x)
	for _, c := range a.calls(ctx(), m, x) {
		if _, err := c.ask(); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
	}
	return a
}

// newAnswers has room for answers, which is not empty.
func newAnswers[K weft.Key, V weft.Value](x *seeks[K]) *answers[K, V] {
	n := len(x.lo)
	return &answers[K, V]{
		first: newSome[K, V](n, x.stride()), last: newSome[K, V](n, x.stride()), counts: blanks[uint32](n), ranks: blanks[uint64](n),
		picked: newFound[K, V](n), next: newFound[K, V](n), previous: newFound[K, V](n),
	}
}

// seekCall is a lookup of an ordered map.
type seekCall struct {
	name string
	ask  func() (hits int, err error)
}

// calls are those for batches of the host, which write their answers to a.
func (a *answers[K, V]) calls(c context.Context, m hostSeeker[K, V], x *seeks[K]) []seekCall {
	counted := func(to *int, ask func() (int, error)) func() (int, error) {
		return func() (n int, err error) {
			*to, err = ask()
			return *to, err
		}
	}
	found := func(f *found[K, V], ask func(keys []K, vals []V, ok []bool) (int, error)) func() (int, error) {
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
		{"Select", found(&a.picked, func(keys []K, vals []V, ok []bool) (int, error) { return m.Select(c, x.ranks, keys, vals, ok) })},
		{"Successor", found(&a.next, func(keys []K, vals []V, ok []bool) (int, error) { return m.Successor(c, x.lo, keys, vals, ok) })},
		{"Predecessor", found(&a.previous, func(keys []K, vals []V, ok []bool) (int, error) { return m.Predecessor(c, x.lo, keys, vals, ok) })},
	}
}

// onDevice is memory of a suite's batch on a device, which comes back with its neighbors
// as they were.
type onDevice[T device.Elem] struct {
	all  device.Slice[T]
	mine device.Slice[T]
	was  []T
}

// margin is how many elements lie on either side of an output.
const margin = 3

func outputOn[T device.Elem](t testing.TB, st *device.Stream, s []T) onDevice[T] {
	was := slices.Concat(make([]T, margin), s, make([]T, margin))
	o := onDevice[T]{was: was}
	o.all = devicetest.Upload(t, st, was)
	o.mine = o.all.Sub(margin, margin+len(s))
	return o
}

// back copies an output to s.
func (o *onDevice[T]) back(t testing.TB, st *device.Stream, s []T) {
	t.Helper()
	now := slices.Clone(o.was)
	must(t, o.all.CopyTo(ctx(), st, now))
	if string(device.Bytes(now[:margin])) != string(device.Bytes(o.was[:margin])) ||
		string(device.Bytes(now[len(now)-margin:])) != string(device.Bytes(o.was[len(now)-margin:])) {
		t.Fatal("memory beside an output was written")
	}
	copy(s, now[margin:])
}

// on asks in the forms for batches on the device, whose ranges have room for as many pairs
// as there are.
func (s orderedSuite[K, V]) on(t testing.TB, m AnySeeker[K, V], st *device.Stream, x *seeks[K], up, down int) *answers[K, V] {
	t.Helper()
	n := len(x.lo)
	lo, hi, ranks := devicetest.Upload(t, st, x.lo), devicetest.Upload(t, st, x.hi), devicetest.Upload(t, st, x.ranks)
	a := &answers[K, V]{counts: blanks[uint32](n), ranks: blanks[uint64](n)}
	a.up = rowsOn(t, st, n, up, func(counts device.Slice[uint32], offsets device.Slice[uint64], keys device.Slice[K], vals device.Slice[V]) error {
		return m.RangeOn(st, lo, hi, x.limit, counts, offsets, keys, vals)
	})
	a.down = rowsOn(t, st, n, down, func(counts device.Slice[uint32], offsets device.Slice[uint64], keys device.Slice[K], vals device.Slice[V]) error {
		return m.RangeBackwardOn(st, lo, hi, x.limit, counts, offsets, keys, vals)
	})
	a.first = someOn(t, st, n, x.stride(), func(counts device.Slice[uint32], keys device.Slice[K], vals device.Slice[V], hits device.Slice[uint64]) error {
		return m.RangeFirstOn(st, lo, hi, x.stride(), counts, keys, vals, hits)
	})
	a.last = someOn(t, st, n, x.stride(), func(counts device.Slice[uint32], keys device.Slice[K], vals device.Slice[V], hits device.Slice[uint64]) error {
		return m.RangeLastOn(st, lo, hi, x.stride(), counts, keys, vals, hits)
	})
	counts, places := outputOn(t, st, a.counts), outputOn(t, st, a.ranks)
	must(t, errors.Join(m.CountOn(st, lo, hi, counts.mine), m.RankOn(st, lo, places.mine)))
	counts.back(t, st, a.counts)
	places.back(t, st, a.ranks)
	for _, c := range a.counts {
		a.total += int(c)
	}
	type call = func(keys device.Slice[K], vals device.Slice[V], ok device.Slice[bool], hits device.Slice[uint64]) error
	for f, ask := range map[*found[K, V]]call{
		&a.picked: func(keys device.Slice[K], vals device.Slice[V], ok device.Slice[bool], hits device.Slice[uint64]) error {
			return m.SelectOn(st, ranks, keys, vals, ok, hits)
		},
		&a.next: func(keys device.Slice[K], vals device.Slice[V], ok device.Slice[bool], hits device.Slice[uint64]) error {
			return m.SuccessorOn(st, lo, keys, vals, ok, hits)
		},
		&a.previous: func(keys device.Slice[K], vals device.Slice[V], ok device.Slice[bool], hits device.Slice[uint64]) error {
			return m.PredecessorOn(st, lo, keys, vals, ok, hits)
		},
	} {
		*f = foundOn(t, st, n, ask)
	}
	return a
}

func rowsOn[K weft.Key, V weft.Value](t testing.TB, st *device.Stream, n, room int, ask func(device.Slice[uint32], device.Slice[uint64], device.Slice[K], device.Slice[V]) error) (r weft.PairRows[K, V]) {
	t.Helper()
	counts, offsets := blanks[uint32](n), blanks[uint64](n+1)
	r.Keys, r.Vals = blanks[K](room), blanks[V](room)
	c, o, k, v := outputOn(t, st, counts), outputOn(t, st, offsets), outputOn(t, st, r.Keys), outputOn(t, st, r.Vals)
	must(t, ask(c.mine, o.mine, k.mine, v.mine))
	c.back(t, st, counts)
	o.back(t, st, offsets)
	k.back(t, st, r.Keys)
	v.back(t, st, r.Vals)
	for i, at := range offsets[:n] {
		if at+uint64(counts[i]) != offsets[i+1] {
			t.Fatalf("range %d of %d pairs is at %d, and the next one at %d", i, counts[i], at, offsets[i+1])
		}
	}
	r.Offsets = offsets
	return r
}

func someOn[K weft.Key, V weft.Value](t testing.TB, st *device.Stream, n, limit int, ask func(device.Slice[uint32], device.Slice[K], device.Slice[V], device.Slice[uint64]) error) some[K, V] {
	t.Helper()
	a := newSome[K, V](n, limit)
	c, k, v, h := outputOn(t, st, a.counts), outputOn(t, st, a.keys), outputOn(t, st, a.vals), outputOn(t, st, []uint64{1000})
	must(t, ask(c.mine, k.mine, v.mine, h.mine))
	c.back(t, st, a.counts)
	k.back(t, st, a.keys)
	v.back(t, st, a.vals)
	a.hits = hitsOn(t, st, h)
	return a
}

func foundOn[K weft.Key, V weft.Value](t testing.TB, st *device.Stream, n int, ask func(device.Slice[K], device.Slice[V], device.Slice[bool], device.Slice[uint64]) error) found[K, V] {
	t.Helper()
	f := newFound[K, V](n)
	k, v, ok, h := outputOn(t, st, f.keys), outputOn(t, st, f.vals), outputOn(t, st, f.ok), outputOn(t, st, []uint64{1000})
	must(t, ask(k.mine, v.mine, ok.mine, h.mine))
	k.back(t, st, f.keys)
	v.back(t, st, f.vals)
	ok.back(t, st, f.ok)
	f.hits = hitsOn(t, st, h)
	return f
}

// hitsOn is what was added to 1000.
func hitsOn(t testing.TB, st *device.Stream, h onDevice[uint64]) int {
	t.Helper()
	var hits [1]uint64
	h.back(t, st, hits[:])
	return int(hits[0]) - 1000
}

// same compares answers.
func (a *answers[K, V]) same(t testing.TB, where string, x *seeks[K], want *answers[K, V]) {
	t.Helper()
	for _, r := range []struct {
		what      string
		got, want *weft.PairRows[K, V]
	}{{"Range", &a.up, &want.up}, {"RangeBackward", &a.down, &want.down}} {
		if !slices.Equal(r.got.Offsets, r.want.Offsets) {
			t.Fatalf("%s: %s with limit %d: rows %v, want %v", where, r.what, x.limit, r.got.Offsets, r.want.Offsets)
		}
		for i := range r.want.Len() {
			keys, vals := r.got.Row(i)
			if k, v := r.want.Row(i); !slices.Equal(keys, k) || !sameValues(vals, v) {
				t.Fatalf("%s: %s from %#x to %#x, limit %d: keys %#x, want %#x; or other values", where, r.what, x.lo[i], x.hi[i], x.limit, keys, k)
			}
		}
	}
	for _, r := range []struct {
		what      string
		got, want *some[K, V]
	}{{"RangeFirst", &a.first, &want.first}, {"RangeLast", &a.last, &want.last}} {
		if !slices.Equal(r.got.counts, r.want.counts) || r.got.hits != r.want.hits {
			t.Fatalf("%s: %s with limit %d: %d hits, want %d; counts %v, want %v", where, r.what, x.stride(), r.got.hits, r.want.hits, r.got.counts, r.want.counts)
		}
		for i, n := range r.want.counts {
			lo, hi := i*x.stride(), i*x.stride()+int(n)
			if !slices.Equal(r.got.keys[lo:hi], r.want.keys[lo:hi]) || !sameValues(r.got.vals[lo:hi], r.want.vals[lo:hi]) {
				t.Fatalf("%s: %s from %#x to %#x, limit %d: keys %#x, want %#x; or other values", where, r.what, x.lo[i], x.hi[i], x.stride(), r.got.keys[lo:hi], r.want.keys[lo:hi])
			}
		}
	}
	if !slices.Equal(a.counts, want.counts) || a.total != want.total {
		t.Fatalf("%s: Count: %d pairs, want %d: %v, want %v", where, a.total, want.total, a.counts, want.counts)
	}
	if !slices.Equal(a.ranks, want.ranks) {
		t.Fatalf("%s: Rank: %v, want %v", where, a.ranks, want.ranks)
	}
	a.picked.same(t, where+": Select", x.ranks, &want.picked)
	keys := make([]uint64, len(x.lo))
	for i, k := range x.lo {
		keys[i] = toBits(k)
	}
	a.next.same(t, where+": Successor", keys, &want.next)
	a.previous.same(t, where+": Predecessor", keys, &want.previous)
}

func (f *found[K, V]) same(t testing.TB, what string, of []uint64, want *found[K, V]) {
	t.Helper()
	for i := range want.keys {
		if f.keys[i] != want.keys[i] || toBits(f.vals[i]) != toBits(want.vals[i]) || f.ok[i] != want.ok[i] {
			t.Fatalf("%s of %#x: %#x %#x %v, want %#x %#x %v", what, of[i], f.keys[i], toBits(f.vals[i]), f.ok[i], want.keys[i], toBits(want.vals[i]), want.ok[i])
		}
	}
	if f.hits != want.hits {
		t.Fatalf("%s: %d pairs found, want %d", what, f.hits, want.hits)
	}
}

// answers wants a map, or a snapshot, to answer as its model does, in both forms, and to
// have its ends.
func (s orderedSuite[K, V]) answers(t testing.TB, where string, m AnySeeker[K, V], o *orderedModel[K, V], x *seeks[K]) {
	t.Helper()
	want := o.answers(x)
	s.host(t, m, x).same(t, where, x, want)
	st := devicetest.NewStream(t, s.dev)
	s.on(t, m, st, x, len(want.up.Keys), len(want.down.Keys)).same(t, where+", on the device", x, want)
	s.ends(t, where, m, o)
}

func (s orderedSuite[K, V]) ends(t testing.TB, where string, m AnySeeker[K, V], o *orderedModel[K, V]) {
	t.Helper()
	if m.Len() != len(o.keys) {
		t.Fatalf("%s: Len = %d, want %d", where, m.Len(), len(o.keys))
	}
	k, v, ok, err := m.Min(ctx())
	must(t, err)
	if wk, wv, wok := o.at(0); k != wk || toBits(v) != toBits(wv) || ok != wok {
		t.Fatalf("%s: Min is %#x %#x %v, want %#x %#x %v", where, k, toBits(v), ok, wk, toBits(wv), wok)
	}
	k, v, ok, err = m.Max(ctx())
	must(t, err)
	if wk, wv, wok := o.at(len(o.keys) - 1); k != wk || toBits(v) != toBits(wv) || ok != wok {
		t.Fatalf("%s: Max is %#x %#x %v, want %#x %#x %v", where, k, toBits(v), ok, wk, toBits(wv), wok)
	}
}

// filled is a map with n random pairs, and its model.
func (s orderedSuite[K, V]) filled(t testing.TB, m AnyOrderedMap[K, V], rng *rand.Rand, n int) *orderedModel[K, V] {
	t.Helper()
	keys := unique[K](n, rng)
	vals := s.values(n, rng)
	s.put(t, m, keys, vals, n)
	o := newModel[K, V]()
	o.put(keys, vals)
	return o
}

func (s orderedSuite[K, V]) values(n int, rng *rand.Rand) []V {
	return mapSuite[K, V]{}.values(n, rng)
}

func (s orderedSuite[K, V]) put(t testing.TB, m AnyOrderedMap[K, V], keys []K, vals []V, n int) {
	t.Helper()
	mapSuite[K, V]{}.put(t, m, keys, vals, n)
}

// questions is the number of seeks of a case.
func (s orderedSuite[K, V]) questions() int { return min(s.scale.Rows(), 3000) / 3 }

func (s orderedSuite[K, V]) empty(t testing.TB, m AnyOrderedMap[K, V]) {
	o, g := newModel[K, V](), rng()
	s.answers(t, "an empty map", m, o, s.seeks(g, o, 40, 3))
	s.answers(t, "no questions", m, o, &seeks[K]{})
	s.inOrder(t, m, o)
	n, err := m.DeleteRange(ctx(), []K{0}, []K{100}, nil)
	Want(t, "DeleteRange of an empty map", n, 0, err)
	n, err = m.Build(ctx(), nil, nil)
	Want(t, "Build of nothing", n, 0, err)
}

func (s orderedSuite[K, V]) seek(t testing.TB, m AnyOrderedMap[K, V]) {
	g := rng()
	o := s.filled(t, m, g, s.scale.Rows())
	for _, limit := range []int{0, 1, 3, 40} {
		s.answers(t, "random pairs", m, o, s.seeks(g, o, s.questions(), limit))
	}
	for _, n := range []int{0, 1, 2, 31, 32, 33, 257} {
		s.answers(t, "a small batch", m, o, s.seeks(g, o, n, 2))
	}
}

// Keys that implementations like to reserve are in ranges like all others, and may be
// their ends.
func (s orderedSuite[K, V]) everyKey(t testing.TB, m AnyOrderedMap[K, V]) {
	o, g := newModel[K, V](), rng()
	keys := distinct(odd[K]())
	least, most := extremes[K]()
	keys = distinct(append(keys, least, most, least+1, most-1))
	for i := range keys {
		vals := s.values(1, g)
		s.put(t, m, keys[i:i+1], vals, 1)
		o.put(keys[i:i+1], vals)
		s.answers(t, "odd keys", m, o, s.seeks(g, o, 24, i%3))
	}
	x := &seeks[K]{}
	for _, lo := range keys {
		for _, hi := range keys {
			x.lo, x.hi, x.ranks = append(x.lo, lo), append(x.hi, hi), append(x.ranks, uint64(len(x.lo)))
		}
	}
	s.answers(t, "from and to odd keys", m, o, x)
	s.inOrder(t, m, o)
}

// Keys side by side, of which some are missing.
func (s orderedSuite[K, V]) dense(t testing.TB, m AnyOrderedMap[K, V]) {
	n, g, o := min(s.scale.Rows(), 4000), rng(), newModel[K, V]()
	keys := Sequence[K](-n/2, n)
	least, _ := extremes[K]()
	keys = append(keys, Sequence[K](int(least), 50)...)
	keys = distinct(keys)
	vals := s.values(len(keys), g)
	s.put(t, m, keys, vals, len(keys))
	o.put(keys, vals)
	gone := keys[n/3 : n/3+n/10]
	if _, err := m.Delete(ctx(), gone, nil); err != nil {
		t.Fatal(err)
	}
	o.remove(gone)
	for _, limit := range []int{0, 7} {
		s.answers(t, "dense keys", m, o, s.seeks(g, o, s.questions(), limit))
	}
}

// Batches of all kinds follow each other.
func (s orderedSuite[K, V]) churn(t testing.TB, m AnyOrderedMap[K, V]) {
	n, g, o := min(s.scale.Rows(), 3000)/3, rng(), newModel[K, V]()
	pool := unique[K](2*n, g)
	some := func() []K {
		keys := make([]K, n)
		for i := range keys {
			keys[i] = pool[g.IntN(len(pool))]
		}
		return keys
	}
	for round := range 12 {
		keys, vals := some(), s.values(n, g)
		_, err := m.Put(ctx(), keys, vals)
		must(t, err)
		o.put(keys, vals)
		gone := some()[:n/3]
		_, err = m.Delete(ctx(), gone, nil)
		must(t, err)
		o.remove(gone)
		if round%3 == 2 {
			lo, hi := slices.Min(gone[:5]), slices.Min(gone[5:12])
			_, err := m.DeleteRange(ctx(), []K{lo}, []K{hi}, nil)
			must(t, err)
			o.remove(o.between(lo, hi, 0, false))
		}
		s.answers(t, "after some batches", m, o, s.seeks(g, o, 60, round%4))
	}
	s.inOrder(t, m, o)
}

// What is optional may be left out.
func (s orderedSuite[K, V]) nilOutputs(t testing.TB, m AnyOrderedMap[K, V]) {
	g := rng()
	o := s.filled(t, m, g, 300)
	x := s.seeks(g, o, 50, 0)
	want := o.answers(x)
	keys := make([]K, 50)
	n, err := m.Select(ctx(), x.ranks, keys, nil, nil)
	Want(t, "Select", n, want.picked.hits, err)
	if !slices.Equal(keys, want.picked.keys) {
		t.Errorf("Select without values: %v, want %v", keys, want.picked.keys)
	}
	n, err = m.Successor(ctx(), x.lo, keys, nil, nil)
	Want(t, "Successor", n, want.next.hits, err)
	n, err = m.Predecessor(ctx(), x.lo, keys, nil, nil)
	Want(t, "Predecessor", n, want.previous.hits, err)
	n, err = m.Count(ctx(), x.lo, x.hi, nil)
	Want(t, "Count", n, want.total, err)
	st := devicetest.NewStream(t, s.dev)
	lo, ranks, to := devicetest.Upload(t, st, x.lo), devicetest.Upload(t, st, x.ranks), devicetest.Upload(t, st, keys)
	must(t, m.SelectOn(st, ranks, to, device.Slice[V]{}, device.Slice[bool]{}))
	must(t, m.PredecessorOn(st, lo, to, device.Slice[V]{}, device.Slice[bool]{}))
	must(t, m.SuccessorOn(st, lo, to, device.Slice[V]{}, device.Slice[bool]{}))
	must(t, to.CopyTo(ctx(), st, keys))
	if !slices.Equal(keys, want.next.keys) {
		t.Errorf("SuccessorOn without values: %v, want %v", keys, want.next.keys)
	}
	n, err = m.DeleteRange(ctx(), x.lo[:1], x.hi[:1], nil)
	Want(t, "DeleteRange", n, int(want.counts[0]), err)
}

func (s orderedSuite[K, V]) lengths(t testing.TB, m AnyOrderedMap[K, V]) {
	k2, k3, v2, v3, c2, r2, r3 := make([]K, 2), make([]K, 3), make([]V, 2), make([]V, 3), make([]uint32, 2), make([]uint64, 2), make([]uint64, 3)
	var rows weft.PairRows[K, V]
	mustPanic(t, "Range", func() { m.Range(ctx(), k3, k2, 0, &rows) })
	mustPanic(t, "RangeBackward", func() { m.RangeBackward(ctx(), k2, k3, 0, &rows) })
	mustPanic(t, "RangeFirst counts", func() { m.RangeFirst(ctx(), k3, k3, 1, c2, k3, v3) })
	mustPanic(t, "RangeFirst keys", func() { m.RangeFirst(ctx(), k2, k2, 1, c2, k3, v2) })
	mustPanic(t, "RangeFirst vals", func() { m.RangeFirst(ctx(), k2, k2, 1, c2, k2, v3) })
	mustPanic(t, "RangeLast keys", func() { m.RangeLast(ctx(), k2, k2, 2, c2, k3, make([]V, 4)) })
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

func (s orderedSuite[K, V]) limits(t testing.TB, m AnyOrderedMap[K, V]) {
	k, v, c := make([]K, 2), make([]V, 2), make([]uint32, 2)
	rows := weft.PairRows[K, V]{Offsets: []uint64{0, 0}}
	st := devicetest.NewStream(t, s.dev)
	on, vals, counts := devicetest.Upload(t, st, k), devicetest.Upload(t, st, v), devicetest.Upload(t, st, c)
	offsets := devicetest.Upload(t, st, make([]uint64, 3))
	_, none := m.RangeFirst(ctx(), k, k, 0, c, k, v)
	_, negative := m.RangeLast(ctx(), k, k, -1, c, k, v)
	for what, err := range map[string]error{
		"Range":           m.Range(ctx(), k, k, -1, &rows),
		"RangeBackward":   m.RangeBackward(ctx(), k, k, -5, &rows),
		"RangeFirst":      none,
		"RangeLast":       negative,
		"RangeOn":         m.RangeOn(st, on, on, -1, counts, offsets, on, vals),
		"RangeBackwardOn": m.RangeBackwardOn(st, on, on, -1, counts, offsets, on, vals),
		"RangeFirstOn":    m.RangeFirstOn(st, on, on, 0, counts, on, vals),
		"RangeLastOn":     m.RangeLastOn(st, on, on, -1, counts, on, vals),
	} {
		if !errors.Is(err, device.ErrInvalid) {
			t.Errorf("%s with a limit that makes no sense: %v", what, err)
		}
	}
	if rows.Len() != 1 {
		t.Errorf("there are %d rows after calls that are refused", rows.Len())
	}
	const huge = 1 << 62 // 4 rows of it have 2^64 pairs, and none of 4 bytes has 2^64 bytes
	hits, err := m.RangeFirst(ctx(), nil, nil, huge, nil, nil, nil)
	Want(t, "RangeFirst of no range, with a huge limit", hits, 0, err)
	if _, more := rows.Next(0, -1, 0); more {
		t.Error("a range goes on behind a negative limit")
	}
	if _, more := rows.NextBackward(0, -1, 0); more {
		t.Error("a range goes on backward behind a negative limit")
	}
	// Limits that a number of 32 bits does not have, nor one of 64 bits if a place is added, are none.
	o := newModel[K, V]()
	s.fill(t, m, o, []K{1, 2, 3, 4})
	for _, limit := range []int{math.MaxUint32, math.MaxUint32 + 1, math.MaxInt} {
		for _, backward := range []bool{false, true} {
			rows.Reset()
			find := m.Range
			if backward {
				find = m.RangeBackward
			}
			must(t, find(ctx(), []K{2, 1}, []K{4, 3}, limit, &rows))
			want := [][]K{o.between(2, 4, 0, backward), o.between(1, 3, 0, backward)}
			if first, _ := rows.Row(0); !slices.Equal(first, want[0]) || !slices.Equal(rows.Keys[rows.Offsets[1]:], want[1]) {
				t.Errorf("with limit %d, backward: %v, there are %v at %v, want %v", limit, backward, rows.Keys, rows.Offsets, want)
			}
		}
		must(t, m.RangeOn(st, on, on, limit, counts, offsets, on.Sub(0, 0), vals.Sub(0, 0))) // of [0, 0] twice
	}
	mustPanic(t, "RangeLast of more than an int counts", func() { _, _ = m.RangeLast(ctx(), make([]K, 4), make([]K, 4), huge, make([]uint32, 4), nil, nil) })
}

// calls are all methods that seek, for n of what they take.
func (s orderedSuite[K, V]) calls(c context.Context, m AnySeeker[K, V], n int) map[string]func() error {
	keys, to, vals, counts, ranks := make([]K, n), make([]K, n), make([]V, n), make([]uint32, n), make([]uint64, n)
	uncounted := func(_ int, err error) error { return err }
	return map[string]func() error{
		"Get":      func() error { return uncounted(m.Get(c, keys, vals, nil)) },
		"Contains": func() error { return uncounted(m.Contains(c, keys, nil)) },
		"Range":    func() error { return m.Range(c, keys, keys, 0, &weft.PairRows[K, V]{}) },
		"RangeBackward": func() error {
			return m.RangeBackward(c, keys, keys, 2, &weft.PairRows[K, V]{})
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
		"Between":     func() error { return lastOf(m.Between(c, 0, 5)) },
		"Pages":       func() error { return lastOf(m.Pages(c)) },
	}
}

// lastOf is the error that an iteration ends with.
func lastOf[P any](pages iter.Seq2[P, error]) (err error) {
	for _, err = range pages {
		continue
	}
	return err
}

// changes are the methods that only ordered maps have, and that change something or hold it.
func (s orderedSuite[K, V]) changes(t testing.TB, c context.Context, m AnyOrderedMap[K, V], n int) map[string]func() error {
	keys, vals := make([]K, n), make([]V, n)
	return map[string]func() error{
		"Build":       func() error { _, err := m.Build(c, keys, vals); return err },
		"DeleteRange": func() error { _, err := m.DeleteRange(c, keys, keys, nil); return err },
		"Snapshot":    func() error { _, err := snapshotOf[K, V](t, c, m); return err },
	}
}

// A context that has ended ends all calls, and nothing is done.
func (s orderedSuite[K, V]) cancelled(t testing.TB, m AnyOrderedMap[K, V]) {
	g := rng()
	o := s.filled(t, m, g, 300)
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
	s.answers(t, "after calls that were cancelled", m, o, s.seeks(g, o, 30, 2))
}

// A map that has been closed says so, in all calls.
func (s orderedSuite[K, V]) closed(t testing.TB, _ AnyOrderedMap[K, V]) {
	m := s.open(t, s.dev)
	s.filled(t, m, rng(), 20)
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

// submissions are all methods for batches on the device that only ordered maps have, of
// columns that lie where the stream of is.
func (s orderedSuite[K, V]) submissions(t testing.TB, m AnyOrderedMap[K, V], st, of *device.Stream) map[string]func() error {
	const n = 4
	keys, vals, ok := devicetest.Upload(t, of, make([]K, n)), devicetest.Upload(t, of, make([]V, n)), devicetest.Upload(t, of, make([]bool, n))
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

// What lies on another device is refused, and so are a missing stream and one of another
// device.
func (s orderedSuite[K, V]) onRefuses(t testing.TB, m AnyOrderedMap[K, V]) {
	st, far := devicetest.NewStream(t, s.dev), devicetest.NewStream(t, devicetest.OpenCPU(t, 2))
	for what, calls := range map[string]map[string]func() error{
		"no stream":                  s.submissions(t, m, nil, st),
		"a stream of another device": s.submissions(t, m, far, st),
		"columns on another device":  s.submissions(t, m, st, far),
	} {
		for name, call := range calls {
			if err := call(); !errors.Is(err, device.ErrInvalid) {
				t.Errorf("%s with %s: %v, want ErrInvalid", name, what, err)
			}
		}
	}
	must(t, m.Sync(ctx()))
	if m.Len() != 0 {
		t.Errorf("Len = %d after batches that were refused", m.Len())
	}
}

// Lookups on a stream see the changes that were submitted to it before, which nobody has
// waited for.
func (s orderedSuite[K, V]) onBehindChanges(t testing.TB, m AnyOrderedMap[K, V]) {
	g, o, st := rng(), newModel[K, V](), devicetest.NewStream(t, s.dev)
	n := min(s.scale.Rows(), 2000)
	for round := range 4 {
		keys, vals := unique[K](n, g), s.values(n, g)
		before := len(o.keys)
		total := devicetest.Upload(t, st, []uint64{7, 7})
		put := m.PutOn
		if round%2 == 0 {
			put = m.BuildOn
		}
		must(t, put(st, devicetest.Upload(t, st, keys), devicetest.Upload(t, st, vals), total.Sub(0, 1)))
		o.put(keys, vals)
		x := s.seeks(g, o, 100, round)
		want := o.answers(x)
		s.on(t, m, st, x, len(want.up.Keys), len(want.down.Keys)).same(t, "behind changes", x, want)
		lo, hi := []K{o.keys[n/3], o.keys[n/2]}, []K{o.keys[n/2], o.keys[2*n/3]}
		removed := make([]uint32, 2)
		out := outputOn(t, st, removed)
		must(t, m.DeleteRangeOn(st, devicetest.Upload(t, st, lo), devicetest.Upload(t, st, hi), out.mine, total.Sub(1, 2)))
		out.back(t, st, removed)
		var sums [2]uint64
		must(t, total.CopyTo(ctx(), st, sums[:]))
		gone := uint64(2*n/3 - n/3 + 1)
		if wanted := [2]uint64{7 + uint64(len(o.keys)-before), 7 + gone}; sums != wanted || removed[0] != uint32(n/2-n/3+1) || uint64(removed[0]+removed[1]) != gone {
			t.Fatalf("round %d: counts %v, want %v; removed %v", round, sums, wanted, removed)
		}
		o.remove(o.between(lo[0], hi[1], 0, false))
	}
	must(t, m.Sync(ctx()))
	s.answers(t, "in the end", m, o, s.seeks(g, o, 100, 0))
}
