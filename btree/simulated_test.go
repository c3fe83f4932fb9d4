package btree_test

import (
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/btree"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
)

// TestKernelsSimulated runs cases of the suite on a simulated GPU, for pairs of widths. Schedules
// are random, memory is weak, and a data race is a fault. (WEFT_DEVICE=sim runs all cases.)
func TestKernelsSimulated(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	t.Run("uint32,uint32", func(t *testing.T) {
		simulated[uint32, uint32](t, sim.Random, "Apply", "RangeOnRoom", "DeleteRangeOverlaps")
	})
	t.Run("int32,uint64", func(t *testing.T) { simulated[int32, uint64](t, sim.PCT, "SeekOnBehindChanges") })
	t.Run("int64,uint64", func(t *testing.T) { simulated[int64, uint64](t, sim.PCT, "Snapshot") })
}

func simulated[K weft.Key, V weft.Value](t *testing.T, scheduler sim.Scheduler, names ...string) {
	dev := devicetest.OpenSim(t, &sim.Options{Scheduler: scheduler, Seed: 1, Races: true})
	conformance.RunCases(t, dev, 60, conformance.OrderedMapOf(btree.New[K, V], nil), names...)
}

// TestOrdersOfKeys inserts and deletes keys in several orders: shuffled, ascending and descending.
// Sorted keys all go to one leaf. The rules of the tree must hold under any schedule.
func TestOrdersOfKeys(t *testing.T) {
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	open := func(t *testing.T, seed uint64) device.Device {
		t.Parallel()
		return devicetest.OpenSim(t, &sim.Options{Scheduler: sim.Random, Seed: seed, Races: true})
	}
	t.Run("64_64", func(t *testing.T) { ordersOfKeys[uint64, uint64](t, open(t, 0), false) })
	t.Run("32_32,unordered", func(t *testing.T) { ordersOfKeys[uint32, uint32](t, open(t, 1), true) })
}

func ordersOfKeys[K ~uint32 | ~uint64, V ~uint32 | ~uint64](t *testing.T, dev device.Device, unordered bool) {
	ctx := t.Context()
	m, err := btree.New[K, V](dev, &btree.Options{Unordered: unordered})
	must(t, err)
	defer m.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, order := range []string{"ascending", "descending", "shuffled"} {
		_, err := m.Put(ctx, []K{^K(0)}, []V{1}) // so that nothing is bulk loaded
		must(t, err)
		keys, vals := make([]K, 160), make([]V, 160)
		for i := range keys {
			keys[i], vals[i] = K(i*3), V(i+1000)
		}
		switch order {
		case "descending":
			for i := range keys {
				keys[i] = K((len(keys) - 1 - i) * 3)
			}
		case "shuffled":
			rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		}
		n, err := m.Put(ctx, keys, vals)
		must(t, err)
		must(t, m.Check(ctx))
		found := make([]V, len(keys))
		hits, err := m.Get(ctx, keys, found, nil)
		must(t, err)
		if n != len(keys) || hits != len(keys) || m.Len() != len(keys)+1 {
			t.Errorf("%s: %d inserted, %d found, Len is %d, of %d", order, n, hits, m.Len(), len(keys))
		}
		for i := range vals {
			if found[i] != vals[i] {
				t.Fatalf("%s: key %d has value %d, want %d", order, keys[i], found[i], vals[i])
			}
		}
		n, err = m.Delete(ctx, keys, nil)
		must(t, err)
		must(t, m.Check(ctx))
		stats, err := m.Stats(ctx)
		must(t, err)
		if n != len(keys) || stats.Len != 1 || stats.Nodes > 40 {
			t.Errorf("%s: %d deleted of %d; %v", order, n, len(keys), stats)
		}
	}
}

func TestLookupsBesideChanges(t *testing.T) {
	conformance.LookupsAlongsideChanges(t, conformance.OrderedMapOf(btree.New[uint32, uint32], nil))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestSortedKeysEnd inserts sorted keys one by one. With these, the published tree never finishes
// (owensgroup/MVGpuBTree, issue 4). All keys must be found. On a GPU it inserts as many keys as in
// that issue, on all blocks.
func TestSortedKeysEnd(t *testing.T) {
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	n, dev := 1<<8, device.Device(nil)
	if d := devicetest.Open(t); d.Properties().Kind == device.CUDA {
		n, dev = 1<<25, d
	} else {
		dev = devicetest.OpenSim(t, &sim.Options{Scheduler: sim.Random, Seed: 3})
	}
	m, err := btree.New[uint32, uint32](dev, &btree.Options{Unordered: true})
	must(t, err)
	defer m.Close()
	keys := conformance.Sequence[uint32](0, n)
	inserted, err := m.Put(t.Context(), keys, keys)
	must(t, err)
	must(t, m.Check(t.Context()))
	if inserted != n || m.Len() != n {
		t.Errorf("%d of %d inserted, Len is %d", inserted, n, m.Len())
	}
}
