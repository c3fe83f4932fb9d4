package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/spf13/cobra"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/group"
	"github.com/weftgo/weft/internal/extsort"
	"github.com/weftgo/weft/internal/progress"
	"github.com/weftgo/weft/internal/table"
	"github.com/weftgo/weft/internal/table/flags"
)

// groupOptions holds the flags and arguments of weft group and weft distinct.
type groupOptions struct {
	tableFlags
	flags.Group
	count bool // distinct: print only the number of rows
	names []string
}

func newGroupCommand(a *app) *cobra.Command {
	var opts groupOptions
	cmd := &cobra.Command{
		Use:   "group --by COLUMNS [--agg AGGREGATES] [flags] FILE...",
		Short: "Count, sum and aggregate the rows of files by columns",
		Long: `Group prints a row for each different combination of values in the columns --by, with counts, sums
and other aggregates of its rows: SQL's GROUP BY for files. Rows come in the order in which groups
first appear.

Aggregates of --agg, C is a column:
  count            rows
  count:C          values of C that are not null
  sum:C mean:C     of numbers. An integer sum that exceeds 64 bits is an error. avg is mean
  var:C stddev:C   variance and standard deviation of a sample of numbers; null for one value
  min:C max:C      of numbers, or of text by its bytes. Numbers and text in one column are an error
  first:C last:C   the first and the last value that is not null, as it is written
  any:C            some value that is not null, as it is written
  any_true:C       whether any value is true; all_true:C whether all are; nulls do not count

Null is a group of its own. Groups are kept in memory. What exceeds --memory goes to a temporary
file, and then groups without --sort come in another order. Sorted rows use that file, too.
` + readsTables + `

With --json the output is one object: rows (objects), columns (name and type), groups, rows_read,
skipped, bytes, spilled_bytes (to the temporary file), seconds, device, device_name. Text that is
not UTF-8 is an object with a member base64. NaN and infinities are strings. If all values of a text
column are JSON numbers, and none was a string in its file, they stay as written and the type is
number.`,
		Example: `  weft group --by state examples/data/counties.csv
  weft group --by region,state --agg count,sum:people_2019 examples/data/counties.csv
  weft group --by state --sort count:desc --top 5 --json examples/data/counties.csv
  weft group --by 1 --agg mean:5,max:5 --csv - < examples/data/counties.csv
  weft group --by day --agg sum:price --parquet days.parquet sales-*.parquet`,
		Args: requireFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.names = args
			return runGroup(cmd.Context(), a, &opts, "group")
		},
	}
	opts.AddAggregates(cmd.Flags())
	opts.add(cmd)
	return cmd
}

func newDistinctCommand(a *app) *cobra.Command {
	var opts groupOptions
	cmd := &cobra.Command{
		Use:   "distinct [--by COLUMNS] [flags] FILE...",
		Short: "Print the distinct rows of files, or count them",
		Long: `Distinct prints each different combination of values in the columns --by once, or with --count how
many there are: SQL's SELECT DISTINCT for files. Rows come in the order in which they first appear.

Null is a value of its own. Counts are exact. Distinct rows are kept in memory. What exceeds
--memory goes to a temporary file, and then rows without --sort come in another order. Sorted rows
use that file, too.
` + readsTables + `

With --json the output is one object: rows (objects; not with --count), columns (name and type),
groups (the number of distinct rows), rows_read, skipped, bytes, spilled_bytes (to the temporary
file), seconds, device, device_name.`,
		Example: `  weft distinct --by region,state examples/data/counties.csv
  weft distinct --by state --count examples/data/counties.csv
  zcat ids.csv.gz | weft distinct --by 1 --header no --csv -`,
		Args: requireFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.names = args
			return runGroup(cmd.Context(), a, &opts, "distinct")
		},
	}
	cmd.Flags().StringSliceVar(&opts.By, "by", nil, "columns, separated by commas; default: all")
	cmd.Flags().BoolVar(&opts.count, "count", false, "print only the number of distinct rows")
	opts.add(cmd)
	return cmd
}

func (o *groupOptions) add(cmd *cobra.Command) {
	o.AddSkipNulls(cmd.Flags())
	o.tableFlags.add(cmd)
}

// requireFiles requires at least one file name.
func requireFiles(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return flags.Usage("%s: no file given; - is standard input", cmd.Name())
	}
	return nil
}

func runGroup(ctx context.Context, a *app, o *groupOptions, verb string) error {
	if verb == "group" && len(o.By) == 0 {
		return flags.Usage("group: --by is missing: the columns that make groups")
	}
	if err := o.Group.Check(verb); err != nil {
		return err
	}
	return runTable(ctx, a, &o.tableFlags, verb, o.names, func(j *tableJob) error {
		t, err := table.Open(j.ctx, o.names, j.stdin, &o.Options)
		if err != nil {
			return err
		}
		defer t.Close()
		for {
			j.RowsRead, j.Skipped, j.Spilled = 0, 0, 0
			err := o.run(j, t)
			if err == nil {
				return nil
			}
			if err := t.Adapt(j.ctx, err); err != nil {
				return err
			}
		}
	})
}

// run reads all rows of a table and prints the groups.
func (o *groupOptions) run(j *tableJob, t *table.Table) error {
	gr, err := o.Plan(j.ctx, t)
	if err != nil {
		return err
	}
	if _, err := o.Sorts(gr.Fields); err != nil {
		// The column may be a JSON member that first occurs later.
		grown, failed := t.Complete(j.ctx)
		if grown {
			return o.run(j, t)
		}
		return cmp.Or(failed, err)
	}
	g, err := group.New(j.dev, gr.Aggs, &group.Options{SkipNulls: o.SkipNulls,
		Memory: o.StateMemory(o.Memory), TempDir: o.TempDir})
	if err != nil {
		return err
	}
	if err = j.addGroups(t, g, gr); err == nil {
		err = o.print(j, t, g, gr)
	}
	return cmp.Or(err, g.Close())
}

// addGroups reads all rows of a table into groups.
func (j *tableJob) addGroups(t *table.Table, g *group.Groups, gr *flags.Grouping) error {
	add := func(columns []column.Column) error {
		keys, values := gr.Split(columns)
		return g.Add(j.ctx, keys, values)
	}
	// Set the types of the groups, even if the table has no rows.
	if err := add(gr.Empty(t)); err != nil {
		return err
	}
	return j.read(t, gr.Columns, func(b table.Batch) error {
		err := add(b.Columns)
		j.spilled(g.Spilled())
		return j.added(err, b.Rows)
	})
}

// groupSummary is the part of the --json output that follows the rows.
type groupSummary struct {
	tableSummary
	Groups int `json:"groups"`
}

func (o *groupOptions) print(j *tableJob, t *table.Table, g *group.Groups, gr *flags.Grouping) error {
	pages, err := groupPages(j.ctx, g, gr)
	if err != nil {
		return err
	}
	n, rows, err := gr.Look(j.ctx, t, pages, !o.count, func() (*extsort.Sorter, error) {
		if len(o.Sort) == 0 || o.count {
			return nil, nil
		}
		return j.sorter(gr.Fields)
	})
	j.spilled(g.Spilled())
	if rows != nil {
		defer rows.Close()
		pages = rows.Pages(j.ctx)
	}
	if err != nil {
		return err
	}
	did := progress.Counted(int64(n), "group")
	if j.verb == "distinct" {
		did = fmt.Sprintf("%d distinct", n)
	}
	if o.count {
		j.done(t)
		if err := o.printCount(j, n); err != nil {
			return err
		}
		return j.reportSummary(did)
	}
	out, err := j.writer(gr.Fields)
	if err != nil {
		return err
	}
	j.bar.Close() // the output may be on the terminal, too
	if err = o.Copy(out, pages); err == nil {
		bytes := g.Spilled()
		if rows != nil {
			bytes += rows.Spilled()
		}
		j.spilled(bytes)
		j.done(t)
		err = out.Close(groupSummary{j.tableSummary, n})
	}
	if err != nil {
		out.Abandon()
		return err
	}
	return j.reportSummary(did)
}

// groupPages returns the columns of all groups. If no group is in the temporary file, they are one
// page, and g is closed. Otherwise they are several pages, and memory holds one at a time.
func groupPages(ctx context.Context, g *group.Groups, gr *flags.Grouping) (iter.Seq2[[]column.Column,
	error], error) {
	explain := func(err error) error {
		if overflow := (*group.OverflowError)(nil); errors.As(err, &overflow) {
			return gr.Explain(overflow)
		}
		return err
	}
	if g.Spilled() == 0 {
		r, err := g.Result(ctx)
		if err == nil {
			err = g.Close() // frees memory for what follows
		}
		if err != nil {
			return nil, explain(err)
		}
		all := slices.Concat(r.Keys, r.Values)
		return func(yield func([]column.Column, error) bool) { yield(all, nil) }, nil
	}
	return func(yield func([]column.Column, error) bool) {
		for r, err := range g.Pages(ctx) {
			if err != nil {
				yield(nil, explain(err))
				return
			}
			if !yield(slices.Concat(r.Keys, r.Values), nil) {
				return
			}
		}
	}, nil
}

func (o *groupOptions) printCount(j *tableJob, n int) error {
	var err error
	if j.json {
		err = json.NewEncoder(j.stdout).Encode(groupSummary{j.tableSummary, n})
	} else {
		_, err = fmt.Fprintln(j.stdout, n)
	}
	if err != nil {
		return fmt.Errorf("write results: %w", flags.Reason(err))
	}
	return nil
}
