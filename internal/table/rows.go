package table

import (
	"math"
	"slices"

	"github.com/weftgo/weft/column"
)

// NoRow selects a null in [Take].
const NoRow = math.MaxUint32

// Take returns a new column with the values at the given rows.
func Take(c column.Column, rows []uint32) column.Column {
	var out column.Column
	switch c.Type() {
	case column.Int8:
		out = take[int8](c, rows)
	case column.Int16:
		out = take[int16](c, rows)
	case column.Int32:
		out = take[int32](c, rows)
	case column.Int64:
		out = take[int64](c, rows)
	case column.Uint8:
		out = take[uint8](c, rows)
	case column.Uint16:
		out = take[uint16](c, rows)
	case column.Uint32:
		out = take[uint32](c, rows)
	case column.Uint64:
		out = take[uint64](c, rows)
	case column.Float32:
		out = take[float32](c, rows)
	case column.Float64:
		out = take[float64](c, rows)
	case column.Bool:
		out = take[bool](c, rows)
	default:
		out = takeBytes(c, rows)
	}
	if !c.HasNulls() && !slices.Contains(rows, NoRow) {
		return out
	}
	valid := make([]bool, len(rows))
	for i, row := range rows {
		valid[i] = row != NoRow && !c.Null(int(row))
	}
	return out.WithValid(column.OfBools(valid))
}

func take[T column.Fixed](c column.Column, rows []uint32) column.Column {
	values, out := column.Values[T](c), make([]T, len(rows))
	for i, row := range rows {
		if row != NoRow {
			out[i] = values[row]
		}
	}
	return column.Of(out)
}

func takeBytes(c column.Column, rows []uint32) column.Column {
	offsets := make([]int64, 1, len(rows)+1)
	var data []byte
	for _, row := range rows {
		if row != NoRow && !c.Null(int(row)) {
			data = append(data, c.Bytes(int(row))...)
		}
		offsets = append(offsets, int64(len(data)))
	}
	return ofText(offsets, data)
}

// Concat concatenates columns of one type. It returns a single column unchanged.
func Concat(columns []column.Column) column.Column {
	if len(columns) == 1 {
		return columns[0]
	}
	n, nulls := 0, false
	for _, c := range columns {
		n += c.Len()
		nulls = nulls || c.HasNulls()
	}
	var out column.Column
	switch columns[0].Type() {
	case column.Int8:
		out = concat[int8](columns, n)
	case column.Int16:
		out = concat[int16](columns, n)
	case column.Int32:
		out = concat[int32](columns, n)
	case column.Int64:
		out = concat[int64](columns, n)
	case column.Uint8:
		out = concat[uint8](columns, n)
	case column.Uint16:
		out = concat[uint16](columns, n)
	case column.Uint32:
		out = concat[uint32](columns, n)
	case column.Uint64:
		out = concat[uint64](columns, n)
	case column.Float32:
		out = concat[float32](columns, n)
	case column.Float64:
		out = concat[float64](columns, n)
	case column.Bool:
		out = concat[bool](columns, n)
	default:
		offsets := make([]int64, 1, n+1)
		var data []byte
		for _, c := range columns {
			for i := range c.Len() {
				if !c.Null(i) {
					data = append(data, c.Bytes(i)...)
				}
				offsets = append(offsets, int64(len(data)))
			}
		}
		out = ofText(offsets, data)
	}
	if !nulls {
		return out
	}
	valid := make([]bool, 0, n)
	for _, c := range columns {
		for i := range c.Len() {
			valid = append(valid, !c.Null(i))
		}
	}
	return out.WithValid(column.OfBools(valid))
}

func concat[T column.Fixed](columns []column.Column, n int) column.Column {
	out := make([]T, 0, n)
	for _, c := range columns {
		out = append(out, column.Values[T](c)...)
	}
	return column.Of(out)
}

// Size returns the memory of a column in bytes.
func Size(c column.Column) int64 {
	n := int64(len(c.Raw())) + int64(c.Len()/8)
	if small, large, data := c.Offsets(); small != nil || large != nil {
		n += int64(4*len(small) + 8*len(large) + len(data))
	} else if codes, dict := c.Codes(); c.HasCodes() {
		n += 4*int64(len(codes)) + Size(dict)
	} else if c.Type() == column.Bytes && c.Width() == 0 {
		n += 16 * int64(c.Len())
		for i := range c.Len() {
			n += int64(len(c.Bytes(i)))
		}
	}
	return n
}

type number interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64
}

// Empty returns a column of type t without values.
func Empty(t column.Type) column.Column {
	switch t {
	case column.Int8:
		return column.Of([]int8{})
	case column.Int16:
		return column.Of([]int16{})
	case column.Int32:
		return column.Of([]int32{})
	case column.Int64:
		return column.Of([]int64{})
	case column.Uint8:
		return column.Of([]uint8{})
	case column.Uint16:
		return column.Of([]uint16{})
	case column.Uint32:
		return column.Of([]uint32{})
	case column.Uint64:
		return column.Of([]uint64{})
	case column.Float32:
		return column.Of([]float32{})
	case column.Float64:
		return column.Of([]float64{})
	case column.Bool:
		return column.Of([]bool{})
	}
	return column.OfStrings([]string{})
}

// Convert converts a column of integers to Int64 or Uint64, or of floats to Float64. A column that
// already has the type is returned unchanged. Integers outside the range of the type become null.
func Convert(c column.Column, to column.Type) column.Column {
	if c.Type() == to {
		return c
	}
	var out column.Column
	switch c.Type() {
	case column.Int8:
		out = column.Of(converted[int8, int64](c))
	case column.Int16:
		out = column.Of(converted[int16, int64](c))
	case column.Int32:
		out = column.Of(converted[int32, int64](c))
	case column.Uint8:
		out = column.Of(converted[uint8, int64](c))
	case column.Uint16:
		out = column.Of(converted[uint16, int64](c))
	case column.Uint32:
		out = column.Of(converted[uint32, int64](c))
	case column.Float32:
		out = column.Of(converted[float32, float64](c))
	default:
		out = c
	}
	if c.HasNulls() {
		out = out.WithValid(c.Valid())
	}
	if to == column.Uint64 && out.Type() == column.Int64 {
		return unsigned(out)
	}
	return out
}

// unsigned converts int64 to uint64. Negative values become null.
func unsigned(c column.Column) column.Column {
	valid := make([]bool, c.Len())
	for i, v := range column.Values[int64](c) {
		valid[i] = v >= 0 && !c.Null(i)
	}
	return column.Of(converted[int64, uint64](c)).WithValid(column.OfBools(valid))
}

func converted[From, To number](c column.Column) []To {
	out := make([]To, c.Len())
	for i, v := range column.Values[From](c) {
		out[i] = To(v)
	}
	return out
}

// Converts returns the default target type of [Convert] for a type: Int64, Float64, or the type
// itself.
func Converts(t column.Type) column.Type {
	switch {
	case t.Integer() && t != column.Uint64:
		return column.Int64
	case t.Float():
		return column.Float64
	}
	return t
}
