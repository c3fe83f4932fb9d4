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

	"github.com/weftgo/weft/column"
)

// Stdin is the name of standard input.
const Stdin = "-"

// Table is the rows of one or several files, one after the other, which have columns of the same
// names; without names, as many columns.
type Table struct {
	opts    Options
	sources []source
	fields  []Field
	kinds   []kinds       // of text: what values look like
	widened []column.Type // None: the type that was found
	read    atomic.Int64  // bytes of files
	told    int64
}

// source is a file.
type source interface {
	// fields are the columns of the file; kinds what their values look like, nil if the file has types.
	fields() []Field
	kinds() []kinds
	// again reports whether batches can be read more than once.
	again() bool
	// batches reads columns, whose fields are those of the file.
	batches(ctx context.Context, columns []wanted) iter.Seq2[Batch, error]
	close() error
}

// Open looks at the beginning of files, and finds out what columns they have. Named pipes wait for their
// writers. Errors name the file. Standard input is stdin.
func Open(ctx context.Context, names []string, stdin io.Reader, opts *Options) (_ *Table, err error) {
	t := &Table{}
	if opts != nil {
		t.opts = *opts
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
	for _, name := range names {
		s, err := t.open(ctx, name, stdin)
		if err != nil {
			return nil, err
		}
		t.sources = append(t.sources, s)
		if err := t.unite(name, s); err != nil {
			return nil, err
		}
	}
	t.widened = make([]column.Type, len(t.fields))
	for _, name := range t.opts.Text {
		i, err := t.Find(name)
		if err != nil {
			return nil, fmt.Errorf("--text: %w", err)
		}
		t.widened[i] = column.Bytes
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

// unite adds the columns of a file to those of the files before it.
func (t *Table) unite(name string, s source) error {
	fields, looks := s.fields(), s.kinds()
	if len(t.sources) == 1 {
		t.fields, t.kinds = slices.Clone(fields), slices.Clone(looks)
		return nil
	}
	if (looks == nil) != (t.kinds == nil) {
		return fmt.Errorf("%s: files whose columns have types do not go together with text", display(name))
	}
	for i := range t.fields {
		at := place(fields, t.fields[i].Name)
		if at < 0 {
			return fmt.Errorf("%s: no column %s, which the first file has", display(name), t.fields[i].Name)
		}
		switch f := fields[at]; {
		case looks != nil:
			t.kinds[i] |= looks[at]
			t.fields[i].Type = t.kinds[i].typ()
		case f.Type != t.fields[i].Type || f.Arrow.ID() != t.fields[i].Arrow.ID():
			return fmt.Errorf("%s: column %s is %v, and %v in the first file", display(name), f.Name, f.Arrow, t.fields[i].Arrow)
		}
	}
	return nil
}

// place is where a column of a name is, -1 if there is none.
func place(fields []Field, name string) int {
	return slices.IndexFunc(fields, func(f Field) bool { return f.Name == name })
}

// Fields are the columns, with the types that their values have as far as is known.
func (t *Table) Fields() []Field {
	fields := slices.Clone(t.fields)
	for i, w := range t.widened {
		fields[i].Type = cmp.Or(w, fields[i].Type)
	}
	return fields
}

// Typed reports whether the files say which types their columns have.
func (t *Table) Typed() bool { return t.kinds == nil }

// Find is the column of a name, or of a number from 1 on that is no name.
func (t *Table) Find(name string) (int, error) {
	if i := place(t.fields, name); i >= 0 {
		return i, nil
	}
	if n, err := strconv.Atoi(name); err == nil && n >= 1 && n <= len(t.fields) {
		return n - 1, nil
	}
	var names []string
	for _, f := range t.fields[:min(len(t.fields), 20)] {
		names = append(names, f.Name)
	}
	return 0, fmt.Errorf("no column %.40q; there are %d: %s", name, len(t.fields), strings.Join(names, ", "))
}

// As is the type that a column is read with: as a number if it is to be one.
func (t *Table) As(i int, number bool) column.Type {
	switch {
	case t.kinds != nil && number && t.widened[i] != column.Float64:
		return t.kinds[i].numberType()
	case t.kinds != nil && number:
		return column.Float64
	}
	return cmp.Or(t.widened[i], t.fields[i].Type)
}

// Retype has a column of text read as another type from now on.
func (t *Table) Retype(i int, to column.Type) { t.widened[i] = to }

// Again reports whether the files can be read more than once.
func (t *Table) Again() bool {
	return !slices.ContainsFunc(t.sources, func(s source) bool { return !s.again() })
}

// Widen takes note of a value that a type did not have, so that all can be read again; false if
// that is not possible.
func (t *Table) Widen(w *Widening) bool {
	if !t.Again() {
		return false
	}
	t.widened[w.Column] = w.To
	return true
}

// Batches reads columns by their numbers, each once; those that are to be numbers have a true in number. Rows come
// in the order of the files. A Widening, or another error, comes with the last batch.
func (t *Table) Batches(ctx context.Context, columns []int, number []bool) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		for _, s := range t.sources {
			fields := s.fields()
			want := make([]wanted, len(columns))
			for i, c := range columns {
				want[i] = wanted{name: t.fields[c].Name, index: c, field: place(fields, t.fields[c].Name)}
				want[i].typ, want[i].number = t.As(c, number[i]), number[i]
			}
			for batch, err := range s.batches(ctx, want) {
				read := t.read.Load()
				batch.Bytes = int(read - t.told)
				t.told = read
				if !yield(batch, err) || err != nil {
					return
				}
			}
		}
	}
}

// Read is the number of bytes of files that have been read so far, again where that was necessary.
func (t *Table) Read() int64 { return t.read.Load() }

func display(name string) string {
	if name == Stdin {
		return "standard input"
	}
	return name
}
