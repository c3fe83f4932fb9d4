package dst

import (
	"iter"
	"math"
	"slices"

	"github.com/weftgo/weft"
)

// event is one operation with its results, its start and its end.
type event struct {
	op         weft.Op[uint64, uint64]
	batch      int
	rank       int // position in the batch, from 1, if the batch runs in order; otherwise 0
	returns    Returns
	ok         bool
	maybeFull  bool // the operation may have overflowed
	val        uint64
	transient  []uint64 // values that a lookup may have found temporarily
	removed    int
	all        []uint64 // values that a GetAll listed
	start, end int64
	begun      bool // start is known
}

const forever = math.MaxInt64

// history holds the results of a program's operations, and the order that the structure promises:
//
//   - Batches of one stream, and batches that an event orders, run in order.
//   - Changes run in the order of submission or call, on any streams.
//   - A host lookup sees every change that returned before it and every change submitted before it.
//     It waits for nothing else.
//   - A batch that is submitted or called follows everything that the host has waited for.
//
// In sequentially consistent memory, an operation that ended before another operation began also
// precedes it. An operation of a concurrent batch lasts from the first read of its key to the last
// write of its result. Other operations last from the submission of their batch until the host has
// waited for it. In weak memory, threads that do not synchronize have no common clock.
type history struct {
	events  []event
	timed   bool // operations that ended before another began precede it
	multi   bool
	reduce  combining
	reduces bool // operations may combine values

	atomicBatches bool     // each batch takes effect at once
	changes       batchSet // batches that may change the structure
	removals      map[int]*addRemoval
	views         []view

	before     []batchSet // predecessors of each batch
	waited     batchSet   // batches that the host has waited for
	lastChange batchSet   // the last change and its predecessors
	streams    []batchSet // for each stream, its last batch and that batch's predecessors
}

type batchSet uint64

func (s batchSet) has(i int) bool { return s>>i&1 != 0 }

// addBatch assigns a number to a batch and records its predecessors. The set with contains the
// batch and its predecessors.
func (h *history) addBatch(before batchSet) (addBatch int, with batchSet) {
	h.before = append(h.before, before)
	addBatch = len(h.before) - 1
	return addBatch, before | 1<<addBatch
}

// begin records the submission of a batch to a stream and returns the batch's number.
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

// beginCall records a call by the host and returns the number of its batch.
func (h *history) beginCall(changes bool) int {
	i, with := h.addBatch(h.waited | h.lastChange)
	h.change(i, changes, with)
	return i
}

// change records that a batch may change the structure, if changes is set.
func (h *history) change(number int, changes bool, with batchSet) {
	if changes {
		h.lastChange = with
		h.changes |= 1 << number
	}
}

func (h *history) link(from, to int) { h.streams[to] |= h.streams[from] }

func (h *history) markReturned(number int) { h.waited |= h.before[number] | 1<<number }

func (h *history) markStreamWaited(stream int) { h.waited |= h.streams[stream] }

func (h *history) markAllWaited() { h.waited = 1<<len(h.before) - 1 }

func (h *history) add(number int, events []event) {
	for i := range events {
		events[i].batch = number
	}
	h.events = append(h.events, events...)
}

// keys returns the distinct keys of the given sequence, of the history so far, and of the running
// events.
func (h *history) keys(keys iter.Seq[uint64], running []event) []uint64 {
	all := slices.Collect(keys)
	for _, e := range slices.Concat(h.events, running) {
		all = append(all, e.op.Key)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// complete adds to the events the facts that are known only at the end.
func (h *history) complete(shape Shape) {
	slices.SortStableFunc(h.events, func(a, b event) int { return a.batch - b.batch })
	h.markFull(shape)
	h.recordTransients()
}

// markFull marks the events of batches in which the structure may have been full. It may be full
// once at least Capacity operations have inserted. Insertions in such batches get no end, because
// they may have overflowed and run again after their recorded memory accesses.
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

// recordTransients records the values that a lookup may find temporarily while another batch runs,
// although no order of operations explains them. These are the duplicates in an ordered batch, and
// the first values of a key in a multimap.
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

// check searches for an order of the events that explains their results and that the structure
// permits.
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

// lenient returns m extended by lookups that may have found a value temporarily. Such a lookup is
// possible in any state.
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
