package arrow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"runtime"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/weftgo/weft/column"
)

// Parquet is a file of columns. Its methods may be called at the same time, if the reader of the
// file allows that; iterations of one and the same goroutine read one after the other.
type Parquet struct {
	file   *file.Reader
	reader *pqarrow.FileReader
	schema *arrow.Schema
}

// maxPage is how large a page of a file may be, in bytes: writers make them of a megabyte.
const maxPage = 1 << 30

// OpenParquet opens a file of size bytes and reads what it says of itself. The caller closes the
// file. What is no Parquet file, or a damaged one, is an error, here or where it is read.
func OpenParquet(r io.ReaderAt, size int64) (p *Parquet, err error) {
	defer caught(&err, "open Parquet file")
	props := parquet.NewReaderProperties(memory.DefaultAllocator)
	props.MaxCompressedPageSize, props.MaxUncompressedPageSize = maxPage, maxPage
	f, err := file.NewParquetReader(io.NewSectionReader(r, 0, size), file.WithReadProps(props))
	if err != nil {
		return nil, fmt.Errorf("arrow: open Parquet file: %w", err)
	}
	if schema := f.MetaData().KeyValueMetadata().FindValue("ARROW:schema"); schema != nil {
		if err := checkSchema(*schema); err != nil {
			return nil, fmt.Errorf("arrow: open Parquet file: %w", err)
		}
	}
	// Goroutines of arrow-go decode nothing: nobody could catch what they panic with. Ours do.
	reader, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{BatchSize: batchRows}, memory.DefaultAllocator)
	if err != nil {
		return nil, fmt.Errorf("arrow: open Parquet file: %w", err)
	}
	schema, err := reader.Schema()
	if err != nil {
		return nil, fmt.Errorf("arrow: open Parquet file: %w", err)
	}
	return &Parquet{file: f, reader: reader, schema: schema}, nil
}

// batchRows bounds the rows of a batch: enough that decoding them costs more than a call.
const batchRows = 1 << 17

// Schema is the schema of the file, nested fields among it.
func (p *Parquet) Schema() *arrow.Schema { return p.schema }

// Rows is how many rows there are, of all row groups.
func (p *Parquet) Rows() int64 { return p.file.NumRows() }

// RowGroups is how many row groups there are.
func (p *Parquet) RowGroups() int { return p.file.NumRowGroups() }

// Columns reads fields by their numbers in the schema, one row group after the other, in batches of at most
// 128 Ki rows: a column for each field, in the order asked for. Other columns of the file are not read. The
// memory of a batch is its own. Nested fields are an error, and so are row groups whose columns have
// different lengths.
//
// All cores decode: the next row groups, as long as they have less than 256 MiB together, or columns of one apart from each other,
// of each some two batches ahead. They have ended when the iteration has.
func (p *Parquet) Columns(ctx context.Context, fields ...int) iter.Seq2[[]column.Column, error] {
	return p.columns(ctx, runtime.GOMAXPROCS(0), fields)
}

// columns is Columns on some cores.
func (p *Parquet) columns(ctx context.Context, cores int, fields []int) iter.Seq2[[]column.Column, error] {
	return func(yield func([]column.Column, error) bool) {
		group := func(group int) iter.Seq2[[]column.Column, error] { return p.RowGroup(ctx, group, fields...) }
		if cores > 1 && p.RowGroups()*len(fields) > 1 {
			a := p.ahead(ctx, fields, cores)
			defer a.stop()
			group = a.group
		}
		for g := range p.RowGroups() {
			for batch, err := range group(g) {
				if !yield(batch, err) || err != nil {
					return
				}
			}
		}
	}
}

// RowGroup reads fields of one row group, as [Parquet.Columns] does. Several row groups may be read at the
// same time.
func (p *Parquet) RowGroup(ctx context.Context, group int, fields ...int) iter.Seq2[[]column.Column, error] {
	return func(yield func([]column.Column, error) bool) {
		fail := func(err error) { yield(nil, fmt.Errorf("arrow: row group %d: %w", group, err)) }
		leaves, at, err := p.leaves(fields)
		if err != nil {
			yield(nil, err)
			return
		}
		if group < 0 || group >= p.RowGroups() {
			fail(fmt.Errorf("there are %d", p.RowGroups()))
			return
		}
		rows := p.file.MetaData().RowGroups[group].GetNumRows()
		if rows < 0 || rows > math.MaxInt32*1024 {
			fail(fmt.Errorf("%d rows", rows))
			return
		}
		if rows == 0 || len(fields) == 0 {
			return
		}
		records, err := p.open(ctx, leaves, group)
		if err != nil {
			fail(err)
			return
		}
		defer records.Release()
		for read := int64(0); read < rows; {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			batch, err := next(records, at)
			if err == nil && read+int64(batch[0].Len()) > rows {
				err = fmt.Errorf("more than the %d rows that are announced", rows)
			}
			if errors.Is(err, io.EOF) {
				err = fmt.Errorf("%d rows, %d are announced", read, rows)
			}
			if err != nil {
				fail(err)
				return
			}
			read += int64(batch[0].Len())
			if !yield(batch, nil) {
				return
			}
		}
	}
}

// leaves are the columns of a file that fields are, each once, and which of them each field is.
func (p *Parquet) leaves(fields []int) (leaves, at []int, err error) {
	known := map[int]int{}
	for _, f := range fields {
		if f < 0 || f >= len(p.reader.Manifest.Fields) {
			return nil, nil, fmt.Errorf("arrow: field %d of %d", f, len(p.reader.Manifest.Fields))
		}
		field := &p.reader.Manifest.Fields[f]
		if _, err := Storage(field.Field.Type); err != nil {
			return nil, nil, fmt.Errorf("field %q: %w", field.Field.Name, err)
		}
		if _, ok := known[f]; !ok {
			known[f] = len(leaves)
			leaves = append(leaves, field.ColIndex)
		}
		at = append(at, known[f])
	}
	return leaves, at, nil
}

func (p *Parquet) open(ctx context.Context, leaves []int, group int) (r pqarrow.RecordReader, err error) {
	defer caught(&err, "read Parquet file")
	return p.reader.GetRecordReader(ctx, leaves, []int{group})
}

// next is the next batch of a reader, a column for each place in it.
func next(records pqarrow.RecordReader, at []int) (batch []column.Column, err error) {
	defer caught(&err, "read Parquet file")
	rec, err := records.Read()
	if err != nil {
		return nil, err
	}
	if rec == nil || rec.NumRows() == 0 {
		return nil, io.EOF
	}
	all, err := Columns(rec)
	if err != nil {
		return nil, err
	}
	for _, i := range at {
		if all[i].Len() != all[0].Len() {
			return nil, fmt.Errorf("columns of %d and %d rows", all[0].Len(), all[i].Len())
		}
		batch = append(batch, all[i])
	}
	return batch, nil
}

// caught makes an error of what a reader of hostile bytes panics with.
func caught(err *error, doing string) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("arrow: %s: %v", doing, p)
	}
}
