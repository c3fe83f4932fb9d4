package btree

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/core"
)

// TestTreesMoveBetweenDevices copies the memory of a tree between a GPU and a CPU. Each device
// reads and changes a tree that the other wrote. (A CPU writes children in order, which kernels do
// not require.)
func TestTreesMoveBetweenDevices(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	t.Run("uint32,uint32", moves[uint32, uint32, uint32])
	t.Run("uint32,uint64", moves[uint32, uint64, uint64])
	t.Run("uint64,uint64", moves[uint64, uint64, uint64])
}

func moves[K, V, T word](t *testing.T) {
	simulated, err := sim.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer simulated.Close()
	gpu, err := New[K, V](simulated, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer gpu.Close()
	host, err := New[K, V](devicetest.OpenCPU(t, 2), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	rng := rand.New(rand.NewPCG(5, 5))
	want := map[K]V{}
	change := func(m *weft.OrderedMap[K, V]) {
		t.Helper()
		ops := make([]weft.Op[K, V], 400)
		for i := range ops {
			k, v := K(rng.IntN(900)), V(rng.Uint64())
			ops[i] = weft.Op[K, V]{Kind: weft.OpPut, Key: k, Value: v}
			if want[k] = v; rng.IntN(3) == 0 {
				ops[i].Kind = weft.OpDelete
				delete(want, k)
			}
		}
		if err := m.Apply(t.Context(), ops, make([]weft.Result[V], len(ops))); err != nil {
			t.Fatal(err)
		}
	}
	is := func(m *weft.OrderedMap[K, V]) {
		t.Helper()
		if err := m.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		n := 0
		for k, v := range m.All() {
			if n++; want[k] != v {
				t.Fatalf("key %d has %d, want %d", k, v, want[k])
			}
		}
		if n != len(want) {
			t.Fatalf("%d pairs, want %d", n, len(want))
		}
	}
	for range 3 {
		change(gpu.OrderedMap)
	}
	toHost[K, V, T](t, gpu, host)
	is(host.OrderedMap)
	for range 3 {
		change(host.OrderedMap)
	}
	is(host.OrderedMap)
	toGPU[K, V, T](t, host, gpu)
	is(gpu.OrderedMap)
	change(gpu.OrderedMap)
	is(gpu.OrderedMap)
}

// toHost copies the memory of a tree to a host.
func toHost[K, V, T word](t *testing.T, from, to *Map[K, V]) {
	g, h := from.policy.engine.(*gpuEngine), to.policy.engine.(*cpuEngine[K, V, T])
	err := to.core.WithWriteLock(t.Context(), "move", func(core.Counters) error {
		if _, err := g.ReadCounters(t.Context()); err != nil {
			return err
		}
		tree := h.tree()
		if err := tree.grow(g.current().maxUsed); err != nil {
			return err
		}
		if err := g.Stream.CopyOut(t.Context(), tree.buf.Host[:g.bytesFor(g.current().maxUsed)], g.current().buf.Ptr); err != nil {
			return err
		}
		a, c := tree.nodes(), tree.control()
		*c = control{tally: c.tally, top: uint32(c.nAllocated())}
		tree.tally, tree.free = c.tally, nil
		var deleted []uint32
		for id := range c.top {
			switch n := a.at(id); {
			case n.isDead():
				deleted = append(deleted, id)
			case n.level() > 0:
				slices.SortFunc(n.slots[:n.count()], func(x, y slot[T]) int { return less(y.key, x.key) - less(x.key, y.key) })
			}
		}
		tree.freeNodes(deleted)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	touch(t, to)
}

// toGPU copies the memory of a tree to a GPU. Nodes that are free there stay unused.
func toGPU[K, V, T word](t *testing.T, from, to *Map[K, V]) {
	h, g := from.policy.engine.(*cpuEngine[K, V, T]), to.policy.engine.(*gpuEngine)
	err := to.core.WithWriteLock(t.Context(), "move", func(core.Counters) error {
		tree := h.tree()
		n := int(tree.control().top)
		if err := g.current().grow(n); err != nil {
			return err
		}
		g.stale = true
		g.current().order.nodes = 0
		return g.Stream.CopyIn(g.current().buf.Ptr, tree.buf.Host[:h.bytesFor(n)])
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Stream.Sync(context.Background()); err != nil {
		t.Fatal(err)
	}
	touch(t, to)
}

// touch makes the core read the counters.
func touch[K, V word](t *testing.T, m *Map[K, V]) {
	if _, err := m.Delete(t.Context(), []K{1 << 31}, nil); err != nil {
		t.Fatal(err)
	}
}
