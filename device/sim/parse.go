package sim

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// parse parses the PTX of one module.
func parse(name, src string) (*module, error) {
	toks, err := lex(src)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p := &parser{toks: toks, mod: &module{name: name, kernels: map[string]*kernel{}}, lines: strings.Split(src, "\n")}
	if err := p.module(); err != nil {
		return nil, fmt.Errorf("%s:%d: %w", name, p.peek().line, err)
	}
	return p.mod, nil
}

type parser struct {
	toks  []token
	pos   int
	lines []string
	mod   *module
	k     *kernel
	// scopes maps names to declarations, innermost scope last. scopes[0] is the module. A block in
	// braces declares its own registers.
	scopes []map[string]any // values are *register or *variable
}

func (p *parser) peek() token { return p.toks[p.pos] }

func (p *parser) next() token {
	t := p.toks[p.pos]
	if t.kind != tokenEnd {
		p.pos++
	}
	return t
}

// accept consumes the next token if it equals text, and reports whether it did.
func (p *parser) accept(text string) bool {
	if t := p.peek(); t.kind != tokenEnd && t.text == text {
		p.pos++
		return true
	}
	return false
}

func (p *parser) expect(text string) error {
	if !p.accept(text) {
		return fmt.Errorf("expected %q, found %q", text, p.peek().text)
	}
	return nil
}

// module parses a file: directives, variables and entry points.
func (p *parser) module() error {
	p.scopes = []map[string]any{{}}
	for p.peek().kind != tokenEnd {
		switch t := p.next(); t.text {
		case ".version", ".address_size":
			p.next()
		case ".target":
			for p.next(); p.accept(","); {
				p.next()
			}
		case ".visible", ".weak", ".common":
		case ".entry":
			if err := p.entry(); err != nil {
				return err
			}
		case ".global", ".const":
			if err := p.variable(spaces[t.text[1:]]); err != nil {
				return err
			}
		case ".shared":
			// Every kernel has its own copy of a shared variable of the file.
			if err := p.variable(spaceShared); err != nil {
				return err
			}
		case ".file", ".loc":
			p.skipLine()
		default:
			return fmt.Errorf("unknown directive %q", t.text)
		}
	}
	return nil
}

func (p *parser) skipLine() {
	for line := p.peek().line; p.peek().line == line && p.peek().kind != tokenEnd; {
		p.pos++
	}
}

// entry parses a kernel: name, parameters, directives and body.
func (p *parser) entry() error {
	name := p.next()
	if p.mod.kernels[name.text] != nil {
		return fmt.Errorf("two kernels %s", name.text)
	}
	p.k = &kernel{name: name.text, mod: p.mod, line: name.line, labels: map[string]int{}, tables: map[string][]string{}}
	p.scopes = append(p.scopes[:1], map[string]any{})
	if p.accept("(") {
		for !p.accept(")") {
			if err := p.expect(".param"); err != nil {
				return err
			}
			if err := p.declare(spaceParam); err != nil {
				return err
			}
			p.accept(",")
		}
	}
	for !p.accept("{") {
		switch t := p.next(); t.text {
		case ".maxntid", ".reqntid":
			p.k.maxBlock = 1
			for {
				n, err := strconv.Atoi(p.next().text)
				if err != nil {
					return err
				}
				p.k.maxBlock *= n
				if !p.accept(",") {
					break
				}
			}
		case ".minnctapersm", ".maxnreg":
			p.next()
		default:
			return fmt.Errorf("unknown directive %q of kernel %s", t.text, p.k.name)
		}
	}
	if err := p.block(); err != nil {
		return err
	}
	if err := p.k.checkLimits(); err != nil {
		return err
	}
	p.mod.kernels[p.k.name] = p.k
	p.k, p.scopes = nil, p.scopes[:1]
	return nil
}

// block parses statements up to the closing brace.
func (p *parser) block() error {
	for !p.accept("}") {
		if err := p.statement(); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) statement() error {
	t := p.next()
	switch {
	case t.kind == tokenEnd:
		return fmt.Errorf("kernel %s does not end", p.k.name)
	case t.text == ";":
		return nil
	case t.text == "{":
		p.scopes = append(p.scopes, map[string]any{})
		err := p.block()
		p.scopes = p.scopes[:len(p.scopes)-1]
		return err
	case t.text == ".reg":
		return p.registers()
	case t.text == ".local" || t.text == ".shared":
		return p.variable(spaces[t.text[1:]])
	case t.text == ".loc" || t.text == ".file":
		p.skipLine()
		return nil
	case t.text == ".pragma":
		for !p.accept(";") && p.peek().kind == tokenString {
			p.next()
			p.accept(",")
		}
		return nil
	case t.kind == tokenWord && p.peek().text == ":" && p.toks[p.pos+1].text != ":":
		p.pos++
		return p.label(t.text)
	}
	p.pos--
	return p.instruction()
}

// label parses the text after "name:", which is a table of branch targets or nothing.
func (p *parser) label(name string) error {
	if _, exists := p.k.labels[name]; exists || p.k.tables[name] != nil {
		return fmt.Errorf("label %q stands here twice", name)
	}
	if !p.accept(".branchtargets") {
		p.k.labels[name] = len(p.k.body)
		return nil
	}
	for {
		p.k.tables[name] = append(p.k.tables[name], p.next().text)
		if p.accept(";") {
			return nil
		}
		if err := p.expect(","); err != nil {
			return err
		}
	}
}

// registers parses a declaration such as ".reg .b32 %r<42>, x;", after ".reg".
func (p *parser) registers() error {
	t, ok := types[strings.TrimPrefix(p.next().text, ".")]
	if !ok {
		return fmt.Errorf("unknown register type %q", p.toks[p.pos-1].text)
	}
	for {
		name := p.next().text
		if p.accept("<") {
			n, err := strconv.Atoi(p.next().text)
			if err != nil {
				return err
			}
			if err := p.expect(">"); err != nil {
				return err
			}
			if n > maxRegisters {
				return fmt.Errorf("%d registers %s", n, name)
			}
			for i := range n {
				if err := p.register(name+strconv.Itoa(i), t); err != nil {
					return err
				}
			}
		} else if err := p.register(name, t); err != nil {
			return err
		}
		if p.accept(";") {
			return nil
		}
		if err := p.expect(","); err != nil {
			return err
		}
	}
}

func (p *parser) register(name string, t typ) error {
	r := &register{name: name, bits: t.bits}
	switch {
	case t.kind == 'p':
		r.row = p.k.preds
		p.k.preds++
	default:
		r.row = p.k.rows
		p.k.rows += r.rows()
	}
	return p.define(name, r)
}

// define adds a name to the innermost scope.
func (p *parser) define(name string, d any) error {
	scope := p.scopes[len(p.scopes)-1]
	if scope[name] != nil {
		return fmt.Errorf("%s is declared twice", name)
	}
	scope[name] = d
	return nil
}

// variable parses a declaration that ends in a semicolon.
func (p *parser) variable(s space) error {
	if err := p.declare(s); err != nil {
		return err
	}
	return p.expect(";")
}

// declare parses "[.align n] .type name[[count]] [= init]" and places the variable in space s.
func (p *parser) declare(s space) error {
	v := &variable{space: s, align: 1}
	if p.accept(".align") {
		n, err := strconv.Atoi(p.next().text)
		if err != nil || n <= 0 || n&(n-1) != 0 || n > maxAlign {
			return fmt.Errorf("alignment is not a power of two up to %d", maxAlign)
		}
		v.align = n
	}
	word := p.next().text
	t, ok := types[strings.TrimPrefix(word, ".")]
	if !ok {
		return fmt.Errorf("unknown type %q of a variable", word)
	}
	v.name = p.next().text
	v.align = max(v.align, t.bits/8)
	count := 1
	if p.accept("[") {
		n, err := strconv.Atoi(p.next().text)
		if err != nil {
			return fmt.Errorf("array %s: dynamic size is not supported", v.name)
		}
		if n < 0 || n > maxVariable/max(1, t.bits/8) {
			return fmt.Errorf("array %s cannot have %d elements", v.name, n)
		}
		count = n
		if err := p.expect("]"); err != nil {
			return err
		}
	}
	v.size = count * t.bits / 8
	if p.accept("=") {
		if s != spaceGlobal && s != spaceConst {
			return fmt.Errorf("variable %s: %v memory cannot have an initial value", v.name, s)
		}
		if err := p.initializer(v, t); err != nil {
			return err
		}
	}
	p.placeVariable(v)
	return p.define(v.name, v)
}

// initializer parses "{1, 2}" or "1".
func (p *parser) initializer(v *variable, t typ) error {
	list := p.accept("{")
	for {
		o, err := p.operand()
		if err != nil || o.kind != opImm {
			return fmt.Errorf("variable %s: initial value is not a number", v.name)
		}
		if err := o.checkType(t); err != nil {
			return fmt.Errorf("variable %s: %w", v.name, err)
		}
		for b := range t.bits / 8 {
			v.init = append(v.init, byte(o.imm>>(8*b)))
		}
		if len(v.init) > v.size {
			return fmt.Errorf("variable %s: more initial values than it has room for", v.name)
		}
		if !list {
			return nil
		}
		if p.accept("}") {
			return nil
		}
		if err := p.expect(","); err != nil {
			return err
		}
	}
}

// placeVariable sets the offset of a variable. Shared and local variables have offsets per kernel.
// [parser.lookup] places a shared variable of the file when a kernel names it.
func (p *parser) placeVariable(v *variable) {
	fit := func(end int) uint64 { return uint64((end + v.align - 1) &^ (v.align - 1)) }
	switch v.space {
	case spaceParam:
		v.addr = fit(p.k.paramSize)
		p.k.paramSize = int(v.addr) + v.size
	case spaceLocal:
		v.addr = fit(p.k.local)
		p.k.local = int(v.addr) + v.size
	case spaceShared:
		if p.k != nil {
			v.addr = fit(p.k.shared)
			p.k.shared = int(v.addr) + v.size
		}
	default:
		p.mod.globals = append(p.mod.globals, v)
	}
}

func (p *parser) lookup(name string) any {
	for i := len(p.scopes) - 1; i >= 0; i-- {
		if d, ok := p.scopes[i][name]; ok {
			if v, ok := d.(*variable); ok && i == 0 && v.space == spaceShared {
				inKernel := *v
				inKernel.addr = uint64((p.k.shared + v.align - 1) &^ (v.align - 1))
				p.k.shared = int(inKernel.addr) + v.size
				p.scopes[1][name] = &inKernel
				return &inKernel
			}
			return d
		}
	}
	return nil
}

// instruction parses one instruction with its guard.
func (p *parser) instruction() error {
	first := p.pos
	s := statement{line: p.peek().line}
	if p.accept("@") {
		s.negate = p.accept("!")
		name := p.next().text
		r, ok := p.lookup(name).(*register)
		if !ok || r.bits != 1 {
			return fmt.Errorf("guard %q is not a predicate register", name)
		}
		s.guard = r
	}
	op := p.next()
	if op.kind != tokenWord {
		return fmt.Errorf("expected an instruction, found %q", op.text)
	}
	s.op = op.text
	for p.accept(":") { // lex splits "shared::cta" at its colons
		if err := p.expect(":"); err != nil {
			return err
		}
		s.op += "::" + p.next().text
	}
	for !p.accept(";") {
		o, err := p.operand()
		if err != nil {
			return err
		}
		s.args = append(s.args, o)
		if p.accept(";") {
			break
		}
		if err := p.expect(","); err != nil {
			return err
		}
	}
	s.text = join(p.toks[first : p.pos-1])
	p.k.body = append(p.k.body, s)
	return nil
}

// join formats tokens as in handwritten PTX.
func join(toks []token) string {
	var b strings.Builder
	for i, t := range toks {
		if i > 0 && t.kind == tokenWord && toks[i-1].kind == tokenWord || i > 0 && toks[i-1].text == "," {
			b.WriteByte(' ')
		} else if i > 0 && toks[i-1].kind == tokenWord && strings.Contains(toks[i-1].text, ".") && (t.text == "[" || t.text == "{" || t.text == "-" || t.text == "!") {
			b.WriteByte(' ')
		}
		b.WriteString(t.text)
	}
	return b.String()
}

func (p *parser) operand() (operand, error) {
	switch {
	case p.accept("["):
		return p.address()
	case p.accept("{"):
		o := operand{kind: opVector}
		for {
			e, err := p.operand()
			if err != nil {
				return o, err
			}
			o.vec = append(o.vec, e)
			if p.accept("}") {
				return o, nil
			}
			if err := p.expect(","); err != nil {
				return o, err
			}
		}
	case p.accept("!"):
		o, err := p.operand()
		if err == nil && (o.negate || o.kind != opReg && o.kind != opImm) {
			err = fmt.Errorf("exclamation mark before something that is not a predicate")
		}
		o.negate = true
		return o, err
	case p.accept("-"):
		o, err := p.operand()
		if err == nil && (o.kind != opImm || o.minus || o.negate || o.float != 0 || o.imm > 1<<63) {
			err = fmt.Errorf("minus before something that is not an integer that it can negate")
		}
		o.imm, o.minus = -o.imm, true
		return o, err
	}
	t := p.next()
	if t.kind != tokenWord {
		return operand{}, fmt.Errorf("expected an operand, found %q", t.text)
	}
	if t.text == "_" {
		o := operand{kind: opSink}
		return o, p.second(&o)
	}
	if c := t.text[0]; c >= '0' && c <= '9' {
		v, float, err := number(t.text)
		return operand{kind: opImm, imm: v, float: float}, err
	}
	switch d := p.lookup(t.text).(type) {
	case *register:
		o := operand{kind: opReg, reg: d}
		return o, p.second(&o)
	case *variable:
		return operand{kind: opSymbol, sym: t.text, vr: d}, nil
	}
	return operand{kind: opSymbol, sym: t.text}, nil
}

// second parses an optional "|" with a second destination.
func (p *parser) second(o *operand) error {
	if !p.accept("|") {
		return nil
	}
	name := p.next().text
	if name == "_" {
		return nil
	}
	r, ok := p.lookup(name).(*register)
	if !ok {
		return fmt.Errorf("%q is not a register", name)
	}
	o.second = r
	return nil
}

// address parses "[base]", "[base+4]" or "[base+-4]", after the bracket. The base is a register, a
// variable or a number.
func (p *parser) address() (operand, error) {
	base, err := p.operand()
	if err != nil {
		return base, err
	}
	o := operand{kind: opAddr, reg: base.reg, vr: base.vr, imm: base.imm, sym: base.sym}
	switch {
	case base.kind == opSymbol && base.vr == nil:
		return o, fmt.Errorf("unknown name %q in an address", base.sym)
	case base.kind != opReg && base.kind != opSymbol && base.kind != opImm, base.negate, base.second != nil, base.float != 0:
		return o, fmt.Errorf("an address that starts with neither a register, a variable nor an integer")
	}
	minus := p.accept("-")
	if minus || p.accept("+") {
		d, err := p.operand()
		if err != nil || d.kind != opImm || d.negate || d.float != 0 {
			return o, fmt.Errorf("displacement of an address is not an integer")
		}
		if minus {
			d.imm = -d.imm
		}
		o.imm += d.imm
	}
	return o, p.expect("]")
}

// number parses an integer (decimal, hexadecimal, octal or binary, with optional U) or a float. A
// float is usually given by its bits (0f3F800000, 0d3FF0000000000000). The result float is the
// number of bits of the float's type, or 0 for an integer.
func number(text string) (v uint64, float int, err error) {
	switch {
	case len(text) == 10 && (text[:2] == "0f" || text[:2] == "0F"):
		v, err = strconv.ParseUint(text[2:], 16, 32)
		return v, 32, err
	case len(text) == 18 && (text[:2] == "0d" || text[:2] == "0D"):
		v, err = strconv.ParseUint(text[2:], 16, 64)
		return v, 64, err
	case strings.ContainsAny(text, "_oO"): // valid in Go's numbers, but not in PTX's
		return 0, 0, fmt.Errorf("%q is not a number", text)
	case strings.ContainsRune(text, '.'):
		f, err := strconv.ParseFloat(text, 64)
		return math.Float64bits(f), 64, err
	}
	v, err = strconv.ParseUint(strings.TrimSuffix(text, "U"), 0, 64)
	return v, 0, err
}

// checkType returns an error if a number does not fit type t. Bit types accept floats of their
// size. Signed types accept every integer of at most their number of bits, because PTX converts
// integers.
func (o *operand) checkType(t typ) error {
	switch {
	case o.float != 0 && (o.float != t.bits || t.kind != 'f' && t.kind != 'b'):
		return fmt.Errorf("a floating-point number of %d bits is not a value of %v", o.float, t)
	case o.float == 0 && t.kind == 'f':
		return fmt.Errorf("an integer is not a value of %v", t)
	case o.minus && t.bits < 64 && -o.imm > 1<<(t.bits-1), !o.minus && o.imm > t.mask():
		return fmt.Errorf("a number beyond the range of %v", t)
	}
	return nil
}
