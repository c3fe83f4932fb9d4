package sim

import "math/bits"

// Floating-point arithmetic as a GPU does it: subnormal numbers included, one rounding per
// instruction, no exceptions. Numbers are unpacked, computed with all digits that can matter, and
// rounded once. The same few lines therefore serve every rounding of every operation in both
// formats.

// A format is a binary floating-point format of IEEE 754.
type format struct {
	bits   int
	digits int // of the significand, including the implicit one
	low    int // exponent of the last digit of subnormal numbers
}

var formats = map[int]format{32: {32, 24, -149}, 64: {64, 53, -1074}}

// format returns the format of a floating-point type.
func (t typ) format() format { return formats[t.bits] }

// sign returns the sign bit, least the least normal number.
func (f format) sign() uint64      { return 1 << (f.bits - 1) }
func (f format) minNormal() uint64 { return 1 << (f.digits - 1) }
func (f format) infinity() uint64  { return f.sign() - f.minNormal() }

// isNaN reports whether bits are those of a NaN.
func (f format) isNaN(v uint64) bool { return v&^f.sign() > f.infinity() }

// flush replaces a subnormal number by the zero of its sign.
func (f format) flush(v uint64) uint64 {
	if v&^f.sign() < f.minNormal() {
		return v & f.sign()
	}
	return v
}

// A rounding is a direction in which results are rounded.
type rounding uint8

const (
	toNearest rounding = iota // ties to even
	toZero
	down
	up
)

// A float is the unpacked value of bits of a format: a NaN, infinity, or (hi·2⁶⁴+lo)·2^exp. Its
// last bit is also set if digits after it were dropped.
type float struct {
	kind     floatKind
	negative bool
	hi, lo   uint64 // of a NaN, lo is the payload, from the highest bit on
	exp      int
}

type floatKind uint8

const (
	finite floatKind = iota
	infinite
	notANumber
)

// invalid is the result of an invalid operation, as GPUs return it.
var invalid = float{kind: notANumber, negative: true}

// float unpacks bits.
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

// encode rounds a number and packs it into bits.
func (f format) encode(n float, mode rounding) uint64 {
	var v uint64
	switch {
	case n.kind == notANumber:
		return f.nan(n)
	case n.kind == infinite:
		v = f.infinity()
	case !n.zero():
		// A carry out of the significand correctly increments the exponent; beyond the greatest
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

// nan returns the NaN that an instruction returns. PTX does not specify it for single precision:
// GPUs have only one. NaNs of double precision keep the payload of the operand.
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

// length returns the number of binary digits.
func (n *float) length() int {
	if n.hi != 0 {
		return 64 + bits.Len64(n.hi)
	}
	return bits.Len64(n.lo)
}

// to returns the number with another exponent. It drops digits, and sets the last bit if any of
// them was 1, or appends zeros as far as they fit.
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

// round returns the number in units of 2^last, which must be less than 2⁶⁴.
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

// The operations return all digits of a result, or those that decide how it is rounded. Of two
// NaNs, sums and products return the second, and quotients the first, as an H200 does.

// add needs the rounding mode for the sign of a zero.
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
	// Aligns the first digit of the larger exponent to bit 125, so that a carry fits. Only numbers
	// too small to cancel the other lose digits.
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

// sum returns the sign of a sum of zeros.
func (n *float) sum(negative bool, mode rounding) bool {
	if n.negative == negative {
		return negative
	}
	return mode == down
}

// minus returns the number with the other sign; a NaN keeps its sign.
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

// div divides numbers of up to 64 digits, to at least 63 digits.
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

// sqrt returns the square root, to 64 digits.
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
