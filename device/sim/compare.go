package sim

import "math"

// Comparison and selection.

// comparisons are the tests of setp on values brought to order: signed ones
// with their sign bit flipped, so that one unsigned comparison serves all.
var comparisons = map[string]func(a, b uint64) bool{
	"eq": func(a, b uint64) bool { return a == b },
	"ne": func(a, b uint64) bool { return a != b },
	"lt": func(a, b uint64) bool { return a < b },
	"le": func(a, b uint64) bool { return a <= b },
	"gt": func(a, b uint64) bool { return a > b },
	"ge": func(a, b uint64) bool { return a >= b },
	"lo": func(a, b uint64) bool { return a < b },
	"ls": func(a, b uint64) bool { return a <= b },
	"hi": func(a, b uint64) bool { return a > b },
	"hs": func(a, b uint64) bool { return a >= b },
}

// comparison takes the operands a, b and perhaps [!]c of "cmp.bool.type". The
// result computes, for lanes, (a cmp b) bool c and !(a cmp b) bool c.
func (o *operands) comparison(in *instr, f form) func(w *warp, in *instr, m uint32) (p, q uint32) {
	t := f.last()
	test := comparisons[f[0]]
	var flip uint64
	switch {
	case t.kind == 'f':
		test = floatComparison(f[0], floatFormOf(t, f))
	case t.signed():
		flip = 1 << (t.bits - 1)
	}
	in.a, in.b = o.src(t), o.src(t)
	combine := f[1]
	if combine != "" {
		in.c, in.flip = o.pred()
	}
	return func(w *warp, in *instr, m uint32) (p, q uint32) {
		a, b := &w.rows[in.a], &w.rows[in.b]
		for ; m != 0; m &= m - 1 {
			i := lowest(m)
			if test(a[i]^flip, b[i]^flip) {
				p |= 1 << i
			}
		}
		q = ^p
		if combine != "" {
			c := w.pred(in.c, in.flip)
			p, q = combined(combine, p, c), combined(combine, q, c)
		}
		return p, q
	}
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

// buildSet resolves "set.cmp[.bool].to.type d, a, b[, [!]c]": all ones, or 1 of
// a floating-point type, where the comparison holds, else 0.
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

func combined(op string, a, b uint32) uint32 {
	switch op {
	case "and":
		return a & b
	case "or":
		return a | b
	}
	return a ^ b
}

// buildSelect resolves "selp.type d, a, b, p": a where p, else b.
func buildSelect(a *assembler, s *statement, f form) (instr, error) {
	t := f.last()
	o := a.operands(s)
	in := instr{d: o.dst(t), a: o.src(t), b: o.src(t)}
	in.c, in.flip = o.pred()
	in.exec = func(w *warp, in *instr, m uint32) {
		d, a, b, p := &w.rows[in.d], &w.rows[in.a], &w.rows[in.b], w.pred(in.c, in.flip)
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
