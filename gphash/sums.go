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

// Sums detect damage that looks like the effect of operations, such as a slot emptied by damage, or
// a page in an older state. Close stores the number of keys and two sums. The first sum covers, for
// all slots with keys, the places of the slots, their tags and the places of their values. The
// second sum covers the checksums of the values. The order of terms does not matter, so each core
// computes a part. The sums are taken modulo 2^64 over hashes with the seed of the pool. They
// exclude the versions of slots, which differ if a key gets the same value again.
//
// Opening a pool reads all slots anyway, and compares the number of keys and the first sum. Opening
// with Verify also compares the second sum. After a crash the pool has no stored sums.

func (t *table) slotSum(at slotRef, c control) uint64 {
	h := hash.Uint64(t.control(at), t.seed[0])
	return hash.Uint64(hash.Uint64(h^c.block(), t.seed[1])^t.mem.Load(t.tag(at)), t.seed[0])
}

// valueSum returns the term of a value in the sum over values. at is the word with its checksum.
func (t *table) valueSum(block, at uint64) uint64 {
	return hash.Uint64(hash.Uint64(block, t.seed[1])^t.mem.Load(at), t.seed[0])
}

// checksumAt returns the index of the word with a value's checksum. ok is false if none begins
// there.
func (v *values) checksumAt(block uint64) (at uint64, ok bool) {
	if v.records {
		return block, v.isBlock(block)
	}
	unit, i, ok := v.locate(block)
	return v.first + unit*v.unit + i, ok
}

// contents reads all slots on all cores and computes the number and the sums that Close stores.
// Slots without a value, which only damage leaves, add nothing to the sum over values.
func (e *engine) contents() (c pool.Contents) {
	var mu sync.Mutex
	for _, l := range e.live {
		e.Device.Parallel(1<<l.bits, inspectPiece, func(lo, hi int) {
			s := summer{table: e.table}
			for b := lo; b < hi; b++ {
				s.addBucket(l.base + uint64(b)*e.bucketWords)
			}
			s.flush()
			mu.Lock()
			defer mu.Unlock()
			c.Keys, c.Slots, c.Values = c.Keys+s.Keys, c.Slots+s.Slots, c.Values+s.Values
		})
	}
	return c
}

// summer computes one core's part of contents. Checksums are scattered over the pool, so summer
// prefetches them several slots before it reads them.
type summer struct {
	*table
	pool.Contents
	values [2 * cpu.Group]struct{ block, at uint64 }
	n      int
}

func (s *summer) addBucket(bucket uint64) {
	for slot := range s.slots {
		at := slotRef{bucket, slot}
		c := control(s.mem.Load(s.control(at)))
		if c.state() != full {
			continue
		}
		s.Keys++
		s.Slots += s.slotSum(at, c)
		if word, ok := s.table.values.checksumAt(c.block()); ok {
			s.addValue(c.block(), word)
		}
	}
}

// addValue adds a value to the pending ones and prefetches its checksum. If the pending values are
// too many, it first adds them to the sum.
func (s *summer) addValue(block, at uint64) {
	if s.n == len(s.values) {
		s.flush()
	}
	if p := s.mem.At(at); p != nil {
		cpu.PrefetchPairs([]unsafe.Pointer{p})
	}
	s.values[s.n].block, s.values[s.n].at = block, at
	s.n++
}

func (s *summer) flush() {
	for _, v := range s.values[:s.n] {
		s.Values += s.valueSum(v.block, v.at)
	}
	s.n = 0
}

// savedContents returns the contents that the last Close stored. ok is false if none are stored, or
// if the pool has changed since it was opened.
func (e *engine) savedContents() (c pool.Contents, ok bool) {
	if e.changed.Load() {
		return c, false
	}
	return e.pool.Contents()
}

// saveContents makes the pool store its contents on Close. No operation may be running. It returns
// weft's ErrCorrupt if slots have lost keys while the pool was open; the next Open then reports
// that, too.
func (e *engine) saveContents() error {
	if e.pool.ReadOnly() {
		return nil
	}
	if c, ok := e.savedContents(); ok {
		e.pool.SetContents(c) // recomputed contents would include damage
		return nil
	}
	c, live := e.contents(), e.Parts().(*parts).counters.Live
	found := c.Keys
	c.Keys = live
	e.pool.SetContents(c)
	if found != live {
		return fmt.Errorf("%w: found %d keys, but the counters say %d", op.ErrCorrupt, found, live)
	}
	return nil
}

// Close implements core.Engine.
func (e *engine) Close() error { return e.saveContents() }

// slotsDiffer describes damage that a GPU without Verify detects only in Check.
const slotsDiffer = "the slots differ from those that the pool had when it was closed"

// compare compares the result of an inspection with the contents that Close stored.
func (in *inspection) compare(saved pool.Contents) {
	in.Compared = true
	found := in.Keys + in.Damaged // damaged slots may have held keys
	switch {
	case found < saved.Keys:
		in.addLoss(saved.Keys-found, "the pool had %d keys when it was closed, but has %d",
			saved.Keys, in.Keys)
	case in.Damaged > 0: // damaged slots explain different sums
	case found > saved.Keys:
		in.addLoss(found-saved.Keys, "the pool had %d keys when it was closed, but has %d",
			saved.Keys, in.Keys)
	case in.sums.Slots != saved.Slots:
		in.addLoss(1, slotsDiffer)
	case in.verify && in.sums.Values != saved.Values:
		in.addLoss(1, "the values differ from those that the pool had when it was closed")
	}
}

func (in *inspection) addLoss(n uint64, format string, args ...any) {
	in.Damaged += n
	if len(in.Damage) < damageListed {
		in.Damage = append(in.Damage, fmt.Sprintf(format, args...))
	}
}
