package conformance

import (
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
)

// LookupsAlongsideChanges requires lookups on one stream to find all earlier pairs while a change
// runs on another stream, whether or not they see the change.
func LookupsAlongsideChanges(t *testing.T, open Maker[AnyOrderedMap[uint32, uint32]]) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for seed := range uint64(4) {
		dev := devicetest.OpenSim(t, &sim.Options{Scheduler: sim.Random, Seed: seed})
		m := open(t, dev)
		defer m.Close()
		a, b := devicetest.NewStream(t, dev), devicetest.NewStream(t, dev)
		keys := Sequence[uint32](100, 200)
		_, err := m.Put(t.Context(), keys, keys)
		must(err)
		on, vals, hits := devicetest.Upload(t, b, keys), devicetest.Upload(t, b, keys), devicetest.Upload(t, b, make([]uint64, 1))
		for round := range 3 {
			more := Sequence[uint32](1000*round, 90)
			must(m.PutOn(a, devicetest.Upload(t, a, more), devicetest.Upload(t, a, more)))
			must(m.GetOn(b, on, vals, device.Slice[bool]{}, hits))
		}
		var found [1]uint64
		must(hits.CopyTo(t.Context(), b, found[:]))
		must(m.Sync(t.Context()))
		if found[0] != 3*200 || m.Len() != 200+2*90+90 {
			t.Errorf("seed %d: %d lookups found their keys, want 600; Len is %d", seed, found[0], m.Len())
		}
	}
}
