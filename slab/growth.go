package slab

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/alloc"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// Memory grows in two ways. More keys than the wanted utilisation allows for
// take more buckets: a rehash, before the batch. Longer chains take units of
// the pool, and that grows by super blocks, where nothing moves. How many units
// a batch takes is known afterwards: the pool is made to hold what is expected,
// and operations that find no unit run again when it has grown.

// bounds are what a table knows of itself without waiting for submitted
// batches.
type bounds struct {
	live, used uint64 // at most so many pairs, and slots that are not empty
	free       int    // at least so many units
}

// take notes that a change may have taken units.
func (b *bounds) take(units int) { b.free -= units }

// limit is the number of pairs at which the table grows.
func (t *table) limit() uint64 {
	return uint64(growShare * t.perBucket * float64(t.engine.geometry().buckets))
}

// grows tells whether the number of buckets may change.
func (t *table) grows() bool { return !t.opts.Fixed && t.opts.Buckets == 0 }

// worst is the number of units that a batch takes at most.
func (t *table) worst(b *batch.Batch) int {
	if !b.Inserts() {
		return 0
	}
	return mostChained(b.N, t.engine.geometry().buckets, t.widths.Slot)
}

// fits tells whether n insertions find room for sure, and the table needs no
// more buckets for them.
func (t *table) fits(n int) bool {
	return t.covered(n) && (!t.grows() || t.bounds.live+uint64(n) <= t.limit())
}

// covered tells whether the pool has units for n insertions, however they are
// spread.
func (t *table) covered(n int) bool {
	if t.opts.Fixed && t.bounds.used+uint64(n) <= uint64(t.opts.Capacity) {
		return true
	}
	// An operation has at most one unit in hand, linked or not.
	most := mostChained(n, t.engine.geometry().buckets, t.widths.Slot) + unitsInHand
	return min(n, most) <= t.bounds.free
}

// makeRoom grows the table, if it should, so that operations of a batch have
// room: the whole batch, or at least a piece. It returns how many are to be
// run. The batch lies on the device if there is a stream.
func (t *table) makeRoom(ctx context.Context, now counters, s *device.Stream, b *batch.Batch) (n int, err error) {
	if !t.grows() {
		return b.N, t.reserve(ctx, now, b.N)
	}
	piece := min(b.N, batch.Piece)
	if limit := t.limit(); now.live+uint64(piece) <= limit {
		n = min(b.N, int(limit-now.live))
		return n, t.reserve(ctx, now, n)
	}
	// Updates need no room. A lookup is cheaper than growing for nothing, and
	// its outcome tells how much room the whole batch is likely to need.
	need, err := b.Sub(0, piece, t.widths).Insertions(ctx, s)
	if err != nil {
		return 0, err
	}
	if now.live > 0 && (!t.multi || b.Kind == weft.OpPutNew) {
		there, err := t.engine.present(ctx, s, b.Sub(0, piece, t.widths))
		if err != nil {
			return 0, err
		}
		need = min(need, piece-there)
	}
	if now.live+uint64(need) > t.limit() {
		expect := uint64(float64(need) / float64(piece) * float64(b.N))
		if err := t.grow(ctx, now, expect, uint64(need)); err != nil {
			return 0, err
		}
	}
	return piece, t.reserve(ctx, now, need)
}

// grow rehashes for as many new pairs as are expected, or if there is no
// memory for that, for those of a piece. If there is none at all, chains get
// longer.
func (t *table) grow(ctx context.Context, now counters, expect, need uint64) error {
	have := uint64(t.engine.geometry().buckets)
	for _, fresh := range []uint64{expect, need} {
		buckets, ok := bucketsFor(now.live+fresh, t.perBucket)
		if !ok {
			buckets = maxBuckets
		}
		// At least double, so that growth costs each pair a constant number of
		// moves.
		if uint64(buckets) < 2*have {
			buckets = uint32(min(2*have, maxBuckets))
		}
		if uint64(buckets) == have {
			return nil
		}
		err := t.resize(ctx, buckets, now.live+fresh)
		if err == nil || !errors.Is(err, device.ErrMemory) && !errors.Is(err, weft.ErrFull) {
			return err
		}
	}
	return nil
}

// reserve makes sure that the pool has the units that n insertions are
// expected to need. If it cannot grow, the insertions find out.
func (t *table) reserve(ctx context.Context, now counters, n int) error {
	buckets := t.engine.geometry().buckets
	most := mostChained(n, buckets, t.widths.Slot)
	if t.opts.Fixed || most <= t.bounds.free {
		return nil
	}
	pool, err := t.look(ctx)
	if err != nil {
		return err
	}
	need := chainedFor(now.used+uint64(n), buckets, t.widths.Slot) - pool.Used
	if need = min(max(need, spareUnits), most); need <= t.bounds.free {
		return nil
	}
	return t.extend(ctx, need)
}

// look counts the units of the pool.
func (t *table) look(ctx context.Context) (alloc.Usage, error) {
	s, err := t.engine.pool().Usage(ctx)
	if err == nil {
		t.bounds.free = s.Units - s.Used
	}
	return s, err
}

// extend makes the pool have so many free units, as far as it can.
func (t *table) extend(ctx context.Context, free int) error {
	err := t.engine.pool().Reserve(ctx, free)
	if errors.Is(err, weft.ErrFull) || errors.Is(err, device.ErrMemory) {
		err = nil
	}
	if err != nil {
		return err
	}
	pool, err := t.look(ctx)
	t.opts.Logger.Debug("slab: pool", "units", pool.Units, "used", pool.Used, "bytes", pool.Bytes)
	return err
}

// retry runs operations again that found no room: a fixed table gets rid of
// dead slots first, in others the pool grows. It returns those that find none
// in the end.
func (t *table) retry(ctx context.Context, b *batch.Batch, failed []uint32) ([]uint32, error) {
	failed, err := t.unsettled(ctx, b, failed)
	for err == nil && len(failed) > 0 {
		var better bool
		if better, err = t.relieve(ctx, len(failed)); err != nil || !better {
			break
		}
		again := b.Gather(failed, t.widths)
		var still []uint32
		_, still, err = t.engine.change(ctx, again)
		t.bounds.take(t.worst(again))
		b.Scatter(again, failed, t.widths)
		if still, e := t.unsettled(ctx, again, still); e != nil {
			err = errors.Join(err, e)
		} else {
			for i, j := range still {
				still[i] = failed[j]
			}
			if t.opts.Fixed && len(still) == len(failed) {
				break // what memory there is does not help
			}
			failed = still
		}
	}
	return failed, err
}

// unsettled leaves out those of an ordered batch's operations without room
// whose key is there all the same: another operation on it found room, and
// what becomes of both has been settled.
func (t *table) unsettled(ctx context.Context, b *batch.Batch, failed []uint32) ([]uint32, error) {
	if !b.Ordered() || len(failed) == 0 {
		return failed, nil
	}
	found := make([]bool, len(failed))
	keys := b.Gather(failed, t.widths).Keys
	if _, err := t.engine.get(ctx, &batch.Batch{N: len(failed), Flags: t.mixed(), Keys: keys, OK: batch.Host(found)}); err != nil {
		return failed, err
	}
	left := failed[:0]
	for i, op := range failed {
		if !found[i] {
			left = append(left, op)
		}
	}
	return left, nil
}

// relieve makes room for n operations that found none. Each time it succeeds
// in a table that grows there are more free units than before; in a fixed one
// retry goes on as long as that helps. So it ends.
func (t *table) relieve(ctx context.Context, n int) (better bool, err error) {
	now, err := t.count(ctx)
	if err != nil {
		return false, err
	}
	if t.opts.Fixed {
		if now.used > now.live {
			return true, t.flushed(ctx)
		}
		// Units that others had in hand may be free again.
		pool, err := t.look(ctx)
		return pool.Used < pool.Units, err
	}
	pool, err := t.look(ctx)
	if err != nil {
		return false, err
	}
	// More than there are: that no unit was found shows that they are hard to
	// find.
	err = t.engine.pool().Reserve(ctx, t.bounds.free+n)
	switch {
	case errors.Is(err, weft.ErrFull): // no more super blocks: a pool of larger ones
		buckets := t.engine.geometry().buckets
		t.opts.Logger.Debug("slab: new pool", "units", 2*pool.Units)
		err = t.rehash(ctx, buckets, 2*(pool.Units+n))
	case errors.Is(err, device.ErrMemory) && now.used > now.live:
		err = t.flushed(ctx)
	}
	if err != nil {
		return false, err
	}
	_, err = t.look(ctx)
	return err == nil, err
}

// flushed flushes, and waits for that: the change that follows may fail before it
// is submitted, and then lookups on other streams come next.
func (t *table) flushed(ctx context.Context) error {
	if err := t.engine.flush(ctx); err != nil {
		return err
	}
	_, err := t.count(context.WithoutCancel(ctx))
	return err
}

// retryOn is retry for a batch on the device, which has done all it could.
func (t *table) retryOn(ctx context.Context, s *device.Stream, b *batch.Batch, failed []uint32) ([]uint32, error) {
	host, err := b.Fetch(ctx, s, t.widths)
	if err != nil {
		return failed, err
	}
	failed, err = t.retry(ctx, host, failed)
	return failed, errors.Join(err, b.Store(s, host))
}

// rehash has the engine rehash, if the device has memory for what comes of it.
func (t *table) rehash(ctx context.Context, buckets uint32, units int) error {
	if err := enough(t.dev, geometry{buckets: buckets}, units, t.opts.Fixed); err != nil {
		return err
	}
	return t.engine.rehash(ctx, buckets, units)
}

// resize rehashes to a number of buckets, with a pool for n pairs.
func (t *table) resize(ctx context.Context, buckets uint32, n uint64) error {
	have := t.engine.geometry().buckets
	units := chainedFor(n, buckets, t.widths.Slot)
	err := t.rehash(ctx, buckets, units)
	if errors.Is(err, weft.ErrFull) {
		// The keys are spread worse than by chance; so many will do in any case.
		units += ceilDiv(int(n), slotsIn(t.widths.Slot))
		err = t.rehash(ctx, buckets, units)
	}
	if err != nil {
		return err
	}
	t.bounds.free = 0 // not counted yet
	t.opts.Logger.Debug("slab: rehash", "from_buckets", have, "to_buckets", buckets, "units", units,
		"bytes", t.engine.geometry().bytes())
	return nil
}

// shrink makes a table smaller that has become almost empty.
func (t *table) shrink(ctx context.Context, now counters) error {
	have := t.engine.geometry().buckets
	if !t.grows() || have <= t.minBuckets || float64(now.live) > shrinkShare*float64(t.limit()) {
		return nil
	}
	buckets, _ := bucketsFor(2*now.live, t.perBucket)
	if buckets = max(buckets, t.minBuckets); buckets >= have {
		return nil
	}
	err := t.resize(ctx, buckets, 2*now.live)
	if errors.Is(err, device.ErrMemory) {
		return nil // the next batch tries again
	}
	return err
}

// tidy flushes a table that has many dead slots.
func (t *table) tidy(ctx context.Context, now counters) (counters, error) {
	dead := float64(now.used - now.live)
	slots := float64(t.engine.geometry().buckets) * float64(slotsIn(t.widths.Slot))
	if t.opts.MaxTombstones < 0 || dead <= t.opts.MaxTombstones*float64(now.used) || dead < flushShare*slots {
		return now, nil
	}
	t.opts.Logger.Debug("slab: flush", "live", now.live, "dead", now.used-now.live)
	if err := t.engine.flush(ctx); err != nil {
		return now, fmt.Errorf("flush: %w", err)
	}
	return t.count(context.WithoutCancel(ctx))
}
