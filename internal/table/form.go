package table

import (
	"strconv"
	"strings"

	"github.com/weftgo/weft/column"
)

// Form is what the values of a column of text are read as. A column may be read in several forms at
// once, each of which is what it is without the others. Columns of files that have types are what
// they are.
type Form uint8

const (
	// Key is a value as it is compared: as it is written, but NaN is one, however it is spelled,
	// and zero has no minus. It is Int64 or Bool if all values are written as values of these are,
	// else Bytes.
	Key Form = iota
	// Written is a value as it is written, of the same types.
	Written
	// Text is a value as it is written, of type Bytes.
	Text
	// Number is Int64, Uint64 or Float64, none of which changes an integer. Other text makes a bad
	// row.
	Number
	// Extreme is Number, or as Written if no value is a number.
	Extreme
	// Forced is Number, of integers that may be rounded: those beyond 64 bits, and those beside
	// fractions.
	Forced
	// Present is a column of type Bool that says only which values are null.
	Present
)

// lenient reports whether integers may have zeros and a plus before them.
func (f Form) lenient() bool { return f == Number || f == Extreme || f == Forced }

// typ is the type that has values that look in some ways; None without values.
func (f Form) typ(k kinds) column.Type {
	switch {
	case f == Text:
		return column.Bytes
	case f == Present:
		return column.Bool
	case f == Number || f == Forced || f == Extreme && (k&kindNumber != 0 || k == kindWord):
		switch {
		case k&(kindFloat|kindWord) != 0,
			f == Forced && (k&kindHuge != 0 || k&kindBig != 0 && k&kindNegative != 0):
			return column.Float64
		case k&kindBig != 0:
			return column.Uint64
		}
		return column.Int64
	}
	switch k &^= kindNegative; {
	case k == 0:
		return column.None
	case k == kindInt || f == Key && k&^kindMinusZero == kindInt || f == Key && k == kindMinusZero:
		return column.Int64
	case k == kindBool:
		return column.Bool
	}
	return column.Bytes
}

// conflict is why no type has values that look in some ways, the last of which looks like of. bad
// means that only the last value is wrong.
func (f Form) conflict(name string, k, of kinds) (reason string, bad bool) {
	const text = kindText | kindBool | kindOddBool
	otherwise := "; --text " + quoteFlag(name) + " compares text, --number " + quoteFlag(name) +
		" with --bad skip leaves other rows out, --null VALUE reads a value as null"
	switch {
	case (f == Number || f == Forced) && of&text != 0:
		return "is no number", true
	case (f == Number || f == Forced) && of&kindBeyond != 0:
		return "is beyond the range of float64", true
	case f == Extreme && k&kindNumber != 0 && k&text != 0:
		reason = "is no number, and other values of the column are"
		if of&kindNumber != 0 {
			reason = "is a number, and other values of the column are not"
		}
		return reason + otherwise, false
	case f == Extreme && of&kindBeyond != 0:
		return "is beyond the range of float64" + otherwise, false
	case f != Number && f != Extreme:
		return "", false
	case k&kindHuge != 0:
		reason = "does not fit 64 bits"
	case k&kindBig != 0 && k&kindNegative != 0:
		reason = "and other integers of the column do not fit 64 bits together"
	case k&kindBig != 0 && k&(kindFloat|kindWord) != 0,
		of&(kindInt|kindOddInt) != 0 && k&(kindFloat|kindWord) != 0:
		reason = "and other values of the column fit neither 64-bit integers nor float64"
	default:
		return "", false
	}
	reason += "; --number " + quoteFlag(name) + " rounds integers to float64"
	if f == Extreme {
		reason += ", --text " + quoteFlag(name) + " compares text"
	}
	return reason, false
}

// quoteFlag is a name as a shell takes it after a flag.
func quoteFlag(name string) string {
	if name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && r != '-' && r != '.' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') &&
			(r < 'a' || r > 'z') &&
			r < 0x80
	}) {
		return name
	}
	return strconv.Quote(name)
}

// kinds are what values look like, a bit each.
type kinds uint16

// kind is what one value looks like.
type kind = kinds

const (
	kindInt       kind = 1 << iota // an int64 as it would be written
	kindMinusZero                  // -0
	kindOddInt                     // an int64 that would be written otherwise, such as 007
	kindBig                        // a uint64 that is no int64
	kindHuge                       // an integer of more than 64 bits
	kindBeyond                     // a number beyond all float64
	kindFloat
	kindWord // NaN or an infinity
	kindBool
	kindOddBool // True and the like, which are text
	kindText
	kindNegative // with others: has a minus

	kindNull kind = 0

	// kindNumber are numbers whatever stands beside them.
	kindNumber = kindInt | kindMinusZero | kindOddInt | kindBig | kindHuge | kindBeyond | kindFloat
)

func (k *kinds) add(of kind) { *k |= of }

// plain reports whether there are values, and all are numbers, or all true or false.
func (k kinds) plain() bool {
	const bools = kindBool | kindOddBool
	k &^= kindNegative
	return k != 0 && (k&(kindText|bools) == 0 || k&^bools == 0)
}

// classify says what text looks like, b[lo:hi] with pad bytes before it.
func classify(b []byte, lo, hi int) kind {
	s := b[lo:hi]
	if len(s) == 0 {
		return kindText
	}
	switch c := s[0] | 0x20; {
	case c == 't' || c == 'f':
		switch string(s) {
		case "true", "false":
			return kindBool
		case "True", "TRUE", "False", "FALSE":
			return kindOddBool
		}
		return kindText
	case c-'0' > 9 && s[0] != '-' && s[0] != '+' && s[0] != '.' && c != 'n' && c != 'i':
		return kindText
	}
	var negative kind
	if s[0] == '-' {
		negative = kindNegative
	}
	if _, ok := parseInt(b, lo, hi, false); ok {
		return kindInt | negative
	}
	if _, ok := parseDecimal(s); !ok {
		if _, ok := parseWord(s); ok {
			return kindWord
		}
		return kindText
	}
	if string(s) == "-0" {
		return kindMinusZero
	}
	if v, ok := parseInt(b, lo, hi, true); ok {
		if v == 0 {
			negative = 0
		}
		return kindOddInt | negative
	}
	if _, ok := parseUint(b, lo, hi, true); ok {
		return kindBig
	}
	switch _, ok := parseFloat(s); {
	case !ok:
		return kindBeyond | negative
	case !integral(s):
		return kindFloat
	}
	return kindHuge | negative
}
