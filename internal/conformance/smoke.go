package conformance

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// Smoke tests call each method once with a few hundred keys, and launch every kernel. They run
// under tools that check each access of a device and slow it down a thousandfold, such as
// compute-sanitizer.

// SmokeKeys is the number of keys in a smoke test.
const SmokeKeys = 400

// smokePairs returns pairs with the four largest keys and with small keys.
func (y *types) smokePairs() (keys, vals []uint64) {
	keys = y.sequence(-4, SmokeKeys)
	return keys, mapEach(keys, y.bits)
}

// SmokeMap calls each method of a map once: lookups and changes, with and without duplicates,
// growth, iteration and maintenance. It calls full when all SmokeKeys are present.
func SmokeMap[K, V ~uint32 | ~uint64](t testing.TB, dev device.Device, m AnyMap[K, V], full func()) {
	t.Helper()
	smokeMap(t, dev, eraseMap(m), full)
}

func smokeMap(t testing.TB, dev device.Device, m erasedMap, full func()) {
	t.Helper()
	y := m.types()
	keys, vals := y.smokePairs()
	for lo := 0; lo < SmokeKeys; lo += 100 { // the map grows
		n, err := m.Put(ctx(), keys[lo:lo+100], vals[lo:lo+100])
		WantCount(t, "Put", n, 100, err)
	}
	n, err := m.Put(ctx(), slices.Concat(keys, keys), slices.Concat(vals, vals))
	WantCount(t, "Put again", n, 0, err)
	n, err = m.Contains(ctx(), keys, make([]bool, SmokeKeys))
	WantCount(t, "Contains", n, SmokeKeys, err)
	n, err = m.Delete(ctx(), slices.Concat(keys[:50], keys[:50]), make([]bool, 100))
	WantCount(t, "Delete", n, 50, err)
	n, err = m.PutNew(ctx(), slices.Concat(keys[:60], keys[:60]), slices.Concat(vals[:60], vals[:60]), make([]bool, 120))
	WantCount(t, "PutNew", n, 50, err)
	ops := make([]weft.Op[uint64, uint64], 100)
	for i := range ops {
		ops[i] = weft.Op[uint64, uint64]{Kind: weft.OpKind(i % 4), Key: keys[i/4], Value: vals[i/4]}
	}
	must(t, m.Apply(ctx(), ops, make([]weft.Result[uint64], 100)))
	_, err = m.PutNew(ctx(), keys, vals, nil) // the keys that Apply deleted
	must(t, err)
	// These reductions change no value.
	for _, by := range []weft.Reduction{weft.Sum, weft.Min, weft.Max, weft.And, weft.Or} {
		with := slices.Concat(vals, vals)
		if by == weft.Sum {
			clear(with)
		}
		n, err := m.Reduce(ctx(), slices.Concat(keys, keys), with, by)
		WantCount(t, "Reduce", n, 0, err)
	}
	seen := 0
	for k, v := range m.All() {
		seen++
		if y.bits(k) != v {
			t.Fatalf("All has %d: %d", k, v)
		}
	}
	WantCount(t, "All", seen, SmokeKeys, m.Check(ctx()))
	full()
	must(t, m.Compact(ctx()))
	smokeOn(t, dev, m, keys, vals)
	must(t, m.Compact(ctx()))
	must(t, m.Clear(ctx()))
	WantCount(t, "Len after Clear", m.Len(), 0, nil)
}

// SmokeStats runs [SmokeMap] on a map with statistics and closes it. Then Stats must return an
// error. The function right checks the statistics when all SmokeKeys are present.
func SmokeStats[K, V ~uint32 | ~uint64, S any](t testing.TB, dev device.Device, m interface {
	AnyMap[K, V]
	Stats(context.Context) (S, error)
}, right func(S) bool) {
	t.Helper()
	SmokeMap(t, dev, m, func() {
		if s := StatsOf(t, m); !right(s) {
			t.Errorf("Stats: %v", s)
		}
	})
	must(t, m.Close())
	if _, err := m.Stats(ctx()); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("Stats after Close: %v", err)
	}
}

func smokeOn(t testing.TB, dev device.Device, m erasedMap, keys []uint64, vals []uint64) {
	t.Helper()
	s := devicetest.NewStream(t, dev)
	y := m.types()
	k, v, ok := y.keysOn(t, s, keys), y.valsOn(t, s, vals), devicetest.Upload(t, s, make([]bool, len(keys)))
	kinds := make([]weft.OpKind, len(keys))
	for i := range kinds {
		kinds[i] = weft.OpKind(i % 4)
	}
	must(t, m.PutOn(s, k, v))
	must(t, m.PutNewOn(s, k, v, ok))
	must(t, m.GetOn(s, k, v, ok))
	must(t, m.ContainsOn(s, k, ok))
	must(t, m.Sync(ctx()))
	checkPairs(t, m, keys, vals)
	must(t, m.DeleteOn(s, k, ok))
	must(t, m.ApplyOn(s, devicetest.Upload(t, s, kinds), k, v, ok))
	must(t, m.Sync(ctx()))
}

func checkPairs(t testing.TB, m erasedMap, keys, vals []uint64) {
	t.Helper()
	s := mapSuite{}
	s.checkPresent(t, m, keys, vals)
	s.checkLen(t, m, len(keys))
}

// SmokeMultiMap calls each method of a multimap once. It calls the function compact after it has
// compacted the map.
func SmokeMultiMap[K, V ~uint32 | ~uint64](t testing.TB, dev device.Device, m AnyMultiMap[K, V], compact func()) {
	t.Helper()
	smokeMultiMap(t, dev, eraseMultiMap(m), compact)
}

func smokeMultiMap(t testing.TB, dev device.Device, m erasedMultiMap, compact func()) {
	t.Helper()
	y := m.types()
	keys, vals := y.smokePairs()
	for range 3 {
		n, err := m.Put(ctx(), keys, vals)
		WantCount(t, "Put", n, SmokeKeys, err)
	}
	n, err := m.PutNew(ctx(), keys, vals, make([]bool, SmokeKeys))
	WantCount(t, "PutNew", n, 0, err)
	// One key has enough rows that a few threads add for all others. The other key occurs twice in
	// its batch.
	hot, pair := slices.Repeat([]uint64{1 << 20}, 100), []uint64{1 << 21, 1 << 21}
	n, err = m.Put(ctx(), hot, make([]uint64, len(hot)))
	WantCount(t, "Put of one key", n, len(hot), err)
	n, err = m.PutNew(ctx(), pair, make([]uint64, 2), make([]bool, 2))
	WantCount(t, "PutNew twice", n, 1, err)
	n, err = m.DeleteAll(ctx(), append(pair, hot[:2]...), nil)
	WantCount(t, "DeleteAll of them", n, len(hot)+1, err)
	n, err = m.Get(ctx(), keys, make([]uint64, SmokeKeys), make([]bool, SmokeKeys))
	WantCount(t, "Get", n, SmokeKeys, err)
	n, err = m.Count(ctx(), keys, make([]uint32, SmokeKeys))
	WantCount(t, "Count", n, 3*SmokeKeys, err)
	var rows weft.Rows[uint64]
	err = m.GetAll(ctx(), keys, &rows)
	WantCount(t, "GetAll", len(rows.Vals), 3*SmokeKeys, err)
	for i, k := range keys {
		for _, v := range rows.Row(i) {
			if v != y.bits(k) {
				t.Fatalf("key %d has the value %d", k, v)
			}
		}
	}
	n, err = m.Delete(ctx(), keys[:100], make([]bool, 100))
	WantCount(t, "Delete", n, 100, err)
	removed := make([]uint32, 100)
	n, err = m.DeleteAll(ctx(), keys[50:150], removed)
	WantCount(t, "DeleteAll", n, 250, err)
	if !slices.Equal(removed, slices.Concat(slices.Repeat([]uint32{2}, 50), slices.Repeat([]uint32{3}, 50))) {
		t.Errorf("DeleteAll reports %d", removed)
	}
	ops := make([]weft.Op[uint64, uint64], 100)
	for i := range ops {
		ops[i] = weft.Op[uint64, uint64]{Kind: weft.OpKind(i % 5), Key: keys[i/5], Value: vals[i/5]}
	}
	must(t, m.Apply(ctx(), ops, make([]weft.Result[uint64], 100)))
	before := m.Len()
	must(t, m.Compact(ctx()))
	WantCount(t, "Len after Compact", m.Len(), before, nil)
	compact()
	smokeMultiOn(t, dev, m, keys, vals)
}

func smokeMultiOn(t testing.TB, dev device.Device, m erasedMultiMap, keys []uint64, vals []uint64) {
	t.Helper()
	s := devicetest.NewStream(t, dev)
	y := m.types()
	k, v, ok := y.keysOn(t, s, keys), y.valsOn(t, s, vals), devicetest.Upload(t, s, make([]bool, len(keys)))
	counts, offsets := devicetest.Upload(t, s, make([]uint32, len(keys))), devicetest.Upload(t, s, make([]uint64, len(keys)+1))
	must(t, m.PutOn(s, k, v))
	must(t, m.PutNewOn(s, k, v, ok))
	must(t, m.GetOn(s, k, v, ok))
	must(t, m.GetAllOn(s, k, counts, offsets, v))
	must(t, m.CountOn(s, k, counts))
	must(t, m.ContainsOn(s, k, ok))
	must(t, m.DeleteOn(s, k, ok))
	must(t, m.DeleteAllOn(s, k.Sub(0, 10), counts.Sub(0, 10)))
	must(t, m.ApplyOn(s, devicetest.Upload(t, s, make([]weft.OpKind, len(keys))), k, v, ok))
	must(t, m.Sync(ctx()))
}

// SmokeSet calls each method of a set once, and leaves half of SmokeKeys.
func SmokeSet[K ~uint32 | ~uint64](t testing.TB, dev device.Device, s AnySet[K]) {
	t.Helper()
	smokeSet(t, dev, eraseSet(s))
}

func smokeSet(t testing.TB, dev device.Device, s erasedSet) {
	t.Helper()
	y := s.types()
	keys := y.sequence(-4, SmokeKeys)
	n, err := s.Contains(ctx(), keys, make([]bool, SmokeKeys))
	WantCount(t, "Contains", n, 0, err)
	n, err = s.Add(ctx(), slices.Concat(keys, keys), make([]bool, 2*SmokeKeys))
	WantCount(t, "Add", n, SmokeKeys, err)
	n, err = s.Delete(ctx(), keys[:SmokeKeys/2], make([]bool, SmokeKeys/2))
	WantCount(t, "Delete", n, SmokeKeys/2, err)
	n, err = s.Contains(ctx(), keys, make([]bool, SmokeKeys))
	WantCount(t, "Contains", n, SmokeKeys/2, err)
	seen := 0
	for page, err := range s.Pages(ctx()) {
		must(t, err)
		seen += len(page)
	}
	for range s.All() {
		seen++
	}
	WantCount(t, "Pages and All", seen, SmokeKeys, nil)
	smokeMixed(t, dev, s, keys[:SmokeKeys/2])
	must(t, s.Compact(ctx()))
}

func smokeMixed(t testing.TB, dev device.Device, s erasedSet, keys []uint64) {
	t.Helper()
	stream := devicetest.NewStream(t, dev)
	y := s.types()
	kinds, with := make([]weft.OpKind, 3*len(keys)), make([]uint64, 3*len(keys))
	for i := range kinds {
		kinds[i], with[i] = []weft.OpKind{weft.OpGet, weft.OpPutNew, weft.OpDelete}[i%3], keys[i/3]
	}
	ok := devicetest.Upload(t, stream, make([]bool, len(kinds)))
	must(t, s.ApplyOn(stream, devicetest.Upload(t, stream, kinds), y.keysOn(t, stream, with), ok))
	must(t, s.Sync(ctx()))
	_, err := s.Delete(ctx(), keys, nil) // deletes keys that ran their delete before their add
	WantCount(t, "Len after ApplyOn", s.Len(), SmokeKeys/2, err)
}

// SmokeWidths runs smoke tests with the given options, for maps with each pair of widths and for
// sets.
func SmokeWidths[O any](t *testing.T, dev device.Device, opts O, map3232, map3264, map6432, map6464, set32, set64 func(testing.TB, device.Device, O)) {
	for _, test := range []struct {
		name string
		run  func(testing.TB, device.Device, O)
	}{
		{"uint32,uint32", map3232}, {"uint32,uint64", map3264}, {"uint64,uint32", map6432}, {"uint64,uint64", map6464},
		{"set uint32", set32}, {"set uint64", set64},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, dev, opts) })
	}
}

// LaunchesAll runs smoke tests on a simulated GPU and requires them to launch every kernel of the
// images. So tools that observe these tests see all kernels.
func LaunchesAll(t *testing.T, smoke func(*testing.T, device.Device), images ...[]*device.Image) {
	SkipRaced(t, "interprets kernels")
	l := devicetest.NewLaunches(devicetest.OpenSim(t, nil))
	smoke(t, l)
	for _, imgs := range images {
		l.CheckLaunched(t, imgs)
	}
}
