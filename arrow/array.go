package arrow

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/weftgo/weft/column"
)

// Array converts a column to an array of type t. If t is nil, the column determines the type:
// numbers of the same size, booleans or binary. Otherwise the column must have the type that
// [Storage] returns for t. For a dictionary type, the result is an array of the values, without
// codes.
//
// The array is a view of the column's memory. These are copied: booleans, which become bits; the
// bytes of Go strings; byte strings if t requires other offsets or another width than the column
// has; and a validity bitmap that does not begin at a byte boundary. Text is not validated: with a
// string type, the caller asserts that the bytes are UTF-8.
func Array(c column.Column, t arrow.DataType) (arrow.Array, error) {
	if t == nil {
		t = typeOf(c)
	}
	storage, err := Storage(t)
	if err != nil {
		return nil, err
	}
	inner := meaning(t)
	switch {
	case c.Type() == column.None || inner.ID() == arrow.NULL && c.Nulls() == c.Len():
		if c.Type() == column.None {
			return array.MakeArrayOfNull(memory.DefaultAllocator, inner, 0), nil
		}
		return array.NewNull(c.Len()), nil
	case c.Type() != storage || inner.ID() == arrow.NULL:
		return nil, fmt.Errorf("arrow: a column of %v cannot be an array of type %v, which is stored as %v", c.Type(), t, storage)
	}
	arr, err := arrayOf(c, inner)
	if err != nil {
		return nil, fmt.Errorf("arrow: a column of %d values as an array of type %v: %w", c.Len(), t, err)
	}
	if e, ok := t.(arrow.ExtensionType); ok && arrow.TypeEqual(e.StorageType(), inner) {
		defer arr.Release()
		return array.NewExtensionArrayWithStorage(e, arr), nil
	}
	return arr, nil
}

// RecordBatch converts columns to a record batch: columns[i] becomes field i of the schema. Errors
// name the field.
func RecordBatch(columns []column.Column, schema *arrow.Schema) (arrow.RecordBatch, error) {
	if len(columns) != schema.NumFields() {
		return nil, fmt.Errorf("arrow: %d columns for a schema of %d fields", len(columns), schema.NumFields())
	}
	rows := 0
	arrays := make([]arrow.Array, 0, len(columns))
	defer func() {
		for _, a := range arrays {
			a.Release()
		}
	}()
	for i, c := range columns {
		if i == 0 {
			rows = c.Len()
		}
		if c.Len() != rows {
			return nil, fmt.Errorf("arrow: field %q has %d values, the first %d", schema.Field(i).Name, c.Len(), rows)
		}
		arr, err := Array(c, schema.Field(i).Type)
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", schema.Field(i).Name, err)
		}
		if !arrow.TypeEqual(arr.DataType(), schema.Field(i).Type) {
			arr.Release()
			return nil, fmt.Errorf("field %q: arrow: columns cannot be arrays of type %v",
				schema.Field(i).Name, schema.Field(i).Type)
		}
		arrays = append(arrays, arr)
	}
	return array.NewRecordBatch(schema, arrays, int64(rows)), nil
}

// arrayOf converts a column to an array of type t, which is neither an extension nor a dictionary.
func arrayOf(c column.Column, t arrow.DataType) (arrow.Array, error) {
	buffers := []*memory.Buffer{validity(c)}
	switch id := t.ID(); {
	case id == arrow.STRING_VIEW || id == arrow.BINARY_VIEW:
		return viewsOf(c, t), nil
	case id == arrow.STRING || id == arrow.BINARY || id == arrow.LARGE_STRING || id == arrow.LARGE_BINARY:
		at, text, err := offsetsOf(c, id == arrow.LARGE_STRING || id == arrow.LARGE_BINARY)
		if err != nil {
			return nil, err
		}
		buffers = append(buffers, memory.NewBufferBytes(at), memory.NewBufferBytes(text))
	case c.Type() == column.Bool:
		bits, _ := column.OfBools(column.Values[bool](c)).Raw()
		buffers = append(buffers, memory.NewBufferBytes(bits))
	case c.Type() != column.Bytes:
		buffers = append(buffers, memory.NewBufferBytes(c.Raw()))
	default:
		raw, err := ofWidth(c, t.(arrow.FixedWidthDataType).BitWidth()/8)
		if err != nil {
			return nil, err
		}
		buffers = append(buffers, memory.NewBufferBytes(raw))
	}
	data := array.NewData(t, c.Len(), buffers, nil, c.Nulls(), 0)
	defer data.Release()
	return array.MakeFromData(data), nil
}

// validity returns a bitmap of the values that are not null, or nil if no value is null. The bitmap
// begins at a byte boundary.
func validity(c column.Column) *memory.Buffer {
	if c.Nulls() == 0 {
		return nil
	}
	bits, offset := c.Valid().Raw()
	if offset%8 == 0 {
		return memory.NewBufferBytes(bits[offset/8:])
	}
	shifted := make([]byte, (c.Len()+7)/8)
	for i := range c.Len() {
		if c.Valid().At(i) {
			shifted[i/8] |= 1 << (i % 8)
		}
	}
	return memory.NewBufferBytes(shifted)
}

// offsetsOf returns the column's 64-bit offsets if large is set, else 32-bit offsets, and the text
// that they index.
func offsetsOf(c column.Column, large bool) (at, text []byte, err error) {
	o32, o64, text := c.Offsets()
	switch {
	case large && o64 != nil:
		return bytesOf(o64), text, nil
	case !large && o32 != nil:
		return bytesOf(o32), text, nil
	}
	total := 0
	for i := range c.Len() {
		if !c.Null(i) {
			total += len(c.Bytes(i))
		}
	}
	if !large && total > math.MaxInt32 {
		return nil, nil, errors.New("its values have more bytes than 32-bit offsets can address; use a type with 64-bit offsets")
	}
	text = make([]byte, 0, total)
	o64 = make([]int64, 1, c.Len()+1)
	for i := range c.Len() {
		if !c.Null(i) {
			text = append(text, c.Bytes(i)...)
		}
		o64 = append(o64, int64(len(text)))
	}
	if large {
		return bytesOf(o64), text, nil
	}
	o32 = make([]int32, len(o64))
	for i, o := range o64 {
		o32[i] = int32(o)
	}
	return bytesOf(o32), text, nil
}

func bytesOf[O int32 | int64](values []O) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), len(values)*int(unsafe.Sizeof(values[0])))
}

// ofWidth returns the column's values as consecutive bytes. Any value of another width, except
// null, is an error.
func ofWidth(c column.Column, width int) ([]byte, error) {
	if c.Width() == width && width > 0 {
		return c.Raw(), nil
	}
	raw := make([]byte, c.Len()*width)
	for i := range c.Len() {
		switch {
		case c.Null(i):
		case len(c.Bytes(i)) != width:
			return nil, fmt.Errorf("value %d has %d bytes, want %d", i, len(c.Bytes(i)), width)
		default:
			copy(raw[i*width:], c.Bytes(i))
		}
	}
	return raw, nil
}

func viewsOf(c column.Column, t arrow.DataType) arrow.Array {
	builder := array.NewBuilder(memory.DefaultAllocator, t)
	defer builder.Release()
	builder.Reserve(c.Len())
	for i := range c.Len() {
		switch b := builder.(type) {
		case *array.StringViewBuilder:
			if c.Null(i) {
				b.AppendNull()
			} else {
				b.Append(string(c.Bytes(i)))
			}
		case *array.BinaryViewBuilder:
			if c.Null(i) {
				b.AppendNull()
			} else {
				b.Append(slices.Clone(c.Bytes(i)))
			}
		}
	}
	return builder.NewArray()
}
