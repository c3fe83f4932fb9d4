package linear_test

import (
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/linear"
)

// Every operation once for every pair of widths, with a few hundred keys: for
// tools that look at each access of a device and slow it down a thousand
// times, such as compute-sanitizer.
func TestSmoke(t *testing.T) {
	dev := devicetest.Open(t)
	for name, scheme := range schemes {
		t.Run(name, func(t *testing.T) {
			t.Run("uint32,uint32", func(t *testing.T) { smoke[uint32, uint32](t, dev, scheme) })
			t.Run("uint32,uint64", func(t *testing.T) { smoke[uint32, uint64](t, dev, scheme) })
			t.Run("uint64,uint32", func(t *testing.T) { smoke[uint64, uint32](t, dev, scheme) })
			t.Run("uint64,uint64", func(t *testing.T) { smoke[uint64, uint64](t, dev, scheme) })
		})
	}
	t.Run("set uint32", func(t *testing.T) { smokeSet[uint32](t, dev) })
	t.Run("set uint64", func(t *testing.T) { smokeSet[uint64](t, dev) })
}

const smokeKeys = 400

// smoke needs every kernel: lookups and changes at low and at high load, with
// and without duplicates, growth, iteration and statistics.
func smoke[K, V ~uint32 | ~uint64](t *testing.T, dev device.Device, scheme linear.Tombstones) {
	m := conformance.Open(t, linear.New[K, V], dev, &linear.Options{Tombstones: scheme, MaxLoad: .95})
	keys := conformance.Sequence[K](-3, smokeKeys) // the largest three, and small ones
	vals := make([]V, len(keys))
	for i, k := range keys {
		vals[i] = V(k)
	}
	want := func(what string, got, n int, err error) {
		t.Helper()
		if got != n || err != nil {
			t.Fatalf("%s: %d, want %d: %v", what, got, n, err)
		}
	}
	for lo := 0; lo < smokeKeys; lo += 100 { // growing
		n, err := m.Put(t.Context(), keys[lo:lo+100], vals[lo:lo+100])
		want("Put", n, 100, err)
	}
	n, err := m.Put(t.Context(), append(keys, keys...), append(vals, vals...))
	want("Put again", n, 0, err)
	n, err = m.Contains(t.Context(), keys, make([]bool, smokeKeys))
	want("Contains", n, smokeKeys, err)
	n, err = m.Delete(t.Context(), append(keys[:50:50], keys[:50]...), make([]bool, 100))
	want("Delete", n, 50, err)
	n, err = m.PutNew(t.Context(), append(keys[:60:60], keys[:60]...), append(vals[:60:60], vals[:60]...), make([]bool, 120))
	want("PutNew", n, 50, err)
	ops := make([]weft.Op[K, V], 100)
	for i := range ops {
		ops[i] = weft.Op[K, V]{Kind: weft.OpKind(i % 4), Key: keys[i/4], Value: vals[i/4]}
	}
	if err := m.Apply(t.Context(), ops, make([]weft.Result[V], 100)); err != nil {
		t.Fatal(err)
	}
	n, err = m.PutNew(t.Context(), keys, vals, nil)
	if err != nil {
		t.Fatalf("PutNew of what Apply deleted: %d, %v", n, err)
	}
	seen := 0
	for k, v := range m.All() {
		seen++
		if V(k) != v {
			t.Fatalf("All has %d: %d", k, v)
		}
	}
	want("All", seen, smokeKeys, m.Check(t.Context()))
	if s := conformance.StatsOf(t, m); s.Len != smokeKeys || s.MaxProbe == 0 {
		t.Errorf("Stats: %v", s)
	}
	if err := m.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	smokeOn(t, dev, m, keys, vals)
	if err := m.Clear(t.Context()); err != nil || m.Len() != 0 {
		t.Fatalf("Clear: %d keys, %v", m.Len(), err)
	}
}

// smokeOn is the same for batches on the device.
func smokeOn[K, V ~uint32 | ~uint64](t *testing.T, dev device.Device, m *linear.Map[K, V], keys []K, vals []V) {
	s := devicetest.NewStream(t, dev)
	k, v, ok := devicetest.Upload(t, s, keys), devicetest.Upload(t, s, vals), devicetest.Upload(t, s, make([]bool, len(keys)))
	kinds := make([]weft.OpKind, len(keys))
	for i := range kinds {
		kinds[i] = weft.OpKind(i % 4)
	}
	for name, call := range map[string]func() error{
		"PutOn":      func() error { return m.PutOn(s, k, v) },
		"PutNewOn":   func() error { return m.PutNewOn(s, k, v, ok) },
		"GetOn":      func() error { return m.GetOn(s, k, v, ok) },
		"ContainsOn": func() error { return m.ContainsOn(s, k, ok) },
	} {
		if err := call(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if err := m.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	conformance.WantPairs(t, m, keys)
	for name, call := range map[string]func() error{
		"DeleteOn": func() error { return m.DeleteOn(s, k, ok) },
		"ApplyOn":  func() error { return m.ApplyOn(s, devicetest.Upload(t, s, kinds), k, v, ok) },
	} {
		if err := call(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if err := m.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func smokeSet[K ~uint32 | ~uint64](t *testing.T, dev device.Device) {
	set, err := linear.NewSet[K](dev, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	keys := conformance.Sequence[K](-3, smokeKeys)
	if n, err := set.Add(t.Context(), append(keys, keys...), make([]bool, 2*smokeKeys)); n != smokeKeys || err != nil {
		t.Fatalf("Add: %d, %v", n, err)
	}
	if n, err := set.Delete(t.Context(), keys[:200], make([]bool, 200)); n != 200 || err != nil {
		t.Fatalf("Delete: %d, %v", n, err)
	}
	if n, err := set.Contains(t.Context(), keys, make([]bool, smokeKeys)); n != smokeKeys-200 || err != nil {
		t.Fatalf("Contains: %d, %v", n, err)
	}
	seen := 0
	for page, err := range set.Pages(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		seen += len(page)
	}
	if seen != smokeKeys-200 {
		t.Errorf("Pages have %d keys", seen)
	}
	if err := set.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s, err := set.Stats(t.Context()); s.Len != smokeKeys-200 || s.Tombstones != 0 || err != nil {
		t.Errorf("Stats: %v, %v", s, err)
	}
	if err := set.CheckInvariants(); err != nil {
		t.Error(err)
	}
}
