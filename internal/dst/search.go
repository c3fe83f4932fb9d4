package dst

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
)

// search looks for an order of operations that explains all their results and extends a partial
// order. The algorithm is Wing and Gong's, with Lowe's cache of visited configurations. It needs
// few steps because of four prunings. No pruning excludes all valid orders:
//
//   - A pure operation that may come next is done at once if it does not change the state. If an
//     order has it at a later place, it can be moved to the front. It then still follows its
//     predecessors. Operations between the two places start from the same states as before.
//     Operations after its old place start from states that permit at least as much.
//   - A state is abandoned if it lacks a fact that a remaining operation needs and that no
//     remaining operation provides. The same holds if it cannot reach a size that a remaining
//     operation needs.
//   - Facts that no remaining operation needs do not distinguish states.
//   - Of two operations of one kind, the first goes first if all successors of the second are also
//     successors of the first. They could be exchanged; see [search.mayPrecede].
type search[S, O any] struct {
	m          *Model[S, O]
	ops        []operation[O]
	order      []int // order in which operations are tried
	done       set
	nRequiring map[any]int // per fact, number of remaining operations that need it
	nProviding map[any]int // per fact, number of remaining operations that provide it
	visited    map[string]struct{}
	steps      int // number of configurations tried
	limit      int
}

// operation is a remaining operation, or the rest of one.
type operation[O any] struct {
	op      O
	hint    Hint
	kind    string // equal for exchangeable operations; "" if none is exchangeable
	partial bool   // some of its steps are done

	before, after       set // predecessors and successors
	allBefore, allAfter set // the same, including operations that must move along in an exchange

	laterFacts map[any]struct{} // facts that its successors need
}

// maxSteps is the maximum number of steps in a search. Histories of the shapes in this package take
// dozens.
const maxSteps = 1 << 16

// newSearch returns a search for an order of ops. before(i, j) reports that operation i must
// precede operation j. before must be transitive.
func newSearch[S, O any](m *Model[S, O], ops []O, before func(i, j int) bool) *search[S, O] {
	n := len(ops)
	x := &search[S, O]{
		m: m, ops: make([]operation[O], n), order: make([]int, n), done: newSet(n),
		nRequiring: map[any]int{}, nProviding: map[any]int{}, visited: map[string]struct{}{}, limit: maxSteps,
	}
	for i, op := range ops {
		x.order[i] = i
		x.ops[i] = operation[O]{op: op, hint: m.hint(op), before: newSet(n), after: newSet(n)}
		x.addCounts(i, 1)
	}
	for i := range ops {
		for j := range ops {
			if before(i, j) {
				x.ops[i].after.flip(j)
				x.ops[j].before.flip(i)
			}
		}
	}
	// Operations with the most successors are tried first. For intervals, those are the first to
	// end.
	slices.SortStableFunc(x.order, func(i, j int) int { return x.ops[j].after.len() - x.ops[i].after.len() })
	for i := range ops {
		x.setExchanges(i)
	}
	return x
}

// setExchanges determines with which operations operation i may be exchanged. i cannot be exchanged
// if it provides a fact that other operations need, unless those operations can move along. In a
// register they can, if only i provides the fact and they provide none.
func (x *search[S, O]) setExchanges(i int) {
	o := &x.ops[i]
	o.kind, o.allBefore, o.allAfter, o.laterFacts = o.hint.Class, slices.Clone(o.before), slices.Clone(o.after), map[any]struct{}{}
	all := newSet(len(x.ops))
	all.flip(i)
	for j := range x.ops {
		r := &x.ops[j]
		for _, f := range r.hint.Requires {
			if o.after.has(j) && x.m.Size != nil {
				o.laterFacts[f] = struct{}{}
			}
			if o.kind == "" || !slices.Contains(o.hint.Provides, f) {
				continue
			}
			if !x.m.Register || x.nProviding[f] > 1 || len(r.hint.Provides) > 0 {
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

// addCounts changes nRequiring and nProviding by delta for the facts of operation i.
func (x *search[S, O]) addCounts(i, delta int) {
	for _, f := range x.ops[i].hint.Requires {
		x.nRequiring[f] += delta
	}
	for _, f := range x.ops[i].hint.Provides {
		x.nProviding[f] += delta
	}
}

// apply does an operation next, or one step of it if rest is not nil. undo undoes that.
func (x *search[S, O]) apply(i int, rest *O) (undo func()) {
	saved := x.ops[i]
	x.addCounts(i, -1)
	if rest == nil {
		x.done.flip(i)
		return func() {
			x.done.flip(i)
			x.addCounts(i, 1)
		}
	}
	o := &x.ops[i]
	o.op, o.hint, o.partial = *rest, x.m.hint(*rest), true
	o.kind = cmp.Or(o.hint.Class, fmt.Sprint(*rest))
	x.addCounts(i, 1)
	return func() {
		x.addCounts(i, -1)
		x.ops[i] = saved
		x.addCounts(i, 1)
	}
}

// hasOrder reports whether the remaining operations have an order that starts in state s.
func (x *search[S, O]) hasOrder(s S) bool {
	undos, done := x.applyPure(s)
	if done {
		return true
	}
	if !x.infeasible(s) && !x.markVisited(s) {
		for _, i := range x.candidates(s) {
			states, rest := x.m.Step(s, x.ops[i].op)
			for _, next := range states {
				undo := x.apply(i, rest)
				if x.hasOrder(next) {
					return true
				}
				undo()
			}
		}
	}
	for _, undo := range undos {
		undo()
	}
	return false
}

func (x *search[S, O]) ready(i int) bool {
	return !x.done.has(i) && x.ops[i].before.coveredBy(x.done)
}

func (x *search[S, O]) live(fact any) bool { return x.nRequiring[fact] > 0 }

// applyPure does all pure operations that may come next and do not change the state. all reports
// whether no operation remains.
func (x *search[S, O]) applyPure(s S) (undos []func(), all bool) {
	now := x.m.Key(s, x.live)
	same := func(next S) bool { return x.m.Key(next, x.live) == now }
	for changed := true; changed; {
		changed = false
		for _, i := range x.order {
			h := &x.ops[i].hint
			if !h.Pure || !x.ready(i) || slices.ContainsFunc(h.Provides, x.live) {
				continue
			}
			if states, rest := x.m.Step(s, x.ops[i].op); rest == nil && slices.ContainsFunc(states, same) {
				undos = append(undos, x.apply(i, nil))
				now, changed = x.m.Key(s, x.live), true
			}
		}
	}
	return undos, x.done.len() == len(x.ops)
}

// candidates returns the operations that may come next. It omits an operation if another one may
// precede it without loss.
func (x *search[S, O]) candidates(s S) (next []int) {
	for _, i := range x.order {
		if !x.ready(i) || slices.ContainsFunc(next, func(k int) bool { return x.mayPrecede(k, i) }) {
			continue
		}
		if states, _ := x.m.Step(s, x.ops[i].op); len(states) > 0 {
			next = slices.DeleteFunc(next, func(k int) bool { return x.mayPrecede(i, k) })
			next = append(next, i)
		}
	}
	return next
}

// mayPrecede compares two operations that may both come next. It reports whether a can come before
// b without loss: for each order that starts with b, another order starts with a.
//
// If no operation needs the facts that they provide, or if they provide the same facts, a and b are
// exchanged. All predecessors of a are done, and all successors of b must also be successors of a.
// Operations with several steps are exchanged entirely if b ends before a. Otherwise they are
// exchanged up to the point where equal rests of both remain.
//
// In a register, each of a and b has a period in which its fact holds. Operations in that period
// may need the fact. Since b ends the present period, these operations move along: those of a to
// the end of b's period, and those of b to the start of a's period. Predecessors of a's operations
// must precede b or one of b's operations, so they are done by the end of b's period. Successors of
// b's operations must follow a or one of a's operations, so they are not done at the start of a's
// period.
func (x *search[S, O]) mayPrecede(a, b int) bool {
	o, p := &x.ops[a], &x.ops[b]
	return o.kind != "" && o.kind == p.kind && o.allBefore.coveredBy(p.allBefore, x.done) && p.allAfter.coveredBy(o.allAfter, x.done)
}

// infeasible reports whether some remaining operation cannot occur in any order that starts in
// state s.
func (x *search[S, O]) infeasible(s S) bool {
	for f, n := range x.nRequiring {
		if n > 0 && x.nProviding[f] == 0 && !x.m.Has(s, f) {
			return true
		}
	}
	if x.m.Size == nil {
		return false
	}
	size := x.m.Size(s)
	return slices.ContainsFunc(x.order, func(i int) bool { return x.unbalanced(i, size) })
}

// unbalanced reports whether operation i cannot reach the size that it needs, given its
// predecessors and any operations that may precede it. It also returns true if more facts must
// outlast i than that size permits.
func (x *search[S, O]) unbalanced(i, size int) bool {
	o := &x.ops[i]
	if x.done.has(i) || o.hint.Size < 0 {
		return false
	}
	minSize, maxSize, minKept := size+o.hint.MinDelta, size+o.hint.MaxDelta, max(o.hint.MinDelta, 0)
	for j := range x.ops {
		h := &x.ops[j].hint
		switch {
		case x.done.has(j) || o.after.has(j) || i == j:
		case o.before.has(j):
			minSize, maxSize = minSize+h.MinDelta, maxSize+h.MaxDelta
		default:
			minSize, maxSize = minSize+min(h.MinDelta, 0), maxSize+max(h.MaxDelta, 0)
		}
	}
	for f := range o.laterFacts {
		if x.nProviding[f] == 0 {
			minKept++
		}
	}
	return o.hint.Size < max(minSize, minKept) || o.hint.Size > maxSize
}

// markVisited records a configuration. It returns true if the configuration was visited before, or
// if the search has reached its limit.
func (x *search[S, O]) markVisited(s S) bool {
	if x.steps >= x.limit {
		return true
	}
	var key []byte
	for _, w := range x.done {
		key = binary.LittleEndian.AppendUint64(key, w)
	}
	for i := range x.ops {
		if o := &x.ops[i]; o.partial && !x.done.has(i) {
			key = fmt.Appendf(key, "%d:%q", i, o.kind)
		}
	}
	key = append(append(key, '|'), x.m.Key(s, x.live)...)
	if _, ok := x.visited[string(key)]; ok {
		return true
	}
	x.visited[string(key)] = struct{}{}
	x.steps++
	return false
}
