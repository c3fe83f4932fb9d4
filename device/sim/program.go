package sim

import (
	"fmt"
	"slices"
	"sync"
)

// Lanes per warp, and the mask of all of them.
const (
	warpSize = 32
	fullMask = uint32(0xffffffff)
)

// lanes is one 64-bit register row of a warp.
type lanes [warpSize]uint64

// A program is a kernel resolved for execution: names are indices, labels are
// positions, immediates and special registers are rows of the register file.
type program struct {
	kernel   *kernel
	code     []instr
	rows     int
	preds    int
	consts   []constant
	specials []special
	accesses int     // instructions that access memory
	truths   []int32 // predicates that are always true
	files    sync.Pool
}

// A file is the registers of a warp. Closed devices leave them to later ones: tests open thousands,
// each for a few launches, and registers were half of the memory that they allocated.
type file struct {
	rows  []lanes
	preds []uint32
}

// registers returns the registers of a warp that has not run: zero, except for constants.
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

// keepRegisters keeps the registers of blocks that are not used again.
func (p *program) keepRegisters(blocks []*block) {
	for _, b := range blocks {
		for _, w := range b.warps {
			p.files.Put(&file{w.rows, w.preds})
		}
	}
}

// A constant is a row that holds one value in all lanes.
type constant struct {
	row   int32
	value uint64
}

// A special is a row that holds a special register, or the address of a module's variable.
type special struct {
	row  int32
	fill func(w *warp, row *lanes)
}

// kind is how the warp handles an instruction.
type kind uint8

const (
	kindALU     kind = iota // registers only; cannot fail
	kindPrivate             // memory that no other thread sees; can fail
	kindMemory              // shared memory: a point where schedules differ
	kindCollect             // .sync instruction of a warp
	kindBarrier             // bar.sync
	kindBranch
	kindTable // brx.idx
	kindExit
	kindYield // nanosleep
	kindTrap
)

// An instr is a resolved instruction. Operands are row or predicate indices, -1 if absent.
type instr struct {
	kind    kind
	negate  bool  // of the guard
	guard   int32 // predicate index, -1 if unconditional
	exec    func(w *warp, in *instr, m uint32)
	d, e    int32 // destinations
	a, b, c int32 // sources
	flip    bool  // source predicate c (setp, selp, vote) is negated
	member  int32 // row of the membermask of a .sync instruction
	// uniform reports that the membermask, or the base of an address, is a number: the same in all
	// lanes.
	uniform  bool
	target   int32   // of a branch
	access   *access // of a memory instruction
	votes    bool    // bar.red: c is the predicate voted on
	anywhere bool    // bar.warp.sync: lanes may meet at different places
	list     []int32 // vector operands; targets of brx.idx
	st       *statement
}

// assembler turns the statements of a kernel into a program.
type assembler struct {
	k      *kernel
	p      *program
	block  map[string]int32 // number of the basic block at a label
	consts map[uint64]int32
	pred   map[bool]int32 // constant predicates
	sregs  map[string]int32
	use    use // of the last resolved statement
}

func newAssembler(k *kernel) *assembler {
	return &assembler{
		k: k, p: &program{kernel: k, rows: k.rows, preds: k.preds},
		block: map[string]int32{}, consts: map[uint64]int32{}, pred: map[bool]int32{}, sregs: map[string]int32{},
	}
}

// assemble resolves a kernel. It drops the operands of its statements and keeps only what messages
// need.
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
		// The order of execution may separate a block from the one that it falls into.
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

// at adds to an error its place in a kernel.
func (k *kernel) at(i int, err error) error {
	return fmt.Errorf("%s:%d: %w: %s", k.mod.name, k.body[i].line, err, k.body[i].text)
}

// A basicBlock is a run of statements that is entered at its start only.
type basicBlock struct {
	first, end  int   // range of statements
	fallThrough int   // next block if the last statement does not jump, or -1
	jumps       []int // blocks the last statement may jump to
}

// blocks splits the kernel's body into basic blocks.
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

// targets returns the labels that a statement may jump to.
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

// linearize orders blocks so that a block comes after those that lead to it, and the blocks of a
// loop lie together: a weak topological order (Bourdoncle 1993). A warp that always runs its lowest
// lanes first then reconverges where paths join.
func linearize(blocks []basicBlock) []int {
	var order []int
	n := len(blocks)
	number := make([]int, n) // 0 not seen, -1 placed
	var stack []int
	count := 0
	var visit func(v int, out *[]int) int
	// component lays out the loop with head v.
	component := func(v int) []int {
		var body []int
		for _, s := range blocks[v].successors() {
			if number[s] == 0 {
				visit(s, &body)
			}
		}
		return append([]int{v}, body...)
	}
	// visit prepends the components reached from v to out. It builds an order in reverse, so out
	// grows at the front.
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
