package sim

import "fmt"

// This file implements atomic operations and reductions.

// updates maps the name of an atomic operation to the function that computes the new value.
// Operands and results have the width of the type.
var updates = map[string]func(t typ) func(old, b uint64) uint64{
	"exch": func(typ) func(old, b uint64) uint64 { return func(_, b uint64) uint64 { return b } },
	"and":  and,
	"or":   or,
	"xor":  xor,
	"add":  add,
	"min":  minimum,
	"max":  maximum,
	"inc":  increment,
	"dec":  decrement,
}

// increment adds 1, or returns 0 if old is at least b.
func increment(typ) func(old, b uint64) uint64 {
	return func(old, b uint64) uint64 {
		if old >= b {
			return 0
		}
		return old + 1
	}
}

// decrement subtracts 1, or returns b if old is 0 or above b.
func decrement(typ) func(old, b uint64) uint64 {
	return func(old, b uint64) uint64 {
		if old == 0 || old > b {
			return b
		}
		return old - 1
	}
}

// atomicAccess parses the slots that atom and red share: order scope space operation type.
func atomicAccess(f form) (*access, error) {
	ac := &access{space: spaces[f[2]], typ: f.last(), count: 1}
	word, scope := f[0], f[1]
	if word == "" {
		word = "relaxed" // PTX ISA: the default order is relaxed, the default scope gpu
	}
	if scope == "" {
		scope = "gpu"
	}
	return ac, ac.semantics(word, scope)
}

func buildAtomic(a *assembler, s *statement, f form) (instr, error) {
	ac, err := atomicAccess(f)
	if err != nil {
		return instr{}, err
	}
	in := a.memoryInstr(ac)
	o := a.operands(s)
	in.d = o.dst(ac.typ)
	in.a, ac.disp = o.address(ac.space)
	in.b = o.src(ac.typ)
	in.c = in.b
	ac.combines(f[3])
	in.exec = execAtomic
	return in, o.done()
}

func buildReduction(a *assembler, s *statement, f form) (instr, error) {
	ac, err := atomicAccess(f)
	if err != nil {
		return instr{}, err
	}
	in := a.memoryInstr(ac)
	o := a.operands(s)
	in.d = -1
	in.a, ac.disp = o.address(ac.space)
	in.b = o.src(ac.typ)
	in.c = in.b
	ac.combines(f[3])
	in.exec = execAtomic
	return in, o.done()
}

// combines sets combine and inShared for the named operation. As on an H200, the cache adds
// single-precision numbers without subnormals. If the double in memory is a NaN, the cache leaves
// it unchanged, even if it is a signaling NaN. In shared memory, atomics add like the instruction
// add. That NaN results there are quiet is an assumption, since no recorded result of an H200 shows
// it.
func (ac *access) combines(name string) {
	switch {
	case ac.typ.bits == 128: // exch only
		ac.combine = func(_, b, _ [2]uint64) [2]uint64 { return b }
	case ac.typ.kind == 'f': // add only
		f := floatForm{format: ac.typ.format()}
		ac.inShared = combineBy(sum(f))
		f.ftz = ac.typ.bits == 32
		add := sum(f)
		ac.combine = combineBy(func(old, b uint64) uint64 {
			if f.bits == 64 && f.isNaN(old) {
				return old
			}
			return add(old, b)
		})
	default:
		ac.combine = combineBy(updates[name](ac.typ))
	}
}

// sum returns a function that adds two operands.
func sum(f floatForm) func(old, b uint64) uint64 {
	add := floatAdd.of(f)
	return func(old, b uint64) uint64 { return add(old, b, 0) }
}

func combineBy(update func(old, b uint64) uint64) func(old, b, _ [2]uint64) [2]uint64 {
	return func(old, b, _ [2]uint64) [2]uint64 { return [2]uint64{update(old[0], b[0])} }
}

func buildCompareSwap(a *assembler, s *statement, f form) (instr, error) {
	ac, err := atomicAccess(f)
	if err != nil {
		return instr{}, err
	}
	if ac.typ.bits == 16 && ac.order != orderRelaxed {
		return instr{}, fmt.Errorf("16-bit cas is relaxed only")
	}
	in := a.memoryInstr(ac)
	o := a.operands(s)
	in.d = o.dst(ac.typ)
	in.a, ac.disp = o.address(ac.space)
	in.b = o.src(ac.typ)
	in.c = o.src(ac.typ)
	ac.combine = func(old, b, c [2]uint64) [2]uint64 {
		if old == b {
			return c
		}
		return old
	}
	ac.compares = true
	in.exec = execAtomic
	return in, o.done()
}

func execAtomic(w *warp, in *instr, m uint32) {
	ac := in.access
	for first := w.launch.firstLane(); m != 0; {
		lane := takeLane(&m, first)
		seg, off := w.locate(in, lane)
		if seg == nil {
			return
		}
		if seg.private || seg.constant {
			w.fail(in, lane, "atomic operation on a %s", seg.name)
			return
		}
		b, c := [2]uint64{w.rows[in.b][lane]}, [2]uint64{w.rows[in.c][lane]}
		if ac.size == 16 {
			b[1], c[1] = w.rows[in.b+1][lane], w.rows[in.c+1][lane]
		}
		old, ok := w.update(in, lane, seg, off, b, c)
		if !ok {
			return
		}
		if in.d >= 0 {
			w.rows[in.d][lane] = old[0]
			if ac.size == 16 {
				w.rows[in.d+1][lane] = old[1]
			}
		}
	}
}

// update reads, combines and writes one element in one step.
func (w *warp) update(in *instr, lane int, seg *segment, off uint64, b, c [2]uint64) (old [2]uint64, ok bool) {
	if w.launch.watch != nil {
		w.watchAccess(in, lane, seg, off, true)
	}
	s := w.launch.views
	if s == nil {
		old, ok = w.loadLatest(in, lane, seg, off)
	} else {
		old, ok = s.read(w, in, lane, seg, off, true)
	}
	if !ok {
		return old, false
	}
	combine := in.access.combine
	if in.access.inShared != nil && seg == w.block.shared {
		combine = in.access.inShared
	}
	v := combine(old, b, c)
	if in.access.compares && old != b {
		return old, true
	}
	if s != nil && !s.write(w, in, lane, seg, off, v, true) {
		return old, false
	}
	w.commit(in, lane, seg, off, v)
	return old, true
}
