package parquet

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/rowkey"
)

// extent holds a minimum and a maximum, as a column of two values. The column is empty if all
// values so far are null or NaN.
type extent struct{ minMax column.Column }

// maxBound bounds byte strings in statistics. If a value is longer, the chunk gets no bounds.
// Truncating the value instead would gain readers little, and a truncated bound must still be a
// value of its type.
const maxBound = 256

func (e *extent) add(c column.Column) {
	two := extremes(c)
	if two.Len() == 0 {
		return
	}
	if e.minMax.Len() > 0 {
		combined, err := column.Concat(e.minMax, two)
		if err != nil {
			panic(err) // both have one type
		}
		two = extremes(combined)
	}
	e.minMax = two
}

// extremes returns the minimum and maximum of a column, ignoring nulls and NaNs. It returns an
// empty column if no values remain.
func extremes(c column.Column) column.Column {
	if c.Type() == column.Bytes {
		return extremesOfBytes(c)
	}
	nan, floats := rowkey.NaN(c.Type())
	var rows [2]uint32
	var minWord, maxWord uint64
	found := false
	var words [1 << 10]uint64
	for lo := 0; lo < c.Len(); lo += len(words) {
		w := words[:min(len(words), c.Len()-lo)]
		rowkey.Ordered(c, lo, w)
		for i, x := range w {
			if c.Null(lo+i) || floats && x == nan {
				continue
			}
			if !found || x < minWord {
				minWord, rows[0] = x, uint32(lo+i)
			}
			if !found || x > maxWord {
				maxWord, rows[1] = x, uint32(lo+i)
			}
			found = true
		}
	}
	if !found {
		return c.Slice(0, 0)
	}
	return column.Take(cpu.Inline{}, c, rows[:])
}

func extremesOfBytes(c column.Column) column.Column {
	var lo, hi []byte
	codes, dict := c.Codes()
	seen, found := make([]bool, dict.Len()), false
	for i := range c.Len() {
		if c.Null(i) || codes != nil && seen[codes[i]] {
			continue
		}
		if codes != nil {
			seen[codes[i]] = true
		}
		b := c.Bytes(i)
		if !found || bytes.Compare(b, lo) < 0 {
			lo = b
		}
		if !found || bytes.Compare(b, hi) > 0 {
			hi = b
		}
		found = true
	}
	if !found {
		return column.OfStrings([]string{})
	}
	return column.OfStrings([]string{string(lo), string(hi)})
}

// stored returns the bounds as statistics store them. ok reports whether statistics can store them.
// A bound of float zero becomes -0 as minimum and +0 as maximum, to include zeros of both signs.
func (e *extent) stored(t Type) (lo, hi []byte, ok bool) {
	c := e.minMax
	if c.Len() == 0 || t.Kind == Decimal && t.Column == column.Bytes {
		return nil, nil, false
	}
	switch size := c.Type().Size(); {
	case c.Type() == column.Bytes:
		lo, hi = c.Bytes(0), c.Bytes(1)
		return lo, hi, len(lo) <= maxBound && len(hi) <= maxBound
	case size >= 4 || c.Type() == column.Bool:
		raw := c.Raw()
		lo, hi = slices.Clone(raw[:size]), slices.Clone(raw[size:2*size])
		if last := size - 1; c.Type().Float() {
			if isZero(lo) {
				lo[last] = 0x80
			}
			if isZero(hi) {
				hi[last] = 0
			}
		}
	default:
		raw := c.Raw()
		lo = binary.LittleEndian.AppendUint32(nil, widened(c.Type(), raw))
		hi = binary.LittleEndian.AppendUint32(nil, widened(c.Type(), raw[size:]))
	}
	return lo, hi, true
}

func isZero(b []byte) bool {
	last := len(b) - 1
	return b[last]&0x7f == 0 && !slices.ContainsFunc(b[:last], func(x byte) bool { return x != 0 })
}

// pageIndex collects the page indexes of a column chunk.
type pageIndex struct {
	// positions relative to the first page, until the chunk is written
	offsets       format.OffsetIndex
	columns       format.ColumnIndex
	extent        extent // extent of all pages
	rows          int64
	missingBounds bool // a page has values but no bounds
}

// add adds a page of size bytes. at is its offset among the pages of the chunk.
func (x *pageIndex) add(t Type, e *extent, at, size, rows, nulls int) {
	lo, hi, ok := e.stored(t)
	empty := rows == nulls
	x.missingBounds = x.missingBounds || !ok && !empty
	if e.minMax.Len() > 0 {
		x.extent.add(e.minMax)
	}
	x.offsets.PageLocations = append(x.offsets.PageLocations, format.PageLocation{
		Offset: int64(at), CompressedPageSize: int32(size), FirstRowIndex: x.rows})
	x.rows += int64(rows)
	c := &x.columns
	c.NullPages = append(c.NullPages, empty)
	c.MinValues, c.MaxValues = append(c.MinValues, lo), append(c.MaxValues, hi)
	c.NullCounts = append(c.NullCounts, int64(nulls))
}

// writeIndexes writes the page indexes of all chunks, and stores their positions in the metadata.
// The metadata itself follows later.
func (w *Writer) writeIndexes() error {
	for i, x := range w.indexes {
		c := &w.meta.RowGroups[i/len(w.fields)].Columns[i%len(w.fields)]
		if !x.missingBounds {
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
