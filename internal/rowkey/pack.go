package rowkey

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/weftgo/weft/column"
)

// Words is a layout that packs rows of fixed size into words. It places values side by side, the
// first on top. Each value has as many bits as its type, and a boolean has one bit. Two words are
// equal if and only if their rows are the same key, and words ascend as keys do. NaN comes after
// all numbers. If each value has a bit for null above it, null comes after all values. Otherwise
// the word of a row with a null is undefined.
type Words struct {
	fields []field
	size   uint
	nulls  bool
}

// field is the location of a column in words.
type field struct {
	typ         column.Type
	bits, shift uint
}

// WordsOf returns the layout for columns of the given types, with or without bits for nulls. It
// returns false if a column has byte strings, or if the row exceeds 64 bits.
func WordsOf(types []column.Type, nulls bool) (w Words, ok bool) {
	w = Words{fields: make([]field, len(types)), nulls: nulls}
	for i, t := range types {
		f := field{typ: t, bits: uint(8 * t.Size())}
		if t == column.Bool {
			f.bits = 1
		}
		if f.bits == 0 {
			return Words{}, false
		}
		w.fields[i] = f
		w.size += f.bits
		if nulls {
			w.size++
		}
	}
	if w.size > 64 {
		return Words{}, false
	}
	at := w.size
	for i := range w.fields {
		f := &w.fields[i]
		if at -= f.bits; nulls {
			at--
		}
		f.shift = at
	}
	return w, true
}

// Size returns the number of bits used in words. Higher bits are 0.
func (w *Words) Size() uint { return w.size }

// Nulls reports whether the layout has bits for nulls.
func (w *Words) Nulls() bool { return w.nulls }

// Columns returns the number of columns of a row.
func (w *Words) Columns() int { return len(w.fields) }

// Pack writes the words of the rows from lo on. Words of 32 bits require a Size of at most 32.
func Pack[K uint32 | uint64](w *Words, cols []column.Column, lo int, words []K) {
	// the most frequent case
	if len(w.fields) == 1 && w.fields[0].bits == 64 && w.fields[0].typ.Integer() {
		sign := K(0)
		if w.fields[0].typ.Signed() {
			sign = 1 << (8*unsafe.Sizeof(sign) - 1)
		}
		for i, v := range values[uint64](cols[0])[lo : lo+len(words)] {
			words[i] = K(v) ^ sign
		}
		return
	}
	clear(words)
	for j, f := range w.fields {
		col := cols[j]
		add(words, col, lo, f.shift)
		if !w.nulls || !col.HasNulls() {
			continue
		}
		value, null := (K(1)<<f.bits-1)<<f.shift, K(1)<<(f.shift+f.bits)
		valid := col.Valid()
		for i, word := range words {
			if !valid.At(lo + i) {
				words[i] = word&^value | null
			}
		}
	}
}

// Ordered writes words that have the order of the values of a column of fixed size, from row lo on.
// Words of nulls are undefined.
func Ordered(c column.Column, lo int, words []uint64) {
	clear(words)
	add(words, c, lo, 0)
}

// NaN returns the word that Ordered writes for NaN, which is greater than the words of all numbers.
// ok reports whether the type has floats.
func NaN(t column.Type) (word uint64, ok bool) {
	switch t {
	case column.Float32:
		return uint64(ordered32(bits32(float32(math.NaN())))), true
	case column.Float64:
		return ordered64(bits64(math.NaN())), true
	}
	return 0, false
}

// add writes the values of a column to words, from bit number shift upward. These bits must be
// zero.
func add[K uint32 | uint64](words []K, c column.Column, lo int, shift uint) {
	n := len(words)
	switch c.Type() {
	case column.Int8:
		addInts(words, values[uint8](c)[lo:lo+n], 1<<7, shift)
	case column.Int16:
		addInts(words, values[uint16](c)[lo:lo+n], 1<<15, shift)
	case column.Int32:
		addInts(words, values[uint32](c)[lo:lo+n], 1<<31, shift)
	case column.Int64:
		addInts(words, values[uint64](c)[lo:lo+n], 1<<63, shift)
	case column.Uint8:
		addInts(words, values[uint8](c)[lo:lo+n], 0, shift)
	case column.Uint16:
		addInts(words, values[uint16](c)[lo:lo+n], 0, shift)
	case column.Uint32:
		addInts(words, values[uint32](c)[lo:lo+n], 0, shift)
	case column.Uint64:
		addInts(words, values[uint64](c)[lo:lo+n], 0, shift)
	case column.Float32:
		for i, v := range values[float32](c)[lo : lo+n] {
			words[i] |= K(ordered32(bits32(v))) << shift
		}
	case column.Float64:
		for i, v := range values[float64](c)[lo : lo+n] {
			words[i] |= K(ordered64(bits64(v))) << shift
		}
	case column.Bool:
		for i, v := range values[uint8](c)[lo : lo+n] {
			words[i] |= K(min(v, 1)) << shift
		}
	}
}

func addInts[K uint32 | uint64, U uint8 | uint16 | uint32 | uint64](words []K, from []U, sign U, shift uint) {
	for i, v := range from {
		words[i] |= K(v^sign) << shift
	}
}

// values returns the values of a column as another type of the same size.
func values[T any](c column.Column) []T {
	raw := c.Raw()
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(raw))), c.Len())
}

// Bits returns the value of column i in a word, or null. The bits above the value are 0. All NaN
// have one form, and -0 becomes 0.
func (w *Words) Bits(word uint64, i int) (bits uint64, null bool) {
	f := w.fields[i]
	if w.nulls && word>>(f.shift+f.bits)&1 != 0 {
		return 0, true
	}
	v := word >> f.shift & (1<<f.bits - 1)
	switch {
	case f.typ == column.Float32:
		if v>>31 == 0 {
			return uint64(^uint32(v)), false
		}
		return v ^ 1<<31, false
	case f.typ == column.Float64:
		if v>>63 == 0 {
			return ^v, false
		}
		return v ^ 1<<63, false
	case f.typ.Signed():
		return v ^ 1<<(f.bits-1), false
	}
	return v, false
}

// bits32 and bits64 return the same bits for all NaN, and for -0 and 0.
func bits32(f float32) uint32 {
	switch {
	case f == 0:
		return 0
	case f != f:
		return 0x7fc00000
	}
	return math.Float32bits(f)
}

func bits64(f float64) uint64 {
	switch {
	case f == 0:
		return 0
	case f != f:
		return 0x7ff8 << 48
	}
	return math.Float64bits(f)
}

// ordered32 and ordered64 convert the bits of floats to bits that ascend as the floats do.
func ordered32(b uint32) uint32 {
	if b>>31 != 0 {
		return ^b
	}
	return b | 1<<31
}

func ordered64(b uint64) uint64 {
	if b>>63 != 0 {
		return ^b
	}
	return b | 1<<63
}

// Words returns the layout of the codec's rows as words. It exists if rows have at most 64 bits,
// including a bit for null per column. It also exists for one column of 64 bits, whose nulls the
// caller must handle.
func (c *Codec) Words() (w Words, ok bool) {
	if w, ok = WordsOf(c.types, true); !ok && len(c.types) == 1 {
		w, ok = WordsOf(c.types, false)
	}
	return w, ok
}

// Unpack writes the encoding of a word's row to row, which has Width bytes. null reports whether
// the only column is null, if the word has no bit for it.
func (c *Codec) Unpack(w *Words, word uint64, null bool, row []byte) {
	clear(row)
	var b [8]byte
	for _, p := range c.numbers {
		bits, is := w.Bits(word, p.column)
		if is || null {
			row[p.column/8] |= 1 << (p.column % 8)
			continue
		}
		binary.LittleEndian.PutUint64(b[:], bits)
		copy(row[p.at:], b[:c.types[p.column].Size()])
	}
}
