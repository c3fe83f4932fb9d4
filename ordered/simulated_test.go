package ordered_test

import (
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/ordered"
)

// The kernels pass cases of the suite on a simulated GPU, for every pair of widths, under
// random schedules and weak memory, where a data race is a fault. (WEFT_DEVICE=sim runs all
// cases.)
func TestKernelsSimulated(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	conformance.NotRaced(t, "the simulator has goroutines of its own")
	t.Run("uint32,uint32", func(t *testing.T) {
		simulated[uint32, uint32](t, sim.Random, "LastPutWins", "FirstPutNewWins", "FirstDeleteReports", "Apply", "GetOrPut", "RangeOnRoom", "DeleteRangeOverlaps", "Snapshot")
	})
	t.Run("int32,uint64", func(t *testing.T) { simulated[int32, uint64](t, sim.PCT, "DeleteRange", "Apply") })
	t.Run("uint64,float32", func(t *testing.T) { simulated[uint64, float32](t, sim.Random, "SeekOnBehindChanges") })
	t.Run("int64,int64", func(t *testing.T) { simulated[int64, int64](t, sim.PCT, "Snapshot") })
}

func simulated[K weft.Key, V weft.Value](t *testing.T, scheduler sim.Scheduler, names ...string) {
	dev := devicetest.OpenSim(t, &sim.Options{Scheduler: scheduler, Seed: 1, Races: true})
	conformance.Some(t, dev, 60, conformance.OrderedMapOf(ordered.New[K, V], nil), names...)
}

// A lookup on a stream finds what was there before a change that is under way on another one,
// whether it sees that or not, and so does one of a snapshot that was taken before.
func TestLookupsBesideChanges(t *testing.T) {
	for seed := range uint64(4) {
		dev := devicetest.OpenSim(t, &sim.Options{Scheduler: sim.Random, Seed: seed})
		m := conformance.OrderedMapOf(ordered.New[uint32, uint32], nil)(t, dev)
		defer m.Close()
		a, b := devicetest.NewStream(t, dev), devicetest.NewStream(t, dev)
		keys := conformance.Sequence[uint32](100, 200)
		_, err := m.Put(t.Context(), keys, keys)
		must(t, err)
		on, vals, hits := devicetest.Upload(t, b, keys), devicetest.Upload(t, b, keys), devicetest.Upload(t, b, make([]uint64, 1))
		for round := range 3 {
			more := conformance.Sequence[uint32](1000*round, 90)
			must(t, m.PutOn(a, devicetest.Upload(t, a, more), devicetest.Upload(t, a, more)))
			must(t, m.GetOn(b, on, vals, device.Slice[bool]{}, hits))
		}
		var found [1]uint64
		must(t, hits.CopyTo(t.Context(), b, found[:]))
		must(t, m.Sync(t.Context()))
		if found[0] != 3*200 || m.Len() != 200+2*90+90 {
			t.Errorf("seed %d: %d lookups found their keys, want 600; Len is %d", seed, found[0], m.Len())
		}
	}
}
