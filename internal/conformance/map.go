package conformance

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// Map runs the suite for maps on a device, except the cases with the given names.
func Map[K weft.Key, V weft.Value](t *testing.T, dev device.Device, scale Scale, open Maker[AnyMap[K, V]], without ...string) {
	p := mapTarget(dev, scale, open)
	run(t, p, mapCases(p), without...)
}

func mapTarget[K weft.Key, V weft.Value](dev device.Device, scale Scale, open Maker[AnyMap[K, V]]) target[erasedMap] {
	return target[erasedMap]{typesOf[K, V](), dev, scale, erasing(open, eraseMap[K, V])}
}

// MapCases returns the cases of the suite for maps.
func MapCases[K weft.Key, V weft.Value](dev device.Device, scale Scale, open Maker[AnyMap[K, V]]) []Case[AnyMap[K, V]] {
	return typedCases(mapCases(mapTarget(dev, scale, open)), eraseMap[K, V])
}

func mapCases(p target[erasedMap]) []Case[erasedMap] {
	s := mapSuite{p}
	return append(mapKind(p).cases(), []Case[erasedMap]{
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
		{"ApplyUpdates", s.applyUpdates},
		{"GetOrPut", s.getOrPut},
		{"GetOrPutConcurrent", s.getOrPutConcurrent},
		{"Assign", s.assign},
		{"AssignGoesOn", s.assignGoesOn},
		{"AssignCutShort", s.assignCutShort},
		{"AssignToTheLast", s.assignToTheLast},
		{"AssignConcurrent", s.assignConcurrent},
		{"Reduce", s.reduce},
		{"ReduceOneKey", s.reduceOneKey},
		{"ReduceRefuses", s.reduceRefuses},
		{"GrowsAndShrinks", s.growsAndShrinks},
		{"Churn", s.churn},
		{"All", s.all},
		{"AllWhileChanging", s.allWhileChanging},
		{"Clear", s.clear},
		{"Lengths", s.lengths},
		{"NilOutputs", s.nilOutputs},
		{"Concurrent", s.concurrent},
		{"AgainstModel", s.againstModel},
	}...)
}

// Reductions runs the cases of the map suite that combine values. That suffices for value types
// that kernels otherwise treat as bits.
func Reductions[K weft.Key, V weft.Value](t *testing.T, dev device.Device, scale Scale, open Maker[AnyMap[K, V]]) {
	p := mapTarget(dev, scale, open)
	run(t, p, slices.DeleteFunc(mapCases(p), func(c Case[erasedMap]) bool {
		return !strings.HasPrefix(c.Name, "Reduce") && !strings.HasPrefix(c.Name, "Apply")
	}))
}

type mapSuite struct{ target[erasedMap] }

func (s mapSuite) rng() *rand.Rand { return rand.New(rand.NewPCG(7, 11)) }

func (s mapSuite) put(t testing.TB, m erasedMap, keys []uint64, vals []uint64, n int) {
	t.Helper()
	got, err := m.Put(ctx(), keys, vals)
	must(t, err)
	if got != n {
		t.Fatalf("Put inserted %d of %d keys, want %d", got, len(keys), n)
	}
}

// checkPresent requires keys to be present with the given values.
func (s mapSuite) checkPresent(t testing.TB, m erasedMap, keys []uint64, vals []uint64) {
	t.Helper()
	got, found := make([]uint64, len(keys)), make([]bool, len(keys))
	hits, err := m.Get(ctx(), keys, got, found)
	must(t, err)
	if hits != len(keys) {
		t.Errorf("Get found %d of %d keys", hits, len(keys))
	}
	for i, k := range keys {
		if !found[i] || got[i] != vals[i] {
			t.Fatalf("Get(%#x), number %d: %#x %v, want %#x", k, i, got[i], found[i], vals[i])
		}
	}
	clear(found)
	hits, err = m.Contains(ctx(), keys, found)
	must(t, err)
	if hits != len(keys) || slices.Contains(found, false) {
		t.Errorf("Contains found %d of %d keys", hits, len(keys))
	}
}

func (s mapSuite) checkAbsent(t testing.TB, m erasedMap, keys []uint64) {
	t.Helper()
	vals, found := make([]uint64, len(keys)), make([]bool, len(keys))
	for i := range vals {
		vals[i], found[i] = s.bits(^uint64(0)), true
	}
	hits, err := m.Get(ctx(), keys, vals, found)
	must(t, err)
	if hits != 0 {
		t.Errorf("Get found %d of %d absent keys", hits, len(keys))
	}
	for i, k := range keys {
		if found[i] || vals[i] != 0 {
			t.Fatalf("Get(%#x) of an absent key: %#x %v, want zero", k, vals[i], found[i])
		}
	}
}

func (s mapSuite) checkLen(t testing.TB, m erasedMap, n int) {
	t.Helper()
	if got := m.Len(); got != n {
		t.Fatalf("Len = %d, want %d", got, n)
	}
}

func (s mapSuite) empty(t testing.TB, m erasedMap) {
	s.checkLen(t, m, 0)
	s.checkAbsent(t, m, s.uniqueKeys(100, s.rng()))
	s.checkAbsent(t, m, s.reservedKeys())
	n, err := m.Delete(ctx(), s.reservedKeys(), nil)
	if n != 0 || err != nil {
		t.Errorf("Delete from an empty map: %d, %v", n, err)
	}
	for k, v := range m.All() {
		t.Errorf("All of an empty map has %v, %v", k, v)
	}
	must(t, m.Clear(ctx()))
}

func (s mapSuite) roundTrip(t testing.TB, m erasedMap) {
	rng, n := s.rng(), s.scale.Rows()
	keys := s.uniqueKeys(2*n, rng)
	vals := s.randomValues(n, rng)
	s.put(t, m, keys[:n], vals, n)
	s.checkLen(t, m, n)
	s.checkPresent(t, m, keys[:n], vals)
	s.checkAbsent(t, m, keys[n:])
}

// Batches must work with sizes around the widths of warps, blocks, groups and pieces.
func (s mapSuite) batchSizes(t testing.TB, m erasedMap) {
	rng, total := s.rng(), 0
	for _, n := range []int{0, 1, 2, 7, 31, 32, 33, 63, 64, 65, 255, 256, 257, 1000} {
		keys := s.uniqueKeys(n, rng)
		vals := s.randomValues(n, rng)
		s.put(t, m, keys, vals, n)
		s.checkPresent(t, m, keys, vals)
		total += n
	}
	s.checkLen(t, m, total)
}

func (s mapSuite) everyKeyAndValue(t testing.TB, m erasedMap) {
	keys := slices.Compact(slices.Sorted(slices.Values(s.reservedKeys())))
	for round, v := range s.reservedVals() {
		vals := slices.Repeat([]uint64{v}, len(keys))
		fresh := 0
		if round == 0 {
			fresh = len(keys)
		}
		s.put(t, m, keys, vals, fresh)
		s.checkPresent(t, m, keys, vals)
		got := map[uint64]uint64{}
		for k, v := range m.All() {
			got[k] = v
		}
		if len(got) != len(keys) {
			t.Fatalf("All has %d keys, want %d", len(got), len(keys))
		}
	}
	for i, k := range keys { // one at a time, while the others stay
		n, err := m.Delete(ctx(), []uint64{k}, nil)
		must(t, err)
		if n != 1 {
			t.Fatalf("Delete(%#x) = %d", k, n)
		}
		s.checkAbsent(t, m, keys[:i+1])
		s.checkLen(t, m, len(keys)-i-1)
	}
	vals := slices.Repeat([]uint64{s.bits(5)}, len(keys))
	s.put(t, m, keys, vals, len(keys))
	s.checkPresent(t, m, keys, vals)
}

func (s mapSuite) putReplaces(t testing.TB, m erasedMap) {
	rng, n := s.rng(), s.scale.Rows()
	keys := s.uniqueKeys(n, rng)
	s.put(t, m, keys, s.randomValues(n, rng), n)
	vals := s.randomValues(n, rng)
	s.put(t, m, keys, vals, 0)
	s.checkLen(t, m, n)
	s.checkPresent(t, m, keys, vals)
}

func (s mapSuite) putNewKeeps(t testing.TB, m erasedMap) {
	rng, n := s.rng(), s.scale.Rows()
	keys, vals := s.uniqueKeys(2*n, rng), s.randomValues(n, rng)
	s.put(t, m, keys[:n], vals, n)
	ok := make([]bool, 2*n)
	got, err := m.PutNew(ctx(), keys, s.randomValues(2*n, rng), ok)
	must(t, err)
	if got != n {
		t.Errorf("PutNew inserted %d, want %d", got, n)
	}
	for i := range ok {
		if ok[i] != (i >= n) {
			t.Fatalf("PutNew of key %d reports %v", i, ok[i])
		}
	}
	s.checkPresent(t, m, keys[:n], vals)
	s.checkLen(t, m, 2*n)
}

func (s mapSuite) delete(t testing.TB, m erasedMap) {
	rng, n := s.rng(), s.scale.Rows()
	keys, vals := s.uniqueKeys(2*n, rng), s.randomValues(n, rng)
	s.put(t, m, keys[:n], vals, n)
	deleted := make([]bool, n)
	got, err := m.Delete(ctx(), keys[n/2:n/2+n], deleted) // half of them are present
	must(t, err)
	if want := n - n/2; got != want {
		t.Errorf("Delete removed %d, want %d", got, want)
	}
	for i := range deleted {
		if deleted[i] != (n/2+i < n) {
			t.Fatalf("Delete of key %d reports %v", n/2+i, deleted[i])
		}
	}
	s.checkPresent(t, m, keys[:n/2], vals[:n/2])
	s.checkAbsent(t, m, keys[n/2:])
	s.checkLen(t, m, n/2)
}

// A Put of present keys after other keys were deleted must not use the free slots for a second
// copy, as in other implementations (cuCollections #606, SlabHash #27).
func (s mapSuite) deleteThenInsert(t testing.TB, m erasedMap) {
	rng, n := s.rng(), 200
	keys := s.uniqueKeys(n, rng)
	for round := range 5 {
		vals := s.randomValues(n, rng)
		s.put(t, m, keys, vals, n)
		s.checkPresent(t, m, keys, vals)
		// Free slots, then put the second half again.
		if _, err := m.Delete(ctx(), keys[:n/2], nil); err != nil {
			t.Fatal(err)
		}
		vals = s.randomValues(n, rng)
		s.put(t, m, keys[n/2:], vals[n/2:], 0)
		s.checkLen(t, m, n-n/2)
		got, err := m.Delete(ctx(), keys, nil)
		must(t, err)
		if got != n-n/2 {
			t.Fatalf("round %d: Delete removed %d, want %d", round, got, n-n/2)
		}
		s.checkAbsent(t, m, keys)
		s.checkLen(t, m, 0)
	}
}

func (s mapSuite) checkEqual(t testing.TB, m erasedMap, model map[uint64]uint64) {
	t.Helper()
	keys := slices.Collect(maps.Keys(model))
	vals := make([]uint64, len(keys))
	for i, k := range keys {
		vals[i] = model[k]
	}
	s.checkPresent(t, m, keys, vals)
	s.checkLen(t, m, len(model))
	seen := 0
	for k, v := range m.All() {
		if want, ok := model[k]; !ok || v != want {
			t.Fatalf("All has %#x: %#x, want %#x %v", k, v, want, ok)
		}
		seen++
	}
	if seen != len(model) {
		t.Fatalf("All has %d pairs, want %d", seen, len(model))
	}
}
