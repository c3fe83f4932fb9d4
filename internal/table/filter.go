package table

import (
	"context"
	"iter"

	"github.com/weftgo/weft/arrow/parquet"
	"github.com/weftgo/weft/column"
)

// Filter makes the next call of [Table.Batches] omit rows that f rejects, such as a
// [github.com/weftgo/weft/join.Filter]. Key i of f is the requested column at[i], converted to type
// as[i] by [Convert]. Parquet files can skip rejected rows without decoding them; see
// [parquet.File.Filtered]. For other files, all rows are decoded first. Some rejected rows may
// remain: if most rows of a batch pass, the next batches are not filtered.
//
// [Batch.Rows] and [Table.Read] include omitted rows.
func (t *Table) Filter(f parquet.Filter, at []int, as []column.Type) {
	t.filter = &rowFilter{f, at, as}
}

// rowFilter holds the arguments of Filter. A nil *rowFilter passes all rows.
type rowFilter struct {
	filter parquet.Filter
	at     []int
	as     []column.Type
}

// MayContain implements [parquet.Filter]. It converts the bounds.
func (f *rowFilter) MayContain(i int, bounds column.Column, nulls bool) bool {
	// Convert turns negative integers into nulls, which bounds do not include.
	nulls = nulls || f.as[i] == column.Uint64 && bounds.Type() != column.Uint64
	return f.filter.MayContain(i, Convert(bounds, f.as[i]), nulls)
}

// Select implements [parquet.Filter]. It converts the keys.
func (f *rowFilter) Select(keys []column.Column, rows []uint32) ([]uint32, error) {
	converted := make([]column.Column, len(keys))
	for i, c := range keys {
		converted[i] = Convert(c, f.as[i])
	}
	return f.filter.Select(converted, rows)
}

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

// passes is the number of batches that are not filtered after most rows of a batch have passed.
const passes = 7

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

// dropRows returns the rows of a batch that pass. It omits the others, unless most rows pass.
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
