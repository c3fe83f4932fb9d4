// Package experiment holds the named experiments of weft-bench: what each
// measures, at which sizes, and against which limit of the hardware.
//
// Each experiment measures the limits it needs in the same run
// (internal/roofline) and gives every figure as operations per second and as
// a share of the limit named in its row. Keys are unique and random, columns
// lie on the device, the device's events take the time, clearing is not
// counted, and the median of several runs after a warm-up is reported. Every
// batch that was timed is checked for right answers: a wrong one ends the
// experiment.
package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/revision"
	"github.com/weftgo/weft/lab/internal/roofline"
)

// Scale is how much of an experiment is run.
type Scale int

// The scales.
const (
	Default Scale = iota
	Quick         // small sizes and few settings: seconds
	Full          // every width and setting
)

// String is the name of the scale.
func (s Scale) String() string {
	return [...]string{"default", "quick", "full"}[s]
}

// Config says where and how large an experiment runs.
type Config struct {
	// Device runs the experiment. The caller keeps it open.
	Device device.Device
	// N is the number of keys, the largest where an experiment varies it; for
	// simple-table1, simple-probe-length and horton-fig8 that of slots,
	// for slabhash-alloc that of units, for graphs that of vertices. 0 is the experiment's default for the
	// device and the scale; on a simulated GPU one of seconds.
	N int
	// Scale is Default, Quick or Full.
	Scale Scale
	// Runs is the number of timed runs; 0 is 5 on a GPU and 3 on a CPU.
	Runs int
	// Seed makes keys differ from run to run; they are the same for the same
	// seed.
	Seed uint64
	// Graphs are files of graphs, on which experiments of graphs are run, too.
	Graphs []string
	// Only are the names of those generated graphs that experiments of graphs are run on; none: all of an experiment.
	Only []string
	// Progress, if not nil, is told what is being measured.
	Progress func(step string)
}

// An Experiment is a named measurement.
type Experiment struct {
	// Name is that of weft-bench run. Of what a paper shows, it is the paper and the number of the table or
	// figure: awad-table3.3. Also are further ones that the experiment has.
	Name    string
	Also    []string
	Was     string // the name in results before 29 November 2026, if it was another one
	Title   string // one line
	Doc     string // what is measured and how to read it; paragraphs
	Default bool   // part of weft-bench run without names
	GPU     bool   // about what only a GPU has, so that it needs one

	run       func(ctx context.Context, r *runner) error
	plots     func(res *Result) []Plot // nil: rows only
	published []Published              // to be shown beside
}

// All are the experiments, in the order they are listed.
func All() []Experiment {
	return []Experiment{rooflineExperiment, linearExperiment, insertLoadExperiment, probeLengthExperiment, articleRatesExperiment,
		launchExperiment, hostExperiment, cpuExperiment, groupByExperiment, groupOnExperiment, hotKeysExperiment, sizesExperiment,
		slabH200Experiment, slabAllocExperiment, slabLightExperiment, slabFig4aExperiment, slabFig4bExperiment, slabFig5aExperiment, slabFig5bExperiment,
		slabFig6Experiment, slabFig7aExperiment, slabFig7bExperiment, hortonModelExperiment, hortonSizesExperiment, sideBySideExperiment, hortonAlternativesExperiment, hortonCountersExperiment,
		btreeLatenciesExperiment, btreeAblationsExperiment, btreeCacheExperiment, orderedLookupExperiment, orderedScalingExperiment, orderedInsertExperiment, orderedDeleteExperiment,
		orderedMixedExperiment, orderedRangeExperiment, orderedLoadExperiment, orderedGrownExperiment, orderedSnapshotsExperiment,
		mvbtreeInsertExperiment, mvbtreeMixedExperiment, mvbtreeMemoryExperiment,
		graphInsertExperiment, graphDeleteExperiment, graphVerticesExperiment, graphBuildExperiment, graphQueryExperiment,
		graphTrianglesExperiment, graphPageRankExperiment, graphAlgorithmsExperiment, graphSnapshotsExperiment, graphMemoryExperiment,
		gphashYCSBExperiment, gphashMicroExperiment, gphashLoadExperiment, gphashConfigExperiment,
		gphashKeySizeExperiment, gphashSkewExperiment, gphashResizeExperiment, gphashRecoveryExperiment,
		gphashEmbeddingExperiment, gphashPageRankExperiment, gphashBaselinesExperiment, gphashFencesExperiment,
		gphashBreakdownExperiment, gphashFactorsExperiment, gphashCacheExperiment, gphashCacheLoadingExperiment, gphashDeviceExperiment,
		gphashRecoveryLargeExperiment}
}

// is reports whether the experiment has a name, today or before.
func (e Experiment) is(name string) bool {
	return e.Name == name || slices.Contains(e.Also, name) || name != "" && e.Was == name
}

// Redraw makes the plots of a result that has been saved.
func (res *Result) Redraw() {
	for _, e := range All() {
		if e.is(res.Experiment) && e.plots != nil {
			res.Plots = e.plots(res)
		}
	}
}

// ErrUnknown: there is no experiment of that name.
var ErrUnknown = errors.New("no such experiment")

// Find returns the experiments of the given names in that order, each once;
// the default set if there are none. ErrUnknown lists what there is.
func Find(names ...string) ([]Experiment, error) {
	all := All()
	if len(names) == 0 {
		return slices.DeleteFunc(all, func(e Experiment) bool { return !e.Default }), nil
	}
	var found []Experiment
	for _, name := range names {
		i := slices.IndexFunc(all, func(e Experiment) bool { return e.is(name) })
		if i < 0 {
			known := make([]string, len(all))
			for i, e := range all {
				known[i] = e.Name
			}
			return nil, fmt.Errorf("%w: %q; there are %s", ErrUnknown, name, strings.Join(known, ", "))
		}
		if !slices.ContainsFunc(found, func(e Experiment) bool { return e.Name == all[i].Name }) {
			found = append(found, all[i])
		}
	}
	return found, nil
}

// Run runs the experiment. It frees what it has allocated, also on errors. Where ctx ends
// behind the first row, the result so far comes back with the error, without plots.
func (e Experiment) Run(ctx context.Context, cfg Config) (res *Result, err error) {
	if cfg.N < 0 || cfg.Runs < 0 {
		return nil, fmt.Errorf("experiment %s: %w: %d keys, %d runs", e.Name, device.ErrInvalid, cfg.N, cfg.Runs)
	}
	if e.GPU && cfg.Device.Properties().Kind == device.CPU {
		return nil, fmt.Errorf("experiment %s: %w: it needs a GPU, and %s is none", e.Name, device.ErrUnsupported, cfg.Device.Properties().Name)
	}
	r := &runner{Config: cfg, result: &Result{
		Experiment: e.Name,
		Title:      e.Title,
		Date:       time.Now().UTC().Truncate(time.Second),
		Version:    revision.Current().Short(),
		Scale:      cfg.Scale.String(),
		Limits:     map[string]float64{},
		Rows:       []Row{},
		Published:  e.published,
	}}
	defer func() {
		err = errors.Join(err, r.close(ctx))
		if err == nil {
			return
		}
		res, err = nil, fmt.Errorf("experiment %s: %w", e.Name, err)
		if ctx.Err() != nil && len(r.result.Rows) > 0 {
			r.result.Incomplete = true
			res = r.result
		}
	}()
	if err := r.open(cfg.Device); err != nil {
		return nil, err
	}
	if err := e.run(ctx, r); err != nil {
		return nil, err
	}
	if e.plots != nil {
		r.result.Plots = e.plots(r.result)
	}
	return r.result, nil
}

// rooflineExperiment is the limits themselves.
var rooflineExperiment = Experiment{
	Name:    "roofline",
	Title:   "What the memory can do at most",
	Default: true,
	Doc: `Random reads and compare-and-swaps in a region larger than every cache, copies, and launches. Each random
operation reads an 8-byte query, and a read writes an 8-byte result. The best of several numbers of accesses in
flight counts. Every other experiment measures the limits it needs again, in a region as large as its table.`,
	run: func(ctx context.Context, r *runner) error {
		if err := r.limits(ctx, r.region(), roofline.Names(r.props())...); err != nil {
			return err
		}
		for _, name := range roofline.Names(r.props()) {
			row := Row{Structure: "memory", Op: name, OpsPerS: r.result.Limits[name], Limit: name}
			if unit := roofline.Unit(name); unit != "op/s" {
				row.Unit = unit
			}
			r.add(row)
		}
		return nil
	},
}
