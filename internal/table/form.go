package table

import (
	"strconv"
	"strings"

	"github.com/weftgo/weft/column"
)

// Form is the interpretation of the values of a column of text. A column may be read in several
// forms at once, each independent of the others. Columns of files with types keep their types.
type Form uint8

const (
	// Key is a value as it is compared: as it is written, but all spellings of NaN are one, and
	// zero has no minus. The type is Int64 or Bool if all values are written like values of these
	// types, otherwise Bytes.
	Key Form = iota
	// Written is a value as it is written, of the same types.
	Written
	// Text is a value as it is written, of type Bytes.
	Text
	// Number is Int64, Uint64 or Float64, if the type holds all integers exactly. Other text makes
	// a bad row.
	Number
	// Extreme is Number, or as Written if no value is a number.
	Extreme
	// Forced is Number with integers that may be rounded: those beyond 64 bits, and those beside
	// fractions.
	Forced
	// Present is a column of type Bool that only shows which values are null.
	Present
)

// lenient reports whether integers may have leading zeros and a plus.
func (f Form) lenient() bool { return f == Number || f == Extreme || f == Forced }

// typ returns the type for values of some kinds, or None without values.
func (f Form) typ(k kinds) column.Type {
	switch {
	case f == Text:
		return column.Bytes
	case f == Present:
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

// conflict returns the reason why no type holds values of kinds k. The last value is of kind of.
// bad means that only the last value is wrong.
func (f Form) conflict(name string, k, of kinds) (reason string, bad bool) {
	const text = kindText | kindBool | kindOddBool
	otherwise := "; use --text " + quoteFlag(name) + " to compare text, --number " + quoteFlag(name) +
		" with --bad skip to skip the other rows, or --null VALUE to read a value as null"
	switch {
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

// quoteFlag quotes a name for a shell, as the argument of a flag.
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

// kinds is a set of the kinds of values, one bit each.
type kinds uint16

// kind is the kind of one value.
type kind = kinds

const (
	kindInt       kind = 1 << iota // an int64 as it would be written
	kindMinusZero                  // -0
	kindOddInt                     // an int64 in another notation, such as 007
	kindBig                        // a uint64 beyond int64
	kindBigInt                     // an integer of more than 64 bits
	kindOverflow                   // a number beyond all float64
	kindFloat
	kindWord // NaN or an infinity
	kindBool
	kindOddBool // True and the like, which are text
	kindText
	kindNegative // with others: has a minus

	kindNull kind = 0

	// kindNumber holds the kinds that are numbers beside any others.
	kindNumber = kindInt | kindMinusZero | kindOddInt | kindBig | kindBigInt | kindOverflow | kindFloat
)

func (k *kinds) add(of kind) { *k |= of }

// plain reports whether the set is not empty, and has only numbers, or only true and false.
func (k kinds) plain() bool {
	const bools = kindBool | kindOddBool
	k &^= kindNegative
	return k != 0 && (k&(kindText|bools) == 0 || k&^bools == 0)
}

// classify returns the kind of text b[lo:hi], with pad bytes before it.
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
