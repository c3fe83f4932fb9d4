package experiment

import (
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
)

// Each row has one launch, in the order of rows, which is named for a profiler.
func TestHortonCounters(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	launched, last := []string(nil), -1
	dev := devicetest.OpenSim(t, &sim.Options{Requests: func(r sim.Request) {
		if strings.Contains(r.Kernel, "get_of_eight_32_32") && r.Launch != last {
			launched, last = append(launched, r.Kernel), r.Launch
		}
	}})
	cfg := tiny(dev)
	cfg.N = 2048
	res, err := hortonCountersExperiment.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	var want, ops []string
	for _, row := range res.Rows {
		name, _, _ := strings.Cut(row.Structure, " ")
		want = append(want, name+"_get_of_eight_32_32")
		ops = append(ops, row.Op)
	}
	if !slices.Equal(launched, want) || !slices.Equal(ops, slices.Repeat([]string{"get_hit", "get_miss"}, 3)) {
		t.Errorf("launches of %v, rows %v of %v", launched, want, ops)
	}
}
