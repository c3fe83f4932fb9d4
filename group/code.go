package group

import (
	"math"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/hash"
)

// coder packs the keys of a row to a code of 64 bits, in whose order keys ascend.
type coder struct {
	fields []field
	// packs: the columns fit. Otherwise all rows are interned.
	packs bool
	// nulls: each field has a bit that says that it is null. Otherwise rows with a null are interned.
	nulls bool
}

// field is the place of a column in codes, the first one on top.
type field struct {
	typ   column.Type
	shift uint
}

// width is the number of bits that values of a type need; 0: they have no fixed size.
func width(t column.Type) uint {
	if t == column.Bool {
		return 1
	}
	return uint(8 * t.Size())
}

func newCoder(types []column.Type, skipNulls bool) coder {
	sum := uint(0)
	for _, t := range types {
		if t == column.Bytes {
			return coder{}
		}
		sum += width(t)
	}
	if sum > 64 {
		return coder{}
	}
	c := coder{packs: true, nulls: !skipNulls && sum+uint(len(types)) <= 64}
	if c.nulls {
		sum += uint(len(types))
	}
	for _, t := range types {
		sum -= width(t)
		if c.nulls {
			sum--
		}
		c.fields = append(c.fields, field{typ: t, shift: sum})
	}
	return c
}

// encode receives the codes of rows from lo on of key columns, mixed.
func (c *coder) encode(codes []uint64, keys []column.Column, lo int, seed uint64) {
	if c.single(keys) {
		for i, v := range column.Values[int64](keys[0])[lo : lo+len(codes)] {
			codes[i] = hash.Uint64(uint64(v)^1<<63, seed)
		}
		return
	}
	c.plain(codes, keys, lo)
	mix(codes, seed)
}

// mix mixes codes.
func mix(codes []uint64, seed uint64) {
	for i, code := range codes {
		codes[i] = hash.Uint64(code, seed)
	}
}

// single tells whether keys are the most frequent ones, which are taken without detours.
func (c *coder) single(keys []column.Column) bool {
	return len(c.fields) == 1 && keys[0].Type() == column.Int64
}

// plain receives the codes of rows from lo on of key columns, as they are before they are mixed.
func (c *coder) plain(codes []uint64, keys []column.Column, lo int) {
	if c.single(keys) {
		for i, v := range column.Values[int64](keys[0])[lo : lo+len(codes)] {
			codes[i] = uint64(v) ^ 1<<63
		}
		return
	}
	clear(codes)
	for i, f := range c.fields {
		pack(codes, keys[i], lo, f.shift)
		if c.nulls && keys[i].HasNulls() {
			valid, bits := keys[i].Valid(), width(f.typ)
			for j := range codes {
				if !valid.At(lo + j) {
					codes[j] = codes[j]&^((1<<bits-1)<<f.shift) | 1<<(f.shift+bits)
				}
			}
		}
	}
}

// decode receives in words what a field of codes holds, in the form of records, and in null
// whether that is null.
func (c *coder) decode(codes, words []uint64, null []bool, i int) {
	f := c.fields[i]
	bits := width(f.typ)
	for j, code := range codes {
		null[j] = c.nulls && code>>(f.shift+bits)&1 != 0
		words[j] = unordered(f.typ, code>>f.shift&(1<<bits-1))
	}
}

// pack adds the ordered values of a column to codes.
func pack(codes []uint64, c column.Column, lo int, shift uint) {
	switch c.Type() {
	case column.Int8:
		packInts(codes, column.Values[int8](c)[lo:], 1<<7, 1<<8-1, shift)
	case column.Int16:
		packInts(codes, column.Values[int16](c)[lo:], 1<<15, 1<<16-1, shift)
	case column.Int32:
		packInts(codes, column.Values[int32](c)[lo:], 1<<31, 1<<32-1, shift)
	case column.Int64:
		packInts(codes, column.Values[int64](c)[lo:], 1<<63, 1<<64-1, shift)
	case column.Uint8:
		packInts(codes, column.Values[uint8](c)[lo:], 0, 1<<8-1, shift)
	case column.Uint16:
		packInts(codes, column.Values[uint16](c)[lo:], 0, 1<<16-1, shift)
	case column.Uint32:
		packInts(codes, column.Values[uint32](c)[lo:], 0, 1<<32-1, shift)
	case column.Uint64:
		packInts(codes, column.Values[uint64](c)[lo:], 0, 1<<64-1, shift)
	case column.Float32:
		for i, v := range column.Values[float32](c)[lo : lo+len(codes)] {
			codes[i] |= uint64(ordered32(v)) << shift
		}
	case column.Float64:
		for i, v := range column.Values[float64](c)[lo : lo+len(codes)] {
			codes[i] |= ordered64(v) << shift
		}
	case column.Bool:
		for i, v := range column.Values[bool](c)[lo : lo+len(codes)] {
			if v {
				codes[i] |= 1 << shift
			}
		}
	}
}

func packInts[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](codes []uint64, values []T, sign, mask uint64, shift uint) {
	for i, v := range values[:len(codes)] {
		codes[i] |= (uint64(v)&mask ^ sign) << shift
	}
}

// ordered32 is a float as bits in whose order floats ascend, zeros as one and all NaN as one behind the others.
func ordered32(v float32) uint32 {
	switch b := math.Float32bits(v); {
	case v != v:
		return 0x7fc00000 | 1<<31
	case v == 0:
		return 1 << 31
	case b>>31 != 0:
		return ^b
	default:
		return b | 1<<31
	}
}

// ordered64 is its sibling.
func ordered64(v float64) uint64 {
	switch b := math.Float64bits(v); {
	case v != v:
		return 0x7ff8<<48 | 1<<63
	case v == 0:
		return 1 << 63
	case b>>63 != 0:
		return ^b
	default:
		return b | 1<<63
	}
}

// unordered is an ordered value in the form of records.
func unordered(t column.Type, v uint64) uint64 {
	switch t {
	case column.Int8:
		return uint64(int8(v ^ 1<<7))
	case column.Int16:
		return uint64(int16(v ^ 1<<15))
	case column.Int32:
		return uint64(int32(v ^ 1<<31))
	case column.Int64:
		return v ^ 1<<63
	case column.Float32:
		b := uint32(v) ^ 1<<31
		if v>>31 == 0 {
			b = ^uint32(v)
		}
		return math.Float64bits(float64(math.Float32frombits(b)))
	case column.Float64:
		if v>>63 == 0 {
			return ^v
		}
		return v ^ 1<<63
	}
	return v
}
