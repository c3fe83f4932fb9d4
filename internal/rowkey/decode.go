package rowkey

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/weftgo/weft/column"
)

// Valid returns an error unless the byte string is the encoding of a row.
func (c *Codec) Valid(row []byte) error {
	strings := make([][]byte, len(c.strings))
	if err := c.split(row, strings); err != nil {
		return err
	}
	cols, err := c.Decode(1, func(int) []byte { return row })
	if err != nil {
		return err
	}
	var sizes [1]int64
	encoded := make([]byte, c.Sizes(cols, 0, sizes[:]))
	c.Encode(cols, 0, 1, encoded, []int64{0, sizes[0]})
	for j := len(c.types); j < 8*((len(c.types)+7)/8); j++ {
		if null(row, j) {
			return errRow
		}
	}
	if !bytes.Equal(encoded, row) {
		return errRow
	}
	return nil
}

// Decode returns the columns of n rows. row returns the encoding of row i.
func (c *Codec) Decode(n int, row func(i int) []byte) ([]column.Column, error) {
	cols := make([]column.Column, len(c.types))
	for _, p := range c.numbers {
		cols[p.column] = decodeNumbers(c.types[p.column], n, func(i int) []byte { return row(i)[p.at:] })
	}
	if err := c.decodeStrings(cols, n, row); err != nil {
		return nil, err
	}
	for j := range cols {
		var valid []bool
		for i := range n {
			if null(row(i), j) {
				if valid == nil {
					valid = make([]bool, n)
					for k := range i {
						valid[k] = true
					}
				}
			} else if valid != nil {
				valid[i] = true
			}
		}
		if valid != nil {
			cols[j] = cols[j].WithValid(column.OfBools(valid))
		}
	}
	return cols, nil
}

func (c *Codec) decodeStrings(cols []column.Column, n int, row func(i int) []byte) error {
	if len(c.strings) == 0 {
		return nil
	}
	offsets, data := make([][]int64, len(c.strings)), make([][]byte, len(c.strings))
	for k := range offsets {
		offsets[k] = make([]int64, 1, n+1)
	}
	strings := make([][]byte, len(c.strings))
	for i := range n {
		if err := c.split(row(i), strings); err != nil {
			return err
		}
		for k, s := range strings {
			data[k] = append(data[k], s...)
			offsets[k] = append(offsets[k], int64(len(data[k])))
		}
	}
	for k, j := range c.strings {
		col, err := column.OfOffsets(offsets[k], data[k])
		if err != nil {
			return err
		}
		cols[j] = col
	}
	return nil
}

func decodeNumbers(t column.Type, n int, row func(i int) []byte) column.Column {
	le := binary.LittleEndian
	switch t {
	case column.Int8:
		return decoded(n, func(i int) int8 { return int8(row(i)[0]) })
	case column.Int16:
		return decoded(n, func(i int) int16 { return int16(le.Uint16(row(i))) })
	case column.Int32:
		return decoded(n, func(i int) int32 { return int32(le.Uint32(row(i))) })
	case column.Int64:
		return decoded(n, func(i int) int64 { return int64(le.Uint64(row(i))) })
	case column.Uint8:
		return decoded(n, func(i int) uint8 { return row(i)[0] })
	case column.Uint16:
		return decoded(n, func(i int) uint16 { return le.Uint16(row(i)) })
	case column.Uint32:
		return decoded(n, func(i int) uint32 { return le.Uint32(row(i)) })
	case column.Uint64:
		return decoded(n, func(i int) uint64 { return le.Uint64(row(i)) })
	case column.Float32:
		return decoded(n, func(i int) float32 { return math.Float32frombits(le.Uint32(row(i))) })
	case column.Float64:
		return decoded(n, func(i int) float64 { return math.Float64frombits(le.Uint64(row(i))) })
	default:
		return decoded(n, func(i int) bool { return row(i)[0] != 0 })
	}
}

func decoded[T column.Fixed](n int, at func(i int) T) column.Column {
	values := make([]T, n)
	for i := range values {
		values[i] = at(i)
	}
	return column.Of(values)
}
