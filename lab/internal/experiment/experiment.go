// Package experiment holds the named experiments of weft-bench. Each has an operation to measure,
// sizes, and a limit of the hardware to compare with.
//
// An experiment measures its limits in the same run (internal/roofline). It reports each rate in
// operations per second and as a share of the limit that its row names. Keys are unique and random,
// columns lie on the device, and device events measure the time. Clearing does not count.
// Experiments report the median of several runs after a warm-up. They check the results of every
// timed batch, and a wrong result ends the experiment.
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

// Scale selects how much of an experiment runs.
type Scale int

// The scales.
const (
	Default Scale = iota
	Quick         // small sizes and few settings; takes seconds
	Full          // every width and setting
)

// String returns the name of the scale.
func (s Scale) String() string {
	return [...]string{"default", "quick", "full"}[s]
}

// Config specifies the device and the size of an experiment.
type Config struct {
	// Device runs the experiment. The caller keeps it open.
	Device device.Device
	// N is the number of keys, or the largest number if the experiment varies it. It counts slots
	// in simple-table1, simple-probe-length and horton-fig8, units in slabhash-alloc, and vertices
	// in experiments on graphs. 0 selects a default for the device and the scale; on a simulated
	// GPU, the default takes seconds.
	N int
	// Scale is Default, Quick or Full.
	Scale Scale
	// Runs is the number of timed runs. 0 selects 5 on a GPU and 3 on a CPU.
	Runs int
	// Seed determines the keys. Equal seeds give equal keys.
	Seed uint64
	// Graphs are graph files that experiments on graphs use in addition to generated graphs.
	Graphs []string
	// Only names the generated graphs to use. If it is empty, experiments use all.
	Only []string
	// Progress, if not nil, receives a description of each step.
	Progress func(step string)
}

// An Experiment is a named measurement.
type Experiment struct {
	// Name is the name in weft-bench run. For results of a paper it consists of the paper and the
	// number of the table or figure: awad-table3.3. The field Also lists further names.
	Name    string
	Also    []string
	Was     string // name in results before 29 November 2026, if different
	Title   string // one line
	Doc     string // paragraphs: what it measures and how to read the results
	Default bool   // runs if weft-bench run gets no names
	GPU     bool   // requires a GPU

	run       func(ctx context.Context, r *runner) error
	plots     func(res *Result) []Plot // nil if the experiment has no plots
	published []Published              // published figures to show with the results
}

// All returns all experiments in listing order.
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

// is reports whether the experiment has a name, including its name in old results.
func (e Experiment) is(name string) bool {
	return e.Name == name || slices.Contains(e.Also, name) || name != "" && e.Was == name
}

// Redraw computes the plots of a saved result again.
func (res *Result) Redraw() {
	for _, e := range All() {
		if e.is(res.Experiment) && e.plots != nil {
			res.Plots = e.plots(res)
		}
	}
}

// ErrUnknown means that no experiment has a requested name.
var ErrUnknown = errors.New("no such experiment")

// Find returns the experiments with the given names, each once, in that order. Without names it
// returns the default experiments. For an unknown name it returns an ErrUnknown that lists all
// names.
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
			return nil, fmt.Errorf("%w: %q; want one of %s", ErrUnknown, name, strings.Join(known, ", "))
		}
		if !slices.ContainsFunc(found, func(e Experiment) bool { return e.Name == all[i].Name }) {
			found = append(found, all[i])
		}
	}
	return found, nil
}

// Run runs the experiment and frees everything that it has allocated. If ctx ends after the first
// row, Run returns the rows so far, without plots, and the error.
func (e Experiment) Run(ctx context.Context, cfg Config) (res *Result, err error) {
	if cfg.N < 0 || cfg.Runs < 0 {
		return nil, fmt.Errorf("experiment %s: %w: %d keys, %d runs", e.Name, device.ErrInvalid, cfg.N, cfg.Runs)
	}
	if e.GPU && cfg.Device.Properties().Kind == device.CPU {
		return nil, fmt.Errorf("experiment %s: %w: want a GPU, set by --device, found %s", e.Name, device.ErrUnsupported, cfg.Device.Properties().Name)
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
