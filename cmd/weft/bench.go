package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/weftgo/weft/cmd/weft/internal/outfile"
	"github.com/weftgo/weft/cmd/weft/internal/report"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/atomicfile"
	"github.com/weftgo/weft/internal/experiment"
)

// benchOptions are the flags of weft bench.
type benchOptions struct {
	list        bool
	quick, full bool
	n, runs     int
	seed        uint64
	graphs      []string // files
	only        []string // generated graphs
	html, svg   string   // a file, a folder
	plan        *outfile.Plan
	format      string // of what is printed
}

func newBenchCommand(a *app) *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use:   "bench [EXPERIMENT...]",
		Short: "Measure structures against the limits of this machine",
		Long: `Bench runs named experiments and prints each figure as operations per second and
as a share of what the memory of the same device was measured to allow in the
same run. Without names it runs the default set, in a minute or two on two cores.
With --json it prints one object for one experiment and an array for several.
Interrupted, it prints and writes what it has measured so far, marked as incomplete.`,
		Example: `  weft bench
  weft bench --list
  weft bench linear --n 10000000 --json
  weft bench linear --runs 10 --format benchstat >new.txt
  weft bench linear linear-insert-load --full --html report.html
  weft bench slabhash-fig4a slabhash-fig4b --svg plots
  weft bench gphash-breakdown gphash-factors gphash-cache gphash-cache-loading --device cuda --svg plots`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, e := range experiment.All() {
				names = append(names, e.Name+"\t"+e.Title)
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			experiments, err := experiment.Find(args...)
			if err != nil {
				return usageError{err}
			}
			if o.list {
				return listExperiments(cmd.OutOrStdout(), a.json, len(args) > 0, experiments)
			}
			if err := o.check(a); err != nil {
				return err
			}
			dev, err := a.openDevice(cmd.Context())
			if err != nil {
				return err
			}
			return errors.Join(o.bench(cmd.Context(), a, dev, experiments, args), dev.Close())
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.list, "list", false, "list the experiments and exit")
	f.BoolVar(&o.quick, "quick", false, "small sizes and few settings: seconds")
	f.BoolVar(&o.full, "full", false, "every width and setting")
	f.IntVar(&o.n, "n", 0, "number of keys; of slots or units where an experiment fills a table or a pool (default: as fits the device; 1024 on a simulated GPU)")
	f.IntVar(&o.runs, "runs", 0, "timed runs, of which the median counts (default 3 on a CPU, 5 on a GPU)")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the keys")
	f.StringArrayVar(&o.graphs, "graph", nil, "measure graphs also on the one of `FILE`, for experiments graph-...; may be given several times")
	f.StringSliceVar(&o.only, "only", nil, "of generated graphs measure those of these `NAMES`, for experiments graph-...: roads,rmat")
	f.StringVar(&o.format, "format", "table", "what to print: table, json, or benchstat, the format of Go's benchmarks with a line for each run")
	f.Var(nameValue{&o.html}, "html", "also write a self-contained page to `FILE`; of the files that exist, only an HTML page is replaced")
	f.Var(nameValue{&o.svg}, "svg", "also write the plots to `DIR`; of the files that exist, only SVG images are replaced")
	return cmd
}

// formats are those of what is printed.
var formats = []string{"table", "json", "benchstat"}

// check refuses flags that contradict themselves, and finds out before minutes
// of measuring rather than after where nothing can be written.
func (o *benchOptions) check(a *app) (err error) {
	switch {
	case o.quick && o.full:
		return usageError{errors.New("--quick and --full exclude each other")}
	case o.n < 0 || o.runs < 0:
		return usageError{errors.New("--n and --runs must not be negative; 0 is the default")}
	case !slices.Contains(formats, o.format):
		return usageError{fmt.Errorf("--format %s: there are %s", o.format, strings.Join(formats, ", "))}
	}
	for _, file := range o.graphs {
		if info, err := os.Stat(file); err != nil || info.IsDir() {
			return fmt.Errorf("--graph %s: %w", file, cmp.Or(reason(err), error(syscall.EISDIR)))
		}
	}
	if o.plan, err = a.plan(o.graphs...); err != nil {
		return fmt.Errorf("bench %w", err)
	}
	if o.html != "" {
		if err := o.plan.Writes("--html", o.html, htmlKind, true); err != nil {
			return err
		}
	}
	if o.svg != "" {
		if err := cmp.Or(os.MkdirAll(o.svg, 0o755), takesFiles(o.svg)); err != nil {
			return fmt.Errorf("--svg %s: %w", o.svg, reason(err))
		}
	}
	return nil
}

func (o *benchOptions) scale() experiment.Scale {
	switch {
	case o.quick:
		return experiment.Quick
	case o.full:
		return experiment.Full
	}
	return experiment.Default
}

// listExperiments prints names and titles, and the whole description of those
// asked for by name. Without names it lists everything, not the default set.
func listExperiments(w io.Writer, asJSON, named bool, experiments []experiment.Experiment) error {
	if asJSON {
		return listJSON(w, named, experiments)
	}
	if named {
		for _, e := range experiments {
			if _, err := fmt.Fprintf(w, "%s: %s\n\n%s\n", e.Name, e.Title, e.Doc); err != nil {
				return err
			}
		}
		return nil
	}
	for _, e := range experiment.All() {
		if _, err := fmt.Fprintf(w, "%-20s  %s\n", e.Name, e.Title); err != nil {
			return err
		}
	}
	return nil
}

// listJSON prints the same as an array of objects.
func listJSON(w io.Writer, named bool, experiments []experiment.Experiment) error {
	type entry struct {
		Name    string `json:"name"`
		Title   string `json:"title"`
		Doc     string `json:"doc"`
		Default bool   `json:"default"`
	}
	if !named {
		experiments = experiment.All()
	}
	list := make([]entry, 0, len(experiments))
	for _, e := range experiments {
		list = append(list, entry{e.Name, e.Title, e.Doc, e.Default})
	}
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(list)
}

// bench runs experiments and writes what was asked for; of one that was interrupted, what there is.
func (o *benchOptions) bench(ctx context.Context, a *app, dev device.Device, experiments []experiment.Experiment, args []string) error {
	results, err := o.measure(ctx, a, dev, experiments)
	if len(results) == 0 {
		return err
	}
	return errors.Join(err, o.write(a, results, o.command(dev, args)))
}

func (o *benchOptions) write(a *app, results []*experiment.Result, command string) error {
	if err := o.print(a, results); err != nil {
		return err
	}
	if o.svg != "" {
		if err := o.writePlots(results); err != nil {
			return err
		}
	}
	if o.html != "" {
		return writePage(o.html, results, command)
	}
	return nil
}

// measure returns, of experiments that end with an error, those that were done; if they were
// interrupted, also what there is of the last.
func (o *benchOptions) measure(ctx context.Context, a *app, dev device.Device, experiments []experiment.Experiment) ([]*experiment.Result, error) {
	progress, done := newSteps(a)
	defer done()
	var results []*experiment.Result
	for _, e := range experiments {
		res, err := e.Run(ctx, experiment.Config{
			Device: dev, N: o.n, Scale: o.scale(), Runs: o.runs, Seed: o.seed, Graphs: o.graphs, Only: o.only, Progress: progress,
		})
		if res != nil {
			if dev.Properties().Kind == device.Sim {
				res.Untime()
			}
			results = append(results, res)
		}
		if err != nil {
			return results, err
		}
	}
	return results, nil
}

// newSteps shows on a terminal what is being measured; elsewhere nothing.
func newSteps(a *app) (step func(string), done func()) {
	if !a.isTerminal {
		return nil, func() {}
	}
	bar := progressbar.NewOptions(-1, progressbar.OptionSetWriter(a.stderr),
		progressbar.OptionSpinnerType(14), progressbar.OptionClearOnFinish(), progressbar.OptionSetElapsedTime(true))
	step = func(what string) {
		bar.Describe(what)
		_ = bar.Add(1) // a spinner that can't be drawn is no reason to stop
	}
	return step, func() { _ = bar.Finish() }
}

func (o *benchOptions) print(a *app, results []*experiment.Result) error {
	switch {
	case o.format == "benchstat":
		return report.Benchmarks(a.stdout, results)
	case !a.json && o.format == "table":
		return report.Write(a.stdout, results)
	}
	enc := json.NewEncoder(a.stdout)
	enc.SetIndent("", "  ")
	if len(results) == 1 {
		return enc.Encode(results[0])
	}
	return enc.Encode(results)
}

// writePlots writes one SVG file per plot into a folder.
func (o *benchOptions) writePlots(results []*experiment.Result) error {
	for _, res := range results {
		for _, p := range res.Plots {
			svg, err := report.SVG(p)
			if err != nil {
				return err
			}
			file := filepath.Join(o.svg, p.Name+".svg")
			if err := o.plan.Writes("--svg", file, svgKind, true); err != nil {
				return err
			}
			if err := atomicfile.WriteFile(file, svg); err != nil {
				return err
			}
		}
	}
	return nil
}

func writePage(file string, results []*experiment.Result, command string) error {
	f, err := atomicfile.Create(file)
	if err != nil {
		return err
	}
	defer f.Abort()
	if err := report.HTML(f, results, command); err != nil {
		return err
	}
	return f.Commit()
}

// command is the command line that measures the same again.
func (o *benchOptions) command(dev device.Device, args []string) string {
	parts := append([]string{"weft", "bench"}, args...)
	parts = append(parts, "--device="+deviceID(dev.Properties()))
	if o.quick {
		parts = append(parts, "--quick")
	}
	if o.full {
		parts = append(parts, "--full")
	}
	if o.n > 0 {
		parts = append(parts, fmt.Sprintf("--n=%d", o.n))
	}
	if o.runs > 0 {
		parts = append(parts, fmt.Sprintf("--runs=%d", o.runs))
	}
	if len(o.only) > 0 {
		parts = append(parts, "--only="+strings.Join(o.only, ","))
	}
	parts = append(parts, fmt.Sprintf("--seed=%d", o.seed), "--html="+filepath.Base(o.html))
	return strings.Join(parts, " ")
}
