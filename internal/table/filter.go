package table

import (
	"context"
	"iter"

	"github.com/weftgo/weft/arrow/parquet"
	"github.com/weftgo/weft/column"
)

// Filter makes the next call of [Table.Batches], and no other, leave out rows that f does not pass,
// such as a [github.com/weftgo/weft/join.Filter]. Key i of f is the column at[i] that is read, as
// [Convert] returns it in type as[i]. Parquet files do not decode rows that they can pass over; see
// [parquet.File.Filtered]. Of other files all rows are decoded before rows are left out. Rows that
// do not match may stay: if most rows pass, f is not called for each.
//
// [Batch.Rows] and [Table.Read] count the rows that are left out as read.
func (t *Table) Filter(f parquet.Filter, at []int, as []column.Type) {
	t.filter = &rowFilter{f, at, as}
}

// rowFilter holds the arguments of Filter. The nil pointer passes all rows.
type rowFilter struct {
	filter parquet.Filter
	at     []int
	as     []column.Type
}

// MayContain implements [parquet.Filter] for the columns of a file.
func (f *rowFilter) MayContain(i int, bounds column.Column, nulls bool) bool {
	// Convert makes nulls of negative integers, which bounds do not cover.
	nulls = nulls || f.as[i] == column.Uint64 && bounds.Type() != column.Uint64
	return f.filter.MayContain(i, Convert(bounds, f.as[i]), nulls)
}

// Select implements [parquet.Filter].
func (f *rowFilter) Select(keys []column.Column, rows []uint32) ([]uint32, error) {
	converted := make([]column.Column, len(keys))
	for i, c := range keys {
		converted[i] = Convert(c, f.as[i])
	}
	return f.filter.Select(converted, rows)
}

// read reads a file, and leaves out rows.
func (f *rowFilter) read(ctx context.Context, s source, columns []wanted,
	all bool, r Range) iter.Seq2[Batch, error] {
	if f == nil {
		return s.batches(ctx, columns, all, r)
	}
	if s, ok := s.(*typed); ok && s.filtered != nil && !r.ranged() {
		return s.checked(ctx, columns,
			func() iter.Seq2[Batch, error] { return s.filtered(ctx, columns, f) })
	}
	return f.drop(s.batches(ctx, columns, all, r))
}

// passes is the number of batches that come with all rows after most rows of one passed.
const passes = 7

// drop leaves out rows of batches.
func (f *rowFilter) drop(batches iter.Seq2[Batch, error]) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		var rows []uint32
		pass := 0
		for batch, err := range batches {
			if pass > 0 || err != nil {
				pass--
			} else if rows, err = f.dropRows(&batch, rows[:0]); err == nil &&
				len(rows) > batch.Rows/4*3 {
				pass = passes
			}
			if !yield(batch, err) || err != nil {
				return
			}
		}
	}
}

// dropRows leaves out rows of a batch, unless most pass, and returns those that do.
func (f *rowFilter) dropRows(batch *Batch, rows []uint32) ([]uint32, error) {
	keys := make([]column.Column, len(f.at))
	for i, at := range f.at {
		keys[i] = batch.Columns[at]
	}
	rows, err := f.Select(keys, rows)
	if err != nil || len(rows) > batch.Rows/4*3 {
		return rows, err
	}
	columns := make([]column.Column, len(batch.Columns))
	for i, c := range batch.Columns {
		columns[i] = Take(c, rows)
	}
	batch.Columns = columns
	return rows, nil
}
