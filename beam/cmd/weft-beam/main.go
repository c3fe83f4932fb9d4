// Command weft-beam groups the rows of files in pipelines of Apache Beam. "weft-beam help" explains
// its verbs.
//
// # Exit status
//
//	0    the job is done
//	1    the job failed: a file, a worker, the runner or memory
//	2    invalid command line
//	130  interrupted
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"

	sdk "github.com/apache/beam/sdks/v2/go/pkg/beam"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/gcs"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/local"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/s3"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/log"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/dataflow"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/flink"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/spark"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/universal"
	"github.com/spf13/cobra"

	"github.com/weftgo/weft"
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
	json           bool
}

func main() {
	if isWorker(os.Args[1:]) {
		flag.Parse()
		sdk.Init() // works as a worker, then exits
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}))
}

// isWorker reports whether a container of a runner has started this program as a worker.
func isWorker(args []string) bool {
	for _, arg := range args {
		switch strings.TrimLeft(arg, "-") {
		case "worker", "worker=true":
			return arg[0] == '-'
		}
	}
	return false
}

// initBeam initializes Beam. It must be called after flags are parsed.
var initBeam = sync.OnceFunc(func() {
	log.SetLogger(discardLogger{})
	sdk.Init()
	slog.SetDefault(slog.New(slog.DiscardHandler)) // silences Prism; the pipeline returns errors
})

// discardLogger drops the logs of Beam, because the pipeline returns errors.
type discardLogger struct{}

// Log implements log.Logger.
func (discardLogger) Log(context.Context, log.Severity, int, string) {}

// run runs a command line and returns the exit status.
func run(ctx context.Context, args []string, a *app) int {
	root := &cobra.Command{
		Use:   "weft-beam",
		Short: "Group files in pipelines of Apache Beam",
		Long: `weft-beam groups the rows of files, or prints the distinct rows, in a pipeline of Apache Beam. It is
meant for users who have a cluster with Flink, Spark or Dataflow. Without a cluster, it runs Prism in
this process.

Exit status: 0 success, 1 the job failed, 2 invalid command line, 130 interrupted.`,
		Example: `  weft-beam group --by state --agg sum:people_2019 examples/data/counties.csv
  weft-beam group --by region --agg count,sum:people_2019 'examples/data/counties*.csv'
  weft-beam distinct --by state --runner flink --endpoint localhost:8099 --environment_type LOOPBACK examples/data/counties.csv`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("%s: no such command; want distinct or group", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return flags.UsageError{Err: err}
	})
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print JSON")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newDistinctCommand(a), newGroupCommand(a))
	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, new(flags.UsageError)) || errors.As(err, new(*outfile.Refused)):
		fmt.Fprintf(a.stderr, "weft-beam: %v\ntry '%s --help'\n", err, cmd.CommandPath())
		return exitUsage
	case ctx.Err() != nil:
		fmt.Fprintln(a.stderr, "weft-beam: interrupted")
		return exitInterrupted
	}
	text := strings.ReplaceAll(reason(err), weft.ErrOptions.Error()+": ", "")
	text = flags.Named(errors.New(text)).Error()
	fmt.Fprintf(a.stderr, "weft-beam: %s\n", progress.Printable(text))
	return exitFailed
}

func usage(format string, args ...any) error {
	return flags.UsageError{Err: fmt.Errorf(format, args...)}
}

// reason returns the text of an error, without the plan of the failed bundle, which Beam adds.
func reason(err error) string {
	const cause, failed = "caused by:\n", "] failed:\n" // follows the name of a DoFn
	text := err.Error()
	at := strings.LastIndex(text, cause)
	if at < 0 {
		return text
	}
	text = text[at+len(cause):]
	if at = strings.Index(text, failed); at >= 0 {
		text = text[at+len(failed):]
	}
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	return strings.TrimPrefix(text, "beam: ")
}
