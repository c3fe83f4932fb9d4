package sim

import "math/bits"

// This file implements instructions by which the lanes of a warp exchange values. The function exec
// of such an instruction receives the lanes that met, which are all live lanes of the membermask.

// collective resolves the membermask, which is the last operand, and completes the instruction.
func (o *operands) collective(in instr, exec func(w *warp, in *instr, m uint32)) (instr, error) {
	in.uniform = o.more() && o.s.args[o.i].kind == opImm
	in.kind, in.member, in.exec = kindCollect, o.src(b32), exec
	return in, o.done()
}

// buildShuffle resolves "shfl.sync.mode.b32 d[|p], a, b, c, membermask", with the lane and segment
// arithmetic of PTX ISA 9.7.9.6.
func buildShuffle(a *assembler, s *statement, f form) (instr, error) {
	source := shuffleSources[f[1]]
	o := a.operands(s)
	var in instr
	in.d, in.e = o.dstPred(b32)
	in.a, in.b, in.c = o.src(b32), o.src(b32), o.src(b32)
	return o.collective(in, func(w *warp, in *instr, m uint32) {
		a, p := w.rows[in.a], uint32(0)
		d, b, c := &w.rows[in.d], &w.rows[in.b], &w.rows[in.c]
		for rest := m; rest != 0; rest &= rest - 1 {
			lane := lowest(rest)
			j, valid := source(lane, int(b[lane]&0x1f), int(c[lane]))
			if !valid {
				j = lane
			} else {
				p |= 1 << lane
			}
			if m>>j&1 == 0 {
				w.fail(in, lane, "reads lane %d, which does not take part (lanes 0x%08x do)", j, m)
				return
			}
			d[lane] = a[j&(warpSize-1)]
		}
		if in.e >= 0 {
			w.preds[in.e] = w.preds[in.e]&^m | p
		}
	})
}

// shuffleSources maps a mode to a function that returns the lane that a lane reads, and whether
// that lane is within the segment.
var shuffleSources = map[string]func(lane, b, c int) (source int, valid bool){
	"up": func(lane, b, c int) (int, bool) {
		return lane - b, lane-b >= shuffleBound(lane, c)
	},
	"down": func(lane, b, c int) (int, bool) {
		return lane + b, lane+b <= shuffleBound(lane, c)
	},
	"bfly": func(lane, b, c int) (int, bool) {
		return lane ^ b, lane^b <= shuffleBound(lane, c)
	},
	"idx": func(lane, b, c int) (int, bool) {
		segment := c >> 8 & 0x1f
		source := lane&segment | b&^segment
		return source, source <= shuffleBound(lane, c)
	},
}

// shuffleBound returns the last lane that a lane may read in its segment; under "up", the first
// one.
func shuffleBound(lane, c int) int {
	segment, clamp := c>>8&0x1f, c&0x1f
	return lane&segment | clamp&^segment
}

// buildVote resolves "vote.sync.mode.pred p, [!]a, membermask".
func buildVote(a *assembler, s *statement, f form) (instr, error) {
	o := a.operands(s)
	var in instr
	in.d = o.predDst()
	in.a, in.flip = o.pred()
	mode := f[1]
	return o.collective(in, func(w *warp, in *instr, m uint32) {
		votes := w.pred(in.a, in.flip) & m
		var result bool
		switch mode {
		case "all":
			result = votes == m
		case "any":
			result = votes != 0
		case "uni":
			result = votes == m || votes == 0
		}
		w.setPred(in.d, m, result)
	})
}

// setPred writes v to a predicate of all lanes in m.
func (w *warp) setPred(index int32, m uint32, v bool) {
	w.preds[index] &^= m
	if v {
		w.preds[index] |= m
	}
}

// broadcast writes v to a register of all lanes in m.
func (w *warp) broadcast(row int32, m uint32, v uint64) {
	d := &w.rows[row]
	if m == fullMask {
		for i := range d {
			d[i] = v
		}
		return
	}
	for ; m != 0; m &= m - 1 {
		d[lowest(m)] = v
	}
}

func buildBallot(a *assembler, s *statement, f form) (instr, error) {
	o := a.operands(s)
	in := instr{d: o.dst(b32)}
	in.a, in.flip = o.pred()
	return o.collective(in, func(w *warp, in *instr, m uint32) {
		w.broadcast(in.d, m, uint64(w.pred(in.a, in.flip)&m))
	})
}

// buildMatchAny resolves match.any. Each lane receives the mask of the lanes that have its value.
func buildMatchAny(a *assembler, s *statement, f form) (instr, error) {
	o := a.operands(s)
	in := instr{d: o.dst(b32), a: o.src(f.last())}
	return o.collective(in, func(w *warp, in *instr, m uint32) {
		a := w.rows[in.a]
		for rest := m; rest != 0; {
			first := lowest(rest)
			var same uint32
			for r := rest; r != 0; r &= r - 1 {
				if a[lowest(r)] == a[first] {
					same |= 1 << lowest(r)
				}
			}
			w.broadcast(in.d, same, uint64(same))
			rest &^= same
		}
	})
}

// buildMatchAll resolves match.all. If all lanes have the same value, they receive the membermask
// and a true predicate, else 0 and false.
func buildMatchAll(a *assembler, s *statement, f form) (instr, error) {
	o := a.operands(s)
	var in instr
	in.d, in.e = o.dstPred(b32)
	in.a = o.src(f.last())
	return o.collective(in, func(w *warp, in *instr, m uint32) {
		result := m
		for rest := m; rest != 0; rest &= rest - 1 {
			if w.rows[in.a][lowest(rest)] != w.rows[in.a][lowest(m)] {
				result = 0
			}
		}
		w.broadcast(in.d, m, uint64(result))
		if in.e >= 0 {
			w.preds[in.e] = w.preds[in.e]&^m | result
		}
	})
}

// buildRedux resolves redux, which combines the values of all lanes like the atomic operation of
// the same name.
func buildRedux(a *assembler, s *statement, f form) (instr, error) {
	t := f.last()
	combine := updates[f[1]](t)
	o := a.operands(s)
	in := instr{d: o.dst(t), a: o.src(t)}
	return o.collective(in, func(w *warp, in *instr, m uint32) {
		v := w.rows[in.a][lowest(m)]
		for rest := m & (m - 1); rest != 0; rest &= rest - 1 {
			v = combine(v, w.rows[in.a][lowest(rest)])
		}
		w.broadcast(in.d, m, v)
	})
}

// buildActiveMask resolves activemask. The lanes that execute it together receive their mask. It
// does not wait for other lanes.
func buildActiveMask(a *assembler, s *statement, f form) (instr, error) {
	o := a.operands(s)
	in := instr{d: o.dst(b32)}
	in.exec = func(w *warp, in *instr, m uint32) { w.broadcast(in.d, m, uint64(m)) }
	return in, o.done()
}

// buildElect resolves "elect.sync d|p, membermask". The lowest lane is the leader.
func buildElect(a *assembler, s *statement, f form) (instr, error) {
	o := a.operands(s)
	var in instr
	in.d, in.e = o.dstPred(b32)
	return o.collective(in, func(w *warp, in *instr, m uint32) {
		leader := bits.TrailingZeros32(m)
		w.broadcast(in.d, m, uint64(leader))
		if in.e >= 0 {
			w.preds[in.e] = w.preds[in.e]&^m | 1<<leader
		}
	})
}

// buildWarpBarrier resolves bar.warp.sync, which also orders memory accesses of its lanes.
func buildWarpBarrier(a *assembler, s *statement, f form) (instr, error) {
	o := a.operands(s)
	return o.collective(instr{anywhere: true}, func(w *warp, in *instr, m uint32) {
		if v := w.launch.views; v != nil {
			v.joinLanes(w, m)
		}
	})
}
