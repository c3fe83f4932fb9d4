// Command weft runs the structures of package weft from the command line: it
// lists the devices of the machine, counts distinct items of files, and
// measures. "weft help" explains its verbs.
//
// # Exit status
//
//	0    the job is done
//	1    the job failed: a file, the device or memory
//	2    the command line makes no sense
//	130  interrupted; a second interrupt ends the program at once
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"
)

// The exit statuses.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
	exitPipe        = 141 // as a shell reports a death by SIGPIPE
)

func main() {
	// After the first interrupt the default is restored, so that the second
	// one ends a program that does not stop.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], &app{
		stdin:      os.Stdin,
		stdout:     os.Stdout,
		stderr:     os.Stderr,
		isTerminal: term.IsTerminal(int(os.Stderr.Fd())),
	}))
}

// app is what all verbs share: the streams of the program and the flags that
// are the same everywhere.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	isTerminal     bool // stderr is one

	device string // --device: auto, cpu, cuda, cuda:N or sim[:seed]
	json   bool   // --json
}

// usageError is a command line that makes no sense.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// run runs a command line and returns the exit status.
func run(ctx context.Context, args []string, a *app) int {
	root := newRootCommand(a)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	status := exitStatus(ctx, err)
	switch status {
	case exitOK, exitPipe:
	case exitInterrupted:
		fmt.Fprintln(a.stderr, "weft: interrupted")
	case exitUsage:
		fmt.Fprintf(a.stderr, "weft: %v\ntry '%s --help'\n", err, cmd.CommandPath())
	default:
		fmt.Fprintf(a.stderr, "weft: %v\n", err)
	}
	return status
}

func exitStatus(ctx context.Context, err error) int {
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, new(usageError)):
		return exitUsage
	case ctx.Err() != nil:
		return exitInterrupted
	case errors.Is(err, syscall.EPIPE):
		return exitPipe
	}
	return exitFailed
}
