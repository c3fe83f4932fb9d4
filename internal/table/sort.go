package table

import (
	"encoding/binary"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/extsort"
)

// Sort is a column to order rows by.
type Sort struct {
	Column     int
	Descending bool
	Text       bool // by bytes, also if the text is numbers
}

// Keys returns the keys of an order of rows. Nulls and NaN come last in both directions. Text that
// is numbers comes first, by value, then NaN, then other text by its bytes. Numbers of one value in
// different spellings are in the order of their bytes. types are those of the columns.
func Keys(types []column.Type, by []Sort) []extsort.Key {
	keys := make([]extsort.Key, len(by))
	for i, s := range by {
		keys[i] = extsort.Key{Column: s.Column, Descending: s.Descending}
		if types[s.Column] == column.Bytes && !s.Text {
			keys[i].Descending = false // the class of text always ascends
			keys[i].Transform = func(c column.Column) column.Column { return textCodes(c, s.Descending) }
		}
	}
	return keys
}

// textCodes returns byte strings that ascend in the order of texts.
func textCodes(c column.Column, descending bool) column.Column {
	offsets := make([]int64, 1, c.Len()+1)
	var data []byte
	for i := range c.Len() {
		if !c.Null(i) {
			data = appendTextCode(data, c.Bytes(i), descending)
		}
		offsets = append(offsets, int64(len(data)))
	}
	codes := ofText(offsets, data)
	if c.HasNulls() {
		codes = codes.WithValid(c.Valid())
	}
	return codes
}

// The classes of text, in their order: the first byte of a code.
const (
	classNumber byte = iota
	classNaN
	classText
)

// appendTextCode appends the class of a text, its value if it is a number, and the text. All but
// the class is inverted to descend.
func appendTextCode(b, text []byte, descending bool) []byte {
	at := len(b)
	b = append(b, classText)
	if d, ok := parseDecimal(text); ok {
		b[at] = classNumber
		b = d.appendCode(b)
	} else if v, ok := parseWord(text); ok && v == v {
		b[at] = classNumber
		b = append(b, signKind(v < 0, true))
	} else if ok {
		b[at] = classNaN
	}
	if !descending {
		return append(b, text...)
	}
	// A prefix of another text would come first also when both are inverted. So the end is marked:
	// 0 0, where a 0 of the text is 0 1.
	for _, c := range text {
		if b = append(b, c); c == 0 {
			b = append(b, 1)
		}
	}
	b = append(b, 0, 0)
	for i := at + 1; i < len(b); i++ {
		b[i] = ^b[i]
	}
	return b
}

// signKind returns the first byte of the code of a number: -Inf, negative, zero, positive, Inf.
func signKind(negative, infinite bool) byte {
	kind := byte(1)
	if infinite {
		kind++
	}
	if negative {
		return zeroKind - kind
	}
	return zeroKind + kind
}

// zeroKind is the kind of zero.
const zeroKind = 2

// appendCode appends a code that ascends as numbers do, and is no prefix of another code: the kind,
// the exponent, in one byte if it is small, the digits without a point, and 0. That of a negative
// number is inverted.
func (d *decimal) appendCode(b []byte) []byte {
	if len(d.digits) == 0 {
		return append(b, zeroKind)
	}
	const small, lowMark, highMark = 100, 1, 255
	b = append(b, signKind(d.negative, false))
	at := len(b)
	switch {
	case d.exponent < -small:
		b = binary.BigEndian.AppendUint64(append(b, lowMark), uint64(d.exponent)^1<<63)
	case d.exponent > small:
		b = binary.BigEndian.AppendUint64(append(b, highMark), uint64(d.exponent)^1<<63)
	default:
		b = append(b, byte(128+d.exponent))
	}
	for _, c := range d.digits {
		if c != '.' {
			b = append(b, c)
		}
	}
	b = append(b, 0)
	if d.negative {
		for i := at; i < len(b); i++ {
			b[i] = ^b[i]
		}
	}
	return b
}
