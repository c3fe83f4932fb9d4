package sim

import "math/bits"

// This file implements floating-point arithmetic as on a GPU: with subnormal numbers, one rounding
// per instruction, and no exceptions. It unpacks numbers, computes all digits that can affect the
// result, and rounds once. The same code thus serves every rounding of all operations in both
// formats.

// format is a binary floating-point format of IEEE 754.
type format struct {
	bits   int
	digits int // digits of the significand, including the implicit one
	low    int // exponent of the last digit of subnormal numbers
}

var formats = map[int]format{32: {32, 24, -149}, 64: {64, 53, -1074}}

// format returns the format of a floating-point type.
func (t typ) format() format { return formats[t.bits] }

// sign returns the sign bit, minNormal the least normal number, and infinity the positive infinity.
func (f format) sign() uint64      { return 1 << (f.bits - 1) }
func (f format) minNormal() uint64 { return 1 << (f.digits - 1) }
func (f format) infinity() uint64  { return f.sign() - f.minNormal() }

// isNaN reports whether v is a NaN.
func (f format) isNaN(v uint64) bool { return v&^f.sign() > f.infinity() }

// flush replaces a subnormal number by the zero of the same sign.
func (f format) flush(v uint64) uint64 {
	if v&^f.sign() < f.minNormal() {
		return v & f.sign()
	}
	return v
}

// rounding is a direction in which results are rounded.
type rounding uint8

const (
	toNearest rounding = iota // to nearest, ties to even
	toZero
	down
	up
)

// float is an unpacked number: a NaN, an infinity, or (hi·2⁶⁴+lo)·2^exp. If digits after the
// last were dropped and one of them was 1, the last bit is set.
type float struct {
	kind     floatKind
	negative bool
	hi, lo   uint64 // lo of a NaN is its payload, aligned to the highest bit
	exp      int
}

type floatKind uint8

const (
	finite floatKind = iota
	infinite
	notANumber
)

// invalid is the NaN that a GPU returns for an invalid operation.
var invalid = float{kind: notANumber, negative: true}

// float unpacks a number.
func (f format) float(v uint64) float {
	n := float{negative: v&f.sign() != 0}
	magnitude := v &^ f.sign()
	fraction := magnitude & (f.minNormal() - 1)
	switch e := int(magnitude >> (f.digits - 1)); {
	case magnitude > f.infinity():
		n.kind, n.lo = notANumber, fraction<<(64-(f.digits-1))
	case magnitude == f.infinity():
		n.kind = infinite
	case e == 0:
		n.lo, n.exp = fraction, f.low
	default:
		n.lo, n.exp = fraction|f.minNormal(), f.low+e-1
	}
	return n
}

// encode rounds and packs a number.
func (f format) encode(n float, mode rounding) uint64 {
	var v uint64
	switch {
	case n.kind == notANumber:
		return f.nan(n)
	case n.kind == infinite:
		v = f.infinity()
	case !n.zero():
		// A carry out of the significand correctly increments the exponent. Beyond the greatest
		// exponent the result is infinity.
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

// nan returns the NaN that an instruction returns for operand n. PTX does not specify it for single
// precision, where GPUs have only one NaN. A double-precision NaN keeps the operand's payload.
func (f format) nan(n float) uint64 {
	if f.bits == 32 {
		return f.sign() - 1
	}
	return f.quiet(n)
}

// quiet returns a quiet NaN in the format, with the payload of n.
func (f format) quiet(n float) uint64 {
	v := f.infinity() | f.minNormal()>>1 | n.lo>>(64-(f.digits-1))
	if n.negative {
		v |= f.sign()
	}
	return v
}

func (n *float) zero() bool { return n.kind == finite && n.hi|n.lo == 0 }

// length returns the number of binary digits of hi·2⁶⁴+lo.
func (n *float) length() int {
	if n.hi != 0 {
		return 64 + bits.Len64(n.hi)
	}
	return bits.Len64(n.lo)
}

// to returns the number with exponent exp. A higher exponent drops digits, and sets the last bit if
// any of them was 1. A lower exponent appends zeros, as far as they fit.
func (n float) to(exp int) float {
	drop := exp - n.exp
	var rest uint64
	switch n.exp = exp; {
	case drop <= -64:
		n.hi, n.lo = n.lo<<(-drop-64), 0
	case drop <= 0:
		n.hi, n.lo = n.hi<<-drop|n.lo>>(64+drop), n.lo<<-drop
	case drop < 64:
		rest = n.lo << (64 - drop)
		n.hi, n.lo = n.hi>>drop, n.hi<<(64-drop)|n.lo>>drop
	case drop < 128:
		rest = n.lo | n.hi<<1<<(127-drop)
		n.hi, n.lo = 0, n.hi>>(drop-64)
	default:
		rest = n.hi | n.lo
		n.hi, n.lo = 0, 0
	}
	if rest != 0 {
		n.lo |= 1
	}
	return n
}

// round returns the number divided by 2^last, rounded to an integer, which must be below 2⁶⁴.
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

// The operations below return all digits of a result, or as many as determine its rounding. Of two
// NaNs, sums and products return the second, and quotients the first, as on an H200.

// add returns n + m. The rounding mode determines the sign of a zero result.
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
	// The first digit of each number moves to bit 125, so that a carry fits. Digits get lost only
	// if a number is too small to cancel the other.
	const topBit = 126
	n, m = n.to(n.exp+n.length()-topBit), m.to(m.exp+m.length()-topBit)
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

// sum reports whether the sum of the zero n and a zero of the given sign is negative.
func (n *float) sum(negative bool, mode rounding) bool {
	if n.negative == negative {
		return negative
	}
	return mode == down
}

// minus returns the number with the opposite sign. A NaN keeps its sign.
func (n float) minus() float {
	n.negative = n.negative != (n.kind != notANumber)
	return n
}

// mul returns the product of two numbers of at most 64 digits.
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

// div returns the quotient of two numbers of at most 64 digits. It has at least 63 digits.
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

// sqrt returns the square root with 64 digits.
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
