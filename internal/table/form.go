package table

import (
	"strconv"
	"strings"

	"github.com/weftgo/weft/column"
)

// Form is the interpretation of the values of a text column. A column may be read in several forms
// at once. Columns of files with types keep their types.
type Form uint8

const (
	// Key reads values for comparison, as they are written. However, all spellings of NaN are
	// equal, and zero has no minus. The type is Int64 or Bool if all values are written as such
	// values are. Otherwise it is Bytes.
	Key Form = iota
	// Written reads values as they are written, including NaN and -0, with the types of Key.
	Written
	// Text reads values as they are written, with type Bytes.
	Text
	// Number reads values as Int64, Uint64 or Float64, whichever holds all integers exactly. A
	// value that is not a number makes its row bad.
	Number
	// Extreme reads values like Number, or like Written if no value is a number.
	Extreme
	// Forced reads values like Number, but rounds integers to Float64 if needed: integers beyond 64
	// bits, and integers in a column with fractions.
	Forced
	// Truth reads values as Bool: true, True, TRUE, false and so on. Another value makes its row
	// bad.
	Truth
	// Present reads a column of Bool, which only shows which values are null. Its values have no
	// meaning.
	Present
)

// lenient reports whether integers may have leading zeros or a plus.
func (f Form) lenient() bool { return f == Number || f == Extreme || f == Forced }

// typ returns the type for values of the given kinds. It returns None if no kind is given.
func (f Form) typ(k kinds) column.Type {
	switch {
	case f == Text:
		return column.Bytes
	case f == Present || f == Truth:
		return column.Bool
	case f == Number || f == Forced || f == Extreme && (k&kindNumber != 0 || k == kindWord):
		switch {
		case k&(kindFloat|kindWord) != 0,
			f == Forced && (k&kindBigInt != 0 || k&kindBig != 0 && k&kindNegative != 0):
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

// conflict returns the reason why no type holds values of kinds k, or "". of is the kind of the
// last value. bad means that only the last value is wrong.
func (f Form) conflict(name string, k, of kinds) (reason string, bad bool) {
	const text = kindText | kindBool | kindOddBool
	otherwise := "; use --text " + quoteFlag(name) + " to compare text, --number " + quoteFlag(name) +
		" with --bad skip to skip the other rows, or --null VALUE to read a value as null"
	switch {
	case f == Truth:
		return "is not true or false", true
	case (f == Number || f == Forced) && of&text != 0:
		return "is not a number", true
	case (f == Number || f == Forced) && of&kindOverflow != 0:
		return "is beyond the range of float64", true
	case f == Extreme && k&kindNumber != 0 && k&text != 0:
		reason = "is not a number, but other values of the column are"
		if of&kindNumber != 0 {
			reason = "is a number, but other values of the column are not"
		}
		return reason + otherwise, false
	case f == Extreme && of&kindOverflow != 0:
		return "is beyond the range of float64" + otherwise, false
	case f != Number && f != Extreme:
		return "", false
	case k&kindBigInt != 0:
		reason = "does not fit 64 bits"
	case k&kindBig != 0 && k&kindNegative != 0:
		reason = "and other integers of the column do not fit 64 bits together"
	case k&kindBig != 0 && k&(kindFloat|kindWord) != 0,
		of&(kindInt|kindOddInt) != 0 && k&(kindFloat|kindWord) != 0:
		reason = "and other values of the column fit neither 64-bit integers nor float64"
	default:
		return "", false
	}
	reason += "; use --number " + quoteFlag(name) + " to round integers to float64"
	if f == Extreme {
		reason += ", or --text " + quoteFlag(name) + " to compare text"
	}
	return reason, false
}

// quoteFlag quotes the argument of a flag for a shell, if needed.
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

// kinds is a set of value kinds, with one bit per kind.
type kinds uint16

type kind = kinds

const (
	kindInt       kind = 1 << iota // int64 in canonical notation
	kindMinusZero                  // -0
	kindOddInt                     // int64 in another notation, such as 007
	kindBig                        // integer that fits uint64 but not int64
	kindBigInt                     // integer of more than 64 bits
	kindOverflow                   // number beyond the range of float64
	kindFloat
	kindWord // NaN or an infinity
	kindBool
	kindOddBool // text such as True, which is not a JSON boolean
	kindText
	kindNegative // has a minus; combined with other kinds

	kindNull kind = 0

	// kindNumber contains the kinds that are always numbers, which excludes kindWord.
	kindNumber = kindInt | kindMinusZero | kindOddInt | kindBig | kindBigInt | kindOverflow | kindFloat
)

func (k *kinds) add(of kind) { *k |= of }

// plain reports whether the set is not empty and contains only numbers, or only booleans.
func (k kinds) plain() bool {
	const bools = kindBool | kindOddBool
	k &^= kindNegative
	return k != 0 && (k&(kindText|bools) == 0 || k&^bools == 0)
}

// classify returns the kind of the text b[lo:hi]. b must have pad bytes before lo.
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
		return kindOverflow | negative
	case !integral(s):
		return kindFloat
	}
	return kindBigInt | negative
}
