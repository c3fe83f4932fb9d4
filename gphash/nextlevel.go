package gphash

import (
	"fmt"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/pm"
)

// The level that an index grows by is zeroed before it is needed. In mode Beside, each batch also
// zeroes a piece of the next level, in memory that values do not need. The batch that grows the
// index then only publishes the level. Until then nothing in the pool refers to the level, so its
// memory is free after a crash. The memory also becomes free if values find no other memory.

type nextLevel struct {
	level
	first, units uint64 // first unit in the pool, and number of units
	zeroed       uint64 // number of zeroed buckets
}

// zeroPerOp is the number of slots that a batch zeroes per operation. Zeroing begins at the load
// below which an index does not grow, and ends when another quarter of the slots is taken. The
// first key without a slot comes later.
const zeroPerOp = 8

// allocNext allocates memory for the next level. If necessary, it frees memory of values first.
func (e *engine) allocNext(top level) error {
	if err := e.fetchSpace(); err != nil {
		return err
	}
	v, units := e.values, e.unitsOf(top)
	first, ok := v.space.allocLevel(units)
	if !ok {
		v.releaseEmptyUnits()
		first, ok = v.space.allocLevel(units)
	}
	for retry := e.records(); !ok && retry; {
		freed, err := e.freeRuns(1, maxRunUnits)
		if err != nil {
			return err
		}
		first, ok = v.space.allocLevel(units)
		retry = freed > 0
	}
	if !ok {
		return fmt.Errorf("%w: a level of 2^%d buckets takes %d bytes in one piece", errNoSpace, top.bits, units*v.unit*pm.Word)
	}
	e.setNext(top, first, units)
	return nil
}

func (e *engine) setNext(top level, first, units uint64) {
	top.base = e.values.first + first*e.values.unit
	e.next = &nextLevel{level: top, first: first, units: units}
}

// zeroNext zeroes the given number of buckets of the next level, or all that are left.
func (e *engine) zeroNext(buckets uint64) error {
	l := e.next
	n := min(buckets, 1<<l.bits-l.zeroed)
	if n == 0 {
		return nil
	}
	lo := l.base + l.zeroed*e.bucketWords
	if err := e.clearWords(lo, lo+n*e.bucketWords); err != nil {
		return err
	}
	l.zeroed, e.nZeroed = l.zeroed+n, e.nZeroed+n
	return nil
}

// releaseNext frees the memory of the next level, so that values can use it.
func (e *engine) releaseNext() error {
	l := e.next
	if l == nil {
		return nil
	}
	if err := e.fetchSpace(); err != nil {
		return err
	}
	e.next, e.skippedLevel = nil, l.bits
	e.values.space.releaseUnits(l.first, l.units)
	return e.sendSpace()
}

// zeroAhead zeroes a piece of the next level before a batch runs n operations.
func (p *policy) zeroAhead(now core.Counters, b *batch.Batch, n int) error {
	slots := p.slotsIn(p.openLevels())
	if p.resize == Stop || float64(now.Live) < p.minGrowLoad()*float64(slots) {
		return nil
	}
	if p.next == nil {
		if err := p.preallocLevel(b, slots+uint64(n)-min(now.Live, slots)); err != nil || p.next == nil {
			return err
		}
	}
	return p.zeroNext(zeroPerOp*uint64(n)/p.slots + 1)
}

// preallocLevel allocates the next level if the remaining memory still fits the given number of
// values. Otherwise it does not try again, and the batch that grows the index does all the work.
func (p *policy) preallocLevel(b *batch.Batch, values uint64) error {
	top := level{bits: p.live[0].bits + 1}
	if top.bits >= maxLevels || top.bits == p.skippedLevel {
		return nil
	}
	if err := p.fetchSpace(); err != nil {
		return err
	}
	p.skippedLevel = top.bits
	units := p.unitsOf(top)
	if p.values.freeValues(p.typicalClass(b), units) < values {
		return nil
	}
	if first, ok := p.values.space.allocLevel(units); ok {
		p.setNext(top, first, units)
	}
	return p.sendSpace() // so that no change takes the level's units for values
}
