package dst

import (
	"slices"

	"github.com/weftgo/weft"
)

// A search looks for an order of the operations on one key that explains what
// they returned and keeps to their times. It is Wing and Gong's, with Lowe's
// memory of what was tried, and gets by with few steps because no order is
// lost if
//
//   - an operation that changes nothing in any state goes as soon as it may,
//   - a state is not left that others still need and none still makes,
//   - a value that nobody still has to return counts as any other of its kind,
//   - of two operations that differ in nothing but the value they write, one
//     goes first if neither it nor those that return its value can be later
//     than the other and those that return the other's: they could change
//     places.
type search struct {
	ops   []timed // by end
	cut   []int   // for each operation, where those end that may overlap it
	rows  []row
	needs []int // for each state, operations left that are possible in it alone
	gives []int // for each state, operations left that lead to it from others

	done  []bool
	tried map[string]struct{}
	steps int // configurations looked at
	limit int
}

// A timed is an operation: what it does and when it ran.
type timed struct {
	row        int
	from, till int64
	// The same for the operation together with those that return the value
	// it writes: the last to begin and the first to end.
	late, soon int64
}

// A row says what an operation does in each state.
type row struct {
	next []int // state it leaves; -1: it can't have returned what it did
	pure bool  // it leaves every state as it is
	only int   // the one state in which it is possible, -1 if there are several
	into []int // states it leads to from others
	kind int   // the same for those that differ in the value they write
}

// The states of a key are numbered: it is absent; it has a value that nobody
// returned; it has one of those that somebody did.
const (
	absent = iota
	nobodys
)

// maxSteps bounds a search. Those of our shapes take some dozens.
const maxSteps = 1 << 18

// newSearch prepares the search for the operations on one key.
func newSearch[K weft.Key, V weft.Value](events []event[K, V]) *search {
	states := statesOf(events)
	number := func(s state[V]) int {
		if i := slices.Index(states, s); i >= 0 {
			return i
		}
		return nobodys
	}
	s := &search{
		needs: make([]int, len(states)), gives: make([]int, len(states)), done: make([]bool, len(events)),
		tried: map[string]struct{}{}, limit: maxSteps,
	}
	exact, kinds := map[string]int{}, map[string]int{}
	for _, e := range events {
		next := make([]int, len(states))
		for i, from := range states {
			next[i] = -1
			if ok, to := step(from, e); ok {
				next[i] = number(to)
			}
		}
		i := numbered(exact, next)
		if i == len(s.rows) {
			s.rows = append(s.rows, newRow(next, kinds))
		}
		s.ops = append(s.ops, timed{i, e.from, e.till, e.from, e.till})
		s.count(i, 1)
	}
	slices.SortStableFunc(s.ops, func(a, b timed) int { return int(a.till - b.till) })
	s.cut = make([]int, len(s.ops))
	for i, end, first := len(s.ops)-1, len(s.ops), int64(1<<63-1); i >= 0; i-- {
		if s.ops[i].till < first {
			end = i + 1
		}
		s.cut[i], first = end, min(first, s.ops[i].from)
	}
	s.tie()
	return s
}

// statesOf lists the states that the operations tell apart.
func statesOf[K weft.Key, V weft.Value](events []event[K, V]) []state[V] {
	seen := map[V]bool{}
	states := []state[V]{absent: {}, nobodys: {true, 1}}
	for _, e := range events {
		if e.returns.Vals && !seen[e.val] {
			seen[e.val] = true
			states = append(states, state[V]{true, e.val})
		}
	}
	for seen[states[nobodys].val] {
		states[nobodys].val++
	}
	return states
}

// numbered is the number of a list of numbers, a new one if it is new.
func numbered(known map[string]int, list []int) int {
	b := make([]byte, 0, 2*len(list))
	for _, n := range list {
		b = append(b, byte(n), byte(n>>8))
	}
	i, ok := known[string(b)]
	if !ok {
		i = len(known)
		known[string(b)] = i
	}
	return i
}

func newRow(next []int, kinds map[string]int) row {
	r := row{next: next, pure: true, only: -1}
	possible, kind := 0, slices.Clone(next)
	for i, to := range next {
		if to < 0 {
			continue
		}
		possible, r.only = possible+1, i
		if to != i {
			r.pure = false
			if !slices.Contains(r.into, to) {
				r.into = append(r.into, to)
			}
		}
		if to > nobodys {
			kind[i] = nobodys
		}
	}
	if possible != 1 {
		r.only = -1
	}
	if slices.Contains(next, absent) {
		kind = next // may write its value or not: no two of them can swap
	}
	r.kind = numbered(kinds, kind)
	return r
}

// tie gives each operation that writes a value the times of those that return
// it.
func (s *search) tie() {
	for i := range s.ops {
		w := &s.ops[i]
		for _, to := range s.rows[w.row].into {
			for _, o := range s.ops {
				if to > nobodys && s.rows[o.row].only == to {
					w.late, w.soon = max(w.late, o.from), min(w.soon, o.till)
				}
			}
		}
	}
}

// count enters an operation among those left, or takes it out.
func (s *search) count(row, by int) {
	r := &s.rows[row]
	if r.only >= 0 {
		s.needs[r.only] += by
	}
	for _, to := range r.into {
		s.gives[to] += by
	}
}

// take puts an operation next in the order, or back.
func (s *search) take(i int, done bool) {
	by := 1
	if done {
		by = -1
	}
	s.done[i] = done
	s.count(s.ops[i].row, by)
}

// found reports whether the operations that are left have an order that begins
// in a state. Operations before lo are done.
func (s *search) found(lo, state int) bool {
	lo, taken := s.takePure(lo, state)
	if lo == len(s.ops) {
		return true
	}
	if s.needs[state] == 0 && state > nobodys {
		state = nobodys
	}
	if !s.hopeless(state) && !s.seen(lo, state) {
		for _, i := range s.candidates(lo, state) {
			s.take(i, true)
			if s.found(lo, s.rows[s.ops[i].row].next[state]) {
				return true
			}
			s.take(i, false)
		}
	}
	for _, i := range taken {
		s.take(i, false)
	}
	return false
}

// takePure takes all operations that change nothing and may come next. It
// returns the first operation left, and what it took.
func (s *search) takePure(lo, state int) (int, []int) {
	var taken []int
	for again := true; again; {
		again = false
		for lo < len(s.ops) && s.done[lo] {
			lo++
		}
		for i := range s.open(lo) {
			if r := &s.rows[s.ops[i].row]; r.pure && r.next[state] >= 0 {
				s.take(i, true)
				taken = append(taken, i)
				again = true
			}
		}
	}
	return lo, taken
}

// open visits the operations left that no other left must precede. lo is the
// first one left.
func (s *search) open(lo int) func(yield func(i int) bool) {
	return func(yield func(i int) bool) {
		if lo == len(s.ops) {
			return
		}
		first := s.ops[lo].till
		for i := lo; i < s.cut[lo]; i++ {
			if !s.done[i] && s.ops[i].from <= first && !yield(i) {
				return
			}
		}
	}
}

// candidates are the operations that may come next, without those that may as
// well wait for another.
func (s *search) candidates(lo, state int) (next []int) {
	for i := range s.open(lo) {
		if s.rows[s.ops[i].row].next[state] < 0 {
			continue
		}
		if !slices.ContainsFunc(next, func(k int) bool { return s.first(k, i, lo) }) {
			next = slices.DeleteFunc(next, func(k int) bool { return s.first(i, k, lo) })
			next = append(next, i)
		}
	}
	return next
}

// first reports whether of two operations that may come next a may come
// before b.
func (s *search) first(a, b, lo int) bool {
	x, y := &s.ops[a], &s.ops[b]
	now := s.ops[lo].till
	return s.rows[x.row].kind == s.rows[y.row].kind && x.soon <= y.soon && max(x.late, now) <= max(y.late, now)
}

// hopeless reports whether an operation needs a state that can't come again.
func (s *search) hopeless(state int) bool {
	for i, n := range s.needs {
		if n > 0 && s.gives[i] == 0 && i != state {
			return true
		}
	}
	return false
}

// seen notes a configuration and reports whether it was there before, or the
// search has gone on for too long.
func (s *search) seen(lo, state int) bool {
	if s.steps >= s.limit {
		return true
	}
	key := []byte{byte(lo), byte(lo >> 8), byte(lo >> 16), byte(state), byte(state >> 8)}
	for i := lo; i < s.cut[lo]; i += 8 {
		var bits byte
		for k := i; k < min(i+8, s.cut[lo]); k++ {
			bits <<= 1
			if s.done[k] {
				bits |= 1
			}
		}
		key = append(key, bits)
	}
	if _, ok := s.tried[string(key)]; ok {
		return true
	}
	s.tried[string(key)] = struct{}{}
	s.steps++
	return false
}
