package group

import (
	"math"
	"slices"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/hash"
	"github.com/weftgo/weft/internal/rowkey"
)

// coder packs the keys of a row into a code of 64 bits. Codes have the same order as the keys.
type coder struct {
	rowkey.Words
	// packable: the key columns fit a code. Otherwise all rows are interned.
	packable bool
	// texts marks the columns of byte strings, which are packed as numbers of a dictionary.
	texts []bool
	// nullBits: codes have a bit for null per column. Otherwise rows with a null are interned.
	nullBits bool
}

func newCoder(types []column.Type, skipNulls bool) (c coder) {
	if !skipNulls {
		c.Words, c.packable = rowkey.WordsOf(types, true)
		c.nullBits = c.packable
	}
	if !c.packable {
		c.Words, c.packable = rowkey.WordsOf(types, false)
	}
	if c.packable || len(types) < 2 || !slices.Contains(types, column.Bytes) {
		return c
	}
	numbers, texts := slices.Clone(types), make([]bool, len(types))
	for i, t := range types {
		if t == column.Bytes {
			numbers[i], texts[i] = column.Uint32, true
		}
	}
	if d := newCoder(numbers, skipNulls); d.packable {
		d.texts = texts
		return d
	}
	return c
}

// encode writes the mixed codes of the rows from lo on to codes.
func (c *coder) encode(codes []uint64, keys []column.Column, lo int, seed uint64) {
	if c.Columns() == 1 && keys[0].Type() == column.Int64 { // the most frequent case
		for i, v := range column.Values[int64](keys[0])[lo : lo+len(codes)] {
			codes[i] = hash.Uint64(uint64(v)^1<<63, seed)
		}
		return
	}
	c.encodeUnmixed(codes, keys, lo)
	mix(codes, seed)
}

func mix(codes []uint64, seed uint64) {
	for i, code := range codes {
		codes[i] = hash.Uint64(code, seed)
	}
}

// encodeUnmixed writes the codes of the rows from lo on to codes, without mixing.
func (c *coder) encodeUnmixed(codes []uint64, keys []column.Column, lo int) {
	rowkey.Pack(&c.Words, keys, lo, codes)
}

// decode extracts key column i from codes. It writes the values to words, in the form of records,
// and sets null for each null key.
func (c *coder) decode(codes, words []uint64, null []bool, i int, t column.Type) {
	for j, code := range codes {
		bits, isNull := c.Bits(code, i)
		words[j], null[j] = wordOf(t, bits), isNull
	}
}

// wordOf converts the bits of a value of type t to the form that records use.
func wordOf(t column.Type, bits uint64) uint64 {
	switch t {
	case column.Int8:
		return uint64(int8(bits))
	case column.Int16:
		return uint64(int16(bits))
	case column.Int32:
		return uint64(int32(bits))
	case column.Float32:
		return math.Float64bits(float64(math.Float32frombits(uint32(bits))))
	}
	return bits
}
