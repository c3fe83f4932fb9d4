package sim

// This file implements moves, packing, and conversions of values and addresses.

// buildMove resolves "mov.type d, a". d or a may be a vector, and a may be the clock.
func buildMove(a *assembler, s *statement, f form) (instr, error) {
	t := f.last()
	o := a.operands(s)
	if len(s.args) == 2 {
		d, src := s.args[0], s.args[1]
		switch {
		case src.kind == opVector:
			return a.pack(o, t)
		case d.kind == opVector:
			return a.unpack(o, t)
		case src.kind == opSymbol && clocks[src.sym] != nil:
			return a.clock(o, t, clocks[src.sym])
		}
	}
	in := instr{d: o.dst(t), a: o.src(t)}
	in.exec = execCut(fullRow)
	if t.bits == 128 {
		in.exec = func(w *warp, in *instr, m uint32) {
			for ; m != 0; m &= m - 1 {
				i := lowest(m)
				w.rows[in.d][i], w.rows[in.d+1][i] = w.rows[in.a][i], w.rows[in.a+1][i]
			}
		}
	}
	return in, o.done()
}

// fullRow is the mask of a whole register.
const fullRow = ^uint64(0)

// execCut returns a function that copies the masked bits of a register. Most moves and conversions
// use it.
func execCut(mask uint64) func(w *warp, in *instr, m uint32) {
	return func(w *warp, in *instr, m uint32) {
		d, a := &w.rows[in.d], &w.rows[in.a]
		if m == fullMask {
			for i := 0; i < warpSize; i += 4 {
				d[i] = a[i] & mask
				d[i+1] = a[i+1] & mask
				d[i+2] = a[i+2] & mask
				d[i+3] = a[i+3] & mask
			}
			return
		}
		for ; m != 0; m &= m - 1 {
			i := lowest(m)
			d[i] = a[i] & mask
		}
	}
}

// pack resolves "mov d, {a, b, ...}". The first element is the lowest.
func (a *assembler) pack(o *operands, t typ) (instr, error) {
	d := o.dst(t)
	n := len(o.s.args[1].vec)
	part := typ{'b', t.bits / n}
	in := instr{d: d, list: o.list(n, part, o.srcOf)}
	if t.bits%n != 0 || part.bits < 8 {
		o.fail("cannot make %d parts of %d bits", n, t.bits)
	}
	in.exec = func(w *warp, in *instr, m uint32) {
		for ; m != 0; m &= m - 1 {
			i := lowest(m)
			var v [2]uint64
			for k, row := range in.list {
				at := k * part.bits
				v[at/64] |= w.rows[row][i] & part.mask() << (at % 64)
			}
			w.rows[in.d][i] = v[0]
			if t.bits == 128 {
				w.rows[in.d+1][i] = v[1]
			}
		}
	}
	return in, o.done()
}

// unpack resolves "mov {a, b, ...}, s".
func (a *assembler) unpack(o *operands, t typ) (instr, error) {
	n := len(o.s.args[0].vec)
	part := typ{'b', t.bits / n}
	in := instr{list: o.list(n, part, o.dstOf), a: o.src(t)}
	if t.bits%n != 0 || part.bits < 8 {
		o.fail("cannot make %d parts of %d bits", n, t.bits)
	}
	mask := part.mask()
	in.exec = func(w *warp, in *instr, m uint32) {
		for k, row := range in.list {
			at := k * part.bits
			d, a, shift := &w.rows[row], &w.rows[int(in.a)+at/64], at%64
			for rest := m; rest != 0; rest &= rest - 1 {
				i := lowest(rest)
				d[i] = a[i] >> shift & mask
			}
		}
	}
	return in, o.done()
}

// clock resolves a move from a register that changes while a warp runs.
func (a *assembler) clock(o *operands, t typ, read func(w *warp) uint64) (instr, error) {
	in := instr{d: o.dst(t)}
	o.next()
	in.exec = func(w *warp, in *instr, m uint32) {
		now := read(w) & t.mask()
		for ; m != 0; m &= m - 1 {
			w.rows[in.d][lowest(m)] = now
		}
	}
	return in, o.done()
}

// buildConvert resolves "cvt[.sat].to.from d, a". The source is cut to its type and sign-extended,
// then converted to the type of the destination, then extended to the destination register. Both
// registers may be wider than their types.
func buildConvert(a *assembler, s *statement, f form) (instr, error) {
	sat := len(f) == 3
	to, from := f.typ(len(f)-2), f.typ(len(f)-1)
	o := a.operands(s)
	var reg int
	if len(s.args) > 0 && s.args[0].reg != nil {
		reg = s.args[0].reg.bits
	}
	in := instr{d: o.dstOf(o.next(), to, true), a: o.srcOf(o.next(), from, true)}
	in.exec = apply1(convert(to, from, sat, typ{'b', reg}.mask()))
	if !sat && !to.signed() && !from.signed() {
		in.exec = execCut(from.mask() & to.mask())
	}
	return in, o.done()
}

func convert(to, from typ, sat bool, register uint64) func(a uint64) uint64 {
	return func(a uint64) uint64 {
		v := a & from.mask()
		if from.signed() {
			v = uint64(from.extend(v))
		}
		if sat {
			v = saturate(to, v, from.signed())
		}
		v &= to.mask()
		if to.signed() {
			v = uint64(to.extend(v)) & register
		}
		return v
	}
}

// saturate clamps v to the range of t. If signed is set, the top bit of v is a sign.
func saturate(t typ, v uint64, signed bool) uint64 {
	negative := signed && int64(v) < 0
	high := t.mask()
	if t.signed() {
		high >>= 1
		if negative {
			return uint64(max(int64(v), -int64(high)-1))
		}
	} else if negative {
		return 0
	}
	return min(v, high)
}

// buildConvertAddress resolves cvta, which converts an address of a space to a generic address, or
// back with "to". Addresses of shared and local memory have 32 bits; higher bits are lost, as on a
// GPU. If a pointer lies before its array, the generic pointer therefore lies 4 GiB after it.
func buildConvertAddress(a *assembler, s *statement, f form) (instr, error) {
	base, kept := window(spaces[f[1]]), ^uint64(0)
	if f[0] == "to" {
		base = 0
	}
	if window(spaces[f[1]]) != 0 {
		kept = 1<<32 - 1
	}
	o := a.operands(s)
	in := instr{d: o.dst(u64), a: o.src(u64)}
	in.exec = func(w *warp, in *instr, m uint32) {
		d, a := &w.rows[in.d], &w.rows[in.a]
		if m == fullMask {
			for i := range d {
				d[i] = base + a[i]&kept
			}
			return
		}
		for ; m != 0; m &= m - 1 {
			i := lowest(m)
			d[i] = base + a[i]&kept
		}
	}
	return in, o.done()
}

// buildIsSpace resolves isspacep, which tests whether a generic address lies in a space.
func buildIsSpace(a *assembler, s *statement, f form) (instr, error) {
	want := spaces[f[0]]
	o := a.operands(s)
	var in instr
	in.d = o.predDst()
	in.a = o.src(u64)
	in.exec = func(w *warp, in *instr, m uint32) {
		var p uint32
		for rest := m; rest != 0; rest &= rest - 1 {
			if i := lowest(rest); spaceOf(w.rows[in.a][i]) == want {
				p |= 1 << i
			}
		}
		w.preds[in.d] = w.preds[in.d]&^m | p
	}
	return in, o.done()
}

// spaceOf returns the space of a generic address.
func spaceOf(addr uint64) space {
	switch {
	case addr >= localWindow && addr < windowEnd:
		return spaceLocal
	case addr >= sharedWindow && addr < localWindow:
		return spaceShared
	}
	return spaceGlobal
}
