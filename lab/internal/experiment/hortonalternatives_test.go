package experiment

import (
	"math"
	"testing"

	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/bucketmodel"
	"github.com/weftgo/weft/internal/workload"
	"github.com/weftgo/weft/lab/internal/passes"
)

// Counts for implicit tags match the theory. The share of false reads with explicit tags follows
// from the number of tags, and some keys get no entry.
func TestExplicitTags(t *testing.T) {
	const slots = 1 << 17
	for _, load := range []float64{.9, .95} {
		keys, absent := make([]uint32, int(load*slots)), make([]uint32, slots)
		workload.Unique(keys, 1, 0)
		workload.Unique(absent, 1, workload.Misses)
		var of []tagged
		for _, tags := range taggings {
			of = append(of, tags.measure(keys, absent, 2, slots/kindSlots))
		}
		h := bucketmodel.Horton{Slots: kindSlots, Load: load, Tags: bucketmodel.Entries(slabPair)}
		poolLimit := func(got, want, tolerance float64) bool { return math.Abs(got-want) <= tolerance*want }
		if !poolLimit(of[0].falseReads, h.EntriesSet()/float64(h.Tags), .05) || !poolLimit(of[0].arraySlots, h.Overhead(), .02) || of[0].noEntry != 0 {
			t.Errorf("load %g: implicit tags: %+v, want %g and %g", load, of[0], h.EntriesSet()/float64(h.Tags), h.Overhead())
		}
		for i, bits := range []float64{4, 8} {
			// A key that continues has one of the tags.
			sparse := 1 / math.Exp2(bits)
			if x := of[i+1]; x.falseReads >= of[0].falseReads*float64(h.Tags)*sparse*1.05 || x.falseReads == 0 || x.arraySlots != of[0].arraySlots {
				t.Errorf("load %g: tags of %g bits: %+v, implicit ones: %+v", load, bits, x, of[0])
			}
		}
		if of[2].noEntry < .002 || of[2].noEntry > .05 || of[1].noEntry >= of[2].noEntry {
			t.Errorf("load %g: keys without an entry: %+v", load, of)
		}
	}
}

// All ways are measured, at the loads of the experiment, on a simulated GPU.
func TestHortonAlternatives(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	cfg := tiny(devicetest.OpenSim(t, nil))
	cfg.N = 2048
	res, err := hortonAlternativesExperiment.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]int{}
	for i, row := range res.Rows {
		rows[row.Structure]++
		if base := res.Rows[i/4*4+1]; *row.Speedup != row.OpsPerS/base.OpsPerS || base.Structure != passes.AtOnce.String() || base.Op != row.Op {
			t.Errorf("row %+v over %+v", row, base)
		}
	}
	for _, name := range []string{"horton", "at-once", "buffered", "two-launches"} {
		if rows[name] != 4 {
			t.Errorf("rows by structure: %v", rows)
		}
	}
	if _, ok := res.Parameters["false_reads_explicit_8_0.95"].(float64); !ok {
		t.Errorf("parameters %v", res.Parameters)
	}
}
