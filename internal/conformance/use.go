package conformance

import (
	"context"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// Helpers that tests of structures share.

// ScaleOf returns the amount of work of suites on a device.
func ScaleOf(dev device.Device) Scale {
	switch dev.Properties().Kind {
	case device.CPU, device.CUDA:
		return fast
	}
	return Slow
}

// SkipRaced skips a test under the race detector, if it runs no goroutines concurrently, or none
// that other tests lack.
func SkipRaced(t testing.TB, reason string) {
	t.Helper()
	if Raced {
		t.Skip("not with the race detector: " + reason)
	}
}

// Part returns the scale of one of n suites that do this much work together. Slow scales are small
// already and stay.
func (s Scale) Part(n int) Scale {
	if s <= Slow {
		return s
	}
	return s / Scale(n)
}

// CheckedCloser is a structure that [Open] checks and closes.
type CheckedCloser interface {
	CheckInvariants() error
	Close() error
}

// Open makes a structure that is checked and closed with the test.
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

// MapOf returns a Maker of maps from the constructor of a package.
func MapOf[M AnyMap[K, V], K weft.Key, V weft.Value, O any](open func(device.Device, O) (M, error), opts O) Maker[AnyMap[K, V]] {
	return func(t testing.TB, dev device.Device) AnyMap[K, V] { return made(t, open, dev, opts) }
}

// OrderedMapOf returns a Maker of ordered maps.
func OrderedMapOf[M AnyOrderedMap[K, V], K weft.Key, V weft.Value, O any](open func(device.Device, O) (M, error), opts O) Maker[AnyOrderedMap[K, V]] {
	return func(t testing.TB, dev device.Device) AnyOrderedMap[K, V] { return made(t, open, dev, opts) }
}

// MultiMapOf returns a Maker of multimaps.
func MultiMapOf[M AnyMultiMap[K, V], K weft.Key, V weft.Value, O any](open func(device.Device, O) (M, error), opts O) Maker[AnyMultiMap[K, V]] {
	return func(t testing.TB, dev device.Device) AnyMultiMap[K, V] { return made(t, open, dev, opts) }
}

// SetOf returns a Maker of sets.
func SetOf[S AnySet[K], K weft.Key, O any](open func(device.Device, O) (S, error), opts O) Maker[AnySet[K]] {
	return func(t testing.TB, dev device.Device) AnySet[K] { return made(t, open, dev, opts) }
}

func made[S, O any](t testing.TB, open func(device.Device, O) (S, error), dev device.Device, opts O) S {
	t.Helper()
	s, err := open(dev, opts)
	must(t, err)
	return s
}

// Sequence returns n consecutive keys from first on, which may be negative. The largest keys look
// like reserved ones.
func Sequence[K weft.Key](first, n int) []K {
	keys := make([]K, n)
	for i := range keys {
		keys[i] = K(first + i)
	}
	return keys
}

// WantCount fails unless a call counted n.
func WantCount(t testing.TB, desc string, got, n int, err error) {
	t.Helper()
	if got != n || err != nil {
		t.Fatalf("%s: %d, want %d: %v", desc, got, n, err)
	}
}

// WantPairs fails unless a map has exactly these keys, each with itself as value.
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

// StatsOf returns the statistics of a structure.
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
