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

// AnswersOf returns the answer columns of a batch.
func AnswersOf[V any](b *batch.Batch) Answers[V] {
	return Answers[V]{batch.View[V](b.Columns[batch.Vals].Host), batch.View[bool](b.Columns[batch.OK].Host)}
}

// Slice returns the answers for keys [lo,hi).
func (a Answers[V]) Slice(lo, hi int) Answers[V] {
	if a.Vals != nil {
		a.Vals = a.Vals[lo:hi]
	}
	if a.OK != nil {
		a.OK = a.OK[lo:hi]
	}
	return a
}

// WriteAnswer writes the answer for key i and returns 1 if the key is present. s is its slot, or
// nil if the key is absent.
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

// Changes holds the operations of a piece of a batch, or of a share, and their results. K and V are
// the types of the batch's columns as unsigned integers.
type Changes[K, V any] struct {
	Result
	Keys      []K
	ReuseDead bool // a new key may take any dead slot
	Reducing  bool // all operations combine values and return no result
	Multi     bool
	// Updates reports whether op.Update is supported.
	Updates bool

	flags  batch.Flags
	kind   op.Kind
	kinds  []op.Kind
	vals   []V
	out    []V
	ok     []bool
	counts []uint32
}

// ChangesOf returns the operations of a batch. In sets, new keys may always take dead slots: such
// slots do not keep the deleted key, and an operation has searched its whole path before it takes
// one.
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

// noOp is the kind of an operation without effect.
const noOp op.Kind = 255

// Kind returns the kind of operation i. It returns noOp for a reduction that the values do not
// support.
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

// Mixed reports whether the operations may have different kinds.
func (c *Changes[K, V]) Mixed() bool { return c.kinds != nil }

// Outcome is the outcome of one operation.
type Outcome struct {
	OK           bool
	ValueWritten bool // the previous value has been written to the output
	Overflowed   bool
	Removed      uint32 // number of pairs that DeleteAll removed
}

// WriteOutcome writes the outcome of operation i to the output columns.
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
	// memory as its input.
	if c.out != nil && !o.ValueWritten && !o.Overflowed {
		var zero V
		c.out[i] = zero
	}
}

// ApplyPresent runs operation i on the slot that holds its key.
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
			break // only multimaps support it
		}
		s.MarkDead()
		c.Live--
		return Outcome{OK: true, Removed: 1}
	}
	return Outcome{}
}

// CombinePresent runs reduction i on the slot that holds its key.
func CombinePresent[K, V any, SK Key, SV Val](c *Changes[K, V], i uint32, s *Slot[SK, SV]) {
	at := (*V)(unsafe.Pointer(&s.Val))
	if c.kind == op.Sum && c.flags&batch.Float == 0 {
		addInt(at, c.vals[i]) // the most frequent reduction
		return
	}
	reduce(c.flags, c.kind, at, c.vals[i])
}

// Insert stores the pair of operation i in an empty or dead slot.
func Insert[K, V any, SK Key, SV Val](c *Changes[K, V], i uint32, key SK, s *Slot[SK, SV]) Outcome {
	if s.Key == Sentinel[SK](Empty) {
		c.Used++
	}
	s.Key = key
	SetValue(c, i, s)
	c.Live++
	return Outcome{OK: true}
}

// SetValue stores the value of operation i in a slot.
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
