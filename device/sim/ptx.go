package sim

import (
	"fmt"
	"strings"
)

// module is the parsed form of one PTX file.
type module struct {
	name    string // name of the file in messages
	kernels map[string]*kernel
	globals []*variable // .global and .const variables
}

// kernel is a parsed entry point. [assemble] resolves it to a program.
type kernel struct {
	name      string
	mod       *module
	line      int
	paramSize int
	maxBlock  int // maximum threads per block by .maxntid or .reqntid; 0 if not given
	shared    int // bytes of static shared memory per block
	local     int // bytes of local memory per thread
	body      []statement
	labels    map[string]int      // index in body
	tables    map[string][]string // targets of brx.idx
	rows      int                 // number of 64-bit rows of registers
	preds     int                 // number of predicate registers
}

// These are the limits of a kernel: those of an H200, and arbitrary ones for registers and
// variables.
const (
	maxShared    = 48 << 10  // bytes per block
	maxLocal     = 512 << 10 // bytes per thread
	maxParams    = 32764     // bytes
	maxRegisters = 1 << 16
	maxVariable  = 1 << 40 // bytes
	maxAlign     = 1 << 12 // bytes
)

// checkLimits returns an error if the kernel exceeds a limit.
func (k *kernel) checkLimits() error {
	for _, l := range []struct {
		what      string
		have, max int
	}{
		{"bytes of shared memory", k.shared, maxShared}, {"bytes of local memory", k.local, maxLocal},
		{"bytes of parameters", k.paramSize, maxParams}, {"registers", k.rows + k.preds, maxRegisters},
	} {
		if l.have > l.max {
			return fmt.Errorf("kernel %s has %d %s, at most %d", k.name, l.have, l.what, l.max)
		}
	}
	return nil
}

// variable is a named block of memory: a kernel parameter, a shared or local array, or a global of
// the module.
type variable struct {
	name  string
	space space
	addr  uint64 // offset in its space
	size  int
	align int
	init  []byte
}

// register is a virtual register of PTX. An integer register is a row of 32 lanes of 64 bits,
// zero-extended. A 128-bit register is two rows, the low half first. A predicate is one 32-bit
// mask.
type register struct {
	name string
	bits int // 1 for predicates, else 8 to 128
	row  int // first row, or index of the predicate
}

// rows returns the number of rows of a register that is not a predicate.
func (r *register) rows() int { return (r.bits + 63) / 64 }

// statement is one instruction as written.
type statement struct {
	line   int
	guard  *register // if not nil, only lanes with guard != negate execute
	negate bool
	op     string // opcode with modifiers: "ld.global.u32"
	args   []operand
	text   string
}

func (s *statement) String() string { return s.text }

// operand is an operand of a statement. Its kind determines which fields are valid.
type operand struct {
	kind   operandKind
	reg    *register // opReg, opAddr with a base register
	negate bool      // opReg, opImm: "!p"
	minus  bool      // opImm: written with a minus sign, which imm includes
	float  int       // opImm: bits of its floating-point type; 0 for an integer
	second *register // opReg, opSink: "p|q"
	imm    uint64    // opImm; opAddr: displacement
	sym    string    // opSymbol: variable, label or special register
	vr     *variable // opSymbol resolved; opAddr with a base variable
	vec    []operand // opVector
}

type operandKind uint8

const (
	opReg operandKind = iota
	opImm
	opAddr
	opSymbol
	opVector
	opSink // "_"
)

// typ is a fundamental type of PTX.
type typ struct {
	kind byte // 'u', 's', 'b' or 'f'; 'p' for predicates
	bits int
}

func (t typ) String() string {
	if t.kind == 'p' {
		return "pred"
	}
	return fmt.Sprintf("%c%d", t.kind, t.bits)
}

func (t typ) signed() bool { return t.kind == 's' }

// mask returns the mask of the bits of a value, which is all ones for 64 and 128 bits.
func (t typ) mask() uint64 {
	if t.bits >= 64 {
		return ^uint64(0)
	}
	return 1<<t.bits - 1
}

// extend sign-extends the low t.bits bits of v.
func (t typ) extend(v uint64) int64 {
	sh := 64 - t.bits
	return int64(v<<sh) >> sh
}

var types = func() map[string]typ {
	m := map[string]typ{"pred": {'p', 1}}
	for _, name := range strings.Fields("b8 b16 b32 b64 b128 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64") {
		var bits int
		fmt.Sscanf(name[1:], "%d", &bits)
		m[name] = typ{name[0], bits}
	}
	return m
}()

// space is a state space of PTX.
type space uint8

const (
	spaceGeneric space = iota
	spaceGlobal
	spaceShared
	spaceLocal
	spaceParam
	spaceConst
)

var spaceNames = [...]string{"generic", "global", "shared", "local", "param", "const"}

func (s space) String() string { return spaceNames[s] }

var spaces = map[string]space{
	"": spaceGeneric, "global": spaceGlobal, "shared": spaceShared, "shared::cta": spaceShared,
	"local": spaceLocal, "param": spaceParam, "const": spaceConst,
}
