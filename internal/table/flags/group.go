package flags

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/spf13/pflag"

	"github.com/weftgo/weft/arrow"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/group"
	"github.com/weftgo/weft/internal/extsort"
	"github.com/weftgo/weft/internal/table"
)

// Group holds the flags of a group-by.
type Group struct {
	By, Aggs  []string
	SkipNulls bool

	aggs []aggregate
}

// AddAggregates adds --by and --agg.
func (f *Group) AddAggregates(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.By, "by", nil, "columns to group by, separated by commas")
	flags.StringSliceVar(&f.Aggs, "agg", []string{"count"}, "aggregates, separated by commas")
}

// AddSkipNulls adds --skip-nulls.
func (f *Group) AddSkipNulls(flags *pflag.FlagSet) {
	flags.BoolVar(&f.SkipNulls, "skip-nulls", false, "skip rows with null in a column of --by")
}

// aggregate is one item of --agg, such as sum:price.
type aggregate struct {
	of     group.Func
	column string
	name   string
}

// Check parses --agg.
func (f *Group) Check(verb string) error {
	f.aggs = nil
	for _, text := range f.Aggs {
		name, column, of := strings.Cut(text, ":")
		fn, err := group.ParseFunc(name)
		if strings.EqualFold(name, "avg") {
			fn, err = group.Mean, nil
		}
		switch {
		case err != nil || fn == group.Rows:
			return Usage(
				"%s --agg: %.40q: want count, or count, sum, mean (avg), min, max, first, last, any, "+
					"any_true, all_true, var or stddev of a column, such as sum:price",
				verb,
				text,
			)
		case fn == group.Count && !of:
			fn = group.Rows
		case column == "":
			return Usage("%s --agg: %.40q: of which column? Such as %s:price", verb, text, name)
		}
		f.aggs = append(f.aggs, aggregate{fn, column, text})
	}
	return nil
}

// Grouping lists the columns that a group-by reads, and its aggregates.
type Grouping struct {
	Reads
	Aggs   []group.Aggregate
	Fields []table.Field // columns of the result
	From   []int         // columns of the table that provide the values of Fields; -1 if none

	keys, values []int // indexes in Columns
}

// Reads lists columns to read. A column occurs once per form.
type Reads struct {
	Columns []table.Read

	at map[table.Read]int
}

// Add adds a column if needed and returns its index in Columns.
func (r *Reads) Add(c table.Read) int {
	at, ok := r.at[c]
	if !ok {
		if r.at == nil {
			r.at = map[table.Read]int{}
		}
		at = len(r.Columns)
		r.at[c] = at
		r.Columns = append(r.Columns, c)
	}
	return at
}

// Find returns the indexes of table columns, given by name or number. Errors name the flag.
func Find(ctx context.Context, t *table.Table, flag string, names []string) ([]int, error) {
	var columns []int
	for _, name := range names {
		i, err := t.Find(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		columns = append(columns, i)
	}
	return columns, nil
}

// Plan finds the columns of the flags in a table. Without --by all columns are keys.
func (f *Group) Plan(ctx context.Context, t *table.Table) (*Grouping, error) {
	keys, err := Find(ctx, t, "--by", f.By)
	if err != nil {
		return nil, err
	}
	at := make([]int, len(f.aggs))
	for i, agg := range f.aggs {
		if agg.of == group.Rows {
			continue
		}
		if at[i], err = t.Find(ctx, agg.column); err != nil {
			return nil, fmt.Errorf("--agg %s: %w", agg.name, err)
		}
	}
	if len(keys) == 0 {
		t.All()
		for i := range t.Fields() {
			keys = append(keys, i)
		}
	}
	gr := &Grouping{}
	for _, c := range keys {
		field := t.Fields()[c]
		gr.keys = append(gr.keys, gr.Add(t.Reading(c, table.Key)))
		gr.add(table.Field{Name: field.Name, Arrow: field.Arrow, Text: field.Text}, c)
	}
	for i, agg := range f.aggs {
		if err := gr.aggregate(t, agg, at[i]); err != nil {
			return nil, err
		}
	}
	table.Unique(gr.Fields)
	return gr, nil
}

func (g *Grouping) add(f table.Field, from int) {
	g.Fields, g.From = append(g.Fields, f), append(g.From, from)
}

func (g *Grouping) aggregate(t *table.Table, agg aggregate, c int) error {
	f := table.Field{Name: agg.name}
	if agg.of == group.Rows {
		g.Aggs = append(g.Aggs, group.Aggregate{Func: group.Rows})
		g.add(f, -1)
		return nil
	}
	field := t.Fields()[c]
	if err := suits(field, agg.of); err != nil {
		return fmt.Errorf("--agg %s: %w", agg.name, err)
	}
	form, from := forms[agg.of], -1
	if form == table.Truth && t.Forced(c) == table.Forced {
		return fmt.Errorf("--agg %s: --number reads column %s as numbers, which are not true or false",
			agg.name, field.Name)
	}
	if form == table.Extreme || form == table.Written {
		f.Arrow, f.Text, from = field.Arrow, field.Text, c
	}
	g.Aggs = append(g.Aggs, group.Aggregate{Func: agg.of, Column: len(g.values)})
	g.values = append(g.values, g.Add(t.Reading(c, form)))
	g.add(f, from)
	return nil
}

// forms maps an aggregate to the form of the values that it reads.
var forms = map[group.Func]table.Form{
	group.Count: table.Present, group.Sum: table.Number, group.Mean: table.Number,
	group.Min: table.Extreme, group.Max: table.Extreme,
	group.First: table.Written, group.Last: table.Written, group.Any: table.Written,
	group.AnyTrue: table.Truth, group.AllTrue: table.Truth, group.Var: table.Number, group.StdDev: table.Number,
}

// suits returns an error if the type of a field does not support an aggregate.
func suits(f table.Field, of group.Func) error {
	switch {
	case f.Err() != nil:
		return f.Err()
	case f.Arrow == nil:
		return nil
	case forms[of] == table.Number:
		return arrow.Numeric(f.Arrow)
	case forms[of] == table.Extreme:
		return arrow.Ordered(f.Arrow)
	case forms[of] == table.Truth:
		return arrow.Boolean(f.Arrow)
	}
	return nil
}

// Split splits the columns of a batch into keys and values.
func (g *Grouping) Split(columns []column.Column) (keys, values []column.Column) {
	keys, values = make([]column.Column, len(g.keys)), make([]column.Column, len(g.values))
	for i, c := range g.keys {
		keys[i] = columns[c]
	}
	for i, c := range g.values {
		values[i] = columns[c]
	}
	return keys, values
}

// Empty returns columns without rows, with the types of the columns to read.
func (g *Grouping) Empty(t *table.Table) []column.Column {
	none := make([]column.Column, len(g.Columns))
	for i, c := range g.Columns {
		none[i] = table.Empty(t.TypeOf(c))
	}
	return none
}

// Explain converts an overflow to an error that names the aggregate.
func (g *Grouping) Explain(overflow *group.OverflowError) error {
	for i, agg := range g.Aggs {
		if agg == (group.Aggregate{Func: group.Sum, Column: overflow.Column}) {
			return fmt.Errorf(
				"%s does not fit 64 bits in the group of %s",
				g.Fields[len(g.keys)+i].Name,
				overflow.Key,
			)
		}
	}
	return overflow
}

// Look reads all pages once and returns the number of groups. It sets the types of the result's
// fields. If literals is set, it also sets their form in JSON. Once types are set, it calls sorter.
// If sorter returns a sorter, Look adds all rows to it.
func (g *Grouping) Look(
	ctx context.Context,
	t *table.Table,
	pages iter.Seq2[[]column.Column, error],
	literals bool,
	sorter func() (*extsort.Sorter, error),
) (n int, rows *extsort.Sorter, err error) {
	found := make([]table.Literals, len(g.Fields))
	first := true
	for columns, err := range pages {
		if err != nil {
			return n, rows, err
		}
		n += columns[0].Len()
		for i, c := range columns {
			g.Fields[i].Type = c.Type()
			if g.From[i] >= 0 && literals {
				found[i].Add(c)
			}
		}
		if first {
			first = false
			if rows, err = sorter(); err != nil {
				return n, nil, err
			}
		}
		if rows != nil {
			if err := rows.Add(ctx, columns); err != nil {
				return n, rows, err
			}
		}
	}
	for i := range g.Fields {
		if g.From[i] >= 0 && literals {
			g.Fields[i].Literal = t.Literal(g.From[i], &found[i])
		}
	}
	return n, rows, nil
}
