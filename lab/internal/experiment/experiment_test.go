package experiment

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
)

// testRunner returns a runner that takes milliseconds.
func testRunner(t *testing.T) *runner {
	t.Helper()
	r := &runner{Config: tiny(devicetest.Open(t)), result: &Result{Limits: map[string]float64{}}}
	if err := r.open(r.Device); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.close(t.Context()) })
	return r
}

// ownTests is the reason why tests here skip the race detector, except for Go's maps on all cores.
const ownTests = "structures and limits run on many cores in their own tests"

// tiny configures a run of milliseconds.
func tiny(dev device.Device) Config {
	return Config{Device: dev, N: 4096, Runs: 1, Seed: 1}
}

// rowsOf lists the rows that an experiment must have at a scale on a CPU, or on a simulated GPU if
// it needs one: the number of rows by op.
var rowsOf = map[string]struct {
	scale Scale
	ops   map[string]int
}{
	"roofline": {Default, map[string]int{
		"read64": 1, "read64_1core": 1, "cas64": 1, "cas64_1core": 1, "copy": 1, "copy_1core": 1, "fill": 1, "launch_sync": 1,
	}},
	"linear": {Full, map[string]int{ // 4 widths of maps and 2 of sets at 11 loads
		"insert": 66, "get_hit": 66, "get_miss": 66, "get_half": 66, "delete": 66, "mixed": 44, "mixed_20": 44,
	}},
	"simple-table1":       {Default, map[string]int{"insert": 31}},
	"simple-probe-length": {Default, map[string]int{"insert": 2}},
	"launch":              {Default, map[string]int{"get_256_issue": 1, "get_256_wait": 1}},
	"host":                {Default, map[string]int{"put": 1, "get": 1}},
	"groupby":             {Default, map[string]int{"uniform_4096": 2, "uniform_40": 2, "uniform_1000": 2, "uniform_1": 2, "zipf_40": 2}},
	"group-on": {Default, map[string]int{
		"uniform_1000": 2, "uniform_1024": 3, "grown_1024": 1, "uniform_1": 1, "zipf_1024": 1, "sorted_1024": 1, "wide_1000": 1, "wide_1024": 1, "minmax_1000": 1, "minmax_1024": 1,
		"ends_1000": 1, "nulls_1000": 1, "nulls_1024": 1, "pair_1000": 1, "pair_1024": 1, "long_1000": 1, "long_1024": 1,
	}},
	"hotkeys":        {Default, map[string]int{"sums_1": 2, "parts_1": 2, "sums_4096": 2, "parts_4096": 2}},
	"sizes":          {Default, map[string]int{"put": 26, "get": 26, "put_own": 26, "get_own": 26}},
	"slabhash-h200":  {Default, map[string]int{"insert": 3, "get_hit": 3, "get_miss": 3, "delete": 3, "mixed_20": 3}},
	"slabhash-light": {Default, map[string]int{"get_hit": 20, "get_miss": 20}},
	"simple-rates":   {Default, map[string]int{"insert": 1, "delete": 1}},
	"slabhash-alloc": {Default, map[string]int{"allocate": 2, "free": 2, "allocate_churn": 7, "free_churn": 7}},
	"slabhash-fig4a": {Default, map[string]int{"insert": 20}},
	"slabhash-fig4b": {Default, map[string]int{"get_hit": 20, "get_miss": 20}},
	"slabhash-fig5a": {Default, map[string]int{"insert": 12}},
	"slabhash-fig5b": {Default, map[string]int{"get_hit": 12, "get_miss": 12}},
	"slabhash-fig6":  {Default, map[string]int{"64_batches": 16, "32_batches": 16, "16_batches": 16}},
	"slabhash-fig7a": {Default, map[string]int{"mixed_100": 10, "mixed_40": 10, "mixed_20": 10}},
	"slabhash-fig7b": {Default, map[string]int{"mixed_100": 10, "mixed_40": 10, "mixed_20": 10}},
	"horton-fig8":    {Default, map[string]int{"insert": 47}},
	"horton-fig12":   {Default, map[string]int{"get_hit": 6, "get_miss": 6}},
	"horton-side-by-side": {Quick, map[string]int{ // 6 tables at 2 loads
		"insert": 12, "get_hit": 12, "get_miss": 12, "delete": 12, "churn": 12, "get_hit_churned": 12, "get_miss_churned": 12,
	}},
	"awad-table2.1": {Default, map[string]int{"weak": 5}}, // 16 to 256 KiB
	"awad-fig3.2a":  {Default, map[string]int{"get_hit": 4, "get_miss": 4, "successor": 4, "rank": 4, "select": 4}},
	"awad-table3.1": {Default, map[string]int{"get": 4, "count": 4, "range_8": 4, "insert": 4, "delete": 4}},
	"awad-table3.3": {Default, map[string]int{"insert": 20, "rebuild": 20}},
	"awad-fig3.4":   {Default, map[string]int{"delete": 20}},
	"awad-fig3.5":   {Default, map[string]int{"mixed_5": 4, "mixed_20": 4, "mixed_50": 4, "mixed_60": 4, "mixed_100": 4}},
	// 4 to 1024 pairs
	"awad-fig3.2b":      {Default, map[string]int{"first": 36, "rows": 36, "count": 36}},
	"ordered-load":      {Full, map[string]int{"load_random": 8, "load_ascending": 8}},
	"ordered-grown":     {Default, map[string]int{"get_hit": 8, "get_miss": 8, "get_hit_grown": 8, "get_miss_grown": 8, "get_hit_held": 8, "get_miss_held": 8}},
	"ordered-snapshots": {Default, map[string]int{"put_held_0": 4, "put_held_1": 4, "put_held_8": 4, "get_hit_held": 4, "get_hit_then": 4}},
	"awad-fig4.2":       {Default, map[string]int{"insert": 9, "get_hit": 9}}, // 3 trees of 3 sizes
	"awad-fig4.6":       {Default, map[string]int{"insert_range_50_16": 24, "delete_range_50_16": 8, "insert": 8}},
	"awad-table4.1": {Default, map[string]int{
		"insert_range_5_8": 2, "insert_range_50_8": 2, "insert_range_90_8": 2, "insert_range_5_32": 2, "insert_range_50_32": 2, "insert_range_90_32": 2,
		"insert_range_50_4": 2, "insert_range_50_128": 2, "delete_get_5": 2, "delete_get_50": 2, "delete_get_90": 2,
	}},
	// 7 graphs, 2 layouts, 5 sizes of batches
	"awad-table5.2": {Default, map[string]int{"insert": 70}},
	"awad-table5.3": {Quick, map[string]int{"delete": 12}},
	"awad-table5.4": {Default, map[string]int{"vertex_delete": 60, "vertex_insert": 60, "vertex_delete_directed": 60}},
	// 7 graphs, 2 layouts, 3 sizes of batches; and the worst case
	"awad-table5.5": {Default, map[string]int{"csr": 7, "bulk": 14, "bulk_sorted": 14, "incremental": 63}},
	"graph-query":   {Default, map[string]int{"has_hit": 14, "has_miss": 14, "degree": 14, "rows": 14}},
	"awad-table5.7": {Default, map[string]int{ // and 3 for figure 5.3
		"oriented": 10, "sort": 10, "triangles": 29, "insert": 12, "triangles_follow": 10, "triangles_anew": 12, "triangles_return": 10,
	}},
	"graph-pagerank":   {Quick, map[string]int{"iteration": 2, "follow": 6, "anew": 6}},
	"graph-algorithms": {Quick, map[string]int{"upload": 2, "bfs": 2, "components": 2, "sssp": 2, "kcore": 2}},
	"graph-snapshots":  {Quick, map[string]int{"snapshot": 2, "insert_held_0": 2, "insert_held_1": 2, "insert_held_8": 2}},
	"awad-fig5.2":      {Default, map[string]int{"build": 30}},
	// 2 sizes of keys, 2 of batches
	"gphash-fig6":           {Default, map[string]int{"A": 4, "B": 4, "C": 4, "D": 4, "F": 4, "LOAD": 4}},
	"gphash-fig5":           {Default, map[string]int{"insert": 4, "update": 4, "get_hit": 4, "get_miss": 4, "delete": 4}},
	"gphash-fig7":           {Default, map[string]int{"insert": 12}},
	"gphash-fig13":          {Default, map[string]int{"insert": 10, "get_hit": 10, "get_miss": 10}},
	"gphash-fig12a":         {Default, map[string]int{"A": 5, "C": 5}},
	"gphash-fig12b":         {Default, map[string]int{"A": 6, "C": 6}},
	"gphash-fig14-resizing": {Default, map[string]int{"insert": 2, "resize": 3}},
	"gphash-fig14-recovery": {Default, map[string]int{
		"open_clean": 1, "open_clean_recovery": 1, "open_crashed": 1, "open_crashed_recovery": 1, "open_verified": 1, "open_verified_recovery": 1,
	}},
	"gphash-recovery-large": {Default, map[string]int{"open": 2, "recovery": 2}},
	"gphash-fig10-dlrm":     {Default, map[string]int{"get": 1, "embed": 1}},
	// 4 peers, 2 sizes of keys
	"gphash-baselines":      {Default, map[string]int{"LOAD": 8, "C": 8, "A": 8}},
	"gphash-fences":         {Default, map[string]int{"insert": 2, "update": 2, "get_hit": 2, "get_miss": 2, "delete": 2}},
	"gphash-fig10-pagerank": {Default, map[string]int{"pagerank": 1}},
	// 4 indexes in 2 places, 2 sizes of keys
	"gphash-fig8": {Default, map[string]int{"LOAD": 16, "C": 16, "A": 16}},
	"gphash-fig9": {Default, map[string]int{"LOAD": 8, "C": 8, "B": 8, "A": 8, "F": 8, "D": 8}},
	// none, and 3 policies at 5 sizes
	"gphash-fig11": {Default, map[string]int{"C": 16, "A": 16}},
	// 2 sizes of batches
	"gphash-device": {Quick, map[string]int{"insert": 28, "search": 10, "search_miss": 2, "C": 8, "C, latest": 4}},
	"gphash-fig15":  {Quick, map[string]int{"get": 2, "get_before": 2, "get_during": 2, "get_after": 2, "load": 2}},
}

// tinyFor is tiny for an experiment, on a slow simulated GPU if it needs a GPU.
func tinyFor(t *testing.T, e Experiment) Config {
	t.Helper()
	cfg := tiny(devicetest.Open(t))
	if e.GPU && cfg.Device.Properties().Kind == device.CPU {
		cfg.Device, cfg.N = devicetest.OpenSim(t, nil), 512
	}
	return cfg
}

func TestEveryExperimentRuns(t *testing.T) {
	conformance.SkipRaced(t, ownTests)
	for _, e := range All() {
		t.Run(e.Name, func(t *testing.T) {
			want, known := rowsOf[e.Name]
			cfg := tinyFor(t, e)
			cfg.Scale = want.scale
			steps := 0
			cfg.Progress = func(string) { steps++ }
			res, err := e.Run(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			checkResult(t, res)
			if steps == 0 {
				t.Error("no progress was told")
			}
			if !known || cfg.Device.Properties().Kind == device.CUDA {
				return
			}
			got := map[string]int{}
			for _, row := range res.Rows {
				got[row.Op]++
			}
			if fmt.Sprint(got) != fmt.Sprint(want.ops) {
				t.Errorf("rows per operation\n%v, want\n%v", got, want.ops)
			}
		})
	}
}

// checkResult checks properties of every experiment: rates are positive unless a reason is given,
// every share is the rate over a limit of the result, and plots have data.
func checkResult(t *testing.T, res *Result) {
	t.Helper()
	if res.Device == "" || res.Date.IsZero() || res.Version == "" || res.Hardware.Units == 0 {
		t.Errorf("result doesn't say where and when: %+v", res)
	}
	for _, row := range res.Rows {
		limit := res.Limits[row.Limit]
		if row.Reason != "" && row.OpsPerS == 0 || row.Limit == "" && row.OpsPerS > 0 && row.LimitShare == 0 {
			continue // not measured, or without a limit
		}
		if !(row.OpsPerS > 0) || !(limit > 0) || math.Abs(row.LimitShare*limit-row.OpsPerS) > 1e-9*row.OpsPerS {
			t.Errorf("row %+v: rate, share and limit %g don't agree", row, limit)
		}
		if row.Load < 0 || row.Load > 1 {
			t.Errorf("row %+v: load", row)
		}
	}
	for _, p := range res.Plots {
		if len(p.Series) == 0 || p.XLabel == "" || p.YLabel == "" {
			t.Errorf("plot %s is empty or unlabelled", p.Name)
		}
		for _, s := range p.Series {
			if len(s.X) == 0 || len(s.X) != len(s.Y) {
				t.Errorf("plot %s: series %s has %d and %d coordinates", p.Name, s.Name, len(s.X), len(s.Y))
			}
		}
	}
}

func TestCPURowsCompareWithTheBuiltinMap(t *testing.T) {
	res, err := cpuExperiment.Run(t.Context(), tiny(devicetest.Open(t)))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range res.Rows {
		if (row.Structure == "linear") != (row.Speedup != nil) {
			t.Errorf("row %+v: only linear has a speedup", row)
		}
		if row.Cores == 1 != strings.HasSuffix(row.Limit, "_1core") {
			t.Errorf("row %+v: limit of another number of cores", row)
		}
	}
	peer := func(structure, op string, cores int) float64 {
		for _, row := range res.Rows {
			if row.Structure == structure && row.Op == op && row.Cores == cores {
				return row.OpsPerS
			}
		}
		t.Fatalf("no row for %s %s with %d cores", structure, op, cores)
		return 0
	}
	for _, row := range res.Rows {
		if row.Structure == "linear" && row.Cores == 1 {
			if want := row.OpsPerS / peer(goMap, row.Op, 1); math.Abs(*row.Speedup-want) > 1e-9 {
				t.Errorf("row %+v: speedup %g, want %g", row, *row.Speedup, want)
			}
		}
	}
}

func TestResultJSON(t *testing.T) {
	e, err := Find("simple-probe-length")
	if err != nil {
		t.Fatal(err)
	}
	res, err := e[0].Run(t.Context(), tiny(devicetest.Open(t)))
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(res)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Experiment, Device string
		Limits             map[string]float64
		Rows               []map[string]any
	}
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if got.Experiment != "simple-probe-length" || got.Device == "" || len(got.Limits) == 0 || len(got.Rows) != 2 {
		t.Fatalf("JSON %s", data)
	}
	for _, field := range []string{
		"structure", "op", "key_bits", "value_bits", "n", "load", "ops_per_s", "limit_share",
		"mean_probe", "max_probe", "published_mean_probe", "published_max_probe", "seconds", "limit",
	} {
		if _, ok := got.Rows[0][field]; !ok {
			t.Errorf("rows have no %q: %v", field, got.Rows[0])
		}
	}
}

func TestFind(t *testing.T) {
	names := func(es []Experiment) (names []string) {
		for _, e := range es {
			names = append(names, e.Name)
		}
		return names
	}
	got, err := Find("launch", "roofline", "launch")
	if err != nil || !slices.Equal(names(got), []string{"launch", "roofline"}) {
		t.Errorf("Find: %v, %v", names(got), err)
	}
	defaults, err := Find()
	if err != nil || len(defaults) == 0 || len(names(defaults)) > len(All()) {
		t.Errorf("default set: %v, %v", names(defaults), err)
	}
	if _, err := Find("no-such"); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "simple-table1") {
		t.Errorf("unknown name: %v", err)
	}
	seen := map[string]bool{}
	for _, e := range All() {
		if e.Title == "" || e.Doc == "" {
			t.Errorf("experiment %q has no title or text", e.Name)
		}
		for _, name := range append([]string{e.Name}, e.Also...) {
			if seen[name] {
				t.Errorf("experiment %q: the name %s is taken", e.Name, name)
			}
			seen[name] = true
			if got, err := Find(name, e.Name, cmp.Or(e.Was, e.Name)); err != nil || len(got) != 1 || got[0].Name != e.Name {
				t.Errorf("Find %s: %v, %v", name, names(got), err)
			}
		}
	}
}

// Results that were saved under an old name have their plots.
func TestRedraw(t *testing.T) {
	res := &Result{Experiment: "linear-insert-load", Rows: []Row{{Structure: "linear", Op: "insert", Load: .5, OpsPerS: 1e9, Limit: "cas64"}}, Limits: map[string]float64{"cas64": 2e9}}
	res.Redraw()
	if len(res.Plots) != 1 || res.Plots[0].Name != "simple-table1" {
		t.Errorf("plots %+v", res.Plots)
	}
}

func TestRunRefuses(t *testing.T) {
	dev := devicetest.Open(t)
	if _, err := hostExperiment.Run(t.Context(), Config{Device: dev, N: -1}); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("negative size: %v", err)
	}
	if _, err := linearExperiment.Run(t.Context(), Config{Device: dev, N: 1 << 50}); !errors.Is(err, device.ErrMemory) {
		t.Errorf("more than the memory: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, e := range All() {
		if res, err := e.Run(ctx, tinyFor(t, e)); !errors.Is(err, context.Canceled) || res != nil {
			t.Errorf("%s cancelled: %v, %v", e.Name, res, err)
		}
	}
}

// With any small number of keys, an experiment runs or reports that they are too few, and ends.
func TestFewKeys(t *testing.T) {
	conformance.SkipRaced(t, ownTests)
	dev := devicetest.OpenCPU(t, 2)
	for _, e := range All() {
		for _, n := range []int{1, 17} {
			if _, err := e.Run(t.Context(), Config{Device: dev, N: n, Runs: 1, Scale: Quick}); err != nil && !errors.Is(err, device.ErrInvalid) && !errors.Is(err, device.ErrUnsupported) {
				t.Errorf("%s with %d keys: %v", e.Name, n, err)
			}
		}
	}
}

// The times in the article's table agree with its text: 31 batches take about 1.2 seconds, and the
// first inserts 361 million keys per second.
func TestArticleFigures(t *testing.T) {
	if len(articleMilliseconds) != articleBatches {
		t.Fatalf("%d times for %d batches", len(articleMilliseconds), articleBatches)
	}
	if !slices.IsSorted(articleMilliseconds) {
		t.Error("a fuller table was faster: a misprint")
	}
	p := plotInsertLoad(&Result{Rows: []Row{{OpsPerS: 1}}})
	i := slices.IndexFunc(p[0].Series, func(s Series) bool { return s.Published })
	if i < 0 || math.Abs(p[0].Series[i].Y[0]-361.3e6) > 1e5 || p[0].Series[i].X[30] != .9375 {
		t.Errorf("published series %+v", p[0].Series)
	}
}

// If any third operation of the device fails, the error is returned and nothing leaks.
func TestDeviceFailures(t *testing.T) {
	conformance.SkipRaced(t, ownTests)
	for _, e := range []Experiment{
		linearExperiment, insertLoadExperiment, launchExperiment, hostExperiment, sizesExperiment,
		slabH200Experiment, slabAllocExperiment, slabFig5aExperiment, slabFig7bExperiment, hortonSizesExperiment, groupOnExperiment,
	} {
		t.Run(e.Name, func(t *testing.T) { failEverywhere(t, e, devicetest.Open(t), 3) })
	}
}

// The simulator detects memory and events that are freed while work may still use them, which CPUs
// do not. It is slow, so only every stride-th operation fails.
func TestSimulatedFailures(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, c := range []struct {
		Experiment
		stride int
	}{{hostExperiment, 2}, {insertLoadExperiment, 13}, {slabFig7bExperiment, 90}, {sizesExperiment, 90}, {hortonModelExperiment, 13}, {hortonSizesExperiment, 50},
		{gphashBreakdownExperiment, 150}, {gphashCacheExperiment, 1500}, {gphashCacheLoadingExperiment, 500},
		{gphashDeviceExperiment, 6000}} {
		t.Run(c.Name, func(t *testing.T) { failEverywhere(t, c.Experiment, devicetest.OpenSim(t, nil), c.stride) })
	}
}

// failures multiplies the number of operations that fail.
var failures = flag.Int("failures", 1, "so many times the usual number of operations fail, each once")

// failEverywhere makes every stride-th operation of the device fail.
func failEverywhere(t *testing.T, e Experiment, dev device.Device, stride int) {
	stride = max(stride / *failures, 1)
	cfg := tiny(dev)
	cfg.N, cfg.Scale = 256, Quick
	before := devicetest.Live(dev)
	for n := 0; ; n += stride {
		fired := devicetest.FailAfter(dev, n)
		_, err := e.Run(t.Context(), cfg)
		if !fired() {
			devicetest.ClearFailures(dev)
			if err != nil || n < 5 {
				t.Errorf("run to the end after %d operations: %v", n, err)
			}
			return
		}
		// On a GPU some calls survive a failed allocation: a call or a reduction may use less
		// scratch memory than requested, and an ordered map or a graph less memory than it prefers,
		// or its reserves.
		spares := dev.Properties().Kind != device.CPU || e.Name == "group-on" || strings.HasPrefix(cmp.Or(e.Was, e.Name), "ordered-") || strings.HasPrefix(cmp.Or(e.Was, e.Name), "graph-")
		if !errors.Is(err, device.ErrMemory) && (err != nil || !spares) {
			t.Errorf("failure of operation %d: %v", n, err)
		}
		if after := devicetest.Live(dev); after != before {
			t.Fatalf("failure of operation %d leaves %+v, before %+v", n, after, before)
		}
	}
}

// A table that is rebuilt for every batch is counted after the build, which on a device is
// asynchronous.
func TestRebuildingWaits(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	cfg := tiny(devicetest.OpenSim(t, nil))
	cfg.N, cfg.Scale = 64, Quick
	if _, err := slabFig6Experiment.Run(t.Context(), cfg); err != nil {
		t.Error(err)
	}
}

// If a structure returns wrong results, the experiment fails.
func TestWrongAnswersAreErrors(t *testing.T) {
	r := testRunner(t)
	c, err := newColumns[uint32, uint32](r, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer c.free()
	flags := make([]bool, 100)
	flags[7] = true
	if err := c.flags.CopyFrom(r.stream, flags); err != nil {
		t.Fatal(err)
	}
	if err := checkFlags(t.Context(), r, c.flags, "lookup", 1); err != nil {
		t.Errorf("one flag of one: %v", err)
	}
	if err := checkFlags(t.Context(), r, c.flags, "lookup", 2); !errors.Is(err, errWrong) {
		t.Errorf("one flag of two: %v", err)
	}
	if err := checkValues(t.Context(), r, c.keys, c.vals); err != nil {
		t.Errorf("right values: %v", err)
	}
	last := make([]uint32, 1)
	if err := c.vals.Sub(99, 100).CopyTo(t.Context(), r.stream, last); err != nil {
		t.Fatal(err)
	}
	last[0]++
	if err := c.vals.Sub(99, 100).CopyFrom(r.stream, last); err != nil {
		t.Fatal(err)
	}
	if err := checkValues(t.Context(), r, c.keys, c.vals); !errors.Is(err, errWrong) {
		t.Errorf("wrong value: %v", err)
	}
}

// Results from before an interruption are kept.
func TestInterrupted(t *testing.T) {
	e, err := Find("linear")
	if err != nil {
		t.Fatal(err)
	}
	for last := range 2 {
		ctx, stop := context.WithCancel(t.Context())
		cfg, rows := tiny(devicetest.Open(t)), 0
		cfg.Progress = func(string) {
			if rows++; rows > 8*last {
				stop()
			}
		}
		res, err := e[0].Run(ctx, cfg)
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("interrupted behind %d steps: %v", rows, err)
		}
		if last == 0 && res != nil {
			t.Errorf("a result of nothing: %+v", res)
		}
		if last == 1 && (res == nil || !res.Incomplete || len(res.Rows) == 0 || len(res.Rows) > 40) {
			t.Errorf("interrupted behind %d steps: %+v", rows, res)
		}
	}
}

// An experiment without a size ends within seconds, also on a simulated GPU.
func TestSizeOnASimulatedGPU(t *testing.T) {
	for _, c := range []struct {
		dev     device.Device
		n, want int
	}{{devicetest.OpenSim(t, nil), 0, interpreted}, {devicetest.OpenSim(t, nil), 3, 3}, {devicetest.OpenCPU(t, 1), 0, 0}} {
		r := &runner{Config: Config{Device: c.dev, N: c.n}, result: &Result{}}
		if err := r.open(c.dev); err != nil {
			t.Fatal(err)
		}
		if r.N != c.want {
			t.Errorf("%d keys on %v with --n %d, want %d", r.N, c.dev.Properties().Kind, c.n, c.want)
		}
		if err := r.close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
