package gphash

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/hash"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/pool"
)

// Sums. A slot that damage has made empty, or a page of an older state of the pool, looks like what
// operations write. So Close stores how many keys there are and two sums: one over the slots that have
// keys, of where they are, their tags and where their values are; one over the checksums of the values.
// Sums have no order, so cores compute parts of them. They are kept modulo 2^64, of hashes by the seed of
// the pool. Versions of slots are not in them, which differ where a key has the same value again.
//
// Opening a pool reads all slots in any case, and compares their number and sum. Who verifies values
// compares the sum over their checksums, too. After a crash there are no sums.

// slotSum is what a slot adds to the sum over slots.
func (t *table) slotSum(at place, c control) uint64 {
	h := hash.Uint64(t.control(at), t.seed[0])
	return hash.Uint64(hash.Uint64(h^c.block(), t.seed[1])^t.mem.Load(t.tag(at)), t.seed[0])
}

// valueSum is what the value at a block adds to the sum over values; at is the word of its checksum.
func (t *table) valueSum(block, at uint64) uint64 {
	return hash.Uint64(hash.Uint64(block, t.seed[1])^t.mem.Load(at), t.seed[0])
}

// checksumAt returns the word that has the checksum of a value; ok is false if no value begins at the
// block.
func (v *values) checksumAt(block uint64) (at uint64, ok bool) {
	if v.records {
		return block, v.sound(block)
	}
	unit, i, ok := v.locate(block)
	return v.first + unit*v.unit + i, ok
}

// contents reads all slots on all cores, and counts and sums what Close stores. Slots that have no
// value, which nothing but damage leaves, add nothing to the sum over values.
func (e *engine) contents() (c pool.Contents) {
	var mu sync.Mutex
	for _, l := range e.live {
		e.Device.Parallel(1<<l.bits, inspectPiece, func(lo, hi int) {
			s := summer{table: e.table}
			for b := lo; b < hi; b++ {
				s.bucket(l.base + uint64(b)*e.bucketWords)
			}
			s.readValues()
			mu.Lock()
			defer mu.Unlock()
			c.Keys, c.Slots, c.Values = c.Keys+s.Keys, c.Slots+s.Slots, c.Values+s.Values
		})
	}
	return c
}

// summer is one core's part of contents. Checksums lie all over the pool, so each is asked for some slots
// before it is read.
type summer struct {
	*table
	pool.Contents
	values [2 * cpu.Group]struct{ block, at uint64 }
	n      int
}

func (s *summer) bucket(bucket uint64) {
	for slot := range s.slots {
		at := place{bucket, slot}
		c := control(s.mem.Load(s.control(at)))
		if c.state() != full {
			continue
		}
		s.Keys++
		s.Slots += s.slotSum(at, c)
		if word, ok := s.table.values.checksumAt(c.block()); ok {
			s.value(c.block(), word)
		}
	}
}

// value asks for the checksum of a value, and reads those before it if they are many.
func (s *summer) value(block, at uint64) {
	if s.n == len(s.values) {
		s.readValues()
	}
	if p := s.mem.At(at); p != nil {
		cpu.PrefetchPairs([]unsafe.Pointer{p})
	}
	s.values[s.n].block, s.values[s.n].at = block, at
	s.n++
}

func (s *summer) readValues() {
	for _, v := range s.values[:s.n] {
		s.Values += s.valueSum(v.block, v.at)
	}
	s.n = 0
}

// unchanged returns what the pool held when it was closed; ok is false if that is not known, or if the
// pool has been changed since it was opened.
func (e *engine) unchanged() (c pool.Contents, ok bool) {
	if e.changed.Load() {
		return c, false
	}
	return e.pool.Contents()
}

// seal has the pool store what it holds when it is closed. No operation is under way. Error: weft's
// ErrCorrupt, if slots have lost keys while the pool was open; then whoever opens it next finds that, too.
func (e *engine) seal() error {
	if e.pool.ReadOnly() {
		return nil
	}
	if c, ok := e.unchanged(); ok {
		e.pool.Seal(c) // not computed again, or damage would count as what was there
		return nil
	}
	c, live := e.contents(), e.Parts().(*parts).counters.Live
	found := c.Keys
	c.Keys = live
	e.pool.Seal(c)
	if found != live {
		return fmt.Errorf("%w: %d keys are there, and the counters say %d", op.ErrCorrupt, found, live)
	}
	return nil
}

// Close implements core.Engine.
func (e *engine) Close() error { return e.seal() }

// slotsDiffer is damage that a GPU without Verify leaves to Check.
const slotsDiffer = "the slots are not those that the pool had when it was closed"

// compare looks for what an inspection has not found that was there when the pool was closed.
func (in *inspection) compare(was pool.Contents) {
	in.Compared = true
	found := in.Keys + in.Damaged // slots that are damaged may have had keys
	switch {
	case found < was.Keys:
		in.miss(was.Keys-found, "the pool had %d keys when it was closed, and has %d", was.Keys, in.Keys)
	case in.Damaged > 0: // which says why sums differ
	case found > was.Keys:
		in.miss(found-was.Keys, "the pool had %d keys when it was closed, and has %d", was.Keys, in.Keys)
	case in.sums.Slots != was.Slots:
		in.miss(1, slotsDiffer)
	case in.verify && in.sums.Values != was.Values:
		in.miss(1, "the values are not those that the pool had when it was closed")
	}
}

// miss counts damage that lies in no slot.
func (in *inspection) miss(n uint64, what string, args ...any) {
	in.Damaged += n
	if len(in.Damage) < damageListed {
		in.Damage = append(in.Damage, fmt.Sprintf(what, args...))
	}
}
