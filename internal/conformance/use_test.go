package conformance

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// Flaws that statistics or ended contexts reveal.
const (
	growsByLookups flaw = "lookups make it grow"
	keepsDead      flaw = "Compact keeps dead slots"
	keepsSize      flaw = "Compact keeps the size"
	clearsHalf     flaw = "a cancelled Clear has removed what is there"
)

// compacted returns a function that returns a map's statistics before Compact, and in later calls
// the statistics after it.
func compacted(m *reference[uint64, uint64], f flaw) func() (live, dead, size int) {
	dead, size := 3000, 4000
	return func() (int, int, int) {
		d, s := dead, size
		if f != keepsDead {
			dead = 0
		}
		if f != keepsSize {
			size = 1000
		}
		return m.Len(), d, s
	}
}

// The smoke tests must detect broken structures.
func TestSmokeNoticesFlaws(t *testing.T) {
	smokes := map[string]func(t testing.TB, dev device.Device, f flaw){
		"map": func(t testing.TB, dev device.Device, f flaw) {
			m, full := newReference[uint32, uint64](f, dev), 0
			SmokeMap(t, dev, m, func() { full = m.Len() })
			if full != SmokeKeys {
				t.Errorf("%d keys were there", full)
			}
		},
		"multimap": func(t testing.TB, dev device.Device, f flaw) {
			SmokeMultiMap(t, dev, newMultiReference[uint32, uint64](f, dev), func() {})
		},
		"set": func(t testing.TB, dev device.Device, f flaw) {
			SmokeSet(t, dev, referenceSet[uint32]{newReference[uint32, uint32](f, dev)})
		},
		"compact": func(t testing.TB, dev device.Device, f flaw) {
			m := newReference[uint64, uint64](f, dev)
			CompactDropsDead(t, m, true, compacted(m, f))
		},
		"lookups": func(t testing.TB, dev device.Device, f flaw) {
			m, size := newReference[uint32, uint32](none, dev), 0
			LookupsDoNotGrow(t, dev, m, func() int {
				if f == growsByLookups {
					size++
				}
				return size
			})
		},
		"cut short": func(t testing.TB, dev device.Device, f flaw) {
			for _, name := range []string{"Clear", "Compact"} {
				for nChecks := range int64(3) {
					interruptMaintenance(t, dev, func(_ testing.TB, dev device.Device) AnyMap[uint32, uint32] {
						return newReference[uint32, uint32](f, dev)
					}, name, nChecks)
				}
			}
		},
		"fill": func(t testing.TB, dev device.Device, f flaw) {
			FillAndHalve(t, newReference[uint64, uint64](f, dev), Colliding(100, 7), func() {})
		},
	}
	for name, flaws := range map[string][]flaw{
		"map":       {keepsDeleted, countsReplaced, truncatesBatches, clearForgetsLen},
		"multimap":  {keepsDeleted, putReplaces, putMerges, putNewAdds, deleteAllTakesOne, countsKeys, compactLoses},
		"set":       {keepsDeleted, pagesLose, truncatesBatches},
		"fill":      {keepsDeleted},
		"compact":   {compactLoses, keepsDead, keepsSize},
		"lookups":   {growsByLookups},
		"cut short": {clearsHalf, compactLoses},
	} {
		for _, f := range append(flaws, none) {
			failed, log := Report(t, func(t testing.TB) { smokes[name](t, devicetest.OpenCPU(t, 1), f) })
			if failed != (f != none) {
				t.Errorf("%s, %q: failed is %v: %s", name, f, failed, log)
			}
		}
	}
}

// CompareConstants must detect constants that are missing in a header or differ from those of Go.
func TestTwinsAreCompared(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.cuh")
	header := "constexpr int kLanes = 16;\nenum { kA = 1, kB = 2 };\n" +
		"static constexpr K kEmpty = ~K(0);\nstatic constexpr K kDead = ~K(0) - 1;\nenum Kind : uint32_t { kGet, kPut };\n"
	if err := os.WriteFile(file, []byte(header), 0o600); err != nil {
		t.Fatal(err)
	}
	right := map[string]int{"kLanes": 16, "kA": 1, "kB": 2, "kEmpty": 0, "kDead": 1, "kGet": 0, "kPut": 1}
	CompareConstants(t, map[string]map[string]int{file: right})
	for name, n := range map[string]int{"kLanes": 8, "kB": 1, "kDead": 0, "kPut": 0, "kNone": 0} {
		if failed, _ := Report(t, func(t testing.TB) { CompareConstants(t, map[string]map[string]int{file: {name: n}}) }); !failed {
			t.Errorf("%s = %d is not noticed", name, n)
		}
	}
}

// soundMap and soundMultiMap are references with a CheckInvariants that finds nothing.
type soundMap struct{ *reference[uint32, uint64] }

func (soundMap) CheckInvariants() error { return nil }

type soundMultiMap struct {
	*multiReference[uint32, uint64]
}

func (soundMultiMap) CheckInvariants() error { return nil }

// Histories must detect flaws of maps and multimaps, and report nothing without flaws.
func TestHistoriesNoticeFlaws(t *testing.T) {
	for name, value := range map[string]string{"rapid.nofailfile": "true", "rapid.shrinktime": "1ms"} {
		old := flag.Lookup(name).Value.String()
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
		defer flag.Set(name, old)
	}
	upkeep := func() error { return nil }
	for _, f := range []flaw{none, reservesOnes, keepsDeleted, putNewReplaces} {
		failed, log := Report(t, func(t testing.TB) {
			rapid.Check(t, func(rt *rapid.T) {
				RandomHistory(rt, soundMap{newReference[uint32, uint64](f, nil)}, false, upkeep)
			})
		})
		if failed != (f != none) {
			t.Errorf("a map, %q: failed is %v: %s", f, failed, log)
		}
	}
	for _, f := range []flaw{none, reservesOnes, keepsDeleted, putNewAdds, putReplaces, putPrepends, deletesLatest} {
		failed, log := Report(t, func(t testing.TB) {
			rapid.Check(t, func(rt *rapid.T) {
				RandomHistory(rt, soundMultiMap{newMultiReference[uint32, uint64](f, nil)}, true, upkeep)
			})
		})
		if failed != (f != none) {
			t.Errorf("a multimap, %q: failed is %v: %s", f, failed, log)
		}
	}
}
