package mutate

import (
	"fmt"
	"strings"
)

// atomic returns changes of an atomic operation to plain accesses and to another operation.
func atomic(s *statement) []change {
	parts := s.parts()
	if s.name() != "atom" && s.name() != "red" || len(parts) != 6 {
		return nil
	}
	a := rmw{s: s, op: parts[4], t: parts[5], bits: "b" + parts[5][1:]}
	if s.name() == "atom" {
		a.dst, a.addr, a.operands = s.args[0], s.args[1], s.args[2:]
	} else {
		a.addr, a.operands = s.args[0], s.args[1:]
	}
	var all []change
	if a.dst != "" {
		all = append(all, change{detail: "read", text: a.load(a.dst)})
	}
	if a.op == "cas" {
		return append(all, a.casChanges()...)
	}
	all = append(all, change{detail: "torn", text: a.torn(fmt.Sprintf("%s.%s new, old, %s", a.op, a.t, a.operands[0]))})
	if to := map[string]string{"min": "max", "max": "min", "and": "or", "or": "and"}[a.op]; to != "" {
		parts[4] = to
		all = append(all, change{detail: a.op + "-" + to, text: s.with(strings.Join(parts, "."), s.args)})
	}
	return all
}

// rmw is a read-modify-write operation.
type rmw struct {
	s        *statement
	op       string // for example "add"
	t        string // for example "u64"
	bits     string // for example "b64"
	dst      string // register for the old value; "" if the old value is not read
	addr     string // for example "[%rd1]"
	operands []string
}

func (a rmw) load(to string) string {
	return a.s.addGuard(fmt.Sprintf("ld.relaxed.gpu.global.%s %s, %s", a.bits, to, a.addr))
}

// torn returns a load and a store, with a computation of new from old between them.
func (a rmw) torn(compute string) string {
	s := fmt.Sprintf("{ .reg .%s old, new; ld.relaxed.gpu.global.%s old, %s; %s; st.relaxed.gpu.global.%s %s, new;", a.bits, a.bits, a.addr, compute, a.bits, a.addr)
	if a.dst != "" {
		s += fmt.Sprintf(" mov.%s %s, old;", a.bits, a.dst)
	}
	return s + " }"
}

// casChanges returns ways to break a compare-and-swap: it does not compare, it ignores its failure,
// or it is not atomic.
func (a rmw) casChanges() []change {
	from, to := a.operands[0], a.operands[1]
	all := []change{
		{detail: "exch", text: a.s.with(strings.Replace(a.s.op, ".cas.", ".exch.", 1), []string{a.dst, a.addr, to})},
		{detail: "won", text: fmt.Sprintf("{ .reg .%s old; %s; mov.%s %s, %s; }", a.bits, a.s.with(a.s.op, []string{"old", a.addr, from, to}), a.bits, a.dst, from)},
	}
	if a.bits == "b128" { // no instruction compares 128-bit values
		return all
	}
	return append(all, change{detail: "torn", text: fmt.Sprintf(
		"{ .reg .%[1]s old; .reg .pred same; ld.relaxed.gpu.global.%[1]s old, %[2]s; setp.eq.%[1]s same, old, %[3]s; @same st.relaxed.gpu.global.%[1]s %[2]s, %[4]s; mov.%[1]s %[5]s, old; }",
		a.bits, a.addr, from, to, a.dst)})
}
