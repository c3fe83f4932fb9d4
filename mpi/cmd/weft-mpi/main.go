// Command weft-mpi groups the rows of files on the ranks of an MPI job, and predicts the cost of a
// map over many processors. "weft-mpi help" explains its verbs.
//
// # Exit status
//
//	0    the job is done
//	1    the job failed: a file, a rank, the device or memory
//	2    invalid command line
//	130  interrupted
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/weftgo/weft/internal/outfile"
	"github.com/weftgo/weft/internal/progress"
	"github.com/weftgo/weft/internal/table/flags"
)

// The exit statuses.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// app is the state that all verbs share.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	isTerminal     bool // stderr is a terminal
	json           bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		isTerminal: term.IsTerminal(int(os.Stderr.Fd()))}))
}

// run runs a command line and returns the exit status.
func run(ctx context.Context, args []string, a *app) int {
	root := &cobra.Command{
		Use:   "weft-mpi",
		Short: "Group files on several machines, through MPI",
		Long: `weft-mpi groups the rows of files, or prints the distinct rows, on all ranks of an MPI job. For users
who plan a cluster, it also predicts the memory and speed of a hash map over many processors.

Exit status: 0 success, 1 the job failed, 2 invalid command line, 130 interrupted.`,
		Example: `  weft-mpi group --local 2 --by state examples/data/counties.csv
  mpirun -n 2 weft-mpi group --by state --agg count,sum:people_2019 --lines examples/data/counties.csv
  weft-mpi plan --keys 1e12 --bytes 16 --gpu h200 --nic 400`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return flags.Usage("%s: no such command; want distinct, group or plan", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(
		func(_ *cobra.Command, err error) error { return flags.UsageError{Err: err} },
	)
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print JSON")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newDistinctCommand(a), newGroupCommand(a), newPlanCommand(a))
	cmd, err := root.ExecuteContextC(ctx)
	if said := (*reported)(nil); errors.As(err, &said) {
		return said.status
	}
	return a.report(ctx, cmd.CommandPath(), err)
}

// report prints an error, and returns the exit status.
func (a *app) report(ctx context.Context, path string, err error) int {
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errPeerFailed) && !errors.Is(err, context.Canceled):
		return exitFailed
	case errors.As(err, new(flags.UsageError)) || errors.As(err, new(*outfile.Refused)):
		fmt.Fprintf(a.stderr, "weft-mpi: %v\ntry '%s --help'\n", err, path)
		return exitUsage
	case ctx.Err() != nil:
		fmt.Fprintln(a.stderr, "weft-mpi: interrupted")
		return exitInterrupted
	}
	fmt.Fprintf(a.stderr, "weft-mpi: %s\n", progress.Printable(flags.Named(err).Error()))
	return exitFailed
}

// reported is an error that has already been printed.
type reported struct {
	error
	status int
}

// noArguments returns an error if a verb without arguments gets any.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return flags.Usage("%s %s: takes no arguments", cmd.Name(), args[0])
	}
	return nil
}
