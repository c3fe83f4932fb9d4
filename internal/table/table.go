package table

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	goarrow "github.com/apache/arrow-go/v18/arrow"

	"github.com/weftgo/weft/column"
)

// Stdin is the name of standard input.
const Stdin = "-"

// Table combines the rows of several files, one file after the other. Columns with the same name
// are one column. In files without names, columns are matched by number.
type Table struct {
	opts     Options
	sources  []source
	at       [][]int // field of each column in each source; -1 or missing if the source lacks it
	columns  []tableColumn
	named    map[string][]int // columns with each name, in ascending order
	first    string           // name of the first file that has the same columns in all rows
	typed    bool
	all      bool       // unknown members are errors
	reads    []Read     // arguments of the last Batches
	widened  int        // number of Widenings so far
	filter   *rowFilter // filter for the next Batches
	selected []Range    // ranges to read; nil means all
	read     atomic.Int64
	reported int64
}

type tableColumn struct {
	Field
	fixed   bool         // present in the first file that is not JSON
	kinds   kinds        // kinds of values; for text only
	form    Form         // Text or Forced if options or Force set it; otherwise Key
	strings *atomic.Bool // some value was a JSON string
}

// source is a file of a table.
type source interface {
	// fields returns the columns of the file, and kinds the kinds of their values. kinds returns
	// nil if the file states types.
	fields() []Field
	kinds() []kinds
	// loose reports whether rows may lack columns or have additional ones.
	loose() bool
	// member returns the index of the field with a name, if unread rows may have it, and otherwise
	// -1.
	member(name string) int
	// complete finds the columns of all rows. It returns false if they are known already, or if the
	// file cannot be read again.
	complete(ctx context.Context) (bool, error)
	// rereadable reports whether batches can be read more than once.
	rereadable() bool
	// ranges splits the file. Ranges of text have about size bytes.
	ranges(size int64) ([]Range, error)
	// batches reads columns of a range. If all is set, an unknown member is an UnknownMember error.
	batches(ctx context.Context, columns []wanted, all bool, r Range) iter.Seq2[Batch, error]
	close() error
}

// Open opens files, reads their beginnings, and determines their columns. It waits for writers of
// named pipes. The name Stdin means stdin. Errors name the file.
func Open(ctx context.Context, names []string, stdin io.Reader, opts *Options) (_ *Table, err error) {
	t := &Table{named: map[string][]int{}}
	if opts != nil {
		t.opts = *opts
	}
	if t.opts.Files == nil {
		t.opts.Files = osFiles{}
	}
	t.opts.Workers = cmp.Or(t.opts.Workers, min(runtime.GOMAXPROCS(0), maxWorkers))
	t.opts.BlockSize = cmp.Or(t.opts.BlockSize, blockSize)
	t.opts.first = cmp.Or(t.opts.first, firstBlock)
	t.opts.maxRow = cmp.Or(t.opts.maxRow, maxRow)
	t.opts.MaxBytes = cmp.Or(t.opts.MaxBytes, 4<<30)
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Close())
		}
	}()
	for i, name := range names {
		s, err := t.open(ctx, name, stdin)
		if err != nil {
			return nil, err
		}
		t.sources, t.at = append(t.sources, s), append(t.at, nil)
		if err := t.unite(i, display(name)); err != nil {
			return nil, err
		}
	}
	for _, flag := range []struct {
		name    string
		columns []string
		form    Form
	}{{"--text", t.opts.Text, Text}, {"--number", t.opts.Number, Forced}} {
		for _, name := range flag.columns {
			i, err := t.Find(ctx, name)
			if err == nil {
				err = t.Force(i, flag.form)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", flag.name, err)
			}
		}
	}
	return t, nil
}

// Close closes the files.
func (t *Table) Close() error {
	var errs []error
	for _, s := range t.sources {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

// unite matches the columns of a file to the known columns. The first file adds all of its columns,
// and JSON files add new ones. Other files must have the columns of the first file.
func (t *Table) unite(i int, name string) error {
	s := t.sources[i]
	fields, looks := s.fields(), s.kinds()
	if i == 0 {
		t.typed = looks == nil
	} else if t.typed != (looks == nil) {
		return fmt.Errorf("%s: files with types of columns cannot be combined with text files",
			name)
	}
	grows := s.loose() || t.first == ""
	at := make([]int, len(t.columns))
	for c := range at {
		at[c] = -1
	}
	// number of occurrences of each name; the nth columns with a name match
	times := map[string]int{}
	var more []string
	for f, field := range fields {
		n := times[field.Name]
		times[field.Name]++
		c := len(t.columns)
		if known := t.named[field.Name]; n < len(known) {
			c = known[n]
		} else if grows {
			t.columns = append(t.columns, tableColumn{Field: field, strings: new(atomic.Bool)})
			t.named[field.Name] = append(known, c)
			at = append(at, f)
		}
		if c == len(t.columns) || !grows && !t.columns[c].fixed {
			more = append(more, field.Name)
			continue
		}
		at[c] = f
		known := &t.columns[c]
		known.fixed = known.fixed || !s.loose()
		switch {
		case looks != nil:
			known.kinds |= looks[f]
		case !sameType(field, known.Field):
			return fmt.Errorf("%s: column %s is %v, and %v in %s", name, field.Name, field.Arrow, known.Arrow, t.first)
		}
	}
	t.at[i] = at
	if s.loose() {
		return nil
	}
	if t.first == "" {
		t.first = name
	}
	var less []string
	for c := range t.columns {
		if t.columns[c].fixed && at[c] < 0 {
			less = append(less, t.columns[c].Name)
		}
	}
	switch {
	case len(less) > 0:
		return fmt.Errorf("%s: no %s, which %s has", name, columnNames(less), t.first)
	case len(more) > 0:
		return fmt.Errorf("%s: %s, which %s does not have", name, columnNames(more), t.first)
	}
	return nil
}

func sameType(a, b Field) bool {
	return a.Type == b.Type && (goarrow.TypeEqual(a.Arrow, b.Arrow) || a.Type != column.None && plain(a) && plain(b))
}

// columnNames lists names, but at most five.
func columnNames(names []string) string {
	const maxNames = 5
	word, rest := "column ", ""
	if len(names) > 1 {
		word = "columns "
	}
	if len(names) > maxNames {
		rest = fmt.Sprintf(" and %d more", len(names)-maxNames)
	}
	return word + strings.Join(names[:min(len(names), maxNames)], ", ") + rest
}

// Fields returns the columns of the table.
func (t *Table) Fields() []Field {
	fields := make([]Field, len(t.columns))
	for i := range t.columns {
		fields[i] = t.columns[i].Field
		fields[i].Text = t.typed || t.columns[i].form == Text
	}
	return fields
}

// Typed reports whether the files state the types of columns.
func (t *Table) Typed() bool { return t.typed }

// ErrNoColumn means that no column has the given name.
var ErrNoColumn = errors.New("no column")

// Find returns the index of the column with a name. If no column has the name, it may be a column
// number, counted from 1. If the column is still unknown, Find reads JSON files completely to
// search for it.
func (t *Table) Find(ctx context.Context, name string) (int, error) {
	i, err := t.find(name)
	if !errors.Is(err, ErrNoColumn) {
		return i, err
	}
	if grown, err := t.Complete(ctx); err != nil {
		return 0, err
	} else if grown {
		return t.find(name)
	}
	return i, err
}

func (t *Table) find(name string) (int, error) {
	switch is := t.named[name]; {
	case len(is) == 1:
		return is[0], nil
	case len(is) > 1:
		return 0, fmt.Errorf("columns %d and %d are both called %.40q: use the number", is[0]+1, is[1]+1, name)
	}
	if n, err := strconv.Atoi(name); err == nil && n >= 1 && n <= len(t.columns) {
		return n - 1, nil
	}
	var names []string
	for _, f := range t.columns[:min(len(t.columns), 20)] {
		names = append(names, f.Name)
	}
	return 0, fmt.Errorf("%w %.40q; the %d columns are %s", ErrNoColumn, name, len(t.columns), strings.Join(names, ", "))
}

// AddColumn adds a column that no row read so far has. All files must be JSON, because only JSON
// rows may have it.
func (t *Table) AddColumn(name string) (int, error) {
	for _, s := range t.sources {
		if !s.loose() {
			return 0, fmt.Errorf("%w %.40q", ErrNoColumn, name)
		}
	}
	c := len(t.columns)
	t.columns = append(t.columns, tableColumn{Field: Field{Name: name}, strings: new(atomic.Bool)})
	t.named[name] = append(t.named[name], c)
	return c, nil
}

// Complete finds the columns of all rows. It reports whether it had to read JSON files for that.
func (t *Table) Complete(ctx context.Context) (grown bool, err error) {
	for i, s := range t.sources {
		read, err := s.complete(ctx)
		if err != nil {
			return false, err
		}
		if read {
			grown = true
			if err := t.unite(i, ""); err != nil {
				return false, err
			}
		}
	}
	return grown, nil
}

// All declares that all columns are requested. From then on, an unknown member of JSON is an
// UnknownMember error.
func (t *Table) All() { t.all = true }

// Force sets the form of a column to Text or Forced.
func (t *Table) Force(i int, form Form) error {
	c := &t.columns[i]
	switch {
	case t.typed:
		return fmt.Errorf("the file says that column %s is %v", c.Name, c.Arrow)
	case c.form != Key && c.form != form:
		return fmt.Errorf("column %s cannot be both text and a number", c.Name)
	}
	c.form = form
	return nil
}

// Forced returns the form that Force set for a column, or Key.
func (t *Table) Forced(i int) Form { return t.columns[i].form }

// Read is a column to read and its form.
type Read struct {
	Column int
	Form   Form
	// As is the type of the values. Values that do not fit become null. None selects a type that
	// holds all values.
	As column.Type
}

// Reading returns a column with its form. Options and typed files override the given form. If two
// forms give equal Reads, the column needs to be read only once.
func (t *Table) Reading(i int, form Form) Read {
	switch {
	case t.typed:
		form = Key
	case t.columns[i].form == Forced:
		form = Forced
	case t.columns[i].form == Text && form != Number && form != Present && form != Truth:
		form = Text
	}
	return Read{Column: i, Form: form}
}

// TypeOf returns the type of the column to read, according to the values so far.
func (t *Table) TypeOf(r Read) column.Type { return cmp.Or(t.typeOf(r), column.Bytes) }

// typeOf is like TypeOf, but returns None for text without values.
func (t *Table) typeOf(r Read) column.Type {
	switch c := &t.columns[r.Column]; {
	case t.typed:
		return c.Type
	case r.As != column.None:
		return r.As
	default:
		return r.Form.typ(c.kinds)
	}
}

// Literal returns the JSON type of a text column, after it has been read. It is "number" if all
// values are JSON numbers, NaN or infinities. It is "bool" if all values are true or false.
// Otherwise it is empty, and the values are strings.
func (t *Table) Literal(i int, found *Literals) string {
	c := &t.columns[i]
	if t.typed || c.form == Text || c.strings.Load() || found.text {
		return ""
	}
	return found.of
}

// Rereadable reports whether the files can be read more than once.
func (t *Table) Rereadable() bool {
	return !slices.ContainsFunc(t.sources, func(s source) bool { return !s.rereadable() })
}

// Adapt handles an error of Batches. For a Widening or an UnknownMember it records the value or
// member and returns nil. The caller then reads the table again. Adapt returns any other error, and
// any error of files that cannot be read again.
//
// At the second Widening, Adapt examines all columns that Batches was to read. A few readings
// therefore suffice for any number of columns.
func (t *Table) Adapt(ctx context.Context, err error) error {
	w, unknown := (*Widening)(nil), (*UnknownMember)(nil)
	switch {
	case !errors.As(err, &w) && !errors.As(err, &unknown) || !t.Rereadable():
		return err
	case w != nil:
		t.columns[w.Column].kinds |= w.of
		if t.widened++; t.widened == 1 { // usually the only one
			return nil
		}
		for batch, err := range t.batches(ctx, t.reads, true, nil) {
			if err != nil {
				return err
			}
			for i, k := range batch.looks {
				t.columns[t.reads[i].Column].kinds |= k
			}
		}
		return nil
	}
	if grown, failed := t.Complete(ctx); failed != nil || !grown {
		return cmp.Or(failed, err)
	}
	return nil
}

// Batches reads the given columns, which must be distinct. Rows are in the order of the files. An
// error comes with the last batch. It may be a Widening or an UnknownMember; see [Table.Adapt].
// Rows that a filter rejects may be omitted; see [Table.Filter].
func (t *Table) Batches(ctx context.Context, columns []Read) iter.Seq2[Batch, error] {
	filter := t.filter
	t.reads, t.filter = columns, nil
	return t.batches(ctx, columns, false, filter)
}

// batches implements Batches. If look is set, values that do not fit their type become null, and
// batches contain the kinds of these values.
func (t *Table) batches(ctx context.Context, columns []Read, look bool,
	filter *rowFilter) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		for _, in := range t.selectedRanges() {
			k, s := in.File, t.sources[in.File]
			want := make([]wanted, len(columns))
			for i, r := range columns {
				c := &t.columns[r.Column]
				want[i] = wanted{name: c.Name, index: r.Column, field: -1, seen: c.kinds, strings: c.strings, look: look}
				if r.Column < len(t.at[k]) {
					want[i].field = t.at[k][r.Column]
				}
				if want[i].field < 0 {
					want[i].field = s.member(c.Name)
				}
				want[i].typ, want[i].form, want[i].fixed = t.typeOf(r), r.Form, r.As != column.None
			}
			for batch, err := range countRows(in, filter.read(ctx, s, want, t.all && !look, in)) {
				read := t.read.Load()
				batch.Bytes = int(read - t.reported)
				t.reported = read
				if !yield(batch, err) || err != nil {
					return
				}
			}
		}
	}
}

// Read returns the number of file bytes read so far. Bytes that were read several times count once.
func (t *Table) Read() int64 { return t.read.Load() }

func display(name string) string {
	if name == Stdin {
		return "standard input"
	}
	return name
}
