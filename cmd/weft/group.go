package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weftgo/weft/arrow"
	"github.com/weftgo/weft/cmd/weft/internal/table"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/group"
)

// groupOptions are the flags and arguments of weft group and weft distinct.
type groupOptions struct {
	tableFlags
	by, aggs  []string
	skipNulls bool
	count     bool // weft distinct: the number of groups only
	names     []string
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
  min:C max:C             of numbers, text by its bytes, or true and false
  first:C last:C          values that are not null

Null is a group of its own; all NaN are one, and -0 is 0. Memory is needed for the groups only.
` + readsTables + `

With --json it prints one object: rows, a list of objects, columns (name and type), groups, rows_read, skipped, bytes,
seconds, device and device_name. Text that is no UTF-8 is an object with base64, NaN and infinities are strings.`,
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
	cmd.Flags().StringSliceVar(&opts.by, "by", nil, "columns that make groups, separated by commas")
	cmd.Flags().StringSliceVar(&opts.aggs, "agg", []string{"count"}, "aggregates, separated by commas")
	cmd.Flags().BoolVar(&opts.skipNulls, "skip-nulls", false, "leave out rows with null in a column of --by")
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

Null is a value of its own; all NaN are one, and -0 is 0. Memory is needed for the distinct rows only.
` + readsTables + `

With --json it prints one object: rows, a list of objects (not with --count), columns (name and type), groups (how many
distinct rows), rows_read, skipped, bytes, seconds, device and device_name.`,
		Example: `  weft distinct --by country,city orders.csv
  weft distinct --by user --count events-*.parquet
  zcat ids.csv.gz | weft distinct --by 1 --header no --csv -`,
		Args: someFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.names = args
			return runGroup(cmd.Context(), a, &opts, "distinct")
		},
	}
	cmd.Flags().StringSliceVar(&opts.by, "by", nil, "columns, separated by commas; default: all")
	cmd.Flags().BoolVar(&opts.count, "count", false, "print the number of distinct rows only")
	cmd.Flags().BoolVar(&opts.skipNulls, "skip-nulls", false, "leave out rows with null in a column of --by")
	opts.add(cmd)
	return cmd
}

// someFiles wants at least one file.
func someFiles(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usageError{fmt.Errorf("%s: no file given; - is standard input", cmd.Name())}
	}
	return nil
}

// grouping is what is to be read of a table, and computed.
type grouping struct {
	columns []int // of the table, each once
	number  []bool
	keys    []int // in columns
	values  []int
	aggs    []group.Aggregate
	fields  []table.Field // of the result, which gives them their types
}

func runGroup(ctx context.Context, a *app, o *groupOptions, verb string) error {
	if verb == "group" && len(o.by) == 0 {
		return usageError{errors.New("group: --by is missing: the columns that make groups")}
	}
	aggs, err := parseAggregates(o.aggs)
	if err != nil {
		return usageError{fmt.Errorf("%s --agg: %w", verb, err)}
	}
	return runTable(ctx, a, &o.tableFlags, verb, o.names, func(j *tableJob) error {
		t, err := j.open(o.names, o.options.Text)
		if err != nil {
			return err
		}
		defer t.Close()
		gr, err := o.plan(t, aggs)
		if err != nil {
			return err
		}
		if _, err := o.sorts(gr.fields); err != nil {
			return err
		}
		for {
			g, err := group.New(j.dev, gr.aggs, &group.Options{SkipNulls: o.skipNulls, MaxBytes: int64(j.memory)})
			if err != nil {
				return err
			}
			j.RowsRead, j.Skipped = 0, 0
			err = j.addGroups(t, g, gr)
			if w := (*table.Widening)(nil); errors.As(err, &w) && t.Widen(w) {
				g.Close()
				continue
			}
			if err == nil {
				err = o.print(j, t, g, gr)
			}
			return cmp.Or(err, g.Close())
		}
	})
}

// aggregate is one of --agg.
type aggregate struct {
	of     group.Func
	column string
	name   string
}

// parseAggregates reads "count", "sum:c".
func parseAggregates(texts []string) (aggs []aggregate, err error) {
	for _, text := range texts {
		name, column, of := strings.Cut(text, ":")
		f, err := group.ParseFunc(name)
		switch {
		case err != nil || f == group.Rows:
			return nil, fmt.Errorf("%.40q: want count, or count, sum, mean, min, max, first or last of a column, such as sum:price", text)
		case f == group.Count && !of:
			f = group.Rows
		case column == "":
			return nil, fmt.Errorf("%.40q: of which column? Such as %s:price", text, name)
		}
		aggs = append(aggs, aggregate{f, column, text})
	}
	return aggs, nil
}

// plan finds the columns of a table.
func (o *groupOptions) plan(t *table.Table, aggs []aggregate) (*grouping, error) {
	keys, err := columnsOf(t, "--by", o.by)
	if err != nil {
		return nil, err
	}
	fields := t.Fields()
	if len(keys) == 0 { // weft distinct
		for i := range fields {
			keys = append(keys, i)
		}
	}
	gr := &grouping{}
	use := func(c int, number bool) int {
		at := slices.Index(gr.columns, c)
		if at < 0 {
			at = len(gr.columns)
			gr.columns, gr.number = append(gr.columns, c), append(gr.number, false)
		}
		gr.number[at] = gr.number[at] || number
		return at
	}
	for _, c := range keys {
		gr.keys = append(gr.keys, use(c, false))
		gr.fields = append(gr.fields, table.Field{Name: fields[c].Name, Arrow: fields[c].Arrow})
	}
	for _, agg := range aggs {
		gr.fields = append(gr.fields, table.Field{Name: agg.name})
		if agg.of == group.Rows {
			gr.aggs = append(gr.aggs, group.Aggregate{Func: group.Rows})
			continue
		}
		c, err := t.Find(agg.column)
		if err != nil {
			return nil, fmt.Errorf("--agg %s: %w", agg.name, err)
		}
		added := agg.of == group.Sum || agg.of == group.Mean
		if err := suits(fields[c], agg.of, added); err != nil {
			return nil, fmt.Errorf("--agg %s: %w", agg.name, err)
		}
		gr.aggs = append(gr.aggs, group.Aggregate{Func: agg.of, Column: len(gr.values)})
		gr.values = append(gr.values, use(c, added))
		if agg.of == group.Min || agg.of == group.Max || agg.of == group.First || agg.of == group.Last {
			gr.fields[len(gr.fields)-1].Arrow = fields[c].Arrow
		}
	}
	return gr, nil
}

// suits refuses aggregates of types that have none.
func suits(f table.Field, of group.Func, added bool) error {
	switch {
	case f.Arrow == nil:
		return nil
	case added:
		return arrow.Numeric(f.Arrow)
	case of == group.Min || of == group.Max:
		return arrow.Ordered(f.Arrow)
	}
	return nil
}

// addGroups reads all rows of a table into groups.
func (j *tableJob) addGroups(t *table.Table, g *group.Groups, gr *grouping) error {
	add := func(columns []column.Column) error {
		keys, values := make([]column.Column, len(gr.keys)), make([]column.Column, len(gr.values))
		for i, c := range gr.keys {
			keys[i] = columns[c]
		}
		for i, c := range gr.values {
			values[i] = columns[c]
		}
		return g.Add(j.ctx, keys, values)
	}
	// Without rows, groups still have types.
	none := make([]column.Column, len(gr.columns))
	for i, c := range gr.columns {
		none[i] = table.Empty(t.As(c, gr.number[i]))
	}
	if err := add(none); err != nil {
		return err
	}
	return j.read(t, gr.columns, gr.number, func(b table.Batch) error { return j.added(add(b.Columns), b.Rows) })
}

// groupSummary is what weft group --json says besides the rows.
type groupSummary struct {
	tableSummary
	Groups int `json:"groups"`
}

// print prints groups in the order that is asked for.
func (o *groupOptions) print(j *tableJob, t *table.Table, g *group.Groups, gr *grouping) error {
	did := counted(int64(g.Len()), "group")
	if j.verb == "distinct" {
		did = fmt.Sprintf("%d distinct", g.Len())
	}
	if o.count {
		j.done(t)
		if err := o.printCount(j, g.Len()); err != nil {
			return err
		}
		return j.say(did)
	}
	r, err := g.Result(j.ctx)
	if over := (*group.OverflowError)(nil); errors.As(err, &over) {
		name := gr.fields[len(gr.keys)+slices.Index(gr.aggs, group.Aggregate{Func: group.Sum, Column: over.Column})].Name
		return fmt.Errorf("%s does not fit 64 bits in the group of %s", name, over.Key)
	}
	if err != nil {
		return err
	}
	columns := append(slices.Clone(r.Keys), r.Values...)
	for i, c := range columns {
		gr.fields[i].Type = c.Type()
	}
	if columns, err = o.order(columns, gr.fields); err != nil {
		return err
	}
	out, err := j.writer(gr.fields)
	if err != nil {
		return err
	}
	j.done(t)
	if err = out.write(columns); err == nil {
		err = out.close(groupSummary{j.tableSummary, g.Len()})
	}
	if err != nil {
		out.abandon()
		return err
	}
	return j.say(did)
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
		return fmt.Errorf("write results: %w", reason(err))
	}
	return nil
}
