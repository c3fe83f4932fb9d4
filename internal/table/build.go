package table

import (
	"math"

	"github.com/weftgo/weft/column"
)

// builder makes a column from the values of a block. Values are set by row number. If a row is
// dropped, the next row overwrites its value.
type builder struct {
	typ     column.Type
	form    Form
	fixed   bool // a value that does not fit typ becomes null
	rows    int  // maximum number of rows
	ints    []int64
	uints   []uint64
	floats  []float64
	bools   []bool
	texts   texts
	nulls   []int    // rows that are null, in ascending order
	misfits []misfit // in ascending order of rows
}

// misfit describes a value that does not fit the type of its column.
type misfit struct {
	row int
	of  kind
}

func (c *builder) reset(rows int) {
	*c = builder{typ: c.typ, form: c.form, fixed: c.fixed, rows: rows, texts: c.texts}
	switch c.typ {
	case column.Int64:
		c.ints = make([]int64, rows)
	case column.Uint64:
		c.uints = make([]uint64, rows)
	case column.Float64:
		c.floats = make([]float64, rows)
	case column.Bool:
		c.bools = make([]bool, rows)
	default:
		c.texts.reset(rows)
	}
}

// isText reports whether the column is text, or has no values that determine a type.
func (c *builder) isText() bool { return c.typ == column.Bytes || c.typ == column.None }

// truncate drops the value of the given row, which must be the last one.
func (c *builder) truncate(row int) {
	if n := len(c.nulls); n > 0 && c.nulls[n-1] >= row {
		c.nulls = c.nulls[:n-1]
	}
	if n := len(c.misfits); n > 0 && c.misfits[n-1].row >= row {
		c.misfits = c.misfits[:n-1]
	}
	if c.isText() {
		c.texts.truncate(row)
	}
}

func (c *builder) null(row int) {
	c.nulls = append(c.nulls, row)
	if c.isText() {
		c.texts.null()
	}
}

// set sets the value of a row to b[lo:hi]. It reports whether the value fits the type.
func (c *builder) set(row int, b []byte, lo, hi int) (ok bool) {
	switch c.typ {
	case column.Int64:
		c.ints[row], ok = parseInt(b, lo, hi, c.form.lenient())
		ok = ok || c.form == Key && string(b[lo:hi]) == "-0"
	case column.Uint64:
		c.uints[row], ok = parseUint(b, lo, hi, c.form.lenient())
	case column.Float64:
		if c.form == Forced {
			c.floats[row], ok = parseFloat(b[lo:hi])
		} else {
			c.floats[row], ok = parseExact(b, lo, hi)
		}
	case column.Bool:
		c.bools[row], ok = parseBool(b[lo:hi])
		if c.form == Truth && !ok && classifyText(b[lo:hi]) == kindOddBool {
			c.bools[row], ok = b[lo]|0x20 == 't', true
		}
		ok = ok || c.form == Present
	case column.Bytes:
		value := b[lo:hi]
		switch c.form {
		case Key:
			value = canonicalKey(value)
		case Extreme:
			if _, number := parseDecimal(value); number {
				return false
			}
		}
		c.texts.add(value)
		return true
	}
	return ok
}

// setWhole sets the value of a row to an integer in another notation, such as 3.0. It reports
// whether the value fits the type.
func (c *builder) setWhole(row int, value []byte) bool {
	d, ok := parseDecimal(value)
	if !ok || c.typ != column.Int64 && c.typ != column.Uint64 {
		return false
	}
	digits, ok := d.whole()
	if !ok {
		return false
	}
	b := append(make([]byte, pad, pad+len(digits)), digits...)
	return c.set(row, b, pad, len(b))
}

func (c *builder) column(rows int) column.Column {
	var out column.Column
	switch c.typ {
	case column.Int64:
		out = column.Of(c.ints[:rows])
	case column.Uint64:
		out = column.Of(c.uints[:rows])
	case column.Float64:
		out = column.Of(c.floats[:rows])
	case column.Bool:
		out = column.Of(c.bools[:rows])
	default:
		out = c.texts.column(rows)
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

// ofText returns a column of text. It uses 32-bit offsets if they suffice.
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
