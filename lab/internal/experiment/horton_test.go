package experiment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/bucketmodel"
	"github.com/weftgo/weft/internal/conformance"
)

// checkTables checks that rows of buckets agree with the model, as far as few keys can.
func checkTables(t *testing.T, rows []Row, tolerance float64) {
	t.Helper()
	for _, row := range rows {
		if row.Measured == nil || row.Model == nil {
			t.Errorf("row %+v: nothing of its buckets", row)
			continue
		}
		off := func(measured, model float64) bool { return !(math.Abs(measured-model) <= tolerance*model) }
		if row.Structure != cuckooEven && off(row.Measured.PerHit, row.Model.PerHit) || off(row.Measured.PerMiss, row.Model.PerMiss) {
			t.Errorf("%s of %d slots at %g: %+v, model %+v", row.Structure, row.Slots, row.Load, *row.Measured, *row.Model)
		}
	}
}

func TestHortonModel(t *testing.T) {
	cfg := tiny(devicetest.Open(t))
	cfg.N = 1 << 14
	res, err := hortonModelExperiment.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	checkTables(t, res.Rows, .05)
	reached, keys := map[int]float64{}, map[int]int{}
	for _, row := range res.Rows {
		keys[row.Slots] += row.N
		buckets := 0
		for _, n := range row.KeysPerBucket {
			buckets += n
		}
		if buckets != 0 && buckets != cfg.N/row.Slots {
			t.Errorf("%d buckets at %g", buckets, row.Load)
		}
		if row.Load <= reached[row.Slots] {
			t.Errorf("%d slots: load %g after %g", row.Slots, row.Load, reached[row.Slots])
		}
		reached[row.Slots] = row.Load
		// A table of fixed size may have some spare slots.
		drawn := row.Slots == kindSlots && slices.ContainsFunc(histogramLoads, func(l float64) bool { return math.Abs(row.Load-l) < .02 })
		if len(row.KeysPerBucket) > 0 && !drawn {
			t.Errorf("%d slots at %g: histogram of %d bars", row.Slots, row.Load, len(row.KeysPerBucket))
		}
	}
	for _, slots := range bucketSlots {
		if want := int(hortonBound(slots) * float64(cfg.N)); keys[slots] != want {
			t.Errorf("%d slots: %d keys, want %d", slots, keys[slots], want)
		}
	}
	for _, slots := range []int{4, 8, 16} {
		if math.Abs(reached[slots]-hortonBound(slots)) > .03 {
			t.Errorf("%d slots: filled to %g, want %g", slots, reached[slots], hortonBound(slots))
		}
	}
	var names []string
	for _, p := range res.Plots {
		names = append(names, strings.TrimPrefix(p.Name, "horton-fig"))
		for i, s := range p.Series {
			if s.Model && len(s.X) != len(p.Series[i-1].X) {
				t.Errorf("%s: %s has %d points beside %d", p.Name, s.Name, len(s.X), len(p.Series[i-1].X))
			}
		}
	}
	if want := []string{"8", "9", "14a", "10", "14b", "11", "14c"}; !slices.Equal(names, want) {
		t.Errorf("figures %v, want %v", names, want)
	}
}

// The histogram of figure 8 is that of the model.
func TestKeysPerBucket(t *testing.T) {
	const buckets = 1 << 12
	keys := make([]uint32, 6*buckets)
	for i := range keys {
		keys[i] = uint32(i)
	}
	got := keysPerBucket(keys, 1, buckets)
	sum, all := 0, 0
	for x, n := range got {
		sum += x * n
		all += n
		if want := buckets * bucketmodel.Poisson(6, x); math.Abs(float64(n)-want) > 5*math.Sqrt(want)+1 {
			t.Errorf("%d buckets of %d keys, want %.1f", n, x, want)
		}
	}
	if sum != len(keys) || all != buckets || got[len(got)-1] == 0 {
		t.Errorf("%d keys in %d buckets: %v", sum, all, got)
	}
}

func TestHortonSizes(t *testing.T) {
	conformance.SkipRaced(t, ownTests)
	cfg := tiny(devicetest.Open(t))
	cfg.N = tableKeys(1 << 18)
	res, err := hortonSizesExperiment.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	checkTables(t, res.Rows, .05)
	sizes := map[int]int{}
	for i, row := range res.Rows {
		sizes[row.TableBytes>>10/4*4]++ // without the lines after the table
		reads, model := row.Measured.PerHit, row.Model.PerHit
		if row.Op == "get_miss" {
			reads, model = row.Measured.PerMiss, row.Model.PerMiss
		}
		if *row.BytesPerOp != 64*reads+8 {
			t.Errorf("row %+v: %g bytes", row, *row.BytesPerOp)
		}
		if counted := row.TableBytes < 2*countedTable; counted != (row.Requested != nil) ||
			counted && math.Abs(row.Requested.Sectors-2*model) > .05*2*model {
			t.Errorf("row %+v: requests %+v, which reads %g buckets by the model", row, row.Requested, model)
		}
		if base := res.Rows[i/6*6+i%2]; row.Structure == cuckooEven != (row.Speedup == nil) ||
			row.Speedup != nil && (*row.Speedup != row.OpsPerS/base.OpsPerS || base.Structure != cuckooEven || base.Op != row.Op) {
			t.Errorf("row %+v over %+v", row, base)
		}
	}
	for kib := 16; kib <= 256; kib *= 2 {
		if sizes[kib] != 6 {
			t.Errorf("rows by size in KiB: %v", sizes)
		}
	}
	if len(res.Plots) != 6 {
		t.Errorf("%d plots", len(res.Plots))
	}
}

// Every structure is measured up to its own bound, which is reported. The churn leaves tables as
// full as before.
func TestSideBySide(t *testing.T) {
	conformance.SkipRaced(t, ownTests)
	cfg := tiny(devicetest.Open(t))
	cfg.N = 1024
	res, err := sideBySideExperiment.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	loads := map[string][]float64{}
	for _, row := range res.Rows {
		if row.Op == "churn" {
			name := row.Structure + fmt.Sprintf("_%d/%d", row.KeyBits, row.ValueBits)
			loads[name] = append(loads[name], row.Load)
			if row.N != 2*turnovers*cfg.N {
				t.Errorf("churn of %d operations", row.N)
			}
		}
	}
	for name, bound := range map[string]float64{
		"linear_32/32": .98, "linear_64/64": .98, "slab_32/32": .93, "slab_64/64": .86, cuckooFirst + "_32/32": .98, cuckooEven + "_64/64": .98,
		hortonLazy + "_32/32": .95, hortonEager + "_64/64": .95,
	} {
		var want []float64
		for _, load := range []float64{.5, .6, .7, .8, .86, .9, .93, .95, .98} {
			if load <= bound && (load != .86 && load != .93 || load == bound) {
				want = append(want, load)
			}
		}
		if !slices.Equal(loads[name], want) || res.Parameters["bound_"+name] != bound {
			t.Errorf("%s: loads %v, want %v; told %v", name, loads[name], want, res.Parameters["bound_"+name])
		}
	}
	if len(res.Plots) != 14 {
		t.Errorf("%d plots of seven operations on two widths", len(res.Plots))
	}
	for _, p := range res.Plots {
		if !slices.ContainsFunc(p.Series, func(s Series) bool { return s.Name == hortonEager && len(s.X) == 6 }) {
			t.Errorf("%s: %+v", p.Name, p.Series)
		}
	}
}

// newSide returns a comparison of 1024 keys without tables.
func newSide(t *testing.T) *side[uint32, uint32] {
	r := testRunner(t)
	r.result.Parameters = map[string]any{}
	s := &side[uint32, uint32]{trial: trial[uint32, uint32]{runner: r, keyBits: 32, valueBits: 32}}
	var err error
	if s.cols, err = newColumns[uint32, uint32](r, 1024); err == nil {
		err = s.upload()
	}
	t.Cleanup(func() {
		if err := errors.Join(s.cols.free(), r.free(&s.keys, &s.vals)); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fullInChurn is a table that reports full at the second request.
type fullInChurn struct {
	subject[uint32, uint32]
	syncs *int
}

func (f fullInChurn) Sync(ctx context.Context) error {
	if *f.syncs++; *f.syncs > 1 {
		return weft.ErrFull
	}
	return f.subject.Sync(ctx)
}

// A table that is full before its bound ends its sweep. A lower bound is reported, and no figure
// for that step.
func TestFullTablesEndTheSweep(t *testing.T) {
	s := newSide(t)
	k := linearKind[uint32, uint32](s.runner)
	open := k.open
	k.open = func(n int, load float64) (subject[uint32, uint32], error) {
		table, err := open(n, load)
		if load > .7 {
			table = fullInChurn{table, new(int)}
		}
		return table, err
	}
	if err := s.sweep(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	last := s.result.Rows[len(s.result.Rows)-1]
	if bound := s.result.Parameters["bound_linear_32/32"]; bound != .7 || last.Load != .7 || last.Op != "get_miss"+churned {
		t.Errorf("bound %v, last row %+v", bound, last)
	}
	failure := errors.New("another failure")
	if full, err := k.with(1024, .5, func(subject[uint32, uint32]) error { return failure }); full || !errors.Is(err, failure) {
		t.Errorf("a failure: %v, %v", full, err)
	}
}

// Each turnover replaces all keys by the next ones, and the last one by those of the columns.
func TestTurnovers(t *testing.T) {
	s := newSide(t)
	_, err := linearKind[uint32, uint32](s.runner).with(1024, .5, func(table subject[uint32, uint32]) (err error) {
		s.table = table
		err = table.put(s.stream, s.keys.Sub(0, 1024), s.vals.Sub(0, 1024))
		for i := range turnovers {
			keys := s.cols.keys
			if i+1 < turnovers {
				keys = s.keys.Sub((i+1)*1024, (i+2)*1024)
			}
			err = errors.Join(err, s.turnover(i), s.checkLookup(t.Context(), keys, "lookup", 1024), table.Sync(t.Context()))
			if table.Len() != 1024 {
				t.Errorf("%d keys after %d turnovers", table.Len(), i+1)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// Bucket statistics of tables survive JSON.
func TestReadsInJSON(t *testing.T) {
	row := Row{Slots: 8, TableBytes: 1 << 20, BytesPerOp: figure(81), Requested: &Requested{2.5, 1.25}, KeysPerBucket: []int{3, 2, 1},
		Measured: &Reads{1.1, 1.2, 1.3, .4, .05, .6}, Model: &Reads{PerHit: 1.5}}
	data, err := json.Marshal(row)
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"buckets_per_hit", "buckets_per_miss", "type_b", "entries", "bytes_per_op_computed", "keys_per_bucket", "table_bytes", "requested_simulated", "sectors", "lines"} {
		if !strings.Contains(string(data), `"`+field+`":`) {
			t.Errorf("no %s in %s", field, data)
		}
	}
	var got Row
	if err := json.Unmarshal(data, &got); err != nil || *got.Measured != *row.Measured || *got.Model != *row.Model ||
		*got.BytesPerOp != 81 || *got.Requested != *row.Requested || !slices.Equal(got.KeysPerBucket, row.KeysPerBucket) {
		t.Errorf("%+v comes back as %+v: %v", row, got, err)
	}
}

// The experiments on Horton tables run on an asynchronous device, too.
func TestHortonExperimentsOnGPU(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, e := range []Experiment{hortonModelExperiment, hortonSizesExperiment, sideBySideExperiment, slabFig4bExperiment} {
		t.Run(e.Name, func(t *testing.T) {
			cfg := tiny(devicetest.OpenSim(t, nil))
			cfg.N, cfg.Scale = 64, Quick
			res, err := e.Run(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			checkResult(t, res)
		})
	}
}
