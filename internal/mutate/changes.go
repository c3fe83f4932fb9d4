package mutate

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// change is a modification of one statement.
type change struct {
	kind   string // name in kinds, for example "compare"
	detail string // for example "lt-ge"
	text   string // the changed statement
	// diffTrap is the original statement with a trap that fires if the changed statement would have
	// another effect. It is "" if only memory shows the difference.
	diffTrap string
}

// kinds lists the functions below by name.
var kinds = []struct {
	name    string
	changes func(s *statement) []change
}{
	{"compare", compare}, {"immediate", immediate}, {"branch", branch}, {"mask", mask}, {"drop", drop}, {"scope", scope},
	{"order", order}, {"atomic", atomic}, {"select", selection}, {"operator", operator}, {"offset", offset},
}

// changes returns all changes of a statement, without duplicates.
func (s *statement) changes() (all []change) {
	for _, k := range kinds {
		for _, c := range k.changes(s) {
			c.kind = k.name
			same := func(d change) bool { return d.text == c.text }
			if c.text != s.with(s.op, s.args) && !slices.ContainsFunc(all, same) {
				all = append(all, c)
			}
		}
	}
	return all
}

// pure are the instructions that only read and write registers.
var pure = strings.Fields("add sub mul mad div rem min max and or xor not neg shl shr shf bfe popc clz brev setp selp mov cvt cvta")

// substitute returns a change to another opcode and other operands. If the only effect is the value
// of one register, the change has a diffTrap.
func (s *statement) substitute(detail, op string, args []string) change {
	c := change{detail: detail, text: s.with(op, args)}
	t := typeOf(s.args[0])
	if t == "" && s.name() == "setp" {
		t = "pred"
	}
	if t == "" || s.guard != "" || !slices.Contains(pure, s.name()) || args[0] != s.args[0] {
		return c
	}
	otherArgs := append([]string{"other"}, args[1:]...)
	compare := fmt.Sprintf("setp.ne.%s unlike, %s, other", t, s.args[0])
	if t == "pred" {
		compare = fmt.Sprintf("xor.pred unlike, %s, other", s.args[0])
	}
	c.diffTrap = fmt.Sprintf("{ .reg .%s other; .reg .pred unlike; %s; %s; %s; @unlike trap; }", t, s.with(op, otherArgs), s.with(s.op, s.args), compare)
	return c
}

// replaceAt returns a copy of args with args[i] replaced.
func replaceAt(args []string, i int, with string) []string {
	args = slices.Clone(args)
	args[i] = with
	return args
}

// compare replaces the operator of a comparison, which inverts the comparison or moves its bound.
func compare(s *statement) (all []change) {
	if s.name() != "setp" {
		return nil
	}
	parts := s.parts()
	for _, to := range map[string][]string{
		"eq": {"ne"}, "ne": {"eq"}, "lt": {"ge", "le", "gt"}, "le": {"gt", "lt", "ge"}, "gt": {"le", "ge", "lt"}, "ge": {"lt", "gt", "le"},
	}[parts[1]] {
		all = append(all, s.substitute(parts[1]+"-"+to, strings.Join(replaceAt(parts, 1, to), "."), s.args))
	}
	return all
}

// immediate changes a number: by 1, to 0, or in its highest bit.
func immediate(s *statement) (all []change) {
	var at []int // indices of operands that may be numbers
	switch {
	case slices.Contains(pure, s.name()), s.name() == "st", s.name() == "atom", s.name() == "red":
		at = []int{1, 2, 3}
	case s.name() == "shfl": // the lane and the clamp
		at = []int{2, 3}
	}
	parts := s.parts()
	t := parts[len(parts)-1]
	for _, i := range at {
		if i >= len(s.args) {
			break
		}
		v, err := strconv.ParseInt(s.args[i], 10, 64)
		if err != nil {
			continue
		}
		for _, n := range immediates(v, t) {
			all = append(all, s.substitute(fmt.Sprintf("%d-%d", v, n), s.op, replaceAt(s.args, i, strconv.FormatInt(n, 10))))
		}
	}
	return all
}

// immediates returns other values for an immediate v of type t.
func immediates(v int64, t string) (all []int64) {
	if t == "pred" {
		return []int64{-1 - v} // false is 0 and true is -1
	}
	width, err := strconv.Atoi(t[1:])
	if err != nil {
		return nil
	}
	candidates := []int64{v + 1, v - 1, 0}
	if v > 0 {
		top := int64(1) << (bits.Len64(uint64(v)) - 1)
		candidates = append(candidates, v&^top, v|top<<1)
	}
	for _, n := range candidates {
		fits := width == 64 || n < 1<<width && n >= -1<<(width-1)
		if fits && n != v && !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	return all
}

// branch inverts or drops the condition of a branch.
func branch(s *statement) (all []change) {
	if s.name() != "bra" {
		return nil
	}
	to := s.op + " " + s.args[0]
	if s.guard == "" {
		return []change{{detail: "never"}}
	}
	negated := "@!" + s.guard[1:]
	if s.guard[1] == '!' {
		negated = "@" + s.guard[2:]
	}
	return []change{
		{detail: "inverted", text: negated + " " + to},
		{detail: "always", text: to, diffTrap: negated + " trap; " + s.addGuard(to)},
		{detail: "never", diffTrap: s.guard + " trap"},
	}
}

// mask removes a lane from the membermask of a .sync instruction.
func mask(s *statement) []change {
	if !strings.Contains(s.op, ".sync.") || s.name() == "bar" {
		return nil
	}
	last := len(s.args) - 1
	return []change{
		{detail: "first", text: s.with(s.op, replaceAt(s.args, last, "-2"))},
		{detail: "last", text: s.with(s.op, replaceAt(s.args, last, "2147483647"))},
	}
}

// drop removes a statement that has no result.
func drop(s *statement) []change {
	switch s.name() {
	case "st", "red", "fence":
		return []change{{detail: s.name()}}
	}
	return nil
}

// scope narrows a scope to the block.
func scope(s *statement) []change {
	parts := s.parts()
	i := slices.Index(parts, "gpu")
	if i < 0 {
		return nil
	}
	return []change{{detail: "cta", text: s.with(strings.Join(replaceAt(parts, i, "cta"), "."), s.args)}}
}

// order makes a relaxed access weak.
func order(s *statement) []change {
	weak := strings.Replace(s.op, ".relaxed.gpu", "", 1)
	if weak == s.op || s.name() != "ld" && s.name() != "st" {
		return nil
	}
	return []change{{detail: "weak", text: s.with(weak, s.args)}}
}

// selection swaps the values of a selection, or makes both equal.
func selection(s *statement) []change {
	if s.name() != "selp" {
		return nil
	}
	d, a, b, p := s.args[0], s.args[1], s.args[2], s.args[3]
	return []change{
		s.substitute("swapped", s.op, []string{d, b, a, p}),
		s.substitute("first", s.op, []string{d, a, a, p}),
		s.substitute("second", s.op, []string{d, b, b, p}),
	}
}

// operator replaces an operation by another one, or swaps the operands of a subtraction.
func operator(s *statement) (all []change) {
	parts := s.parts()
	t := parts[len(parts)-1]
	to := map[string]string{
		"add": "sub", "sub": "add", "and": "or", "or": "and", "xor": "or", "min": "max", "max": "min", "not": "mov", "neg": "mov",
		"popc": "mov", "brev": "mov", "div": "rem", "rem": "div", "shl": "shr",
	}[parts[0]]
	switch op := strings.Join(parts[:len(parts)-1], "."); {
	case to != "":
	case op == "shr":
		to, t = "shl", "b"+t[1:]
	case op == "mul.hi":
		to = "mul.lo"
	case op == "mul.lo":
		to = "add"
	default:
		return nil
	}
	all = []change{s.substitute(parts[0]+"-"+to, to+"."+t, s.args)}
	if parts[0] == "sub" {
		all = append(all, s.substitute("sub-swapped", s.op, []string{s.args[0], s.args[2], s.args[1]}))
	}
	return all
}

// offset moves an access to an adjacent element.
func offset(s *statement) (all []change) {
	i := slices.IndexFunc(s.args, func(arg string) bool { return arg[0] == '[' })
	if i < 0 {
		return nil
	}
	parts := s.parts()
	width, err := strconv.Atoi(parts[len(parts)-1][1:])
	if err != nil {
		return nil
	}
	base, at, _ := strings.Cut(strings.Trim(s.args[i], "[]"), "+")
	have, _ := strconv.Atoi(at) // 0 if at is empty
	for _, delta := range []int{width / 8, -width / 8} {
		if have+delta < 0 && strings.Contains(base, "_param_") {
			continue
		}
		all = append(all, change{detail: fmt.Sprintf("%+d", delta), text: s.with(s.op, replaceAt(s.args, i, fmt.Sprintf("[%s+%d]", base, have+delta)))})
	}
	return all
}
