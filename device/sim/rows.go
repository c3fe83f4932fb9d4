package sim

// This file holds loops over all lanes of a warp for the most frequent instructions. With a call
// per lane, the calls would take most of the time. With one lane per iteration, the loop itself
// would take a third of the time. Each loop has the name of the function that computes one lane.
// Most loops compute four lanes per iteration.

// rows2 returns a builder that builds the same instruction as build, with two sources, but runs
// loop for full warps. rows3 does so for three sources.
func rows2(build builder, loop func(t typ) func(d, a, b *lanes)) builder {
	return func(a *assembler, s *statement, f form) (instr, error) {
		in, err := build(a, s, f)
		full, partial := loop(f.last()), in.exec
		in.exec = func(w *warp, in *instr, m uint32) {
			if m == fullMask {
				full(&w.rows[in.d], &w.rows[in.a], &w.rows[in.b])
			} else {
				partial(w, in, m)
			}
		}
		return in, err
	}
}

func rows3(build builder, loop func(t typ) func(d, a, b, c *lanes)) builder {
	return func(a *assembler, s *statement, f form) (instr, error) {
		in, err := build(a, s, f)
		full, partial := loop(f.last()), in.exec
		in.exec = func(w *warp, in *instr, m uint32) {
			if m == fullMask {
				full(&w.rows[in.d], &w.rows[in.a], &w.rows[in.b], &w.rows[in.c])
			} else {
				partial(w, in, m)
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
