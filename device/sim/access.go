package sim

import "fmt"

// This file implements loads and stores.

// order is the memory order of an access or a fence.
type order uint8

const (
	orderWeak order = iota
	orderRelaxed
	orderAcquire
	orderRelease
	orderAcqRel
	orderSC // only fences have this order
)

// Scope is the set of threads for which an access or a fence is ordered.
type Scope uint8

// These are the scopes of PTX, from small to large.
const (
	ScopeNone  Scope = iota // scope of weak accesses
	ScopeBlock              // .cta
	ScopeGPU                // .gpu
	ScopeSys                // .sys
)

// String returns the name that PTX has for the scope.
func (s Scope) String() string { return [...]string{"none", "cta", "gpu", "sys"}[s] }

var scopeNamed = map[string]Scope{"": ScopeNone, "cta": ScopeBlock, "gpu": ScopeGPU, "gl": ScopeGPU, "sys": ScopeSys}

// access describes a memory instruction, except for its registers.
type access struct {
	index    int // index among the program's memory instructions
	space    space
	typ      typ
	size     int // bytes per element
	count    int // number of elements
	order    order
	scope    Scope
	readOnly bool // .nc: memory that the launch does not write
	stores   bool // whether the instruction is st
	// whether the instruction is a cas, which writes only if the old value equals the expected one
	compares bool
	hinted   bool // whether it has a cache policy operand
	disp     uint64
	register []uint64 // mask of each destination register, for sign extension
	// combine computes the new value of an atomic operation from the old value and the operands. It
	// is nil for loads and stores.
	combine func(old, b, c [2]uint64) [2]uint64
	// inShared replaces combine in shared memory. If it is nil, combine applies there, too.
	inShared func(old, b, c [2]uint64) [2]uint64
}

// semantics sets order and scope from the modifiers of an instruction.
func (ac *access) semantics(word, scope string) error {
	ac.scope = scopeNamed[scope]
	switch word {
	case "", "weak":
		if scope != "" {
			return fmt.Errorf("a scope needs an order")
		}
		return nil
	case "volatile": // PTX ISA: treated as relaxed at system scope
		ac.order, ac.scope = orderRelaxed, ScopeSys
		return nil
	case "relaxed":
		ac.order = orderRelaxed
	case "acquire":
		ac.order = orderAcquire
	case "release":
		ac.order = orderRelease
	case "acq_rel":
		ac.order = orderAcqRel
	}
	if ac.scope == ScopeNone {
		return fmt.Errorf("order .%s needs a scope", word)
	}
	return nil
}

func vectorCount(mod string) int {
	switch mod {
	case "v2":
		return 2
	case "v4":
		return 4
	}
	return 1
}

// checkWidth returns an error if an access is wider than PTX allows.
func (ac *access) checkWidth() error {
	if n := ac.typ.bits * ac.count; n > 128 {
		return fmt.Errorf("an access of %d bits, more than 128", n)
	}
	return nil
}

// private reports whether only the executing thread can access the space.
func (s space) private() bool { return s == spaceLocal || s == spaceParam || s == spaceConst }

// memoryInstr returns an instruction that makes the access ac and has no operands yet.
func (a *assembler) memoryInstr(ac *access) instr {
	ac.index = a.p.accesses
	a.p.accesses++
	ac.size = ac.typ.bits / 8
	if ac.space.private() {
		return instr{kind: kindPrivate, access: ac}
	}
	return instr{kind: kindMemory, access: ac}
}

// buildLoad resolves ld. Slots of the form: order scope space cache eviction hint prefetch vector
// type.
func buildLoad(a *assembler, s *statement, f form) (instr, error) {
	ac := &access{space: spaces[f[2]], typ: f.last(), count: vectorCount(f[7]), hinted: f[5] != ""}
	if err := ac.semantics(f[0], f[1]); err != nil {
		return instr{}, err
	}
	if ac.order == orderRelease {
		return instr{}, fmt.Errorf("a load can't release")
	}
	return a.load(s, ac)
}

// buildLoadReadOnly resolves ld.global.nc. Slots of the form: "global" cache "nc" eviction hint
// prefetch vector type.
func buildLoadReadOnly(a *assembler, s *statement, f form) (instr, error) {
	return a.load(s, &access{space: spaceGlobal, typ: f.last(), count: vectorCount(f[6]), readOnly: true, hinted: f[4] != ""})
}

// buildLoadUniform resolves ldu. Slots of the form: space vector type.
func buildLoadUniform(a *assembler, s *statement, f form) (instr, error) {
	return a.load(s, &access{space: spaces[f[0]], typ: f.last(), count: vectorCount(f[1]), readOnly: true})
}

func (a *assembler) load(s *statement, ac *access) (instr, error) {
	if err := ac.checkWidth(); err != nil {
		return instr{}, err
	}
	in := a.memoryInstr(ac)
	o := a.operands(s)
	in.list = o.list(ac.count, ac.typ, o.dstOf)
	in.uniform = o.more() && s.args[o.i].reg == nil
	in.a, ac.disp = o.address(ac.space)
	if len(s.args) > 0 {
		elems := s.args[0].vec
		if elems == nil {
			elems = s.args[:1]
		}
		for _, e := range elems {
			register := ac.typ.mask()
			if e.reg != nil {
				register = typ{'b', e.reg.bits}.mask()
			}
			ac.register = append(ac.register, register)
		}
	}
	in.exec = execLoad
	if ac.hinted {
		o.policy(&in)
	}
	return in, o.done()
}

// buildStore resolves st. Slots of the form: order scope space cache eviction hint vector type.
func buildStore(a *assembler, s *statement, f form) (instr, error) {
	ac := &access{space: spaces[f[2]], typ: f.last(), count: vectorCount(f[6]), hinted: f[5] != "", stores: true}
	if err := ac.semantics(f[0], f[1]); err != nil {
		return instr{}, err
	}
	if ac.order == orderAcquire || ac.space == spaceConst || ac.space == spaceParam {
		return instr{}, fmt.Errorf("stores cannot have this order or memory")
	}
	if err := ac.checkWidth(); err != nil {
		return instr{}, err
	}
	in := a.memoryInstr(ac)
	o := a.operands(s)
	in.a, ac.disp = o.address(ac.space)
	in.list = o.list(ac.count, ac.typ, o.srcOf)
	in.exec = execStore
	if ac.hinted {
		o.policy(&in)
	}
	return in, o.done()
}

func execLoad(w *warp, in *instr, m uint32) {
	ac := in.access
	direct := w.launch.views == nil && w.launch.watch == nil
	first := w.launch.firstLane()
	if (direct || ac.space == spaceParam) && w.loadUniform(in, m, first) {
		return
	}
	if direct && ac.size <= 8 {
		m = w.loadCached(in, m)
	}
	for m != 0 {
		lane := takeLane(&m, first)
		seg, off := w.locate(in, lane)
		if seg == nil {
			return
		}
		for i, row := range in.list {
			at := off + uint64(i*ac.size)
			if (direct || seg.private) && ac.size <= 8 && seg.isWritten(at, ac.size) {
				v := seg.get(at, ac.size)
				if ac.typ.signed() {
					v = uint64(ac.typ.extend(v)) & ac.register[i]
				}
				w.rows[row][lane] = v
				continue
			}
			v, ok := w.load(in, lane, seg, at)
			if !ok {
				return
			}
			if ac.typ.signed() {
				v[0] = uint64(ac.typ.extend(v[0])) & ac.register[i]
			}
			w.rows[row][lane] = v[0]
			if ac.size == 16 {
				w.rows[row+1][lane] = v[1]
			}
		}
	}
}

// loadCached executes a load for lanes if their elements have been written and lie in the segment
// that the instruction accessed last. It returns the other lanes. These loads cannot fail, so their
// order is not visible.
func (w *warp) loadCached(in *instr, m uint32) (rest uint32) {
	ac := in.access
	seg := w.launch.lastSegs[ac.index]
	if seg == nil {
		return m
	}
	size := uint64(ac.size * ac.count)
	for rest := m; rest != 0; rest &= rest - 1 {
		lane := lowest(rest)
		addr := w.rows[in.a][lane] + ac.disp
		off := addr - seg.base
		if off >= uint64(seg.size) || off+size > uint64(seg.size) || addr&(size-1) != 0 || !seg.areWritten(off, ac.size, ac.count) {
			continue
		}
		for i, row := range in.list {
			v := seg.get(off+uint64(i*ac.size), ac.size)
			if ac.typ.signed() {
				v = uint64(ac.typ.extend(v)) & ac.register[i]
			}
			w.rows[row][lane] = v
		}
		m &^= 1 << lane
	}
	return m
}

// loadUniform executes a load for all lanes at once if they read the same written memory, such as
// parameters. It reports whether it handled the load.
func (w *warp) loadUniform(in *instr, m uint32, first int) bool {
	ac := in.access
	if ac.size > 8 || ac.typ.signed() || !in.uniform && !w.rows[in.a].same(m) {
		return false
	}
	rest := m
	seg, off := w.locate(in, takeLane(&rest, first))
	if seg == nil {
		return true
	}
	if seg.private && seg != w.launch.params {
		return false
	}
	if !seg.areWritten(off, ac.size, ac.count) {
		return false
	}
	for i, row := range in.list {
		w.broadcast(row, m, seg.get(off+uint64(i*ac.size), ac.size))
	}
	return true
}

func execStore(w *warp, in *instr, m uint32) {
	ac := in.access
	for first := w.launch.firstLane(); m != 0; {
		lane := takeLane(&m, first)
		seg, off := w.locate(in, lane)
		if seg == nil {
			return
		}
		for i, row := range in.list {
			v := [2]uint64{w.rows[row][lane]}
			if ac.size == 16 {
				v[1] = w.rows[row+1][lane]
			}
			if w.store(in, lane, seg, off+uint64(i*ac.size), v); w.launch.failed() {
				return
			}
		}
	}
}

// locate returns the segment and the offset that a lane addresses. It fails the launch if the
// address is out of bounds or misaligned.
func (w *warp) locate(in *instr, lane int) (*segment, uint64) {
	ac := in.access
	addr := w.rows[in.a][lane] + ac.disp
	size := uint64(ac.size * ac.count)
	// Most instructions access the same segment as the last time.
	seg := w.launch.lastSegs[ac.index]
	if seg != nil {
		if off := addr - seg.base; off < uint64(seg.size) && off+size <= uint64(seg.size) && addr&(size-1) == 0 {
			return seg, off
		}
	}
	if addr&(size-1) != 0 {
		w.fail(in, lane, "address 0x%x is not aligned to %d bytes", addr, size)
		return nil, 0
	}
	s := ac.space
	if s == spaceGeneric {
		s = spaceOf(addr)
		addr -= window(s)
	}
	switch s {
	case spaceShared:
		seg = w.block.shared
	case spaceLocal:
		seg = w.localOf(lane)
	case spaceParam:
		seg = w.launch.params
	default:
		seg, reason := w.launch.heap.find(addr, int(size))
		if seg == nil {
			w.fail(in, lane, "%s", reason)
			return nil, 0
		}
		w.launch.lastSegs[ac.index] = seg
		seg.users.add(w.launch.work)
		return seg, addr - seg.base
	}
	if addr >= uint64(seg.size) || addr+size > uint64(seg.size) {
		w.fail(in, lane, "%v address 0x%x: beyond its %d bytes", s, addr, seg.size)
		return nil, 0
	}
	return seg, addr
}

// load reads one element. ok is false after a fault.
func (w *warp) load(in *instr, lane int, seg *segment, off uint64) (v [2]uint64, ok bool) {
	if w.launch.watch != nil {
		w.watchAccess(in, lane, seg, off, false)
	}
	if s := w.launch.views; s != nil && !seg.private {
		return s.load(w, in, lane, seg, off)
	}
	return w.loadLatest(in, lane, seg, off)
}

// loadLatest reads the newest value of one element.
func (w *warp) loadLatest(in *instr, lane int, seg *segment, off uint64) (v [2]uint64, ok bool) {
	size := in.access.size
	if size == 16 {
		v[1] = seg.get(off+8, 8)
		ok = seg.isWritten(off+8, 8)
		size = 8
	} else {
		ok = true
	}
	v[0] = seg.get(off, size)
	if !ok || !seg.isWritten(off, size) {
		w.fail(in, lane, "reads byte %d of a %s, which was never written", off, seg.name)
		return v, false
	}
	return v, true
}

// store writes one element.
func (w *warp) store(in *instr, lane int, seg *segment, off uint64, v [2]uint64) {
	if seg.constant {
		w.fail(in, lane, "writes byte %d of a %s of constant memory", off, seg.name)
		return
	}
	if w.launch.watch != nil {
		w.watchAccess(in, lane, seg, off, true)
	}
	if s := w.launch.views; s != nil && !seg.private && !s.write(w, in, lane, seg, off, v, false) {
		return
	}
	w.commit(in, lane, seg, off, v)
}

// commit writes the value of a store to memory, after the store has passed all checks.
func (w *warp) commit(in *instr, lane int, seg *segment, off uint64, v [2]uint64) {
	ac := in.access
	if ac.size == 16 {
		seg.set(off, 8, v[0])
		seg.set(off+8, 8, v[1])
	} else {
		seg.set(off, ac.size, v[0])
	}
	if w.launch.domain != nil && seg.base >= heapBase {
		w.persist(in, lane, seg, off)
	}
}
