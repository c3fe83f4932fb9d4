package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftgo/weft/beam/internal/beamfile"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/internal/outfile"
	"github.com/weftgo/weft/internal/progress"
	"github.com/weftgo/weft/internal/table"
	"github.com/weftgo/weft/internal/table/flags"
)

// groupOptions holds the flags and arguments of weft-beam group and weft-beam distinct.
type groupOptions struct {
	beamOptions
	flags.Read
	flags.Memory
	flags.Output
	flags.Group
	count  bool // distinct: print only the number of rows
	shards int  // number of files that --parquet writes
	device string
	names  []string
	verb   string

	memorySet bool // --memory is set
}

const describes = `
FILE is a name, or a pattern in quotes, on any file system of Beam. Files are CSV, TSV, JSON, Parquet
or Arrow, compressed or not, as in weft group. Any number of workers share row groups of Parquet,
lines of JSON, and lines of CSV with --lines. Only one worker reads any other file, or any file of an
object store.

The first MiB of each of the first 100 files determines the types of text columns. A later value of
another type is an error. In this case, set the type with --text or --number. (weft group reads the
file again.)

Rows are printed in the order in which groups first appear, or in the order of --sort. Workers write
them to --temp-location, and this machine sorts them. With --parquet, workers write the files
PREFIX-00000-of-00001.parquet and so on, in no particular order. --shards is the number of files. An
existing file is replaced only if weft has written it.

Other flags of the Go SDK of Beam work, too, such as those of Dataflow. Workers on other machines
need --worker_binary or a container with this command.
`

func newGroupCommand(a *app) *cobra.Command {
	o := groupOptions{verb: "group"}
	cmd := &cobra.Command{
		Use:   "group --by COLUMNS [--agg AGGREGATES] [flags] FILE...",
		Short: "Group the rows of files by columns, in a pipeline",
		Long: `Group does what "weft group" does, as a pipeline of Apache Beam. Workers group the rows that they
read, exchange the groups by a hash of their keys, and merge them.

Aggregates of --agg are those of weft group, such as count, sum:C and max:C. Float sums and means may
differ in their last digits between runs.
` + describes,
		Example: `  weft-beam group --by state --agg sum:people_2019 examples/data/counties.csv
  weft-beam group --by region,state --agg count,sum:people_2019 'examples/data/counties*.csv'
  weft-beam group --by state --lines --sort count:desc --top 10 examples/data/counties.csv
  weft-beam group --by day --agg sum:price --parquet gs://shop/days --shards 8 --runner dataflow --project shop \
    --region europe-west1 --staging_location gs://shop/staging 'gs://shop/sales-*.parquet'
  weft-beam group --by state --runner flink --endpoint localhost:8099 --environment_type LOOPBACK examples/data/counties.csv`,
		Args: requireFiles,
		RunE: func(cmd *cobra.Command, args []string) error { return o.start(cmd, a, args) },
	}
	o.AddAggregates(cmd.Flags())
	o.add(cmd)
	return cmd
}

func newDistinctCommand(a *app) *cobra.Command {
	o := groupOptions{verb: "distinct"}
	cmd := &cobra.Command{
		Use:   "distinct [--by COLUMNS] [flags] FILE...",
		Short: "Print the distinct rows of columns of files, or count them, in a pipeline",
		Long: `Distinct does what "weft distinct" does, as a pipeline of Apache Beam.
` + describes,
		Example: `  weft-beam distinct --by state --count 'examples/data/counties*.csv'
  weft-beam distinct --by region,state examples/data/counties.csv`,
		Args: requireFiles,
		RunE: func(cmd *cobra.Command, args []string) error { return o.start(cmd, a, args) },
	}
	cmd.Flags().StringSliceVar(&o.By, "by", nil, "columns, separated by commas; default: all")
	cmd.Flags().BoolVar(&o.count, "count", false, "print only the number of distinct rows")
	o.add(cmd)
	return cmd
}

func (o *groupOptions) add(cmd *cobra.Command) {
	set := cmd.Flags()
	o.AddSkipNulls(set)
	o.Read.Add(set)
	o.AddLines(set)
	o.Memory.Add(set)
	o.Output.Add(set)
	set.Lookup("memory").Usage = "memory limit of each step of a worker, such as 1GiB; more goes to a file; default: 256MiB"
	set.Lookup("parquet").Usage = "write Parquet files `PREFIX`-00000-of-00001.parquet and so on"
	set.StringVar(&o.device, "device", "", "`DEVICE` of workers, such as auto or cuda:0, for groups of numbers with --sort")
	set.IntVar(&o.shards, "shards", 1, "number of files that --parquet writes")
	o.beamOptions.add(set)
}

// requireFiles returns an error without files, and for stdin, which workers cannot read.
func requireFiles(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usage("%s: no file given; want at least one", cmd.Name())
	}
	for _, name := range args {
		if name == table.Stdin {
			return usage(
				"%s -: is a stream, which workers cannot read; write it to a file first",
				cmd.Name(),
			)
		}
	}
	return nil
}

func (o *groupOptions) start(cmd *cobra.Command, a *app, names []string) error {
	o.names, o.memorySet = names, cmd.Flags().Changed("memory")
	if err := o.check(a, cmd.Flags().Changed("shards")); err != nil {
		return err
	}
	initBeam()
	return o.run(cmd.Context(), a)
}

func (o *groupOptions) check(a *app, shardsSet bool) error {
	parquet := o.Parquet != ""
	switch {
	case o.verb == "group" && len(o.By) == 0:
		return usage("group: --by is missing; want columns, such as --by state")
	case parquet && (len(o.Sort) > 0 || o.Top > 0 || o.count):
		return usage(
			"%s: --parquet excludes --sort, --top and --count: the rows of its files have "+
				"no order",
			o.verb,
		)
	case shardsSet && !parquet || o.shards < 1 || o.shards > 99_999:
		return usage("%s --shards %d: want 1 to 99999, together with --parquet", o.verb, o.shards)
	}
	if o.memorySet && o.Limit == 0 {
		return usage("%s --memory 0: want a size such as 1GiB, because each step of a worker has a "+
			"limit; the default is 256MiB", o.verb)
	}
	for _, check := range []func() error{
		func() error { return o.Group.Check(o.verb) }, o.Read.Check,
		func() error { return o.Output.Check(a.json) }, func() error { return o.Memory.Check(o.verb) },
		func() error { return o.beamOptions.check(o.verb, !parquet) },
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// job is one run of the command.
type job struct {
	*groupOptions
	app     *app
	dev     *cpu.Device
	table   *table.Table // first files, which determine types
	gr      *flags.Grouping
	ordered bool // the last column of the result orders the groups
	start   time.Time
	sum     summary
	strings map[string]bool // block names of the columns that have JSON strings
}

// summary is the part of the --json output that follows the rows.
type summary struct {
	Columns  []flags.Column `json:"columns"`
	Runner   string         `json:"runner"`
	RowsRead int64          `json:"rows_read"`
	Skipped  int64          `json:"skipped"`
	Seconds  float64        `json:"seconds"`
	Groups   int64          `json:"groups"`
}

func (o *groupOptions) run(ctx context.Context, a *app) (err error) {
	j := &job{groupOptions: o, app: a, start: time.Now(), sum: summary{Runner: o.runner}}
	if o.names, err = beamfile.List(ctx, o.names); err != nil {
		return err
	}
	if err := o.writes(a); err != nil {
		return err
	}
	opts := o.Options
	opts.Files, opts.TempDir = beamfile.Files{TempDir: o.TempDir}, o.TempDir
	opts.Note = func(line string) {
		fmt.Fprintf(a.stderr, "weft-beam: %s\n", progress.Printable(line))
	}
	if j.table, _, err = beamfile.Sample(ctx, o.names, &opts); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.table.Close()) }()
	if j.gr, err = o.Plan(ctx, j.table); err != nil {
		return err
	}
	if _, err := o.Sorts(j.gr.Fields); err != nil {
		return err
	}
	if j.dev, err = cpu.Open(nil); err != nil {
		return err
	}
	defer j.dev.Close()
	j.ordered = o.Parquet == "" && !o.count
	if o.Parquet != "" {
		if err := j.execute(ctx, nil); err != nil {
			return err
		}
		return j.reportSummary("")
	}
	r, err := newResult(ctx, o.temp)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.remove(context.WithoutCancel(ctx))) }()
	if err := j.execute(ctx, r); err != nil {
		return err
	}
	return j.print(ctx, r)
}

// writes returns an error if an output is also an input, or would replace a file that weft has not
// written.
func (o *groupOptions) writes(a *app) error {
	plan, err := outfile.New(o.names, a.stdin, a.stdout)
	for i := 0; i < o.shards && o.Parquet != "" && err == nil; i++ {
		name := fmt.Sprintf("%s-%05d-of-%05d.parquet", o.Parquet, i, o.shards)
		switch {
		case slices.Contains(o.names, name):
			return usage("%s --parquet %s: %s is an input, which would be overwritten", o.verb,
				o.Parquet, name)
		case strings.Contains(name, "://"):
			continue // such names differ from the inputs
		}
		// Workers create a missing folder.
		if _, missing := os.Stat(filepath.Dir(name)); missing == nil {
			err = plan.Writes("--parquet", name, outfile.Kind{Is: table.WrittenByWeft,
				Name: "a Parquet file that weft has written"}, false)
		}
	}
	if err != nil {
		return fmt.Errorf("%s %w", o.verb, err)
	}
	return nil
}

func (j *job) reportSummary(did string) error {
	skipped := ""
	if j.sum.Skipped > 0 {
		skipped = ", " + progress.Counted(j.sum.Skipped, "bad line") + " skipped"
	}
	_, err := fmt.Fprintf(
		j.app.stderr,
		"weft-beam: %s%s%s on %s in %.3g s\n",
		progress.Counted(
			j.sum.RowsRead,
			"row",
		),
		skipped,
		did,
		j.runner,
		time.Since(j.start).Seconds(),
	)
	return err
}
