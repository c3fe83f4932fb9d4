package beam

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	goarrow "github.com/apache/arrow-go/v18/arrow"
	sdk "github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	tables "github.com/weftgo/weft/internal/table"
)

var (
	rowsRead = sdk.NewCounter("weft", "rows_read")
	badLines = sdk.NewCounter("weft", "bad_lines")
)

// rangeRows is the DoFn that reads the rows of ranges.
type rangeRows struct {
	Plan readPlan

	schema *goarrow.Schema
	file   openFile
}

type openFile struct {
	*tables.Table
	name  string
	reads []tables.Read // columns to read that the file has
	input []int         // index in reads of each column of the plan; -1 if the file lacks it
}

// ProcessElement emits the rows of a range as blocks.
func (f *rangeRows) ProcessElement(
	ctx context.Context, r readRange, emit func([]byte),
) (err error) {
	defer func() { err = printable(err) }()
	if err := f.open(ctx, r.File); err != nil {
		return fmt.Errorf("beam: read %w", errors.Join(err, f.Teardown()))
	}
	rows := 0
	f.file.SelectRanges([]tables.Range{{Lo: r.Lo, Hi: r.Hi}})
	for b, err := range f.file.Batches(ctx, f.file.reads) {
		if err != nil {
			return fmt.Errorf("beam: read %w", explain(err))
		}
		rows += b.Rows
		rowsRead.Inc(ctx, int64(b.Rows))
		badLines.Inc(ctx, int64(b.Skipped))
		if err := f.emit(r, &b, emit); err != nil {
			return fmt.Errorf("beam: read %s: %w", r.File.Name, err)
		}
	}
	f.countStrings(ctx)
	if rows > 0 || r.Number > 0 {
		return nil
	}
	// A block without rows carries the schema.
	blocks, err := encodeColumns(make([]column.Column, f.schema.NumFields()), f.schema)
	for _, block := range blocks {
		emit(block)
	}
	return err
}

// countStrings counts, for each text column, the ranges with JSON strings that look like numbers.
// JSON output must quote such text. The metric is called weft/strings:NAME, with the name in
// blocks.
func (f *rangeRows) countStrings(ctx context.Context) {
	number := &tables.Literals{}
	number.Add(column.OfStrings([]string{"1"}))
	for i, in := range f.file.input {
		if in < 0 || f.Plan.Typed || f.Plan.Reads[i].Type != column.Bytes {
			continue
		}
		if f.file.Literal(f.file.reads[in].Column, number) == "" {
			sdk.NewCounter("weft", "strings:"+strings.ToValidUTF8(f.schema.Field(i).Name, "\ufffd")).Inc(ctx, 1)
		}
	}
}

// explain adds to an error of package table, which names command flags, the fields of ReadOptions
// that correspond.
func explain(err error) error {
	if errors.As(err, new(*tables.Widening)) {
		return fmt.Errorf("%w; types come from the first files, and ReadOptions.Text and Number, "+
			"as --text and --number, give a column its type", err)
	}
	if errors.As(err, new(*tables.UnknownMember)) {
		return fmt.Errorf("%w, in ReadOptions.Columns", err)
	}
	return err
}

func (f *rangeRows) emit(r readRange, b *tables.Batch, emit func([]byte)) error {
	columns := make([]column.Column, 0, len(f.Plan.Reads)+1)
	for i, in := range f.file.input {
		if in < 0 {
			none, err := nulls(f.Plan.Reads[i].Type, b.Rows)
			if err != nil {
				return err
			}
			columns = append(columns, none)
			continue
		}
		columns = append(columns, b.Columns[in])
	}
	if f.Plan.Options.Ordinals != "" {
		ordinals, err := r.ordinals(b)
		if err != nil {
			return err
		}
		columns = append(columns, ordinals)
	}
	blocks, err := encodeColumns(columns, f.schema)
	for _, block := range blocks {
		emit(block)
	}
	return err
}

func nulls(t column.Type, n int) (column.Column, error) {
	return column.Concat(slices.Repeat([]column.Column{nullOf(t)}, n)...)
}

// The upper 24 bits of an ordinal are the file, and the other 40 the range and its row.
const (
	fileBits = 24
	rowBits  = 64 - fileBits
)

func (r *readRange) ordinals(b *tables.Batch) (c column.Column, err error) {
	// number of bits for the index of a row in its range
	shift := rowBits - bits.Len(uint(r.Count-1))
	if b.At+uint64(b.Rows) > 1<<shift || r.File.Number >= 1<<fileBits {
		return c, fmt.Errorf("%w: more than %d rows in one of %d ranges, or more than %d files, "+
			"too many for ordinals; leave Ordinals out", weft.ErrOptions, uint64(1)<<shift,
			r.Count, 1<<fileBits)
	}
	at := uint64(r.File.Number)<<rowBits | uint64(r.Number)<<shift | b.At
	values := make([]uint64, b.Rows)
	for i := range values {
		values[i] = at + uint64(i)
	}
	return column.Of(values), nil
}

// Teardown closes the file.
func (f *rangeRows) Teardown() error {
	if f.file.Table == nil {
		return nil
	}
	t := f.file.Table
	f.file = openFile{}
	return t.Close()
}

// open opens a file, unless it is already open, and finds the columns of the plan in it.
func (f *rangeRows) open(ctx context.Context, file readFile) (err error) {
	if f.file.name == file.Name && f.file.Table != nil {
		return nil
	}
	if err := f.Teardown(); err != nil {
		return err
	}
	if f.schema == nil {
		if f.schema, err = decodeSchema(f.Plan.Schema); err != nil {
			return err
		}
	}
	opts, err := f.Plan.Options.table()
	if err != nil {
		return err
	}
	t, err := tables.Open(ctx, []string{file.Name}, nil, opts)
	if err != nil {
		return err
	}
	f.file = openFile{Table: t, name: file.Name}
	if file.Number >= f.Plan.Sampled && !f.Plan.same(t) {
		// Package table compares the columns of both files, except members that JSON may lack.
		opened, err := tables.Open(ctx, []string{f.Plan.First, file.Name}, nil, opts)
		if err == nil {
			err = opened.Close()
		}
		if err != nil {
			return err
		}
	}
	return f.adopt()
}

// same reports whether a table has the columns of the plan.
func (p *readPlan) same(t *tables.Table) bool {
	return t.Typed() == p.Typed && slices.EqualFunc(t.Fields(), p.Fields,
		func(f tables.Field, known readField) bool {
			return f.Name == known.Name && (!p.Typed || f.Arrow.String() == known.Arrow)
		})
}

// adopt finds the columns of the plan in a file, and sets their types to the types in the plan.
func (f *rangeRows) adopt() error {
	p, o := &f.Plan, &f.file
	at, err := f.columns()
	if err != nil {
		return err
	}
	looks := make([]uint64, len(o.Fields()))
	for i, c := range at {
		if c < 0 {
			continue
		}
		looks[c] = p.Fields[i].Looks
		if form := p.Fields[i].Force; form == tables.Text || form == tables.Forced {
			if err := o.Force(c, form); err != nil {
				return err
			}
		}
	}
	if err := o.Adopt(looks); err != nil {
		return err
	}
	of := map[tables.Read]int{} // a column is read once per form
	for _, in := range p.Reads {
		c := at[in.Field]
		if c < 0 {
			o.input = append(o.input, -1)
			continue
		}
		r := tables.Read{Column: c, Form: in.Form}
		if t := o.TypeOf(r); t != in.Type {
			return fmt.Errorf("%s: column %s is %v, and %v in the first %d files, where types "+
				"come from; ReadOptions.Text and Number, as --text and --number, give a column its type",
				o.name, p.Fields[in.Field].Name, t, in.Type, p.Sampled)
		}
		if _, ok := of[r]; !ok {
			of[r] = len(o.reads)
			o.reads = append(o.reads, r)
		}
		o.input = append(o.input, of[r])
	}
	return nil
}

// columns returns the index in the file of each field of the plan. The index is -1 if the file
// lacks the field and the field is not read. If the file lacks a field that is read, columns adds
// it to the file, because a JSON member may first occur in rows that were not examined.
func (f *rangeRows) columns() ([]int, error) {
	p, o := &f.Plan, &f.file
	at, found := p.find(o.Fields())
	for _, in := range p.Reads {
		if at[in.Field] >= 0 {
			continue
		}
		c, err := o.AddColumn(p.Fields[in.Field].Name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w, which the first %d files have", o.name, err, p.Sampled)
		}
		at[in.Field], found = c, append(found, true)
	}
	if len(p.Options.Columns) > 0 && !p.Options.All {
		return at, nil
	}
	o.All()
	for i, c := range o.Fields() {
		if !found[i] {
			return nil, fmt.Errorf("%s: member %.40q is not in the beginning of the first %d "+
				"files, where columns come from; name columns, in ReadOptions.Columns", o.name, c.Name,
				p.Sampled)
		}
	}
	return at, nil
}

// find returns, for each field of the plan, its index in fields, or -1. found[i] reports whether
// the plan has fields[i].
func (p *readPlan) find(fields []tables.Field) (at []int, found []bool) {
	at, found = slices.Repeat([]int{-1}, len(p.Fields)), make([]bool, len(fields))
	type key struct {
		name string
		nth  int
	}
	index, nth := map[key]int{}, map[string]int{}
	for i, f := range fields {
		index[key{f.Name, nth[f.Name]}] = i
		nth[f.Name]++
	}
	for i, f := range p.Fields {
		if c, ok := index[key{f.Name, f.Nth}]; ok {
			at[i], found[c] = c, true
		}
	}
	return at, found
}
