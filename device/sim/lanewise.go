package sim

import "math/bits"

// This file implements instructions that compute each lane from its own registers. Its functions
// turn an operation on one lane, which the table names, into an operation on a warp.

var (
	u32 = typ{'u', 32}
	u64 = typ{'u', 64}
	b32 = typ{'b', 32}
)

// lowest returns the lowest lane of a nonempty mask.
func lowest(m uint32) int { return bits.TrailingZeros32(m) & (warpSize - 1) }

// same reports whether all lanes of a nonempty mask hold the same value.
func (a *lanes) same(m uint32) bool {
	v := a[lowest(m)]
	if m == fullMask {
		for _, o := range a {
			if o != v {
				return false
			}
		}
		return true
	}
	for ; m != 0; m &= m - 1 {
		if a[lowest(m)] != v {
			return false
		}
	}
	return true
}

func apply1(f func(a uint64) uint64) func(w *warp, in *instr, m uint32) {
	return func(w *warp, in *instr, m uint32) {
		d, a := &w.rows[in.d], &w.rows[in.a]
		if m == fullMask {
			for i := range d {
				d[i] = f(a[i])
			}
			return
		}
		for ; m != 0; m &= m - 1 {
			i := lowest(m)
			d[i] = f(a[i])
		}
	}
}

func apply2(f func(a, b uint64) uint64) func(w *warp, in *instr, m uint32) {
	return func(w *warp, in *instr, m uint32) {
		d, a, b := &w.rows[in.d], &w.rows[in.a], &w.rows[in.b]
		if m == fullMask {
			for i := range d {
				d[i] = f(a[i], b[i])
			}
			return
		}
		for ; m != 0; m &= m - 1 {
			i := lowest(m)
			d[i] = f(a[i], b[i])
		}
	}
}

func apply3(f func(a, b, c uint64) uint64) func(w *warp, in *instr, m uint32) {
	return func(w *warp, in *instr, m uint32) {
		d, a, b, c := &w.rows[in.d], &w.rows[in.a], &w.rows[in.b], &w.rows[in.c]
		if m == fullMask {
			for i := range d {
				d[i] = f(a[i], b[i], c[i])
			}
			return
		}
		for ; m != 0; m &= m - 1 {
			i := lowest(m)
			d[i] = f(a[i], b[i], c[i])
		}
	}
}

type builder = func(a *assembler, s *statement, f form) (instr, error)

// op1 resolves "op.type d, a".
func op1(op func(t typ) func(a uint64) uint64) builder {
	return func(a *assembler, s *statement, f form) (instr, error) {
		t := f.last()
		o := a.operands(s)
		in := instr{d: o.dst(t), a: o.src(t), exec: apply1(op(t))}
		return in, o.done()
	}
}

// count resolves "op.type d, a", where d has 32 bits for any type.
func count(op func(t typ) func(a uint64) uint64) builder {
	return func(a *assembler, s *statement, f form) (instr, error) {
		t := f.last()
		o := a.operands(s)
		in := instr{d: o.dst(u32), a: o.src(t), exec: apply1(op(t))}
		return in, o.done()
	}
}

// find resolves "op[.shiftamt].type d, a", where d has 32 bits for any type.
func find(op func(t typ, shifted bool) func(a uint64) uint64) builder {
	return func(a *assembler, s *statement, f form) (instr, error) {
		t := f.last()
		o := a.operands(s)
		in := instr{d: o.dst(u32), a: o.src(t), exec: apply1(op(t, f[0] != ""))}
		return in, o.done()
	}
}

// op2 resolves "op.type d, a, b".
func op2(op func(t typ) func(a, b uint64) uint64) builder {
	return func(a *assembler, s *statement, f form) (instr, error) {
		t := f.last()
		o := a.operands(s)
		in := instr{d: o.dst(t), a: o.src(t), b: o.src(t), exec: apply2(op(t))}
		return in, o.done()
	}
}

// divide resolves "op.type d, a, b". A zero divisor is a fault; PTX leaves the result undefined.
func divide(op func(t typ) func(a, b uint64) uint64) builder {
	return func(a *assembler, s *statement, f form) (instr, error) {
		t := f.last()
		quotient := apply2(op(t))
		o := a.operands(s)
		in := instr{kind: kindPrivate, d: o.dst(t), a: o.src(t), b: o.src(t)}
		in.exec = func(w *warp, in *instr, m uint32) {
			for rest := m; rest != 0; rest &= rest - 1 {
				if w.rows[in.b][lowest(rest)] == 0 {
					w.fail(in, lowest(rest), "division by zero")
					return
				}
			}
			quotient(w, in, m)
		}
		return in, o.done()
	}
}

// shift resolves "op.type d, a, n", where n has 32 bits.
func shift(op func(t typ) func(a, n uint64) uint64) builder {
	return func(a *assembler, s *statement, f form) (instr, error) {
		t := f.last()
		o := a.operands(s)
		in := instr{d: o.dst(t), a: o.src(t), b: o.src(u32), exec: apply2(op(t))}
		return in, o.done()
	}
}

// op3 resolves "op.type d, a, b, c".
func op3(op func(t typ) func(a, b, c uint64) uint64) builder {
	return func(a *assembler, s *statement, f form) (instr, error) {
		t := f.last()
		o := a.operands(s)
		in := instr{d: o.dst(t), a: o.src(t), b: o.src(t), c: o.src(t), exec: apply3(op(t))}
		return in, o.done()
	}
}

// bitField resolves "bfe.type d, a, position, length".
func bitField(op func(t typ) func(a, b, c uint64) uint64) builder {
	return func(a *assembler, s *statement, f form) (instr, error) {
		t := f.last()
		o := a.operands(s)
		in := instr{d: o.dst(t), a: o.src(t), b: o.src(u32), c: o.src(u32), exec: apply3(op(t))}
		return in, o.done()
	}
}

// wide resolves "op.wide.type d, a, b[, c]", where d and c have twice the width of a and b.
func wide(sources int, op func(t typ) func(a, b, c uint64) uint64) builder {
	return func(a *assembler, s *statement, f form) (instr, error) {
		t := f.last()
		double := typ{t.kind, 2 * t.bits}
		o := a.operands(s)
		in := instr{d: o.dst(double), a: o.src(t), b: o.src(t), exec: apply3(op(t))}
		if sources == 3 {
			in.c = o.src(double)
		}
		return in, o.done()
	}
}

// predicates1 resolves "op.pred p, a". op works on masks of all lanes.
func predicates1(op func(a uint32) uint32) builder {
	return func(a *assembler, s *statement, f form) (instr, error) {
		o := a.operands(s)
		var in instr
		in.d = o.predDst()
		in.a, in.flip = o.pred()
		in.exec = func(w *warp, in *instr, m uint32) {
			w.preds[in.d] = w.preds[in.d]&^m | op(w.pred(in.a, in.flip))&m
		}
		return in, o.done()
	}
}

// predicates2 resolves "op.pred p, a, b".
func predicates2(op func(a, b uint32) uint32) builder {
	return func(a *assembler, s *statement, f form) (instr, error) {
		o := a.operands(s)
		var in instr
		var flipA, flipB bool
		in.d = o.predDst()
		in.a, flipA = o.pred()
		in.b, flipB = o.pred()
		in.exec = func(w *warp, in *instr, m uint32) {
			w.preds[in.d] = w.preds[in.d]&^m | op(w.pred(in.a, flipA), w.pred(in.b, flipB))&m
		}
		return in, o.done()
	}
}
