package column

import (
	"math/bits"
	"reflect"
	"unsafe"

	"github.com/weftgo/weft/internal/enum"
	"github.com/weftgo/weft/internal/op"
)

// Type is the type of a column's values.
type Type uint8

// The types. None is the type of the zero Column, which has no rows.
const (
	None Type = iota
	Int8
	Int16
	Int32
	Int64
	Uint8
	Uint16
	Uint32
	Uint64
	Float32
	Float64
	Bool
	Bytes // byte strings; UTF-8 is not checked
)

var sizes = [...]int{
	None: 0, Int8: 1, Int16: 2, Int32: 4, Int64: 8, Uint8: 1, Uint16: 2, Uint32: 4, Uint64: 8, Float32: 4, Float64: 8, Bool: 1, Bytes: 0,
}

var types = enum.Names[Type]{Type: "column.Type", Err: op.ErrOptions, Names: []string{
	None: "none", Int8: "int8", Int16: "int16", Int32: "int32", Int64: "int64", Uint8: "uint8", Uint16: "uint16", Uint32: "uint32",
	Uint64: "uint64", Float32: "float32", Float64: "float64", Bool: "bool", Bytes: "bytes",
}}

// String returns the name of the type. It is Go's name except for None and Bytes.
func (t Type) String() string { return types.String(t) }

// MarshalText returns String, or weft.ErrOptions for an invalid type.
func (t Type) MarshalText() ([]byte, error) { return types.Text(t) }

// UnmarshalText reads a name, in upper or lower case, so flag.TextVar accepts a Type.
func (t *Type) UnmarshalText(text []byte) error { return types.Read(t, text) }

// Size returns the size of a value in bytes. It returns 0 for byte strings and invalid types.
func (t Type) Size() int {
	if int(t) >= len(sizes) {
		return 0
	}
	return sizes[t]
}

// Integer reports whether values are integers.
func (t Type) Integer() bool { return t >= Int8 && t <= Uint64 }

// Signed reports whether values are signed integers.
func (t Type) Signed() bool { return t >= Int8 && t <= Int64 }

// Float reports whether values are floats.
func (t Type) Float() bool { return t == Float32 || t == Float64 }

// Fixed lists Go types whose values have a fixed size.
type Fixed interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64 | ~bool
}

// TypeOf returns the type of columns of T. int and uint are Int64 and Uint64 if they have 64 bits.
func TypeOf[T Fixed]() Type {
	var zero T
	size := uint8(bits.TrailingZeros(uint(unsafe.Sizeof(zero)))) // 1, 2, 4, 8: 0 to 3
	switch reflect.TypeFor[T]().Kind() {
	case reflect.Bool:
		return Bool
	case reflect.Float32, reflect.Float64:
		return Float32 + Type(size-2)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return Int8 + Type(size)
	default:
		return Uint8 + Type(size)
	}
}
