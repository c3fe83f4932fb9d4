package rowkey

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/weftgo/weft/column"
)

// Rows of columns of fixed size are one word if their values, and a bit for each that says that it is null, have 64 bits
// together; or if there is one column, whose nulls are then a matter for the caller. Two words are equal where rows are the same key.
//
//	values    in the order of the columns, the first in the lowest bits; zero for null
//	nulls     in the highest bits, that of the first column in the lowest of them

// Packs reports whether rows are words. A column of 64 bits leaves no bit for null.
func (c *Codec) Packs() (ok, nulls bool) {
	k := len(c.types)
	if len(c.strings) > 0 {
		return false, false
	}
	size := 8 * (c.fixed - (k+7)/8)
	return size+k <= 64 || k == 1, size+k <= 64
}

// Pack writes the words of rows from lo on.
func (c *Codec) Pack(cols []column.Column, lo int, words []uint64) {
	_, nulls := c.Packs()
	shift, k := 0, len(cols)
	if k > 1 {
		clear(words)
	}
	for j, col := range cols {
		col = col.Slice(lo, lo+len(words))
		switch col.Type() {
		case column.Int8, column.Uint8:
			pack(col, values[uint8](col), words, shift, k, func(v uint8) uint64 { return uint64(v) })
		case column.Bool:
			pack(col, values[uint8](col), words, shift, k, func(v uint8) uint64 { return uint64(min(v, 1)) })
		case column.Int16, column.Uint16:
			pack(col, values[uint16](col), words, shift, k, func(v uint16) uint64 { return uint64(v) })
		case column.Int32, column.Uint32:
			pack(col, values[uint32](col), words, shift, k, func(v uint32) uint64 { return uint64(v) })
		case column.Float32:
			pack(col, values[float32](col), words, shift, k, func(v float32) uint64 { return uint64(bits32(v)) })
		case column.Float64:
			pack(col, values[float64](col), words, shift, k, bits64)
		default:
			pack(col, values[uint64](col), words, shift, k, func(v uint64) uint64 { return v })
		}
		if nulls && col.HasNulls() {
			for i := range words {
				if col.Null(i) {
					words[i] |= 1 << (64 - k + j)
				}
			}
		}
		shift += 8 * col.Type().Size()
	}
}

// values are those of a column as a type of their size.
func values[T any](c column.Column) []T {
	raw := c.Raw()
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(raw))), c.Len())
}

// pack puts values of a column into words of k columns. bits are inlined, being known where it is called.
func pack[T any](c column.Column, from []T, words []uint64, shift, k int, bits func(T) uint64) {
	from = from[:len(words)]
	switch {
	case c.HasNulls():
		for i, v := range from {
			w := uint64(0)
			if !c.Null(i) {
				w = bits(v) << shift
			}
			if k > 1 {
				w |= words[i]
			}
			words[i] = w
		}
	case k == 1:
		for i, v := range from {
			words[i] = bits(v)
		}
	default:
		for i, v := range from {
			words[i] |= bits(v) << shift
		}
	}
}

// bits32 and bits64 are the same for all NaN, and for -0 and 0.
func bits32(f float32) uint32 {
	switch {
	case f == 0:
		return 0
	case f != f:
		return math.Float32bits(float32(math.NaN()))
	}
	return math.Float32bits(f)
}

func bits64(f float64) uint64 {
	switch {
	case f == 0:
		return 0
	case f != f:
		return math.Float64bits(math.NaN())
	}
	return math.Float64bits(f)
}

// Unpack writes the row of a word, of Width bytes. null says so of the only column, if the word does not.
func (c *Codec) Unpack(word uint64, null bool, row []byte) {
	k := len(c.types)
	clear(row)
	if null {
		row[0] = 1
		return
	}
	if _, nulls := c.Packs(); nulls {
		mask := word >> (64 - k)
		for j := range k {
			if mask>>j&1 != 0 {
				row[j/8] |= 1 << (j % 8)
			}
		}
	}
	var b [8]byte
	for j, p := range c.numbers {
		binary.LittleEndian.PutUint64(b[:], word)
		size := c.types[j].Size()
		copy(row[p.at:], b[:size])
		if size < 8 {
			word >>= 8 * size
		}
	}
}
