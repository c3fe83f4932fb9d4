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
//   - a pure operation that may come next, and then tells nothing new of the
//     state, goes at once: moved there from any later place, it still comes
//     after those that must precede it, and those between start from the
//     state from which they started, or one that stands for more;
//   - a state is given up that lacks what an operation left needs and none
//     left gives, or has what must last until an operation that comes after
//     one that needs the contrary, or can't reach the size that an operation
//     needs;
//   - facts that no operation left needs do not tell states apart;
//   - of two operations that do the same, one goes first if all that must
//     follow the other must follow it, too: they could change places. See
//     [search.first] for those that differ in the facts they give.
type search[S, O any] struct {
	m     *Model[S, O]
	ops   []operation[O]
	done  bits
	facts []any
	names map[any]int    // of facts
	kinds map[string]int // names of classes
	needs []int          // for each fact, operations left that need it
	gives []int          // for each fact, operations left that give it
	bars  []bits         // for each fact, operations that can't end while it must last

	tried map[string]struct{}
	steps int // configurations looked at
	limit int
}

// An operation is one that is left, or what is left of it.
type operation[O any] struct {
	op           O
	hint         Hint
	needs, gives []int
	kind         int  // of those that may change places; 0: it may with none
	part         bool // some of it is done
	before       bits // those that must precede it
	after        bits // those that must follow
	// The same for the operation together with those that change places with
	// it.
	allBefore, allAfter bits
}

// maxSteps bounds a search. Those of our shapes take some dozens.
const maxSteps = 1 << 18

// newSearch prepares a search. before(i, j) reports that operation i must
// precede j; it is transitive.
func newSearch[S, O any](m *Model[S, O], ops []O, before func(i, j int) bool) *search[S, O] {
	n := len(ops)
	x := &search[S, O]{
		m: m, ops: make([]operation[O], n), done: newBits(n), names: map[any]int{}, kinds: map[string]int{"": 0},
		tried: map[string]struct{}{}, limit: maxSteps,
	}
	// Tried first is what most others wait for: of intervals, the first to end.
	order, waiting := make([]int, n), make([]int, n)
	for i := range n {
		order[i] = i
		for j := range n {
			if before(i, j) {
				waiting[i]++
			}
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return waiting[j] - waiting[i] })
	for i := range x.ops {
		x.ops[i] = x.known(ops[order[i]])
		x.count(i, 1)
	}
	for i := range x.ops {
		o := &x.ops[i]
		o.before, o.after = newBits(n), newBits(n)
		for j := range n {
			o.before.set(j, before(order[j], order[i]))
			o.after.set(j, before(order[i], order[j]))
		}
	}
	x.tie()
	x.bar()
	return x
}

// known is an operation with its hints.
func (x *search[S, O]) known(op O) operation[O] {
	o := operation[O]{op: op}
	if x.m.Hint != nil {
		o.hint = x.m.Hint(op)
	}
	number := func(facts []any) (list []int) {
		for _, f := range facts {
			i, ok := x.names[f]
			if !ok {
				i = len(x.facts)
				x.names[f] = i
				x.facts = append(x.facts, f)
				x.needs, x.gives, x.bars = append(x.needs, 0), append(x.gives, 0), append(x.bars, nil)
			}
			list = append(list, i)
		}
		return list
	}
	o.needs, o.gives = number(o.hint.Needs), number(o.hint.Gives)
	return o
}

// kind is the number of a class.
func (x *search[S, O]) kind(class string) int {
	k, ok := x.kinds[class]
	if !ok {
		k = len(x.kinds)
		x.kinds[class] = k
	}
	return k
}

// tie finds the operations that may change places, and with which others. A
// fact that others need is part of an operation's kind unless those can come
// along.
func (x *search[S, O]) tie() {
	for i := range x.ops {
		o := &x.ops[i]
		o.allBefore, o.allAfter = o.before, o.after
		class := o.hint.Class
		if class == "" {
			continue
		}
		for _, f := range o.gives {
			switch {
			case x.needs[f] == 0:
			case x.m.Register && x.gives[f] == 1 && !x.m.Has(x.m.Init, x.facts[f]) && x.follow(o, i, f):
			default:
				class += fmt.Sprintf(" %d", f)
			}
		}
		o.kind = x.kind(class)
	}
}

// follow joins those that need a fact to the operation that gives it, if they
// are pure.
func (x *search[S, O]) follow(o *operation[O], i, fact int) bool {
	group := newBits(len(x.ops))
	group.set(i, true)
	before, after := slices.Clone(o.before), slices.Clone(o.after)
	for j := range x.ops {
		if r := &x.ops[j]; slices.Contains(r.needs, fact) {
			if !r.hint.Pure || r.gives != nil {
				return false
			}
			group.set(j, true)
			before.add(r.before)
			after.add(r.after)
		}
	}
	before.remove(group)
	after.remove(group)
	o.allBefore, o.allAfter = before, after
	return true
}

// bar finds, for each fact, the operations that need what it excludes and must
// precede one that needs it.
func (x *search[S, O]) bar() {
	for f := range x.facts {
		x.bars[f] = newBits(len(x.ops))
		for i := range x.ops {
			o := &x.ops[i]
			if x.m.Excludes == nil || !slices.Contains(o.needs, f) {
				continue
			}
			for j := range x.ops {
				excludes := func(e int) bool { return x.m.Excludes(x.facts[e], x.facts[f]) }
				if o.before.has(j) && slices.ContainsFunc(x.ops[j].needs, excludes) {
					x.bars[f].set(j, true)
				}
			}
		}
	}
}

// count enters an operation among those left, or takes it out.
func (x *search[S, O]) count(i, by int) {
	for _, f := range x.ops[i].needs {
		x.needs[f] += by
	}
	for _, f := range x.ops[i].gives {
		x.gives[f] += by
	}
}

// take puts an operation next in the order, or as much of it as one step does.
func (x *search[S, O]) take(i int, left *O) (undo func()) {
	was := x.ops[i]
	x.count(i, -1)
	if left == nil {
		x.done.set(i, true)
		return func() {
			x.done.set(i, false)
			x.count(i, 1)
		}
	}
	o := x.known(*left)
	o.kind, o.part = x.kind(cmp.Or(o.hint.Class, fmt.Sprint(*left))), true
	o.before, o.after, o.allBefore, o.allAfter = was.before, was.after, was.before, was.after
	x.ops[i] = o
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
	undo, all := x.takePure(s)
	if all {
		return true
	}
	if !x.hopeless(s) && !x.seen(s) {
		for _, c := range x.candidates(s) {
			for _, next := range c.outcomes {
				undo := x.take(c.i, next.Left)
				if x.found(next.State) {
					return true
				}
				undo()
			}
		}
	}
	for _, u := range undo {
		u()
	}
	return false
}

// open reports whether an operation is left and no other left must precede it.
func (x *search[S, O]) open(i int) bool {
	return !x.done.has(i) && x.ops[i].before.within(x.done)
}

// takePure takes pure operations that may come next and tell nothing new. It
// reports whether no operation is left.
func (x *search[S, O]) takePure(s S) (undo []func(), all bool) {
	for again := true; again; {
		again, all = false, true
		for i := range x.ops {
			same := func(next Outcome[S, O]) bool { return next.Left == nil && x.key(next.State) == x.key(s) }
			if x.ops[i].hint.Pure && x.open(i) && !slices.ContainsFunc(x.ops[i].gives, func(f int) bool { return x.needs[f] > 0 }) && slices.ContainsFunc(x.m.Step(s, x.ops[i].op), same) {
				undo = append(undo, x.take(i, nil))
				again = true
			}
			all = all && x.done.has(i)
		}
	}
	return undo, all
}

// A candidate is an operation that may come next, and what it may lead to.
type candidate[S, O any] struct {
	i        int
	outcomes []Outcome[S, O]
}

// candidates are the operations that may come next, without those that may as
// well wait for another.
func (x *search[S, O]) candidates(s S) (next []candidate[S, O]) {
	for i := range x.ops {
		if !x.open(i) {
			continue
		}
		c := candidate[S, O]{i, x.m.Step(s, x.ops[i].op)}
		if len(c.outcomes) > 0 && !slices.ContainsFunc(next, func(k candidate[S, O]) bool { return x.first(k.i, i) }) {
			next = slices.DeleteFunc(next, func(k candidate[S, O]) bool { return x.first(i, k.i) })
			next = append(next, c)
		}
	}
	return next
}

// first reports whether of two operations that may come next a may come before
// b: given an order that begins with b, there is one that begins with a.
//
// If nobody needs the facts that they give, or they give the same, they change
// places. What must precede a is done; what must follow b must follow a, too.
// If only the first of several steps of b precedes a, only these change places.
//
// In a register, each of them has a time in which its fact holds, and the pure
// operations that need the fact are in it. They change places together: those
// of a go to the end of b's time, and those of b to the begin of a's. What must
// precede those of a must precede one of b's, so it is there by the end of b's
// time. What must follow those of b must follow a or one of its own, so it is
// not there at the begin of a's time.
func (x *search[S, O]) first(a, b int) bool {
	o, p := &x.ops[a], &x.ops[b]
	return o.kind != 0 && o.kind == p.kind && o.allBefore.within(p.allBefore, x.done) && p.allAfter.within(o.allAfter, x.done)
}

// hopeless reports whether some operation left has no place in any order that
// begins in a state.
func (x *search[S, O]) hopeless(s S) bool {
	for f, n := range x.needs {
		if n > 0 && x.gives[f] == 0 && (!x.m.Has(s, x.facts[f]) || !x.bars[f].within(x.done)) {
			return true
		}
	}
	return x.m.Size != nil && x.unbalanced(s)
}

// unbalanced reports whether an operation needs a size that those which precede
// it, and any of those which may, do not add up to.
func (x *search[S, O]) unbalanced(s S) bool {
	size := x.m.Size(s)
	for i := range x.ops {
		o := &x.ops[i]
		if o.hint.Size < 0 || x.done.has(i) {
			continue
		}
		least, most := size, size
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
		if o.hint.Size < least || o.hint.Size > most {
			return true
		}
	}
	return false
}

// key tells states apart as far as the operations left can.
func (x *search[S, O]) key(s S) string {
	return x.m.Key(s, func(fact any) bool {
		f, ok := x.names[fact]
		return ok && x.needs[f] > 0
	})
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
			key = binary.AppendUvarint(binary.AppendUvarint(key, uint64(i)), uint64(o.kind))
		}
	}
	key = append(append(key, 0xff), x.key(s)...)
	if _, ok := x.tried[string(key)]; ok {
		return true
	}
	x.tried[string(key)] = struct{}{}
	x.steps++
	return false
}

// bits are a set of small numbers.
type bits []uint64

func newBits(n int) bits { return make(bits, (n+63)/64) }

func (b bits) has(i int) bool { return b[i/64]>>(i%64)&1 != 0 }

func (b bits) set(i int, in bool) {
	b[i/64] &^= 1 << (i % 64)
	if in {
		b[i/64] |= 1 << (i % 64)
	}
}

func (b bits) add(c bits) {
	for i := range b {
		b[i] |= c[i]
	}
}

func (b bits) remove(c bits) {
	for i := range b {
		b[i] &^= c[i]
	}
}

// within reports whether each number is in one of the sets.
func (b bits) within(sets ...bits) bool {
	for i, w := range b {
		for _, c := range sets {
			w &^= c[i]
		}
		if w != 0 {
			return false
		}
	}
	return true
}
