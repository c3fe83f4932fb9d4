package conformance

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// MultiMap runs the suite for multimaps on a device, except the cases with the given names.
func MultiMap[K weft.Key, V weft.Value](t *testing.T, dev device.Device, scale Scale, open Maker[AnyMultiMap[K, V]], without ...string) {
	p := multiMapTarget(dev, scale, open)
	run(t, p, multiMapCases(p), without...)
}

func multiMapTarget[K weft.Key, V weft.Value](dev device.Device, scale Scale, open Maker[AnyMultiMap[K, V]]) target[erasedMultiMap] {
	return target[erasedMultiMap]{typesOf[K, V](), dev, scale, erasing(open, eraseMultiMap[K, V])}
}

// MultiMapCases returns the cases of the suite for multimaps.
func MultiMapCases[K weft.Key, V weft.Value](dev device.Device, scale Scale, open Maker[AnyMultiMap[K, V]]) []Case[AnyMultiMap[K, V]] {
	return typedCases(multiMapCases(multiMapTarget(dev, scale, open)), eraseMultiMap[K, V])
}

func multiMapCases(p target[erasedMultiMap]) []Case[erasedMultiMap] {
	s := multiSuite{p}
	return append(multiKind(p).cases(), []Case[erasedMultiMap]{
		{"Empty", s.empty},
		{"RoundTrip", s.roundTrip},
		{"BatchSizes", s.batchSizes},
		{"EveryKeyAndValue", s.everyKeyAndValue},
		{"PutAppends", s.putAppends},
		{"EqualPairs", s.equalPairs},
		{"PutDuplicates", s.putDuplicates},
		{"PutNewOfAbsent", s.putNewOfAbsent},
		{"PutNewDuplicates", s.putNewDuplicates},
		{"GetAll", s.getAll},
		{"GetAllInto", s.getAllInto},
		{"Count", s.count},
		{"DeleteFirst", s.deleteFirst},
		{"DeleteDuplicates", s.deleteDuplicates},
		{"DeleteAll", s.deleteAll},
		{"DeleteAllDuplicates", s.deleteAllDuplicates},
		{"ManyPairs", s.manyPairs},
		{"Apply", s.apply},
		{"ApplyAnswers", s.applyAnswers},
		{"ApplyDeleteAll", s.applyDeleteAll},
		{"GrowsAndShrinks", s.growsAndShrinks},
		{"Churn", s.churn},
		{"Queue", s.queue},
		{"All", s.all},
		{"AllWhileChanging", s.allWhileChanging},
		{"Clear", s.clear},
		{"Lengths", s.lengths},
		{"NilOutputs", s.nilOutputs},
		{"Concurrent", s.concurrent},
		{"AgainstModel", s.againstModel},
	}...)
}

type multiSuite struct{ target[erasedMultiMap] }

func (s multiSuite) rng() *rand.Rand { return mapSuite{}.rng() }

// values is the model of a multimap. It holds the values of each key in order.
type values map[uint64][]uint64

func (want values) pairs() int { return pairsIn(want) }

func pairsIn[K comparable, V any](all map[K][]V) (n int) {
	for _, vals := range all {
		n += len(vals)
	}
	return n
}

// removeFirst removes the first pair of a key. It returns false if the key has no pair.
func (want values) removeFirst(k uint64) bool {
	if len(want[k]) == 0 {
		return false
	}
	want[k] = want[k][1:]
	return true
}

func distinct(keys []uint64) (out []uint64) {
	seen := map[uint64]bool{}
	for _, k := range keys {
		if !seen[k] {
			seen[k] = true
			out = append(out, k)
		}
	}
	return out
}

// partition reports whether the offsets divide all values into the given number of parts.
func partition(rows weft.Rows[uint64], parts int) bool {
	o := rows.Offsets
	return len(o) == parts+1 && o[0] == 0 && o[parts] == uint64(len(rows.Vals)) && slices.IsSorted(o)
}

// getAllOf returns all values of some keys, after checking the offsets.
func (s multiSuite) getAllOf(t testing.TB, m erasedMultiMap, keys []uint64) (rows weft.Rows[uint64]) {
	t.Helper()
	must(t, m.GetAll(ctx(), keys, &rows))
	if o := rows.Offsets; !partition(rows, len(keys)) {
		t.Fatalf("GetAll of %d keys: %d offsets for %d values: %v …", len(keys), len(o), len(rows.Vals), o[:min(len(o), 10)])
	}
	return rows
}

// put adds pairs. They must follow earlier pairs with the same key; their own order is up to the
// structure.
func (s multiSuite) put(t testing.TB, m erasedMultiMap, want values, keys []uint64, vals []uint64) {
	t.Helper()
	n, err := m.Put(ctx(), keys, vals)
	must(t, err)
	if n != len(keys) {
		t.Fatalf("Put added %d of %d pairs", n, len(keys))
	}
	s.checkAppended(t, m, want, keys, vals)
}

// checkAppended requires the pairs of a batch to follow earlier pairs with the same key. It records
// their order in want.
func (s multiSuite) checkAppended(t testing.TB, m erasedMultiMap, want values, keys []uint64, vals []uint64) {
	t.Helper()
	fresh := values{}
	for i, k := range keys {
		fresh[k] = append(fresh[k], vals[i])
	}
	each := distinct(keys)
	all := s.getAllOf(t, m, each)
	for i, k := range each {
		old, got := want[k], all.Row(i)
		if len(got) != len(old)+len(fresh[k]) {
			t.Fatalf("key %#x, of %d values and %d added, has %d", k, len(old), len(fresh[k]), len(got))
		}
		if !slices.Equal(got[:len(old)], old) {
			t.Fatalf("key %#x, %d values: a batch that adds %d changes them or their order", k, len(old), len(fresh[k]))
		}
		if !slices.Equal(slices.Sorted(slices.Values(got[len(old):])), slices.Sorted(slices.Values(fresh[k]))) {
			t.Fatalf("key %#x: the %d values added are not those of the batch", k, len(fresh[k]))
		}
		want[k] = slices.Clone(got)
	}
}

// checkLookups requires all kinds of lookups to return the values of the given keys.
func (s multiSuite) checkLookups(t testing.TB, m erasedMultiMap, want values, keys []uint64) {
	t.Helper()
	all := s.getAllOf(t, m, keys)
	counts, vals, found := make([]uint32, len(keys)), make([]uint64, len(keys)), make([]bool, len(keys))
	for i := range keys { // outputs have some content
		counts[i], vals[i], found[i] = ^uint32(0), s.bits(^uint64(0)), i%2 == 0
	}
	total, err := m.Count(ctx(), keys, counts)
	must(t, err)
	hits, err := m.Get(ctx(), keys, vals, found)
	must(t, err)
	pairs, present := 0, 0
	for i, k := range keys {
		w := want[k]
		if got := all.Row(i); !slices.Equal(got, w) {
			t.Fatalf("GetAll of key %#x, number %d of %d: %d values, want %d; as many and not the same: %v",
				k, i, len(keys), len(got), len(w), len(got) == len(w))
		}
		if int(counts[i]) != len(w) {
			t.Fatalf("Count of key %#x: %d, want %d", k, counts[i], len(w))
		}
		var first uint64
		if len(w) > 0 {
			first = w[0]
			present++
		}
		if found[i] != (len(w) > 0) || vals[i] != first {
			t.Fatalf("Get(%#x): %#x %v, want %#x, the first of %d", k, vals[i], found[i], first, len(w))
		}
		pairs += len(w)
	}
	if total != pairs || hits != present {
		t.Errorf("Count of %d keys: %d, want %d; Get found %d, want %d", len(keys), total, pairs, hits, present)
	}
	contained := make([]bool, len(keys))
	hits, err = m.Contains(ctx(), keys, contained)
	must(t, err)
	if hits != present || !slices.Equal(contained, found) {
		t.Errorf("Contains found %d of %d keys, want %d", hits, len(keys), present)
	}
}

func (s multiSuite) checkEqual(t testing.TB, m erasedMultiMap, want values) {
	t.Helper()
	keys := make([]uint64, 0, len(want))
	for k := range want {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	s.checkLookups(t, m, want, keys)
	s.checkLen(t, m, want.pairs())
	got := values{}
	for k, v := range m.All() {
		got[k] = append(got[k], v)
	}
	if n := got.pairs(); n != want.pairs() {
		t.Fatalf("All has %d pairs, want %d", n, want.pairs())
	}
	for k, vals := range got {
		if !slices.Equal(vals, want[k]) {
			t.Fatalf("All has %d values of key %#x, not the %d it has in order", len(vals), k, len(want[k]))
		}
	}
}

func (s multiSuite) checkLen(t testing.TB, m erasedMultiMap, n int) {
	t.Helper()
	if got := m.Len(); got != n {
		t.Fatalf("Len = %d, want %d", got, n)
	}
}

func (s multiSuite) empty(t testing.TB, m erasedMultiMap) {
	keys := append(s.uniqueKeys(100, s.rng()), s.reservedKeys()...)
	s.checkLen(t, m, 0)
	s.checkLookups(t, m, nil, keys)
	if n, err := m.Delete(ctx(), keys, nil); n != 0 || err != nil {
		t.Errorf("Delete from an empty multimap: %d, %v", n, err)
	}
	removed := slices.Repeat([]uint32{^uint32(0)}, len(keys))
	if n, err := m.DeleteAll(ctx(), keys, removed); n != 0 || err != nil || slices.Max(removed) != 0 || slices.Min(removed) != 0 {
		t.Errorf("DeleteAll from an empty multimap: %d, %v, %v", n, err, removed)
	}
	must(t, m.Clear(ctx()))
	s.checkEqual(t, m, nil)
}

func (s multiSuite) roundTrip(t testing.TB, m erasedMultiMap) {
	rng, n, want := s.rng(), s.scale.Rows(), values{}
	keys := s.uniqueKeys(2*n, rng)
	s.put(t, m, want, keys[:n], s.randomValues(n, rng))
	s.checkLen(t, m, n)
	s.checkLookups(t, m, want, keys) // the second half is absent
}

func (s multiSuite) batchSizes(t testing.TB, m erasedMultiMap) {
	rng, want := s.rng(), values{}
	for _, n := range []int{0, 1, 2, 7, 31, 32, 33, 63, 64, 65, 255, 256, 257, 1000} {
		if s.scale <= Slow && n > s.scale.Rows() {
			break
		}
		keys := s.uniqueKeys(n, rng)
		s.put(t, m, want, keys, s.randomValues(n, rng))
		s.put(t, m, want, keys, s.randomValues(n, rng))
		s.checkLookups(t, m, want, keys)
	}
	s.checkLen(t, m, want.pairs())
}

func (s multiSuite) everyKeyAndValue(t testing.TB, m erasedMultiMap) {
	want := values{}
	keys := slices.Compact(slices.Sorted(slices.Values(s.reservedKeys())))
	for _, v := range s.reservedVals() {
		s.put(t, m, want, keys, slices.Repeat([]uint64{v}, len(keys)))
	}
	s.checkEqual(t, m, want)
	for _, k := range keys { // one at a time, while the others stay
		n, err := m.Delete(ctx(), []uint64{k}, nil)
		must(t, err)
		if n != 1 || !want.removeFirst(k) {
			t.Fatalf("Delete(%#x) = %d", k, n)
		}
		s.checkLookups(t, m, want, keys)
	}
	for _, k := range keys {
		n, err := m.DeleteAll(ctx(), []uint64{k}, nil)
		must(t, err)
		if n != len(want[k]) {
			t.Fatalf("DeleteAll(%#x) = %d, want %d", k, n, len(want[k]))
		}
		delete(want, k)
		s.checkLookups(t, m, want, keys)
	}
	s.put(t, m, want, keys, make([]uint64, len(keys)))
	s.checkEqual(t, m, want)
}
