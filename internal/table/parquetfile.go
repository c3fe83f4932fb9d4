package table

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	goarrow "github.com/apache/arrow-go/v18/arrow"

	"github.com/weftgo/weft/arrow"
	"github.com/weftgo/weft/arrow/parquet"
	"github.com/weftgo/weft/column"
)

// createdBy is the creator that this command writes into Parquet files.
const createdBy = "weft"

// WrittenByWeft reports whether a file is a complete Parquet file that this command wrote. Only
// such a file may be overwritten. Another file may be an input that stands in place of a forgotten
// output name.
func WrittenByWeft(f *os.File) bool {
	info, err := f.Stat()
	if err != nil {
		return false
	}
	p, err := parquet.Open(f, info.Size())
	return err == nil && strings.HasPrefix(p.CreatedBy(), createdBy)
}

func openParquet(ctx context.Context, in *input, s *stream, maxBytes, memory int64) (source, error) {
	at, size, closer, err := readerAt(ctx, in, s, maxBytes)
	if err != nil {
		return nil, err
	}
	p, err := parquet.Open(at, size)
	if err != nil {
		return nil, errors.Join(in.failed(err), closer.Close())
	}
	p.Limit(memory)
	src := &typed{files: []io.Closer{closer}, rereads: true, name: in.name, size: size}
	for _, f := range p.Fields() {
		src.names = append(src.names, Field{Name: f.Name, Type: f.Type.Column,
			Arrow: ArrowOf(f.Type), err: f.Err()})
	}
	for i := range p.RowGroups() {
		src.groups = append(src.groups, p.GroupRows(i))
	}
	src.read = func(ctx context.Context, columns []wanted, r Range) iter.Seq2[Batch, error] {
		return func(yield func(Batch, error) bool) {
			rows, done := max(p.Rows(), 1), 0
			read := p.Columns(ctx, fieldsIn(columns)...)
			if r.ranged() {
				read = p.RowGroup(ctx, int(r.Lo), fieldsIn(columns)...)
			}
			for columns, err := range read {
				batch := Batch{Columns: columns}
				if err == nil {
					batch.Rows = columns[0].Len()
					done += batch.Rows
					in.reached(int64(float64(size) * float64(done) / float64(rows)))
				}
				if !yield(batch, err) {
					return
				}
			}
		}
	}
	src.filtered = func(ctx context.Context, columns []wanted, f *rowFilter) iter.Seq2[Batch,
		error] {
		return func(yield func(Batch, error) bool) {
			fields := fieldsIn(columns)
			keys := make([]int, len(f.at))
			for i, at := range f.at {
				keys[i] = fields[at]
			}
			rows, done := max(p.Rows(), 1), int64(0)
			for b, err := range p.Filtered(ctx, f, keys, fields...) {
				batch := Batch{Columns: b.Columns, Rows: int(b.Rows)}
				for i := len(batch.Columns); err == nil && i < len(fields); i++ { // without rows
					batch.Columns = append(batch.Columns, Empty(src.names[fields[i]].Type))
				}
				done += b.Rows
				in.reached(int64(float64(size) * float64(done) / float64(rows)))
				if !yield(batch, err) {
					return
				}
			}
		}
	}
	return src, nil
}

func fieldsIn(columns []wanted) []int {
	fields := make([]int, len(columns))
	for i, c := range columns {
		fields[i] = c.field
	}
	return fields
}

// ArrowOf returns the Arrow type for a Parquet type. Nested fields, which are not supported, become
// structs.
func ArrowOf(t parquet.Type) goarrow.DataType {
	zone := ""
	if t.UTC {
		zone = "UTC"
	}
	switch t.Kind {
	case parquet.Number, parquet.Bool, parquet.Text:
		return typeOf(t.Column)
	case parquet.Binary:
		return goarrow.BinaryTypes.Binary
	case parquet.Fixed:
		return &goarrow.FixedSizeBinaryType{ByteWidth: t.Width}
	case parquet.Date:
		return goarrow.FixedWidthTypes.Date32
	case parquet.Time:
		if t.Column == column.Int32 {
			return goarrow.FixedWidthTypes.Time32ms
		}
		return &goarrow.Time64Type{Unit: units[t.Unit]}
	case parquet.Timestamp:
		return &goarrow.TimestampType{Unit: units[t.Unit], TimeZone: zone}
	case parquet.Null:
		return goarrow.Null
	case parquet.Decimal:
		return &goarrow.Decimal128Type{Precision: int32(t.Precision), Scale: int32(t.Scale)}
	}
	return goarrow.StructOf()
}

// units maps the time units that Arrow and Parquet share.
var units = map[time.Duration]goarrow.TimeUnit{
	time.Millisecond: goarrow.Millisecond,
	time.Microsecond: goarrow.Microsecond,
	time.Nanosecond:  goarrow.Nanosecond,
}

type parquetWriter struct {
	fields []Field
	// convert has a function for each column that converts it to the type of the file. The function
	// is nil if no conversion is needed.
	convert []func(column.Column) (column.Column, error)
	w       *parquet.Writer
}

// NewParquet returns a writer of a Parquet file, compressed by Snappy. Text must be UTF-8.
func NewParquet(w io.Writer, fields []Field, memory int64) (Writer, error) {
	p := &parquetWriter{fields: fields, convert: make([]func(column.Column) (column.Column,
		error), len(fields))}
	all := make([]parquet.Field, len(fields))
	for i, f := range fields {
		all[i] = parquet.Field{Name: f.Name}
		if all[i].Type, p.convert[i] = parquetOf(f); all[i].Type.Column == column.None {
			return nil, fmt.Errorf("column %s: Parquet files cannot hold values of type %v", f.Name,
				f.Arrow)
		}
	}
	var err error
	if p.w, err = parquet.NewWriter(w, all, createdBy); err == nil && memory > 0 {
		p.w.Limit(memory)
	}
	return p, err
}

// parquetOf returns the Parquet type for a field. If columns need a conversion, it also returns the
// function. The Column of the type is None if Parquet does not support the field.
func parquetOf(f Field) (parquet.Type, func(column.Column) (column.Column, error)) {
	arrowType := f.Arrow
	if d, ok := arrowType.(*goarrow.DictionaryType); ok {
		arrowType = d.ValueType
	}
	if e, ok := arrowType.(goarrow.ExtensionType); ok {
		arrowType = e.StorageType()
	}
	if arrowType == nil {
		arrowType = typeOf(f.Type)
	}
	storage, _ := arrow.Storage(arrowType)
	is := parquet.Type{Column: storage}
	switch t := arrowType.(type) {
	case *goarrow.StringType, *goarrow.LargeStringType, *goarrow.StringViewType:
		is.Kind = parquet.Text
	case *goarrow.BinaryType, *goarrow.LargeBinaryType, *goarrow.BinaryViewType:
		is.Kind = parquet.Binary
	case *goarrow.FixedSizeBinaryType:
		is.Kind, is.Width = parquet.Fixed, t.ByteWidth
	case *goarrow.BooleanType:
		is.Kind = parquet.Bool
	case *goarrow.NullType:
		is.Kind = parquet.Null
	case *goarrow.Date32Type:
		is.Kind = parquet.Date
	case *goarrow.Date64Type:
		is.Kind, is.Column = parquet.Date, column.Int32
		return is, days
	case *goarrow.Time32Type:
		is.Kind, is.Unit = parquet.Time, time.Millisecond
		if t.Unit == goarrow.Second {
			return is, times1000[int32]
		}
	case *goarrow.Time64Type:
		is.Kind, is.Unit = parquet.Time, t.Unit.Multiplier()
	case *goarrow.TimestampType:
		is.Kind, is.Unit, is.UTC = parquet.Timestamp, t.Unit.Multiplier(), t.TimeZone != ""
		if t.Unit == goarrow.Second {
			is.Unit = time.Millisecond
			return is, times1000[int64]
		}
	case goarrow.DecimalType:
		is.Kind, is.Precision, is.Scale = parquet.Decimal, int(t.GetPrecision()), int(t.GetScale())
		if storage == column.Bytes {
			is.Width = t.BitWidth() / 8
			return is, func(c column.Column) (column.Column, error) {
				return highestFirst(c,
					is.Width)
			}
		}
	default:
		if arrow.Numeric(arrowType) != nil {
			is.Column = column.None
		}
	}
	return is, nil
}

// convertEach converts all values that are not null. It returns an error if convert returns false.
func convertEach[F, T column.Fixed](c column.Column, convert func(F) (T, bool)) (column.Column,
	error) {
	from, to := column.Values[F](c), make([]T, c.Len())
	for i, v := range from {
		if c.Null(i) {
			continue
		}
		var ok bool
		if to[i], ok = convert(v); !ok {
			return c, fmt.Errorf("value %v does not fit the type in Parquet files", v)
		}
	}
	return withNulls(column.Of(to), c), nil
}

func withNulls(c, of column.Column) column.Column {
	if of.HasNulls() {
		return c.WithValid(of.Valid())
	}
	return c
}

// days converts milliseconds to days, which must be whole.
func days(c column.Column) (column.Column, error) {
	const day = 86_400_000
	return convertEach(c, func(v int64) (int32, bool) {
		return int32(v / day), v%day == 0 && v/day >= math.MinInt32 && v/day <= math.MaxInt32
	})
}

func times1000[T int32 | int64](c column.Column) (column.Column, error) {
	return convertEach(c, func(v T) (T, bool) { return v * 1000, v*1000/1000 == v })
}

// highestFirst converts little-endian numbers of Arrow to big-endian.
func highestFirst(c column.Column, width int) (column.Column, error) {
	data := make([]byte, c.Len()*width)
	for i := range c.Len() {
		if !c.Null(i) {
			slices.Reverse(data[i*width : i*width+copy(data[i*width:(i+1)*width], c.Bytes(i))])
		}
	}
	out, err := column.OfWidth(width, data)
	return withNulls(out, c), err
}

func (p *parquetWriter) Write(columns []column.Column) (err error) {
	columns = slices.Clone(columns)
	for j, c := range columns {
		f := p.fields[j]
		if convert := p.convert[j]; convert != nil {
			if columns[j], err = convert(c); err != nil {
				return fmt.Errorf("column %s: %w", f.Name, err)
			}
		}
		if f.Type != column.Bytes || f.Arrow != nil {
			continue
		}
		for i := range c.Len() {
			if !c.Null(i) && !utf8.Valid(c.Bytes(i)) {
				const problem = "column %s: %.40q is not UTF-8, which text in Parquet files must be"
				return fmt.Errorf(problem, f.Name, c.Bytes(i))
			}
		}
	}
	return p.w.Write(columns)
}

func (p *parquetWriter) Close(any) error { return p.w.Close() }
