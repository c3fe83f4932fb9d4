// Command weft-bench runs named experiments, which measure structures and compare them with the
// limits of this machine.
//
//	weft-bench list                          # the experiments
//	weft-bench run linear --quick            # some of them, as a table
//	weft-bench run awad-fig3.6 --json >results/awad-fig3.6.json
//	weft-bench report --html page.html results/*.json
//
// It exits with 0 on success, 1 if measuring or writing failed, 2 if the command line is invalid,
// and 130 if it was interrupted.
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
)

// The exit statuses.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second interrupt ends the program
	os.Exit(run(ctx, os.Args[1:], &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, isTerminal: term.IsTerminal(int(os.Stderr.Fd()))}))
}

// app holds the streams that all subcommands use.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	isTerminal     bool // whether stderr is a terminal
}

// usageError reports an invalid command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func run(ctx context.Context, args []string, a *app) int {
	root := &cobra.Command{
		Use:   "weft-bench",
		Short: "Run experiments that measure weft's structures against the limits of this machine",
		Long: `weft-bench runs named experiments for developers of weft, and for readers who check its published
figures. An experiment measures structures and compares them with the limits of this machine.

Exit status: 0 success, 1 measuring or writing failed, 2 invalid command line, 130 interrupted.`,
		Example: `  weft-bench list
  weft-bench run linear --quick
  weft-bench report --html page.html results/2026-11-24-h200/slabhash-fig4a.json`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetArgs(args)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(newListCommand(a), newRunCommand(a), newReportCommand(a))
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(a.stderr, "weft-bench: %v\n", err)
	switch {
	case errors.As(err, new(usageError)), errors.As(err, new(*outfile.Refused)), cmd == root:
		fmt.Fprintf(a.stderr, "try '%s --help'\n", cmd.CommandPath())
		return exitUsage
	case ctx.Err() != nil:
		return exitInterrupted
	}
	return exitFailed
}
