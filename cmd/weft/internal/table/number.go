package table

import (
	"encoding/binary"
	"math"
	"strconv"
	"unsafe"
)

// pad is how many bytes lie before and behind the text of a block, so that eight can be loaded that
// end or begin at any of its bytes.
const pad = 8

// digits8 is the number of the digits that are the last n bytes, 1 to 8, of w; false if one is none.
func digits8(w uint64, n int) (uint64, bool) {
	const zeros, high = 0x3030303030303030, 0xf0f0f0f0f0f0f0f0
	shift := uint(64 - 8*n)
	w = w>>shift<<shift | zeros&(1<<shift-1)
	if w&high|(w+0x0606060606060606)&high>>4 != 0x3333333333333333 {
		return 0, false
	}
	// Pairs of digits, then of pairs, then of these.
	w = w & 0x0f0f0f0f0f0f0f0f * (1 + 10<<8) >> 8
	w = w & 0x00ff00ff00ff00ff * (1 + 100<<16) >> 16
	return w & 0x0000ffff0000ffff * (1 + 10000<<32) >> 32, true
}

// parseInt reads an integer of 64 bits, b[lo:hi], which has pad bytes before it. Numbers that would not be
// written so, with zeros or a plus before them, are none unless lenient: they are codes, and
// another number would come back.
func parseInt(b []byte, lo, hi int, lenient bool) (int64, bool) {
	negative := false
	if lo < hi && (b[lo] == '-' || lenient && b[lo] == '+') {
		negative = b[lo] == '-'
		lo++
	}
	if lenient {
		for hi-lo > 1 && b[lo] == '0' {
			lo++
		}
	}
	n := hi - lo
	if n <= 0 || n > 19 || n > 1 && b[lo] == '0' || negative && b[lo] == '0' && !lenient {
		return 0, false
	}
	v, ok := digits8(binary.LittleEndian.Uint64(b[hi-8:]), min(n, 8))
	scale := uint64(1e8)
	for hi, n = hi-8, n-8; ok && n > 0; hi, n = hi-8, n-8 {
		var more uint64
		more, ok = digits8(binary.LittleEndian.Uint64(b[hi-8:]), min(n, 8))
		v += more * scale // 19 digits fit
		scale *= 1e8
	}
	switch {
	case !ok:
		return 0, false
	case negative:
		return -int64(v), v <= 1<<63
	}
	return int64(v), v <= math.MaxInt64
}

// powers are those of ten that a float64 has exactly.
var powers = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// parseFloat reads a number, to the nearest float64. Numbers beyond all float64 are none, as are those with zeros
// or a plus before them unless lenient. NaN and Inf are written so, or small.
func parseFloat(s []byte, lenient bool) (float64, bool) {
	i, negative := 0, false
	if i < len(s) && (s[i] == '-' || s[i] == '+') {
		negative = s[i] == '-'
		i++
	}
	switch string(s[i:]) {
	case "NaN", "nan":
		return math.NaN(), i == 0
	case "Inf", "inf":
		return math.Inf(1 - 2*btoi(negative)), true
	}
	if !lenient && (i == 1 && s[0] == '+' || len(s) > i+1 && s[i] == '0' && s[i+1]-'0' < 10) {
		return 0, false
	}
	mantissa, exponent, digits := uint64(0), 0, 0
	point := -1
	for ; i < len(s); i++ {
		switch c := s[i]; {
		case c-'0' < 10:
			digits++
			mantissa = 10*mantissa + uint64(c-'0') // wraps: more than 15 digits are not read here
			continue
		case c == '.' && point < 0:
			point = i
			continue
		}
		break
	}
	if digits == 0 {
		return 0, false
	}
	if point >= 0 {
		exponent = point + 1 - i
	}
	if i < len(s) {
		e, ok := parseExponent(s[i:])
		if !ok {
			return 0, false
		}
		exponent += e
	}
	if digits > 15 || exponent < -22 || exponent > 22 {
		v, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(s), len(s)), 64)
		return v, err == nil
	}
	v := float64(mantissa) // exact, and so is the power: one rounding
	if exponent < 0 {
		v /= powers[-exponent]
	} else {
		v *= powers[exponent]
	}
	if negative {
		v = -v
	}
	return v, true
}

// parseExponent reads "e-12".
func parseExponent(s []byte) (e int, ok bool) {
	if len(s) < 2 || s[0]|0x20 != 'e' {
		return 0, false
	}
	s = s[1:]
	negative := s[0] == '-'
	if negative || s[0] == '+' {
		s = s[1:]
	}
	for _, c := range s {
		if c-'0' > 9 {
			return 0, false
		}
		if e < 10000 {
			e = 10*e + int(c-'0')
		}
	}
	if negative {
		e = -e
	}
	return e, len(s) > 0
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// parseBool reads true and false, also as Python and R write them.
func parseBool(s []byte) (value, ok bool) {
	switch string(s) {
	case "true", "True", "TRUE":
		return true, true
	case "false", "False", "FALSE":
		return false, true
	}
	return false, false
}
