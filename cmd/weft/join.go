package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	goarrow "github.com/apache/arrow-go/v18/arrow"
	"github.com/spf13/cobra"

	"github.com/weftgo/weft/arrow"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/table"
	"github.com/weftgo/weft/internal/table/flags"
	"github.com/weftgo/weft/join"
)

// joinOptions holds the flags and arguments of weft join.
type joinOptions struct {
	tableFlags
	on      []string
	kind    string
	columns []string
	names   []string
}

var joinKinds = []string{"inner", "left", "semi", "anti"}

func newJoinCommand(a *app) *cobra.Command {
	var opts joinOptions
	cmd := &cobra.Command{
		Use:   "join --on COLUMNS [flags] LEFT RIGHT",
		Short: "Join the rows of two files that have the same keys",
		Long: `Join combines the rows of two files that have equal values in the columns --on: SQL's JOIN for
files. --on A takes the column A of both files, --on A=B the column A of LEFT and B of RIGHT. Rows
come in the order of LEFT, and for one row of LEFT in the order of RIGHT.

--kind says which rows are printed:
  inner   each pair of matching rows: columns of LEFT, then those of RIGHT without its keys
  left    the same, and rows of LEFT without a match, with nulls for the columns of RIGHT
  semi    the rows of LEFT with a match
  anti    the rows of LEFT without a match

Null matches nothing. A column of RIGHT whose name LEFT has, too, gets _right after its name. The
rows of RIGHT are kept in memory, so RIGHT should be the smaller file. If they exceed --memory, rows
of both files go to a temporary file, and then rows without --sort come in another order.
` + readsTables + `

Keys:
  Keys of two text files are compared as they are written: 1.0 and 1 differ. With --number, which
  may name the column of either file, they are compared by value. A text key is compared with a
  Parquet or Arrow column by that column's type: integer, boolean or text; with floats only by
  --number. In a Parquet result, a text column of only integers is int64, and one of only booleans
  is bool. With --json, LEFT is read twice if it is text.

With --json the output is one object: rows (objects), columns (name and type), joined (the number
of rows), rows_read, skipped, bytes, spilled_bytes (to the temporary file), seconds, device,
device_name.`,
		Example: `  weft join --on state examples/data/counties.csv examples/data/capitals.csv
  weft join --on state --kind anti examples/data/counties.csv examples/data/capitals.csv
  weft join --on state --columns county,capital --top 3 examples/data/counties.csv examples/data/capitals.csv
  weft join --on customer=id --kind left --csv orders.parquet customers.jsonl`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) != 2:
				return flags.Usage("join: %d files given, want LEFT and RIGHT", len(args))
			case args[0] == stdinName && args[1] == stdinName:
				return flags.Usage("join - -: standard input cannot be both")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.names = args
			return runJoin(cmd.Context(), a, &opts)
		},
	}
	cmd.Flags().StringSliceVar(&opts.on, "on", nil, "key columns: A, or A=B if RIGHT calls it B")
	cmd.Flags().StringVar(&opts.kind, "kind", "inner", "rows to print: inner, left, semi or anti")
	cmd.Flags().StringSliceVar(&opts.columns, "columns", nil, "columns of the result, by name or number; default: all")
	opts.add(cmd)
	return cmd
}

// side is one of the two tables.
type side struct {
	*table.Table
	keys        []int // indexes of columns of the table
	flags.Reads       // columns to read
	at          []int // indexes of the keys in Columns
	convert     []column.Type
}

// keysOf returns the keys of a batch, converted to the types that both sides share.
func (s *side) keysOf(columns []column.Column) []column.Column {
	keys := make([]column.Column, len(s.at))
	for i, at := range s.at {
		keys[i] = table.Convert(columns[at], s.convert[i])
	}
	return keys
}

// canWiden reports whether later values may change the types of columns.
func (s *side) canWiden() bool {
	return slices.ContainsFunc(s.Columns, func(r table.Read) bool { return r.Form != table.Text && r.As == column.None })
}

// joined is a column of the result.
type joined struct {
	table.Field
	right  bool
	column int // index in the table
	at     int // index in the Columns of its side
}

func runJoin(ctx context.Context, a *app, o *joinOptions) error {
	if len(o.on) == 0 {
		return flags.Usage("join: --on is missing: the columns whose values must be the same")
	}
	if !slices.Contains(joinKinds, o.kind) {
		return flags.Usage("join --kind %.40q: want %s", o.kind, strings.Join(joinKinds, ", "))
	}
	return runTable(ctx, a, &o.tableFlags, "join", o.names, func(j *tableJob) error {
		left, right, err := o.open(j)
		if err != nil {
			return err
		}
		defer left.Close()
		defer right.Close()
		for {
			j.RowsRead, j.Skipped, j.Columns = 0, 0, nil
			from, err := o.join(j, left, right)
			if err == nil || from == nil || !right.Rereadable() {
				return err
			}
			if err := from.Adapt(j.ctx, err); err != nil {
				return err
			}
		}
	})
}

// open opens both files. --text and --number apply to text columns of either file.
func (o *joinOptions) open(j *tableJob) (left, right *side, err error) {
	options := o.Options
	options.Text, options.Number = nil, nil
	sides := [2]*side{}
	for i, name := range o.names {
		t, err := table.Open(j.ctx, []string{name}, j.stdin, &options)
		if err != nil {
			return nil, nil, err
		}
		sides[i] = &side{Table: t}
	}
	left, right = sides[0], sides[1]
	for _, on := range o.on {
		a, b, differ := strings.Cut(on, "=")
		if !differ {
			b = a
		}
		l, err := left.Find(j.ctx, a)
		if err != nil {
			return nil, nil, fmt.Errorf("--on %s: %s: %w", on, displayName(o.names[0]), err)
		}
		r, err := right.Find(j.ctx, b)
		if err != nil {
			return nil, nil, fmt.Errorf("--on %s: %s: %w", on, displayName(o.names[1]), err)
		}
		left.keys, right.keys = append(left.keys, l), append(right.keys, r)
	}
	if err := o.force(j, "--text", o.Options.Text, table.Text, sides[:]); err != nil {
		return nil, nil, err
	}
	if err := o.force(j, "--number", o.Options.Number, table.Forced, sides[:]); err != nil {
		return nil, nil, err
	}
	for i := range left.keys {
		if err := agree(left, right, i); err != nil {
			return nil, nil, err
		}
	}
	return left, right, nil
}

// force sets the form of columns in each text file that has them.
func (o *joinOptions) force(j *tableJob, flag string, names []string, form table.Form, sides []*side) error {
	for _, name := range names {
		var failed error
		done := false
		for i, s := range sides {
			c, err := s.Find(j.ctx, name)
			found := !errors.Is(err, table.ErrNoColumn)
			if err == nil {
				err = s.Force(c, form)
			}
			done = done || err == nil
			if err != nil {
				failed = fmt.Errorf("%s: %w", displayName(o.names[i]), err)
			}
			if err != nil && found && !s.Typed() {
				return fmt.Errorf("%s %s: %w", flag, name, failed)
			}
		}
		if !done {
			return fmt.Errorf("%s %s: neither file has such a column of text: %w", flag, name, failed)
		}
	}
	return nil
}

// agree returns an error if key i of both sides cannot be compared. A form that a flag sets on one
// side applies to both sides.
func agree(left, right *side, i int) error {
	l, r := left.keys[i], right.keys[i]
	lf, rf := left.Fields()[l], right.Fields()[r]
	differ := fmt.Errorf("--on: column %s is %s, and %s in the right file is %s", lf.Name, typeName(lf), rf.Name, typeName(rf))
	switch {
	case left.Typed() && right.Typed():
		a, b := table.Converts(lf.Type), table.Converts(rf.Type)
		if !alike(lf.Arrow, rf.Arrow) || a != b && !(a.Integer() && b.Integer()) {
			return differ
		}
		return nil
	case left.Typed():
		return comparableText(right, r, lf, differ)
	case right.Typed():
		return comparableText(left, l, rf, differ)
	}
	switch a, b := left.Forced(l), right.Forced(r); {
	case a == b:
		return nil
	case a == table.Key:
		return left.Force(l, b)
	case b == table.Key:
		return right.Force(r, a)
	default:
		return fmt.Errorf("--on: column %s is to be text, and %s in the other file a number", lf.Name, rf.Name)
	}
}

// comparableText returns an error if a text key cannot be compared with a typed column.
func comparableText(s *side, c int, with table.Field, differ error) error {
	form, number := s.Forced(c), arrow.Numeric(with.Arrow) == nil
	switch {
	case !plain(with.Arrow):
		return fmt.Errorf("%w; text is compared with integers, floats, bool and text only", differ)
	case form == table.Forced && !number || form == table.Text && with.Type != column.Bytes:
		return fmt.Errorf("%w; --text and --number cannot change that", differ)
	case with.Type.Float() && form != table.Forced:
		return fmt.Errorf("%w; --number compares both by value", differ)
	}
	return nil
}

// typeName returns the type of a column for messages.
func typeName(f table.Field) string {
	if f.Arrow == nil {
		return "text"
	}
	return f.Arrow.String()
}

// alike reports whether columns of two types hold equal values exactly if the values of the types
// are equal.
func alike(a, b goarrow.DataType) bool {
	return plain(a) && plain(b) || goarrow.TypeEqual(a, b)
}

// plain reports whether columns store the values of a type unchanged.
func plain(t goarrow.DataType) bool {
	if d, ok := t.(*goarrow.DictionaryType); ok {
		t = d.ValueType
	}
	return arrow.Numeric(t) == nil || goarrow.IsBaseBinary(t.ID()) || t.ID() == goarrow.STRING_VIEW || t.ID() == goarrow.BINARY_VIEW || t.ID() == goarrow.BOOL
}

// all returns the possible columns of the result, with unique names. These are all left columns,
// then the right columns without keys. duplicates has names that two columns of a file share, with
// the numbers of these columns, counted from 1.
func (o *joinOptions) all(left, right *side) (all []joined, duplicates map[string][2]int) {
	duplicates = map[string][2]int{}
	add := func(s *side, skip func(c int) bool, rename func(name string) string) {
		first := map[string]int{}
		for c, f := range s.Fields() {
			if skip(c) {
				continue
			}
			f.Name = rename(f.Name)
			at, ok := first[f.Name]
			if !ok {
				first[f.Name] = c + 1
			} else if duplicates[f.Name] == [2]int{} {
				duplicates[f.Name] = [2]int{at, c + 1}
			}
			all = append(all, joined{Field: f, right: s == right, column: c})
		}
	}
	add(left, func(int) bool { return false }, func(name string) string { return name })
	if o.kind != "semi" && o.kind != "anti" {
		names, keys := flags.ByName(fieldsOf(all)), map[int]bool{}
		for _, c := range right.keys {
			keys[c] = true
		}
		add(right, func(c int) bool { return keys[c] }, func(name string) string {
			if _, ok := names[name]; ok {
				name += "_right"
			}
			return name
		})
	}
	unique(all)
	return all, duplicates
}

func unique(all []joined) {
	fields := fieldsOf(all)
	table.Unique(fields)
	for i, f := range fields {
		all[i].Field = f
	}
}

func fieldsOf(all []joined) []table.Field {
	fields := make([]table.Field, len(all))
	for i := range all {
		fields[i] = all[i].Field
	}
	return fields
}

// result returns the columns of the result. If all columns are requested, it first reads the left
// side to find all members of JSON. A member that was found later could not be added, because
// output would have begun.
func (o *joinOptions) result(j *tableJob, left, right *side) ([]joined, error) {
	if len(o.columns) == 0 {
		left.All()
		if o.kind != "semi" && o.kind != "anti" {
			right.All()
		}
		_, err := left.Complete(j.ctx)
		all, _ := o.all(left, right)
		return all, err
	}
	result, missing, err := o.choose(left, right)
	if missing == "" || err != nil {
		return result, err
	}
	// the column may be a JSON member that first occurs later
	for _, s := range []*side{left, right} {
		if _, err := s.Complete(j.ctx); err != nil {
			return nil, err
		}
	}
	result, missing, err = o.choose(left, right)
	if err == nil && missing != "" {
		err = fmt.Errorf("--columns: no column %.40q in the result", missing)
	}
	return result, err
}

// choose returns the columns of --columns, which are names or numbers. If one of them does not
// exist, missing is its name.
func (o *joinOptions) choose(left, right *side) (result []joined, missing string, err error) {
	all, duplicates := o.all(left, right)
	index := flags.ByName(fieldsOf(all))
	for _, name := range o.columns {
		at, ok := index[name]
		if two, is := duplicates[name]; ok && is {
			return nil, "", fmt.Errorf("--columns: columns %d and %d of a file are both called %.40q: use the number in the result", two[0], two[1], name)
		}
		if n, err := strconv.Atoi(name); !ok && err == nil && n >= 1 && n <= len(all) {
			at, ok = n-1, true
		}
		if !ok {
			return nil, name, nil
		}
		result = append(result, all[at])
	}
	unique(result)
	return result, "", nil
}

// use sets the columns that each side reads for the result.
func (o *joinOptions) use(j *tableJob, left, right *side, result []joined) {
	// Text represents all values, so no later value changes the type after output has begun.
	form := table.Text
	if j.Parquet != "" {
		form = table.Written
	}
	for _, s := range []*side{left, right} {
		s.Reads, s.at, s.convert = flags.Reads{}, nil, nil
	}
	for i, c := range right.keys {
		read := right.Reading(c, table.Key)
		if left.Typed() && !right.Typed() {
			read = readAs(read, left.Fields()[left.keys[i]].Type)
		}
		right.at = append(right.at, right.Add(read))
	}
	for i := range result {
		s := left
		if result[i].right {
			s = right
		}
		result[i].at = s.Add(s.Reading(result[i].column, form))
	}
}

// compareAs sets the types in which keys are compared. The types of the right columns must be
// final.
func compareAs(left, right *side) {
	for i, c := range left.keys {
		typ := table.Converts(right.TypeOf(right.Columns[right.at[i]]))
		read := left.Reading(c, table.Key)
		if own := table.Converts(left.TypeOf(read)); left.Typed() && own == column.Uint64 {
			typ = own
		}
		switch {
		case left.Typed():
		case right.Typed():
			read = readAs(read, typ)
		default:
			read.As = typ
		}
		left.at = append(left.at, left.Add(read))
		left.convert, right.convert = append(left.convert, typ), append(right.convert, typ)
	}
}

// readAs sets the type of a text key that is compared with a typed column. A value that the type
// does not hold becomes null, which matches nothing.
func readAs(read table.Read, with column.Type) table.Read {
	read.As = table.Converts(with)
	if read.As == column.Bytes {
		read.Form = table.Text
	}
	return read
}

// scanTypes reads the left side before any output. It determines the types of its columns, and
// which text columns are numbers in JSON.
func (o *joinOptions) scanTypes(j *tableJob, left *side, result []joined) error {
	found := make([]table.Literals, len(left.Columns))
	for batch, err := range left.Batches(j.ctx, left.Columns) {
		if err != nil {
			return err
		}
		j.bar.Add(batch.Bytes)
		for i, c := range batch.Columns {
			found[i].Add(c)
		}
	}
	for i := range result {
		if c := &result[i]; !c.right {
			c.Literal = left.Literal(c.column, &found[c.at])
		}
	}
	return nil
}

// restarts reports whether the output can start again after an error.
func (o *joinOptions) restarts(j *tableJob) bool {
	return len(o.Sort) > 0 || j.Parquet != "" && j.WritesWhole()
}

// joinSummary is the part of the --json output that follows the rows.
type joinSummary struct {
	tableSummary
	Joined int `json:"joined"`
}

// join reads the right side, then the left side. On an error it returns the side that can be read
// again, or nil if output has been written.
func (o *joinOptions) join(j *tableJob, left, right *side) (from *side, err error) {
	result, err := o.result(j, left, right)
	if err != nil {
		return nil, err
	}
	if _, err := o.Sorts(fieldsOf(result)); err != nil {
		// The column may be a JSON member that first occurs later.
		grown, failed := right.Complete(j.ctx)
		if grown {
			return o.join(j, left, right)
		}
		return nil, cmp.Or(failed, err)
	}
	o.use(j, left, right, result)
	compareAs(left, right)
	var kind join.Kind
	if err := kind.UnmarshalText([]byte(o.kind)); err != nil {
		return nil, err
	}
	joiner, err := join.NewJoin(j.dev, kind,
		&join.Options{Memory: j.StateMemory(j.Memory), TempDir: j.TempDir})
	if err != nil {
		return nil, err
	}
	from, err = o.joinBy(j, joiner, left, right, result)
	return from, cmp.Or(err, joiner.Close())
}
