package conformance

import (
	"context"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// The tests of structures share the helpers in this file.

// ScaleOf returns the scale of suites on a device.
func ScaleOf(dev device.Device) Scale {
	switch dev.Properties().Kind {
	case device.CPU, device.CUDA:
		return fast
	}
	return Slow
}

// SkipRaced skips a test under the race detector. Call it in tests that run no goroutines
// concurrently, or only goroutines that other tests also run.
func SkipRaced(t testing.TB, reason string) {
	t.Helper()
	if Raced {
		t.Skip("not with the race detector: " + reason)
	}
}

// Part returns the scale for each of n suites that share the work of one suite at scale s. Slow
// scales are already small and are not divided.
func (s Scale) Part(n int) Scale {
	if s <= Slow {
		return s
	}
	return s / Scale(n)
}

// CheckedCloser has the methods that [Open] calls at the end of a test.
type CheckedCloser interface {
	CheckInvariants() error
	Close() error
}

// Open makes a structure. At the end of the test, the structure is checked and closed.
func Open[S CheckedCloser, O any](t testing.TB, open func(device.Device, O) (S, error), dev device.Device, opts O) S {
	t.Helper()
	s, err := open(dev, opts)
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

// MapOf returns a Maker that makes maps with the constructor open.
func MapOf[M AnyMap[K, V], K weft.Key, V weft.Value, O any](open func(device.Device, O) (M, error), opts O) Maker[AnyMap[K, V]] {
	return func(t testing.TB, dev device.Device) AnyMap[K, V] { return made(t, open, dev, opts) }
}

// OrderedMapOf returns a Maker that makes ordered maps with the constructor open.
func OrderedMapOf[M AnyOrderedMap[K, V], K weft.Key, V weft.Value, O any](open func(device.Device, O) (M, error), opts O) Maker[AnyOrderedMap[K, V]] {
	return func(t testing.TB, dev device.Device) AnyOrderedMap[K, V] { return made(t, open, dev, opts) }
}

// MultiMapOf returns a Maker that makes multimaps with the constructor open.
func MultiMapOf[M AnyMultiMap[K, V], K weft.Key, V weft.Value, O any](open func(device.Device, O) (M, error), opts O) Maker[AnyMultiMap[K, V]] {
	return func(t testing.TB, dev device.Device) AnyMultiMap[K, V] { return made(t, open, dev, opts) }
}

// SetOf returns a Maker that makes sets with the constructor open.
func SetOf[S AnySet[K], K weft.Key, O any](open func(device.Device, O) (S, error), opts O) Maker[AnySet[K]] {
	return func(t testing.TB, dev device.Device) AnySet[K] { return made(t, open, dev, opts) }
}

func made[S, O any](t testing.TB, open func(device.Device, O) (S, error), dev device.Device, opts O) S {
	t.Helper()
	s, err := open(dev, opts)
	must(t, err)
	return s
}

// Sequence returns the keys first to first+n-1. If first is negative, some keys look like
// sentinels.
func Sequence[K weft.Key](first, n int) []K {
	keys := make([]K, n)
	for i := range keys {
		keys[i] = K(first + i)
	}
	return keys
}

// WantCount fails the test unless a call has returned no error and n as its count.
func WantCount(t testing.TB, desc string, got, n int, err error) {
	t.Helper()
	if got != n || err != nil {
		t.Fatalf("%s: %d, want %d: %v", desc, got, n, err)
	}
}

// WantPairs fails the test unless a map has exactly the given keys, each with itself as value.
func WantPairs[K, V ~uint32 | ~uint64](t testing.TB, m interface {
	Get(ctx context.Context, keys []K, vals []V, found []bool) (int, error)
	Len() int
}, keys []K) {
	t.Helper()
	vals, found := make([]V, len(keys)), make([]bool, len(keys))
	hits, err := m.Get(ctx(), keys, vals, found)
	if err != nil || hits != len(keys) || m.Len() != len(keys) {
		t.Fatalf("found %d of %d keys, Len is %d: %v", hits, len(keys), m.Len(), err)
	}
	for i, k := range keys {
		if !found[i] || vals[i] != V(k) {
			t.Fatalf("key %d has value %d, found is %v", k, vals[i], found[i])
		}
	}
}

// StatsOf returns the statistics of a structure. It fails the test if Stats fails.
func StatsOf[T any](t testing.TB, s interface {
	Stats(context.Context) (T, error)
}) T {
	t.Helper()
	stats, err := s.Stats(ctx())
	if err != nil {
		t.Fatal(err)
	}
	return stats
}
