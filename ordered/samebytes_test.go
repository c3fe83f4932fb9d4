package ordered

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
)

// TestSameBytesOnGPU checks that a GPU writes the same leaves and the same index as a CPU. Only the
// locations of leaves may differ.
func TestSameBytesOnGPU(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	t.Run("uint32,uint32", func(t *testing.T) { SameOnGPU[uint32, uint32](t, devicetest.OpenSim(t, nil), 1, 24) })
	t.Run("uint64,uint32", func(t *testing.T) { SameOnGPU[uint64, uint32](t, devicetest.OpenSim(t, nil), 2, 24) })
}

// SameOnGPU changes a map on a GPU and one on a CPU, and compares their memory.
func SameOnGPU[K, V word](t testing.TB, gpu device.Device, seed uint64, rounds int) {
	t.Helper()
	ctx := context.Background()
	var maps [2]*Map[K, V]
	for i, dev := range []device.Device{devicetest.OpenCPU(t, 2), gpu} {
		m, err := New[K, V](dev, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		maps[i] = m
	}
	rng := rand.New(rand.NewPCG(seed, 3))
	top := 0
	for round := range rounds {
		n := []int{1 + rng.IntN(20), 100 + rng.IntN(400), 1500}[round%3]
		keys := make([]K, n)
		for j := range keys {
			keys[j] = K(rng.IntN(6000))
			switch {
			case round == 5 || round == 17: // after all others
				keys[j] = K(10_000 + top)
				top++
			case round%5 == 4: // all but a few, adjacent
				keys[j] = K(round*100 + j + j/20)
			}
		}
		change := func(m *Map[K, V]) (err error) {
			switch round % 5 {
			case 4:
				_, err = m.Delete(ctx, keys, nil)
			case 3:
				_, err = m.DeleteRange(ctx, keys[:3], []K{keys[0] + 900, keys[1] + 10, keys[2] + 100}, nil)
			case 2:
				ops := make([]weft.Op[K, V], n)
				for i := range ops {
					ops[i] = weft.Op[K, V]{Kind: []weft.OpKind{weft.OpPut, weft.OpDelete, weft.OpDelete, weft.OpGet, weft.OpUpdate}[i%5], Key: keys[i], Value: V(i)}
				}
				err = m.Apply(ctx, ops, make([]weft.Result[V], n))
			default:
				_, err = m.Put(ctx, keys, make([]V, n))
			}
			return err
		}
		if round == 0 {
			slices.Sort(keys)
			keys = slices.Compact(keys) // a CPU loads unsorted keys in parts
			n = len(keys)
		}
		for _, m := range maps {
			if err := change(m); err != nil {
				t.Fatal(err)
			}
		}
		e := maps[1].policy.engine.(*gpuEngine)
		on, err := copyToHost[K, V](ctx, e, e.current())
		if err != nil {
			t.Fatal(err)
		}
		sameForest(t, round, maps[0].policy.engine.(*cpuEngine[K, V]).forest(), on)
	}
}

func sameForest[K, V word](t testing.TB, round int, a, b *forest[K, V]) {
	t.Helper()
	x, y := a.present, b.present
	if !slices.EqualFunc(x.seps, y.seps, slices.Equal[[]K]) || !slices.Equal(x.sizes, y.sizes) || !slices.Equal(x.ranks, y.ranks) {
		t.Fatalf("round %d: indexes of %d and %d leaves differ: %v %v and %v %v", round, x.leaves, y.leaves, x.seps[0], x.sizes, y.seps[0], y.sizes)
	}
	for i := range x.leaves {
		if p, q := a.at(x.ids[i]), b.at(y.ids[i]); p.keys != q.keys || !slices.Equal(p.vals[:x.sizes[i]], q.vals[:x.sizes[i]]) {
			t.Fatalf("round %d: leaf %d: %v and %v", round, i, p, q)
		}
	}
}

// TestSameBytes checks that the memory of a map does not depend on the number of cores.
func TestSameBytes(t *testing.T) {
	defer ShrinkPieces(1000, 4, 16)()
	ctx := context.Background()
	var maps [2]*Map[uint32, uint32]
	for i, cores := range []int{1, 3} {
		m, err := New[uint32, uint32](devicetest.OpenCPU(t, cores), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		maps[i] = m
		rng := rand.New(rand.NewPCG(3, 3))
		for round := range 20 {
			keys := make([]uint32, 1+rng.IntN(3000))
			for j := range keys {
				keys[j] = rng.Uint32N(20_000)
			}
			switch round % 4 {
			case 3:
				_, err = m.Delete(ctx, keys, nil)
			case 2:
				_, err = m.DeleteRange(ctx, keys[:1], []uint32{keys[0] + 3000}, nil)
			default:
				_, err = m.Put(ctx, keys, keys)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	a, b := forestOf(maps[0]), forestOf(maps[1])
	x, y := a.present, b.present
	if x.leaves == 0 || !slices.Equal(x.seps[0], y.seps[0]) || !slices.Equal(x.ids, y.ids) || !slices.Equal(x.sizes, y.sizes) || !slices.Equal(x.ranks, y.ranks) {
		t.Fatalf("indexes of %d and %d leaves differ", x.leaves, y.leaves)
	}
	for _, id := range x.ids[:x.leaves] {
		if *a.at(id) != *b.at(id) {
			t.Errorf("leaf %d: %v and %v", id, a.at(id), b.at(id))
		}
	}
}

func forestOf(m *Map[uint32, uint32]) *forest[uint32, uint32] {
	return m.policy.engine.(*cpuEngine[uint32, uint32]).forest()
}
