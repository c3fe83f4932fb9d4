package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/extsort"
	"github.com/weftgo/weft/internal/progress"
	"github.com/weftgo/weft/internal/table"
	"github.com/weftgo/weft/internal/table/flags"
)

// tableFlags holds the flags of verbs that read and write tables.
type tableFlags struct {
	flags.Read
	flags.Memory

	flags.Output
}

// readsTables is the help text about files, which these verbs share.
const readsTables = `
Files:
  Files are CSV, TSV, JSON, Parquet or Arrow. Name and content show which. Text may be compressed by
  gzip, zstd or bzip2. JSON is an object per line, objects over several lines, or arrays of objects.
  - is standard input. Several files are one table: those of CSV need the same column names. A
  member that an object of JSON does not have is null.

Columns:
  Flags take names of columns, or numbers from 1. If two columns have one name, flags take their
  numbers, and the second one is NAME_2 in the result. The first line of CSV is a header if a column
  has text there and only numbers or booleans after it, or if the line has no number and no boolean.
  --header overrides this. Empty fields are null, or instead what --null says. Quoted ones never are.

Values:
  Text formats compare and print values as they are written: 1.1 and 1.10 differ, as do 007 and 7.
  Sums, means, minima and maxima read numbers, and --sort puts numbers before text. A column of
  --number is compared by value, and one of --text never is. Integers stay exact, except in a column
  of --number that also has fractions. A number that neither an int64 nor a float64 holds exactly is
  an error. NaN equals NaN, and -0 equals 0. Columns of Parquet and Arrow have the types of the
  file, and neither flag applies.

Bad rows:
  A bad row has another number of fields, a stray quote, broken JSON, or text where a number is
  needed. It is an error with file and line. With --bad skip it is skipped and its lines are
  counted; of a row with a stray quote that is the first line. A header cannot be skipped.

All cores share the work. Text is read in pieces. docs/csv.md has all rules of text files.`

func (f *tableFlags) add(cmd *cobra.Command) {
	set := cmd.Flags()
	f.Read.Add(set)
	f.Memory.Add(set)
	f.Output.Add(set)
}

// check checks the flags and sets the options for reading.
func (f *tableFlags) check(a *app, verb string) error {
	if err := f.Read.Check(); err != nil {
		return err
	}
	if err := f.Output.Check(a.json); err != nil {
		return err
	}
	if err := f.Memory.Check(verb); err != nil {
		return err
	}
	f.Apply(&f.Options)
	return nil
}

// checkOutput returns an error if the output would destroy a file or cannot be written. It is
// called before any file is read.
func (f *tableFlags) checkOutput(a *app, verb string, inputs []string) error {
	plan, err := a.plan(inputs...)
	if err == nil && f.Parquet != "" {
		err = plan.Writes("--parquet", f.Parquet, parquetKind, false)
	}
	if err != nil {
		return fmt.Errorf("%s %w", verb, err)
	}
	return nil
}

// openHost opens the device for jobs that run only on a CPU.
func (a *app) openHost(ctx context.Context) (device.Device, error) {
	if a.device == "auto" {
		on := *a
		on.device = "cpu"
		return on.openDevice(ctx)
	}
	return a.openDevice(ctx)
}

// tableJob is one run of a verb.
type tableJob struct {
	*app
	*tableFlags
	ctx   context.Context
	dev   device.Device
	verb  string
	bar   *progress.Bar
	start time.Time
	tableSummary
}

// tableSummary is the part of the output that follows the rows.
type tableSummary struct {
	Columns    []flags.Column `json:"columns"`
	RowsRead   int            `json:"rows_read"`
	Skipped    int            `json:"skipped"` // number of lines of bad rows
	Bytes      int64          `json:"bytes"`   // bytes read
	Spilled    int64          `json:"spilled_bytes"`
	Seconds    float64        `json:"seconds"`
	Device     string         `json:"device"`
	DeviceName string         `json:"device_name"`
}

// runTable opens the device and the progress bar, calls do, and closes both.
func runTable(ctx context.Context, a *app, f *tableFlags, verb string, names []string, do func(*tableJob) error) (err error) {
	if err := f.check(a, verb); err != nil {
		return err
	}
	if err := f.checkOutput(a, verb, names); err != nil {
		return err
	}
	size, err := checkFiles(verb, names)
	if err != nil {
		return err
	}
	dev, err := a.openHost(ctx)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, dev.Close()) }()
	j := &tableJob{app: a, tableFlags: f, ctx: ctx, dev: dev, verb: verb, start: time.Now()}
	j.Device, j.DeviceName = deviceID(dev.Properties()), dev.Properties().Name
	f.Options.Note = func(line string) { fmt.Fprintf(a.stderr, "weft: %s\n", progress.Printable(line)) }
	j.bar = progress.Bytes(a.stderr, a.isTerminal, "reading", size)
	defer j.bar.Close()
	if err := do(j); err != nil {
		if refusedUsage(err) || ctx.Err() != nil {
			return err
		}
		return fmt.Errorf("%s: %w", verb, flags.Named(err))
	}
	return nil
}

// read calls add for each batch of the columns.
func (j *tableJob) read(t *table.Table, columns []table.Read, add func(table.Batch) error) error {
	for batch, err := range t.Batches(j.ctx, columns) {
		if err != nil {
			return err
		}
		j.bar.Add(batch.Bytes)
		j.RowsRead += batch.Rows
		j.Skipped += batch.Skipped
		if err := add(batch); err != nil {
			return err
		}
	}
	return nil
}

// added translates an error of adding rows to groups to the terms of this command. rows is the
// number of rows in the batch.
func (j *tableJob) added(err error, rows int) error {
	p := (*weft.PartialError)(nil)
	switch {
	case !errors.As(err, &p):
		return err
	case errors.Is(p.Err, weft.ErrFull):
		return fmt.Errorf("--memory %d is not enough for the groups of more than %d rows", j.Limit, j.RowsRead-rows+p.Done)
	}
	return p.Err
}

func (j *tableJob) writer(fields []table.Field) (*flags.Rows, error) {
	out, err := j.Begin(j.ctx, j.stdout, fields, int64(j.Limit)/flags.WriterShare)
	j.Columns = append(j.Columns, flags.Columns(fields)...)
	return out, err
}

// done completes the summary. It is called before the output ends.
func (j *tableJob) done(tables ...*table.Table) {
	j.bar.Close()
	j.Seconds = time.Since(j.start).Seconds()
	for _, t := range tables {
		j.Bytes += t.Read()
	}
}

func (j *tableJob) reportSummary(did string) error {
	skipped := ""
	if j.Skipped > 0 {
		skipped = ", " + progress.Counted(int64(j.Skipped), "bad line") + " skipped"
	}
	rate := 0.
	if j.Seconds > 0 {
		rate = float64(j.Bytes) / j.Seconds
	}
	if j.Spilled > 0 {
		did += ", " + progress.SI(float64(j.Spilled), "B") + " in the temporary file"
	}
	_, err := fmt.Fprintf(j.stderr, "weft: %s%s, %s; %s in %.3g s: %s/s on %s (%s)\n", progress.Counted(int64(j.RowsRead), "row"), skipped, did,
		progress.SI(float64(j.Bytes), "B"), j.Seconds, progress.SI(rate, "B"), j.Device, j.DeviceName)
	return err
}

// sorter returns a sorter for rows of the result, which applies --sort and --top. The types of
// fields must be set.
func (j *tableJob) sorter(fields []table.Field) (*extsort.Sorter, error) {
	return j.Sorter(j.dev, fields, int64(j.Limit)/flags.SortShare, j.TempDir)
}

// spilled records the number of bytes in temporary files.
func (j *tableJob) spilled(bytes int64) {
	j.Spilled = bytes
	j.bar.Spilled(bytes)
}
