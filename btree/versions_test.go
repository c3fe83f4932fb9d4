package btree_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/btree"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
)

// versions names the kinds of versions.
var versions = map[string]btree.Versions{"in place": btree.InPlace, "out of place": btree.OutOfPlace}

// versioned makes maps with versions.
func versioned[K weft.Key, V weft.Value](v btree.Versions, unordered bool) conformance.Maker[conformance.AnyOrderedMap[K, V]] {
	return conformance.OrderedMapOf(func(dev device.Device, opts *btree.Options) (*btree.Map[K, V], error) {
		return btree.New[K, V](dev, &btree.Options{Versions: v, Unordered: unordered})
	}, nil)
}

// TestVersionsSimulated runs cases of the suite, and all cases of snapshots, for trees with
// versions on a simulated GPU.
func TestVersionsSimulated(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	for name, v := range versions {
		t.Run(name, func(t *testing.T) {
			dev := devicetest.OpenSim(t, &sim.Options{Scheduler: sim.Random, Seed: 2, Races: true})
			conformance.RunCases(t, dev, 60, versioned[uint32, uint32](v, false), "Apply", "Snapshot", "DeleteRange")
			conformance.RunCases(t, dev, 20, versioned[int64, uint64](v, false), "Snapshot")
		})
	}
}

// TestAssignCopies checks that Assign has enough nodes. It puts keys again that it has inserted,
// and each put may copy a leaf.
func TestAssignCopies(t *testing.T) {
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	const rows = 1000 // fewer would find nodes that others have left
	conformance.RunCases(t, devicetest.OpenSim(t, &sim.Options{}), rows, versioned[uint32, uint32](btree.OutOfPlace, false), "Assign")
}

// TestSnapshotsAreImmutable holds a snapshot over many batches with splits and merges. This
// snapshot, and those taken between batches, must not change. After the last one closes, the nodes
// that only they had must be free and reused.
func TestSnapshotsAreImmutable(t *testing.T) {
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for name, v := range versions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dev := devicetest.OpenSim(t, &sim.Options{Scheduler: sim.Random, Seed: 5})
			snapshotsAreImmutable(t, dev, v, 9) // batches that grow, shrink, and grow the map again
		})
	}
}

func snapshotsAreImmutable(t *testing.T, dev device.Device, v btree.Versions, rounds int) {
	m, err := btree.New[uint32, uint32](dev, &btree.Options{Versions: v})
	must(t, err)
	defer m.Close()
	rng := rand.New(rand.NewPCG(uint64(v), 7))
	model := map[uint32]uint32{}
	type held struct {
		at    *weft.Snapshot[uint32, uint32]
		pairs map[uint32]uint32
	}
	var snapshots []held
	for round := range rounds {
		ops := make([]weft.Op[uint32, uint32], 60)
		for i := range ops {
			k := uint32(rng.IntN(120))
			ops[i] = weft.Op[uint32, uint32]{Kind: weft.OpPut, Key: k, Value: rng.Uint32()}
			if round/3%2 == 1 && rng.IntN(4) != 0 {
				ops[i].Kind = weft.OpDelete
				delete(model, k)
			} else {
				model[k] = ops[i].Value
			}
		}
		must(t, m.Apply(t.Context(), ops, make([]weft.Result[uint32], len(ops))))
		must(t, m.Check(t.Context()))
		if round%3 == 1 {
			at, err := m.Snapshot(t.Context())
			must(t, err)
			snapshots = append(snapshots, held{at, cloned(model)})
		}
		for i, h := range snapshots {
			sameAsModel(t, fmt.Sprintf("round %d, snapshot %d", round, i), h.at, h.pairs)
		}
		if len(snapshots) > 2 {
			must(t, snapshots[1].at.Close())
			snapshots = slices.Delete(snapshots, 1, 2)
		}
	}
	stats, err := m.Stats(t.Context())
	must(t, err)
	if stats.Kept == 0 || stats.Copied == 0 {
		t.Errorf("%+v while %d snapshots are held", stats, len(snapshots))
	}
	for _, h := range snapshots {
		must(t, h.at.Close())
	}
	stats, err = m.Stats(t.Context())
	must(t, err)
	if v == btree.InPlace && (stats.Kept != 0 || stats.Spare == 0) {
		t.Errorf("%+v without a snapshot", stats)
	}
	if stats.Retired != stats.Freed+stats.Kept {
		t.Errorf("%+v: what is retired is neither free nor kept", stats)
	}
	at, err := m.Snapshot(t.Context())
	must(t, err)
	defer at.Close()
	_, err = m.Put(t.Context(), conformance.Sequence[uint32](0, 120), make([]uint32, 120))
	must(t, err)
	after, err := m.Stats(t.Context())
	must(t, err)
	if after.Spare >= stats.Spare && stats.Spare > 0 {
		t.Errorf("no node is used again: %+v, before %+v", after, stats)
	}
	sameAsModel(t, "in the end", at, model)
}

func cloned(m map[uint32]uint32) map[uint32]uint32 {
	c := map[uint32]uint32{}
	for k, v := range m {
		c[k] = v
	}
	return c
}

// sameAsModel looks up all pairs of a snapshot, and lists them forward, backward and in rows.
func sameAsModel(t *testing.T, name string, at *weft.Snapshot[uint32, uint32], want map[uint32]uint32) {
	t.Helper()
	ctx := t.Context()
	keys := conformance.Sequence[uint32](0, 120)
	vals, found := make([]uint32, len(keys)), make([]bool, len(keys))
	_, err := at.Get(ctx, keys, vals, found)
	must(t, err)
	for i, k := range keys {
		if v, ok := want[k]; ok != found[i] || v != vals[i] {
			t.Fatalf("%s: key %d has %d, %t, want %d, %t", name, k, vals[i], found[i], v, ok)
		}
	}
	n := 0
	last := int64(-1)
	for k, v := range at.All() {
		if n++; want[k] != v || int64(k) <= last {
			t.Fatalf("%s: pair %d, %d behind %d, want %d", name, k, v, last, want[k])
		}
		last = int64(k)
	}
	if n != len(want) || at.Len() != len(want) {
		t.Fatalf("%s: %d pairs and %d, want %d", name, n, at.Len(), len(want))
	}
	order := slices.Sorted(func(yield func(uint32) bool) {
		for k := range want {
			if !yield(k) {
				return
			}
		}
	})
	next, ok := make([]uint32, len(keys)), make([]bool, len(keys))
	_, err = at.Successor(ctx, keys, next, nil, ok)
	must(t, err)
	prev, okPrev := make([]uint32, len(keys)), make([]bool, len(keys))
	_, err = at.Predecessor(ctx, keys, prev, nil, okPrev)
	must(t, err)
	for i, k := range keys {
		j, is := slices.BinarySearch(order, k)
		before := j - 1
		if is {
			j++
		}
		if ok[i] != (j < len(order)) || ok[i] && next[i] != order[j] {
			t.Fatalf("%s: behind %d comes %d, %t", name, k, next[i], ok[i])
		}
		if okPrev[i] != (before >= 0) || okPrev[i] && prev[i] != order[before] {
			t.Fatalf("%s: before %d comes %d, %t", name, k, prev[i], okPrev[i])
		}
	}
}
