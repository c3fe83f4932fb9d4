package experiment

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/gphash"
)

// simulated runs an experiment with few settings on a simulated GPU.
func simulated(t *testing.T, e Experiment) *Result {
	t.Helper()
	cfg := tiny(devicetest.OpenSim(t, nil))
	cfg.N, cfg.Scale = 512, Quick
	res, err := e.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestGPUExperimentsNeedOne(t *testing.T) {
	n := 0
	for _, e := range All() {
		if !e.GPU {
			continue
		}
		n++
		if _, err := e.Run(t.Context(), tiny(devicetest.OpenCPU(t, 1))); !errors.Is(err, device.ErrUnsupported) {
			t.Errorf("%s on a CPU: %v", e.Name, err)
		}
	}
	if n != 11 {
		t.Errorf("%d experiments need a GPU", n)
	}
}

// The parts of a latency add up to it, and are those of each index.
func TestBreakdownAddsUp(t *testing.T) {
	for _, row := range simulated(t, gphashBreakdownExperiment).Rows {
		name, host := strings.CutSuffix(row.Structure, onHost)
		want := []string{"index"}
		switch {
		case host:
			want = []string{"transfer", "index"}
		case row.Op == "C":
			want = []string{"locate", "values"}
		}
		if name == undoLog && (host || row.Op != "C") {
			want = append(want, "log")
		}
		var got []string
		sum := 0.
		for _, p := range row.Parts {
			got, sum = append(got, p.What), sum+p.Seconds
			if p.Seconds < 0 || p.What == "transfer" && p.Seconds == 0 {
				t.Errorf("%s %s: %s takes %g s", row.Structure, row.Op, p.What, p.Seconds)
			}
		}
		if !slices.Equal(got, want) || math.Abs(sum-row.Latency.P50) > 1e-9 {
			t.Errorf("%s %s: %v add up to %g s, want %v and %g", row.Structure, row.Op, row.Parts, sum, want, row.Latency.P50)
		}
	}
}

// An index for fewer keys than a batch is filled like any other.
func TestConfigsOfSmallIndexes(t *testing.T) {
	res := simulated(t, gphashConfigExperiment)
	checkResult(t, res)
	for _, row := range res.Rows {
		if row.Load < .6 {
			t.Errorf("%s %s: an index of %d keys grows at a load of %g", row.Structure, row.Op, row.N, row.Load)
		}
	}
}

// A cache holds hot records under all policies. A single bucket has almost no effect.
func TestCacheRowsHaveHits(t *testing.T) {
	for _, row := range simulated(t, gphashCacheExperiment).Rows {
		if (row.HitRatio != nil) != (row.Op == "C" && row.Structure != "none") {
			t.Errorf("%s %s: hits %v", row.Structure, row.Op, row.HitRatio)
			continue
		}
		if row.HitRatio == nil {
			continue
		}
		lo, hi := 0., .1
		if *row.Cache > 0 {
			// the hottest fifth gets more than Zipf's fifth, any fifth gets some
			lo, hi = .1, 1
		}
		if *row.HitRatio < lo || *row.HitRatio > hi {
			t.Errorf("%s of %g: hits %g", row.Structure, *row.Cache, *row.HitRatio)
		}
		if row.Structure == "LFU" && *row.Cache == .2 && *row.HitRatio < .3 {
			t.Errorf("the hottest fifth of the buckets has %g of the reads", *row.HitRatio)
		}
	}
}

// Every batch is before, during or after the loading. A batch that waits for the loading takes as
// long as the loading.
func TestLoadingAccountsForAllBatches(t *testing.T) {
	type of struct{ structure, op string }
	rows := map[of]Row{}
	for _, row := range simulated(t, gphashCacheLoadingExperiment).Rows {
		rows[of{row.Structure, row.Op}] = row
	}
	for _, mode := range loadingModes {
		get := func(op string) Row { return rows[of{mode.name, op}] }
		all := get("get")
		if sum := get("get_before").N + get("get_during").N + get("get_after").N; sum != all.N || len(all.Samples)*all.Batch != all.N {
			t.Errorf("%s: %d lookups before, beside and behind, %d samples of %d, want %d", mode.name, sum, len(all.Samples), all.Batch, all.N)
		}
		if get("load").N == 0 {
			t.Errorf("%s: no bucket was loaded", mode.name)
		}
	}
	if during := rows[of{"stop", "get_during"}]; during.N != during.Batch || during.Seconds < rows[of{"stop", "load"}].Seconds {
		t.Errorf("lookups that waited: %+v", during)
	}
}

// Wrong or missing results of lookups during a loading are errors.
func TestCarouselNoticesWrongAnswers(t *testing.T) {
	r := &runner{Config: tiny(devicetest.OpenSim(t, nil)), result: &Result{Limits: map[string]float64{}}}
	r.Scale = Quick
	if err := r.open(r.Device); err != nil {
		t.Fatal(err)
	}
	defer r.close(t.Context())
	l, err := r.loadPool(t.Context(), 64, 64, r.gphashOptions(8, 64, loadBatch))
	if err != nil {
		t.Fatal(err)
	}
	defer l.free()
	c, err := r.newBatchCycle(l, 32)
	if err != nil {
		t.Fatal(err)
	}
	defer r.free(&c.keys)
	err = l.with(t.Context(), gphash.OpenOptions{Cache: .2}, func(x *gphash.Index) error {
		return errors.Join(c.begin(), c.runCycle(t.Context(), x))
	})
	if err != nil || c.check(t.Context()) != nil {
		t.Fatalf("right answers: %v, %v", err, c.check(t.Context()))
	}
	c.ends = append(c.ends, c.ends[:c.batches]...)
	if err := c.check(t.Context()); !errors.Is(err, errWrong) {
		t.Errorf("lookups that found nothing: %v", err)
	}
	c.ends = c.ends[:c.batches]
	c.requests[len(c.requests)-1].Record++
	if err := c.check(t.Context()); !errors.Is(err, errWrong) {
		t.Errorf("another record's value: %v", err)
	}
}

// On a GPU gphash-fences compares two different kinds of kernels.
func TestFencesOnGPU(t *testing.T) {
	rows := map[string]int{}
	res := simulated(t, gphashFencesExperiment)
	checkResult(t, res)
	for _, row := range res.Rows {
		rows[row.Structure]++
	}
	if len(rows) != 2 || rows["process"] != 5 || rows[noFences] != 5 {
		t.Errorf("rows %v", rows)
	}
}

// Rows of large batches are judged by other rows of the run, and by rates.
func TestHeadlineTargets(t *testing.T) {
	rows := []Row{
		{Structure: "plain, unsorted", Op: "search", Batch: 8, OpsPerS: 10e6}, {Structure: "plain", Op: "search", Batch: 8, OpsPerS: 30e6},
		{Structure: "plain", Op: "search", Batch: 4, OpsPerS: 1e6}, {Structure: "mirror", Op: "search", Batch: 8, OpsPerS: 199e6},
		{Structure: "atomic", Op: "insert", Batch: 8, OpsPerS: 160e6}, {Structure: "plain", Op: "insert", Batch: 8, OpsPerS: 60e6},
	}
	judge(rows)
	want := [][]Target{
		nil, {{Is: 3, Want: 3, Unit: "x", Of: "plain, unsorted", Reached: true}}, nil, {{Is: 199e6, Want: 200e6, Unit: "op/s"}},
		{{Is: 160e6, Want: 150e6, Unit: "op/s", Reached: true}, {Is: 160e6 / 60e6, Want: 3, Unit: "x", Of: "plain"}}, nil,
	}
	for i := range rows {
		if !slices.Equal(rows[i].Targets, want[i]) {
			t.Errorf("%s %s: %+v, want %+v", rows[i].Structure, rows[i].Op, rows[i].Targets, want[i])
		}
	}
}

// Each target of the table has a row, and a cache holds the records that are read.
func TestHeadlineRows(t *testing.T) {
	rows := simulated(t, gphashDeviceExperiment).Rows
	targets := 0
	for _, row := range rows {
		targets += len(row.Targets)
		if s := row.Spread; s == nil || s.Slowest > row.OpsPerS || s.Fastest < row.OpsPerS {
			t.Errorf("%s %s: %g op/s is not within %+v", row.Structure, row.Op, row.OpsPerS, s)
		}
		if row.Cache != nil && *row.HitRatio < .4 {
			t.Errorf("%s: hits %g", row.Structure, *row.HitRatio)
		}
	}
	if targets != len(headlineTargets) {
		t.Errorf("%d targets, want %d", targets, len(headlineTargets))
	}
}

// Recovery on a GPU has parts, and a target with the margin by which it is missed or reached.
func TestRecoveryOnGPU(t *testing.T) {
	for _, row := range simulated(t, gphashRecoveryLargeExperiment).Rows {
		sum := 0.
		for _, p := range row.Parts {
			sum += p.Seconds
		}
		if row.Op == "recovery" && (len(row.Targets) != 1 || row.Targets[0].Is != row.Seconds || math.Abs(sum-row.Seconds) > 1e-9) {
			t.Errorf("%s: parts %v of %g s, targets %v", row.Structure, row.Parts, row.Seconds, row.Targets)
		}
	}
}
