package slab_test

import (
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/slab"
)

// Every operation once for every pair of widths, with a few hundred keys: for
// tools that look at each access of a device and slow it down a thousand
// times, such as compute-sanitizer.
func TestSmoke(t *testing.T) { smokeAll(t, devicetest.Open(t)) }

func smokeAll(t *testing.T, dev device.Device) {
	t.Run("uint32,uint32", func(t *testing.T) { smoke[uint32, uint32](t, dev) })
	t.Run("uint32,uint64", func(t *testing.T) { smoke[uint32, uint64](t, dev) })
	t.Run("uint64,uint32", func(t *testing.T) { smoke[uint64, uint32](t, dev) })
	t.Run("uint64,uint64", func(t *testing.T) { smoke[uint64, uint64](t, dev) })
	t.Run("multimap uint32,uint32", func(t *testing.T) { smokeMulti[uint32, uint32](t, dev) })
	t.Run("multimap uint32,uint64", func(t *testing.T) { smokeMulti[uint32, uint64](t, dev) })
	t.Run("multimap uint64,uint32", func(t *testing.T) { smokeMulti[uint64, uint32](t, dev) })
	t.Run("multimap uint64,uint64", func(t *testing.T) { smokeMulti[uint64, uint64](t, dev) })
	t.Run("set uint32", func(t *testing.T) { smokeSet[uint32](t, dev) })
	t.Run("set uint64", func(t *testing.T) { smokeSet[uint64](t, dev) })
}

const smokeKeys = 400

// smokePairs are the largest four keys, and small ones.
func smokePairs[K, V ~uint32 | ~uint64]() ([]K, []V) {
	keys := conformance.Sequence[K](-4, smokeKeys)
	vals := make([]V, len(keys))
	for i, k := range keys {
		vals[i] = V(k)
	}
	return keys, vals
}

func smoke[K, V ~uint32 | ~uint64](t *testing.T, dev device.Device) {
	m := conformance.Open(t, slab.New[K, V], dev, nil)
	keys, vals := smokePairs[K, V]()
	for lo := 0; lo < smokeKeys; lo += 100 { // growing
		n, err := m.Put(t.Context(), keys[lo:lo+100], vals[lo:lo+100])
		conformance.Want(t, "Put", n, 100, err)
	}
	n, err := m.Put(t.Context(), slices.Concat(keys, keys), slices.Concat(vals, vals))
	conformance.Want(t, "Put again", n, 0, err)
	n, err = m.Contains(t.Context(), keys, make([]bool, smokeKeys))
	conformance.Want(t, "Contains", n, smokeKeys, err)
	twice := slices.Concat(keys[:50], keys[:50])
	n, err = m.Delete(t.Context(), twice, make([]bool, 100))
	conformance.Want(t, "Delete", n, 50, err)
	n, err = m.PutNew(t.Context(), twice, slices.Concat(vals[:50], vals[:50]), make([]bool, 100))
	conformance.Want(t, "PutNew", n, 50, err)
	ops := make([]weft.Op[K, V], 100)
	for i := range ops {
		ops[i] = weft.Op[K, V]{Kind: weft.OpKind(i % 4), Key: keys[i/4], Value: vals[i/4]}
	}
	if err := m.Apply(t.Context(), ops, make([]weft.Result[V], 100)); err != nil {
		t.Fatal(err)
	}
	if _, err = m.PutNew(t.Context(), keys, vals, nil); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for k, v := range m.All() {
		seen++
		if V(k) != v {
			t.Fatalf("All has %d: %d", k, v)
		}
	}
	conformance.Want(t, "All", seen, smokeKeys, nil)
	if s := conformance.StatsOf(t, m); s.Len != smokeKeys || s.MaxChain == 0 || s.String() == "" {
		t.Errorf("Stats: %v", s)
	}
	if err := m.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	smokeOn(t, dev, m, keys, vals)
	if err := m.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := m.Clear(t.Context()); err != nil || m.Len() != 0 {
		t.Fatalf("Clear: %d keys, %v", m.Len(), err)
	}
}

// smokeOn is the same for batches on the device.
func smokeOn[K, V ~uint32 | ~uint64](t *testing.T, dev device.Device, m *slab.Map[K, V], keys []K, vals []V) {
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

func smokeMulti[K, V ~uint32 | ~uint64](t *testing.T, dev device.Device) {
	m := conformance.Open(t, slab.NewMultiMap[K, V], dev, nil)
	keys, vals := smokePairs[K, V]()
	for range 3 {
		n, err := m.Put(t.Context(), keys, vals)
		conformance.Want(t, "Put", n, smokeKeys, err)
	}
	n, err := m.PutNew(t.Context(), keys, vals, make([]bool, smokeKeys))
	conformance.Want(t, "PutNew", n, 0, err)
	// A key that so many want to add to that a few do it for all, and one that
	// is twice in its batch.
	hot, both := slices.Repeat([]K{1 << 20}, 100), []K{1 << 21, 1 << 21}
	n, err = m.Put(t.Context(), hot, make([]V, len(hot)))
	conformance.Want(t, "Put of one key", n, len(hot), err)
	n, err = m.PutNew(t.Context(), both, make([]V, 2), make([]bool, 2))
	conformance.Want(t, "PutNew twice", n, 1, err)
	n, err = m.DeleteAll(t.Context(), append(both, hot[:2]...), nil)
	conformance.Want(t, "DeleteAll of them", n, len(hot)+1, err)
	n, err = m.Get(t.Context(), keys, make([]V, smokeKeys), make([]bool, smokeKeys))
	conformance.Want(t, "Get", n, smokeKeys, err)
	n, err = m.Count(t.Context(), keys, make([]uint32, smokeKeys))
	conformance.Want(t, "Count", n, 3*smokeKeys, err)
	var rows weft.Rows[V]
	err = m.GetAll(t.Context(), keys, &rows)
	conformance.Want(t, "GetAll", len(rows.Vals), 3*smokeKeys, err)
	for i, k := range keys {
		for _, v := range rows.Row(i) {
			if v != V(k) {
				t.Fatalf("key %d has the value %d", k, v)
			}
		}
	}
	n, err = m.Delete(t.Context(), keys[:100], make([]bool, 100))
	conformance.Want(t, "Delete", n, 100, err)
	removed := make([]uint32, 100)
	n, err = m.DeleteAll(t.Context(), keys[50:150], removed)
	conformance.Want(t, "DeleteAll", n, 250, err)
	equal(t, "removed", removed, slices.Concat(slices.Repeat([]uint32{2}, 50), slices.Repeat([]uint32{3}, 50)))
	ops := make([]weft.Op[K, V], 100)
	for i := range ops {
		ops[i] = weft.Op[K, V]{Kind: weft.OpKind(i % 5), Key: keys[i/5], Value: vals[i/5]}
	}
	if err := m.Apply(t.Context(), ops, make([]weft.Result[V], 100)); err != nil {
		t.Fatal(err)
	}
	before := m.Len()
	if err := m.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := conformance.StatsOf(t, m); s.Len != before || s.Tombstones != 0 {
		t.Errorf("%d pairs, then %v", before, s)
	}
	smokeMultiOn(t, dev, m, keys, vals)
}

func smokeMultiOn[K, V ~uint32 | ~uint64](t *testing.T, dev device.Device, m *slab.MultiMap[K, V], keys []K, vals []V) {
	s := devicetest.NewStream(t, dev)
	k, v, ok := devicetest.Upload(t, s, keys), devicetest.Upload(t, s, vals), devicetest.Upload(t, s, make([]bool, len(keys)))
	counts, offsets := devicetest.Upload(t, s, make([]uint32, len(keys))), devicetest.Upload(t, s, make([]uint64, len(keys)+1))
	for name, call := range map[string]func() error{
		"PutOn":       func() error { return m.PutOn(s, k, v) },
		"PutNewOn":    func() error { return m.PutNewOn(s, k, v, ok) },
		"GetOn":       func() error { return m.GetOn(s, k, v, ok) },
		"GetAllOn":    func() error { return m.GetAllOn(s, k, counts, offsets, v) },
		"CountOn":     func() error { return m.CountOn(s, k, counts) },
		"ContainsOn":  func() error { return m.ContainsOn(s, k, ok) },
		"DeleteOn":    func() error { return m.DeleteOn(s, k, ok) },
		"DeleteAllOn": func() error { return m.DeleteAllOn(s, k.Sub(0, 10), counts.Sub(0, 10)) },
		"ApplyOn":     func() error { return m.ApplyOn(s, devicetest.Upload(t, s, make([]weft.OpKind, len(keys))), k, v, ok) },
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
	set := conformance.Open(t, slab.NewSet[K], dev, nil)
	keys := conformance.Sequence[K](-4, smokeKeys)
	n, err := set.Add(t.Context(), slices.Concat(keys, keys), make([]bool, 2*smokeKeys))
	conformance.Want(t, "Add", n, smokeKeys, err)
	n, err = set.Delete(t.Context(), keys[:200], make([]bool, 200))
	conformance.Want(t, "Delete", n, 200, err)
	n, err = set.Contains(t.Context(), keys, make([]bool, smokeKeys))
	conformance.Want(t, "Contains", n, smokeKeys-200, err)
	seen := 0
	for range set.All() {
		seen++
	}
	conformance.Want(t, "All", seen, smokeKeys-200, nil)
	if err := set.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := conformance.StatsOf(t, set); s.Len != smokeKeys-200 || s.Tombstones != 0 {
		t.Errorf("Stats: %v", s)
	}
}

// A listener is a device that notes which kernels are launched.
type listener struct {
	device.Device
	launched map[string]bool
}

func (l *listener) NewStream() (*device.Stream, error) {
	s, err := l.Device.NewStream()
	if err != nil {
		return nil, err
	}
	return device.NewStream(l, &listening{s.Driver(), l}), nil
}

type listening struct {
	device.StreamDriver
	to *listener
}

func (s *listening) Launch(k device.Kernel, grid, block device.Dim, params []byte) error {
	s.to.launched[k.Name()] = true
	return s.StreamDriver.Launch(k, grid, block, params)
}

// Those who look at TestSmoke see every kernel.
func TestSmokeLaunchesEveryKernel(t *testing.T) {
	l := &listener{devicetest.OpenSim(t, &sim.Options{}), map[string]bool{}}
	smokeAll(t, l)
	for _, k := range slab.Kernels() {
		if !l.launched[k] {
			t.Errorf("%s was not launched", k)
		}
	}
}
