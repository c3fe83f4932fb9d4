// Command weft uses the structures of package weft from the command line. It lists the devices of
// the machine, counts distinct items of files, groups and joins tables, manages pools and stores,
// and analyzes graphs. "weft help" explains its verbs.
//
// # Exit status
//
//	0    the job is done
//	1    the job failed: a file, the device or memory
//	2    the command line is invalid
//	130  interrupted; a second interrupt ends the program at once
//	141  the reader of the output has stopped
//
// "weft pool check" returns 1 if it has repaired the pool, 2 if the pool is corrupt, and 3 if it
// could not check the pool, for whatever reason. "weft store check" does the same for stores.
//
// Under ulimit -v, the Go runtime needs 1.5 GB of addresses to start. With less it ends the program
// before main, with status 2.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/weftgo/weft/internal/progress"
)

// The exit statuses.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
	exitPipe        = 141 // status that a shell reports for SIGPIPE
)

func main() {
	if status, ran := runLimited(); ran {
		os.Exit(status)
	}
	// After the first interrupt the default handling is restored, so that a second one ends a
	// program that does not stop. An interrupt may arrive twice, from the terminal and from a
	// parent process, so the restoration is delayed.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, func() { time.AfterFunc(200*time.Millisecond, stop) })
	stderr := standardError()
	os.Exit(run(ctx, os.Args[1:], &app{
		stdin:      os.Stdin,
		stdout:     os.Stdout,
		stderr:     stderr,
		isTerminal: term.IsTerminal(int(stderr.Fd())),
	}))
}

// app holds the state that all verbs share: the streams of the program and the global flags.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	isTerminal     bool // stderr is a terminal

	device string // --device: auto, cpu, cuda, cuda:N or sim[:seed]
	json   bool   // --json
}

// output stores the first write error, because cobra's help ignores errors.
type output struct {
	w   io.Writer
	err error
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.w.Write(b)
	o.err = cmp.Or(o.err, err)
	return n, err
}

// run runs a command line and returns the exit status.
func run(ctx context.Context, args []string, a *app) int {
	out := &output{w: a.stdout}
	a.stdout = out
	root := newRootCommand(a)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	err = cmp.Or(err, out.err)
	if found := (*verdict)(nil); errors.As(err, &found) {
		fmt.Fprintf(a.stderr, "weft: %s\n", progress.Printable(err.Error()))
		return found.status
	}
	status := exitStatus(ctx, err)
	switch status {
	case exitOK, exitPipe:
	case exitInterrupted:
		fmt.Fprintln(a.stderr, "weft: interrupted")
	case exitUsage:
		fmt.Fprintf(a.stderr, "weft: %s\ntry '%s --help'\n", progress.Printable(err.Error()), cmd.CommandPath())
	default:
		fmt.Fprintf(a.stderr, "weft: %s\n", progress.Printable(err.Error()))
	}
	if reportsVerdict(cmd) && (status == exitFailed || status == exitUsage) {
		return exitUnknown
	}
	return status
}

func exitStatus(ctx context.Context, err error) int {
	switch {
	case err == nil:
		return exitOK
	case refusedUsage(err):
		return exitUsage
	case ctx.Err() != nil:
		return exitInterrupted
	case errors.Is(err, syscall.EPIPE):
		return exitPipe
	}
	return exitFailed
}
