package arrow

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/weftgo/weft/column"
)

// Column converts an array to a column. The package comment lists what is copied. A type that
// columns do not support is an error. So is a buffer that is too short for the array's length, and
// an offset outside its buffer.
func Column(arr arrow.Array) (c column.Column, err error) {
	defer recoverError(&err, "read an array") // dictionaries are built lazily, which may panic
	if _, err := Storage(arr.DataType()); err != nil {
		return c, err
	}
	switch a := arr.(type) {
	case array.ExtensionArray:
		return Column(a.Storage())
	case *array.Dictionary:
		return decoded(a)
	}
	c, err = values(arr)
	if err != nil {
		return column.Column{}, fmt.Errorf("arrow: array of %d values of type %v: %w", arr.Len(), arr.DataType(), err)
	}
	return c, nil
}

// Columns converts each field of a record batch to a column. Errors name the field.
func Columns(rec arrow.RecordBatch) ([]column.Column, error) {
	columns := make([]column.Column, rec.NumCols())
	for i := range columns {
		var err error
		if columns[i], err = Column(rec.Column(i)); err != nil {
			return nil, fmt.Errorf("field %q: %w", rec.ColumnName(i), err)
		}
	}
	return columns, nil
}

func values(arr arrow.Array) (c column.Column, err error) {
	n, data := arr.Len(), arr.Data()
	if data.Offset() < 0 || n < 0 || data.Offset() > math.MaxInt/64-n {
		return c, fmt.Errorf("%d values at offset %d", n, data.Offset())
	}
	id := data.DataType().ID()
	switch {
	case id == arrow.NULL:
		return column.OfStrings(make([]string, n)).WithValid(column.OfBools(make([]bool, n))), nil
	case n == 0:
		return empty(arr.DataType()), nil
	case id == arrow.BOOL:
		c, err = bools(data)
	case id == arrow.STRING || id == arrow.BINARY:
		c, err = offsets[int32](data)
	case id == arrow.LARGE_STRING || id == arrow.LARGE_BINARY:
		c, err = offsets[int64](data)
	case id == arrow.STRING_VIEW || id == arrow.BINARY_VIEW:
		c, err = views(data)
	default:
		c, err = fixed(data)
	}
	if err != nil {
		return c, err
	}
	return withValid(c, data)
}

// empty returns a column of length 0 for values of Arrow type t, which columns must support.
func empty(t arrow.DataType) column.Column {
	switch storage, _ := Storage(t); storage {
	case column.Bool:
		return column.Of([]bool{})
	case column.Bytes:
		return column.OfStrings([]string{})
	default:
		return ofNumbers(storage, unsafe.Pointer(new(int64)), 0)
	}
}

// withValid adds the validity bitmap of an array to a column. It counts the nulls if data does not
// state their number.
func withValid(c column.Column, data arrow.ArrayData) (column.Column, error) {
	bits, err := buffer(data, 0, (data.Offset()+c.Len()+7)/8)
	if data.Buffers()[0] == nil || data.Buffers()[0].Len() == 0 {
		if data.NullN() > 0 {
			return c, errors.New("the array has nulls but no validity bitmap")
		}
		return c, nil
	}
	if err != nil {
		return c, err
	}
	valid := column.OfBits(bits, data.Offset(), c.Len())
	if data.NullN() == 0 || valid.Count() == c.Len() {
		return c, nil
	}
	return c.WithValid(valid), nil
}

// buffer returns the bytes of buffer i. Fewer than size bytes are an error.
func buffer(data arrow.ArrayData, i, size int) ([]byte, error) {
	if i >= len(data.Buffers()) {
		return nil, fmt.Errorf("%d buffers, want more than %d", len(data.Buffers()), i)
	}
	var b []byte
	if data.Buffers()[i] != nil {
		b = data.Buffers()[i].Bytes()
	}
	if len(b) < size {
		return nil, fmt.Errorf("buffer %d has %d bytes, want %d", i, len(b), size)
	}
	return b, nil
}

// slice returns n values of buffer i, starting at the array's offset. It copies values that are not
// aligned to their size.
func slice[T any](data arrow.ArrayData, i, n int) ([]T, error) {
	var zero T
	size := int(unsafe.Sizeof(zero))
	b, err := buffer(data, i, (data.Offset()+n)*size)
	if err != nil || n == 0 {
		return nil, err
	}
	b = b[data.Offset()*size : (data.Offset()+n)*size]
	if uintptr(unsafe.Pointer(&b[0]))%unsafe.Alignof(zero) != 0 {
		aligned := make([]T, n)
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&aligned[0])), len(b)), b)
		return aligned, nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), n), nil
}

func bools(data arrow.ArrayData) (column.Column, error) {
	n := data.Len()
	raw, err := buffer(data, 1, (data.Offset()+n+7)/8)
	if err != nil {
		return column.Column{}, err
	}
	bits := column.OfBits(raw, data.Offset(), n)
	values := make([]bool, n)
	for i := range values {
		values[i] = bits.At(i)
	}
	return column.Of(values), nil
}

func offsets[O int32 | int64](data arrow.ArrayData) (column.Column, error) {
	at, err := slice[O](data, 1, data.Len()+1)
	if err != nil {
		return column.Column{}, err
	}
	text, err := buffer(data, 2, 0)
	if err != nil {
		return column.Column{}, err
	}
	return column.OfOffsets(at, text)
}

// inline is the length of the longest value that is stored inside its view.
const inline = 12

// views converts an array of string or binary views to a column of strings, which share the memory
// of the array's bytes.
func views(data arrow.ArrayData) (column.Column, error) {
	n := data.Len()
	raw, err := slice[[4]uint32](data, 1, n) // length, four bytes, buffer, offset
	if err != nil {
		return column.Column{}, err
	}
	strings := make([]string, n)
	for i := range raw {
		v := &raw[i]
		size := int(int32(v[0]))
		switch {
		case data.Buffers()[0] != nil && data.Buffers()[0].Len() > (data.Offset()+i)/8 && data.Buffers()[0].Bytes()[(data.Offset()+i)/8]>>((data.Offset()+i)%8)&1 == 0:
		case size < 0:
			return column.Column{}, fmt.Errorf("view %d has %d bytes", i, size)
		case size <= inline:
			strings[i] = unsafe.String((*byte)(unsafe.Pointer(&v[1])), size)
		default:
			b, err := buffer(data, 2+int(v[2]), int(v[3])+size)
			if err != nil {
				return column.Column{}, fmt.Errorf("view %d: %w", i, err)
			}
			strings[i] = unsafe.String(&b[v[3]], size)
		}
	}
	return column.OfStrings(strings), nil
}

// fixed converts an array whose values all have the same number of bytes.
func fixed(data arrow.ArrayData) (column.Column, error) {
	t, n := data.DataType(), data.Len()
	storage, _ := Storage(t)
	if storage != column.Bytes {
		return ofFixed(storage, data)
	}
	width := t.(arrow.FixedWidthDataType).BitWidth() / 8
	if width <= 0 {
		return column.OfStrings(make([]string, n)), nil // values without bytes
	}
	if n > math.MaxInt/width-data.Offset() {
		return column.Column{}, fmt.Errorf("values of %d bytes", width)
	}
	b, err := buffer(data, 1, (data.Offset()+n)*width)
	if err != nil {
		return column.Column{}, err
	}
	return column.OfWidth(width, b[data.Offset()*width:(data.Offset()+n)*width])
}

func ofFixed(t column.Type, data arrow.ArrayData) (c column.Column, err error) {
	n := data.Len()
	var p unsafe.Pointer
	switch t.Size() {
	case 1:
		p, err = first[uint8](data, n)
	case 2:
		p, err = first[uint16](data, n)
	case 4:
		p, err = first[uint32](data, n)
	default:
		p, err = first[uint64](data, n)
	}
	if err != nil {
		return c, err
	}
	return ofNumbers(t, p, n), nil
}

func first[T any](data arrow.ArrayData, n int) (unsafe.Pointer, error) {
	values, err := slice[T](data, 1, n)
	return unsafe.Pointer(unsafe.SliceData(values)), err
}

func ofNumbers(t column.Type, p unsafe.Pointer, n int) column.Column {
	switch t {
	case column.Int8:
		return column.Of(unsafe.Slice((*int8)(p), n))
	case column.Int16:
		return column.Of(unsafe.Slice((*int16)(p), n))
	case column.Int32:
		return column.Of(unsafe.Slice((*int32)(p), n))
	case column.Int64:
		return column.Of(unsafe.Slice((*int64)(p), n))
	case column.Uint8:
		return column.Of(unsafe.Slice((*uint8)(p), n))
	case column.Uint16:
		return column.Of(unsafe.Slice((*uint16)(p), n))
	case column.Uint32:
		return column.Of(unsafe.Slice((*uint32)(p), n))
	case column.Uint64:
		return column.Of(unsafe.Slice((*uint64)(p), n))
	case column.Float32:
		return column.Of(unsafe.Slice((*float32)(p), n))
	default:
		return column.Of(unsafe.Slice((*float64)(p), n))
	}
}
