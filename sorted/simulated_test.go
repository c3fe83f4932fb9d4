package sorted_test

import (
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/sorted"
)

// TestKernelsSimulated runs cases of the suite on a simulated GPU, for several pairs of widths.
// Schedules are random, memory is weak, and a data race is an error. (WEFT_DEVICE=sim runs all
// cases.)
func TestKernelsSimulated(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	t.Run("uint32,uint32", func(t *testing.T) {
		simulated[uint32, uint32](t, sim.Random, "LastPutWins", "FirstPutNewWins", "FirstDeleteReports", "Apply", "GetOrPut", "RangeOnRoom", "DeleteRangeOverlaps", "Snapshot")
	})
	t.Run("int32,uint64", func(t *testing.T) { simulated[int32, uint64](t, sim.PCT, "SeekOnBehindChanges") })
	t.Run("uint64,float32", func(t *testing.T) { simulated[uint64, float32](t, sim.Random, "SeekOnBehindChanges") })
	t.Run("int64,uint64", func(t *testing.T) { simulated[int64, uint64](t, sim.PCT, "Snapshot") })
}

func simulated[K weft.Key, V weft.Value](t *testing.T, scheduler sim.Scheduler, names ...string) {
	dev := devicetest.OpenSim(t, &sim.Options{Scheduler: scheduler, Seed: 1, Races: true})
	conformance.RunCases(t, dev, 60, conformance.OrderedMapOf(sorted.New[K, V], nil), names...)
}

func TestLookupsBesideChanges(t *testing.T) {
	conformance.LookupsAlongsideChanges(t, conformance.OrderedMapOf(sorted.New[uint32, uint32], nil))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
