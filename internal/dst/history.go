package dst

import (
	"iter"
	"math"
	"slices"

	"github.com/weftgo/weft"
)

// An event is one operation with what it returned and when it ran.
type event struct {
	op         weft.Op[uint64, uint64]
	batch      int
	rank       int // in a batch whose operations follow each other, from 1
	returns    Returns
	ok         bool
	full       bool // there may have been no room for it
	val        uint64
	passing    []uint64 // values that a lookup may have found, whatever there was
	removed    int
	all        []uint64 // what a GetAll lists
	from, till int64
	begun      bool // from is known
}

// forever is later than all times.
const forever = math.MaxInt64

// A history is what the operations of a program returned, and what a structure
// promises about their order:
//
//   - batches of one stream, and those that an event orders, follow each other,
//   - changes follow each other as they were submitted or called, whatever
//     their streams,
//   - a lookup of the host sees every change whose call has returned and every
//     change submitted before it; nothing else is waited for,
//   - whatever is submitted or called comes after what the host had waited for.
//
// In sequentially consistent memory, what ended before something began comes
// before it, too: an operation of a concurrent batch lasts from the first read
// of its key to the last write of its result, others from the submission of
// their batch to the host's wait for it. In weak memory threads that do not
// synchronize have no common clock.
type history struct {
	events  []event
	timed   bool // times count
	multi   bool
	reduce  combining
	reduces bool // operations may combine values

	byBatch bool    // batches are wholes
	changes numbers // those that change something
	cuts    map[int]*removal
	views   []view

	before  []numbers // for each batch, those that must precede it
	known   numbers   // those that the host has waited for
	changed numbers   // the last change and those before it
	stream  []numbers // for each stream, its last batch and those before it
}

// numbers is a set of batches.
type numbers uint64

func (s numbers) has(i int) bool { return s>>i&1 != 0 }

// number numbers a batch and says what precedes it.
func (h *history) number(before numbers) (number int, with numbers) {
	h.before = append(h.before, before)
	number = len(h.before) - 1
	return number, before | 1<<number
}

// begin notes that a batch is given to a stream.
func (h *history) begin(stream int, changes bool) int {
	before := h.known | h.stream[stream]
	if changes {
		before |= h.changed
	}
	i, with := h.number(before)
	h.stream[stream] = with
	h.change(i, changes, with)
	return i
}

// beginCall notes that the host calls.
func (h *history) beginCall(changes bool) int {
	i, with := h.number(h.known | h.changed)
	h.change(i, changes, with)
	return i
}

// change notes that a batch changes something.
func (h *history) change(number int, changes bool, with numbers) {
	if changes {
		h.changed = with
		h.changes |= 1 << number
	}
}

// link notes that one stream waits for another.
func (h *history) link(from, to int) { h.stream[to] |= h.stream[from] }

// returned notes that the host has waited for a batch.
func (h *history) returned(number int) { h.known |= h.before[number] | 1<<number }

// waited notes that the host has waited for a stream.
func (h *history) waited(stream int) { h.known |= h.stream[stream] }

// waitedForAll notes that the host has waited for everything.
func (h *history) waitedForAll() { h.known = 1<<len(h.before) - 1 }

// add enters the operations of a batch.
func (h *history) add(number int, events []event) {
	for i := range events {
		events[i].batch = number
	}
	h.events = append(h.events, events...)
}

// keys are those of the history so far, of batches under way and others, each
// once.
func (h *history) keys(others iter.Seq[uint64], underWay []event) []uint64 {
	all := slices.Collect(others)
	for _, e := range slices.Concat(h.events, underWay) {
		all = append(all, e.op.Key)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// complete adds to the events what shows in the end only.
func (h *history) complete(shape Shape) {
	slices.SortStableFunc(h.events, func(a, b event) int { return a.batch - b.batch })
	h.fill(shape)
	h.pass()
}

// fill notes whether the structure may have been full in a batch: as many
// operations as it has room for must have put something into it by then. Inserts
// that found no room may have run again, after what memory has seen of them.
func (h *history) fill(shape Shape) {
	entered := 0
	for lo, hi := 0, 0; lo < len(h.events); lo = hi {
		for hi = lo; hi < len(h.events) && h.events[hi].batch == h.events[lo].batch; hi++ {
			e := &h.events[hi]
			if e.op.Kind.Inserts() && (e.ok || !e.returns.OK) {
				entered++
			}
		}
		for i := lo; i < hi; i++ {
			e := &h.events[i]
			e.full = shape.Fixed && entered >= shape.Capacity
			if e.full && e.op.Kind.Inserts() {
				e.till = forever
			}
		}
	}
}

// pass notes the values that a lookup may meet beside a batch that does not
// return them all in some order: duplicates of a batch whose operations follow
// each other are there for a moment, and so are the first values of a
// multimap's key.
func (h *history) pass() {
	type place struct {
		key   uint64
		batch int
	}
	written := map[place][]uint64{}
	for _, e := range h.events {
		if (e.op.Kind == weft.OpPut || e.op.Kind == weft.OpPutNew) && (h.multi || e.rank > 0) {
			p := place{e.op.Key, e.batch}
			written[p] = append(written[p], e.op.Value)
		}
	}
	for i := range h.events {
		e := &h.events[i]
		if e.op.Kind != weft.OpGet {
			continue
		}
		for b := range h.before {
			if b == e.batch || h.before[b].has(e.batch) || h.before[e.batch].has(b) {
				continue
			}
			if vals := written[place{e.op.Key, b}]; len(vals) > 1 || h.multi {
				e.passing = append(e.passing, vals...)
			}
		}
	}
}

// precedes reports whether one event must precede another.
func (h *history) precedes(i, j int) bool {
	a, b := &h.events[i], &h.events[j]
	switch {
	case a.batch == b.batch && a.rank > 0:
		return a.rank < b.rank
	case a.batch == b.batch:
		return h.timed && a.till < b.from
	}
	return h.before[b.batch].has(a.batch) || h.timed && a.till < b.from
}

// check looks for an order of a history that keeps to its promises.
func (h *history) check() (steps int, err error) {
	if h.byBatch {
		return len(h.before), h.checkBatches()
	}
	if h.multi {
		return lenient(multiModel()).Check(h.events, h.precedes)
	}
	if h.reduces {
		return lenient(reduceModel(h.reduce)).Check(h.events, h.precedes)
	}
	return lenient(mapModel(h.reduce)).Check(h.events, h.precedes)
}

// lenient lets a model do what events leave open: lookups may have met a value
// in passing.
func lenient[S any](m *Model[S, event]) *Model[S, event] {
	step, hint := m.Step, m.Hint
	m.Step = func(s S, e event) ([]S, *event) {
		if e.passed() {
			return []S{s}, nil
		}
		return step(s, e)
	}
	m.Hint = func(e event) Hint {
		if e.passed() {
			return Hint{Pure: true, Size: -1}
		}
		if hint == nil {
			return Hint{Size: -1}
		}
		return hint(e)
	}
	return m
}

// passed reports whether a lookup has met a value in passing.
func (e *event) passed() bool {
	return e.op.Kind == weft.OpGet && e.ok && e.returns.Vals && slices.Contains(e.passing, e.val)
}
