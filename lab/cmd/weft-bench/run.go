package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/auto"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/lab/internal/experiment"
)

// runOptions holds the flags of weft-bench run.
type runOptions struct {
	device      string
	quick, full bool
	n, runs     int
	seed        uint64
	graphs      []string // names of files
	only        []string // names of generated graphs
	outputs
}

func newRunCommand(a *app) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run [EXPERIMENT...]",
		Short: "Run experiments and print their results",
		Long: `Run runs named experiments. It prints each result as operations per second, and as a share of the
limit of the device's memory, which it measures in the same run.

Without names it runs the default set, which takes a minute or two on two cores. With --json it
prints one object for one experiment, and an array for several. If it is interrupted, it prints and
writes the results so far, marked as incomplete.`,
		Example: `  weft-bench run
  weft-bench run linear --n 10000000 --json
  weft-bench run linear --runs 10 --format benchstat >new.txt
  weft-bench run linear simple-table1 --full --html report.html
  weft-bench run slabhash-fig4a slabhash-fig4b --svg plots`,
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
			if err := o.check(a); err != nil {
				return err
			}
			dev, _, err := auto.Open(o.device)
			if err != nil {
				return fmt.Errorf("--device %s: %w", o.device, err)
			}
			return errors.Join(o.run(cmd.Context(), a, dev, experiments, args), dev.Close())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.device, "device", "auto", "device: auto, cpu, cuda, cuda:N or sim[:seed]")
	f.BoolVar(&o.quick, "quick", false, "measure small sizes and few settings, in seconds")
	f.BoolVar(&o.full, "full", false, "measure every width and setting")
	f.IntVar(&o.n, "n", 0, "number of keys, or of slots or units to fill (default: as fits the device; 1024 on sim)")
	f.IntVar(&o.runs, "runs", 0, "number of timed runs; prints the median (default 3 on a CPU, 5 on a GPU)")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the keys")
	f.StringArrayVar(&o.graphs, "graph", nil, "also measure experiments with graphs on the graph in `FILE`; may be repeated")
	f.StringSliceVar(&o.only, "only", nil, "measure only these `NAMES` of generated graphs: roads,rmat")
	o.outputs.flags(f)
	return cmd
}

var deviceChoice = regexp.MustCompile(`^(auto|cpu|cuda(:[0-9]{1,9})?)$`)

// check returns an error for contradictory flags, and for outputs that cannot be written, before
// minutes of measuring.
func (o *runOptions) check(a *app) error {
	if _, err := sim.Parse(o.device); err != nil && !deviceChoice.MatchString(o.device) {
		return usage("--device %.60q: want auto, cpu, cuda, cuda:N or sim[:seed]", o.device)
	}
	switch {
	case o.quick && o.full:
		return usage("--quick and --full exclude each other")
	case o.n < 0 || o.runs < 0:
		return usage("--n %d --runs %d: must not be negative; 0 is the default", o.n, o.runs)
	}
	for _, file := range o.graphs {
		if info, err := os.Stat(file); err != nil || info.IsDir() {
			return fmt.Errorf("--graph %s: %w", file, cmp.Or(reason(err), error(syscall.EISDIR)))
		}
	}
	return o.outputs.check(a, o.graphs)
}

// reason removes the name of the file from an error.
func reason(err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return path.Err
	}
	return err
}

func (o *runOptions) scale() experiment.Scale {
	switch {
	case o.quick:
		return experiment.Quick
	case o.full:
		return experiment.Full
	}
	return experiment.Default
}

// run runs experiments and writes the requested outputs. If an experiment is interrupted, the
// outputs include its partial result.
func (o *runOptions) run(ctx context.Context, a *app, dev device.Device, experiments []experiment.Experiment, args []string) error {
	results, err := o.measure(ctx, a, dev, experiments)
	if len(results) == 0 {
		return err
	}
	return errors.Join(err, o.write(a, results, o.command(dev, args)))
}

// measure runs experiments. After an error it returns the results of the completed experiments and,
// after an interruption, the partial result of the last.
func (o *runOptions) measure(ctx context.Context, a *app, dev device.Device, experiments []experiment.Experiment) ([]*experiment.Result, error) {
	var progress func(string)
	if a.isTerminal {
		progress = func(what string) { fmt.Fprintf(a.stderr, "\r\x1b[K%s", what) }
		defer fmt.Fprint(a.stderr, "\r\x1b[K")
	}
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

// deviceID returns the value of --device that selects a device.
func deviceID(p device.Properties) string {
	if p.Kind == device.CPU || p.Kind == device.Sim {
		return string(p.Kind)
	}
	return fmt.Sprintf("%s:%d", p.Kind, p.Index)
}

// command returns the command line that repeats the measurement.
func (o *runOptions) command(dev device.Device, args []string) string {
	parts := append([]string{"weft-bench", "run"}, args...)
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
	parts = append(parts, fmt.Sprintf("--seed=%d", o.seed))
	if o.html != "" {
		parts = append(parts, "--html="+filepath.Base(o.html))
	}
	return strings.Join(parts, " ")
}
