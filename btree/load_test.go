package btree

import (
	"errors"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

// TestLoadIsOneBatch checks that a load is one batch, however large it is.
func TestLoadIsOneBatch(t *testing.T) {
	m, err := New[uint32, uint32](devicetest.OpenSim(t, nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	b := &batch.Batch{Kind: op.Put, Flags: batch.Order, N: 6*maxOps + 1}
	if n, _, err := m.policy.Prepare(t.Context(), core.Counters{Exact: true}, nil, b); n != b.N || err != nil {
		t.Errorf("room for %d of %d pairs, %v", n, b.N, err)
	}
}

// TestLoadsOfEqualKeys loads keys that occur several times. Each key must get its first or its last
// value, as in any batch, whether results of single operations are requested or not.
func TestLoadsOfEqualKeys(t *testing.T) {
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	t.Run("uint32,uint32", loadsEqual[uint32, uint32])
	t.Run("int32,uint64", loadsEqual[int32, uint64])
	t.Run("uint64,uint32", loadsEqual[uint64, uint32])
	t.Run("int64,uint64", loadsEqual[int64, uint64])
}

func loadsEqual[K weft.Key, V weft.Value](t *testing.T) {
	dev := devicetest.OpenSim(t, nil)
	const n = 300
	keys, vals, first, last := make([]K, n), make([]V, n), map[K]V{}, map[K]V{}
	for i := range keys {
		keys[i], vals[i] = K(i*7%(n/3))-K(n/6), V(i)
		if _, ok := first[keys[i]]; !ok {
			first[keys[i]] = vals[i]
		}
		last[keys[i]] = vals[i]
	}
	s := devicetest.NewStream(t, dev)
	in, with := devicetest.Upload(t, s, keys), devicetest.Upload(t, s, vals)
	news := devicetest.Upload(t, s, make([]bool, n))
	loads := []struct {
		name string
		load func(m *Map[K, V]) error
		want map[K]V
	}{
		{"Put", func(m *Map[K, V]) error { return m.PutOn(s, in, with) }, last},
		{"PutNew", func(m *Map[K, V]) error { return m.PutNewOn(s, in, with, device.Slice[bool]{}) }, first},
		{"PutNew, asked", func(m *Map[K, V]) error { return m.PutNewOn(s, in, with, news) }, first},
	}
	for _, l := range loads {
		m, err := New[K, V](dev, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(l.load(m), m.Sync(t.Context()), m.Check(t.Context())); err != nil {
			t.Fatalf("%s: %v", l.name, err)
		}
		if m.Len() != len(l.want) {
			t.Errorf("%s: %d keys, want %d", l.name, m.Len(), len(l.want))
		}
		for k, v := range m.All() {
			if v != l.want[k] {
				t.Fatalf("%s: key %v has %v, want %v", l.name, k, v, l.want[k])
			}
		}
		// The work memory is released after the load, and allocated again.
		e := m.policy.engine.(*gpuEngine)
		if err := errors.Join(e.trimWork(0), m.PutOn(s, in, with), m.Sync(t.Context()), m.Check(t.Context())); err != nil || e.work.Size == 0 {
			t.Errorf("%s: another change with %d bytes: %v", l.name, e.work.Size, err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	all := make([]bool, n)
	if err := news.CopyTo(t.Context(), s, all); err != nil {
		t.Fatal(err)
	}
	for i, is := range all {
		if is != (vals[i] == first[keys[i]]) {
			t.Fatalf("row %d, key %v: new is %v", i, keys[i], is)
		}
	}
}
