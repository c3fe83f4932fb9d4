package sim

// This file implements logic, shifts and permutations of bits.

func and(typ) func(a, b uint64) uint64 { return func(a, b uint64) uint64 { return a & b } }
func or(typ) func(a, b uint64) uint64  { return func(a, b uint64) uint64 { return a | b } }
func xor(typ) func(a, b uint64) uint64 { return func(a, b uint64) uint64 { return a ^ b } }

func not(t typ) func(a uint64) uint64 {
	m := t.mask()
	return func(a uint64) uint64 { return ^a & m }
}

// cnot computes the "!" of C.
func cnot(typ) func(a uint64) uint64 {
	return func(a uint64) uint64 {
		if a == 0 {
			return 1
		}
		return 0
	}
}

// Shift amounts are clamped: a shift by the width or more leaves only zeros or sign bits.

func shl(t typ) func(a, n uint64) uint64 {
	m := t.mask()
	return func(a, n uint64) uint64 { return a << n & m }
}

func shr(t typ) func(a, n uint64) uint64 {
	if t.signed() {
		m := t.mask()
		return func(a, n uint64) uint64 { return uint64(t.extend(a)>>n) & m }
	}
	return func(a, n uint64) uint64 { return a >> n }
}

// lop3 computes any function of three bits. Bit 4*a+2*b+c of lut is the result for a, b and c.
func lop3(a, b, c uint64, lut uint64) uint64 {
	var d uint64
	for i := range uint64(8) {
		if lut>>i&1 != 0 {
			d |= pick(a, i>>2) & pick(b, i>>1) & pick(c, i)
		}
	}
	return d & 0xffffffff
}

// pick returns v if index is odd, else its complement.
func pick(v, index uint64) uint64 {
	if index&1 != 0 {
		return v
	}
	return ^v
}

func buildLop3(a *assembler, s *statement, f form) (instr, error) {
	o := a.operands(s)
	in := instr{d: o.dst(b32), a: o.src(b32), b: o.src(b32), c: o.src(b32)}
	lut := o.imm(typ{'u', 8})
	in.exec = apply3(func(a, b, c uint64) uint64 { return lop3(a, b, c, lut) })
	return in, o.done()
}

// buildFunnel resolves shf, which shifts the pair (b,a). With l it returns the upper half, with r
// the lower.
func buildFunnel(a *assembler, s *statement, f form) (instr, error) {
	o := a.operands(s)
	in := instr{d: o.dst(b32), a: o.src(b32), b: o.src(b32), c: o.src(u32)}
	left, wrap := f[0] == "l", f[1] == "wrap"
	in.exec = apply3(func(a, b, n uint64) uint64 {
		if wrap {
			n &= 31
		} else {
			n = min(n, 32)
		}
		pair := b<<32 | a
		if left {
			return pair << n >> 32
		}
		return pair >> n & 0xffffffff
	})
	return in, o.done()
}

// permute selects four bytes of the pair (b,a) by selectors of four bits. Three bits select the
// byte. If the fourth is set, the result is the byte's sign in all eight bits.
func permute(a, b, selector uint64) uint64 {
	pair := b<<32 | a
	var d uint64
	for i := range 4 {
		sel := selector >> (4 * i)
		v := pair >> (8 * (sel & 7)) & 0xff
		if sel&8 != 0 {
			v = -(v >> 7) & 0xff
		}
		d |= v << (8 * i)
	}
	return d
}

// permuteModes holds the selectors of prmt's named modes, for control values 0 to 3.
var permuteModes = map[string][4]uint64{
	"f4e":  {0x3210, 0x4321, 0x5432, 0x6543},
	"b4e":  {0x5670, 0x6701, 0x7012, 0x0123},
	"rc8":  {0x0000, 0x1111, 0x2222, 0x3333},
	"ecl":  {0x3210, 0x3211, 0x3222, 0x3333},
	"ecr":  {0x0000, 0x1110, 0x2210, 0x3210},
	"rc16": {0x1010, 0x3232, 0x1010, 0x3232},
}

func buildPermute(a *assembler, s *statement, f form) (instr, error) {
	o := a.operands(s)
	in := instr{d: o.dst(b32), a: o.src(b32), b: o.src(b32), c: o.src(b32)}
	if mode, ok := permuteModes[f[1]]; ok {
		in.exec = apply3(func(a, b, c uint64) uint64 { return permute(a, b, mode[c&3]) })
	} else {
		in.exec = apply3(permute)
	}
	return in, o.done()
}
