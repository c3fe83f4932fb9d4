package experiment

import (
	"testing"

	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
)

// Wherever the device fails, the error is returned and nothing leaks.
func TestVersionsFailures(t *testing.T) {
	conformance.SkipRaced(t, ownTests)
	t.Run("insert", func(t *testing.T) { failEverywhere(t, mvbtreeInsertExperiment, devicetest.OpenSim(t, nil), 151) })
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	t.Run("mixed", func(t *testing.T) { failEverywhere(t, mvbtreeMixedExperiment, devicetest.OpenSim(t, nil), 401) })
	t.Run("memory", func(t *testing.T) { failEverywhere(t, mvbtreeMemoryExperiment, devicetest.OpenSim(t, nil), 71) })
}

// The memory of trees with versions is recorded: copies appear, and never in negative numbers.
func TestVersionsMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	conformance.SkipRaced(t, ownTests)
	cfg := tiny(devicetest.OpenSim(t, nil))
	cfg.N, cfg.Scale = 256, Quick
	res, err := mvbtreeMemoryExperiment.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	checkResult(t, res)
	last := res.Rows[len(res.Rows)-1]
	if last.Structure != "btree-out-of-place" || last.Samples[3] == 0 || last.Samples[0] == 0 {
		t.Errorf("row %+v: nothing is copied", last)
	}
	for _, name := range []string{"overhead", "overhead_bytes", "overhead_in_place"} {
		if over, ok := res.Parameters[name].(float64); !ok || over < 0 {
			t.Errorf("%s %v", name, res.Parameters[name])
		}
	}
}
