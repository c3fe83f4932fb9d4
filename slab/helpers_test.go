package slab_test

import (
	"context"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/slab"
)

// cancelled is a context that has ended.
func cancelled(t testing.TB) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// sequence is n keys from first on.
func sequence[K weft.Key](first, n int) []K {
	keys := make([]K, n)
	for i := range keys {
		keys[i] = K(first + i)
	}
	return keys
}

// closer is what all structures have in common here.
type closer interface {
	CheckInvariants() error
	Close() error
}

// tended is a structure that is checked and closed with the test.
func tended[S closer](t testing.TB, s S, err error) S {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.CheckInvariants(); err != nil {
			t.Errorf("invariants: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func newMap[K weft.Key, V weft.Value](t testing.TB, dev device.Device, opts *slab.Options) *slab.Map[K, V] {
	t.Helper()
	m, err := slab.New[K, V](dev, opts)
	return tended(t, m, err)
}

func newMultiMap[K weft.Key, V weft.Value](t testing.TB, dev device.Device, opts *slab.Options) *slab.MultiMap[K, V] {
	t.Helper()
	m, err := slab.NewMultiMap[K, V](dev, opts)
	return tended(t, m, err)
}

// want fails unless a call counted n.
func want(t testing.TB, what string, got, n int, err error) {
	t.Helper()
	if got != n || err != nil {
		t.Fatalf("%s: %d, want %d: %v", what, got, n, err)
	}
}

// wantPairs fails unless the map has exactly these keys, each with itself as
// its value.
func wantPairs[K, V ~uint32 | ~uint64](t testing.TB, m *slab.Map[K, V], keys []K) {
	t.Helper()
	vals, found := make([]V, len(keys)), make([]bool, len(keys))
	hits, err := m.Get(context.Background(), keys, vals, found)
	if err != nil || hits != len(keys) || m.Len() != len(keys) {
		t.Fatalf("found %d of %d keys, Len is %d: %v", hits, len(keys), m.Len(), err)
	}
	for i, k := range keys {
		if !found[i] || vals[i] != V(k) {
			t.Fatalf("key %d has value %d, found is %v", k, vals[i], found[i])
		}
	}
}

func statsOf(t testing.TB, m interface {
	Stats(context.Context) (slab.Stats, error)
}) slab.Stats {
	t.Helper()
	s, err := m.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func equal[T comparable](t testing.TB, what string, got, want []T) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d rows, want %d", what, len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%s, row %d: %v, want %v", what, i, got[i], want[i])
		}
	}
}

// rows is the size of large batches.
func rows(dev device.Device) int { return min(scale(dev).Rows(), 20_000) }
