package dst

import (
	"iter"
	"math"
	"slices"

	"github.com/weftgo/weft"
)

// An event is one operation with its results and its times.
type event struct {
	op         weft.Op[uint64, uint64]
	batch      int
	rank       int // position in a batch with ordered operations, from 1
	returns    Returns
	ok         bool
	maybeFull  bool // it may not have fit
	val        uint64
	transient  []uint64 // values that a lookup may have found temporarily
	removed    int
	all        []uint64 // the values listed by a GetAll
	start, end int64
	begun      bool // start is known
}

// forever is later than all times.
const forever = math.MaxInt64

// A history has the results of a program's operations, and the order that the structure promises:
//
//   - batches of one stream, and those that an event orders, run in order,
//   - changes run in the order of submission or call, on any streams,
//   - a host lookup sees every change that returned before and every change submitted before; it
//     waits for nothing else,
//   - a batch that is submitted or called follows everything that the host has waited for.
//
// In sequentially consistent memory, an operation that ended before another began precedes it, too.
// An operation of a concurrent batch lasts from the first read of its key to the last write of its
// result. Others last from the submission of their batch to the host's wait for it. In weak memory,
// threads that do not synchronize have no common clock.
type history struct {
	events  []event
	timed   bool // times are significant
	multi   bool
	reduce  combining
	reduces bool // operations may combine values

	atomicBatches bool     // batches are atomic
	changes       batchSet // batches with effects
	removals      map[int]*addRemoval
	views         []view

	before     []batchSet // for each batch, its predecessors
	waited     batchSet   // batches that the host has waited for
	lastChange batchSet   // the last change and its predecessors
	streams    []batchSet // for each stream, its last batch and the predecessors
}

// batchSet is a set of batches.
type batchSet uint64

func (s batchSet) has(i int) bool { return s>>i&1 != 0 }

// addBatch assigns a number to a batch and records its predecessors.
func (h *history) addBatch(before batchSet) (addBatch int, with batchSet) {
	h.before = append(h.before, before)
	addBatch = len(h.before) - 1
	return addBatch, before | 1<<addBatch
}

// begin records that a batch is submitted to a stream.
func (h *history) begin(stream int, changes bool) int {
	before := h.waited | h.streams[stream]
	if changes {
		before |= h.lastChange
	}
	i, with := h.addBatch(before)
	h.streams[stream] = with
	h.change(i, changes, with)
	return i
}

// beginCall records a call by the host.
func (h *history) beginCall(changes bool) int {
	i, with := h.addBatch(h.waited | h.lastChange)
	h.change(i, changes, with)
	return i
}

// change records whether a batch changes something.
func (h *history) change(number int, changes bool, with batchSet) {
	if changes {
		h.lastChange = with
		h.changes |= 1 << number
	}
}

// link records that one stream waits for another.
func (h *history) link(from, to int) { h.streams[to] |= h.streams[from] }

// markReturned records that the host has waited for a batch.
func (h *history) markReturned(number int) { h.waited |= h.before[number] | 1<<number }

// markStreamWaited records that the host has waited for a stream.
func (h *history) markStreamWaited(stream int) { h.waited |= h.streams[stream] }

// markAllWaited records that the host has waited for everything.
func (h *history) markAllWaited() { h.waited = 1<<len(h.before) - 1 }

// add adds the operations of a batch.
func (h *history) add(number int, events []event) {
	for i := range events {
		events[i].batch = number
	}
	h.events = append(h.events, events...)
}

// keys returns the keys of the history so far, of running batches and of others, each once.
func (h *history) keys(keys iter.Seq[uint64], running []event) []uint64 {
	all := slices.Collect(keys)
	for _, e := range slices.Concat(h.events, running) {
		all = append(all, e.op.Key)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// complete adds to the events what is known only at the end.
func (h *history) complete(shape Shape) {
	slices.SortStableFunc(h.events, func(a, b event) int { return a.batch - b.batch })
	h.markFull(shape)
	h.recordTransients()
}

// markFull marks the events of each batch in which the structure may have been full: at least
// capacity operations must have inserted by then. Inserts that did not fit may have been repeated
// after the accesses that memory recorded.
func (h *history) markFull(shape Shape) {
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
			e.maybeFull = shape.Fixed && entered >= shape.Capacity
			if e.maybeFull && e.op.Kind.Inserts() {
				e.end = forever
			}
		}
	}
}

// recordTransients records the values that a lookup may find temporarily, alongside a batch that
// does not return them all in some order. These are the duplicates of an ordered batch, and the
// first values of a key in a multimap.
func (h *history) recordTransients() {
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
				e.transient = append(e.transient, vals...)
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
		return h.timed && a.end < b.start
	}
	return h.before[b.batch].has(a.batch) || h.timed && a.end < b.start
}

// check searches for an order of a history that keeps the promises.
func (h *history) check() (steps int, err error) {
	if h.atomicBatches {
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

// lenient extends a model by results that events leave open: lookups may have found a value
// temporarily.
func lenient[S any](m *Model[S, event]) *Model[S, event] {
	step, hint := m.Step, m.Hint
	m.Step = func(s S, e event) ([]S, *event) {
		if e.maybeTransient() {
			return []S{s}, nil
		}
		return step(s, e)
	}
	m.Hint = func(e event) Hint {
		if e.maybeTransient() {
			return Hint{Pure: true, Size: -1}
		}
		if hint == nil {
			return Hint{Size: -1}
		}
		return hint(e)
	}
	return m
}

// maybeTransient reports whether a lookup may have found its value temporarily.
func (e *event) maybeTransient() bool {
	return e.op.Kind == weft.OpGet && e.ok && e.returns.Vals && slices.Contains(e.transient, e.val)
}
