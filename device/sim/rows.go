package sim

// Loops over all lanes of a warp, of the instructions that programs consist of: where each lane is a call, most of
// the time is that of the calls. Each computes what the function of one lane by its name does.

// rows2 gives a builder of an instruction of two sources a loop of its own for warps that run as a whole, rows3 one of
// three.
func rows2(build builder, loop func(t typ) func(d, a, b *lanes)) builder {
	return whole(build, func(t typ) func(w *warp, in *instr) {
		all := loop(t)
		return func(w *warp, in *instr) { all(&w.rows[in.d], &w.rows[in.a], &w.rows[in.b]) }
	})
}

func rows3(build builder, loop func(t typ) func(d, a, b, c *lanes)) builder {
	return whole(build, func(t typ) func(w *warp, in *instr) {
		all := loop(t)
		return func(w *warp, in *instr) { all(&w.rows[in.d], &w.rows[in.a], &w.rows[in.b], &w.rows[in.c]) }
	})
}

// whole has warps that run as a whole execute an instruction in another way.
func whole(build builder, of func(t typ) func(w *warp, in *instr)) builder {
	return func(a *assembler, s *statement, f form) (instr, error) {
		in, err := build(a, s, f)
		all, some := of(f.last()), in.exec
		in.exec = func(w *warp, in *instr, m uint32) {
			if m == fullMask {
				all(w, in)
			} else {
				some(w, in, m)
			}
		}
		return in, err
	}
}

func addRows(t typ) func(d, a, b *lanes) {
	m := t.mask()
	return func(d, a, b *lanes) {
		for i := range d {
			d[i] = (a[i] + b[i]) & m
		}
	}
}

func subRows(t typ) func(d, a, b *lanes) {
	m := t.mask()
	return func(d, a, b *lanes) {
		for i := range d {
			d[i] = (a[i] - b[i]) & m
		}
	}
}

func mulLowRows(t typ) func(d, a, b *lanes) {
	m := t.mask()
	return func(d, a, b *lanes) {
		for i := range d {
			d[i] = a[i] * b[i] & m
		}
	}
}

func madLowRows(t typ) func(d, a, b, c *lanes) {
	m := t.mask()
	return func(d, a, b, c *lanes) {
		for i := range d {
			d[i] = (a[i]*b[i] + c[i]) & m
		}
	}
}

func mulWideRows(t typ) func(d, a, b *lanes) {
	if t.signed() {
		s, m := 64-t.bits, typ{'u', 2 * t.bits}.mask()
		return func(d, a, b *lanes) {
			for i := range d {
				d[i] = uint64((int64(a[i])<<s>>s)*(int64(b[i])<<s>>s)) & m
			}
		}
	}
	return func(d, a, b *lanes) {
		for i := range d {
			d[i] = a[i] * b[i]
		}
	}
}

func andRows(typ) func(d, a, b *lanes) {
	return func(d, a, b *lanes) {
		for i := range d {
			d[i] = a[i] & b[i]
		}
	}
}

func orRows(typ) func(d, a, b *lanes) {
	return func(d, a, b *lanes) {
		for i := range d {
			d[i] = a[i] | b[i]
		}
	}
}

func xorRows(typ) func(d, a, b *lanes) {
	return func(d, a, b *lanes) {
		for i := range d {
			d[i] = a[i] ^ b[i]
		}
	}
}

func shlRows(t typ) func(d, a, b *lanes) {
	m := t.mask()
	return func(d, a, n *lanes) {
		for i := range d {
			d[i] = a[i] << n[i] & m
		}
	}
}

func shrRows(t typ) func(d, a, b *lanes) {
	if t.signed() {
		s, m := 64-t.bits, t.mask()
		return func(d, a, n *lanes) {
			for i := range d {
				d[i] = uint64(int64(a[i])<<s>>s>>n[i]) & m
			}
		}
	}
	return func(d, a, n *lanes) {
		for i := range d {
			d[i] = a[i] >> n[i]
		}
	}
}
