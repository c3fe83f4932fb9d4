package gphash

import (
	"fmt"

	"github.com/weftgo/weft/internal/op"
)

// replay applies the batches that a crash left in the redo log. It runs before slots are inspected,
// because slots that a batch reserved are still in state writing. If a crash interrupts replay, the
// next opening starts it again. A read-only pool with such batches is refused, since a batch may be
// partly applied.
func (e *engine) replay(report *Report, repair bool) error {
	if e.redo == nil {
		return nil
	}
	batches, err := e.redo.published()
	if _, closed := e.savedContents(); closed && err == nil && len(batches) > 0 {
		batches, err = nil, fmt.Errorf("%w: redo log: it has %d batches, but the pool was closed, which empties the log", op.ErrCorrupt, len(batches))
	}
	switch {
	case err != nil && !repair:
		return err
	case err != nil:
		report.Damaged++
		report.Damage = append(report.Damage, err.Error())
	case len(batches) > 0 && e.pool.ReadOnly():
		return fmt.Errorf("%w: %d batches of the redo log have not been applied: open the pool for writing first", ErrReadOnly, len(batches))
	}
	report.Torn = e.redo.torn()
	if e.pool.ReadOnly() {
		return nil
	}
	for _, b := range batches {
		if rerr := e.reapply(b); rerr != nil {
			return rerr
		}
		report.Replayed++
	}
	if len(batches) > 0 || err != nil || report.Torn {
		e.redo.truncate()
	}
	return nil
}

func (e *engine) reapply(b *redoBatch) error {
	if b.flags&flagWipe != 0 {
		e.wipe()
	}
	for i := range b.count {
		r := e.redo.record(b, i)
		if !e.isControl(r[0]) {
			return fmt.Errorf("%w: redo log: no slot begins at word %#x", op.ErrCorrupt, r[0])
		}
		e.mem.Store(r[0]+e.slots, r[2])
		e.mem.Store(r[0], r[1])
	}
	e.mem.Fence()
	return nil
}

func (t *table) isControl(at uint64) bool {
	for _, l := range t.live {
		if at >= l.base && at < l.base+t.bucketWords<<l.bits {
			return (at-l.base)%t.bucketWords < t.slots
		}
	}
	return false
}
