package column

import (
	"fmt"
	"unsafe"
)

// Column is a sequence of values of one type, which may be null. The zero value has no rows.
type Column struct {
	typ   Type
	n     int
	valid Bitmap // the zero value if no value is null

	fixed unsafe.Pointer // the first value, for all types but Bytes

	// The values of type Bytes, in one of these forms.
	strings []string
	small   []int32 // n+1 offsets into data
	large   []int64 // n+1 offsets into data
	data    []byte
	width   int // bytes per value, without offsets
	codes   []uint32
	dict    *Column // dictionary that codes index
}

// Of returns a column over a slice.
func Of[T Fixed](values []T) Column {
	return Column{typ: TypeOf[T](), n: len(values), fixed: unsafe.Pointer(unsafe.SliceData(values))}
}

// OfStrings returns a column of type Bytes over a slice of strings.
func OfStrings[S ~string](values []S) Column {
	return Column{typ: Bytes, n: len(values), strings: unsafe.Slice((*string)(unsafe.Pointer(unsafe.SliceData(values))), len(values))}
}

// OfOffsets returns a column of type Bytes in Arrow's layout: value i is
// data[offsets[i]:offsets[i+1]]. The number of values is one less than len(offsets), or 0 if
// offsets is empty. Offsets that descend or lie outside data are an error that names the first such
// offset.
func OfOffsets[O ~int32 | ~int64](offsets []O, data []byte) (Column, error) {
	last := O(0)
	for i, o := range offsets {
		if o < last || int64(o) > int64(len(data)) {
			return Column{}, fmt.Errorf("column: offset %d is %d, want %d to %d, the length of the data", i, o, last, len(data))
		}
		last = o
	}
	if len(offsets) == 0 {
		return Column{typ: Bytes}, nil
	}
	c := Column{typ: Bytes, n: len(offsets) - 1, data: data}
	if unsafe.Sizeof(last) == 4 {
		c.small = unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(offsets))), len(offsets))
	} else {
		c.large = unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(offsets))), len(offsets))
	}
	return c, nil
}

// OfWidth returns a column of type Bytes whose values all have width bytes: hashes, addresses,
// UUIDs. Width must be positive, and the length of data a multiple of it.
func OfWidth(width int, data []byte) (Column, error) {
	if width <= 0 || len(data)%width != 0 {
		return Column{}, fmt.Errorf("column: %d bytes of data cannot be values of %d bytes",
			len(data), width)
	}
	return Column{typ: Bytes, n: len(data) / width, data: data, width: width}, nil
}

// OfRaw returns a column with a type of fixed size, over the memory of its values. It is the
// inverse of [Column.Raw]. Data whose address or length is no multiple of the size of a value is an
// error. Each byte of a Bool must be 0 or 1, which OfRaw does not check.
func OfRaw(t Type, data []byte) (Column, error) {
	size := t.Size()
	memory := unsafe.Pointer(unsafe.SliceData(data))
	if size == 0 || len(data)%size != 0 || uintptr(memory)%uintptr(size) != 0 {
		return Column{}, fmt.Errorf("column: %d bytes at %p cannot be values of %v: wrong length or alignment", len(data),
			memory, t)
	}
	return Column{typ: t, n: len(data) / size, fixed: memory}, nil
}

// OfCodes returns a column of type Bytes whose value i is value codes[i] of a dictionary. The
// dictionary is a column of type Bytes without nulls and without codes. It may contain a value
// twice. Work on columns with few distinct values is cheaper in this form. A code outside the
// dictionary is an error that names the code, even in rows that become null later.
func OfCodes(codes []uint32, dict Column) (Column, error) {
	if dict.typ != Bytes || dict.dict != nil || dict.HasNulls() {
		return Column{}, fmt.Errorf("column: a dictionary must be byte strings without nulls and without codes, not a column of %v", dict.typ)
	}
	for i, code := range codes {
		if uint64(code) >= uint64(dict.n) {
			return Column{}, fmt.Errorf("column: code %d is %d, in a dictionary of %d values", i, code, dict.n)
		}
	}
	return Column{typ: Bytes, n: len(codes), codes: codes, dict: &dict}, nil
}

// WithValid returns the same column, with null in place of each value whose bit is not set. It
// panics if the bitmap has another length than the column.
func (c Column) WithValid(valid Bitmap) Column {
	if valid.n != c.n {
		panic(fmt.Sprintf("column: a bitmap of %d bits for %d values", valid.n, c.n))
	}
	c.valid = valid
	return c
}

// Type returns the type of the values.
func (c Column) Type() Type { return c.typ }

// Len returns the number of values, including nulls.
func (c Column) Len() int { return c.n }

// Valid returns the bitmap of the values that are not null, or the zero value without HasNulls.
func (c Column) Valid() Bitmap { return c.valid }

// HasNulls reports whether values may be null.
func (c Column) HasNulls() bool { return c.valid.bits != nil }

// Null reports whether value i is null.
func (c Column) Null(i int) bool { return c.valid.bits != nil && !c.valid.At(i) }

// Nulls returns the number of nulls.
func (c Column) Nulls() int {
	if !c.HasNulls() {
		return 0
	}
	return c.n - c.valid.Count()
}

// Values returns the values of a column of fixed size. The values of nulls are undefined. If T is
// not the column's type, Values panics.
func Values[T Fixed](c Column) []T {
	if t := TypeOf[T](); t != c.typ {
		panic(fmt.Sprintf("column: values of %v requested from a column of %v", t, c.typ))
	}
	return unsafe.Slice((*T)(c.fixed), c.n)
}

// Bytes returns value i of a column of type Bytes, which must not be changed. Bytes panics for
// other types.
func (c Column) Bytes(i int) []byte {
	switch {
	case c.typ != Bytes:
		panic(fmt.Sprintf("column: bytes requested from a column of %v", c.typ))
	case c.strings != nil:
		s := c.strings[i]
		return unsafe.Slice(unsafe.StringData(s), len(s))
	case c.small != nil:
		return c.data[c.small[i]:c.small[i+1]]
	case c.large != nil:
		return c.data[c.large[i]:c.large[i+1]]
	case c.dict != nil:
		return c.dict.Bytes(int(c.codes[i]))
	default:
		return c.data[i*c.width : (i+1)*c.width]
	}
}

// Width returns the number of bytes of each value: the size of the type, or the width of [OfWidth].
// It returns 0 if values may have different widths.
func (c Column) Width() int {
	if c.typ == Bytes {
		return c.width
	}
	return c.typ.Size()
}

// Raw returns the memory of the values if all have the same width. It returns nil for other forms.
func (c Column) Raw() []byte {
	if c.typ == Bytes {
		if c.width == 0 {
			return nil
		}
		return c.data
	}
	return unsafe.Slice((*byte)(c.fixed), c.n*c.typ.Size())
}

// Strings returns the values of a column made by [OfStrings], and nil for other forms.
func (c Column) Strings() []string { return c.strings }

// Offsets returns the memory of a column made by [OfOffsets]: its 32-bit or 64-bit offsets, and the
// data that they refer to. The other offsets are nil. For other forms all results are nil.
func (c Column) Offsets() (small []int32, large []int64, data []byte) {
	if c.small == nil && c.large == nil {
		return nil, nil, nil
	}
	return c.small, c.large, c.data
}

// Codes returns the codes and the dictionary of a column made by [OfCodes]. For other forms it
// returns nil and the zero column.
func (c Column) Codes() (codes []uint32, dict Column) {
	if c.dict == nil {
		return nil, Column{}
	}
	return c.codes, *c.dict
}

// HasCodes reports whether [OfCodes] made the column.
func (c Column) HasCodes() bool { return c.dict != nil }

// Slice returns the values lo to hi-1, in the same memory.
func (c Column) Slice(lo, hi int) Column {
	if lo < 0 || lo > hi || hi > c.n {
		panic(fmt.Sprintf("column: values %d to %d of %d", lo, hi, c.n))
	}
	if c.HasNulls() {
		c.valid = c.valid.Slice(lo, hi)
	}
	switch {
	case c.typ != Bytes:
		if hi > lo { // a pointer past the end would keep another object alive
			c.fixed = unsafe.Add(c.fixed, lo*c.typ.Size())
		}
	case c.strings != nil:
		c.strings = c.strings[lo:hi]
	case c.small != nil:
		c.small = c.small[lo : hi+1]
	case c.large != nil:
		c.large = c.large[lo : hi+1]
	case c.dict != nil:
		c.codes = c.codes[lo:hi]
	default:
		c.data = c.data[lo*c.width : hi*c.width]
	}
	c.n = hi - lo
	return c
}

// Any returns value i as int8 to int64, uint8 to uint64, float32, float64, bool or string, or nil
// if value i is null.
func (c Column) Any(i int) any {
	if c.Null(i) {
		return nil
	}
	switch c.typ {
	case Int8:
		return Values[int8](c)[i]
	case Int16:
		return Values[int16](c)[i]
	case Int32:
		return Values[int32](c)[i]
	case Int64:
		return Values[int64](c)[i]
	case Uint8:
		return Values[uint8](c)[i]
	case Uint16:
		return Values[uint16](c)[i]
	case Uint32:
		return Values[uint32](c)[i]
	case Uint64:
		return Values[uint64](c)[i]
	case Float32:
		return Values[float32](c)[i]
	case Float64:
		return Values[float64](c)[i]
	case Bool:
		return Values[bool](c)[i]
	case Bytes:
		return string(c.Bytes(i))
	}
	panic("column: a value of a column without a type")
}
