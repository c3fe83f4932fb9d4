package arrow

import (
	"fmt"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/weftgo/weft/column"
)

// Dictionary returns the two parts of a dictionary array. codes holds a code per row, or null if
// the row is null. values holds the value of code i at index i. Neither is copied. A code outside
// the dictionary is an error.
//
// Codes are cheaper to process than values. However, two arrays may use different codes for one
// value, and one dictionary may contain a value twice.
func Dictionary(arr *array.Dictionary) (codes, values column.Column, err error) {
	defer recoverError(&err, "read an array")
	if codes, err = Column(arr.Indices()); err != nil {
		return codes, values, err
	}
	if values, err = Column(arr.Dictionary()); err != nil {
		return codes, values, err
	}
	_, err = rows(codes, values.Len())
	return codes, values, err
}

// decoded returns the value of each row. A row is null if its code is null or if the dictionary's
// value is null.
func decoded(arr *array.Dictionary) (column.Column, error) {
	codes, err := Column(arr.Indices())
	if err != nil {
		return column.Column{}, err
	}
	values, err := Column(arr.Dictionary())
	if err != nil {
		return column.Column{}, err
	}
	at, err := rows(codes, values.Len())
	if err != nil {
		return column.Column{}, err
	}
	c, err := gather(values, at)
	if err != nil {
		return column.Column{}, err
	}
	if !codes.HasNulls() && !values.HasNulls() {
		return c, nil
	}
	valid := make([]bool, len(at))
	for i, v := range at {
		valid[i] = v >= 0 && !values.Null(v)
	}
	return c.WithValid(column.OfBools(valid)), nil
}

// rows converts codes to indexes into a dictionary of n values. A null code becomes -1.
func rows(codes column.Column, n int) (at []int, err error) {
	switch codes.Type() {
	case column.Int8:
		return rowsOf[int8](codes, n)
	case column.Int16:
		return rowsOf[int16](codes, n)
	case column.Int32:
		return rowsOf[int32](codes, n)
	case column.Int64:
		return rowsOf[int64](codes, n)
	case column.Uint8:
		return rowsOf[uint8](codes, n)
	case column.Uint16:
		return rowsOf[uint16](codes, n)
	case column.Uint32:
		return rowsOf[uint32](codes, n)
	case column.Uint64:
		return rowsOf[uint64](codes, n)
	}
	return nil, fmt.Errorf("arrow: dictionary codes are %v, want integers", codes.Type())
}

func rowsOf[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](codes column.Column, n int) ([]int, error) {
	at := make([]int, codes.Len())
	for i, code := range column.Values[T](codes) {
		switch {
		case codes.Null(i):
			at[i] = -1
		case code < 0 || uint64(code) >= uint64(n):
			return nil, fmt.Errorf("arrow: code %d of row %d is outside a dictionary of %d values", code, i, n)
		default:
			at[i] = int(code)
		}
	}
	return at, nil
}

// gather returns a column with value values[at[i]] in row i. Index -1 yields an arbitrary value.
// Byte strings become codes if no value is null.
func gather(values column.Column, at []int) (column.Column, error) {
	switch t := values.Type(); {
	case t == column.Bytes && values.Len() > 0 && !values.HasNulls() && !values.HasCodes():
		codes := make([]uint32, len(at))
		for i, v := range at {
			codes[i] = uint32(max(v, 0))
		}
		return column.OfCodes(codes, values)
	case t == column.Bytes:
		strings := make([]string, len(at))
		for i, v := range at {
			if v >= 0 {
				b := values.Bytes(v)
				strings[i] = unsafe.String(unsafe.SliceData(b), len(b))
			}
		}
		return column.OfStrings(strings), nil
	case t == column.Bool:
		return column.Of(pick(column.Values[bool](values), at)), nil
	default:
		raw := unsafe.Pointer(unsafe.SliceData(values.Raw()))
		var p unsafe.Pointer
		switch t.Size() {
		case 1:
			p = unsafe.Pointer(unsafe.SliceData(pick(unsafe.Slice((*uint8)(raw), values.Len()), at)))
		case 2:
			p = unsafe.Pointer(unsafe.SliceData(pick(unsafe.Slice((*uint16)(raw), values.Len()), at)))
		case 4:
			p = unsafe.Pointer(unsafe.SliceData(pick(unsafe.Slice((*uint32)(raw), values.Len()), at)))
		default:
			p = unsafe.Pointer(unsafe.SliceData(pick(unsafe.Slice((*uint64)(raw), values.Len()), at)))
		}
		return ofNumbers(t, p, len(at)), nil
	}
}

func pick[T any](values []T, at []int) []T {
	out := make([]T, len(at))
	for i, v := range at {
		if v >= 0 {
			out[i] = values[v]
		}
	}
	return out
}
