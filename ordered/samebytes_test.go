package ordered

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft/device/devicetest"
)

// The memory of a map does not depend on the number of cores that worked on it.
func TestSameBytes(t *testing.T) {
	defer Tiny(1000, 4, 16)()
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
