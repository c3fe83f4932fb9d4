package durable_test

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/durable"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/linear"
	"github.com/weftgo/weft/ordered"
	"github.com/weftgo/weft/slab"
)

// The suites of all kinds of structures pass for durable ones, and what each case leaves is there
// when the store is opened again.
func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("the suites of other packages")
	}
	// Calls that run while Strife closes a structure change it after its content has been read.
	const size = conformance.Slow
	for name, dev := range map[string]device.Device{"CPU": devicetest.OpenCPU(t, 2), "GPU": devicetest.OpenSim(t, nil)} {
		without := []string{"Strife"}
		if name == "GPU" {
			without = append(without, conformance.HostCases...)
		}
		t.Run(name+", map", func(t *testing.T) {
			conformance.Map(t, dev, size, func(t testing.TB, dev device.Device) conformance.AnyMap[uint32, uint32] {
				s := openCase(t, func() (*linear.Map[uint32, uint32], error) { return linear.New[uint32, uint32](dev, nil) },
					func(m *linear.Map[uint32, uint32]) any { return maps.Collect(m.All()) })
				return durableMap{s.m, s}
			}, without...)
		})
		t.Run(name+", set", func(t *testing.T) {
			conformance.Set(t, dev, size, func(t testing.TB, dev device.Device) conformance.AnySet[uint32] {
				s := openCase(t, func() (*linear.Set[uint32], error) { return linear.NewSet[uint32](dev, nil) },
					func(m *linear.Set[uint32]) any { return slices.Sorted(m.All()) })
				return durableSet{s.m, s}
			}, without...)
		})
		t.Run(name+", multimap", func(t *testing.T) {
			conformance.MultiMap(t, dev, size, func(t testing.TB, dev device.Device) conformance.AnyMultiMap[uint32, uint32] {
				s := openCase(t, func() (*slab.MultiMap[uint32, uint32], error) { return slab.NewMultiMap[uint32, uint32](dev, nil) },
					func(m *slab.MultiMap[uint32, uint32]) any { return rowsOf(m, name == "CPU") })
				return durableMultiMap{s.m, s}
			}, without...)
		})
		t.Run(name+", ordered", func(t *testing.T) {
			conformance.OrderedMap(t, dev, size, func(t testing.TB, dev device.Device) conformance.AnyOrderedMap[uint32, uint32] {
				s := openCase(t, func() (*ordered.Map[uint32, uint32], error) { return ordered.New[uint32, uint32](dev, nil) },
					func(m *ordered.Map[uint32, uint32]) any { return maps.Collect(m.All()) })
				return durableOrdered{s.m, s}
			}, without...)
		})
	}
}

// rowsOf returns the values of each key: in their order, or sorted, since Open may change the order
// on a GPU.
func rowsOf(m *slab.MultiMap[uint32, uint32], ordered bool) any {
	rows := map[uint32][]uint32{}
	for k, v := range m.All() {
		rows[k] = append(rows[k], v)
	}
	for _, row := range rows {
		if !ordered {
			slices.Sort(row)
		}
	}
	return rows
}

type (
	durableMap struct {
		*linear.Map[uint32, uint32]
		*reopening[*linear.Map[uint32, uint32]]
	}
	durableSet struct {
		*linear.Set[uint32]
		*reopening[*linear.Set[uint32]]
	}
	durableMultiMap struct {
		*slab.MultiMap[uint32, uint32]
		*reopening[*slab.MultiMap[uint32, uint32]]
	}
	durableOrdered struct {
		*ordered.Map[uint32, uint32]
		*reopening[*ordered.Map[uint32, uint32]]
	}
)

func (m durableMap) Close() error      { return m.close() }
func (m durableSet) Close() error      { return m.close() }
func (m durableMultiMap) Close() error { return m.close() }
func (m durableOrdered) Close() error  { return m.close() }

// reopening is a structure that a case of a suite changes.
type reopening[M durable.Structure] struct {
	t       testing.TB
	m       M
	dir     string
	make    func() (M, error)
	content func(M) any
	closed  bool
}

func openCase[M durable.Structure](t testing.TB, make func() (M, error), content func(M) any) *reopening[M] {
	t.Helper()
	dir := t.TempDir()
	m, err := durable.Open(ctx, dir, make, durable.Options{Sync: durable.OS, LogLimit: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	return &reopening[M]{t, m, dir, make, content, false}
}

// close closes the structure and compares its content with that of its store.
func (r *reopening[M]) close() error {
	if r.closed {
		return r.m.Close()
	}
	r.closed = true
	want := r.content(r.m)
	if err := r.m.Close(); err != nil {
		return err
	}
	m, err := durable.Open(ctx, r.dir, r.make, durable.Options{})
	if err != nil {
		r.t.Error(err)
		return nil
	}
	if got := r.content(m); !reflect.DeepEqual(got, want) {
		r.t.Errorf("after Open the content is not what it was before Close")
	}
	return m.Close()
}
