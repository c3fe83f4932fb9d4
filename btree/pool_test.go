package btree_test

import (
	"testing"

	"github.com/weftgo/weft/btree"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/refs"
)

// TestCopiesComeBack runs kernels that copy more leaves than the pool has nodes. Their own copies
// must become free and be reused. A block that finds no node waits for others, and no change is
// refused while no snapshot is held.
func TestCopiesComeBack(t *testing.T) {
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	const (
		tiles            = 64   // per block
		changing, asking = 4, 2 // number of blocks
		n                = changing * tiles * 6
	)
	dev := devicetest.Units(devicetest.OpenSim(t, nil), 3) // six blocks
	s := devicetest.NewStream(t, dev)
	m, err := btree.New[uint32, uint32](dev, &btree.Options{Versions: btree.OutOfPlace})
	must(t, err)
	defer m.Close()
	btree.LimitPool(m, (changing+asking+2)*tiles)
	keys := conformance.Sequence[uint32](0, n)
	_, err = m.Put(t.Context(), keys, keys)
	must(t, err)
	for round := range 2 {
		must(t, refs.RunVersioned(t.Context(), s, m, keys[round*n/2:(round+1)*n/2], keys[:n/4], 3))
		must(t, m.Sync(t.Context()))
		must(t, m.Check(t.Context()))
		if want := n - (round+1)*n/2; m.Len() != want {
			t.Fatalf("round %d: %d keys, want %d", round, m.Len(), want)
		}
	}
	stats, err := m.Stats(t.Context())
	must(t, err)
	if stats.Copied < n || stats.Capacity > 4*n {
		t.Errorf("%+v: %d changes have not been by copies of nodes that came back", stats, n)
	}
}
