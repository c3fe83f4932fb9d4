// Package rowkey encodes rows of several columns as byte strings, and decodes them. Rows that are
// the same key have the same encoding. It also packs rows of up to 64 bits into words ([Words]).
//
// Two rows are the same key if they agree in each column. Null agrees only with null, all NaN
// agree, and -0 agrees with 0. An encoding has these parts:
//
//	nulls     a bit per column, from the lowest bit of the first byte on: set for null
//	numbers   the values of all columns of fixed size, in their order, little-endian; zero for null
//	lengths   of the byte strings of all columns but the last of them, as varints
//	strings   the byte strings, in their order
package rowkey

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/weftgo/weft/column"
)

// MaxColumns is the maximum number of columns of a row.
const MaxColumns = 1 << 20

// Codec encodes rows whose columns have the types given to New.
type Codec struct {
	types   []column.Type
	numbers []part // columns of fixed size
	strings []int  // columns of byte strings
	fixed   int    // bytes before the lengths
}

// part is a column of fixed size, and the offset of its values in a row.
type part struct{ column, at int }

// New returns a codec for columns of the given types.
func New(types []column.Type) (*Codec, error) {
	if len(types) == 0 || len(types) > MaxColumns {
		return nil, fmt.Errorf("a row of %d columns: want 1 to %d", len(types), MaxColumns)
	}
	c := &Codec{types: slices.Clone(types), fixed: (len(types) + 7) / 8}
	for i, t := range types {
		switch size := t.Size(); {
		case t == column.Bytes:
			c.strings = append(c.strings, i)
		case size == 0:
			return nil, fmt.Errorf("column %d has no type", i)
		default:
			c.numbers = append(c.numbers, part{i, c.fixed})
			c.fixed += size
		}
	}
	return c, nil
}

// TypesOf returns the types of columns.
func TypesOf(cols []column.Column) []column.Type {
	types := make([]column.Type, len(cols))
	for i, c := range cols {
		types[i] = c.Type()
	}
	return types
}

// Types returns the types of the columns.
func (c *Codec) Types() []column.Type { return c.types }

// Check returns an error unless columns have the types of the codec.
func (c *Codec) Check(cols []column.Column) error {
	if len(cols) != len(c.types) {
		return fmt.Errorf("%d columns, want %d as before", len(cols), len(c.types))
	}
	for i, col := range cols {
		if col.Type() != c.types[i] {
			return fmt.Errorf("column %d holds %v, want %v as before", i, col.Type(), c.types[i])
		}
	}
	return nil
}

// Width returns the size of each row in bytes, or 0 if rows have different sizes.
func (c *Codec) Width() int {
	if len(c.strings) > 0 {
		return 0
	}
	return c.fixed
}

// Sizes writes the sizes of the rows from lo on to sizes, and returns their sum.
func (c *Codec) Sizes(cols []column.Column, lo int, sizes []int64) (sum int64) {
	for i := range sizes {
		sizes[i] = int64(c.fixed)
	}
	var texts [textRows][]byte
	for from := 0; from < len(sizes); from += textRows {
		block := sizes[from:min(from+textRows, len(sizes))]
		for k, j := range c.strings {
			Texts(cols[j], lo+from, texts[:len(block)])
			for i, b := range texts[:len(block)] {
				if block[i] += int64(len(b)); k < len(c.strings)-1 {
					block[i] += int64(uvarintSize(uint64(len(b))))
				}
			}
		}
	}
	for _, n := range sizes {
		sum += n
	}
	return sum
}

func uvarintSize(x uint64) (n int) {
	for n = 1; x >= 0x80; n++ {
		x >>= 7
	}
	return n
}

// Encode writes the n rows from lo on to out. Row lo+i begins at offsets[i] and ends at
// offsets[i+1]. offsets may be nil if all rows have one width.
func (c *Codec) Encode(cols []column.Column, lo, n int, out []byte, offsets []int64) {
	at := func(i int) int {
		if offsets == nil {
			return i * c.fixed
		}
		return int(offsets[i])
	}
	for i := range n {
		clear(out[at(i) : at(i)+(len(c.types)+7)/8])
	}
	for j, col := range cols {
		if !col.HasNulls() {
			continue
		}
		for i := range n {
			if col.Null(lo + i) {
				out[at(i)+j/8] |= 1 << (j % 8)
			}
		}
	}
	for _, p := range c.numbers {
		encodeNumbers(cols[p.column], lo, n, func(i int) []byte { return out[at(i)+p.at:] })
	}
	if len(c.strings) > 0 {
		c.encodeStrings(cols, lo, n, out, offsets)
	}
}

func encodeNumbers(col column.Column, lo, n int, to func(i int) []byte) {
	raw, size, value := col.Raw(), col.Type().Size(), word(col.Type())
	for i := range n {
		v := uint64(0)
		if !col.Null(lo + i) {
			v = value(raw, lo+i)
		}
		switch b := to(i); size {
		case 1:
			b[0] = byte(v)
		case 2:
			binary.LittleEndian.PutUint16(b, uint16(v))
		case 4:
			binary.LittleEndian.PutUint32(b, uint32(v))
		default:
			binary.LittleEndian.PutUint64(b, v)
		}
	}
}

// word returns a function that reads value i from the memory of a column, for a type of fixed size.
// All NaN have one form, and -0 becomes 0.
func word(t column.Type) func(raw []byte, i int) uint64 {
	switch {
	case t == column.Bool:
		return func(raw []byte, i int) uint64 { return uint64(min(raw[i], 1)) }
	case t == column.Float32:
		return func(raw []byte, i int) uint64 {
			return uint64(bits32(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))))
		}
	case t == column.Float64:
		return func(raw []byte, i int) uint64 {
			return bits64(math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:])))
		}
	}
	switch t.Size() {
	case 1:
		return func(raw []byte, i int) uint64 { return uint64(raw[i]) }
	case 2:
		return func(raw []byte, i int) uint64 { return uint64(binary.LittleEndian.Uint16(raw[2*i:])) }
	case 4:
		return func(raw []byte, i int) uint64 { return uint64(binary.LittleEndian.Uint32(raw[4*i:])) }
	default:
		return func(raw []byte, i int) uint64 { return binary.LittleEndian.Uint64(raw[8*i:]) }
	}
}

var errRow = errors.New("not a row of these columns")

// split writes the byte strings of a row to strings, one for each column of type Bytes.
func (c *Codec) split(row []byte, strings [][]byte) error {
	if len(row) < c.fixed || len(c.strings) == 0 && len(row) > c.fixed {
		return errRow
	}
	if len(c.strings) == 0 {
		return nil
	}
	rest := row[c.fixed:]
	var lengths [8]uint64
	sizes := lengths[:0]
	for range len(c.strings) - 1 {
		n, k := binary.Uvarint(rest)
		if k <= 0 {
			return errRow
		}
		sizes, rest = append(sizes, n), rest[k:]
	}
	for k, n := range sizes {
		if n > uint64(len(rest)) {
			return errRow
		}
		strings[k], rest = rest[:n:n], rest[n:]
	}
	strings[len(sizes)] = rest
	return nil
}

// null reports whether column j of a row is null.
func null(row []byte, j int) bool { return row[j/8]>>(j%8)&1 != 0 }
