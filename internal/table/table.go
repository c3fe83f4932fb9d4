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

// Table is the rows of one or several files, one after the other. Columns of the same name are one
// column. In files without names, columns are matched by their numbers.
type Table struct {
	opts     Options
	sources  []source
	at       [][]int // of each source, the field of each column; -1 or beyond: absent
	columns  []tableColumn
	named    map[string][]int // columns by name, in ascending order
	first    string           // the first file with the same columns in all rows
	typed    bool
	all      bool       // UnknownMember is an error
	reads    []Read     // of the last Batches
	widened  int        // number of Widenings
	filter   *rowFilter // of the next Batches
	selected []Range    // to read; nil: all
	read     atomic.Int64
	reported int64
}

// tableColumn is a column of a table.
type tableColumn struct {
	Field
	fixed   bool         // from the first file that is no JSON
	kinds   kinds        // of text: the kinds of values
	form    Form         // Text or Forced, by options; otherwise Key
	strings *atomic.Bool // a value was a JSON string
}

// source is a file.
type source interface {
	// fields returns the columns of the file, and the kinds of their values. kinds is nil if the
	// file has types.
	fields() []Field
	kinds() []kinds
	// loose reports whether rows may lack columns, and may have others.
	loose() bool
	// member returns the field of a column that unread rows may have; -1: no row has it.
	member(name string) int
	// complete finds the columns of all rows. It returns false if they are known, or the file
	// cannot be read again.
	complete(ctx context.Context) (bool, error)
	// rereadable reports whether batches can be read more than once.
	rereadable() bool
	// ranges cuts the file, and text into parts of some bytes.
	ranges(size int64) ([]Range, error)
	// batches reads columns of a range, given by their fields in the file. If all is set, an
	// unknown column is a UnknownMember.
	batches(ctx context.Context, columns []wanted, all bool, r Range) iter.Seq2[Batch, error]
	close() error
}

// Open reads the beginning of files, and determines their columns. Named pipes wait for their
// writers. Errors name the file. Standard input is stdin.
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

// unite matches the columns of a file to the known ones. The first file adds its own, and JSON adds
// new ones. Other files must have the columns of the first one.
func (t *Table) unite(i int, name string) error {
	s := t.sources[i]
	fields, looks := s.fields(), s.kinds()
	if i == 0 {
		t.typed = looks == nil
	} else if t.typed != (looks == nil) {
		return fmt.Errorf("%s: files whose columns have types do not go together with text", name)
	}
	grows := s.loose() || t.first == ""
	at := make([]int, len(t.columns))
	for c := range at {
		at[c] = -1
	}
	times := map[string]int{} // occurrences of a name: the second of a file is the second of others
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

// sameType reports whether columns of files with types have one type.
func sameType(a, b Field) bool {
	return a.Type == b.Type && (goarrow.TypeEqual(a.Arrow, b.Arrow) || a.Type != column.None && plain(a) && plain(b))
}

// columnNames names a few columns.
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

// Fields returns the columns.
func (t *Table) Fields() []Field {
	fields := make([]Field, len(t.columns))
	for i := range t.columns {
		fields[i] = t.columns[i].Field
		fields[i].Text = t.typed || t.columns[i].form == Text
	}
	return fields
}

// Typed reports whether the files have types of columns.
func (t *Table) Typed() bool { return t.typed }

// ErrNoColumn is the error of a name that no column has.
var ErrNoColumn = errors.New("no column")

// Find returns the column of a name, or of a number from 1 on that is no name. It reads JSON to its
// end, if the column is not a known one.
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

// AddColumn adds a column that no read row has. Only files of JSON may have it in other rows.
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

// Complete finds the columns of all rows, for which it has to read JSON. It reports whether it has
// read any.
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

// All declares that all columns are requested: from now on an unknown column, which JSON may have,
// is a UnknownMember.
func (t *Table) All() { t.all = true }

// Force makes a column Text or Forced.
func (t *Table) Force(i int, form Form) error {
	c := &t.columns[i]
	switch {
	case t.typed:
		return fmt.Errorf("the file says that column %s is %v", c.Name, c.Arrow)
	case c.form != Key && c.form != form:
		return fmt.Errorf("column %s is to be both text and a number", c.Name)
	}
	c.form = form
	return nil
}

// Forced returns the form that Force set for a column, or Key.
func (t *Table) Forced(i int) Form { return t.columns[i].form }

// Read is a column with the form to read it in.
type Read struct {
	Column int
	Form   Form
	// As is the type to read. Values that it does not hold are null. None: the one that holds all
	// values.
	As column.Type
}

// Reading returns a column in a form, unless options or the type of the file determine its form.
// Equal results are the same column.
func (t *Table) Reading(i int, form Form) Read {
	switch {
	case t.typed:
		form = Key
	case t.columns[i].form == Forced:
		form = Forced
	case t.columns[i].form == Text && form != Number && form != Present:
		form = Text
	}
	return Read{Column: i, Form: form}
}

// TypeOf returns the type of a column as it is read, as far as known.
func (t *Table) TypeOf(r Read) column.Type { return cmp.Or(t.typeOf(r), column.Bytes) }

// typeOf is TypeOf, but returns None for a column of text without values.
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

// Literal returns the form in JSON of the values of a column held as text, after it has been read.
// It is number if all are numbers as JSON writes them, NaN and infinities excepted. It is bool if
// they are true and false. Otherwise it is empty: they are strings.
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

// Adapt records a value that did not fit a type, or an unknown column, and returns nil: the table
// can be read again. It returns any other error, and those of files that cannot be read again. At
// the second value it searches all columns that Batches was to read. So a few readings suffice for
// any number of columns.
func (t *Table) Adapt(ctx context.Context, err error) error {
	w, unknown := (*Widening)(nil), (*UnknownMember)(nil)
	switch {
	case !errors.As(err, &w) && !errors.As(err, &unknown) || !t.Rereadable():
		return err
	case w != nil:
		t.columns[w.Column].kinds |= w.of
		if t.widened++; t.widened == 1 { // mostly the only one
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

// Batches reads columns, each once. Rows come in the order of the files. A Widening, a
// UnknownMember, or another error comes with the last batch. Rows that a filter does not pass may
// be left out: see [Table.Filter].
func (t *Table) Batches(ctx context.Context, columns []Read) iter.Seq2[Batch, error] {
	filter := t.filter
	t.reads, t.filter = columns, nil
	return t.batches(ctx, columns, false, filter)
}

// batches is Batches. If look is set, values that do not fit their types are null, and batches hold
// their kinds.
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

// Read returns the number of bytes of files read so far. Bytes that were read again count once.
func (t *Table) Read() int64 { return t.read.Load() }

func display(name string) string {
	if name == Stdin {
		return "standard input"
	}
	return name
}
