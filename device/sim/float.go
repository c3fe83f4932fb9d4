package sim

import "math/bits"

// Floating-point arithmetic as a GPU does it: subnormal numbers included, one
// rounding per instruction, no exceptions. Numbers are taken apart, computed
// with all digits that can matter, and rounded once: so the same few lines
// serve every rounding of every operation in both formats.

// A format is a binary floating-point format of IEEE 754.
type format struct {
	bits   int
	digits int // of the significand, with the one that is not stored
	low    int // exponent of the last digit of subnormal numbers
}

var formats = map[int]format{32: {32, 24, -149}, 64: {64, 53, -1074}}

// format is that of a floating-point type.
func (t typ) format() format { return formats[t.bits] }

// sign is the sign bit, least the least normal number.
func (f format) sign() uint64     { return 1 << (f.bits - 1) }
func (f format) least() uint64    { return 1 << (f.digits - 1) }
func (f format) infinity() uint64 { return f.sign() - f.least() }

// isNaN reports whether bits are those of a NaN.
func (f format) isNaN(v uint64) bool { return v&^f.sign() > f.infinity() }

// flush makes a subnormal number the zero of its sign.
func (f format) flush(v uint64) uint64 {
	if v&^f.sign() < f.least() {
		return v & f.sign()
	}
	return v
}

// A rounding is a direction in which results are rounded.
type rounding uint8

const (
	toNearest rounding = iota // to even where two are equally near
	toZero
	down
	up
)

// A float is what bits of a format stand for: a NaN, infinity, or
// (hi·2⁶⁴+lo)·2^exp, whose last bit is also set for digits behind it.
type float struct {
	kind     floatKind
	negative bool
	hi, lo   uint64 // of a NaN, lo is what it carries, from the highest bit on
	exp      int
}

type floatKind uint8

const (
	finite floatKind = iota
	infinite
	notANumber
)

// invalid is the result of an operation that has none, as GPUs make it.
var invalid = float{kind: notANumber, negative: true}

// float takes bits apart.
func (f format) float(v uint64) float {
	n := float{negative: v&f.sign() != 0}
	magnitude := v &^ f.sign()
	fraction := magnitude & (f.least() - 1)
	switch e := int(magnitude >> (f.digits - 1)); {
	case magnitude > f.infinity():
		n.kind, n.lo = notANumber, fraction<<(64-(f.digits-1))
	case magnitude == f.infinity():
		n.kind = infinite
	case e == 0:
		n.lo, n.exp = fraction, f.low
	default:
		n.lo, n.exp = fraction|f.least(), f.low+e-1
	}
	return n
}

// encode rounds a number to bits.
func (f format) encode(n float, mode rounding) uint64 {
	var v uint64
	switch {
	case n.kind == notANumber:
		return f.nan(n)
	case n.kind == infinite:
		v = f.infinity()
	case !n.zero():
		// A digit carried out of the significand counts up the exponent, as it
		// should; beyond the greatest one this is infinity.
		last := max(n.exp+n.length()-f.digits, f.low)
		v = uint64(last-f.low)<<(f.digits-1) + n.round(last, mode)
		if v >= f.infinity() {
			v = f.infinity()
			if mode == toZero || mode == down && !n.negative || mode == up && n.negative {
				v--
			}
		}
	}
	if n.negative {
		v |= f.sign()
	}
	return v
}

// nan is the NaN that an instruction returns. PTX leaves open which one those
// of single precision return: GPUs know one. Those of double precision keep
// what the operand carries.
func (f format) nan(n float) uint64 {
	if f.bits == 32 {
		return f.sign() - 1
	}
	return f.quiet(n)
}

// quiet is a NaN in the format, made quiet, with what it carries.
func (f format) quiet(n float) uint64 {
	v := f.infinity() | f.least()>>1 | n.lo>>(64-(f.digits-1))
	if n.negative {
		v |= f.sign()
	}
	return v
}

func (n *float) zero() bool { return n.kind == finite && n.hi|n.lo == 0 }

// length is the number of binary digits.
func (n *float) length() int {
	if n.hi != 0 {
		return 64 + bits.Len64(n.hi)
	}
	return bits.Len64(n.lo)
}

// to is the number with another exponent: digits are dropped, the last of
// those that stay telling of it, or zeros put behind, as far as there is room.
func (n float) to(exp int) float {
	drop := exp - n.exp
	var lost uint64
	switch n.exp = exp; {
	case drop <= -64:
		n.hi, n.lo = n.lo<<(-drop-64), 0
	case drop <= 0:
		n.hi, n.lo = n.hi<<-drop|n.lo>>(64+drop), n.lo<<-drop
	case drop < 64:
		lost = n.lo << (64 - drop)
		n.hi, n.lo = n.hi>>drop, n.hi<<(64-drop)|n.lo>>drop
	case drop < 128:
		lost = n.lo | n.hi<<1<<(127-drop)
		n.hi, n.lo = 0, n.hi>>(drop-64)
	default:
		lost = n.hi | n.lo
		n.hi, n.lo = 0, 0
	}
	if lost != 0 {
		n.lo |= 1
	}
	return n
}

// round is the number in units of 2^last; there must be fewer than 2⁶⁴.
func (n float) round(last int, mode rounding) uint64 {
	n = n.to(last - 2)
	v, rest := n.hi<<62|n.lo>>2, n.lo&3
	switch mode {
	case toNearest:
		if rest == 3 || rest == 2 && v&1 != 0 {
			v++
		}
	case down, up:
		if rest != 0 && n.negative == (mode == down) {
			v++
		}
	}
	return v
}

// The operations give all digits of a result, or those that decide how it is
// rounded. Of two NaNs, sums and products are the second, and quotients the
// first, as an H200 does.

// add needs the mode of rounding for the sign of a zero.
func (n float) add(m float, mode rounding) float {
	switch {
	case m.kind == notANumber:
		return m
	case n.kind == notANumber:
		return n
	case n.kind == infinite && m.kind == infinite && n.negative != m.negative:
		return invalid
	case n.kind == infinite || m.zero() && !n.zero():
		return n
	case m.kind == infinite || n.zero() && !m.zero():
		return m
	case n.zero():
		return float{negative: n.sum(m.negative, mode)}
	}
	// The first digit of the larger exponent in bit 125, so that a carry has
	// room; digits are lost from numbers only that are too small to cancel it.
	const room = 126
	n, m = n.to(n.exp+n.length()-room), m.to(m.exp+m.length()-room)
	if n.exp < m.exp {
		n, m = m, n
	}
	m = m.to(n.exp)
	if n.negative == m.negative {
		var carry uint64
		n.lo, carry = bits.Add64(n.lo, m.lo, 0)
		n.hi, _ = bits.Add64(n.hi, m.hi, carry)
		return n
	}
	if n.hi < m.hi || n.hi == m.hi && n.lo < m.lo {
		n, m = m, n
	}
	var borrow uint64
	n.lo, borrow = bits.Sub64(n.lo, m.lo, 0)
	n.hi, _ = bits.Sub64(n.hi, m.hi, borrow)
	if n.zero() {
		n.negative = mode == down
	}
	return n
}

// sum is the sign of a sum of zeros.
func (n *float) sum(negative bool, mode rounding) bool {
	if n.negative == negative {
		return negative
	}
	return mode == down
}

// minus is the number with the other sign, which one that is none keeps.
func (n float) minus() float {
	n.negative = n.negative != (n.kind != notANumber)
	return n
}

// mul multiplies numbers of up to 64 digits.
func (n float) mul(m float) float {
	negative := n.negative != m.negative
	switch {
	case m.kind == notANumber:
		return m
	case n.kind == notANumber:
		return n
	case n.kind == infinite && m.zero() || n.zero() && m.kind == infinite:
		return invalid
	case n.kind == infinite || m.kind == infinite:
		return float{kind: infinite, negative: negative}
	}
	hi, lo := bits.Mul64(n.lo, m.lo)
	return float{negative: negative, hi: hi, lo: lo, exp: n.exp + m.exp}
}

// div divides numbers of up to 64 digits, to 63 digits at least.
func (n float) div(m float) float {
	negative := n.negative != m.negative
	switch {
	case n.kind == notANumber:
		return n
	case m.kind == notANumber:
		return m
	case n.kind == infinite && m.kind == infinite || n.zero() && m.zero():
		return invalid
	case n.kind == infinite || m.zero():
		return float{kind: infinite, negative: negative}
	case m.kind == infinite || n.zero():
		return float{negative: negative}
	}
	n, m = n.to(n.exp+n.length()-64), m.to(m.exp+m.length()-64)
	quotient, rest := bits.Div64(n.lo>>1, n.lo<<63, m.lo)
	if rest != 0 {
		quotient |= 1
	}
	return float{negative: negative, lo: quotient, exp: n.exp - m.exp - 63}
}

// sqrt is the square root, to 64 digits.
func (n float) sqrt() float {
	switch {
	case n.kind == notANumber || n.zero():
		return n
	case n.negative:
		return invalid
	case n.kind == infinite:
		return n
	}
	exp := n.exp + n.length() - 127
	n = n.to(exp - exp&1)
	var root, hi, lo uint64
	for bit := uint64(1) << 63; bit != 0; bit >>= 1 {
		h, l := bits.Mul64(root|bit, root|bit)
		if h < n.hi || h == n.hi && l <= n.lo {
			root, hi, lo = root|bit, h, l
		}
	}
	if hi != n.hi || lo != n.lo {
		root |= 1
	}
	return float{lo: root, exp: n.exp / 2}
}
