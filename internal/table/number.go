package table

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"
	"unsafe"
)

// pad is the number of bytes before and after the text of a block. With them, an eight-byte load
// may start or end at any byte of the text.
const pad = 8

// digits8 returns the number in the last n bytes of w, 1 to 8 digits. It returns false if a byte is
// not a digit.
func digits8(w uint64, n int) (uint64, bool) {
	const zeros, high = 0x3030303030303030, 0xf0f0f0f0f0f0f0f0
	shift := uint(64 - 8*n)
	w = w>>shift<<shift | zeros&(1<<shift-1)
	if w&high|(w+0x0606060606060606)&high>>4 != 0x3333333333333333 {
		return 0, false
	}
	// Combine digits to numbers of two, four and eight digits.
	w = w & 0x0f0f0f0f0f0f0f0f * (1 + 10<<8) >> 8
	w = w & 0x00ff00ff00ff00ff * (1 + 100<<16) >> 16
	return w & 0x0000ffff0000ffff * (1 + 10000<<32) >> 32, true
}

// parseInt parses a 64-bit integer, b[lo:hi]. b must have pad bytes before lo. Leading zeros and a
// plus are allowed only if lenient is set. Without lenient such text is a code, which a number
// would not preserve.
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

// powers lists the powers of ten that float64 represents exactly.
var powers = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// parseUint parses an unsigned 64-bit integer, b[lo:hi]. b must have pad bytes before lo.
func parseUint(b []byte, lo, hi int, lenient bool) (uint64, bool) {
	if v, ok := parseInt(b, lo, hi, lenient); ok {
		return uint64(v), v >= 0
	}
	if lenient {
		if lo < hi && b[lo] == '+' {
			lo++
		}
		for hi-lo > 1 && b[lo] == '0' {
			lo++
		}
	}
	if hi-lo < 19 || hi-lo > 20 || b[lo] == '0' || b[lo] == '+' { // not a uint64 beyond int64
		return 0, false
	}
	v, err := strconv.ParseUint(string(b[lo:hi]), 10, 64)
	return v, err == nil
}

// parseFloat parses a number and rounds it to the nearest float64. It returns false for numbers
// beyond the range of float64. It also accepts the words of parseWord.
func parseFloat(s []byte) (float64, bool) {
	i, negative := 0, false
	if i < len(s) && (s[i] == '-' || s[i] == '+') {
		negative = s[i] == '-'
		i++
	}
	mantissa, exponent, digits := uint64(0), 0, 0
	point := -1
	for ; i < len(s); i++ {
		switch c := s[i]; {
		case c-'0' < 10:
			digits++
			// may wrap, but is not used for more than 15 digits
			mantissa = 10*mantissa + uint64(c-'0')
			continue
		case c == '.' && point < 0:
			point = i
			continue
		}
		break
	}
	if digits == 0 {
		return parseWord(s)
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
	v := float64(mantissa) // mantissa and power are exact, so the result is rounded once
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

// parseWord parses NaN and infinities as programs write them: in any case, with a sign, as
// Infinity, and with C's NaN suffix in parentheses.
func parseWord(s []byte) (float64, bool) {
	negative := false
	if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		negative = s[0] == '-'
		s = s[1:]
	}
	if len(s) < 3 || s[0]|0x20 != 'n' && s[0]|0x20 != 'i' {
		return 0, false
	}
	switch word := s[:3]; {
	case bytes.EqualFold(word, []byte("nan")) && payload(s[3:]):
		return math.NaN(), true
	case len(s) == 3 && bytes.EqualFold(word, []byte("inf")),
		bytes.EqualFold(s, []byte("infinity")):
		return math.Inf(1 - 2*btoi(negative)), true
	}
	return 0, false
}

// payload reports whether text is empty, or consists of letters and digits in parentheses.
func payload(s []byte) bool {
	if len(s) == 0 {
		return true
	}
	if len(s) < 2 || s[0] != '(' || s[len(s)-1] != ')' {
		return false
	}
	for _, c := range s[1 : len(s)-1] {
		if c-'0' > 9 && (c|0x20)-'a' > 'z'-'a' && c != '_' {
			return false
		}
	}
	return true
}

// integral reports whether a number is written with only a sign and digits.
func integral(s []byte) bool {
	if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		s = s[1:]
	}
	for _, c := range s {
		if c-'0' > 9 {
			return false
		}
	}
	return len(s) > 0
}

// maxExact is 2^53. float64 represents all integers up to it.
const maxExact = 1 << 53

// parseExact parses a float, b[lo:hi]. b must have pad bytes before lo. It returns false for
// integers that float64 does not represent exactly.
func parseExact(b []byte, lo, hi int) (float64, bool) {
	v, ok := parseFloat(b[lo:hi])
	if !ok || !(math.Abs(v) >= maxExact) || !integral(b[lo:hi]) {
		return v, ok
	}
	n, ok := parseInt(b, lo, hi, true)
	return v, ok && v < 1<<63 && int64(v) == n
}

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

func parseBool(s []byte) (value, ok bool) {
	switch string(s) {
	case "true":
		return true, true
	case "false":
		return false, true
	}
	return false, false
}

// canonicalKey returns the text by which a key is compared. All spellings of NaN become "NaN", and
// zero loses its minus. Other keys are unchanged.
func canonicalKey(s []byte) []byte {
	if len(s) < 2 || s[0]-'0' < 10 { // the case of nearly all keys
		return s
	}
	if s[0] == '-' && isZero(s[1:]) {
		return s[1:]
	}
	if v, ok := parseWord(s); ok && v != v {
		return []byte("NaN")
	}
	return s
}

// isZero reports whether text without a sign is zero, such as 0, .00 and 0e5.
func isZero(s []byte) bool {
	zeros, point := 0, false
	for i, c := range s {
		switch {
		case c == '0':
			zeros++
		case c == '.' && !point:
			point = true
		default:
			_, ok := parseExponent(s[i:])
			return ok && zeros > 0
		}
	}
	return zeros > 0
}

// decimal is a number in decimal notation: 0.digits times ten to the exponent.
type decimal struct {
	negative bool
	exponent int64
	digits   []byte // empty for zero; may contain a point
}

// maxExponent bounds exponents. Two numbers with larger exponents are equal if their digits are.
const maxExponent = 1 << 60

func parseDecimal(s []byte) (d decimal, ok bool) {
	if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		d.negative = s[0] == '-'
		s = s[1:]
	}
	end, point, first, last := 0, -1, -1, -1
	digits := 0
	for ; end < len(s); end++ {
		switch c := s[end]; {
		case c-'0' < 10:
			digits++
			if c != '0' {
				last = end
				if first < 0 {
					first = end
				}
			}
			continue
		case c == '.' && point < 0:
			point = end
			continue
		}
		break
	}
	if digits == 0 {
		return d, false
	}
	var e int64
	if end < len(s) {
		if _, ok := parseExponent(s[end:]); !ok {
			return d, false
		}
		e, _ = strconv.ParseInt(string(s[end+1:]), 10, 64) // the nearest value if out of range
		e = min(max(e, -maxExponent), maxExponent)
	}
	if first < 0 {
		return decimal{}, true
	}
	if point < 0 {
		point = end
	}
	d.exponent = e + int64(point-first)
	if first > point {
		d.exponent++
	}
	d.digits = s[first : last+1]
	return d, true
}

// whole returns the sign and digits of an integer of at most 20 digits, without leading zeros. It
// returns false if d is no such integer.
func (d *decimal) whole() ([]byte, bool) {
	if len(d.digits) == 0 {
		return []byte("0"), true
	}
	var b []byte
	if d.negative {
		b = append(b, '-')
	}
	digits := bytes.ReplaceAll(d.digits, []byte("."), nil)
	if d.exponent > 20 || int64(len(digits)) > d.exponent {
		return nil, false
	}
	b = append(b, digits...)
	return append(b, bytes.Repeat([]byte("0"), int(d.exponent)-len(digits))...), true
}
