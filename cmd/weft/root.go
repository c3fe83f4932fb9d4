package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/auto"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/progress"
	"github.com/weftgo/weft/internal/table/flags"
)

func newRootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "weft",
		Short: "GPU data structures for Go, from the command line",
		Long: `weft groups, joins, deduplicates and counts the rows of files, analyzes graphs, and looks after the
files of persistent indexes and durable stores. Jobs run on all cores of the CPU. Graphs, persistent
indexes and stores also run on an NVIDIA GPU.

Exit status:
  0    done
  1    the job failed
  2    wrong usage
  130  interrupted
  141  the reader of the output has gone
"weft pool check" and "weft store check" have others.`,
		Example: `  weft group --by state --agg count,sum:people_2019 examples/data/counties.csv
  weft count --by word --top 10 README.md
  weft devices`,
		Args:          unknownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
		// Maximum edit distance of a suggested verb.
		SuggestionsMinimumDistance: 2,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return checkDevice(a.device)
		},
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return flags.Usage("%s: %w", strings.TrimPrefix(cmd.CommandPath(), "weft "), err)
	})
	all := root.PersistentFlags()
	all.StringVar(&a.device, "device", "auto", "device to run on: auto, cpu, cuda, cuda:N or sim[:seed]")
	all.BoolVar(&a.json, "json", false, "print JSON")
	root.AddCommand(
		newCountCommand(a),
		newDevicesCommand(a),
		newDistinctCommand(a),
		newGraphCommand(a),
		newGroupCommand(a),
		newJoinCommand(a),
		newPoolCommand(a),
		newStoreCommand(a),
		newVersionCommand(a),
	)
	if err := offer(root); err != nil {
		panic(err) // choices names an unknown verb or flag
	}
	return root
}

// unknownCommand returns an error if args is not empty. The error may suggest a verb.
func unknownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("%s: no such command", args[0])
	if args[0] == "bench" {
		err = fmt.Errorf("%w; measuring is weft-bench, in folder lab of the repository", err)
	}
	if suggestions := root.SuggestionsFor(args[0]); len(suggestions) > 0 {
		err = fmt.Errorf("%w; did you mean %s?", err, strings.Join(suggestions, " or "))
	}
	return flags.UsageError{Err: err}
}

// noArguments returns an error if args is not empty.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return flags.Usage("%s %s: takes no arguments", cmd.Name(), args[0])
	}
	return nil
}

var deviceChoice = regexp.MustCompile(`^(auto|cpu|cuda(:[0-9]{1,9})?)$`)

func checkDevice(choice string) error {
	if _, err := sim.Parse(choice); err != nil && !deviceChoice.MatchString(choice) {
		return flags.Usage("--device %.60q: want auto, cpu, cuda, cuda:N or sim[:seed]", choice)
	}
	return nil
}

// openDevice opens the device that --device selects.
func (a *app) openDevice(ctx context.Context) (device.Device, error) {
	dev, err := progress.Interruptible(ctx, func() (device.Device, error) {
		dev, _, err := auto.Open(a.device)
		return dev, err
	})
	if err != nil {
		return nil, fmt.Errorf("open device %s: %w", a.device, err)
	}
	return dev, nil
}

// deviceID returns the name of a device as --device takes it.
func deviceID(p device.Properties) string {
	if p.Kind == device.CPU || p.Kind == device.Sim {
		return string(p.Kind)
	}
	return fmt.Sprintf("%s:%d", p.Kind, p.Index)
}
