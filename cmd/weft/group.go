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
	count bool // weft distinct: print only the number of groups
	names []string
}

func newGroupCommand(a *app) *cobra.Command {
	var opts groupOptions
	cmd := &cobra.Command{
		Use:   "group --by COLUMNS [--agg AGGREGATES] [flags] FILE...",
		Short: "Group the rows of files by columns, and count or add up what they have",
		Long: `Group puts the rows of the files taken together into groups that have the same values in the columns --by, and
prints a row for each: those values, and the aggregates of its rows, in the order in which groups first came.

Aggregates are, by --agg,
  count                   rows
  count:C                 values of column C that are not null
  sum:C mean:C            of numbers; sums of integers have 64 bits, and one that overflows is an error
  min:C max:C             of numbers, or of text by its bytes if no value is a number; a mixture is an error
  first:C last:C          values that are not null, as they are written

Null is a group of its own. Memory is needed for the groups only. Groups that exceed --memory go to a temporary file,
and without --sort they come in another order then. Rows that are sorted go there, too.
` + readsTables + `

With --json it prints one object: rows, a list of objects, columns (name and type), groups, rows_read, skipped, bytes,
spilled_bytes (to the temporary file), seconds, device and device_name. Text that is no UTF-8 is an object with base64, NaN and infinities are strings. A column of
text whose values are numbers of JSON, and were no strings there, has them as they were written; its type is number.`,
		Example: `  weft group --by country,city --agg count,sum:amount,max:amount orders.csv.gz
  weft group --by status --sort count:desc --top 10 access.jsonl
  weft group --by 1 --agg mean:3 --header no - < data.csv
  weft group --by day --agg sum:price --parquet days.parquet sales-*.parquet`,
		Args: someFiles,
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
		Short: "Print the distinct rows of columns of files, or count them",
		Long: `Distinct prints the different rows that the columns --by of the files taken together have, in the order in which
they first came; with --count it prints how many they are. Counts are exact.

Null is a value of its own. Memory is needed for the distinct rows only. Those that exceed --memory go to a temporary
file, and without --sort they come in another order then. Rows that are sorted go there, too.
` + readsTables + `

With --json it prints one object: rows, a list of objects (not with --count), columns (name and type), groups (how many
distinct rows), rows_read, skipped, bytes, spilled_bytes (to the temporary file), seconds, device and device_name.`,
		Example: `  weft distinct --by country,city orders.csv
  weft distinct --by user --count events-*.parquet
  zcat ids.csv.gz | weft distinct --by 1 --header no --csv -`,
		Args: someFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.names = args
			return runGroup(cmd.Context(), a, &opts, "distinct")
		},
	}
	cmd.Flags().StringSliceVar(&opts.By, "by", nil, "columns, separated by commas; default: all")
	cmd.Flags().BoolVar(&opts.count, "count", false, "print the number of distinct rows only")
	opts.add(cmd)
	return cmd
}

// add adds the flags of both verbs.
func (o *groupOptions) add(cmd *cobra.Command) {
	o.AddSkipNulls(cmd.Flags())
	o.tableFlags.add(cmd)
}

// someFiles requires at least one file.
func someFiles(cmd *cobra.Command, args []string) error {
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
		// It may be a member that comes later.
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
	// Groups have types even without rows.
	if err := add(gr.Empty(t)); err != nil {
		return err
	}
	return j.read(t, gr.Columns, func(b table.Batch) error {
		err := add(b.Columns)
		j.spilled(g.Spilled())
		return j.added(err, b.Rows)
	})
}

// groupSummary is the output of weft group --json besides the rows.
type groupSummary struct {
	tableSummary
	Groups int `json:"groups"`
}

// print prints groups in the requested order.
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
		return j.say(did)
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
	return j.say(did)
}

// groupPages returns the columns of all groups. They come in one piece, which closes the groups. If
// some are in the temporary file, they come in pieces that fit in memory one after another.
func groupPages(ctx context.Context, g *group.Groups, gr *flags.Grouping) (iter.Seq2[[]column.Column,
	error], error) {
	explain := func(err error) error {
		if over := (*group.OverflowError)(nil); errors.As(err, &over) {
			return gr.Explain(over)
		}
		return err
	}
	if g.Spilled() == 0 {
		r, err := g.Result(ctx)
		if err == nil {
			err = g.Close() // frees memory for more
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

// printCount prints the number of groups.
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
