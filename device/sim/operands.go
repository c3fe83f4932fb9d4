package sim

import (
	"errors"
	"fmt"
	"slices"
)

// instr resolves one statement by its row of the table.
func (a *assembler) instr(s *statement) (instr, error) {
	row, f, err := match(s.op)
	if err != nil {
		return instr{}, err
	}
	a.use = use{}
	in, err := row.build(a, s, f)
	if err != nil {
		return in, err
	}
	in.st = s
	in.guard = -1
	if s.guard != nil {
		in.guard, in.negate = int32(s.guard.row), s.negate
	}
	return in, nil
}

// operands resolves the operands of a statement one after another. It stores the first error, which
// done returns.
type operands struct {
	a   *assembler
	s   *statement
	i   int
	err error
}

func (a *assembler) operands(s *statement) *operands { return &operands{a: a, s: s} }

func (o *operands) fail(format string, args ...any) {
	if o.err == nil {
		o.err = fmt.Errorf("operand %d: %s", o.i, fmt.Sprintf(format, args...))
	}
}

func (o *operands) done() error {
	if o.err == nil && o.i != len(o.s.args) {
		o.err = fmt.Errorf("%d operands, expected %d", len(o.s.args), o.i)
	}
	return o.err
}

// more reports whether an optional operand follows.
func (o *operands) more() bool { return o.i < len(o.s.args) }

func (o *operands) next() operand {
	o.i++
	if o.i > len(o.s.args) {
		if o.err == nil {
			o.err = errors.New("too few operands")
		}
		return operand{kind: opSink}
	}
	return o.s.args[o.i-1]
}

// dst resolves a destination register that has exactly the width of t.
func (o *operands) dst(t typ) int32 { return o.dstOf(o.next(), t, false) }

// dstOf resolves a destination register. If wider is set, the register may have more bits than t.
func (o *operands) dstOf(arg operand, t typ, wider bool) int32 {
	switch {
	case arg.kind == opSink && arg.second == nil:
		row := o.a.p.rows
		o.a.p.rows += (t.bits + 63) / 64
		return int32(row)
	case arg.kind != opReg || arg.negate || arg.reg.bits == 1 || arg.second != nil:
		o.fail("destination is not a register")
	case arg.reg.bits != t.bits && !(wider && arg.reg.bits > t.bits):
		o.fail("register %s has %d bits, the instruction %d", arg.reg.name, arg.reg.bits, t.bits)
	default:
		o.a.use.writes = append(o.a.use.writes, arg.reg)
		return int32(arg.reg.row)
	}
	return 0
}

// src resolves a source that has exactly the width of t: a register, a number, the address of a
// variable, or a special register.
func (o *operands) src(t typ) int32 { return o.srcOf(o.next(), t, false) }

// srcOf resolves a source. If wider is set, a register may have more bits than t.
func (o *operands) srcOf(arg operand, t typ, wider bool) int32 {
	if t.bits > 64 && arg.kind != opReg {
		o.fail("not a register of %d bits", t.bits)
		return 0
	}
	switch arg.kind {
	case opReg:
		if arg.negate || arg.reg.bits == 1 || arg.second != nil {
			o.fail("source is not a plain register")
		} else if arg.reg.bits != t.bits && !(wider && arg.reg.bits > t.bits) {
			o.fail("register %s has %d bits, the instruction %d", arg.reg.name, arg.reg.bits, t.bits)
		} else {
			o.a.use.reads = append(o.a.use.reads, arg.reg)
			return int32(arg.reg.row)
		}
	case opImm:
		if err := arg.checkType(t); err != nil {
			o.fail("%v", err)
		} else if arg.negate {
			o.fail("source is not a plain number")
		}
		return o.a.constant(arg.imm & t.mask())
	case opSymbol:
		if arg.vr != nil {
			return o.a.addressOf(arg.vr, 0, t.mask())
		}
		if arg.sym == "WARP_SZ" {
			return o.a.constant(warpSize)
		}
		if fill, ok := specialRegisters[arg.sym]; ok {
			return o.a.special(arg.sym, fill)
		}
		o.fail("unknown name %q", arg.sym)
	default:
		o.fail("not a source")
	}
	return 0
}

// imm resolves an integer literal of type t.
func (o *operands) imm(t typ) uint64 {
	arg := o.next()
	if arg.kind != opImm || arg.negate {
		o.fail("not a number")
	} else if err := arg.checkType(t); err != nil {
		o.fail("%v", err)
	}
	return arg.imm
}

// pred resolves a predicate to read. negated reports a leading "!".
func (o *operands) pred() (index int32, negated bool) {
	arg := o.next()
	switch {
	case arg.kind == opImm && arg.float == 0:
		return o.a.constantPred(arg.imm != 0), arg.negate
	case arg.kind != opReg || arg.reg.bits != 1 || arg.second != nil:
		o.fail("not a predicate")
		return 0, false
	}
	return int32(arg.reg.row), arg.negate
}

// predDst resolves a predicate to write.
func (o *operands) predDst() int32 {
	p, q := o.predsDst()
	if q >= 0 {
		o.fail("one destination too many")
	}
	return p
}

// predsDst resolves "p" or "p|q". q is -1 if absent.
func (o *operands) predsDst() (p, q int32) {
	arg := o.next()
	q = -1
	switch {
	case arg.negate || arg.second != nil && arg.second.bits != 1:
	case arg.kind == opSink:
		p = int32(o.a.p.preds)
		o.a.p.preds++
		return p, o.secondOf(arg)
	case arg.kind == opReg && arg.reg.bits == 1:
		return int32(arg.reg.row), o.secondOf(arg)
	}
	o.fail("destination is not a predicate")
	return 0, -1
}

// secondOf returns the predicate after a bar, or -1 if it is absent.
func (o *operands) secondOf(arg operand) int32 {
	if arg.second == nil {
		return -1
	}
	return int32(arg.second.row)
}

// dstPred resolves "d" or "d|p", a register and a predicate. p is -1 if absent.
func (o *operands) dstPred(t typ) (d, p int32) {
	arg := o.next()
	if arg.second != nil && arg.second.bits != 1 {
		o.fail("%s is not a predicate", arg.second.name)
	}
	p = o.secondOf(arg)
	arg.second = nil
	return o.dstOf(arg, t, false), p
}

// address resolves "[base+displacement]" in space s.
func (o *operands) address(s space) (base int32, displacement uint64) {
	arg := o.next()
	if arg.kind != opAddr {
		o.fail("not an address")
		return 0, 0
	}
	switch {
	case arg.reg != nil:
		if arg.reg.bits != 64 && !(arg.reg.bits == 32 && (s == spaceShared || s == spaceLocal || s == spaceParam)) {
			o.fail("address register %s has %d bits", arg.reg.name, arg.reg.bits)
		}
		o.a.use.reads = append(o.a.use.reads, arg.reg)
		return int32(arg.reg.row), arg.imm
	case arg.vr != nil:
		if s != spaceGeneric && s != arg.vr.space {
			o.fail("%s is in %v memory", arg.vr.name, arg.vr.space)
		}
		from := uint64(0)
		if s == spaceGeneric {
			from = window(arg.vr.space)
		}
		return o.a.addressOf(arg.vr, from, ^uint64(0)), arg.imm
	}
	return o.a.constant(0), arg.imm
}

// list resolves a register or a vector of n registers. resolve is dstOf or srcOf.
func (o *operands) list(n int, t typ, resolve func(operand, typ, bool) int32) []int32 {
	arg := o.next()
	if n == 1 && arg.kind != opVector {
		return []int32{resolve(arg, t, true)}
	}
	if arg.kind != opVector || len(arg.vec) != n {
		o.fail("not a vector of %d", n)
		return nil
	}
	rows := make([]int32, n)
	for i, e := range arg.vec {
		rows[i] = resolve(e, t, true)
	}
	return rows
}

// constant returns the row that holds v in every lane.
func (a *assembler) constant(v uint64) int32 {
	row, ok := a.consts[v]
	if !ok {
		row = int32(a.p.rows)
		a.p.rows++
		a.consts[v] = row
		a.p.consts = append(a.p.consts, constant{row, v})
	}
	return row
}

// constantPred returns a predicate that is v in every lane.
func (a *assembler) constantPred(v bool) int32 {
	i, ok := a.pred[v]
	if !ok {
		i = int32(a.p.preds)
		a.p.preds++
		a.pred[v] = i
		if v {
			a.p.truths = append(a.p.truths, i)
		}
	}
	return i
}

// special returns the row that holds a special register.
func (a *assembler) special(name string, fill func(w *warp, row *lanes)) int32 {
	row, ok := a.sregs[name]
	if !ok {
		row = int32(a.p.rows)
		a.p.rows++
		a.sregs[name] = row
		a.p.specials = append(a.p.specials, special{row, fill})
	}
	return row
}

// addressOf returns the row that holds an address within a variable's own space: the variable's
// address plus the displacement from, reduced to the bits in mask. The address of a module's
// variable is set at run time, because each device allocates it.
func (a *assembler) addressOf(v *variable, from, mask uint64) int32 {
	if v.space != spaceGlobal && v.space != spaceConst {
		return a.constant((v.addr + from) & mask)
	}
	n := slices.Index(a.k.mod.globals, v)
	return a.special(fmt.Sprintf("%x&%d", mask, n), uniform(func(w *warp) uint64 { return w.launch.module.globals[n].base & mask }))
}

// These are the windows of the generic address space. A generic address in the window of a space
// lies in this space. Global memory lies below the windows, and has the same generic addresses.
const (
	sharedWindow = 0x7f00_0000_0000
	localWindow  = 0x7f80_0000_0000
	windowEnd    = 0x8000_0000_0000
)

// window returns the offset that converts an address of the space to a generic address.
func window(s space) uint64 {
	switch s {
	case spaceShared:
		return sharedWindow
	case spaceLocal:
		return localWindow
	}
	return 0
}
