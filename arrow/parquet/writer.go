package parquet

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/weftgo/weft/column"
)

// Writer writes a file. Values are compressed by Snappy, repeating byte strings are stored in
// dictionaries, and each page has a checksum. Any field may contain nulls. Statistics contain the
// minimum and maximum of each row group and page, unless a value among them is longer than 256
// bytes.
type Writer struct {
	w      io.Writer
	at     int64 // number of bytes written
	fields []fieldWriter
	rows   int64 // number of rows in the current row group
	bytes  int   // number of bytes after which a row group ends
	meta   format.FileMetaData
	// indexes has the page indexes of all chunks, row group by row group.
	indexes []pageIndex
	err     error
}

const (
	// A row group ends after groupRows rows or groupBytes bytes. Readers hold several row groups in
	// memory, because they decode row groups concurrently.
	groupRows, groupBytes = 1 << 20, 128 << 20
	// A page ends after pageBytes bytes or pageRows rows.
	pageBytes, pageRows = 1 << 20, 1 << 17
)

// NewWriter begins a file with the given fields. Row groups are built in memory, and each is
// written to w when it is full. createdBy is the program's name. Types need a Kind, a Column and
// the attributes of the kind. A Decimal is stored as Int32, Int64 or Bytes of Width, big-endian.
func NewWriter(w io.Writer, fields []Field, createdBy string) (*Writer, error) {
	out := &Writer{w: w, fields: make([]fieldWriter, len(fields)), bytes: groupBytes}
	out.meta.Version, out.meta.CreatedBy = 2, createdBy
	root := format.SchemaElement{Name: "schema"}
	root.NumChildren.Set(int32(len(fields)))
	out.meta.Schema = append(out.meta.Schema, root)
	for i, f := range fields {
		e, err := element(f)
		if err != nil {
			return nil, err
		}
		out.fields[i] = fieldWriter{Field: f, physical: e.Type.V, width: f.Type.Width,
			texts: e.Type.V == format.ByteArray}
		out.meta.Schema = append(out.meta.Schema, e)
		out.meta.ColumnOrders = append(out.meta.ColumnOrders,
			format.ColumnOrder{Value: &format.TypeDefinedOrder{}})
	}
	out.write([]byte(magic))
	return out, out.err
}

// Write adds rows. columns has a column for each field, of the field's type.
func (w *Writer) Write(columns []column.Column) error {
	if len(columns) != len(w.fields) {
		return fmt.Errorf("parquet: %d columns for %d fields", len(columns), len(w.fields))
	}
	for i, c := range columns {
		if c.Len() != columns[0].Len() {
			return fmt.Errorf("parquet: field %q has %d rows, the first has %d", w.fields[i].Name,
				c.Len(), columns[0].Len())
		}
		if t := w.fields[i].Type; c.Type() != t.Column {
			return fmt.Errorf("parquet: field %q: a column of %v, where the field has %v",
				w.fields[i].Name, c.Type(), t.Column)
		}
	}
	for lo := 0; len(columns) > 0 && lo < columns[0].Len() && w.err == nil; {
		hi := min(columns[0].Len(), lo+pageRows/8, lo+int(groupRows-w.rows))
		size := 0
		for i, c := range columns {
			if err := w.fields[i].add(c.Slice(lo, hi)); err != nil {
				w.err = fmt.Errorf("parquet: field %q: %w", w.fields[i].Name, err)
				return w.err
			}
			size += w.fields[i].size()
		}
		w.rows += int64(hi - lo)
		lo = hi
		if w.rows >= groupRows || size >= w.bytes {
			w.flush()
		}
	}
	return w.err
}

// Limit bounds the memory of the writer to approximately the given number of bytes. Row groups
// become smaller, down to one page per field.
func (w *Writer) Limit(bytes int64) {
	// A row group is held as values, as encoded pages, and as garbage that is not yet collected.
	w.bytes = int(min(groupBytes, max(bytes/4, pageBytes)))
}

// Close writes the remaining rows and the metadata. It does not close the file.
func (w *Writer) Close() error {
	if w.flush(); w.err != nil {
		return w.err
	}
	if err := w.writeIndexes(); err != nil {
		return fmt.Errorf("parquet: index of pages: %w", err)
	}
	b, err := thrift.Marshal(new(thrift.CompactProtocol), &w.meta)
	if err != nil {
		return fmt.Errorf("parquet: metadata: %w", err)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(b)))
	w.write(append(b, magic...))
	return w.err
}

func (w *Writer) write(b []byte) {
	if w.err == nil {
		var n int
		n, w.err = w.w.Write(b)
		w.at += int64(n)
	}
}

func (w *Writer) flush() {
	if w.rows == 0 {
		return
	}
	g := format.RowGroup{NumRows: w.rows, FileOffset: w.at}
	for i := range w.fields {
		m, err := w.fields[i].end(w)
		if err != nil && w.err == nil {
			w.err = fmt.Errorf("parquet: field %q: %w", w.fields[i].Name, err)
		}
		m.NumValues = w.rows
		g.TotalByteSize += m.TotalUncompressedSize
		g.TotalCompressedSize += m.TotalCompressedSize
		g.Columns = append(g.Columns, format.ColumnChunk{MetaData: m})
	}
	w.meta.RowGroups = append(w.meta.RowGroups, g)
	w.meta.NumRows += w.rows
	w.rows = 0
}

func element(f Field) (e format.SchemaElement, err error) {
	e.Name = f.Name
	e.RepetitionType.Set(format.Optional)
	t, suits := f.Type, true
	switch t.Column {
	case column.Bool:
		e.Type.Set(format.Boolean)
	case column.Int8, column.Int16, column.Int32, column.Uint8, column.Uint16, column.Uint32:
		e.Type.Set(format.Int32)
	case column.Int64, column.Uint64:
		e.Type.Set(format.Int64)
	case column.Float32:
		e.Type.Set(format.Float)
	case column.Float64:
		e.Type.Set(format.Double)
	case column.Bytes:
		e.Type.Set(format.ByteArray)
		if t.Width > 0 {
			e.Type.Set(format.FixedLenByteArray)
			e.TypeLength.Set(int32(t.Width))
		}
	default:
		suits = false
	}
	logical := func(v format.LogicalTypeValue) { e.LogicalType.Value = v }
	converted := e.ConvertedType.Set
	switch t.Kind {
	case Number:
		if t.Column.Integer() && t.Column != column.Int32 && t.Column != column.Int64 {
			logical(&format.IntType{BitWidth: int8(8 * t.Column.Size()),
				IsSigned: t.Column.Signed()})
			converted(map[column.Type]deprecated.ConvertedType{
				column.Int8: deprecated.Int8, column.Int16: deprecated.Int16,
				column.Uint8: deprecated.Uint8, column.Uint16: deprecated.Uint16,
				column.Uint32: deprecated.Uint32, column.Uint64: deprecated.Uint64,
			}[t.Column])
		}
		suits = suits && (t.Column.Integer() || t.Column.Float())
	case Bool:
		suits = t.Column == column.Bool
	case Text:
		logical(&format.StringType{})
		converted(deprecated.UTF8)
		suits = t.Column == column.Bytes && t.Width == 0
	case Binary:
		suits = t.Column == column.Bytes && t.Width == 0
	case Fixed:
		suits = t.Column == column.Bytes && t.Width > 0
	case Date:
		logical(&format.DateType{})
		converted(deprecated.Date)
		suits = t.Column == column.Int32
	case Time:
		logical(&format.TimeType{IsAdjustedToUTC: t.UTC, Unit: unit(t.Unit)})
		suits = t.Column == column.Int64 && t.Unit < time.Millisecond ||
			t.Column == column.Int32 && t.Unit == time.Millisecond
	case Timestamp:
		logical(&format.TimestampType{IsAdjustedToUTC: t.UTC, Unit: unit(t.Unit)})
		if t.UTC && t.Unit == time.Millisecond {
			converted(deprecated.TimestampMillis)
		} else if t.UTC && t.Unit == time.Microsecond {
			converted(deprecated.TimestampMicros)
		}
		suits = t.Column == column.Int64
	case Null:
		logical(&format.NullType{})
	case Decimal:
		logical(&format.DecimalType{Precision: int32(t.Precision), Scale: int32(t.Scale)})
		converted(deprecated.Decimal)
		e.Precision.Set(int32(t.Precision))
		e.Scale.Set(int32(t.Scale))
		suits = t.Column == column.Int32 || t.Column == column.Int64 || t.Column == column.Bytes &&
			t.Width > 0
	default:
		suits = false
	}
	if !suits || (t.Kind == Time || t.Kind == Timestamp) && unit(t.Unit).Value == nil {
		return e, fmt.Errorf("parquet: field %q: a %v cannot be written from columns of %v", f.Name, t,
			t.Column)
	}
	return e, nil
}

func unit(d time.Duration) format.TimeUnit {
	switch d {
	case time.Millisecond:
		return format.TimeUnit{Value: &format.MilliSeconds{}}
	case time.Microsecond:
		return format.TimeUnit{Value: &format.MicroSeconds{}}
	case time.Nanosecond:
		return format.TimeUnit{Value: &format.NanoSeconds{}}
	}
	return format.TimeUnit{}
}
