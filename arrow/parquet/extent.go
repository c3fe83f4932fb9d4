package parquet

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/weftgo/weft/column"
)

// extent is the least and the greatest of some values, as a column of two. It has no values if all
// are null or NaN.
type extent struct{ two column.Column }

// maxBound bounds byte strings in statistics. Longer ones are left out with all bounds of a chunk:
// one that is cut off has to stay a value of its type, and readers gain little by it.
const maxBound = 256

// add widens an extent by the values of a column.
func (e *extent) add(c column.Column) {
	two := extremes(c)
	if two.Len() == 0 {
		return
	}
	if e.two.Len() > 0 {
		both, err := column.Concat(e.two, two)
		if err != nil {
			panic(err) // of one type
		}
		two = extremes(both)
	}
	e.two = two
}

// extremes returns the least and the greatest value of a column that is neither null nor NaN.
func extremes(c column.Column) column.Column {
	switch c.Type() {
	case column.Int8:
		return extremesOf[int8](c)
	case column.Int16:
		return extremesOf[int16](c)
	case column.Int32:
		return extremesOf[int32](c)
	case column.Int64:
		return extremesOf[int64](c)
	case column.Uint8:
		return extremesOf[uint8](c)
	case column.Uint16:
		return extremesOf[uint16](c)
	case column.Uint32:
		return extremesOf[uint32](c)
	case column.Uint64:
		return extremesOf[uint64](c)
	case column.Float32:
		return extremesOf[float32](c)
	case column.Float64:
		return extremesOf[float64](c)
	case column.Bool:
		return extremesOfBools(c)
	}
	return extremesOfBytes(c)
}

func extremesOf[T interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64
}](c column.Column) column.Column {
	values := column.Values[T](c)
	var least, most T
	any := false
	for i, v := range values {
		switch {
		case v != v || c.Null(i):
		case !any:
			least, most, any = v, v, true
		default:
			least, most = min(least, v), max(most, v)
		}
	}
	if !any {
		return column.Of([]T{})
	}
	return column.Of([]T{least, most})
}

func extremesOfBools(c column.Column) column.Column {
	var two []bool
	for i, v := range column.Values[bool](c) {
		switch {
		case c.Null(i):
		case two == nil:
			two = []bool{v, v}
		default:
			two[0], two[1] = two[0] && v, two[1] || v
		}
	}
	return column.Of(two)
}

func extremesOfBytes(c column.Column) column.Column {
	var least, most []byte
	codes, dict := c.Codes()
	seen, any := make([]bool, dict.Len()), false
	for i := range c.Len() {
		if c.Null(i) || codes != nil && seen[codes[i]] {
			continue
		}
		if codes != nil {
			seen[codes[i]] = true
		}
		b := c.Bytes(i)
		if !any || bytes.Compare(b, least) < 0 {
			least = b
		}
		if !any || bytes.Compare(b, most) > 0 {
			most = b
		}
		any = true
	}
	if !any {
		return column.OfStrings([]string{})
	}
	return column.OfStrings([]string{string(least), string(most)})
}

// stored returns the bounds as statistics have them; ok reports whether there are some that they
// can have. A zero among floats stands for zeros of both signs.
func (e *extent) stored(t Type) (least, most []byte, ok bool) {
	c := e.two
	if c.Len() == 0 || t.Kind == Decimal && t.Column == column.Bytes {
		return nil, nil, false
	}
	switch size := c.Type().Size(); {
	case c.Type() == column.Bytes:
		least, most = c.Bytes(0), c.Bytes(1)
		return least, most, len(least) <= maxBound && len(most) <= maxBound
	case c.Type() == column.Float32:
		v := column.Values[float32](c)
		least, most = make([]byte, 4), make([]byte, 4)
		binary.LittleEndian.PutUint32(least, math.Float32bits(v[0]))
		binary.LittleEndian.PutUint32(most, math.Float32bits(v[1]))
		if v[0] == 0 {
			least[3] = 0x80
		}
		if v[1] == 0 {
			most[3] = 0
		}
	case c.Type() == column.Float64:
		v := column.Values[float64](c)
		least, most = make([]byte, 8), make([]byte, 8)
		binary.LittleEndian.PutUint64(least, math.Float64bits(v[0]))
		binary.LittleEndian.PutUint64(most, math.Float64bits(v[1]))
		if v[0] == 0 {
			least[7] = 0x80
		}
		if v[1] == 0 {
			most[7] = 0
		}
	case size >= 4 || c.Type() == column.Bool:
		raw := c.Raw()
		least, most = slices.Clone(raw[:size]), slices.Clone(raw[size:2*size])
	default:
		raw := c.Raw()
		least = binary.LittleEndian.AppendUint32(nil, widened(c.Type(), raw))
		most = binary.LittleEndian.AppendUint32(nil, widened(c.Type(), raw[size:]))
	}
	return least, most, true
}

// pageIndex collects what the indexes of pages of a chunk say.
type pageIndex struct {
	offsets format.OffsetIndex // in the pages of the chunk, until they are written
	columns format.ColumnIndex
	extent  extent // of all pages
	rows    int64
	without bool // some page has values without bounds
}

// add notes a page of some rows, at an offset and of a size.
func (x *pageIndex) add(t Type, e *extent, at, size, rows, nulls int) {
	least, most, ok := e.stored(t)
	empty := rows == nulls
	x.without = x.without || !ok && !empty
	if e.two.Len() > 0 {
		x.extent.add(e.two)
	}
	x.offsets.PageLocations = append(x.offsets.PageLocations, format.PageLocation{
		Offset: int64(at), CompressedPageSize: int32(size), FirstRowIndex: x.rows})
	x.rows += int64(rows)
	c := &x.columns
	c.NullPages = append(c.NullPages, empty)
	c.MinValues, c.MaxValues = append(c.MinValues, least), append(c.MaxValues, most)
	c.NullCounts = append(c.NullCounts, int64(nulls))
}

// writeIndexes writes the indexes of pages of all chunks, in front of the metadata, which then says
// where they are.
func (w *Writer) writeIndexes() error {
	for i, x := range w.indexes {
		c := &w.meta.RowGroups[i/len(w.fields)].Columns[i%len(w.fields)]
		if !x.without {
			b, err := thrift.Marshal(new(thrift.CompactProtocol), &x.columns)
			if err != nil {
				return err
			}
			c.ColumnIndexOffset, c.ColumnIndexLength = w.at, int32(len(b))
			w.write(b)
		}
		b, err := thrift.Marshal(new(thrift.CompactProtocol), &x.offsets)
		if err != nil {
			return err
		}
		c.OffsetIndexOffset, c.OffsetIndexLength = w.at, int32(len(b))
		w.write(b)
	}
	return nil
}
