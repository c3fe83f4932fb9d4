package baseline

import (
	"fmt"
	"runtime"

	"github.com/weftgo/weft/internal/op"
)

// lock locks the span if it is still c. Other threads then wait for a new span.
func (t *clevel) lock(c span) bool {
	return t.mem.CompareAndSwap(t.first, uint64(c), uint64(c|locked))
}

// unlock makes a span durable and then publishes it to waiting threads.
func (t *clevel) unlock(c span) {
	t.mem.Store(t.first, uint64(c|locked))
	t.mem.Fence()
	t.mem.Store(t.first, uint64(c))
}

// expand adds a level, unless another thread has changed the span.
func (t *clevel) expand(c span) error {
	if !t.lock(c) {
		return nil
	}
	bits := c.high() + 1
	if bits >= maxLevels || t.next+bucketSlots<<bits > t.end {
		t.unlock(c)
		return fmt.Errorf("%w: no level of 2^%d buckets fits", errNoSpace, bits)
	}
	t.mem.Store(t.address(bits), t.next) // the memory is zero: memory of a level is never reused
	t.mem.Fence()
	t.next += bucketSlots << bits
	t.unlock(newSpan(c.low(), bits))
	return nil
}

// helpDrain moves the records of one bucket if a level is being drained.
func (t *clevel) helpDrain() {
	c := t.span()
	if !c.draining() {
		return
	}
	d := t.drain.Load()
	if d == nil || d.bits < c.low() {
		t.drain.CompareAndSwap(d, &drainState{bits: c.low()})
		d = t.drain.Load()
	}
	buckets := uint64(1) << d.bits
	if d.next.Load() >= buckets {
		return
	}
	b := d.next.Add(1) - 1
	if b >= buckets {
		return
	}
	at, all := t.mem.Load(t.address(d.bits))+b*bucketSlots, true
	for slot := at; slot < at+bucketSlots; slot++ {
		all = t.move(slot) && all
	}
	if all && d.done.Add(1) == buckets {
		t.removeLevel(d.bits)
	}
}

func (t *clevel) removeLevel(bits uint) {
	for {
		if c := t.span(); t.lock(c) {
			t.unlock(newSpan(bits+1, c.high()))
			return
		}
	}
}

// moveIfDrained moves a record up if its level is being drained or has been removed since the
// record was put there. No other thread may move the record.
func (t *clevel) moveIfDrained(slot uint64, bits uint) error {
	if bits < t.span().open() && !t.move(slot) && bits < t.span().low() {
		return errNoSpace
	}
	return nil
}

// move moves a record to the highest level. When it returns true, the slot is empty. It returns
// false if the highest level is full.
func (t *clevel) move(slot uint64) bool {
	is := slotWord(t.mem.Load(slot))
	for is == 0 || is.busy() || !t.mem.CompareAndSwap(slot, uint64(is), uint64(is|moving)) {
		if is == 0 {
			return true
		}
		runtime.Gosched() // another thread moves the record
		is = slotWord(t.mem.Load(slot))
	}
	it := t.itemOf(is)
	to, bits, ok := t.copyToTop(&it, is)
	if !ok {
		t.mem.Store(slot, uint64(is))
		return false
	}
	t.mem.Store(slot, uint64(is|moved)) // the copy must not change before this is durable
	t.mem.Fence()
	t.mem.Store(slot, 0)
	return t.moveIfDrained(to, bits) == nil
}

// copyToTop puts the record of a slot into the highest level, too.
func (t *clevel) copyToTop(it *item, is slotWord) (slot uint64, bits uint, ok bool) {
	for {
		c := t.span()
		if slot, bits, ok = t.freeSlot(it, c.high(), c.high()); !ok {
			if t.expand(c) == nil {
				continue
			}
			if slot, bits, ok = t.freeSlot(it, c.open(), c.high()); !ok {
				return slot, bits, false
			}
		}
		if t.mem.CompareAndSwap(slot, 0, uint64(is)) {
			t.mem.Fence()
			return slot, bits, true
		}
	}
}

func (t *clevel) itemOf(is slotWord) item {
	key := make([]byte, t.keySize)
	t.mem.Read(is.record(), key)
	return newItem(key, t.seed)
}

// recover repairs the state after a crash and determines the free records. If a crash interrupted a
// move, the record stays in the higher slot if it is there, else in the lower one.
func (t *clevel) recover() error {
	c := span(t.mem.Load(t.first)) &^ locked
	if c == 0 || c.high() >= maxLevels || c.low() > c.high() {
		return fmt.Errorf("%w: levels %d to %d", op.ErrCorrupt, c.low(), c.high())
	}
	t.mem.Store(t.first, uint64(c))
	t.drain.Store(nil)
	top := t.mem.Load(t.address(c.high()))
	t.next = top + bucketSlots<<c.high()
	var used []uint64
	for bits := c.high() + 1; bits > c.low(); bits-- {
		at := t.mem.Load(t.address(bits - 1))
		for slot := at; slot < at+bucketSlots<<(bits-1); slot++ {
			if record := t.repairSlot(slot, bits-1, c); record != 0 {
				used = append(used, record)
			}
		}
	}
	t.mem.Fence()
	t.records.rebuild(used)
	return nil
}

// repairSlot finishes or reverts the move of a slot and returns its record. The caller repairs
// levels from the highest down.
func (t *clevel) repairSlot(slot uint64, bits uint, c span) (record uint64) {
	is := slotWord(t.mem.Load(slot))
	if is == 0 {
		return 0
	}
	it := t.itemOf(is)
	kept := is &^ (moving | moved)
	if is&moved != 0 || t.inHigherLevel(&it, slot, bits, c) {
		kept = 0
	}
	if kept != is {
		t.mem.Store(slot, uint64(kept))
	}
	return kept.record()
}

// inHigherLevel reports whether a key is in a level above the slot's level, or in a slot of that
// level that has been repaired before.
func (t *clevel) inHigherLevel(it *item, slot uint64, bits uint, c span) (yes bool) {
	for b := bits; b <= c.high() && !yes; b++ {
		t.forEach(b, it, func(bucket uint64) bool {
			for s := bucket; s < bucket+bucketSlots && !yes; s++ {
				yes = (b > bits || s < slot) && t.is(slotWord(t.mem.Load(s)), it)
			}
			return !yes
		})
	}
	return yes
}
