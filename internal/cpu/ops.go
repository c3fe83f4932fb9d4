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

// Slice returns those of keys [lo,hi).
func (a Answers[V]) Slice(lo, hi int) Answers[V] {
	if a.Vals != nil {
		a.Vals = a.Vals[lo:hi]
	}
	if a.OK != nil {
		a.OK = a.OK[lo:hi]
	}
	return a
}

// WriteAnswer writes the result for key i and returns the number of hits; s is nil if the key is
// absent.
func WriteAnswer[V any, SK Key, SV Val](a *Answers[V], i int, s *Slot[SK, SV]) (hits int) {
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
	Keys      []K
	ReuseDead bool // a new key may take any dead slot
	Reducing  bool // all operations combine values and return nothing
	Multi     bool
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
		Keys:      batch.View[K](b.Columns[batch.Keys].Host),
		ReuseDead: b.Flags&batch.Reuse != 0 || unsafe.Sizeof(v) == 0,
		Multi:     b.Flags&batch.Multi != 0,
		Reducing:  b.Reduces(),
		flags:     b.Flags,
		kind:      b.Kind,
		kinds:     batch.View[op.Kind](b.Columns[batch.Kinds].Host),
		vals:      batch.View[V](b.Columns[batch.Vals].Host),
		out:       batch.View[V](b.Columns[batch.Out].Host),
		ok:        batch.View[bool](b.Columns[batch.OK].Host),
		counts:    batch.View[uint32](b.Columns[batch.Counts].Host),
	}
}

// noOp is a kind of operations that does nothing.
const noOp op.Kind = 255

// Kind returns the kind of operation i, or noOp for a reduction that the values do not support.
func (c *Changes[K, V]) Kind(i uint32) op.Kind {
	if c.kinds == nil {
		return c.kind
	}
	k := c.kinds[i]
	if k.Reduces() && (c.vals == nil || c.Multi || k >= op.And && c.flags&batch.Float != 0) {
		return noOp
	}
	return k
}

// Mixed reports whether operations may be of several kinds.
func (c *Changes[K, V]) Mixed() bool { return c.kinds != nil }

// Outcome is the result of an operation.
type Outcome struct {
	OK           bool
	ValueWritten bool   // the previous value has been written
	Overflowed   bool   // the operation overflowed
	Removed      uint32 // pairs removed by DeleteAll
}

// WriteOutcome writes the outcome of operation i.
func (c *Changes[K, V]) WriteOutcome(i uint32, o Outcome) {
	if o.Overflowed {
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
	if c.out != nil && !o.ValueWritten && !o.Overflowed {
		var zero V
		c.out[i] = zero
	}
}

// ApplyPresent runs operation i on the slot of its key.
func ApplyPresent[K, V any, SK Key, SV Val](c *Changes[K, V], i uint32, kind op.Kind, s *Slot[SK, SV]) Outcome {
	switch kind {
	case op.Get, op.PutNew:
		if c.out != nil {
			c.out[i] = *(*V)(unsafe.Pointer(&s.Val))
		}
		return Outcome{OK: kind == op.Get, ValueWritten: true}
	case op.Put:
		SetValue(c, i, s)
	case op.Sum, op.Min, op.Max, op.And, op.Or:
		reduce(c.flags, kind, (*V)(unsafe.Pointer(&s.Val)), c.vals[i])
	case op.Delete, op.DeleteAll:
		if kind == op.DeleteAll && !c.Multi {
			break // maps and sets do not support it
		}
		s.MarkDead()
		c.Live--
		return Outcome{OK: true, Removed: 1}
	}
	return Outcome{}
}

// CombinePresent runs reduction i on the slot of its key.
func CombinePresent[K, V any, SK Key, SV Val](c *Changes[K, V], i uint32, s *Slot[SK, SV]) {
	at := (*V)(unsafe.Pointer(&s.Val))
	if c.kind == op.Sum && c.flags&batch.Float == 0 {
		addInt(at, c.vals[i]) // the most frequent case
		return
	}
	reduce(c.flags, c.kind, at, c.vals[i])
}

// Insert puts the pair of operation i in an empty or dead slot.
func Insert[K, V any, SK Key, SV Val](c *Changes[K, V], i uint32, key SK, s *Slot[SK, SV]) Outcome {
	if s.Key == Sentinel[SK](Empty) {
		c.Used++
	}
	s.Key = key
	SetValue(c, i, s)
	c.Live++
	return Outcome{OK: true}
}

// SetValue writes the value of operation i.
func SetValue[K, V any, SK Key, SV Val](c *Changes[K, V], i uint32, s *Slot[SK, SV]) {
	if c.vals == nil {
		return
	}
	var zero SV
	if unsafe.Sizeof(c.vals[0]) < unsafe.Sizeof(zero) {
		s.Val = zero
	}
	*(*V)(unsafe.Pointer(&s.Val)) = c.vals[i]
}
