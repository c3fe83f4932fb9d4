package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	goarrow "github.com/apache/arrow-go/v18/arrow"
	"github.com/spf13/cobra"

	"github.com/weftgo/weft/arrow"
	"github.com/weftgo/weft/cmd/weft/internal/table"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/join"
)

// joinOptions are the flags and arguments of weft join.
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
		Long: `Join finds the rows of two files that have the same values in the columns --on, which are called A in both, or A in LEFT
and B in RIGHT: A=B. Rows come in the order of LEFT, and for one of these in that of RIGHT. By --kind it prints
  inner  each pair of rows: the columns of LEFT, and those of RIGHT but for its keys
  left   the same, and rows of LEFT without a match, with nulls for the columns of RIGHT
  semi   the rows of LEFT that have a match
  anti   those that have none

Null matches nothing; all NaN are equal, and -0 is 0. Of columns that are called the same, that of RIGHT gets _right behind
its name. RIGHT is held in memory, what is used of it; LEFT is read in pieces, so let it be the larger one. By --sort rows come in
another order, those that are equal there in the one above; all of the result is held in memory then.
` + readsTables + `
Columns of text that are no keys come out as they are written in CSV and in tables for people. Where the keys of one
file are numbers and those of the other text, both are compared as text.

With --json it prints one object: rows, a list of objects, columns (name and type), joined (how many rows), rows_read, skipped, bytes,
seconds, device and device_name.`,
		Example: `  weft join --on id orders.csv customers.csv
  weft join --on customer=id --kind left --columns order,name orders.parquet customers.jsonl
  weft join --on ip --kind anti --csv access.csv blocklist.csv
  weft join --on customer=id --sort city,amount:desc --top 100 orders.csv customers.csv`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) != 2:
				return usageError{fmt.Errorf("join: %d files given, want LEFT and RIGHT", len(args))}
			case args[0] == stdinName && args[1] == stdinName:
				return usageError{errors.New("join - -: standard input cannot be both")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.names = args
			return runJoin(cmd.Context(), a, &opts)
		},
	}
	cmd.Flags().StringSliceVar(&opts.on, "on", nil, "columns whose values must be the same: A, or A=B")
	cmd.Flags().StringVar(&opts.kind, "kind", "inner", "which rows: inner, left, semi or anti")
	cmd.Flags().StringSliceVar(&opts.columns, "columns", nil, "columns of the result, by name or number; default: all")
	opts.add(cmd)
	return cmd
}

// side is one of the two tables.
type side struct {
	*table.Table
	keys    []int // columns of the table
	convert []column.Type
	read    []int // columns that are read, each once; keys first
	at      []int // of keys, in read
}

// use is where a column is among those that are read.
func (s *side) use(c int) int {
	at := slices.Index(s.read, c)
	if at < 0 {
		at = len(s.read)
		s.read = append(s.read, c)
	}
	return at
}

// keysOf are the key columns of a batch, in the types that both sides have.
func (s *side) keysOf(columns []column.Column) []column.Column {
	keys := make([]column.Column, len(s.at))
	for i, at := range s.at {
		keys[i] = table.Convert(columns[at], s.convert[i])
	}
	return keys
}

// joined is a column of the result.
type joined struct {
	table.Field
	right bool
	at    int // in what is read of its side
}

func runJoin(ctx context.Context, a *app, o *joinOptions) error {
	if len(o.on) == 0 {
		return usageError{errors.New("join: --on is missing: the columns whose values must be the same")}
	}
	if !slices.Contains(joinKinds, o.kind) {
		return usageError{fmt.Errorf("join --kind %.40q: want %s", o.kind, strings.Join(joinKinds, ", "))}
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
			w := (*table.Widening)(nil)
			if !errors.As(err, &w) || from == nil || !right.Again() || !from.Widen(w) {
				return err
			}
		}
	})
}

// open opens both files. Columns of --text are those of either.
func (o *joinOptions) open(j *tableJob) (left, right *side, err error) {
	sides := [2]*side{}
	known := map[string]bool{}
	for i, name := range o.names {
		t, err := j.open([]string{name}, nil)
		if err != nil {
			return nil, nil, err
		}
		sides[i] = &side{Table: t}
		for _, name := range o.options.Text {
			if c, err := t.Find(name); err == nil {
				known[name] = true
				t.Retype(c, column.Bytes)
			}
		}
	}
	for _, name := range o.options.Text {
		if !known[name] {
			return nil, nil, fmt.Errorf("--text: neither file has a column %.40q", name)
		}
	}
	left, right = sides[0], sides[1]
	for _, on := range o.on {
		a, b, differ := strings.Cut(on, "=")
		if !differ {
			b = a
		}
		l, err := left.Find(a)
		if err != nil {
			return nil, nil, fmt.Errorf("--on %s: %s: %w", on, displayName(o.names[0]), err)
		}
		r, err := right.Find(b)
		if err != nil {
			return nil, nil, fmt.Errorf("--on %s: %s: %w", on, displayName(o.names[1]), err)
		}
		left.keys, right.keys = append(left.keys, l), append(right.keys, r)
	}
	return left, right, nil
}

// agree gives key columns of both sides types that can be compared.
func agree(left, right *side) error {
	left.convert, right.convert = nil, nil
	for i := range left.keys {
		l, r := left.keys[i], right.keys[i]
		lf, rf := left.Fields()[l], right.Fields()[r]
		a, b := table.Converts(left.As(l, false)), table.Converts(right.As(r, false))
		switch {
		case lf.Arrow != nil && rf.Arrow != nil && !alike(lf.Arrow, rf.Arrow):
			return fmt.Errorf("--on: column %s is %v, and %s in the right file is %v", lf.Name, lf.Arrow, rf.Name, rf.Arrow)
		case a == b:
		case !left.Typed() && !right.Typed() && (a == column.Int64 || a == column.Float64) && (b == column.Int64 || b == column.Float64):
			a = column.Float64
			left.Retype(l, a)
			right.Retype(r, a)
		case !left.Typed() && (b == column.Bytes || b == column.Float64 && a == column.Int64):
			a = b
			left.Retype(l, a)
		case !right.Typed() && (a == column.Bytes || a == column.Float64 && b == column.Int64):
			right.Retype(r, a)
		case !left.Typed() && !right.Typed():
			a = column.Bytes
			left.Retype(l, a)
			right.Retype(r, a)
		default:
			return fmt.Errorf("--on: column %s is %v, and %s in the right file is %v", lf.Name, a, rf.Name, b)
		}
		left.convert, right.convert = append(left.convert, a), append(right.convert, a)
	}
	return nil
}

// alike reports whether values of two types are the same if their columns are.
func alike(a, b goarrow.DataType) bool {
	if goarrow.TypeEqual(a, b) {
		return true
	}
	plain := func(t goarrow.DataType) bool {
		if d, ok := t.(*goarrow.DictionaryType); ok {
			t = d.ValueType
		}
		return arrow.Numeric(t) == nil || goarrow.IsBaseBinary(t.ID()) || t.ID() == goarrow.STRING_VIEW || t.ID() == goarrow.BINARY_VIEW || t.ID() == goarrow.BOOL
	}
	return plain(a) && plain(b)
}

// result are the columns of the result.
func (o *joinOptions) result(j *tableJob, left, right *side) ([]joined, error) {
	var all []joined
	names := map[string]bool{}
	for c, f := range left.Fields() {
		names[f.Name] = true
		all = append(all, joined{Field: f, at: c})
	}
	for c, f := range right.Fields() {
		if o.kind == "semi" || o.kind == "anti" || slices.Contains(right.keys, c) {
			continue
		}
		for names[f.Name] {
			f.Name += "_right"
		}
		names[f.Name] = true
		all = append(all, joined{Field: f, right: true, at: c})
	}
	if len(o.columns) > 0 {
		var some []joined
		for _, name := range o.columns {
			at := slices.IndexFunc(all, func(j joined) bool { return j.Name == name })
			var n int
			if _, err := fmt.Sscanf(name, "%d", &n); at < 0 && err == nil && n >= 1 && n <= len(all) && fmt.Sprint(n) == name {
				at = n - 1
			}
			if at < 0 {
				return nil, fmt.Errorf("--columns: no column %.40q in the result", name)
			}
			some = append(some, all[at])
		}
		all = some
	}
	for _, s := range []*side{left, right} {
		s.read, s.at = nil, nil
		for _, key := range s.keys {
			s.at = append(s.at, s.use(key))
		}
	}
	for i := range all {
		s := left
		if all[i].right {
			s = right
		}
		// As they are written: no value can fail to be of its type when half of the output is out.
		if c := all[i].at; !slices.Contains(s.keys, c) && !s.Typed() && !j.json && j.parquet == "" && !o.sortsBy(all[i].Name) {
			s.Retype(c, column.Bytes)
		}
		all[i].at = s.use(all[i].at)
	}
	return all, nil
}

// sortsBy reports whether a column is one of --sort, which has to have its own type then.
func (o *joinOptions) sortsBy(name string) bool {
	return slices.Contains(o.sort, name) || slices.Contains(o.sort, name+":desc")
}

// joinSummary is what weft join --json says besides the rows.
type joinSummary struct {
	tableSummary
	Joined int `json:"joined"`
}

// join reads the right side, and then the left one. An error comes with the side that was being read, nil if output is
// out, so that nothing can be read again.
func (o *joinOptions) join(j *tableJob, left, right *side) (from *side, err error) {
	result, err := o.result(j, left, right)
	if err != nil {
		return nil, err
	}
	if err := agree(left, right); err != nil {
		return nil, err
	}
	fields := make([]table.Field, len(result))
	for i := range result {
		fields[i] = result[i].Field
	}
	if _, err := o.sorts(fields); err != nil {
		return nil, err
	}
	held, err := o.hold(j, right)
	if err != nil {
		return right, err
	}
	ix, err := join.New(j.ctx, j.dev, right.keysOf(held), nil)
	if err != nil {
		return nil, err
	}
	defer ix.Close()
	out, err := j.writer(fields)
	if err != nil {
		return nil, err
	}
	w := &joinWriter{joinOptions: o, out: out, result: result, right: held, fields: fields, held: make([][]column.Column, len(fields))}
	err = j.read(left.Table, left.read, make([]bool, len(left.read)), func(b table.Batch) error {
		return w.batch(j, ix, left.keysOf(b.Columns), b.Columns)
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	if err == nil {
		err = w.finish()
	}
	if err == nil {
		j.done(left.Table, right.Table)
		err = out.close(joinSummary{j.tableSummary, w.n})
	}
	if err == nil {
		return nil, j.say(fmt.Sprintf("%d joined", w.n))
	}
	out.abandon()
	if w.n > 0 && len(o.sort) == 0 {
		return nil, err
	}
	return left, err
}

// hold is all rows of the right side.
func (o *joinOptions) hold(j *tableJob, right *side) ([]column.Column, error) {
	parts := make([][]column.Column, len(right.read))
	for i, c := range right.read {
		parts[i] = []column.Column{table.Empty(right.As(c, false))}
	}
	size := int64(0)
	err := j.read(right.Table, right.read, make([]bool, len(right.read)), func(b table.Batch) error {
		for i, c := range b.Columns {
			parts[i] = append(parts[i], c)
			size += table.Size(c)
		}
		if j.memory > 0 && size > int64(j.memory) {
			return fmt.Errorf("--memory %d is not enough for the columns of the right file, which take %d bytes after %d rows", j.memory, size, j.RowsRead)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	held := make([]column.Column, len(parts))
	for i, p := range parts {
		held[i] = table.Concat(p)
		parts[i] = nil
	}
	return held, nil
}

// errEnough: as many rows as are asked for have been written.
var errEnough = errors.New("enough rows")

// joinWriter writes rows of the result.
type joinWriter struct {
	*joinOptions
	out    *tableOutput
	result []joined
	right  []column.Column
	n      int // rows so far
	rows   []uint32

	// With --sort, the columns of the result so far, and their size.
	fields []table.Field
	held   [][]column.Column
	size   int64
}

// batch joins a batch of the left side.
func (w *joinWriter) batch(j *tableJob, ix *join.Index, keys, left []column.Column) (err error) {
	switch w.kind {
	case "semi":
		if w.rows, err = ix.Semi(j.ctx, keys, w.rows[:0]); err != nil {
			return err
		}
		return w.write(left, join.Pairs{Left: w.rows})
	case "anti":
		if w.rows, err = ix.Anti(j.ctx, keys, w.rows[:0]); err != nil {
			return err
		}
		return w.write(left, join.Pairs{Left: w.rows})
	}
	find := ix.Inner
	if w.kind == "left" {
		find = ix.Left
	}
	for pairs, err := range find(j.ctx, keys) {
		if err != nil {
			return err
		}
		if err := w.write(left, pairs); err != nil {
			return err
		}
	}
	return nil
}

// write writes pairs of rows, until there are enough, or holds them until they are sorted.
func (w *joinWriter) write(left []column.Column, pairs join.Pairs) error {
	sorted := len(w.sort) > 0
	if !sorted && w.top > 0 && len(pairs.Left) >= w.top-w.n {
		pairs.Left = pairs.Left[:w.top-w.n]
		pairs.Right = pairs.Right[:min(len(pairs.Right), w.top-w.n)]
	}
	columns := make([]column.Column, len(w.result))
	for i, c := range w.result {
		if c.right {
			columns[i] = table.Take(w.right[c.at], pairs.Right)
		} else {
			columns[i] = table.Take(left[c.at], pairs.Left)
		}
	}
	w.n += len(pairs.Left)
	if sorted {
		return w.hold(columns)
	}
	if err := w.out.write(columns); err != nil {
		return err
	}
	if w.top > 0 && w.n == w.top {
		return errEnough
	}
	return nil
}

// hold keeps rows that are to be sorted.
func (w *joinWriter) hold(columns []column.Column) error {
	for i, c := range columns {
		w.held[i] = append(w.held[i], c)
		w.size += table.Size(c)
	}
	if w.memory > 0 && w.size > int64(w.memory) {
		return fmt.Errorf("--memory %d is not enough for the result, which is to be sorted and takes %d bytes after %d rows", w.memory, w.size, w.n)
	}
	return nil
}

// finish writes the rows that are held, in their order.
func (w *joinWriter) finish() error {
	if len(w.sort) == 0 || w.n == 0 {
		return nil
	}
	columns := make([]column.Column, len(w.held))
	for i, parts := range w.held {
		columns[i], w.held[i] = table.Concat(parts), nil
	}
	columns, err := w.order(columns, w.fields)
	if err != nil {
		return err
	}
	w.n = columns[0].Len()
	return w.out.write(columns)
}
