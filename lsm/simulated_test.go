package lsm_test

import (
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/lsm"
)

// TestKernelsSimulated runs cases of the suite on a simulated GPU. Schedules are random, memory is
// weak, and a data race is an error. (WEFT_DEVICE=sim runs all cases.)
func TestKernelsSimulated(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	t.Run("uint32,uint32", func(t *testing.T) {
		simulated[uint32, uint32](t, sim.Random, "GetOrPut", "RangeOnRoom", "DeleteRangeOverlaps", "Snapshot")
	})
	t.Run("int32,uint64", func(t *testing.T) { simulated[int32, uint64](t, sim.PCT, "SeekOnBehindChanges") })
}

func simulated[K weft.Key, V weft.Value](t *testing.T, scheduler sim.Scheduler, names ...string) {
	dev := devicetest.OpenSim(t, &sim.Options{Scheduler: scheduler, Seed: 1, Races: true})
	conformance.RunCases(t, dev, 60, conformance.OrderedMapOf(lsm.New[K, V], &lsm.Options{Base: 16}), names...)
}

func TestLookupsBesideChanges(t *testing.T) {
	conformance.LookupsAlongsideChanges(t, conformance.OrderedMapOf(lsm.New[uint32, uint32], &lsm.Options{Base: 64}))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
