package experiment

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
)

// Every figure of a paper that is a rate, a speedup or a number of buckets is in a plot.
func TestPublishedFiguresAreDrawn(t *testing.T) {
	rows := []Row{
		{Op: "insert", N: 1, Load: .5, OpsPerS: 1, Limit: "cas64", Speedup: figure(2), Samples: []float64{.5}},
		{Op: "allocate", N: 1, Units: 1024, OpsPerS: 1, Limit: "cas64"},
		{Op: "allocate_churn", N: 1, Units: 1024, Load: .5, OpsPerS: 1, Limit: "cas64"},
	}
	for _, op := range []string{"get_hit", "get_miss"} {
		rows = append(rows, Row{
			Op: op, N: 1, Load: .5, OpsPerS: 1, Limit: "cas64", Speedup: figure(2), Slots: kindSlots, BytesPerOp: figure(1),
			Measured: &Reads{PerHit: 1, PerMiss: 1}, Model: &Reads{PerHit: 1, PerMiss: 1},
		})
	}
	for _, op := range []string{"successor", "first", "delete", "mixed_60", "load_random"} {
		rows = append(rows, Row{Structure: "btree", Op: op, KeyBits: 32, N: 1, Keys: 1, Batch: 8, Load: .5, OpsPerS: 1, Limit: "cas64"})
	}
	for _, e := range All() {
		if e.published == nil {
			continue
		}
		var drawn []float64
		for _, p := range e.plots(&Result{Rows: rows, Published: e.published, Limits: map[string]float64{"cas64": 1}}) {
			for _, s := range p.Series {
				if s.Published {
					drawn = append(drawn, s.Y...)
				}
			}
		}
		for _, f := range e.published {
			if f.What == "" || !slices.Contains([]string{"op/s", "x", "buckets", "load"}, f.Unit) {
				t.Errorf("%s: published %+v", e.Name, f)
			}
			if !slices.Contains(drawn, f.Value) {
				t.Errorf("%s doesn't draw %+v", e.Name, f)
			}
		}
	}
}

func TestGeometricMean(t *testing.T) {
	rows := []Row{{Op: "a", Speedup: figure(2)}, {Op: "b", Speedup: figure(100)}, {Op: "a", Speedup: figure(8)}, {Op: "a"}}
	if got := geometricMean(rows, "a"); math.Abs(got-4) > 1e-12 {
		t.Errorf("mean of 2 and 8: %g", got)
	}
}

// The measured share of updates and the mean speedup over the peer are reported.
func TestPeerSpeedups(t *testing.T) {
	r := testRunner(t)
	res, err := slabFig7bExperiment.Run(t.Context(), r.Config)
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range res.Rows {
		if (row.Structure == "slab-set") != (row.Speedup != nil) || row.Buckets == 0 {
			t.Errorf("row %+v", row)
		}
		if row.Speedup == nil {
			continue
		}
		other := res.Rows[i-1]
		if other.Structure != misraLists || other.Buckets != row.Buckets || other.Op != row.Op || math.Abs(*row.Speedup-row.OpsPerS/other.OpsPerS) > 1e-9 {
			t.Errorf("row %+v after %+v", row, other)
		}
	}
	for _, m := range slabMixes {
		mean, _ := res.Parameters["mean_speedup_"+m.op].(float64)
		if math.Abs(mean-geometricMean(res.Rows, m.op)) > .005 {
			t.Errorf("mean speedup %s: %g", m.op, mean)
		}
	}
}

// A cuckoo table as full as the slab hash is compared with it.
func TestCuckooBesideSlab(t *testing.T) {
	r := testRunner(t)
	r.Scale = Quick
	for _, e := range []Experiment{slabFig4aExperiment, slabFig4bExperiment, slabFig5aExperiment, slabFig5bExperiment} {
		res, err := e.Run(t.Context(), r.Config)
		if err != nil {
			t.Fatal(err)
		}
		compared := 0
		for _, row := range res.Rows {
			if (row.Structure == cuckooName) != (row.Speedup != nil) {
				t.Errorf("%s: row %+v", e.Name, row)
			}
			if row.Speedup == nil {
				continue
			}
			compared++
			i := slices.IndexFunc(res.Rows, func(other Row) bool {
				return other.Structure == "slab" && other.Op == row.Op && other.N == row.N && math.Abs(other.Load-row.Load) < .01 &&
					math.Abs(*row.Speedup-row.OpsPerS/other.OpsPerS) < 1e-9
			})
			if i < 0 && row.N > 1000 { // a few keys may fill their slabs
				t.Errorf("%s: no slab hash for %+v", e.Name, row)
			}
			mean, _ := res.Parameters["mean_speedup_"+row.Op].(float64)
			if math.Abs(mean-geometricMean(res.Rows, row.Op)) > .005 {
				t.Errorf("%s: mean speedup %s: %g", e.Name, row.Op, mean)
			}
		}
		if 2*compared != len(res.Rows) {
			t.Errorf("%s: %d of %d rows are compared", e.Name, compared, len(res.Rows))
		}
	}
}

// Times of batches add up, and speedups compare them.
func TestBatchTimesAddUp(t *testing.T) {
	r := testRunner(t)
	res, err := slabFig6Experiment.Run(t.Context(), r.Config)
	if err != nil {
		t.Fatal(err)
	}
	var last Row
	for _, row := range res.Rows {
		if row.Structure != "slab" {
			continue
		}
		if row.Op == last.Op && (row.N <= last.N || row.Seconds <= last.Seconds) {
			t.Errorf("after %d keys %g s, after %d %g", last.N, last.Seconds, row.N, row.Seconds)
		}
		last = row
	}
	if last.N != r.N {
		t.Errorf("%d keys in the end, want %d", last.N, r.N)
	}
}

// If an allocator returns a unit twice, or an invalid unit, the experiment fails.
func TestWrongAllocationsAreErrors(t *testing.T) {
	r := testRunner(t)
	a := newAllocTrial(r, 4096)
	for _, c := range []struct {
		allocated []uint32
		wrong     bool
	}{{[]uint32{0, 1, 64, 4095}, false}, {[]uint32{7, 8, 7}, true}, {[]uint32{1, ^uint32(0)}, true}} {
		var err error
		if a.allocated, err = device.Upload(r.stream, c.allocated); err != nil {
			t.Fatal(err)
		}
		if err := a.check(t.Context()); errors.Is(err, errWrong) != c.wrong {
			t.Errorf("addresses %v: %v", c.allocated, err)
		}
		if err := a.allocated.Free(); err != nil {
			t.Fatal(err)
		}
	}
}
