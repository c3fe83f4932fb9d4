package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/group"
	"github.com/weftgo/weft/internal/extsort"
	"github.com/weftgo/weft/internal/outfile"
	"github.com/weftgo/weft/internal/progress"
	"github.com/weftgo/weft/internal/table"
	"github.com/weftgo/weft/internal/table/flags"
	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/shard"
)

// groupOptions holds the flags and arguments of weft-mpi group and weft-mpi distinct.
type groupOptions struct {
	flags.Read
	flags.Memory
	flags.Output
	flags.Group
	parts string // --parts
	local int    // --local
	names []string
	verb  string

	memorySet bool // --memory is set
}

func newGroupCommand(a *app) *cobra.Command {
	o := groupOptions{verb: "group"}
	cmd := &cobra.Command{
		Use:   "group --by COLUMNS [--agg AGGREGATES] [flags] FILE...",
		Short: "Group the rows of files by columns, on all ranks of an MPI job",
		Long: `Group does what "weft group" does on all ranks of an MPI job. Each rank opens all files and reads
its share: row groups of Parquet, lines of JSON, lines of CSV with --lines, and other files whole.
Ranks group their rows, exchange the groups by a hash of their keys, and merge them.

Rank 0 prints the result or writes it to --parquet. With --parts, each rank writes the groups whose
keys hash to it to a Parquet file in a folder. The folder must not have parts of a job with more
ranks. --memory is the limit of one rank; the ranks of a machine share the default.

Aggregates of --agg are those of weft group, such as count, sum:C and max:C. With another number of
ranks, float sums and means may differ in their last digits.
` + readsFiles,
		Example: `  weft-mpi group --local 2 --by state --agg sum:people_2019 --lines examples/data/counties.csv
  mpirun -n 2 weft-mpi group --by region,state --agg count,sum:people_2019 --lines examples/data/counties.csv
  srun weft-mpi group --by state --agg sum:people_2019 --lines --parts states examples/data/counties.csv`,
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
		Use:   "distinct --by COLUMNS [flags] FILE...",
		Short: "Print the distinct rows of files, on all ranks of an MPI job",
		Long: `Distinct does what "weft distinct" does on all ranks of an MPI job. See "weft-mpi group --help".
` + readsFiles,
		Example: `  weft-mpi distinct --local 2 --by region examples/data/counties.csv
  mpirun -n 2 weft-mpi distinct --by region,state --lines examples/data/counties.csv`,
		Args: requireFiles,
		RunE: func(cmd *cobra.Command, args []string) error { return o.start(cmd, a, args) },
	}
	cmd.Flags().StringSliceVar(&o.By, "by", nil, "columns, separated by commas")
	o.add(cmd)
	return cmd
}

const readsFiles = `
Files are CSV, TSV, JSON, Parquet or Arrow, compressed or not, as in weft group. All ranks must be
able to open them by the same names. Standard input and pipes are errors.
`

func (o *groupOptions) add(cmd *cobra.Command) {
	set := cmd.Flags()
	o.AddSkipNulls(set)
	o.Read.Add(set)
	o.Read.AddLines(set)
	o.Memory.Add(set)
	o.Output.Add(set)
	set.Var(
		flags.Name(&o.parts),
		"parts",
		"`FOLDER` in which each rank writes a Parquet file of its groups",
	)
	set.IntVar(&o.local, "local", 0, "number of ranks to run in this process, without MPI")
}

// requireFiles returns an error without files, and for a stream, which only one rank could read.
func requireFiles(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return flags.Usage("%s: no file given; want at least one", cmd.Name())
	}
	for _, name := range args {
		info, err := os.Stat(name)
		if err == nil && info.IsDir() {
			return fmt.Errorf("%s %s: is a directory", cmd.Name(), name)
		}
		if name == table.Stdin || err == nil && !info.Mode().IsRegular() {
			return flags.Usage(
				"%s %s: is a stream, which only one rank could read; write it to a file first",
				cmd.Name(),
				name,
			)
		}
	}
	return nil
}

func (o *groupOptions) start(cmd *cobra.Command, a *app, names []string) error {
	o.names, o.memorySet = names, cmd.Flags().Changed("memory")
	if err := o.check(a); err != nil {
		return err
	}
	ctx := cmd.Context()
	return onRanks(ctx, o.local, func(ctx context.Context, c comm.Comm) error {
		return o.run(ctx, a, c)
	}, func(err error) int { return a.report(ctx, cmd.CommandPath(), err) })
}

func (o *groupOptions) check(a *app) error {
	switch {
	case len(o.By) == 0:
		return flags.Usage("%s: --by is missing; want columns, such as --by state", o.verb)
	case o.local < 0 || o.local > maxLocal:
		return flags.Usage("%s --local %d: want 1 to %d ranks", o.verb, o.local, maxLocal)
	case o.parts != "" && (o.CSV || a.json || o.Parquet != "" || len(o.Sort) > 0 || o.Top > 0):
		return flags.Usage(
			"%s: --parts excludes --csv, --json, --parquet, --sort and --top",
			o.verb,
		)
	}
	for _, check := range []func() error{
		func() error { return o.Group.Check(o.verb) }, o.Read.Check,
		func() error { return o.Output.Check(a.json) }, func() error { return o.Memory.Check(o.verb) },
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

type groupJob struct {
	*groupOptions
	app       *app
	ctx       context.Context
	comm      comm.Comm
	ranks     *shard.Ranks
	dev       *cpu.Device
	bar       *progress.Bar
	table     *table.Table
	start     time.Time
	bytes     int64  // size of the ranges that this rank reads
	allDigest uint64 // digest of flags and files, which must be equal on all ranks
	sum       groupSummary
}

// groupSummary is the part of the --json output that follows the rows.
type groupSummary struct {
	Columns  []flags.Column `json:"columns"`
	Ranks    int            `json:"ranks"`
	RowsRead uint64         `json:"rows_read"`
	Skipped  uint64         `json:"skipped"`
	Bytes    uint64         `json:"bytes"`
	Seconds  float64        `json:"seconds"`
	Groups   uint64         `json:"groups"`
}

// run runs the job on one rank. After each step the ranks agree on its success, so that no rank
// waits for a failed one.
func (o *groupOptions) run(ctx context.Context, a *app, c comm.Comm) (err error) {
	own := *o // ranks of one process must not share options
	j := &groupJob{groupOptions: &own, app: a, ctx: ctx, comm: c, start: time.Now()}
	if j.dev, err = cpu.Open(nil); err == nil {
		defer j.dev.Close()
		j.ranks, err = shard.New(c, j.dev)
	}
	if err = j.agree(err); err != nil {
		return err
	}
	defer j.ranks.Close()
	if err := j.agree(j.open()); err != nil {
		return err
	}
	defer j.table.Close()
	if err := j.sameFiles(); err != nil {
		return err
	}
	if err := j.agree(j.openParts()); err != nil {
		return err
	}
	gr, result, err := j.group()
	if err != nil {
		return err
	}
	return j.agree(j.print(gr, result))
}

// open opens the files and selects the ranges that this rank reads.
func (j *groupJob) open() error {
	if !j.memorySet && j.Limit > 0 {
		j.Limit = max(j.Limit/flags.Bytes(ranksOfHost(j.comm)), group.MinMemory)
	}
	j.Apply(&j.Options)
	if j.comm.Rank() == 0 {
		j.Options.Note = func(line string) { fmt.Fprintf(j.app.stderr, "weft-mpi: %s\n", progress.Printable(line)) }
		plan, err := outfile.New(j.names, j.app.stdin, j.app.stdout)
		if err == nil && j.Parquet != "" {
			err = plan.Writes("--parquet", j.Parquet, parquetKind, false)
		}
		if err != nil {
			return fmt.Errorf("%s %w", j.verb, err)
		}
	}
	t, err := table.Open(j.ctx, j.names, j.app.stdin, &j.Options)
	if err != nil {
		return err
	}
	j.table = t
	all, err := t.Ranges(rangeBytes)
	if err != nil {
		return err
	}
	own := dealt(all, j.comm.Rank(), j.comm.Size())
	j.allDigest = j.digest(all)
	t.SelectRanges(own)
	for _, r := range own {
		j.bytes += r.Bytes
	}
	if j.comm.Rank() == 0 {
		j.bar = progress.Bytes(j.app.stderr, j.app.isTerminal, "reading", j.bytes)
	}
	return nil
}

// rangeBytes is the size of the ranges into which text files are split.
const rangeBytes = 64 << 20

// dealt returns the ranges for one rank. They are consecutive, so the order of rows follows the
// order of ranks. All ranks get nearly equal numbers of bytes.
func dealt(all []table.Range, rank, size int) []table.Range {
	total := int64(0)
	for _, r := range all {
		total += r.Bytes + 1
	}
	own, at := []table.Range{}, int64(0)
	for _, r := range all {
		middle := at + (r.Bytes+1)/2
		at += r.Bytes + 1
		if min(int(float64(middle)/float64(total)*float64(size)), size-1) == rank {
			own = append(own, r)
		}
	}
	return own
}

// digest returns a digest of the flags that affect groups, and of the files.
func (j *groupJob) digest(ranges []table.Range) uint64 {
	h := fnv.New64a()
	o := &j.Options
	fmt.Fprintf(h, "%v %v %q %q ", ranges, j.table.Looks(), j.By, j.Aggs)
	fmt.Fprintf(h, "%v %q %q %q ", o.SkipBad, o.Nulls, o.Text, o.Number)
	for _, f := range j.table.Fields() {
		fmt.Fprintf(h, "%q %v ", f.Name, f.Type)
	}
	return h.Sum64()
}

// sameFiles returns an error if the ranks see different files or flags. Each rank reads a part of
// the same files.
func (j *groupJob) sameFiles() (err error) {
	all := make([]uint64, j.comm.Size())
	if err := j.comm.AllGather(context.WithoutCancel(j.ctx), []uint64{j.allDigest}, all); err != nil {
		return err
	}
	if other := slices.IndexFunc(all, func(seen uint64) bool { return seen != all[0] }); other > 0 {
		err = fmt.Errorf(
			"%s: rank %d has other flags than rank 0, or files of other sizes or columns; "+
				"all ranks need the same",
			j.verb,
			other,
		)
	}
	return j.agree(err)
}

// group groups all rows. If a rank finds values that do not fit the types of their columns, all
// ranks read again.
func (j *groupJob) group() (*flags.Grouping, *group.Result, error) {
	for {
		gr, err := j.Plan(j.ctx, j.table)
		if err == nil && len(j.Sort) > 0 {
			_, err = j.Sorts(gr.Fields)
		}
		if err := j.agree(err); err != nil {
			return nil, nil, err
		}
		j.sum = groupSummary{}
		var fileErr error
		rows := func(yield func(shard.Rows, error) bool) { fileErr = j.read(gr, yield) }
		opts := &shard.GroupOptions{Gather: j.parts == ""}
		opts.Options = group.Options{
			SkipNulls: j.SkipNulls,
			Memory:    j.StateMemory(j.Memory),
			TempDir:   j.TempDir,
		}
		result, err := shard.Group(j.ctx, j.ranks, rows, gr.Aggs, opts)
		if err == nil {
			_, err := j.union(fine) // the output of rank 0 depends on the values on all ranks
			return gr, result, err
		}
		if retry, failed := j.adapt(fileErr, err); !retry {
			return nil, nil, failed
		}
	}
}

// read yields the rows of this rank. It returns an error that reading the files causes.
func (j *groupJob) read(gr *flags.Grouping, yield func(shard.Rows, error) bool) error {
	rows := func(columns []column.Column) shard.Rows {
		keys, values := gr.Split(columns)
		return shard.Rows{Keys: keys, Columns: values}
	}
	if !yield(rows(gr.Empty(j.table)), nil) { // without rows, groups still need types
		return nil
	}
	for b, err := range j.table.Batches(j.ctx, gr.Columns) {
		if err != nil {
			yield(shard.Rows{}, err)
			return err
		}
		if j.bar != nil {
			j.bar.Add(b.Bytes)
		}
		j.sum.RowsRead += uint64(b.Rows)
		j.sum.Skipped += uint64(b.Skipped)
		if !yield(rows(b.Columns), nil) {
			return nil
		}
	}
	return nil
}

// adapt shares the unexpected values that some ranks found with all ranks, and reports whether to
// read again. fileErr is an error of this rank's files, and err an error of grouping.
func (j *groupJob) adapt(fileErr, err error) (retry bool, _ error) {
	var failed error
	if fileErr != nil {
		failed = j.table.Adapt(j.ctx, fileErr)
	}
	state := uint64(fine)
	switch {
	case failed != nil:
		state = bad
	case fileErr != nil:
		state = found
	}
	worst, commErr := j.union(state)
	if commErr == nil && worst == found {
		return true, nil
	}
	// A failed rank has reported the reason, or this rank does.
	return false, j.reportSummary(fileErr, failed, err)
}

// Results of reading on a rank: no problem, values of other types, or an error.
const (
	fine uint64 = iota
	found
	bad
)

// union combines the kinds of values that all ranks have read. It returns the largest state that
// any rank passes.
func (j *groupJob) union(state uint64) (worst uint64, _ error) {
	send := append([]uint64{state}, j.table.Looks()...)
	recv := make([]uint64, len(send)*j.comm.Size())
	if err := j.comm.AllGather(context.WithoutCancel(j.ctx), send, recv); err != nil {
		return 0, err
	}
	all := make([]uint64, len(send)-1)
	for part := range slices.Chunk(recv, len(send)) {
		worst = max(worst, part[0])
		for i, looks := range part[1:] {
			all[i] |= looks
		}
	}
	return worst, j.table.Adopt(all)
}

// reportSummary returns the error if this rank must report it, and errPeerFailed otherwise. A rank
// reports errors of its files, and an err that it caused.
func (j *groupJob) reportSummary(fileErr, failed, err error) error {
	from := &shard.Error{} // rank 0 reports ErrMismatch
	errors.As(err, &from)
	switch {
	case failed != nil:
		return failed
	case fileErr == nil && from.Rank == j.comm.Rank():
		return err
	}
	return errPeerFailed
}

// agree returns an error on all ranks if any rank passes one. The lowest such rank returns its own
// error, and the others errPeerFailed, so only one rank reports a reason.
func (j *groupJob) agree(err error) error {
	rank, size := uint64(j.comm.Rank()), uint64(j.comm.Size())
	lowest := []uint64{size}
	if err != nil {
		lowest[0] = rank
	}
	if commErr := j.comm.AllReduce(context.WithoutCancel(j.ctx), comm.Min, lowest); commErr != nil {
		return cmp.Or(err, commErr) // after an error elsewhere, other ranks may have ended
	}
	switch lowest[0] {
	case size:
		return nil
	case rank:
		return err
	}
	return errPeerFailed
}

func (j *groupJob) print(gr *flags.Grouping, result *group.Result) error {
	if j.bar != nil {
		j.bar.Close() // the output may be on the terminal, too
	}
	groups := uint64(0)
	if result != nil {
		groups = uint64(result.Len())
	}
	sums := []uint64{j.sum.RowsRead, j.sum.Skipped, uint64(j.bytes), groups}
	if err := j.comm.AllReduce(context.WithoutCancel(j.ctx), comm.Sum, sums); err != nil {
		return err
	}
	j.sum = groupSummary{
		Ranks:    j.comm.Size(),
		RowsRead: sums[0],
		Skipped:  sums[1],
		Bytes:    sums[2],
		Groups:   sums[3],
		Seconds:  time.Since(j.start).Seconds(),
	}
	if j.parts != "" {
		j.Parquet = filepath.Join(j.parts, partName(j.comm.Rank()))
	} else if j.comm.Rank() > 0 {
		return nil
	}
	if err := j.write(gr, slices.Concat(result.Keys, result.Values)); err != nil ||
		j.comm.Rank() > 0 {
		return err
	}
	skipped := ""
	if j.sum.Skipped > 0 {
		skipped = ", " + progress.Counted(int64(j.sum.Skipped), "bad line") + " skipped"
	}
	_, err := fmt.Fprintf(
		j.app.stderr,
		"weft-mpi: %s%s, %s on %s; %s in %.3g s\n",
		progress.Counted(int64(j.sum.RowsRead), "row"),
		skipped,
		progress.Counted(
			int64(j.sum.Groups),
			"group",
		),
		progress.Counted(int64(j.sum.Ranks), "rank"),
		progress.SI(float64(j.sum.Bytes), "B"),
		j.sum.Seconds,
	)
	return err
}

func (j *groupJob) write(gr *flags.Grouping, columns []column.Column) error {
	pages := func(yield func([]column.Column, error) bool) { yield(columns, nil) }
	_, sorted, err := gr.Look(j.ctx, j.table, pages, true, func() (*extsort.Sorter, error) {
		if len(j.Sort) == 0 {
			return nil, nil
		}
		return j.Sorter(j.dev, gr.Fields, int64(j.Limit)/flags.SortShare, j.TempDir)
	})
	if sorted != nil {
		defer sorted.Close()
	}
	if err != nil {
		return err
	}
	out, err := j.Begin(j.ctx, j.app.stdout, gr.Fields, int64(j.Limit)/flags.WriterShare)
	if err != nil {
		return err
	}
	j.sum.Columns = flags.Columns(gr.Fields)
	if sorted != nil {
		err = j.Copy(out, sorted.Pages(j.ctx))
	} else {
		err = j.Copy(out, pages)
	}
	if err == nil {
		err = out.Close(j.sum)
	}
	if err != nil {
		out.Abandon()
	}
	return err
}
