package cpu

import (
	"unsafe"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

// Answers are the columns that a lookup writes.
type Answers[V any] struct {
	Vals []V
	OK   []bool
}

// AnswersOf returns those of a batch.
func AnswersOf[V any](b *batch.Batch) Answers[V] {
	return Answers[V]{batch.View[V](b.Columns[batch.Vals].Host), batch.View[bool](b.Columns[batch.OK].Host)}
}

// Of returns those of keys [lo,hi).
func (a Answers[V]) Of(lo, hi int) Answers[V] {
	if a.Vals != nil {
		a.Vals = a.Vals[lo:hi]
	}
	if a.OK != nil {
		a.OK = a.OK[lo:hi]
	}
	return a
}

// Write writes the result for key i and returns the number of hits; s is nil if the key is absent.
func Write[V any, SK Key, SV Val](a *Answers[V], i int, s *Slot[SK, SV]) (hits int) {
	var v V
	if s != nil {
		v, hits = *(*V)(unsafe.Pointer(&s.Val)), 1
	}
	if a.Vals != nil {
		a.Vals[i] = v
	}
	if a.OK != nil {
		a.OK[i] = s != nil
	}
	return hits
}

// Changes holds the operations of a piece of a batch, or a share of them, and their results. K and
// V are the types of the batch's columns as unsigned integers.
type Changes[K, V any] struct {
	Result
	Keys  []K
	Reuse bool // a new key may take any dead slot
	Quiet bool // all operations combine values and return nothing
	Multi bool
	// Updates: op.Update is supported.
	Updates bool

	flags  batch.Flags
	kind   op.Kind
	kinds  []op.Kind
	vals   []V
	out    []V
	ok     []bool
	counts []uint32
}

// ChangesOf returns those of a batch. Dead slots of sets keep no key, so any key may reuse them,
// whatever the batch: an operation has searched its whole path before it takes one.
func ChangesOf[K, V any](b *batch.Batch) Changes[K, V] {
	var v V
	return Changes[K, V]{
		Keys:   batch.View[K](b.Columns[batch.Keys].Host),
		Reuse:  b.Flags&batch.Reuse != 0 || unsafe.Sizeof(v) == 0,
		Multi:  b.Flags&batch.Multi != 0,
		Quiet:  b.Reduces(),
		flags:  b.Flags,
		kind:   b.Kind,
		kinds:  batch.View[op.Kind](b.Columns[batch.Kinds].Host),
		vals:   batch.View[V](b.Columns[batch.Vals].Host),
		out:    batch.View[V](b.Columns[batch.Out].Host),
		ok:     batch.View[bool](b.Columns[batch.OK].Host),
		counts: batch.View[uint32](b.Columns[batch.Counts].Host),
	}
}

// none is a kind of operations that does nothing.
const none op.Kind = 255

// Kind returns the kind of operation i, or none for a reduction that the values do not support.
func (c *Changes[K, V]) Kind(i uint32) op.Kind {
	if c.kinds == nil {
		return c.kind
	}
	k := c.kinds[i]
	if k.Reduces() && (c.vals == nil || c.Multi || k >= op.And && c.flags&batch.Float != 0) {
		return none
	}
	return k
}

// Mixes reports whether operations may be of several kinds.
func (c *Changes[K, V]) Mixes() bool { return c.kinds != nil }

// Outcome is the result of an operation.
type Outcome struct {
	OK       bool
	Answered bool   // the previous value has been written
	Full     bool   // the operation overflowed
	Removed  uint32 // pairs removed by DeleteAll
}

// Finish writes the outcome of operation i.
func (c *Changes[K, V]) Finish(i uint32, o Outcome) {
	if o.Full {
		c.Failed = append(c.Failed, i)
	}
	if c.ok != nil {
		c.ok[i] = o.OK
	}
	if c.counts != nil {
		c.counts[i] = o.Removed
	}
	// An operation that overflowed may run again with its own value, and its output may be the same
	// memory.
	if c.out != nil && !o.Answered && !o.Full {
		var none V
		c.out[i] = none
	}
}

// Present runs operation i on the slot of its key.
func Present[K, V any, SK Key, SV Val](c *Changes[K, V], i uint32, kind op.Kind, s *Slot[SK, SV]) Outcome {
	switch kind {
	case op.Get, op.PutNew:
		if c.out != nil {
			c.out[i] = *(*V)(unsafe.Pointer(&s.Val))
		}
		return Outcome{OK: kind == op.Get, Answered: true}
	case op.Put:
		Set(c, i, s)
	case op.Sum, op.Min, op.Max, op.And, op.Or:
		reduce(c.flags, kind, (*V)(unsafe.Pointer(&s.Val)), c.vals[i])
	case op.Delete, op.DeleteAll:
		if kind == op.DeleteAll && !c.Multi {
			break // maps and sets do not support it
		}
		s.Kill()
		c.Live--
		return Outcome{OK: true, Removed: 1}
	}
	return Outcome{}
}

// Combine runs operation i of Quiet ones on the slot of its key.
func Combine[K, V any, SK Key, SV Val](c *Changes[K, V], i uint32, s *Slot[SK, SV]) {
	at := (*V)(unsafe.Pointer(&s.Val))
	if c.kind == op.Sum && c.flags&batch.Float == 0 {
		add(at, c.vals[i]) // the most frequent case
		return
	}
	reduce(c.flags, c.kind, at, c.vals[i])
}

// Insert puts the pair of operation i in an empty or dead slot.
func Insert[K, V any, SK Key, SV Val](c *Changes[K, V], i uint32, key SK, s *Slot[SK, SV]) Outcome {
	if s.Key == Sentinel[SK](Empty) {
		c.Fresh++
	}
	s.Key = key
	Set(c, i, s)
	c.Live++
	return Outcome{OK: true}
}

// Set writes the value of operation i.
func Set[K, V any, SK Key, SV Val](c *Changes[K, V], i uint32, s *Slot[SK, SV]) {
	if c.vals == nil {
		return
	}
	var none SV
	if unsafe.Sizeof(c.vals[0]) < unsafe.Sizeof(none) {
		s.Val = none
	}
	*(*V)(unsafe.Pointer(&s.Val)) = c.vals[i]
}
