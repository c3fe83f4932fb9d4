package column

import (
	"fmt"
	"unsafe"

	"github.com/weftgo/weft/internal/op"
)

// Concat returns the values of all columns, one column after another, in new memory. If the types
// of the columns differ, it returns weft.ErrOptions. Without columns it returns the zero column.
func Concat(columns ...Column) (Column, error) {
	if len(columns) == 0 {
		return Column{}, nil
	}
	c := Column{typ: columns[0].typ}
	nulls := false
	for i, from := range columns {
		if from.typ != c.typ {
			return Column{}, fmt.Errorf("column: %w: column %d has %v and column 0 has %v",
				op.ErrOptions, i, from.typ, c.typ)
		}
		c.n += from.n
		nulls = nulls || from.HasNulls()
	}
	if c.typ == Bytes {
		c.concatBytes(columns)
	} else {
		c.concatFixed(columns)
	}
	if nulls {
		valid := make([]bool, 0, c.n)
		for _, from := range columns {
			for i := range from.n {
				valid = append(valid, !from.Null(i))
			}
		}
		c.valid = OfBools(valid)
	}
	return c, nil
}

func (c *Column) concatFixed(columns []Column) {
	memory := make([]uint64, (c.n*c.typ.Size()+7)/8)
	c.fixed = unsafe.Pointer(unsafe.SliceData(memory))
	to := c.Raw()
	for _, from := range columns {
		to = to[copy(to, from.Raw()):]
	}
}

func (c *Column) concatBytes(columns []Column) {
	c.large = make([]int64, 1, c.n+1)
	size := 0
	for _, from := range columns {
		for i := range from.n {
			size += len(from.Bytes(i))
			c.large = append(c.large, int64(size))
		}
	}
	c.data = make([]byte, 0, size)
	for _, from := range columns {
		for i := range from.n {
			c.data = append(c.data, from.Bytes(i)...)
		}
	}
}
