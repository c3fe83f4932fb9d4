package sim

import "math"

// This file implements comparison and selection.

// comparison resolves the operands a, b and optionally [!]c of "cmp.bool.type". It returns a
// function that computes (a cmp b) bool c and !(a cmp b) bool c for the lanes in m.
func (o *operands) comparison(in *instr, f form) func(w *warp, in *instr, m uint32) (p, q uint32) {
	t := f.last()
	find := integerTest(f[0], t)
	if t.kind == 'f' {
		find = each2(floatComparison(f[0], floatFormOf(t, f)))
	}
	in.a, in.b = o.src(t), o.src(t)
	combine := f[1]
	if combine != "" {
		in.c, in.flip = o.pred()
	}
	return func(w *warp, in *instr, m uint32) (p, q uint32) {
		p = find(&w.rows[in.a], &w.rows[in.b], m)
		q = ^p
		if combine != "" {
			c := w.pred(in.c, in.flip)
			p, q = combinePreds(combine, p, c), combinePreds(combine, q, c)
		}
		return p, q
	}
}

// each2 returns a function that computes the mask of the lanes for which test holds.
func each2(test func(a, b uint64) bool) func(a, b *lanes, m uint32) uint32 {
	return func(a, b *lanes, m uint32) (p uint32) {
		for ; m != 0; m &= m - 1 {
			if i := lowest(m); test(a[i], b[i]) {
				p |= 1 << i
			}
		}
		return p
	}
}

// integerTest returns a function that computes the mask of the lanes for which an integer
// comparison holds. Every fifth instruction is such a comparison, so equality and less-than have
// their own loops. All other comparisons reduce to these two. Bits of lanes outside m are
// undefined.
func integerTest(name string, t typ) func(a, b *lanes, m uint32) uint32 {
	var flip uint64
	if t.signed() {
		flip = 1 << (t.bits - 1)
	}
	less := func(a, b *lanes, m uint32) uint32 { return lessLanes(a, b, flip, m) }
	switch name {
	case "eq":
		return equalLanes
	case "ne":
		return func(a, b *lanes, m uint32) uint32 { return ^equalLanes(a, b, m) }
	case "lt", "lo":
		return less
	case "ge", "hs":
		return func(a, b *lanes, m uint32) uint32 { return ^less(a, b, m) }
	case "gt", "hi":
		return func(a, b *lanes, m uint32) uint32 { return less(b, a, m) }
	}
	return func(a, b *lanes, m uint32) uint32 { return ^less(b, a, m) }
}

// bit converts a bool to 1 or 0.
func bit(v bool) uint32 {
	if v {
		return 1
	}
	return 0
}

func equalLanes(a, b *lanes, m uint32) (p uint32) {
	if m == fullMask {
		var q, r, s uint32 // results of eight lanes each, as p
		for i := 7; i >= 0; i-- {
			p = p<<1 | bit(a[i] == b[i])
			q = q<<1 | bit(a[i+8] == b[i+8])
			r = r<<1 | bit(a[i+16] == b[i+16])
			s = s<<1 | bit(a[i+24] == b[i+24])
		}
		return p | q<<8 | r<<16 | s<<24
	}
	for ; m != 0; m &= m - 1 {
		if i := lowest(m); a[i] == b[i] {
			p |= 1 << i
		}
	}
	return p
}

// lessLanes compares the values as unsigned numbers. For signed values, flip is the sign bit.
// Flipping it turns the signed order into the unsigned order.
func lessLanes(a, b *lanes, flip uint64, m uint32) (p uint32) {
	if m == fullMask {
		var q, r, s uint32
		for i := 7; i >= 0; i-- {
			p = p<<1 | bit(a[i]^flip < b[i]^flip)
			q = q<<1 | bit(a[i+8]^flip < b[i+8]^flip)
			r = r<<1 | bit(a[i+16]^flip < b[i+16]^flip)
			s = s<<1 | bit(a[i+24]^flip < b[i+24]^flip)
		}
		return p | q<<8 | r<<16 | s<<24
	}
	for ; m != 0; m &= m - 1 {
		if i := lowest(m); a[i]^flip < b[i]^flip {
			p |= 1 << i
		}
	}
	return p
}

// buildCompare resolves "setp.cmp[.bool].type p[|q], a, b[, [!]c]".
func buildCompare(a *assembler, s *statement, f form) (instr, error) {
	o := a.operands(s)
	var in instr
	in.d, in.e = o.predsDst()
	compare := o.comparison(&in, f)
	in.exec = func(w *warp, in *instr, m uint32) {
		p, q := compare(w, in, m)
		w.preds[in.d] = w.preds[in.d]&^m | p&m
		if in.e >= 0 {
			w.preds[in.e] = w.preds[in.e]&^m | q&m
		}
	}
	return in, o.done()
}

// buildSet resolves "set.cmp[.bool].to.type d, a, b[, [!]c]". d is all ones, or 1.0 of a
// floating-point type, if the comparison holds, else 0.
func buildSet(a *assembler, s *statement, f form) (instr, error) {
	to := f.typ(len(f) - 2)
	holds := to.mask()
	if to.kind == 'f' {
		holds = uint64(math.Float32bits(1))
	}
	o := a.operands(s)
	in := instr{d: o.dst(to)}
	compare := o.comparison(&in, f)
	in.exec = func(w *warp, in *instr, m uint32) {
		p, _ := compare(w, in, m)
		for ; m != 0; m &= m - 1 {
			i := lowest(m)
			w.rows[in.d][i] = 0
			if p>>i&1 != 0 {
				w.rows[in.d][i] = holds
			}
		}
	}
	return in, o.done()
}

func combinePreds(op string, a, b uint32) uint32 {
	switch op {
	case "and":
		return a & b
	case "or":
		return a | b
	}
	return a ^ b
}

// buildSelect resolves "selp.type d, a, b, p". d is a if p is true, else b.
func buildSelect(a *assembler, s *statement, f form) (instr, error) {
	t := f.last()
	o := a.operands(s)
	in := instr{d: o.dst(t), a: o.src(t), b: o.src(t)}
	in.c, in.flip = o.pred()
	in.exec = func(w *warp, in *instr, m uint32) {
		d, a, b, p := &w.rows[in.d], &w.rows[in.a], &w.rows[in.b], w.pred(in.c, in.flip)
		if m == fullMask {
			for i := range d {
				d[i] = b[i] ^ (a[i]^b[i])&-uint64(p>>i&1)
			}
			return
		}
		for ; m != 0; m &= m - 1 {
			i := lowest(m)
			if p>>i&1 != 0 {
				d[i] = a[i]
			} else {
				d[i] = b[i]
			}
		}
	}
	return in, o.done()
}
