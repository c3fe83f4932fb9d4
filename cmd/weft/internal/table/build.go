package table

import (
	"math"

	"github.com/weftgo/weft/column"
)

// builder makes a column of the values of a block. Values are set at the number of a row, and stay
// only if the row does: the next one is set there else.
type builder struct {
	typ     column.Type
	number  bool // integers and floats may have zeros and a plus before them
	rows    int  // room
	ints    []int64
	floats  []float64
	bools   []bool
	offsets []int64
	data    []byte
	nulls   []int // rows, in ascending order
}

// reset makes room for so many rows in new memory.
func (c *builder) reset(rows int) {
	*c = builder{typ: c.typ, number: c.number, rows: rows, data: make([]byte, 0, cap(c.data))}
	switch c.typ {
	case column.Int64:
		c.ints = make([]int64, rows)
	case column.Float64:
		c.floats = make([]float64, rows)
	case column.Bool:
		c.bools = make([]bool, rows)
	default:
		c.offsets = make([]int64, 1, rows+1)
	}
}

// back drops what has been set at a row or behind it.
func (c *builder) back(row int) {
	if n := len(c.nulls); n > 0 && c.nulls[n-1] >= row {
		c.nulls = c.nulls[:n-1]
	}
	if c.offsets != nil {
		c.offsets = c.offsets[:row+1]
		c.data = c.data[:c.offsets[row]]
	}
}

func (c *builder) null(row int) {
	c.nulls = append(c.nulls, row)
	if c.offsets != nil {
		c.offsets = append(c.offsets, int64(len(c.data)))
	}
}

// set sets a value, b[lo:hi]; false if the type does not have it.
func (c *builder) set(row int, b []byte, lo, hi int) (ok bool) {
	switch c.typ {
	case column.Int64:
		c.ints[row], ok = parseInt(b, lo, hi, c.number)
	case column.Float64:
		c.floats[row], ok = parseFloat(b[lo:hi], c.number)
	case column.Bool:
		c.bools[row], ok = parseBool(b[lo:hi])
	default:
		c.data = append(c.data, b[lo:hi]...)
		c.offsets = append(c.offsets, int64(len(c.data)))
		return true
	}
	return ok
}

// column is the first rows.
func (c *builder) column(rows int) column.Column {
	var out column.Column
	switch c.typ {
	case column.Int64:
		out = column.Of(c.ints[:rows])
	case column.Float64:
		out = column.Of(c.floats[:rows])
	case column.Bool:
		out = column.Of(c.bools[:rows])
	default:
		out = ofText(c.offsets[:rows+1], c.data)
	}
	if len(c.nulls) == 0 {
		return out
	}
	bits := make([]byte, (rows+7)/8)
	for i := range bits {
		bits[i] = 0xff
	}
	for _, row := range c.nulls {
		bits[row/8] &^= 1 << (row % 8)
	}
	return out.WithValid(column.OfBits(bits, 0, rows))
}

// ofText is a column of text, with offsets of 32 bits where that is enough.
func ofText(offsets []int64, data []byte) column.Column {
	var c column.Column
	var err error
	if len(data) <= math.MaxInt32 {
		small := make([]int32, len(offsets))
		for i, o := range offsets {
			small[i] = int32(o)
		}
		c, err = column.OfOffsets(small, data)
	} else {
		c, err = column.OfOffsets(offsets, data)
	}
	if err != nil {
		panic(err) // offsets ascend
	}
	return c
}

// kind is what a value looks like.
type kind uint8

const (
	kindNull kind = iota
	kindInt
	kindFloat
	kindLarge // an integer of more than 64 bits
	kindBool
	kindText
)

// classify says what text looks like, b[lo:hi] with pad bytes before it.
func classify(b []byte, lo, hi int) kind {
	if _, ok := parseInt(b, lo, hi, false); ok {
		return kindInt
	}
	if _, ok := parseFloat(b[lo:hi], false); ok {
		for _, c := range b[lo:hi] {
			if c-'0' > 9 && c != '-' || string(b[lo:hi]) == "-0" {
				return kindFloat
			}
		}
		return kindLarge
	}
	if _, ok := parseBool(b[lo:hi]); ok {
		return kindBool
	}
	return kindText
}

// kinds are what values of a column look like, a bit each.
type kinds uint8

func (k *kinds) add(of kind) { *k |= 1 << of }

// typ is the type that has all values. Large integers are text, so that no digit is lost.
func (k kinds) typ() column.Type {
	switch k &^ (1 << kindNull) {
	case 1 << kindInt:
		return column.Int64
	case 1 << kindFloat, 1<<kindFloat | 1<<kindInt:
		return column.Float64
	case 1 << kindBool:
		return column.Bool
	}
	return column.Bytes
}

// plain reports whether there are values, and all are numbers, or all true or false.
func (k kinds) plain() bool {
	k &^= 1 << kindNull
	return k != 0 && (k&(1<<kindText|1<<kindBool) == 0 || k == 1<<kindBool)
}

// numberType is the type of a column that is to be numbers.
func (k kinds) numberType() column.Type {
	if k&(1<<kindFloat|1<<kindLarge) != 0 {
		return column.Float64
	}
	return column.Int64
}

// wider is the type that has the values of a type, and one that it does not have.
func wider(t column.Type, number bool, of kind) column.Type {
	switch {
	case t == column.Int64 && (of == kindFloat || number && of == kindLarge):
		return column.Float64
	case number:
		return column.None
	}
	return column.Bytes
}
