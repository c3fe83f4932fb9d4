package dst

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
)

// A search looks for an order of operations in which each may have returned
// what it did, and which keeps to a partial order. It is Wing and Gong's, with
// Lowe's memory of what was tried, and gets by with few steps because no order
// is lost if
//
//   - a pure operation that may come next goes at once if this changes nothing:
//     moved there from any later place, it still follows all that must precede
//     it; what was between starts from the same states, and what was behind
//     from states that permit no less;
//   - a state is given up that lacks a fact that an operation left needs and
//     none left gives, or can't reach the size that one needs;
//   - facts that no operation left needs do not tell states apart;
//   - of two operations of a kind, one goes first if all that must follow the
//     other must follow it, too: they could change places, see [search.first].
type search[S, O any] struct {
	m     *Model[S, O]
	ops   []operation[O]
	order []int // in which operations are tried
	done  set
	needs map[any]int // for each fact, operations left that need it
	gives map[any]int // for each fact, operations left that give it
	tried map[string]struct{}
	steps int // configurations tried
	limit int
}

// An operation is one that is left, or what is left of it.
type operation[O any] struct {
	op   O
	hint Hint
	kind string // the same for those that may change places, "" for those that may not
	part bool   // some of it is done

	before, after       set // those that must precede it, and must follow
	allBefore, allAfter set // the same for it and those that come along when it changes places

	later map[any]struct{} // facts that those which must follow need
}

// maxSteps bounds a search. Those of our shapes take some dozens.
const maxSteps = 1 << 16

// newSearch prepares a search. before(i, j) reports that operation i must
// precede operation j; it is transitive.
func newSearch[S, O any](m *Model[S, O], ops []O, before func(i, j int) bool) *search[S, O] {
	n := len(ops)
	x := &search[S, O]{
		m: m, ops: make([]operation[O], n), order: make([]int, n), done: newSet(n),
		needs: map[any]int{}, gives: map[any]int{}, tried: map[string]struct{}{}, limit: maxSteps,
	}
	for i, op := range ops {
		x.order[i] = i
		x.ops[i] = operation[O]{op: op, hint: m.hint(op), before: newSet(n), after: newSet(n)}
		x.count(i, 1)
	}
	for i := range ops {
		for j := range ops {
			if before(i, j) {
				x.ops[i].after.flip(j)
				x.ops[j].before.flip(i)
			}
		}
	}
	// What most others wait for is tried first: of intervals, the first to end.
	slices.SortStableFunc(x.order, func(i, j int) int { return x.ops[j].after.len() - x.ops[i].after.len() })
	for i := range ops {
		x.tie(i)
	}
	return x
}

// tie finds out with which others an operation may change places. A fact that
// it gives and others need sets it apart, unless those can come along: in a
// register, if it alone gives the fact, and they give none.
func (x *search[S, O]) tie(i int) {
	o := &x.ops[i]
	o.kind, o.allBefore, o.allAfter, o.later = o.hint.Class, slices.Clone(o.before), slices.Clone(o.after), map[any]struct{}{}
	all := newSet(len(x.ops))
	all.flip(i)
	for j := range x.ops {
		r := &x.ops[j]
		for _, f := range r.hint.Needs {
			if o.after.has(j) && x.m.Size != nil {
				o.later[f] = struct{}{}
			}
			if o.kind == "" || !slices.Contains(o.hint.Gives, f) {
				continue
			}
			if !x.m.Register || x.gives[f] > 1 || len(r.hint.Gives) > 0 {
				o.kind += fmt.Sprint(";", f)
				continue
			}
			all.flip(j)
			o.allBefore.add(r.before)
			o.allAfter.add(r.after)
		}
	}
	o.allBefore.remove(all)
	o.allAfter.remove(all)
}

// count enters an operation among those left, or takes it out.
func (x *search[S, O]) count(i, by int) {
	for _, f := range x.ops[i].hint.Needs {
		x.needs[f] += by
	}
	for _, f := range x.ops[i].hint.Gives {
		x.gives[f] += by
	}
}

// take puts an operation next in the order, or as much of it as one step does.
func (x *search[S, O]) take(i int, rest *O) (undo func()) {
	was := x.ops[i]
	x.count(i, -1)
	if rest == nil {
		x.done.flip(i)
		return func() {
			x.done.flip(i)
			x.count(i, 1)
		}
	}
	o := &x.ops[i]
	o.op, o.hint, o.part = *rest, x.m.hint(*rest), true
	o.kind = cmp.Or(o.hint.Class, fmt.Sprint(*rest))
	x.count(i, 1)
	return func() {
		x.count(i, -1)
		x.ops[i] = was
		x.count(i, 1)
	}
}

// found reports whether the operations that are left have an order that begins
// in a state.
func (x *search[S, O]) found(s S) bool {
	taken, all := x.takePure(s)
	if all {
		return true
	}
	if !x.hopeless(s) && !x.seen(s) {
		for _, i := range x.candidates(s) {
			states, rest := x.m.Step(s, x.ops[i].op)
			for _, next := range states {
				undo := x.take(i, rest)
				if x.found(next) {
					return true
				}
				undo()
			}
		}
	}
	for _, undo := range taken {
		undo()
	}
	return false
}

// open reports whether an operation is left and no other left must precede it.
func (x *search[S, O]) open(i int) bool {
	return !x.done.has(i) && x.ops[i].before.within(x.done)
}

// live reports whether an operation left needs a fact.
func (x *search[S, O]) live(fact any) bool { return x.needs[fact] > 0 }

// takePure takes pure operations that may come next and change nothing. It
// reports whether no operation is left.
func (x *search[S, O]) takePure(s S) (taken []func(), all bool) {
	now := x.m.Key(s, x.live)
	same := func(next S) bool { return x.m.Key(next, x.live) == now }
	for again := true; again; {
		again = false
		for _, i := range x.order {
			h := &x.ops[i].hint
			if !h.Pure || !x.open(i) || slices.ContainsFunc(h.Gives, x.live) {
				continue
			}
			if states, rest := x.m.Step(s, x.ops[i].op); rest == nil && slices.ContainsFunc(states, same) {
				taken = append(taken, x.take(i, nil))
				now, again = x.m.Key(s, x.live), true
			}
		}
	}
	return taken, x.done.len() == len(x.ops)
}

// candidates are the operations that may come next, without those that may as
// well wait for another.
func (x *search[S, O]) candidates(s S) (next []int) {
	for _, i := range x.order {
		if !x.open(i) || slices.ContainsFunc(next, func(k int) bool { return x.first(k, i) }) {
			continue
		}
		if states, _ := x.m.Step(s, x.ops[i].op); len(states) > 0 {
			next = slices.DeleteFunc(next, func(k int) bool { return x.first(i, k) })
			next = append(next, i)
		}
	}
	return next
}

// first reports whether of two operations that may come next a may come before
// b: from an order that begins with b, one follows that begins with a.
//
// If nobody needs the facts that they give, or they give the same, they change
// places. All that must precede a is done; what must follow b must follow a,
// too. Operations of several steps change places for good if b ends before a,
// or else until as much is left of the one as of the other.
//
// In a register, each has a time in which its fact holds, and in which the
// operations are that need the fact, as b ends the time of what holds now. They
// come along: those of a go to the end of the time of b, and those of b to the
// begin of the time of a. What must precede those of a must precede b or one of
// its own, so it is there by the end of its time. What must follow those of b
// must follow a or one of its own, so it is not there at the begin of its time.
func (x *search[S, O]) first(a, b int) bool {
	o, p := &x.ops[a], &x.ops[b]
	return o.kind != "" && o.kind == p.kind && o.allBefore.within(p.allBefore, x.done) && p.allAfter.within(o.allAfter, x.done)
}

// hopeless reports whether some operation left has no place in any order that
// begins in a state.
func (x *search[S, O]) hopeless(s S) bool {
	for f, n := range x.needs {
		if n > 0 && x.gives[f] == 0 && !x.m.Has(s, f) {
			return true
		}
	}
	if x.m.Size == nil {
		return false
	}
	size := x.m.Size(s)
	return slices.ContainsFunc(x.order, func(i int) bool { return x.unbalanced(i, size) })
}

// unbalanced reports whether those that must precede an operation, and any of
// those that may, do not add up to the size that it needs; or more facts must
// last until after it.
func (x *search[S, O]) unbalanced(i, size int) bool {
	o := &x.ops[i]
	if x.done.has(i) || o.hint.Size < 0 {
		return false
	}
	least, most, last := size+o.hint.Least, size+o.hint.Most, max(o.hint.Least, 0)
	for j := range x.ops {
		h := &x.ops[j].hint
		switch {
		case x.done.has(j) || o.after.has(j) || i == j:
		case o.before.has(j):
			least, most = least+h.Least, most+h.Most
		default:
			least, most = least+min(h.Least, 0), most+max(h.Most, 0)
		}
	}
	for f := range o.later {
		if x.gives[f] == 0 {
			last++
		}
	}
	return o.hint.Size < max(least, last) || o.hint.Size > most
}

// seen notes a configuration and reports whether it was there before, or the
// search has gone on for too long.
func (x *search[S, O]) seen(s S) bool {
	if x.steps >= x.limit {
		return true
	}
	var key []byte
	for _, w := range x.done {
		key = binary.LittleEndian.AppendUint64(key, w)
	}
	for i := range x.ops {
		if o := &x.ops[i]; o.part && !x.done.has(i) {
			key = fmt.Appendf(key, "%d:%q", i, o.kind)
		}
	}
	key = append(append(key, '|'), x.m.Key(s, x.live)...)
	if _, ok := x.tried[string(key)]; ok {
		return true
	}
	x.tried[string(key)] = struct{}{}
	x.steps++
	return false
}
