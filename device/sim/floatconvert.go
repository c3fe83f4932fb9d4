package sim

import "slices"

// This file implements conversions from or to floating-point numbers.

// buildFloatToInteger resolves "cvt.rounding[.ftz][.sat].to.from d, a". Values beyond the range of
// the integer type are clamped, with or without .sat.
func buildFloatToInteger(a *assembler, s *statement, fm form) (instr, error) {
	to, from := fm.typ(len(fm)-2), fm.last()
	f := floatFormOf(from, fm)
	o := a.operands(s)
	var register uint64
	if len(s.args) > 0 && s.args[0].reg != nil {
		register = typ{'b', s.args[0].reg.bits}.mask()
	}
	in := instr{d: o.dstOf(o.next(), to, true), a: o.src(from)}
	in.exec = apply1(func(a uint64) uint64 {
		v := f.integer(f.operand(a), to)
		if to.signed() {
			v = uint64(to.extend(v)) & register
		}
		return v
	})
	return in, o.done()
}

// integer rounds n to an integer of type to.
func (f floatForm) integer(n float, to typ) uint64 {
	greatest := to.mask()
	if to.signed() {
		greatest >>= 1
	}
	var v uint64
	switch {
	case n.kind == notANumber:
		// PTX ISA 9.0: the result is 0, unless one of the types has 64 bits.
		if f.bits == 64 || to.bits == 64 {
			return 1 << (to.bits - 1)
		}
		return 0
	case n.kind == infinite || n.exp+n.length() > 64:
		v = ^uint64(0)
	default:
		v = n.round(0, f.mode)
	}
	switch {
	case !n.negative:
		return min(v, greatest)
	case to.signed():
		return -min(v, greatest+1) & to.mask()
	}
	return 0
}

// buildIntegerToFloat resolves "cvt.rounding.to.from d, a".
func buildIntegerToFloat(a *assembler, s *statement, fm form) (instr, error) {
	to, from := fm.typ(len(fm)-2), fm.last()
	f := floatFormOf(to, fm)
	o := a.operands(s)
	in := instr{d: o.dst(to), a: o.srcOf(o.next(), from, true)}
	in.exec = apply1(func(a uint64) uint64 {
		n := float{lo: a & from.mask()}
		if v := from.extend(a); from.signed() && v < 0 {
			n.negative, n.lo = true, -uint64(v)
		}
		return f.result(n)
	})
	return in, o.done()
}

// buildFloatToFloat resolves "cvt[.rounding][.ftz][.sat].to.from d, a". A rounding that ends in i
// rounds to an integral number. As on an H200, a NaN keeps its sign and as much of its payload as
// fits. If the type stays the same, or if .ftz applies first, single precision has only one NaN.
// That a narrower NaN keeps the upper bits of the payload is assumed: no recorded result of an H200
// shows it.
func buildFloatToFloat(a *assembler, s *statement, fm form) (instr, error) {
	to, from := fm.typ(len(fm)-2), fm.last()
	source, f := floatFormOf(from, fm), floatFormOf(to, fm)
	// .ftz applies to single precision only.
	source.ftz, f.ftz = f.ftz && from.bits == 32, f.ftz && to.bits == 32
	integral := slices.ContainsFunc(fm, func(m string) bool { return len(m) == 3 && m[2] == 'i' })
	o := a.operands(s)
	in := instr{d: o.dst(to), a: o.src(from)}
	in.exec = apply1(func(a uint64) uint64 {
		n := source.operand(a)
		if n.kind == notANumber && from.bits != to.bits && !f.sat {
			if source.ftz {
				n = source.float(source.nan(n))
			}
			return f.quiet(n)
		}
		if integral && n.kind == finite && n.exp < 0 {
			n.lo, n.exp = n.round(0, f.mode), 0
		}
		return f.result(n)
	})
	return in, o.done()
}
