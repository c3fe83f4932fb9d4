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
	Text       bool // order text by bytes, even if it is numbers
}

// Keys returns sort keys for columns with the given types. Nulls and NaN come last in both
// directions. Among text, numbers come first, by value, then NaN, then other text by bytes.
// Different spellings of a number are ordered by bytes.
func Keys(types []column.Type, by []Sort) []extsort.Key {
	keys := make([]extsort.Key, len(by))
	for i, s := range by {
		keys[i] = extsort.Key{Column: s.Column, Descending: s.Descending}
		if types[s.Column] == column.Bytes && !s.Text {
			keys[i].Descending = false // text ascends in its first byte
			keys[i].Transform = func(c column.Column) column.Column { return textCodes(c, s.Descending) }
		}
	}
	return keys
}

// textCodes returns byte strings that sort in the order that Keys defines for text.
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

// The first byte of a code is the class of the text.
const (
	classNumber byte = iota
	classNaN
	classText
)

// appendTextCode appends the class of a text, its value if it is a number, and the text. To
// descend, all bytes except the class are inverted.
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
	// If a text is a prefix of another, it sorts first, even if both are inverted. So the end is
	// marked by 0 0, and a 0 in the text becomes 0 1.
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

// signKind returns the first byte of a number's code. It orders -Inf, negative, zero, positive and
// Inf.
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

const zeroKind = 2

// appendCode appends a code that sorts like the number, and is not a prefix of another code. It
// consists of the kind, the exponent (one byte if small), the digits without a point, and 0. For a
// negative number, all but the kind is inverted.
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
