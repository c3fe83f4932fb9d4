package sim

// Loops over all lanes of a warp, of the instructions that programs consist of: where each lane is a call, most of
// the time is that of the calls, and where each is a round of a loop, a third of it that of the loop. Each computes what
// the function of one lane by its name does, four lanes a round.

// rows2 gives a builder of an instruction of two sources a loop of its own for warps that run as a whole, rows3 one of
// three.
func rows2(build builder, loop func(t typ) func(d, a, b *lanes)) builder {
	return func(a *assembler, s *statement, f form) (instr, error) {
		in, err := build(a, s, f)
		all, some := loop(f.last()), in.exec
		in.exec = func(w *warp, in *instr, m uint32) {
			if m == fullMask {
				all(&w.rows[in.d], &w.rows[in.a], &w.rows[in.b])
			} else {
				some(w, in, m)
			}
		}
		return in, err
	}
}

func rows3(build builder, loop func(t typ) func(d, a, b, c *lanes)) builder {
	return func(a *assembler, s *statement, f form) (instr, error) {
		in, err := build(a, s, f)
		all, some := loop(f.last()), in.exec
		in.exec = func(w *warp, in *instr, m uint32) {
			if m == fullMask {
				all(&w.rows[in.d], &w.rows[in.a], &w.rows[in.b], &w.rows[in.c])
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
		for i := 0; i < warpSize; i += 4 {
			d[i] = (a[i] + b[i]) & m
			d[i+1] = (a[i+1] + b[i+1]) & m
			d[i+2] = (a[i+2] + b[i+2]) & m
			d[i+3] = (a[i+3] + b[i+3]) & m
		}
	}
}

func subRows(t typ) func(d, a, b *lanes) {
	m := t.mask()
	return func(d, a, b *lanes) {
		for i := 0; i < warpSize; i += 4 {
			d[i] = (a[i] - b[i]) & m
			d[i+1] = (a[i+1] - b[i+1]) & m
			d[i+2] = (a[i+2] - b[i+2]) & m
			d[i+3] = (a[i+3] - b[i+3]) & m
		}
	}
}

func mulLowRows(t typ) func(d, a, b *lanes) {
	m := t.mask()
	return func(d, a, b *lanes) {
		for i := 0; i < warpSize; i += 4 {
			d[i] = a[i] * b[i] & m
			d[i+1] = a[i+1] * b[i+1] & m
			d[i+2] = a[i+2] * b[i+2] & m
			d[i+3] = a[i+3] * b[i+3] & m
		}
	}
}

func madLowRows(t typ) func(d, a, b, c *lanes) {
	m := t.mask()
	return func(d, a, b, c *lanes) {
		for i := 0; i < warpSize; i += 4 {
			d[i] = (a[i]*b[i] + c[i]) & m
			d[i+1] = (a[i+1]*b[i+1] + c[i+1]) & m
			d[i+2] = (a[i+2]*b[i+2] + c[i+2]) & m
			d[i+3] = (a[i+3]*b[i+3] + c[i+3]) & m
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
		for i := 0; i < warpSize; i += 4 {
			d[i] = a[i] * b[i]
			d[i+1] = a[i+1] * b[i+1]
			d[i+2] = a[i+2] * b[i+2]
			d[i+3] = a[i+3] * b[i+3]
		}
	}
}

func andRows(typ) func(d, a, b *lanes) {
	return func(d, a, b *lanes) {
		for i := 0; i < warpSize; i += 4 {
			d[i] = a[i] & b[i]
			d[i+1] = a[i+1] & b[i+1]
			d[i+2] = a[i+2] & b[i+2]
			d[i+3] = a[i+3] & b[i+3]
		}
	}
}

func orRows(typ) func(d, a, b *lanes) {
	return func(d, a, b *lanes) {
		for i := 0; i < warpSize; i += 4 {
			d[i] = a[i] | b[i]
			d[i+1] = a[i+1] | b[i+1]
			d[i+2] = a[i+2] | b[i+2]
			d[i+3] = a[i+3] | b[i+3]
		}
	}
}

func xorRows(typ) func(d, a, b *lanes) {
	return func(d, a, b *lanes) {
		for i := 0; i < warpSize; i += 4 {
			d[i] = a[i] ^ b[i]
			d[i+1] = a[i+1] ^ b[i+1]
			d[i+2] = a[i+2] ^ b[i+2]
			d[i+3] = a[i+3] ^ b[i+3]
		}
	}
}

func shlRows(t typ) func(d, a, n *lanes) {
	m := t.mask()
	return func(d, a, n *lanes) {
		for i := 0; i < warpSize; i += 4 {
			d[i] = a[i] << n[i] & m
			d[i+1] = a[i+1] << n[i+1] & m
			d[i+2] = a[i+2] << n[i+2] & m
			d[i+3] = a[i+3] << n[i+3] & m
		}
	}
}

func shrRows(t typ) func(d, a, n *lanes) {
	if t.signed() {
		s, m := 64-t.bits, t.mask()
		return func(d, a, n *lanes) {
			for i := range d {
				d[i] = uint64(int64(a[i])<<s>>s>>n[i]) & m
			}
		}
	}
	return func(d, a, n *lanes) {
		for i := 0; i < warpSize; i += 4 {
			d[i] = a[i] >> n[i]
			d[i+1] = a[i+1] >> n[i+1]
			d[i+2] = a[i+2] >> n[i+2]
			d[i+3] = a[i+3] >> n[i+3]
		}
	}
}
