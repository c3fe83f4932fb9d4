package parquet

import (
	"bytes"
	"unsafe"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/rowkey"
)

// statsMeta is the part of a file's metadata that contains the statistics of its chunks.
type statsMeta struct {
	RowGroups    thrift.Slice[groupStats]         `thrift:"4,required"`
	ColumnOrders thrift.Slice[format.ColumnOrder] `thrift:"7,optional"`
}

type groupStats struct {
	Columns thrift.Slice[chunkStats] `thrift:"1,required"`
}

// chunkStats contains the statistics of a column chunk, and the position of its page index.
type chunkStats struct {
	MetaData struct {
		Statistics statistics `thrift:"12,optional"`
	} `thrift:"3,optional"`
	OffsetIndexOffset int64 `thrift:"4,optional"`
	OffsetIndexLength int32 `thrift:"5,optional"`
	ColumnIndexOffset int64 `thrift:"6,optional"`
	ColumnIndexLength int32 `thrift:"7,optional"`
}

// statistics describe the values of a chunk. NullCount may be missing, which differs from 0.
type statistics struct {
	// Max and Min are set by older writers, which compare values as signed numbers
	Max       []byte             `thrift:"1,optional"`
	Min       []byte             `thrift:"2,optional"`
	NullCount thrift.Null[int64] `thrift:"3,optional"`
	MaxValue  []byte             `thrift:"5,optional"`
	MinValue  []byte             `thrift:"6,optional"`
}

// readStats reads the metadata again, to decode the statistics. Open skips them, because they may
// be most of the metadata and few callers need them.
func (f *File) readStats(at, n int64) (*statsMeta, error) {
	b := make([]byte, n)
	if _, err := f.r.ReadAt(b, at); err != nil {
		return nil, err
	}
	s := new(statsMeta)
	_, err := unmarshal(b, s)
	return s, err
}

// chunkStats returns the statistics of a column chunk, or nil. typeOrder reports whether MinValue
// and MaxValue follow the order of the type. The file must state this, and columns must have the
// same order.
func (f *File) chunkStats(group int, l *leaf) (c *chunkStats, typeOrder bool) {
	s, err := f.stats()
	if err != nil || group >= len(s.RowGroups) || l.index >= len(s.RowGroups[group].Columns) {
		return nil, false
	}
	if l.index < len(s.ColumnOrders) {
		_, typeOrder = s.ColumnOrders[l.index].Value.(*format.TypeDefinedOrder)
	}
	return &s.RowGroups[group].Columns[l.index], typeOrder && l.ordered
}

// mayContain reports whether a chunk may contain rows that a filter selects, according to the
// chunk's statistics.
func (c *chunkStats) mayContain(filter Filter, key int, l *leaf, rows int64, typeOrder bool) bool {
	s := &c.MetaData.Statistics
	nulls := l.optional && !(s.NullCount.Valid && s.NullCount.V == 0)
	if s.NullCount.Valid && s.NullCount.V == rows && l.optional {
		return filter.MayContain(key, l.noBounds(), true)
	}
	var bounds column.Column
	switch {
	case typeOrder:
		bounds = l.bounds(s.MinValue, s.MaxValue)
	case l.ordered && !l.half && (l.Type.Column.Signed() || l.Type.Column.Float()):
		bounds = l.bounds(s.Min, s.Max)
	default:
		bounds = l.bounds(nil, nil)
	}
	return filter.MayContain(key, bounds, nulls)
}

// noBounds returns an empty column of the field's type.
func (l *leaf) noBounds() column.Column { return l.bounds(nil, nil).Slice(0, 0) }

// bounds returns the minimum and maximum in statistics as a column of two values. A missing bound
// is null. A byte string that the writer truncated is still a bound.
func (l *leaf) bounds(lo, hi []byte) column.Column {
	known := []bool{len(lo) > 0, len(hi) > 0}
	var c column.Column
	if t := l.Type.Column; t == column.Bytes {
		c = column.OfStrings([]string{string(lo), string(hi)})
		known[0] = true // the empty string is a lower bound of all values
	} else {
		size, memory := t.Size(), make([]uint64, 2) // aligned for any size
		b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(memory))), 2*size)
		known[0] = l.bound(b[:size], lo)
		known[1] = l.bound(b[size:], hi)
		c = ofNumbers(t, b)
	}
	if known[0] && known[1] && !ascends(c) { // the writer compares values differently
		known[0], known[1] = false, false
	}
	return c.WithValid(column.OfBools(known))
}

// bound decodes a bound into dst and reports whether it is valid. NaN is not a bound, because
// writers that compare values with NaN may have ignored numbers.
func (l *leaf) bound(dst, b []byte) bool {
	if l.physical == format.Boolean {
		return len(b) == 1 && copy(dst, b) == 1 && b[0] <= 1
	}
	if len(b) != l.width || l.convert(dst, b) != nil {
		return false
	}
	switch l.Type.Column {
	case column.Float32:
		v := words[float32](dst)[0]
		return v == v
	case column.Float64:
		v := words[float64](dst)[0]
		return v == v
	}
	return true
}

// ascends reports whether the first of two values is not greater than the second.
func ascends(c column.Column) bool {
	if c.Type() == column.Bytes {
		return bytes.Compare(c.Bytes(0), c.Bytes(1)) <= 0
	}
	var w [2]uint64
	rowkey.Ordered(c, 0, w[:])
	return w[0] <= w[1]
}

// maxIndex bounds the bytes of a page index, which may contain a minimum and a maximum per page.
const maxIndex = 64 << 20

// index decodes a page index into v. It reports whether the file has a valid index of n bytes at
// the given offset.
func (f *File) index(at int64, n int32, v any) bool {
	if at <= 0 || n <= 0 || n > maxIndex || at > f.size || int64(n) > f.size-at {
		return false
	}
	b := make([]byte, n)
	if m, err := f.r.ReadAt(b, at); m < len(b) && err != nil {
		return false
	}
	_, err := unmarshal(b, v)
	return err == nil
}

// locations returns the locations of a chunk's pages. It returns nil if the file has no valid index
// for them.
func (f *File) locations(c *chunk) []location {
	stats, _ := f.chunkStats(c.group, c.leaf)
	var x format.OffsetIndex
	if stats == nil || !f.index(stats.OffsetIndexOffset, stats.OffsetIndexLength, &x) {
		return nil
	}
	var pages []location
	for i, p := range x.PageLocations {
		if i == 0 && (p.FirstRowIndex != 0 || p.Offset < c.start) || p.Offset >= c.end ||
			p.FirstRowIndex >= c.rows || i > 0 && (p.Offset <= pages[i-1].at ||
			p.FirstRowIndex <= pages[i-1].row) {
			return nil
		}
		pages = append(pages, location{p.Offset, p.FirstRowIndex})
	}
	return pages
}

type columnIndex struct {
	NullPages  thrift.Slice[bool]   `thrift:"1,required"`
	MinValues  thrift.Slice[[]byte] `thrift:"2,required"`
	MaxValues  thrift.Slice[[]byte] `thrift:"3,required"`
	NullCounts thrift.Slice[int64]  `thrift:"5,optional"`
}

// matchingRanges returns the rows of a chunk that may match, according to its page index. Without
// an index it returns all rows.
func (f *File) matchingRanges(filter Filter, key int, c *chunk) []rowRange {
	all := []rowRange{{0, c.rows}}
	stats, typeOrder := f.chunkStats(c.group, c.leaf)
	var x columnIndex
	if stats == nil || !typeOrder || c.Type.Kind == Null ||
		!f.index(stats.ColumnIndexOffset, stats.ColumnIndexLength, &x) {
		return all
	}
	c.locate()
	n := len(c.location.pages)
	if n == 0 || len(x.NullPages) != n || len(x.MinValues) != n || len(x.MaxValues) != n {
		return all
	}
	var some []rowRange
	for i := range n {
		bounds, nulls := c.noBounds(), true
		if !x.NullPages[i] {
			bounds = c.bounds(x.MinValues[i], x.MaxValues[i])
			nulls = c.optional && !(len(x.NullCounts) == n && x.NullCounts[i] == 0)
		}
		if filter.MayContain(key, bounds, nulls) {
			lo, hi := c.location.rows(i, c.rows)
			some = appendRange(some, lo, hi)
		}
	}
	return some
}
