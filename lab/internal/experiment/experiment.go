// Package experiment holds the named experiments of weft-bench: what each measures, at which sizes,
// and against which limit of the hardware.
//
// Each experiment measures the limits it needs in the same run (internal/roofline). It reports
// every figure as operations per second and as a share of the limit named in its row. Keys are
// unique and random, columns lie on the device, and the device's events take the time. Clearing is
// not counted. The median of several runs after a warm-up is reported. The results of every timed
// batch are checked: a wrong one ends the experiment.
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

// Scale selects how much of an experiment is run.
type Scale int

// The scales.
const (
	Default Scale = iota
	Quick         // small sizes and few settings: seconds
	Full          // every width and setting
)

// String returns the name of the scale.
func (s Scale) String() string {
	return [...]string{"default", "quick", "full"}[s]
}

// Config specifies where an experiment runs, and its size.
type Config struct {
	// Device runs the experiment. The caller keeps it open.
	Device device.Device
	// N is the number of keys, the largest if the experiment varies it. For simple-table1,
	// simple-probe-length and horton-fig8 it is the number of slots, for slabhash-alloc of units,
	// for graphs of vertices. 0 is the experiment's default for the device and the scale; on a
	// simulated GPU a default that takes seconds.
	N int
	// Scale is Default, Quick or Full.
	Scale Scale
	// Runs is the number of timed runs; 0 is 5 on a GPU and 3 on a CPU.
	Runs int
	// Seed makes keys differ between seeds. Equal seeds give equal keys.
	Seed uint64
	// Graphs are files of graphs, which experiments on graphs use as well.
	Graphs []string
	// Only selects generated graphs by name for experiments on graphs; empty: all.
	Only []string
	// Progress, if not nil, is called with what is being measured.
	Progress func(step string)
}

// An Experiment is a named measurement.
type Experiment struct {
	// Name is the name in weft-bench run. For results of a paper, it is the paper and the number of
	// the table or figure: awad-table3.3. Also are further names of the experiment.
	Name    string
	Also    []string
	Was     string // the name in results before 29 November 2026, if different
	Title   string // one line
	Doc     string // what is measured and how to read it; paragraphs
	Default bool   // part of weft-bench run without names
	GPU     bool   // requires a GPU

	run       func(ctx context.Context, r *runner) error
	plots     func(res *Result) []Plot // nil: rows only
	published []Published              // shown alongside
}

// All returns the experiments, in the order of their listing.
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

// is reports whether the experiment has a name, now or in old results.
func (e Experiment) is(name string) bool {
	return e.Name == name || slices.Contains(e.Also, name) || name != "" && e.Was == name
}

// Redraw makes the plots of a saved result.
func (res *Result) Redraw() {
	for _, e := range All() {
		if e.is(res.Experiment) && e.plots != nil {
			res.Plots = e.plots(res)
		}
	}
}

// ErrUnknown reports a name without an experiment.
var ErrUnknown = errors.New("no such experiment")

// Find returns the experiments with the given names in that order, each once, or the default set
// without names. ErrUnknown lists all names.
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

// Run runs the experiment. It frees what it has allocated, also on errors. If ctx ends after the
// first row, it returns the result so far, without plots, and the error.
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

// rooflineExperiment measures the limits themselves.
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
