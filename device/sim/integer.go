package sim

import (
	"math/bits"
)

// This file implements integer arithmetic. Every function takes the type of the instruction and
// returns the operation on zero-extended 64-bit sources. Results are zero-extended, too.

func add(t typ) func(a, b uint64) uint64 {
	m := t.mask()
	return func(a, b uint64) uint64 { return (a + b) & m }
}

func sub(t typ) func(a, b uint64) uint64 {
	m := t.mask()
	return func(a, b uint64) uint64 { return (a - b) & m }
}

func mulLow(t typ) func(a, b uint64) uint64 {
	m := t.mask()
	return func(a, b uint64) uint64 { return a * b & m }
}

func mulHigh(t typ) func(a, b uint64) uint64 {
	switch {
	case t.bits == 64 && t.signed():
		return func(a, b uint64) uint64 {
			hi, _ := bits.Mul64(a, b)
			return hi - uint64(int64(a)>>63)&b - uint64(int64(b)>>63)&a
		}
	case t.bits == 64:
		return func(a, b uint64) uint64 {
			hi, _ := bits.Mul64(a, b)
			return hi
		}
	case t.signed():
		return func(a, b uint64) uint64 { return uint64(t.extend(a)*t.extend(b)>>t.bits) & t.mask() }
	}
	return func(a, b uint64) uint64 { return a * b >> t.bits }
}

// mulWide returns the full product, which has twice the width of t.
func mulWide(t typ) func(a, b, _ uint64) uint64 {
	if t.signed() {
		m := typ{'u', 2 * t.bits}.mask()
		return func(a, b, _ uint64) uint64 { return uint64(t.extend(a)*t.extend(b)) & m }
	}
	return func(a, b, _ uint64) uint64 { return a * b }
}

func madLow(t typ) func(a, b, c uint64) uint64 {
	m := t.mask()
	return func(a, b, c uint64) uint64 { return (a*b + c) & m }
}

func madHigh(t typ) func(a, b, c uint64) uint64 {
	high, m := mulHigh(t), t.mask()
	return func(a, b, c uint64) uint64 { return (high(a, b) + c) & m }
}

func madWide(t typ) func(a, b, c uint64) uint64 {
	product, m := mulWide(t), typ{'u', 2 * t.bits}.mask()
	return func(a, b, c uint64) uint64 { return (product(a, b, 0) + c) & m }
}

func div(t typ) func(a, b uint64) uint64 {
	if t.signed() {
		return func(a, b uint64) uint64 { return uint64(t.extend(a)/t.extend(b)) & t.mask() }
	}
	return func(a, b uint64) uint64 { return a / b }
}

func rem(t typ) func(a, b uint64) uint64 {
	if t.signed() {
		return func(a, b uint64) uint64 { return uint64(t.extend(a)%t.extend(b)) & t.mask() }
	}
	return func(a, b uint64) uint64 { return a % b }
}

func abs(t typ) func(a uint64) uint64 {
	return func(a uint64) uint64 {
		if t.extend(a) < 0 {
			return -a & t.mask()
		}
		return a
	}
}

func neg(t typ) func(a uint64) uint64 {
	return func(a uint64) uint64 { return -a & t.mask() }
}

func minimum(t typ) func(a, b uint64) uint64 {
	if t.signed() {
		return func(a, b uint64) uint64 { return uint64(min(t.extend(a), t.extend(b))) & t.mask() }
	}
	return func(a, b uint64) uint64 { return min(a, b) }
}

func maximum(t typ) func(a, b uint64) uint64 {
	if t.signed() {
		return func(a, b uint64) uint64 { return uint64(max(t.extend(a), t.extend(b))) & t.mask() }
	}
	return func(a, b uint64) uint64 { return max(a, b) }
}

func popc(typ) func(a uint64) uint64 {
	return func(a uint64) uint64 { return uint64(bits.OnesCount64(a)) }
}

func clz(t typ) func(a uint64) uint64 {
	return func(a uint64) uint64 { return uint64(bits.LeadingZeros64(a) - 64 + t.bits) }
}

// bfind returns the position of the most significant bit that differs from the sign, or all ones if
// no bit does. If shifted is set, the position is counted from the top.
func bfind(t typ, shifted bool) func(a uint64) uint64 {
	return func(a uint64) uint64 {
		if t.extend(a) < 0 && t.signed() {
			a = ^a & t.mask()
		}
		if a == 0 {
			return 0xffffffff
		}
		at := bits.Len64(a) - 1
		if shifted {
			at = t.bits - 1 - at
		}
		return uint64(at)
	}
}

func brev(t typ) func(a uint64) uint64 {
	return func(a uint64) uint64 { return bits.Reverse64(a) >> (64 - t.bits) }
}

// bfe extracts length bits that begin at position. Bits of the result outside the field or the
// register are copies of the field's sign bit, or 0 for unsigned types. Only the low byte of
// position and of length is used.
func bfe(t typ) func(a, position, length uint64) uint64 {
	return func(a, position, length uint64) uint64 {
		pos, n, msb := int(position&0xff), int(length&0xff), t.bits-1
		var sign uint64
		if t.signed() && n > 0 {
			sign = a >> min(pos+n-1, msb) & 1
		}
		n = max(0, min(n, t.bits-pos))
		field := uint64(1)<<n - 1 // all ones for n = 64
		v := a >> pos & field
		return (v | -sign&^field) & t.mask()
	}
}

// bfi inserts the lowest bits of a into b, beginning at position. length is the number of bits.
func bfi(t typ, a, b, position, length uint64) uint64 {
	pos, n := int(position&0xff), int(length&0xff)
	n = max(0, min(n, t.bits-pos))
	field := (uint64(1)<<n - 1) << pos
	return b&^field | a<<pos&field
}

// buildInsert resolves bfi, the only instruction with four sources.
func buildInsert(a *assembler, s *statement, f form) (instr, error) {
	t := f.last()
	o := a.operands(s)
	in := instr{d: o.dst(t), a: o.src(t), b: o.src(t), c: o.src(u32), e: o.src(u32)}
	in.exec = func(w *warp, in *instr, m uint32) {
		d, a, b, c, e := &w.rows[in.d], &w.rows[in.a], &w.rows[in.b], &w.rows[in.c], &w.rows[in.e]
		for ; m != 0; m &= m - 1 {
			i := lowest(m)
			d[i] = bfi(t, a[i], b[i], c[i], e[i])
		}
	}
	return in, o.done()
}
