package sim

import (
	"fmt"
	"slices"
	"sync"
)

// warpSize is the number of lanes in a warp. fullMask is the mask of all of them.
const (
	warpSize = 32
	fullMask = uint32(0xffffffff)
)

// lanes is a 64-bit register of all lanes of a warp, a row of the register file.
type lanes [warpSize]uint64

// program is a kernel resolved for execution. Names are indices, and labels are positions in code.
// Immediates and special registers are rows of the register file.
type program struct {
	kernel   *kernel
	code     []instr
	rows     int
	preds    int
	consts   []constant
	specials []special
	accesses int     // number of instructions that access memory
	truths   []int32 // predicates that are always true
	files    sync.Pool
}

// file is the registers of a warp. When a device closes, its files go to a pool for later devices.
// Tests open thousands of devices, each for a few launches, and registers were half of the memory
// that they allocated.
type file struct {
	rows  []lanes
	preds []uint32
}

// registers returns the registers of a warp that has not run. All are zero, except for constants.
func (p *program) registers() *file {
	f, ok := p.files.Get().(*file)
	if ok {
		clear(f.rows)
		clear(f.preds)
	} else {
		f = &file{make([]lanes, p.rows), make([]uint32, p.preds)}
	}
	for _, c := range p.consts {
		for i := range f.rows[c.row] {
			f.rows[c.row][i] = c.value
		}
	}
	for _, t := range p.truths {
		f.preds[t] = fullMask
	}
	return f
}

// keepRegisters returns the registers of blocks to the pool. The blocks must not be used again.
func (p *program) keepRegisters(blocks []*block) {
	for _, b := range blocks {
		for _, w := range b.warps {
			p.files.Put(&file{w.rows, w.preds})
		}
	}
}

// constant is a row that holds the same value in all lanes.
type constant struct {
	row   int32
	value uint64
}

// special is a row that holds a special register, or the address of a module's variable.
type special struct {
	row  int32
	fill func(w *warp, row *lanes)
}

// kind selects how a warp executes an instruction.
type kind uint8

const (
	kindALU     kind = iota // uses registers only; cannot fail
	kindPrivate             // memory that no other thread can access; can fail
	kindMemory              // memory that threads share; schedules differ here
	kindCollect             // .sync instruction of a warp
	kindBarrier             // bar.sync
	kindBranch
	kindTable // brx.idx
	kindExit
	kindYield // nanosleep
	kindTrap
)

// instr is a resolved instruction. Operands are indices of rows or predicates, or -1 if absent.
type instr struct {
	kind    kind
	negate  bool  // whether the guard is negated
	guard   int32 // index of the guard predicate, or -1 without a guard
	exec    func(w *warp, in *instr, m uint32)
	d, e    int32 // destinations
	a, b, c int32 // sources
	flip    bool  // whether source predicate c (setp, selp) or a (vote) is negated
	member  int32 // row of the membermask of a .sync instruction
	// uniform reports whether the membermask, or the base of an address, is a literal, which is the
	// same in all lanes.
	uniform  bool
	target   int32   // target of a branch
	access   *access // description of a memory instruction
	votes    bool    // bar.red: c is the predicate that votes
	anywhere bool    // bar.warp.sync: lanes may meet at different instructions
	list     []int32 // vector operands, or the targets of brx.idx
	st       *statement
}

// assembler turns the statements of a kernel into a program.
type assembler struct {
	k      *kernel
	p      *program
	block  map[string]int32 // number of the basic block that begins at a label
	consts map[uint64]int32
	pred   map[bool]int32 // predicates that are constant, by value
	sregs  map[string]int32
	use    use // registers that the last resolved statement uses
}

func newAssembler(k *kernel) *assembler {
	return &assembler{
		k: k, p: &program{kernel: k, rows: k.rows, preds: k.preds},
		block: map[string]int32{}, consts: map[uint64]int32{}, pred: map[bool]int32{}, sregs: map[string]int32{},
	}
}

// assemble resolves a kernel. It drops the operands of the statements, and keeps only their text
// and line for messages.
func assemble(k *kernel) (*program, error) {
	first := newAssembler(k)
	blocks, err := first.blocks()
	if err != nil {
		return nil, err
	}
	order := linearize(blocks)
	if err := first.share(blocks, order); err != nil {
		return nil, err
	}
	a := newAssembler(k)
	a.block = first.block
	start := make([]int32, len(blocks))
	for i, b := range order {
		start[b] = int32(len(a.p.code))
		for j := blocks[b].first; j < blocks[b].end; j++ {
			in, err := a.instr(&k.body[j])
			if err != nil {
				return nil, k.at(j, err)
			}
			a.p.code = append(a.p.code, in)
		}
		// In this order, the next block may not be the one that b falls through to.
		if f := blocks[b].fallThrough; f >= 0 && (i+1 == len(order) || order[i+1] != f) {
			a.p.code = append(a.p.code, instr{kind: kindBranch, guard: -1, target: int32(f), st: &k.body[blocks[b].end-1]})
		}
	}
	for i := range a.p.code {
		in := &a.p.code[i]
		switch in.kind {
		case kindBranch:
			in.target = start[in.target]
		case kindTable:
			for t := range in.list {
				in.list[t] = start[in.list[t]]
			}
		}
	}
	for i := range k.body {
		k.body[i].args = nil
	}
	return a.p, nil
}

// at adds the place of statement i to an error.
func (k *kernel) at(i int, err error) error {
	return fmt.Errorf("%s:%d: %w: %s", k.mod.name, k.body[i].line, err, k.body[i].text)
}

// basicBlock is a sequence of statements that is entered only at its start.
type basicBlock struct {
	first, end  int   // range of statements
	fallThrough int   // next block if the last statement may not jump, or -1
	jumps       []int // blocks to which the last statement may jump
}

// blocks splits the body of the kernel into basic blocks.
func (a *assembler) blocks() ([]basicBlock, error) {
	body := a.k.body
	if len(body) == 0 {
		return nil, fmt.Errorf("%s:%d: kernel %s runs past its end", a.k.mod.name, a.k.line, a.k.name)
	}
	leader := map[int]bool{0: true}
	for _, at := range a.k.labels {
		leader[at] = true
	}
	for i := range body {
		if isJump(&body[i]) {
			leader[i+1] = true
		}
	}
	delete(leader, len(body))
	var starts []int
	for i := range leader {
		starts = append(starts, i)
	}
	slices.Sort(starts)
	index := map[int]int{}
	for b, at := range starts {
		index[at] = b
	}
	blocks := make([]basicBlock, len(starts))
	for b, at := range starts {
		end := len(body)
		if b+1 < len(starts) {
			end = starts[b+1]
		}
		blocks[b] = basicBlock{first: at, end: end, fallThrough: -1}
		last := &body[end-1]
		if !isJump(last) || last.guard != nil {
			if end == len(body) {
				return nil, fmt.Errorf("%s:%d: kernel %s runs past its end", a.k.mod.name, last.line, a.k.name)
			}
			blocks[b].fallThrough = b + 1
		}
		names, err := a.targets(last)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			at, ok := a.k.labels[name]
			if !ok || at == len(body) {
				return nil, fmt.Errorf("%s:%d: no statement at label %q", a.k.mod.name, last.line, name)
			}
			blocks[b].jumps = append(blocks[b].jumps, index[at])
		}
	}
	for name, at := range a.k.labels {
		if at < len(body) {
			a.block[name] = int32(index[at])
		}
	}
	return blocks, nil
}

func isJump(s *statement) bool {
	switch s.op {
	case "bra", "bra.uni", "brx.idx", "brx.idx.uni", "ret", "ret.uni", "exit":
		return true
	}
	return false
}

// targets returns the labels to which a statement may jump.
func (a *assembler) targets(s *statement) ([]string, error) {
	switch s.op {
	case "bra", "bra.uni":
		if len(s.args) == 1 && s.args[0].kind == opSymbol {
			return []string{s.args[0].sym}, nil
		}
	case "brx.idx", "brx.idx.uni":
		if len(s.args) == 2 && s.args[1].kind == opSymbol {
			if t, ok := a.k.tables[s.args[1].sym]; ok {
				return t, nil
			}
		}
	default:
		return nil, nil
	}
	return nil, fmt.Errorf("%s:%d: no such target: %s", a.k.mod.name, s.line, s.text)
}

// linearize returns a weak topological order of the blocks (Bourdoncle 1993): a block follows the
// blocks that lead to it, and the blocks of a loop are adjacent. A warp that always runs its lowest
// instructions first then reconverges where paths join.
func linearize(blocks []basicBlock) []int {
	var order []int
	n := len(blocks)
	number := make([]int, n) // 0 if not visited, -1 if placed
	var stack []int
	count := 0
	var visit func(v int, out *[]int) int
	// component returns the blocks of the loop with head v, in order.
	component := func(v int) []int {
		var body []int
		for _, s := range blocks[v].successors() {
			if number[s] == 0 {
				visit(s, &body)
			}
		}
		return append([]int{v}, body...)
	}
	// visit prepends the components that v leads to. out grows at the front, because the order is
	// built in reverse.
	visit = func(v int, out *[]int) int {
		stack = append(stack, v)
		count++
		number[v] = count
		head, loop := count, false
		for _, s := range blocks[v].successors() {
			low := number[s]
			if low == 0 {
				low = visit(s, out)
			}
			if low > 0 && low <= head {
				head, loop = low, true
			}
		}
		if head != number[v] {
			return head
		}
		number[v] = -1
		top := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if loop {
			for top != v {
				number[top] = 0
				top = stack[len(stack)-1]
				stack = stack[:len(stack)-1]
			}
			*out = append(component(v), *out...)
			return head
		}
		*out = append([]int{v}, *out...)
		return head
	}
	visit(0, &order)
	return order
}

// successors returns the blocks that may run next.
func (b *basicBlock) successors() []int {
	if b.fallThrough < 0 {
		return b.jumps
	}
	return append([]int{b.fallThrough}, b.jumps...)
}
