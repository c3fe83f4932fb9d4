package btree

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
)

// TestWaysBetweenKeys inserts batches in which neighboring keys are close together, some nodes
// apart, or far apart. All keys must reach their leaves, also in any order.
func TestWaysBetweenKeys(t *testing.T) {
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, unordered := range []bool{false, true} {
		t.Run(fmt.Sprintf("unordered=%v", unordered), func(t *testing.T) {
			t.Parallel()
			waysBetweenKeys(t, unordered)
		})
	}
}

func waysBetweenKeys(t *testing.T, unordered bool) {
	m, err := New[uint32, uint32](devicetest.OpenSim(t, nil), &Options{Fill: 0.6, Unordered: unordered})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	const n, gap = 20_000, 1000 // five levels, with about forty nodes on the third
	keys := make([]uint32, n)
	for i := range keys {
		keys[i] = uint32(i) * gap
	}
	if _, err := m.Put(t.Context(), keys, keys); err != nil {
		t.Fatal(err)
	}
	// Pairs between keys: one leaf, some leaves, one node of the third level, some, and far ones.
	for _, step := range []uint32{1, 3, 70, 700, 2100, 4700} {
		var inserts []uint32
		for at := uint32(0); at < n && len(inserts) < 400; at += step {
			inserts = append(inserts, at*gap+step)
		}
		slices.Reverse(inserts)
		if added, err := m.Put(t.Context(), inserts, inserts); err != nil || added != len(inserts) {
			t.Fatalf("step %d: %d of %d keys are new, %v", step, added, len(inserts), err)
		}
		if err := m.Check(t.Context()); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		vals, found := make([]uint32, len(inserts)), make([]bool, len(inserts))
		if hits, err := m.Get(t.Context(), inserts, vals, found); err != nil || hits != len(inserts) {
			t.Fatalf("step %d: %d of %d keys are found, %v", step, hits, len(inserts), err)
		}
		if deleted, err := m.Delete(t.Context(), inserts, nil); err != nil || deleted != len(inserts) || m.Len() != n {
			t.Fatalf("step %d: %d of %d keys are deleted, and %d left, %v", step, deleted, len(inserts), m.Len(), err)
		}
	}
}
