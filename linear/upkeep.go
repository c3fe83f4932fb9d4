package linear

import (
	"context"
	"errors"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// Upkeep: when a table is rehashed, to what size, and what becomes of a rehash
// that does not fit. A rehash is a means; a call that has done its work does not
// fail because of one.

// cleanShare of the slots that MaxLoad leaves free may be dead in a fixed table
// before it is rehashed in place. NOTES.md has the measurement: less costs
// rehashes, more costs searches.
const cleanShare = 3.0 / 8

// cleanLoad is the largest MaxLoad that the share is reckoned from: beyond, next
// to nothing is free.
const cleanLoad = 0.875

// upkeep is what a table remembers for these decisions.
type upkeep struct {
	// liveBound and deadBound are not below the live and the dead slots, counting
	// submitted operations as inserts and deletes that have worked.
	liveBound, deadBound uint64
	// crowded is the number of keys with which shrinking did not help: it is tried
	// again when half of them are left.
	crowded uint64
	// stuck are the size and the counters with which doubling did not make room for
	// operations that found none.
	stuck struct {
		counters
		lines uint32
	}
}

// ---- fixed tables -------------------------------------------------------------

// unclean tells whether a table of so many live and dead slots should be rehashed
// in place; if not, it will be after n more insertions, at the earliest.
func (t *table) unclean(live, dead uint64) (now bool, n int) {
	slots, load := float64(t.slots()), min(t.opts.MaxLoad, cleanLoad)
	if float64(dead) < max(slots/128, 4) { // not worth a pass over the table
		return false, maxInt
	}
	// Both the slots in use and, if the table is fuller than it is made for, the
	// dead among the free.
	room := max(slots*(load+(1-load)*cleanShare)-float64(live+dead), slots-float64(live)-float64(dead)/cleanShare)
	return room <= 0, max(int(room), 1)
}

const maxInt = int(^uint(0) >> 1)

// clean rehashes a fixed table in place, if that is due before insertions. It
// returns how many may follow before it is looked at again.
func (t *table) clean(ctx context.Context, now counters) (counters, int, error) {
	due, n := t.unclean(now.live, now.used-now.live)
	if !due {
		return now, n, nil
	}
	now, _, err := t.dropDead(ctx)
	if err != nil {
		return now, 0, err
	}
	// If it was not possible, go on with the table as it is.
	if due, n = t.unclean(now.live, now.used-now.live); due {
		n = maxInt
	}
	return now, n, nil
}

// dropDead rehashes in place and counts. It reports false if that can't be done.
func (t *table) dropDead(ctx context.Context) (now counters, done bool, err error) {
	if done, err = t.engine.rehashInPlace(ctx); done {
		t.opts.Logger.Debug("linear: rehash in place", "lines", t.engine.geometry().lines)
	}
	now, cerr := t.count(context.WithoutCancel(ctx))
	return now, done, errors.Join(err, cerr)
}

// cleanOn is clean before a batch on the device. It waits for the true counters
// only if the bounds say that it may be due.
func (t *table) cleanOn(ctx context.Context, b *batch.Batch) error {
	if !t.opts.Fixed || !b.Inserts() {
		return nil
	}
	n := uint64(b.N)
	if due, _ := t.unclean(t.liveBound+n, t.deadBound); !due {
		return nil
	}
	now, err := t.count(ctx)
	if err != nil {
		return err
	}
	// Half of the dead slots that make it due will do, lest every batch waits.
	if due, _ := t.unclean(now.live+n, 2*(now.used-now.live)); !due {
		return nil
	}
	_, _, err = t.dropDead(ctx)
	return err
}

// submit notes what a batch on the device may do.
func (u *upkeep) submit(b *batch.Batch, n int) {
	if b.Inserts() {
		u.liveBound += uint64(n)
	}
	if b.Kinds.There() || b.Kind == weft.OpDelete {
		u.deadBound += uint64(n)
	}
}

// ---- tables that grow ---------------------------------------------------------

// resizeWithin rehashes to the smallest of some sizes, from lines on to at most
// most, that takes all keys. It returns weft.ErrFull if none does.
func (t *table) resizeWithin(ctx context.Context, lines, most uint32) (err error) {
	for {
		if err = t.resize(ctx, lines, false); !errors.Is(err, weft.ErrFull) || lines >= most {
			return err
		}
		lines = min(lines+lines/2+1, most)
	}
}

// shrink makes a table smaller that has become almost empty. If it can't, the
// table stays as it is.
func (t *table) shrink(ctx context.Context, now counters) {
	have := t.engine.geometry().lines
	if t.opts.Fixed || have <= t.minLines || have == 1 ||
		float64(now.live) > float64(t.slots())*t.opts.MaxLoad*shrinkShare || now.live > t.crowded/2 && t.crowded > 0 {
		return
	}
	lines, _ := linesFor(2*now.live, t.opts.MaxLoad, t.widths.Slot)
	if lines = max(lines, t.minLines); lines >= have {
		return
	}
	err := t.resizeWithin(ctx, lines, max(lines, have/2))
	switch {
	case err == nil:
		t.crowded = 0
	case errors.Is(err, weft.ErrFull):
		t.crowded = now.live
		fallthrough
	default: // the next batch tries again; this one has been run
		t.opts.Logger.Debug("linear: not shrunk", "lines", have, "error", err)
	}
}

// compacted rehashes to the size that Compact is to leave, or to the next larger
// that takes all keys; if there is none, the table stays as it is.
func (t *table) compacted(ctx context.Context, now counters) error {
	have := t.engine.geometry().lines
	if t.opts.Fixed {
		if now.used == now.live {
			return nil
		}
		_, done, err := t.dropDead(ctx)
		if done || err != nil {
			return err
		}
	}
	lines := have
	if !t.opts.Fixed {
		need, _ := linesFor(now.live, t.opts.MaxLoad, t.widths.Slot)
		lines = min(have, max(need, t.minLines))
	}
	most := have // the same size drops dead slots
	if now.used == now.live {
		most--
	}
	if lines > most {
		return nil
	}
	err := t.resizeWithin(ctx, lines, most)
	if errors.Is(err, weft.ErrFull) {
		return nil
	}
	return err
}

// ---- operations without room --------------------------------------------------

// retry runs operations again that found no room, after a rehash: a fixed table
// gets rid of its dead slots, a growing one was too crowded in one place. It
// returns those that failed again. If all have, a growing table is as it was.
func (t *table) retry(ctx context.Context, b *batch.Batch, failed []uint32) ([]uint32, error) {
	now, err := t.count(ctx)
	if err != nil || t.hopeless(now) {
		return failed, err
	}
	before, err := t.relax(ctx)
	if err != nil {
		// The operations count as not run. A fixed table is full in any case, and
		// so is one whose keys crowd.
		if errors.Is(err, weft.ErrFull) || t.opts.Fixed && errors.Is(err, device.ErrMemory) {
			err = nil
		}
		return failed, err
	}
	again := b.Gather(failed, t.widths)
	_, still, err := t.engine.change(ctx, again)
	b.Scatter(again, failed, t.widths)
	for i, j := range still {
		still[i] = failed[j]
	}
	switch {
	case before == nil:
		return still, err
	case len(still) == len(failed) && err == nil:
		t.stuck.counters, t.stuck.lines = now, before.lines
		return still, t.engine.revert(before)
	}
	return still, errors.Join(err, t.engine.release(before))
}

// relax makes room for operations that found none. If the table could be as it
// was, it returns the generation to go back to.
func (t *table) relax(ctx context.Context) (before *generation, err error) {
	lines := t.engine.geometry().lines
	if t.opts.Fixed {
		_, done, err := t.dropDead(ctx)
		if err == nil && !done {
			err = t.resize(ctx, lines, true)
		}
		return nil, err
	}
	before = t.engine.hold()
	if err := t.resize(ctx, uint32(min(2*uint64(lines), maxLines)), true); err != nil {
		return nil, errors.Join(err, t.engine.release(before))
	}
	return before, nil
}

// hopeless tells that nothing is to be expected of a rehash: there are no dead
// slots in a fixed table, or doubling did not help when the table was much the
// same.
func (t *table) hopeless(now counters) bool {
	if t.opts.Fixed {
		return now.used == now.live
	}
	s := t.stuck
	dead, most := now.used-now.live, s.used+s.used/8
	return t.engine.geometry().lines == s.lines && now.used <= most && dead <= s.used-s.live+s.used/8
}
