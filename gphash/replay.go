package gphash

import (
	"encoding/binary"
	"fmt"

	"github.com/weftgo/weft/internal/op"
)

// replay applies the batches that a crash has left in the redo log, before anything else
// changes: so slots that were reserved for them are free, and so is memory for their
// values. It may itself be cut short, and begin again: what has been applied already is as
// the records say. Who only reads is refused: half of a batch may be there.
func (e *engine) replay(report *Report, repair bool) error {
	if e.redo == nil {
		return nil
	}
	left, err := e.redo.published()
	switch {
	case err != nil && !repair:
		return err
	case err != nil:
		report.Damaged++
		report.Damage = append(report.Damage, err.Error())
	case len(left) > 0 && e.pool.ReadOnly():
		return fmt.Errorf("%w: %d batches of the redo log have not been applied: open the pool for writing first", ErrReadOnly, len(left))
	}
	report.Torn = e.redo.torn()
	if e.pool.ReadOnly() {
		return nil
	}
	for _, b := range left {
		if rerr := e.reapply(b); rerr != nil {
			return rerr
		}
		report.Replayed++
	}
	report.Keys = e.Parts().(*parts).counters.Live
	if len(left) > 0 || err != nil || report.Torn {
		e.redo.retire()
	}
	return nil
}

// reapply applies a batch.
func (e *engine) reapply(b *redoBatch) error {
	if b.flags&flagWipe != 0 {
		e.wipe()
	}
	w := e.newWriter(nil, true)
	value := make([]byte, e.valueSize)
	e.values.alone = true
	err := e.redo.each(b, func(record []byte) error { return w.reapply(record, value) })
	tally := &e.Parts().(*parts).counters
	tally.Live += uint64(w.live)
	tally.Used += uint64(w.live + w.dead)
	return err
}

// reapply makes a key what a record says, if it is not. there is memory for a value.
func (w *writer) reapply(record, there []byte) error {
	word := binary.LittleEndian.Uint64(record)
	it, given := w.item(w.redo.keyOf(record)), w.redo.valueOf(record)
	w.region = w.values.region(it.hash, w.bits())
	p := w.probe(&it)
	var o outcome
	switch kind := word & 0xff; {
	case kind == recordAbsent:
		if p.ok {
			w.remove(p.at, p.found)
		}
	case kind != recordPresent:
		return fmt.Errorf("%w: redo log: a record of kind %d", op.ErrCorrupt, kind)
	case !p.ok:
		w.reserved(&p, &it, word>>8)
		o, _ = w.insert(&p, &it, given)
	default:
		if w.values.read(p.found.block(), there); string(there) != string(given) {
			o, _ = w.update(&p, &it, given, nil, nil)
		}
	}
	if o.full != nil {
		return fmt.Errorf("%w: redo log: there is no room for a key: %w", op.ErrCorrupt, o.full)
	}
	return nil
}

// reserved has a key go where a slot was reserved for it: others may find none elsewhere.
func (w *writer) reserved(p *probe, it *item, word uint64) {
	w.each(it.hash, func(bucket uint64, open bool) bool {
		if !open || word < bucket || word >= bucket+w.slots {
			return true
		}
		at := place{bucket, word - bucket}
		if c := control(w.mem.Load(word)); c.state() == empty {
			p.free, p.was, p.space = at, c, true
		}
		return false
	})
}
