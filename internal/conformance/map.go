package conformance

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/weftgo/weft"
)

// Map runs the suite for maps. open makes an empty map that grows by itself;
// the suite closes it.
func Map[K weft.Key, V weft.Value](t *testing.T, scale Scale, open func(t testing.TB) weft.Map[K, V]) {
	s := mapSuite[K, V]{scale}
	for _, test := range []struct {
		name string
		run  func(*testing.T, weft.Map[K, V])
	}{
		{"Empty", s.empty},
		{"RoundTrip", s.roundTrip},
		{"BatchSizes", s.batchSizes},
		{"EveryKeyAndValue", s.everyKeyAndValue},
		{"PutReplaces", s.putReplaces},
		{"PutNewKeeps", s.putNewKeeps},
		{"Delete", s.delete},
		{"DeleteThenInsertIsOneCopy", s.deleteThenInsert},
		{"LastPutWins", s.lastPutWins},
		{"FirstPutNewWins", s.firstPutNewWins},
		{"FirstDeleteReports", s.firstDeleteReports},
		{"DuplicatesAcrossOldAndNew", s.duplicatesAcrossOldAndNew},
		{"AllKeysEqual", s.allKeysEqual},
		{"TwoKeysAlternate", s.twoKeysAlternate},
		{"Apply", s.apply},
		{"ApplyAnswers", s.applyAnswers},
		{"GrowsAndShrinks", s.growsAndShrinks},
		{"Churn", s.churn},
		{"All", s.all},
		{"AllWhileChanging", s.allWhileChanging},
		{"AllStops", s.allStops},
		{"Clear", s.clear},
		{"Lengths", s.lengths},
		{"NilOutputs", s.nilOutputs},
		{"Cancelled", s.cancelled},
		{"Closed", s.closed},
		{"Concurrent", s.concurrent},
		{"AgainstModel", s.againstModel},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := open(t)
			defer func() {
				check(t, m)
				must(t, m.Close())
			}()
			test.run(t, m)
		})
	}
}

type mapSuite[K weft.Key, V weft.Value] struct{ scale Scale }

func (s mapSuite[K, V]) rng() *rand.Rand { return rand.New(rand.NewPCG(7, 11)) }

func (s mapSuite[K, V]) values(n int, rng *rand.Rand) []V {
	vals := make([]V, n)
	for i := range vals {
		vals[i] = random[V](rng)
	}
	return vals
}

// put inserts and wants to be told that n keys were new.
func (s mapSuite[K, V]) put(t testing.TB, m weft.Map[K, V], keys []K, vals []V, n int) {
	t.Helper()
	got, err := m.Put(ctx(), keys, vals)
	must(t, err)
	if got != n {
		t.Fatalf("Put inserted %d of %d keys, want %d", got, len(keys), n)
	}
}

// has wants keys to be there with values.
func (s mapSuite[K, V]) has(t testing.TB, m weft.Map[K, V], keys []K, vals []V) {
	t.Helper()
	got, found := make([]V, len(keys)), make([]bool, len(keys))
	hits, err := m.Get(ctx(), keys, got, found)
	must(t, err)
	if hits != len(keys) {
		t.Errorf("Get found %d of %d keys", hits, len(keys))
	}
	for i, k := range keys {
		if !found[i] || toBits(got[i]) != toBits(vals[i]) {
			t.Fatalf("Get(%#x), number %d: %#x %v, want %#x", k, i, toBits(got[i]), found[i], toBits(vals[i]))
		}
	}
	clear(found)
	hits, err = m.Contains(ctx(), keys, found)
	must(t, err)
	if hits != len(keys) || slices.Contains(found, false) {
		t.Errorf("Contains found %d of %d keys", hits, len(keys))
	}
}

// lacks wants keys to be absent.
func (s mapSuite[K, V]) lacks(t testing.TB, m weft.Map[K, V], keys []K) {
	t.Helper()
	vals, found := make([]V, len(keys)), make([]bool, len(keys))
	for i := range vals {
		vals[i], found[i] = fromBits[V](^uint64(0)), true
	}
	hits, err := m.Get(ctx(), keys, vals, found)
	must(t, err)
	if hits != 0 {
		t.Errorf("Get found %d of %d absent keys", hits, len(keys))
	}
	for i, k := range keys {
		if found[i] || toBits(vals[i]) != 0 {
			t.Fatalf("Get(%#x) of an absent key: %#x %v, want zero", k, toBits(vals[i]), found[i])
		}
	}
}

func (s mapSuite[K, V]) length(t testing.TB, m weft.Map[K, V], n int) {
	t.Helper()
	if got := m.Len(); got != n {
		t.Fatalf("Len = %d, want %d", got, n)
	}
}

func (s mapSuite[K, V]) empty(t *testing.T, m weft.Map[K, V]) {
	s.length(t, m, 0)
	s.lacks(t, m, unique[K](100, s.rng()))
	s.lacks(t, m, odd[K]())
	n, err := m.Delete(ctx(), odd[K](), nil)
	if n != 0 || err != nil {
		t.Errorf("Delete from an empty map: %d, %v", n, err)
	}
	for k, v := range m.All() {
		t.Errorf("All of an empty map has %v, %v", k, v)
	}
	must(t, m.Err())
	must(t, m.Clear(ctx()))
}

func (s mapSuite[K, V]) roundTrip(t *testing.T, m weft.Map[K, V]) {
	rng, n := s.rng(), s.scale.Rows()
	keys := unique[K](2*n, rng)
	vals := s.values(n, rng)
	s.put(t, m, keys[:n], vals, n)
	s.length(t, m, n)
	s.has(t, m, keys[:n], vals)
	s.lacks(t, m, keys[n:])
}

// Sizes around the widths of warps, blocks, groups and pieces.
func (s mapSuite[K, V]) batchSizes(t *testing.T, m weft.Map[K, V]) {
	rng, total := s.rng(), 0
	for _, n := range []int{0, 1, 2, 7, 31, 32, 33, 63, 64, 65, 255, 256, 257, 1000} {
		keys := unique[K](n, rng)
		vals := s.values(n, rng)
		s.put(t, m, keys, vals, n)
		s.has(t, m, keys, vals)
		total += n
	}
	s.length(t, m, total)
}

func (s mapSuite[K, V]) everyKeyAndValue(t *testing.T, m weft.Map[K, V]) {
	keys := slices.Compact(slices.Sorted(slices.Values(odd[K]())))
	for round, v := range odd[V]() {
		vals := slices.Repeat([]V{v}, len(keys))
		fresh := 0
		if round == 0 {
			fresh = len(keys)
		}
		s.put(t, m, keys, vals, fresh)
		s.has(t, m, keys, vals)
		got := map[K]uint64{}
		for k, v := range m.All() {
			got[k] = toBits(v)
		}
		if len(got) != len(keys) {
			t.Fatalf("All has %d keys, want %d", len(got), len(keys))
		}
	}
	for i, k := range keys { // one at a time: the others stay
		n, err := m.Delete(ctx(), []K{k}, nil)
		must(t, err)
		if n != 1 {
			t.Fatalf("Delete(%#x) = %d", k, n)
		}
		s.lacks(t, m, keys[:i+1])
		s.length(t, m, len(keys)-i-1)
	}
	vals := slices.Repeat([]V{fromBits[V](5)}, len(keys))
	s.put(t, m, keys, vals, len(keys))
	s.has(t, m, keys, vals)
}

func (s mapSuite[K, V]) putReplaces(t *testing.T, m weft.Map[K, V]) {
	rng, n := s.rng(), s.scale.Rows()
	keys := unique[K](n, rng)
	s.put(t, m, keys, s.values(n, rng), n)
	vals := s.values(n, rng)
	s.put(t, m, keys, vals, 0)
	s.length(t, m, n)
	s.has(t, m, keys, vals)
}

func (s mapSuite[K, V]) putNewKeeps(t *testing.T, m weft.Map[K, V]) {
	rng, n := s.rng(), s.scale.Rows()
	keys, vals := unique[K](2*n, rng), s.values(n, rng)
	s.put(t, m, keys[:n], vals, n)
	ok := make([]bool, 2*n)
	got, err := m.PutNew(ctx(), keys, s.values(2*n, rng), ok)
	must(t, err)
	if got != n {
		t.Errorf("PutNew inserted %d, want %d", got, n)
	}
	for i := range ok {
		if ok[i] != (i >= n) {
			t.Fatalf("PutNew of key %d reports %v", i, ok[i])
		}
	}
	s.has(t, m, keys[:n], vals)
	s.length(t, m, 2*n)
}

func (s mapSuite[K, V]) delete(t *testing.T, m weft.Map[K, V]) {
	rng, n := s.rng(), s.scale.Rows()
	keys, vals := unique[K](2*n, rng), s.values(n, rng)
	s.put(t, m, keys[:n], vals, n)
	deleted := make([]bool, n)
	got, err := m.Delete(ctx(), keys[n/2:n/2+n], deleted) // half of them are there
	must(t, err)
	if want := n - n/2; got != want {
		t.Errorf("Delete removed %d, want %d", got, want)
	}
	for i := range deleted {
		if deleted[i] != (n/2+i < n) {
			t.Fatalf("Delete of key %d reports %v", n/2+i, deleted[i])
		}
	}
	s.has(t, m, keys[:n/2], vals[:n/2])
	s.lacks(t, m, keys[n/2:])
	s.length(t, m, n/2)
}

// Peers left two copies of a key here (cuCollections #606, SlabHash #27).
func (s mapSuite[K, V]) deleteThenInsert(t *testing.T, m weft.Map[K, V]) {
	rng, n := s.rng(), 200
	keys := unique[K](n, rng)
	for round := range 5 {
		vals := s.values(n, rng)
		s.put(t, m, keys, vals, n)
		s.has(t, m, keys, vals)
		// Make room in front of the second half, then put it again.
		if _, err := m.Delete(ctx(), keys[:n/2], nil); err != nil {
			t.Fatal(err)
		}
		vals = s.values(n, rng)
		s.put(t, m, keys[n/2:], vals[n/2:], 0)
		s.length(t, m, n-n/2)
		got, err := m.Delete(ctx(), keys, nil)
		must(t, err)
		if got != n-n/2 {
			t.Fatalf("round %d: Delete removed %d, want %d", round, got, n-n/2)
		}
		s.lacks(t, m, keys)
		s.length(t, m, 0)
	}
}

// withDuplicates is a batch of n operations on about n/4 keys.
func (s mapSuite[K, V]) withDuplicates(n int, rng *rand.Rand) ([]K, []V) {
	pool := unique[K](n/4+1, rng)
	keys := make([]K, n)
	for i := range keys {
		keys[i] = pool[rng.IntN(len(pool))]
	}
	return keys, s.values(n, rng)
}

func (s mapSuite[K, V]) lastPutWins(t *testing.T, m weft.Map[K, V]) {
	rng := s.rng()
	last := map[K]V{}
	for range 3 {
		before := len(last)
		keys, vals := s.withDuplicates(s.scale.Rows(), rng)
		for i, k := range keys {
			last[k] = vals[i]
		}
		s.put(t, m, keys, vals, len(last)-before)
		s.length(t, m, len(last))
		for i, k := range keys {
			vals[i] = last[k]
		}
		s.has(t, m, keys, vals)
	}
}

func (s mapSuite[K, V]) firstPutNewWins(t *testing.T, m weft.Map[K, V]) {
	rng := s.rng()
	keys, vals := s.withDuplicates(s.scale.Rows(), rng)
	first := map[K]V{}
	want := make([]bool, len(keys))
	for i, k := range keys {
		if _, ok := first[k]; !ok {
			first[k], want[i] = vals[i], true
		}
	}
	ok := make([]bool, len(keys))
	n, err := m.PutNew(ctx(), keys, vals, ok)
	must(t, err)
	if n != len(first) || !slices.Equal(ok, want) {
		t.Errorf("PutNew inserted %d, want %d; flags of the first: %v", n, len(first), slices.Equal(ok, want))
	}
	for i, k := range keys {
		vals[i] = first[k]
	}
	s.has(t, m, keys, vals)
}

func (s mapSuite[K, V]) firstDeleteReports(t *testing.T, m weft.Map[K, V]) {
	rng := s.rng()
	keys, vals := s.withDuplicates(s.scale.Rows(), rng)
	if _, err := m.Put(ctx(), keys[:len(keys)/3], vals[:len(keys)/3]); err != nil {
		t.Fatal(err)
	}
	left := map[K]bool{}
	for _, k := range keys[:len(keys)/3] {
		left[k] = true
	}
	want, n := make([]bool, len(keys)), len(left)
	for i, k := range keys {
		want[i] = left[k]
		delete(left, k)
	}
	deleted := make([]bool, len(keys))
	got, err := m.Delete(ctx(), keys, deleted)
	must(t, err)
	if got != n || !slices.Equal(deleted, want) {
		t.Errorf("Delete removed %d, want %d; flags of the first: %v", got, n, slices.Equal(deleted, want))
	}
	s.length(t, m, 0)
}

func (s mapSuite[K, V]) duplicatesAcrossOldAndNew(t *testing.T, m weft.Map[K, V]) {
	rng := s.rng()
	model := map[K]V{}
	pool := unique[K](64, rng)
	for range 20 {
		keys, vals := make([]K, 200), s.values(200, rng)
		for i := range keys {
			keys[i] = pool[rng.IntN(len(pool))]
		}
		fresh := 0
		for i, k := range keys {
			if _, ok := model[k]; !ok {
				fresh++
			}
			model[k] = vals[i]
		}
		s.put(t, m, keys, vals, fresh)
		s.equals(t, m, model)
		gone := pool[rng.IntN(len(pool))]
		delete(model, gone)
		if _, err := m.Delete(ctx(), []K{gone, gone}, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// equals wants a map to hold exactly what a model holds.
func (s mapSuite[K, V]) equals(t testing.TB, m weft.Map[K, V], model map[K]V) {
	t.Helper()
	keys := slices.Collect(maps.Keys(model))
	vals := make([]V, len(keys))
	for i, k := range keys {
		vals[i] = model[k]
	}
	s.has(t, m, keys, vals)
	s.length(t, m, len(model))
	seen := 0
	for k, v := range m.All() {
		if want, ok := model[k]; !ok || toBits(v) != toBits(want) {
			t.Fatalf("All has %#x: %#x, want %#x %v", k, toBits(v), toBits(want), ok)
		}
		seen++
	}
	must(t, m.Err())
	if seen != len(model) {
		t.Fatalf("All has %d pairs, want %d", seen, len(model))
	}
}

func (s mapSuite[K, V]) allKeysEqual(t *testing.T, m weft.Map[K, V]) {
	rng, n := s.rng(), s.scale.Rows()
	keys := slices.Repeat([]K{42}, n)
	vals := s.values(n, rng)
	s.put(t, m, keys, vals, 1)
	s.has(t, m, keys[:1], vals[n-1:])
	s.put(t, m, keys, vals, 0)
	s.length(t, m, 1)
	got, err := m.Delete(ctx(), keys, nil)
	if got != 1 || err != nil {
		t.Errorf("Delete of one key %d times: %d, %v", n, got, err)
	}
}

func (s mapSuite[K, V]) twoKeysAlternate(t *testing.T, m weft.Map[K, V]) {
	rng, n := s.rng(), s.scale.Rows()
	keys := slices.Repeat([]K{^K(0), 0}, n/2)
	vals := s.values(len(keys), rng)
	s.put(t, m, keys, vals, 2)
	s.has(t, m, keys[:2], vals[len(vals)-2:])
	s.length(t, m, 2)
}

// With one operation per key there is only one right answer.
func (s mapSuite[K, V]) apply(t *testing.T, m weft.Map[K, V]) {
	rng, n := s.rng(), s.scale.Rows()
	model := map[K]V{}
	keys, vals := unique[K](n, rng), s.values(n, rng)
	s.put(t, m, keys[:n/2], vals[:n/2], n/2)
	for i, k := range keys[:n/2] {
		model[k] = vals[i]
	}
	ops, want := make([]weft.Op[K, V], n), make([]weft.Result[V], n)
	for i, j := range rng.Perm(n) {
		k := keys[j]
		op := weft.Op[K, V]{Kind: weft.OpKind(rng.IntN(4)), Key: k, Value: random[V](rng)}
		old, there := model[k]
		switch op.Kind {
		case weft.OpGet:
			want[i] = weft.Result[V]{Value: old, OK: there}
		case weft.OpPut:
			want[i].OK = !there
			model[k] = op.Value
		case weft.OpPutNew:
			want[i].OK = !there
			if there {
				want[i].Value = old
			} else {
				model[k] = op.Value
			}
		case weft.OpDelete:
			want[i].OK = there
			delete(model, k)
		}
		ops[i] = op
	}
	res := make([]weft.Result[V], n)
	must(t, m.Apply(ctx(), ops, res))
	for i := range res {
		if res[i].OK != want[i].OK || toBits(res[i].Value) != toBits(want[i].Value) {
			t.Fatalf("%v(%#x) = %#x %v, want %#x %v", ops[i].Kind, ops[i].Key, toBits(res[i].Value), res[i].OK, toBits(want[i].Value), want[i].OK)
		}
	}
	s.equals(t, m, model)
}

// With many operations on few keys, the answers must add up.
func (s mapSuite[K, V]) applyAnswers(t *testing.T, m weft.Map[K, V]) {
	rng := s.rng()
	pool := unique[K](8, rng)
	for range 10 {
		there := map[K]int{}
		for k := range m.All() {
			there[k]++
		}
		ops := make([]weft.Op[K, V], 300)
		for i := range ops {
			ops[i] = weft.Op[K, V]{Kind: weft.OpKind(rng.IntN(4)), Key: pool[rng.IntN(len(pool))], Value: fromBits[V](uint64(i) + 1)}
		}
		res := make([]weft.Result[V], len(ops))
		must(t, m.Apply(ctx(), ops, res))
		for i, op := range ops {
			if !res[i].OK {
				continue
			}
			switch op.Kind {
			case weft.OpPut, weft.OpPutNew:
				there[op.Key]++
			case weft.OpDelete:
				there[op.Key]--
			}
		}
		live := map[K]int{}
		for k := range m.All() {
			live[k]++
		}
		for _, k := range pool {
			if there[k] != live[k] || live[k] > 1 {
				t.Fatalf("key %#x is there %d times; by the answers %d times", k, live[k], there[k])
			}
		}
		must(t, m.Apply(ctx(), ops, nil))
	}
	err := m.Apply(ctx(), []weft.Op[K, V]{{Kind: 77}}, nil)
	if err == nil {
		t.Error("Apply of an unknown kind: no error")
	}
}

func (s mapSuite[K, V]) growsAndShrinks(t *testing.T, m weft.Map[K, V]) {
	rng, n := s.rng(), s.scale.Rows()
	keys, vals := unique[K](n, rng), s.values(n, rng)
	for size, lo := 1, 0; lo < n; size *= 3 { // batches of growing size
		hi := min(lo+size, n)
		s.put(t, m, keys[lo:hi], vals[lo:hi], hi-lo)
		lo = hi
	}
	s.has(t, m, keys, vals)
	left := n / 50
	if _, err := m.Delete(ctx(), keys[left:], nil); err != nil {
		t.Fatal(err)
	}
	s.has(t, m, keys[:left], vals[:left])
	s.lacks(t, m, keys[left:])
	s.put(t, m, keys[left:], vals[left:], n-left)
	s.has(t, m, keys, vals)
}

// Keys come and go; the size stays. warpcore never reuses a slot.
func (s mapSuite[K, V]) churn(t *testing.T, m weft.Map[K, V]) {
	rng, n := s.rng(), s.scale.Rows()/10
	keys := unique[K](20*n, rng)
	vals := s.values(len(keys), rng)
	s.put(t, m, keys[:n], vals[:n], n)
	for lo := 0; lo+2*n <= len(keys); lo += n {
		got, err := m.Delete(ctx(), keys[lo:lo+n], nil)
		must(t, err)
		if got != n {
			t.Fatalf("Delete removed %d of %d", got, n)
		}
		s.put(t, m, keys[lo+n:lo+2*n], vals[lo+n:lo+2*n], n)
		s.has(t, m, keys[lo+n:lo+2*n], vals[lo+n:lo+2*n])
	}
	s.length(t, m, n)
}

func (s mapSuite[K, V]) all(t *testing.T, m weft.Map[K, V]) {
	rng, n := s.rng(), s.scale.Rows()
	keys, vals := unique[K](n, rng), s.values(n, rng)
	s.put(t, m, keys, vals, n)
	model := map[K]V{}
	for i, k := range keys {
		model[k] = vals[i]
	}
	s.equals(t, m, model)
}

// Pairs that are not changed are seen once, though the table grows under the
// iteration.
func (s mapSuite[K, V]) allWhileChanging(t *testing.T, m weft.Map[K, V]) {
	rng, n := s.rng(), s.scale.Rows()
	keys, vals := unique[K](3*n, rng), s.values(3*n, rng)
	s.put(t, m, keys[:n], vals[:n], n)
	seen, steps := map[K]int{}, 0
	for k := range m.All() {
		seen[k]++
		if steps++; steps == n/2 {
			s.put(t, m, keys[n:], vals[n:], 2*n)
		}
	}
	must(t, m.Err())
	for _, k := range keys[:n] {
		if seen[k] != 1 {
			t.Fatalf("key %#x was seen %d times", k, seen[k])
		}
	}
	s.has(t, m, keys, vals)
}

func (s mapSuite[K, V]) allStops(t *testing.T, m weft.Map[K, V]) {
	keys := unique[K](100, s.rng())
	s.put(t, m, keys, make([]V, 100), 100)
	steps := 0
	for range m.All() {
		if steps++; steps == 3 {
			break
		}
	}
	must(t, m.Err())
	if steps != 3 {
		t.Errorf("iteration took %d steps after a break at 3", steps)
	}
	s.put(t, m, keys, make([]V, 100), 0) // not locked
}

func (s mapSuite[K, V]) clear(t *testing.T, m weft.Map[K, V]) {
	rng := s.rng()
	keys, vals := unique[K](500, rng), s.values(500, rng)
	keys = append(keys, odd[K]()[4]) // all ones
	vals = append(vals, vals[0])
	s.put(t, m, keys, vals, len(keys))
	must(t, m.Clear(ctx()))
	s.length(t, m, 0)
	s.lacks(t, m, keys)
	s.put(t, m, keys, vals, len(keys))
	s.has(t, m, keys, vals)
}

func (s mapSuite[K, V]) lengths(t *testing.T, m weft.Map[K, V]) {
	k, v, b := make([]K, 3), make([]V, 2), make([]bool, 4)
	ops, res := make([]weft.Op[K, V], 2), make([]weft.Result[V], 1)
	mustPanic(t, "Put", func() { m.Put(ctx(), k, v) })
	mustPanic(t, "PutNew vals", func() { m.PutNew(ctx(), k, v, nil) })
	mustPanic(t, "PutNew ok", func() { m.PutNew(ctx(), k, make([]V, 3), b) })
	mustPanic(t, "Get vals", func() { m.Get(ctx(), k, v, nil) })
	mustPanic(t, "Get nil vals", func() { m.Get(ctx(), k, nil, nil) })
	mustPanic(t, "Get found", func() { m.Get(ctx(), k, make([]V, 3), b) })
	mustPanic(t, "Contains", func() { m.Contains(ctx(), k, b) })
	mustPanic(t, "Delete", func() { m.Delete(ctx(), k, b) })
	mustPanic(t, "Apply", func() { m.Apply(ctx(), ops, res) })
	s.length(t, m, 0) // nothing was run, and nothing is locked
}

func (s mapSuite[K, V]) nilOutputs(t *testing.T, m weft.Map[K, V]) {
	rng := s.rng()
	keys, vals := unique[K](300, rng), s.values(300, rng)
	if n, err := m.PutNew(ctx(), keys, vals, nil); n != 300 || err != nil {
		t.Errorf("PutNew: %d, %v", n, err)
	}
	got := make([]V, 300)
	if n, err := m.Get(ctx(), keys, got, nil); n != 300 || err != nil {
		t.Errorf("Get: %d, %v", n, err)
	}
	if n, err := m.Contains(ctx(), keys, nil); n != 300 || err != nil {
		t.Errorf("Contains: %d, %v", n, err)
	}
	if n, err := m.Delete(ctx(), keys, nil); n != 300 || err != nil {
		t.Errorf("Delete: %d, %v", n, err)
	}
}

func (s mapSuite[K, V]) cancelled(t *testing.T, m weft.Map[K, V]) {
	keys, vals := unique[K](100, s.rng()), make([]V, 100)
	n, err := m.Put(expired(), keys, vals)
	if n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("Put: %d, %v", n, err)
	}
	if n, err := m.Get(expired(), keys, vals, nil); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("Get: %d, %v", n, err)
	}
	if n, err := m.Delete(expired(), keys, nil); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("Delete: %d, %v", n, err)
	}
	if err := m.Clear(expired()); !errors.Is(err, context.Canceled) {
		t.Errorf("Clear: %v", err)
	}
	s.length(t, m, 0)
	s.put(t, m, keys, vals, 100)
}

func (s mapSuite[K, V]) closed(t *testing.T, m weft.Map[K, V]) {
	keys, vals := unique[K](10, s.rng()), make([]V, 10)
	s.put(t, m, keys, vals, 10)
	must(t, m.Close())
	must(t, m.Close())
	for name, call := range map[string]func() error{
		"Put":      func() error { _, err := m.Put(ctx(), keys, vals); return err },
		"PutNew":   func() error { _, err := m.PutNew(ctx(), keys, vals, nil); return err },
		"Get":      func() error { _, err := m.Get(ctx(), keys, vals, nil); return err },
		"Contains": func() error { _, err := m.Contains(ctx(), keys, nil); return err },
		"Delete":   func() error { _, err := m.Delete(ctx(), keys, nil); return err },
		"Apply":    func() error { return m.Apply(ctx(), make([]weft.Op[K, V], 1), nil) },
		"Clear":    func() error { return m.Clear(ctx()) },
		"All": func() error {
			for range m.All() {
				t.Error("All of a closed map has pairs")
			}
			return m.Err()
		},
	} {
		if err := call(); !errors.Is(err, weft.ErrClosed) {
			t.Errorf("%s after Close: %v, want ErrClosed", name, err)
		}
	}
	s.length(t, m, 0)
}

// Readers beside a writer see each key with one of the values it had.
func (s mapSuite[K, V]) concurrent(t *testing.T, m weft.Map[K, V]) {
	n := min(s.scale.Rows(), 5000)
	keys := unique[K](n, s.rng())
	version := func(i int) []V { return slices.Repeat([]V{fromBits[V](uint64(i))}, n) }
	s.put(t, m, keys, version(0), n)
	rounds := 20
	if s.scale <= Slow {
		rounds = 3
	}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		wg.Go(func() {
			vals, found := make([]V, n), make([]bool, n)
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := m.Get(ctx(), keys, vals, found); err != nil {
					t.Errorf("Get: %v", err)
					return
				}
				for i := range vals {
					if !found[i] || toBits(vals[i]) > uint64(rounds) {
						t.Errorf("a reader saw %#x %v", toBits(vals[i]), found[i])
						return
					}
				}
			}
		})
	}
	for i := range rounds {
		if _, err := m.Put(ctx(), keys, version(i+1)); err != nil {
			t.Errorf("Put: %v", err)
		}
	}
	close(stop)
	wg.Wait()
}

func (s mapSuite[K, V]) againstModel(t *testing.T, m weft.Map[K, V]) {
	rng := s.rng()
	rounds := 60
	if s.scale <= Slow {
		rounds = 12
	}
	data := make([]byte, 4096)
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	model := map[K]V{}
	for range rounds {
		ReplayMap(t, m, model, data[rng.IntN(2048):])
	}
	s.equals(t, m, model)
}
