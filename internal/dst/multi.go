package dst

import (
	"encoding/binary"
	"slices"

	"github.com/weftgo/weft"
)

// A multisearch looks for an order of the operations on one key of a multimap,
// as a [search] does for maps. What the key has are runs of values:
// those that one batch added, behind those of earlier batches. The order
// within a run is the device's affair. While its batch runs, any value of the
// run may come first; from then on they have an order, which operations show
// bit by bit.
//
// Few orders need to be tried because
//
//   - a value that is still to be returned is not removed, and the others of a
//     run are all the same,
//   - a value that a later batch returns stays, so the key has pairs from then
//     on,
//   - values that are not there in the end are as many as the operations left
//     remove,
//   - of operations that do the same, the first to end goes first.
type multisearch struct {
	ops     []multiop // by end
	readers []int     // for each value, operations left that return it
	until   []int     // for each value, the last batch that returns it
	last    int       // the last batch that lists all values, or -1
	done    []bool
	took    []int // for each DeleteAll, the values it has removed so far
	tried   map[string]struct{}
	steps   int
	limit   int
}

// A multiop is an operation with values by number; -1 is none.
type multiop struct {
	kind       weft.OpKind
	batch      int
	returns    Returns
	ok, full   bool
	put, got   int
	removed    int
	all        []int
	from, till int64
}

// A run is the values of a key that one batch added.
type run struct {
	batch int
	vals  []int
	first int // the one that comes first, if that has shown; or -1
}

// getAll is the operation of batches that list all values of keys.
const getAll = weft.OpDeleteAll + 1

func newMultisearch[K weft.Key, V weft.Value](events []event[K, V]) *multisearch {
	s := &multisearch{
		last: -1, done: make([]bool, len(events)), took: make([]int, len(events)),
		tried: map[string]struct{}{}, limit: maxSteps,
	}
	numbers := map[V]int{}
	number := func(v V) int {
		n, ok := numbers[v]
		if !ok {
			n = len(numbers)
			numbers[v] = n
			s.readers, s.until = append(s.readers, 0), append(s.until, -1)
		}
		return n
	}
	for _, e := range events {
		op := multiop{kind: e.op.Kind, batch: e.batch, returns: e.returns, ok: e.ok, full: e.full, put: number(e.op.Value), got: -1, removed: e.removed, from: e.from, till: e.till}
		if looks := op.kind == weft.OpGet || op.kind == weft.OpPutNew; looks && e.returns.Vals && e.val != 0 {
			op.got = number(e.val)
		}
		for _, v := range e.all {
			op.all = append(op.all, number(v))
		}
		s.ops = append(s.ops, op)
	}
	slices.SortStableFunc(s.ops, func(a, b multiop) int { return int(a.till - b.till) })
	for i := range s.ops {
		s.read(i, 1)
		for _, v := range s.ops[i].reads() {
			s.until[v] = max(s.until[v], s.ops[i].batch)
		}
		if s.ops[i].kind == getAll {
			s.last = max(s.last, s.ops[i].batch)
		}
	}
	return s
}

// reads are the values that an operation returns.
func (op *multiop) reads() []int {
	if op.got >= 0 {
		return []int{op.got}
	}
	return op.all
}

// read counts an operation among the readers of the values it returns, or no
// longer.
func (s *multisearch) read(i, by int) {
	for _, v := range s.ops[i].reads() {
		s.readers[v] += by
	}
}

func (s *multisearch) take(i int, done bool) {
	s.done[i] = done
	by := 1
	if done {
		by = -1
	}
	s.read(i, by)
}

// found reports whether the operations that are left have an order that begins
// with these runs.
func (s *multisearch) found(runs []run) bool {
	taken := s.takePure(runs)
	open := s.open()
	if len(open) == 0 {
		return true
	}
	if !s.hopeless(open, runs) && !s.seen(runs) {
		for _, i := range s.different(open) {
			next, over, ok := s.apply(i, runs)
			if !ok {
				continue
			}
			if over {
				s.take(i, true)
			} else {
				s.took[i]++
			}
			if s.found(next) {
				return true
			}
			if over {
				s.take(i, false)
			} else {
				s.took[i]--
			}
		}
	}
	for _, i := range taken {
		s.take(i, false)
	}
	return false
}

// open lists the operations left that no other left must precede.
func (s *multisearch) open() (open []int) {
	first := int64(1<<63 - 1)
	for i := range s.ops {
		if s.done[i] {
			continue
		}
		first = min(first, s.ops[i].till)
		if s.ops[i].from <= first {
			open = append(open, i)
		}
	}
	return open
}

// different leaves out operations that do the same as an earlier one.
func (s *multisearch) different(open []int) (different []int) {
	for _, i := range open {
		same := func(k int) bool {
			a, b := &s.ops[i], &s.ops[k]
			return a.kind == b.kind && a.batch == b.batch && a.ok == b.ok && a.got == b.got && a.removed == b.removed &&
				a.returns == b.returns && s.took[i] == s.took[k] && s.readers[a.put] == 0 && s.readers[b.put] == 0 && a.kind != getAll
		}
		if !slices.ContainsFunc(different, same) {
			different = append(different, i)
		}
	}
	return different
}

// hopeless reports whether an operation that needs a key without pairs comes
// too late, or there are not as many values to be removed as operations left
// that remove one.
func (s *multisearch) hopeless(open []int, runs []run) bool {
	stays := -1
	for _, r := range runs {
		for _, v := range r.vals {
			stays = max(stays, s.until[v])
		}
	}
	for _, i := range open {
		if op := &s.ops[i]; op.batch < stays && op.alone() {
			return true
		}
	}
	return s.last >= 0 && s.unbalanced(runs)
}

// alone reports whether an operation needs a key without pairs.
func (op *multiop) alone() bool {
	switch op.kind {
	case weft.OpGet, weft.OpDelete:
		return op.returns.OK && !op.ok
	case weft.OpPutNew:
		return op.returns.OK && op.ok
	}
	return op.kind == weft.OpDeleteAll
}

// unbalanced compares the values that are not among the last ones with the
// operations that remove some.
func (s *multisearch) unbalanced(runs []run) bool {
	goes := func(v int) int {
		if s.until[v] < s.last {
			return 1
		}
		return 0
	}
	gone, least, most := 0, 0, 0
	for _, r := range runs {
		for _, v := range r.vals {
			gone += goes(v)
		}
	}
	for i := range s.ops {
		op := &s.ops[i]
		if s.done[i] {
			continue
		}
		switch {
		case op.kind == weft.OpPut && (op.ok || !op.returns.OK), op.kind == weft.OpPutNew && op.ok && op.returns.OK:
			gone += goes(op.put)
		case op.kind == weft.OpDelete && op.ok && op.returns.OK:
			least, most = least+1, most+1
		case op.kind == weft.OpDeleteAll && op.returns.Counts:
			least, most = least+op.removed-s.took[i], most+op.removed-s.took[i]
		case op.kind == weft.OpDeleteAll && op.ok && op.returns.OK:
			most = len(s.until)
			if s.took[i] == 0 {
				least++
			}
		case op.kind != weft.OpGet && !op.returns.OK && op.kind != getAll: // it doesn't say what it did
			return false
		}
	}
	return gone < least || gone > most
}

// takePure takes operations that change nothing and may come next.
func (s *multisearch) takePure(runs []run) (taken []int) {
	for again := true; again; {
		again = false
		for _, i := range s.open() {
			if s.pure(i, runs) {
				s.take(i, true)
				taken = append(taken, i)
				again = true
			}
		}
	}
	return taken
}

// pure reports whether an operation may come next and then changes nothing,
// not even what is known.
func (s *multisearch) pure(i int, runs []run) bool {
	op := &s.ops[i]
	next, over, ok := s.apply(i, runs)
	switch {
	case !ok || !over || op.kind == getAll:
		return false
	case op.kind == weft.OpDeleteAll:
		// One that may have removed more may do so later.
		return len(runs) == 0 && (op.returns.Counts || op.returns.OK && !op.ok)
	}
	return len(next) == len(runs) && (len(runs) == 0 || &next[0] == &runs[0])
}

// apply runs an operation: what is there afterwards, and whether the operation
// is over, which a DeleteAll is not until it finds nothing. It returns the same
// slice if nothing changes.
func (s *multisearch) apply(i int, runs []run) (next []run, over, ok bool) {
	op := &s.ops[i]
	empty := len(runs) == 0
	full := op.full && op.returns.OK && !op.ok // for lack of room
	unsaid := !op.returns.OK
	switch op.kind {
	case weft.OpGet:
		if empty {
			return runs, true, (unsaid || !op.ok) && op.got < 0
		}
		next, ok = s.show(op, runs)
		return next, true, ok && (unsaid || op.ok)
	case weft.OpPut:
		if full {
			return runs, true, true
		}
		return s.add(op, runs), true, unsaid || op.ok
	case weft.OpPutNew:
		if empty && full {
			return runs, true, op.got < 0
		}
		if empty {
			return s.add(op, runs), true, (unsaid || op.ok) && op.got < 0
		}
		next, ok = s.show(op, runs)
		return next, true, ok && (unsaid || !op.ok)
	case weft.OpDelete:
		if empty {
			return runs, true, unsaid || !op.ok
		}
		next, ok = s.remove(op, runs)
		return next, true, ok && (unsaid || op.ok)
	case weft.OpDeleteAll:
		if empty {
			return runs, true, s.satisfied(i)
		}
		next, ok = s.remove(op, runs)
		return next, false, ok && (unsaid || op.ok) && (!op.returns.Counts || s.took[i] < op.removed)
	}
	next, ok = list(op.all, runs)
	return next, true, ok
}

// satisfied reports whether a DeleteAll has removed what it says.
func (s *multisearch) satisfied(i int) bool {
	op := &s.ops[i]
	if op.returns.Counts {
		return s.took[i] == op.removed
	}
	return !op.returns.OK || op.ok == (s.took[i] > 0)
}

// show lets an operation return the first value.
func (s *multisearch) show(op *multiop, runs []run) ([]run, bool) {
	front := &runs[0]
	switch {
	case op.got < 0:
		return runs, !op.returns.Vals
	case !slices.Contains(front.vals, op.got) || front.first >= 0 && front.first != op.got:
		return runs, false
	case front.batch == op.batch || len(front.vals) == 1 || front.first >= 0:
		return runs, true
	}
	next := slices.Clone(runs)
	next[0].first = op.got
	return next, true
}

// add puts a value behind all others.
func (s *multisearch) add(op *multiop, runs []run) []run {
	next := slices.Clone(runs)
	if n := len(next); n == 0 || next[n-1].batch != op.batch {
		return append(next, run{op.batch, []int{op.put}, -1})
	}
	last := &next[len(next)-1]
	last.vals = append(slices.Clone(last.vals), op.put)
	return next
}

// remove removes the first value, one that nobody left returns.
func (s *multisearch) remove(op *multiop, runs []run) ([]run, bool) {
	front := runs[0]
	at := slices.IndexFunc(front.vals, func(v int) bool {
		return s.readers[v] == 0 && (front.first < 0 || front.first == v)
	})
	if at < 0 {
		return runs, false
	}
	if len(front.vals) == 1 {
		return runs[1:], true
	}
	next := slices.Clone(runs)
	next[0].vals = slices.Delete(slices.Clone(front.vals), at, at+1)
	next[0].first = -1
	return next, true
}

// list lets an operation return all values, and with them their order.
func list(all []int, runs []run) (next []run, ok bool) {
	for _, r := range runs {
		n := len(r.vals)
		if n > len(all) || r.first >= 0 && r.first != all[0] {
			return runs, false
		}
		for _, v := range all[:n] {
			if !slices.Contains(r.vals, v) {
				return runs, false
			}
			next = append(next, run{r.batch, []int{v}, v})
		}
		all = all[n:]
	}
	return next, len(all) == 0
}

// seen notes a configuration and reports whether it was there before, or the
// search has gone on for too long. Values that nobody left returns count as
// one.
func (s *multisearch) seen(runs []run) bool {
	if s.steps >= s.limit {
		return true
	}
	var key []byte
	put := func(n int) { key = binary.AppendVarint(key, int64(n)) }
	name := func(v int) int {
		if v >= 0 && s.readers[v] == 0 {
			return len(s.readers)
		}
		return v
	}
	for i, done := range s.done {
		if done {
			put(-1)
		} else {
			put(s.took[i])
		}
	}
	for _, r := range runs {
		vals := make([]int, 0, len(r.vals))
		for _, v := range r.vals {
			vals = append(vals, name(v))
		}
		slices.Sort(vals)
		put(r.batch)
		put(len(vals))
		put(name(r.first))
		for _, v := range vals {
			put(v)
		}
	}
	if _, ok := s.tried[string(key)]; ok {
		return true
	}
	s.tried[string(key)] = struct{}{}
	s.steps++
	return false
}
