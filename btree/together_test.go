package btree

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
)

// TestWaysBetweenKeys inserts batches with keys close together, some nodes apart, and far apart.
// All must reach their leaves, also in any order.
func TestWaysBetweenKeys(t *testing.T) {
	conformance.NotRaced(t, "the simulator has goroutines of its own")
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
		var more []uint32
		for at := uint32(0); at < n && len(more) < 400; at += step {
			more = append(more, at*gap+step)
		}
		slices.Reverse(more)
		if added, err := m.Put(t.Context(), more, more); err != nil || added != len(more) {
			t.Fatalf("step %d: %d of %d keys are new, %v", step, added, len(more), err)
		}
		if err := m.Check(t.Context()); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		vals, found := make([]uint32, len(more)), make([]bool, len(more))
		if hits, err := m.Get(t.Context(), more, vals, found); err != nil || hits != len(more) {
			t.Fatalf("step %d: %d of %d keys are found, %v", step, hits, len(more), err)
		}
		if gone, err := m.Delete(t.Context(), more, nil); err != nil || gone != len(more) || m.Len() != n {
			t.Fatalf("step %d: %d of %d keys are deleted, and %d left, %v", step, gone, len(more), m.Len(), err)
		}
	}
}
