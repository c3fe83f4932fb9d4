package linear_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/linear"
)

// rows is the size of batches here.
func rows(dev device.Device) int { return min(conformance.ScaleOf(dev).Rows(), 20_000) }

// Each On method does to batches on the device what its namesake does to
// batches in host memory.
func TestOnEqualsHost(t *testing.T) {
	dev := devicetest.Open(t)
	for name, scheme := range schemes {
		t.Run(name, func(t *testing.T) {
			t.Run("uint32,uint32", func(t *testing.T) { onEqualsHost[uint32, uint32](t, dev, scheme) })
			t.Run("uint32,uint64", func(t *testing.T) { onEqualsHost[uint32, uint64](t, dev, scheme) })
			t.Run("int64,float32", func(t *testing.T) { onEqualsHost[int64, float32](t, dev, scheme) })
			t.Run("uint64,uint64", func(t *testing.T) { onEqualsHost[uint64, uint64](t, dev, scheme) })
		})
	}
}

func onEqualsHost[K weft.Key, V weft.Value](t *testing.T, dev device.Device, scheme linear.Tombstones) {
	opts := &linear.Options{Tombstones: scheme}
	host, on := conformance.Open(t, linear.New[K, V], dev, opts), conformance.Open(t, linear.New[K, V], dev, opts)
	s := devicetest.NewStream(t, dev)
	rng := rand.New(rand.NewPCG(1, 1))
	n := rows(dev)
	// Keys meet within a batch, and some look like sentinels.
	batch := func() ([]K, []V) {
		keys, vals := make([]K, n), make([]V, n)
		for i := range keys {
			keys[i], vals[i] = K(rng.IntN(n))-5, V(rng.IntN(1<<20)+1)
		}
		return keys, vals
	}
	for range 3 {
		keys, vals := batch()
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

		keys, _ = batch()
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
func onApply[K weft.Key, V weft.Value](t *testing.T, s *device.Stream, host, on *linear.Map[K, V], n int) {
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

func equal[T comparable](t testing.TB, what string, got, want []T) {
	t.Helper()
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%s, row %d: %v, want %v", what, i, got[i], want[i])
		}
	}
}

func samePairs[K weft.Key, V weft.Value](t testing.TB, got, want *linear.Map[K, V]) {
	t.Helper()
	pairs := func(m *linear.Map[K, V]) map[K]V {
		all := map[K]V{}
		for p, err := range m.Pages(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			for i, k := range p.Keys {
				all[k] = p.Vals[i]
			}
		}
		if err := m.Sync(t.Context()); err != nil || len(all) != m.Len() {
			t.Fatalf("Pages have %d pairs, Len is %d: %v", len(all), m.Len(), err)
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
	set, err := linear.NewSet[uint32](dev, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
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
	if err := set.CheckInvariants(); err != nil {
		t.Error(err)
	}
}

// Sync is how batches on the device report that there was no room, once.
func TestSyncReportsFull(t *testing.T) {
	dev := devicetest.Open(t)
	m := conformance.Open(t, linear.New[uint64, uint64], dev, &linear.Options{Capacity: 64, MaxLoad: 1, Fixed: true})
	s := devicetest.NewStream(t, dev)
	keys := devicetest.Upload(t, s, conformance.Sequence[uint64](1, 100))
	for range 2 {
		if err := m.PutOn(s, keys, keys); err != nil {
			t.Fatal(err)
		}
		if err := m.Sync(t.Context()); !errors.Is(err, weft.ErrFull) {
			t.Errorf("Sync after 100 keys for 64 slots: %v", err)
		}
		if err := m.Sync(t.Context()); err != nil {
			t.Errorf("Sync again: %v", err)
		}
		if m.Len() != 64 {
			t.Errorf("%d keys, want 64", m.Len())
		}
	}
}

// Two streams submit batches while the table grows under them, as other
// libraries have failed at: every key arrives.
func TestGrowthFromTwoStreams(t *testing.T) {
	dev := devicetest.Open(t)
	m := conformance.Open(t, linear.New[uint64, uint64], dev, nil)
	const batches = 20
	n := rows(dev) / 10
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
}

func TestOnLengthsAndClosed(t *testing.T) {
	dev := devicetest.Open(t)
	m := conformance.Open(t, linear.New[uint64, uint64], dev, nil)
	s := devicetest.NewStream(t, dev)
	three, two := devicetest.Upload(t, s, make([]uint64, 3)), devicetest.Upload(t, s, make([]uint64, 2))
	flags, kinds := devicetest.Upload(t, s, make([]bool, 2)), devicetest.Upload(t, s, make([]weft.OpKind, 2))
	for name, call := range map[string]func() error{
		"PutOn":          func() error { return m.PutOn(s, three, two) },
		"PutNewOn vals":  func() error { return m.PutNewOn(s, three, two, device.Slice[bool]{}) },
		"PutNewOn ok":    func() error { return m.PutNewOn(s, three, three, flags) },
		"GetOn vals":     func() error { return m.GetOn(s, three, two, device.Slice[bool]{}) },
		"GetOn found":    func() error { return m.GetOn(s, three, three, flags) },
		"ContainsOn":     func() error { return m.ContainsOn(s, three, flags) },
		"DeleteOn":       func() error { return m.DeleteOn(s, three, flags) },
		"ApplyOn kinds":  func() error { return m.ApplyOn(s, kinds, three, three, device.Slice[bool]{}) },
		"ApplyOn values": func() error { return m.ApplyOn(s, kinds, two, three, flags) },
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
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func() error{
		"PutOn":      func() error { return m.PutOn(s, two, two) },
		"PutNewOn":   func() error { return m.PutNewOn(s, two, two, flags) },
		"GetOn":      func() error { return m.GetOn(s, two, two, flags) },
		"ContainsOn": func() error { return m.ContainsOn(s, two, flags) },
		"DeleteOn":   func() error { return m.DeleteOn(s, two, flags) },
		"ApplyOn":    func() error { return m.ApplyOn(s, kinds, two, two, flags) },
		"Sync":       func() error { return m.Sync(t.Context()) },
		"Compact":    func() error { return m.Compact(t.Context()) },
		"Stats":      func() error { _, err := m.Stats(t.Context()); return err },
	} {
		if err := call(); !errors.Is(err, weft.ErrClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
}
