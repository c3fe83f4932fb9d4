package experiment

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
)

// orderedExperiments returns the experiments on ordered maps.
func orderedExperiments() []Experiment {
	return slices.DeleteFunc(All(), func(e Experiment) bool { return !strings.HasPrefix(cmp.Or(e.Was, e.Name), "ordered-") })
}

// Each ordered map that runs on a simulated GPU has figures there. Each other one has a reason.
func TestOrderedOnGPU(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	conformance.SkipRaced(t, ownTests)
	for _, e := range []Experiment{orderedLookupExperiment, orderedLoadExperiment} {
		cfg := tiny(devicetest.OpenSim(t, nil))
		cfg.N, cfg.Scale = 128, Quick
		res, err := e.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		checkResult(t, res)
		figures := map[string]bool{}
		for _, row := range res.Rows {
			if was, ok := figures[row.Structure]; ok && (was != (row.Reason == "") || row.Reason != "") {
				t.Errorf("%s: %s has figures and a reason, or several: %+v", e.Name, row.Structure, row)
			}
			figures[row.Structure] = row.Reason == ""
		}
		for _, name := range []string{"sorted", "lsm", "btree", "ordered"} {
			if !figures[name] {
				t.Errorf("%s: %s has no figures: %v", e.Name, name, figures)
			}
		}
	}
}

// Wherever the device fails, the error is returned and nothing leaks.
func TestOrderedFailures(t *testing.T) {
	conformance.SkipRaced(t, ownTests)
	for _, e := range orderedExperiments() {
		t.Run(e.Name, func(t *testing.T) { failEverywhere(t, e, devicetest.Open(t), 7) })
	}
	t.Run("latencies", func(t *testing.T) { failEverywhere(t, btreeLatenciesExperiment, devicetest.OpenSim(t, nil), 1) })
}

// If a map has wrong contents, the experiment fails.
func TestOrderedWrongAnswers(t *testing.T) {
	r := testRunner(t)
	s, err := newOrderedTrial[uint32, uint32](r, 200, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer s.free()
	a := &orderedLookups{orderedTrial: s}
	defer func() { r.free(&a.next, &a.ranks, &a.after) }()
	if err := a.makeColumns(100); err != nil {
		t.Fatal(err)
	}
	for _, m := range s.maps {
		s.use(m)
		if err := errors.Join(s.reload(t.Context())(), s.has(t.Context(), 100)); err != nil {
			t.Error(err)
		}
		if err := s.has(t.Context(), 99); !errors.Is(err, errWrong) {
			t.Errorf("%s has 100 pairs, and passes with 99: %v", m.name, err)
		}
		if err := a.checkOrder(t.Context(), 10); !errors.Is(err, errWrong) { // no lookup has run
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

// Memory grows with the number of open snapshots, and closed snapshots take none.
func TestOrderedSnapshots(t *testing.T) {
	conformance.SkipRaced(t, ownTests)
	cfg := tiny(devicetest.Open(t))
	res, err := orderedSnapshotsExperiment.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	last := map[string]float64{}
	for _, row := range res.Rows {
		n := len(row.Samples)
		if row.Structure == "btree" { // does not report it
			continue
		}
		switch row.Op {
		case "put_held_1":
			last[row.Structure] = row.Samples[n-2]
		case "put_held_8":
			if held := row.Samples[n-2]; held <= last[row.Structure] {
				t.Errorf("%s: 8 snapshots hold %v bytes, one %v", row.Structure, held, last[row.Structure])
			}
		default:
			continue
		}
		if n != snapshotBatches+1 || row.Samples[n-1] != 0 || *row.Speedup <= 0 {
			t.Errorf("%s %s: %v bytes, speedup %v", row.Structure, row.Op, row.Samples, *row.Speedup)
		}
	}
	if len(last) != 3 {
		t.Errorf("structures %v", last)
	}
}

func TestRebuildFrom(t *testing.T) {
	rows := []Row{{Structure: "other", Op: "rebuild", Batch: 1, OpsPerS: 9}}
	for i, rates := range [][2]float64{{5, 1}, {5, 6}, {5, 4}, {5, 5}, {5, 8}} {
		rows = append(rows, Row{Structure: "x", Op: "insert", Batch: 1 << i, OpsPerS: rates[0]}, Row{Structure: "x", Op: "rebuild", Batch: 1 << i, OpsPerS: rates[1]})
	}
	if from := rebuildFrom(rows, "x"); from != 8 {
		t.Errorf("from %v on, want 8", from)
	}
	if from := rebuildFrom(rows[:7], "x"); from != "none" {
		t.Errorf("from %v on, want none", from)
	}
}

// A time that is a power of the number of keys yields that exponent.
func TestExponents(t *testing.T) {
	res := &Result{Parameters: map[string]any{}}
	for _, n := range []int{1 << 4, 1 << 10, 1 << 11, 1 << 12, 1 << 13} {
		row := Row{Structure: "x", Op: "get", Keys: n, Seconds: 3e-9 * math.Pow(float64(n), .25)}
		if n == 1<<4 {
			row.Seconds = 1 // too small to count
		}
		res.Rows = append(res.Rows, row)
	}
	exponents(res)
	if got := res.Parameters["exponent_x_get"]; got != .25 || len(res.Parameters) != 1 {
		t.Errorf("parameters %v", res.Parameters)
	}
}

// The means of the columns agree with table 3.3 of the thesis.
func TestPublished33(t *testing.T) {
	for name, mean := range map[string]float64{"btree": 182.9, "lsm": 202.6, "sorted": 149.1} {
		harmonic, n := 0., 0.
		for _, rate := range published33[name] {
			harmonic += 1 / rate
			n++
		}
		if got := n / harmonic; math.Abs(got-mean) > .05*mean {
			t.Errorf("%s: mean %.1f, want %.1f", name, got, mean)
		}
	}
}
