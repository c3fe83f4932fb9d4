package sim

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

// buildCompare resolves "setp.cmp[.bool].type p[|q], a, b[, [!]c]":
// p = (a cmp b) bool c and q = !(a cmp b) bool c.
func buildCompare(a *assembler, s *statement, f form) (instr, error) {
	t := f.last()
	test := comparisons[f[0]]
	var flip uint64
	if t.signed() {
		flip = 1 << (t.bits - 1)
	}
	o := a.operands(s)
	var in instr
	in.d, in.e = o.predsDst()
	in.a, in.b = o.src(t), o.src(t)
	combine := f[1]
	if combine != "" {
		in.c, in.flip = o.pred()
	}
	in.exec = func(w *warp, in *instr, m uint32) {
		a, b := &w.rows[in.a], &w.rows[in.b]
		var p uint32
		for rest := m; rest != 0; rest &= rest - 1 {
			i := lowest(rest)
			if test(a[i]^flip, b[i]^flip) {
				p |= 1 << i
			}
		}
		q := ^p
		if combine != "" {
			c := w.pred(in.c, in.flip)
			p, q = combined(combine, p, c), combined(combine, q, c)
		}
		w.preds[in.d] = w.preds[in.d]&^m | p&m
		if in.e >= 0 {
			w.preds[in.e] = w.preds[in.e]&^m | q&m
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
