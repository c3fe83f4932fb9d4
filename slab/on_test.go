package slab_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/slab"
)

// Each On method does to batches on the device what its namesake does to
// batches in host memory.
func TestOnEqualsHost(t *testing.T) {
	dev := devicetest.Open(t)
	t.Run("uint32,uint32", func(t *testing.T) { onEqualsHost[uint32, uint32](t, dev, nil) })
	t.Run("uint32,uint64", func(t *testing.T) { onEqualsHost[uint32, uint64](t, dev, nil) })
	t.Run("int64,float32", func(t *testing.T) { onEqualsHost[int64, float32](t, dev, nil) })
	t.Run("uint64,uint64", func(t *testing.T) { onEqualsHost[uint64, uint64](t, dev, nil) })
	t.Run("few buckets", func(t *testing.T) { onEqualsHost[uint64, uint64](t, dev, &slab.Options{Buckets: 10}) })
}

// crowded are n keys that meet within a batch, some of which look like marks,
// and values.
func crowded[K weft.Key, V weft.Value](rng *rand.Rand, n, different int) ([]K, []V) {
	keys, vals := make([]K, n), make([]V, n)
	for i := range keys {
		keys[i], vals[i] = K(rng.IntN(different))-5, V(rng.IntN(1<<20)+1)
	}
	return keys, vals
}

func onEqualsHost[K weft.Key, V weft.Value](t *testing.T, dev device.Device, opts *slab.Options) {
	host, on := conformance.Open(t, slab.New[K, V], dev, opts), conformance.Open(t, slab.New[K, V], dev, opts)
	s := devicetest.NewStream(t, dev)
	rng := rand.New(rand.NewPCG(1, 1))
	n := min(rows(dev), 5000)
	for range 3 {
		keys, vals := crowded[K, V](rng, n, n)
		dk, dv := devicetest.Upload(t, s, keys), devicetest.Upload(t, s, vals)
		want, got := make([]bool, n), devicetest.Upload(t, s, make([]bool, n))
		if _, err := host.Put(t.Context(), keys[:n/2], vals[:n/2]); err != nil {
			t.Fatal(err)
		}
		if err := on.PutOn(s, dk.Sub(0, n/2), dv.Sub(0, n/2)); err != nil {
			t.Fatal(err)
		}
		if _, err := host.PutNew(t.Context(), keys, vals, want); err != nil {
			t.Fatal(err)
		}
		if err := on.PutNewOn(s, dk, dv, got); err != nil {
			t.Fatal(err)
		}
		equal(t, "PutNew's flags", devicetest.Download(t, s, got), want)

		keys, _ = crowded[K, V](rng, n, n)
		dk = devicetest.Upload(t, s, keys)
		if _, err := host.Get(t.Context(), keys, vals, want); err != nil {
			t.Fatal(err)
		}
		if err := on.GetOn(s, dk, dv, got); err != nil {
			t.Fatal(err)
		}
		equal(t, "Get's flags", devicetest.Download(t, s, got), want)
		equal(t, "Get's values", devicetest.Download(t, s, dv), vals)
		if err := on.ContainsOn(s, dk, got); err != nil {
			t.Fatal(err)
		}
		equal(t, "Contains' flags", devicetest.Download(t, s, got), want)
		if _, err := host.Delete(t.Context(), keys[n/2:], want[n/2:]); err != nil {
			t.Fatal(err)
		}
		if err := on.DeleteOn(s, dk.Sub(n/2, n), got.Sub(n/2, n)); err != nil {
			t.Fatal(err)
		}
		equal(t, "Delete's flags", devicetest.Download(t, s, got), want)
		if err := on.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		samePairs(t, on, host)
	}
	onApply(t, s, host, on, n)
}

// onApply compares Apply and ApplyOn on batches with one operation per key.
func onApply[K weft.Key, V weft.Value](t *testing.T, s *device.Stream, host, on *slab.Map[K, V], n int) {
	rng := rand.New(rand.NewPCG(2, 2))
	ops, res := make([]weft.Op[K, V], n), make([]weft.Result[V], n)
	kinds, keys, vals := make([]weft.OpKind, n), make([]K, n), make([]V, n)
	for i, k := range rng.Perm(n) {
		kinds[i], keys[i], vals[i] = weft.OpKind(rng.IntN(4)), K(k)-5, V(rng.IntN(1<<20)+1)
		ops[i] = weft.Op[K, V]{Kind: kinds[i], Key: keys[i], Value: vals[i]}
	}
	dk, dv, flags := devicetest.Upload(t, s, keys), devicetest.Upload(t, s, vals), devicetest.Upload(t, s, make([]bool, n))
	if err := host.Apply(t.Context(), ops, res); err != nil {
		t.Fatal(err)
	}
	if err := on.ApplyOn(s, devicetest.Upload(t, s, kinds), dk, dv, flags); err != nil {
		t.Fatal(err)
	}
	want, ok := make([]V, n), make([]bool, n)
	for i, r := range res {
		want[i], ok[i] = r.Value, r.OK
	}
	equal(t, "Apply's flags", devicetest.Download(t, s, flags), ok)
	equal(t, "Apply's values", devicetest.Download(t, s, dv), want)
	samePairs(t, on, host)
}

func samePairs[K weft.Key, V weft.Value](t testing.TB, got, want *slab.Map[K, V]) {
	t.Helper()
	pairs := func(m *slab.Map[K, V]) map[K]V {
		all := map[K]V{}
		for k, v := range m.All() {
			all[k] = v
		}
		if len(all) != m.Len() {
			t.Fatalf("All has %d pairs, Len is %d", len(all), m.Len())
		}
		return all
	}
	a, b := pairs(got), pairs(want)
	for k, v := range b {
		if w, ok := a[k]; !ok || w != v {
			t.Fatalf("key %v: %v %v, want %v", k, w, ok, v)
		}
	}
	if len(a) != len(b) {
		t.Fatalf("%d pairs, want %d", len(a), len(b))
	}
}

func TestSetOn(t *testing.T) {
	dev := devicetest.Open(t)
	set := conformance.Open(t, slab.NewSet[uint32], dev, nil)
	s := devicetest.NewStream(t, dev)
	keys := []uint32{1, 2, 1, ^uint32(0), 2}
	d, flags := devicetest.Upload(t, s, keys), devicetest.Upload(t, s, make([]bool, len(keys)))
	if err := set.AddOn(s, d, flags); err != nil {
		t.Fatal(err)
	}
	equal(t, "added", devicetest.Download(t, s, flags), []bool{true, true, false, true, false})
	if err := set.DeleteOn(s, d.Sub(0, 1), device.Slice[bool]{}); err != nil {
		t.Fatal(err)
	}
	if err := set.ContainsOn(s, d, flags); err != nil {
		t.Fatal(err)
	}
	equal(t, "found", devicetest.Download(t, s, flags), []bool{false, true, false, true, true})
	if err := set.Sync(t.Context()); err != nil || set.Len() != 2 {
		t.Fatalf("%d keys, %v", set.Len(), err)
	}
	if err := set.Compact(t.Context()); err != nil {
		t.Error(err)
	}
	if s := conformance.StatsOf(t, set); s.Len != 2 || s.Tombstones != 0 {
		t.Errorf("%v", s)
	}
}

// A multimap with batches on the device, beside a Go map.
func TestMultiMapOn(t *testing.T) {
	dev := devicetest.Open(t)
	t.Run("uint32,uint64", func(t *testing.T) { multiOn[uint32, uint64](t, dev) })
	t.Run("int64,float32", func(t *testing.T) { multiOn[int64, float32](t, dev) })
	t.Run("uint32,uint32", func(t *testing.T) { multiOn[uint32, uint32](t, dev) })
}

func multiOn[K weft.Key, V weft.Value](t *testing.T, dev device.Device) {
	m := conformance.Open(t, slab.NewMultiMap[K, V], dev, nil)
	s := devicetest.NewStream(t, dev)
	rng := rand.New(rand.NewPCG(3, 3))
	n := min(rows(dev), 3000)
	model := map[K][]V{}
	for range 3 {
		keys, vals := crowded[K, V](rng, n, n/2)
		dk, dv := devicetest.Upload(t, s, keys), devicetest.Upload(t, s, vals)
		if err := m.PutOn(s, dk, dv); err != nil {
			t.Fatal(err)
		}
		for i, k := range keys {
			model[k] = append(model[k], vals[i])
		}
		asModel(t, s, m, model, n)

		// PutNew of keys that are there or not, and meet within the batch.
		keys, vals = crowded[K, V](rng, n, 2*n)
		dk, dv = devicetest.Upload(t, s, keys), devicetest.Upload(t, s, vals)
		ok, want := devicetest.Upload(t, s, make([]bool, n)), make([]bool, n)
		if err := m.PutNewOn(s, dk, dv, ok); err != nil {
			t.Fatal(err)
		}
		for i, k := range keys {
			if want[i] = len(model[k]) == 0; want[i] {
				model[k] = append(model[k], vals[i])
			}
		}
		equal(t, "PutNew's flags", devicetest.Download(t, s, ok), want)

		deleteOn(t, s, m, model, n)
		asModel(t, s, m, model, n)
	}
	if err := m.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// deleteOn takes the first pairs of some keys away, and all of others.
func deleteOn[K weft.Key, V weft.Value](t *testing.T, s *device.Stream, m *slab.MultiMap[K, V], model map[K][]V, n int) {
	t.Helper()
	keys := conformance.Sequence[K](-10, n/4)
	want := make([]bool, len(keys))
	first := devicetest.Upload(t, s, make([]V, len(keys)))
	d, ok := devicetest.Upload(t, s, keys), devicetest.Upload(t, s, want)
	if err := errors.Join(m.GetOn(s, d, first, device.Slice[bool]{}), m.DeleteOn(s, d, ok)); err != nil {
		t.Fatal(err)
	}
	values := devicetest.Download(t, s, first)
	for i, k := range keys {
		if want[i] = len(model[k]) > 0; want[i] {
			at := slices.Index(model[k], values[i]) // which of a batch is first is for a GPU to decide
			if at < 0 {
				t.Fatalf("Get of key %v: %v, not among %v", k, values[i], model[k])
			}
			model[k] = slices.Delete(model[k], at, at+1)
		}
	}
	equal(t, "Delete's flags", devicetest.Download(t, s, ok), want)

	keys = conformance.Sequence[K](n/4, n/10)
	d = devicetest.Upload(t, s, keys)
	removed, counts := devicetest.Upload(t, s, make([]uint32, len(keys))), make([]uint32, len(keys))
	if err := m.DeleteAllOn(s, d, removed); err != nil {
		t.Fatal(err)
	}
	for i, k := range keys {
		counts[i] = uint32(len(model[k]))
		delete(model, k)
	}
	equal(t, "DeleteAll's counts", devicetest.Download(t, s, removed), counts)
}

// asModel compares what the lookups say.
func asModel[K weft.Key, V weft.Value](t *testing.T, s *device.Stream, m *slab.MultiMap[K, V], model map[K][]V, n int) {
	t.Helper()
	keys := conformance.Sequence[K](-10, n)
	total := 0
	counts, found := make([]uint32, n), make([]bool, n)
	for i, k := range keys {
		counts[i], found[i] = uint32(len(model[k])), len(model[k]) > 0
		total += len(model[k])
	}
	d, c, f := devicetest.Upload(t, s, keys), devicetest.Upload(t, s, make([]uint32, n)), devicetest.Upload(t, s, make([]bool, n))
	if err := m.CountOn(s, d, c); err != nil {
		t.Fatal(err)
	}
	equal(t, "counts", devicetest.Download(t, s, c), counts)
	if err := m.ContainsOn(s, d, f); err != nil {
		t.Fatal(err)
	}
	equal(t, "found", devicetest.Download(t, s, f), found)
	c, offsets := devicetest.Upload(t, s, make([]uint32, n)), devicetest.Upload(t, s, make([]uint64, n+1))
	for _, room := range []int{total, total / 2, 0} {
		vals := devicetest.Upload(t, s, make([]V, room+1)).Sub(0, room)
		if err := m.GetAllOn(s, d, c, offsets, vals); err != nil {
			t.Fatal(err)
		}
		equal(t, "GetAll's counts", devicetest.Download(t, s, c), counts)
		at, got := devicetest.Download(t, s, offsets), devicetest.Download(t, s, vals)
		if at[n] != uint64(total) {
			t.Fatalf("%d values, want %d", at[n], total)
		}
		for i, k := range keys {
			if at[i+1] > uint64(room) {
				break
			}
			if err := sameValues(got[at[i]:at[i+1]], model[k]); err != nil {
				t.Fatalf("key %v: %v", k, err)
			}
		}
	}
}

// sameValues compares values regardless of their order.
func sameValues[V weft.Value](got, want []V) error {
	a, b := slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(a, b) {
		return fmt.Errorf("values %v, want %v", got, want)
	}
	return nil
}

// Sync is how batches on the device report that there was no room, once.
func TestSyncReportsFull(t *testing.T) {
	dev := devicetest.Open(t)
	m := conformance.Open(t, slab.New[uint64, uint64], dev, &slab.Options{Capacity: 64, Buckets: 1, Fixed: true})
	s := devicetest.NewStream(t, dev)
	n := 9000 // a pool has no less than a memory block
	if _, ok := dev.(device.Host); !ok {
		t.Skip("a chain of a thousand slabs")
	}
	keys := devicetest.Upload(t, s, conformance.Sequence[uint64](1, n))
	for range 2 {
		if err := m.PutOn(s, keys, keys); err != nil {
			t.Fatal(err)
		}
		if err := m.Sync(t.Context()); !errors.Is(err, weft.ErrFull) {
			t.Errorf("Sync after more keys than slots: %v", err)
		}
		if err := m.Sync(t.Context()); err != nil {
			t.Errorf("Sync again: %v", err)
		}
		if m.Len() < 64 || m.Len() >= n {
			t.Errorf("%d keys", m.Len())
		}
	}
}

// Two streams submit batches while the structure grows under them: every key
// arrives.
func TestGrowthFromTwoStreams(t *testing.T) {
	dev := devicetest.Open(t)
	for name, opts := range map[string]*slab.Options{"rehashes": nil, "chains": {Buckets: 30}} {
		t.Run(name, func(t *testing.T) {
			m := conformance.Open(t, slab.New[uint64, uint64], dev, opts)
			const batches = 20
			n := min(rows(dev)/10, 400)
			all := conformance.Sequence[uint64](1, 2*batches*n)
			var wg sync.WaitGroup
			for half := range 2 {
				s := devicetest.NewStream(t, dev)
				keys := devicetest.Upload(t, s, all[half*batches*n:(half+1)*batches*n])
				wg.Go(func() {
					for i := range batches {
						part := keys.Sub(i*n, (i+1)*n)
						if err := m.PutOn(s, part, part); err != nil {
							t.Errorf("PutOn: %v", err)
						}
						if i%4 == 3 { // each stream takes some of its own keys away again
							if err := m.DeleteOn(s, part.Sub(0, n/2), device.Slice[bool]{}); err != nil {
								t.Errorf("DeleteOn: %v", err)
							}
						}
					}
				})
			}
			wg.Wait()
			if err := m.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			var want []uint64
			for i := range 2 * batches {
				part := all[i*n : (i+1)*n]
				if i%batches%4 == 3 {
					part = part[n/2:]
				}
				want = append(want, part...)
			}
			conformance.WantPairs(t, m, want)
		})
	}
}

func TestOnLengthsAndClosed(t *testing.T) {
	dev := devicetest.Open(t)
	m, mm := conformance.Open(t, slab.New[uint64, uint64], dev, nil), conformance.Open(t, slab.NewMultiMap[uint64, uint64], dev, nil)
	s := devicetest.NewStream(t, dev)
	three, two := devicetest.Upload(t, s, make([]uint64, 3)), devicetest.Upload(t, s, make([]uint64, 2))
	flags, kinds, counts := devicetest.Upload(t, s, make([]bool, 2)), devicetest.Upload(t, s, make([]weft.OpKind, 2)), devicetest.Upload(t, s, make([]uint32, 2))
	for name, call := range map[string]func() error{
		"PutOn":            func() error { return m.PutOn(s, three, two) },
		"PutNewOn vals":    func() error { return m.PutNewOn(s, three, two, device.Slice[bool]{}) },
		"PutNewOn ok":      func() error { return m.PutNewOn(s, three, three, flags) },
		"GetOn vals":       func() error { return m.GetOn(s, three, two, device.Slice[bool]{}) },
		"GetOn found":      func() error { return m.GetOn(s, three, three, flags) },
		"ContainsOn":       func() error { return m.ContainsOn(s, three, flags) },
		"DeleteOn":         func() error { return m.DeleteOn(s, three, flags) },
		"ApplyOn kinds":    func() error { return m.ApplyOn(s, kinds, three, three, device.Slice[bool]{}) },
		"ApplyOn values":   func() error { return m.ApplyOn(s, kinds, two, three, flags) },
		"CountOn":          func() error { return mm.CountOn(s, three, counts) },
		"GetAllOn counts":  func() error { return mm.GetAllOn(s, three, counts, three, three) },
		"GetAllOn offsets": func() error { return mm.GetAllOn(s, two, counts, two, two) },
		"DeleteAllOn":      func() error { return mm.DeleteAllOn(s, three, counts) },
	} {
		func() {
			defer func() {
				if _, ok := recover().(string); !ok {
					t.Errorf("%s with columns of different lengths: no panic with a message", name)
				}
			}()
			t.Error(name, call())
		}()
	}
	if err := m.PutOn(s, device.Slice[uint64]{}, device.Slice[uint64]{}); err != nil {
		t.Errorf("PutOn of nothing: %v", err)
	}
	if err := mm.GetAllOn(s, device.Slice[uint64]{}, device.Slice[uint32]{}, two.Sub(0, 1), two); err != nil {
		t.Errorf("GetAllOn of nothing: %v", err)
	}
	other := devicetest.Open(t)
	elsewhere := devicetest.NewStream(t, other)
	far := devicetest.Upload(t, elsewhere, make([]uint64, 3))
	for name, err := range map[string]error{
		"no stream":           m.PutOn(nil, two, two),
		"a stream elsewhere":  m.PutOn(elsewhere, two, two),
		"keys elsewhere":      m.GetOn(s, far.Sub(0, 2), two, device.Slice[bool]{}),
		"offsets elsewhere":   mm.GetAllOn(s, two, counts, far, two),
		"no stream, multimap": mm.CountOn(nil, two, counts),
	} {
		if !errors.Is(err, device.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := errors.Join(m.Close(), mm.Close()); err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func() error{
		"PutOn":       func() error { return m.PutOn(s, two, two) },
		"PutNewOn":    func() error { return m.PutNewOn(s, two, two, flags) },
		"GetOn":       func() error { return m.GetOn(s, two, two, flags) },
		"ContainsOn":  func() error { return m.ContainsOn(s, two, flags) },
		"DeleteOn":    func() error { return m.DeleteOn(s, two, flags) },
		"ApplyOn":     func() error { return m.ApplyOn(s, kinds, two, two, flags) },
		"CountOn":     func() error { return mm.CountOn(s, two, counts) },
		"GetAllOn":    func() error { return mm.GetAllOn(s, two, counts, three, two) },
		"DeleteAllOn": func() error { return mm.DeleteAllOn(s, two, counts) },
		"Sync":        func() error { return m.Sync(t.Context()) },
		"Compact":     func() error { return m.Compact(t.Context()) },
		"Stats":       func() error { _, err := m.Stats(t.Context()); return err },
	} {
		if err := call(); !errors.Is(err, weft.ErrClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
}
