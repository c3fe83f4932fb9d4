package slab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weftgo/weft/alloc"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/observe"
	"github.com/weftgo/weft/internal/op"
)

// policy decides when a table grows, shrinks and drops dead slots.
//
// A table grows in two ways. If it has more keys than MaxLoad allows, a rehash before the batch
// adds buckets. Longer chains take units of the pool, which grows by super blocks and moves
// nothing. The number of units that a batch takes is known only after the batch has run. So before
// a batch the pool grows to the expected number. Operations that find no unit are retried after the
// pool has grown again.
type policy struct {
	opts   Options
	widths batch.Widths
	multi  bool
	engine engine

	// perBucket is the mean number of pairs per bucket that reaches MaxLoad, if keys have perKey
	// pairs. minBuckets is the number of buckets for Capacity keys with one pair each.
	perBucket  float64
	perKey     float64
	minBuckets uint32

	free int // lower bound on the number of free units in the pool
}

// initialUnits returns the number of units of a new table. It sets perBucket and minBuckets.
func (p *policy) initialUnits() (units int, err error) {
	o, slot := &p.opts, p.widths.Slot
	var ok bool
	p.perKey = 1
	if p.perBucket, ok = pairsPerBucket(o.MaxLoad, p.perKey, slot); !ok {
		return 0, fmt.Errorf("%w: slabs with slots of %d bytes cannot have a MaxLoad of %v",
			op.ErrOptions, slot, o.MaxLoad)
	}
	if p.minBuckets, ok = bucketsFor(uint64(o.Capacity), p.perBucket); !ok && o.Buckets == 0 {
		return 0, fmt.Errorf("%w: Capacity %d at load %v needs more than %d GiB", op.ErrOptions, o.Capacity, o.MaxLoad, core.LinesBytes(maxBuckets)>>30)
	}
	if o.Buckets != 0 {
		p.minBuckets = uint32(o.Buckets)
	}
	units = chainedFor(uint64(o.Capacity), p.perKey, p.minBuckets, slot)
	switch {
	case o.Fixed:
		units = ceilDiv(o.Capacity, slotsIn(slot)) + min(o.Capacity, maxUnlinked)
	case o.Buckets != 0: // only the pool grows
		units = max(units, chainUnits)
	}
	if units > maxUnits {
		return 0, fmt.Errorf("%w: Capacity %d takes %d slabs of %d bytes from a pool that has %d at most", op.ErrOptions, o.Capacity, units, slabBytes, maxUnits)
	}
	return units, nil
}

// Flags implements core.Policy.
func (p *policy) Flags(kind op.Kind) batch.Flags {
	f := p.MixedFlags()
	// In a multimap, all other operations take effect for each duplicate.
	if !p.opts.Unordered && !kind.Reduces() && (!p.multi || kind == op.PutNew) {
		f |= batch.Order
	}
	// In a multimap, the order of slots is the order of a key's pairs.
	if kind != op.Delete && !p.multi {
		f |= batch.Reuse
	}
	return f
}

// MixedFlags implements core.Policy.
func (p *policy) MixedFlags() batch.Flags {
	if p.multi {
		return batch.Multi
	}
	return 0
}

// Describe implements core.Policy.
func (p *policy) Describe() string { return fmt.Sprintf("in %d buckets", p.buckets()) }

func (p *policy) buckets() uint32 { return p.engine.geometry().buckets }

// limit returns the number of pairs above which the table grows.
func (p *policy) limit() uint64 { return p.limitOf(p.buckets()) }

func (p *policy) limitOf(buckets uint32) uint64 {
	return uint64(growShare * p.perBucket * float64(buckets))
}

// grows reports whether the number of buckets may change.
func (p *policy) grows() bool { return !p.opts.Fixed && p.opts.Buckets == 0 }

// fits reports whether n insertions certainly find free slots, and the table need not grow.
func (p *policy) fits(now core.Counters, n int) bool {
	return p.covered(now, n) && (!p.grows() || now.Live+uint64(n) <= p.limit())
}

// covered reports whether the pool has units for n insertions, however they are distributed over
// the buckets.
func (p *policy) covered(now core.Counters, n int) bool {
	if p.opts.Fixed && now.Used+uint64(n) <= uint64(p.opts.Capacity) {
		return true
	}
	// An operation takes at most one unit, even if it does not link it.
	return min(n, p.worstCase(n)+maxUnlinked) <= p.free
}

// worstCase returns the maximum number of units that n insertions take.
func (p *policy) worstCase(n int) int { return maxChained(n, p.buckets(), p.widths.Slot) }

// Prepare implements core.Policy. For a batch on a stream that cannot overflow, Prepare does not
// wait. If the batch may overflow, report is true.
func (p *policy) Prepare(ctx context.Context, now core.Counters, s *device.Stream, b *batch.Batch) (n int, report bool, err error) {
	switch {
	case s != nil && p.fits(now, b.N):
		n = b.N
	case !now.Exact:
		return 0, false, nil
	default:
		if s != nil {
			if now, err = p.maybeFlush(ctx, now); err != nil {
				return 0, false, err
			}
		}
		if n, err = p.ensureCapacity(ctx, now, s, b); err != nil {
			return 0, false, err
		}
		if s != nil && p.opts.Fixed && !p.covered(now, n) {
			if _, err = p.countPool(ctx); err != nil {
				return 0, false, err
			}
		}
		report = s != nil && !p.covered(now, n)
	}
	p.free -= p.worstCase(n)
	return n, report, nil
}

// ensureCapacity grows the table, if needed, for the whole batch or at least for a chunk of it. It
// returns the number of operations that may run.
func (p *policy) ensureCapacity(ctx context.Context, now core.Counters, s *device.Stream, b *batch.Batch) (n int, err error) {
	if !p.grows() {
		return b.N, p.reserve(ctx, now, b.N)
	}
	chunk := min(b.N, core.ChunkOps)
	if now.Live+uint64(chunk) > p.limit() {
		if _, err := p.updatePerKey(ctx, now); err != nil {
			return 0, err
		}
	}
	if limit := p.limit(); now.Live+uint64(chunk) <= limit {
		n = min(b.N, int(limit-now.Live))
		return n, p.reserve(ctx, now, n)
	}
	required, expected, err := p.countNewPairs(ctx, now, s, b.Chunk(0, chunk), b.N)
	if err != nil {
		return 0, err
	}
	if now.Live+uint64(required) > p.limit() {
		if err := p.grow(ctx, now, uint64(expected), uint64(required)); err != nil {
			return 0, err
		}
	}
	return chunk, p.reserve(ctx, now, required)
}

// countNewPairs estimates the number of new pairs among the operations of b, and expect among total
// operations of that kind. In a multimap all inserted pairs are new.
func (p *policy) countNewPairs(ctx context.Context, now core.Counters, s *device.Stream, b *batch.Batch, total int) (countNewPairs, expect int, err error) {
	if p.multi && b.Kind != op.PutNew {
		countNewPairs, err = b.CountInserts(ctx, s)
		return countNewPairs, int(float64(countNewPairs) / float64(b.N) * float64(total)), err
	}
	return core.EstimateInserts(ctx, p.engine, now, s, b, total, p.opts.Seed)
}

// grow rehashes for the expected number of new pairs. If memory is too small for that, it rehashes
// for the required number. If that fails, too, chains get longer.
func (p *policy) grow(ctx context.Context, now core.Counters, expected, required uint64) error {
	current := uint64(p.buckets())
	for _, fresh := range []uint64{expected, required} {
		buckets, ok := bucketsFor(now.Live+fresh, p.perBucket)
		if !ok {
			buckets = maxBuckets
		}
		buckets = max(buckets, p.minGrowth(current))
		if uint64(buckets) == current {
			return nil
		}
		n := now.Live + fresh
		if p.perKey > 1 {
			// The pool, which grows in steps, takes most of the memory. Reserve all that buckets
			// need.
			n = max(n, p.limitOf(buckets))
		}
		err := p.resize(ctx, buckets, n)
		if err == nil || !noMemory(err) {
			return err
		}
	}
	return nil
}

// minGrowth returns the minimum number of buckets to which a table grows: twice the current number.
// If keys have several pairs, so that buckets are often empty, it is one and a half times. So
// growth moves each pair a constant number of times.
func (p *policy) minGrowth(current uint64) uint32 {
	extra := current
	if p.perKey > 1 {
		extra = current/2 + 1
	}
	return uint32(min(current+extra, maxBuckets))
}

// noMemory reports whether err is a lack of memory, so that a smaller size may succeed.
func noMemory(err error) bool { return errors.Is(err, device.ErrMemory) || errors.Is(err, op.ErrFull) }

// reserve ensures that the pool has the units that n insertions are expected to take. If the pool
// cannot grow, reserve returns no error, and insertions may overflow.
func (p *policy) reserve(ctx context.Context, now core.Counters, n int) error {
	limit := p.worstCase(n)
	if p.opts.Fixed || limit <= p.free {
		return nil
	}
	pool, err := p.updatePerKey(ctx, now)
	if err != nil {
		return err
	}
	required := chainedFor(now.Used+uint64(n), p.perKey, p.buckets(), p.widths.Slot) - pool.Used
	if required = min(max(required, spareUnits), limit); required <= p.free {
		return nil
	}
	if err := p.engine.units().Reserve(ctx, required); err != nil && !noMemory(err) {
		return err
	}
	pool, err = p.countPool(ctx)
	p.opts.Logger.Debug("slab: pool", "units", pool.Units, "used", pool.Used)
	return err
}

// Reserve implements core.Reserver. The pool gets units for any distribution of the pairs, since
// insertions that find no unit are not retried.
func (p *policy) Reserve(ctx context.Context, now core.Counters, n int) (ok bool, err error) {
	if p.fits(now, n) {
		p.free -= p.worstCase(n)
		return true, nil
	}
	if !now.Exact {
		return false, nil
	}
	if now, err = p.maybeFlush(ctx, now); err != nil {
		return false, err
	}
	if _, err = p.updatePerKey(ctx, now); err != nil {
		return false, err
	}
	if p.grows() && now.Live+uint64(n) > p.limit() {
		if err = p.grow(ctx, now, uint64(n), uint64(n)); err != nil {
			return false, err
		}
	}
	if !p.opts.Fixed && !p.covered(now, n) {
		if err = p.reserveWorstCase(ctx, n); err != nil {
			return false, err
		}
	}
	p.free -= p.worstCase(n)
	return true, nil
}

// reserveWorstCase grows the pool to the maximum number of units that n insertions take.
func (p *policy) reserveWorstCase(ctx context.Context, n int) error {
	required := min(n, p.worstCase(n)+maxUnlinked)
	err := p.engine.units().Reserve(ctx, required)
	if errors.Is(err, op.ErrFull) { // the maximum of super blocks: rehash to larger ones
		var pool alloc.Usage
		if pool, err = p.countPool(ctx); err == nil {
			err = p.engine.rehash(ctx, p.buckets(), 2*(pool.Units+required))
		}
	}
	if err == nil {
		_, err = p.countPool(ctx)
	}
	return err
}

// countPool counts the units of the pool and sets p.free.
func (p *policy) countPool(ctx context.Context) (alloc.Usage, error) {
	s, err := p.engine.units().Usage(ctx)
	if err == nil {
		p.free = s.Units - s.Used
	}
	return s, err
}

// updatePerKey counts the units of the pool. In a multimap it also estimates the number of pairs
// per key from them.
func (p *policy) updatePerKey(ctx context.Context, now core.Counters) (alloc.Usage, error) {
	s, err := p.countPool(ctx)
	if err != nil || !p.multi || !p.grows() {
		return s, err
	}
	perKey := pairsPerKey(now.Used, p.buckets(), s.Used, p.widths.Slot)
	if perKey == p.perKey {
		return s, nil // usually, with one pair per key
	}
	p.perKey = perKey
	if per, ok := pairsPerBucket(p.opts.MaxLoad, p.perKey, p.widths.Slot); ok {
		p.perBucket = per
	}
	return s, nil
}

// Retry implements core.Policy. A fixed table flushes dead slots and retries while that helps. In
// other tables it allocates more units before each retry.
func (p *policy) Retry(ctx context.Context, now core.Counters, failed *batch.Batch) (remaining []uint32, retry bool, err error) {
	freed, err := p.makeSpace(ctx, now, failed.N)
	if err != nil || !freed {
		return core.AllRows(failed.N), false, err
	}
	remaining, err = core.Rerun(ctx, p.engine, failed)
	p.free -= p.worstCase(failed.N)
	return remaining, !p.opts.Fixed || len(remaining) < failed.N, err
}

// makeSpace frees or adds memory for n operations that found no slot. It reports whether it could.
func (p *policy) makeSpace(ctx context.Context, now core.Counters, n int) (freed bool, err error) {
	pool, err := p.countPool(ctx)
	if err != nil {
		return false, err
	}
	if p.opts.Fixed {
		// Beyond Capacity, flush only if that pays off.
		if now.Dead > 0 && (now.Live < uint64(p.opts.Capacity) || p.dirty(now)) {
			return true, p.engine.flush(ctx)
		}
		// Units that other operations had taken may be free again.
		return pool.Used < pool.Units, nil
	}
	// Reserve more than n units, since the last free units are hard to find.
	err = p.engine.units().Reserve(ctx, p.free+n)
	switch {
	case errors.Is(err, op.ErrFull): // the maximum of super blocks: rehash to larger ones
		p.opts.Logger.Debug("slab: new pool", "units", 2*pool.Units)
		err = p.engine.rehash(ctx, p.buckets(), 2*(pool.Units+n))
	case errors.Is(err, device.ErrMemory) && now.Dead > 0:
		err = p.engine.flush(ctx)
	}
	if err != nil {
		return false, err
	}
	_, err = p.countPool(ctx)
	return err == nil, err
}

// Trim implements core.Policy.
func (p *policy) Trim(ctx context.Context, now core.Counters, delta int) error {
	now, err := p.maybeFlush(ctx, now)
	if err == nil && delta < 0 {
		err = p.shrink(ctx, now)
	}
	return err
}

// dirty reports whether enough slots are dead for a flush to pay off.
func (p *policy) dirty(now core.Counters) bool {
	return float64(now.Dead) >= flushShare*float64(p.buckets())*float64(slotsIn(p.widths.Slot))
}

// maybeFlush flushes a table with many dead slots. It returns the counters after the flush.
func (p *policy) maybeFlush(ctx context.Context, now core.Counters) (core.Counters, error) {
	if p.opts.MaxTombstones < 0 || float64(now.Dead) <= p.opts.MaxTombstones*float64(now.Used) || !p.dirty(now) {
		return now, nil
	}
	p.opts.Logger.Debug("slab: flush", "live", now.Live, "dead", now.Dead)
	if err := p.engine.flush(ctx); err != nil {
		return now, fmt.Errorf("flush: %w", err)
	}
	now, err := p.engine.ReadCounters(context.WithoutCancel(ctx))
	now.Dead, now.Exact = now.Used-now.Live, true
	return now, err
}

// shrink rehashes an almost empty table to fewer buckets.
func (p *policy) shrink(ctx context.Context, now core.Counters) error {
	current := p.buckets()
	if !p.grows() || current <= p.minBuckets || float64(now.Live) > shrinkShare*float64(p.limit()) {
		return nil
	}
	if _, err := p.updatePerKey(ctx, now); err != nil {
		return err
	}
	buckets, _ := bucketsFor(2*now.Live, p.perBucket)
	if buckets = max(buckets, p.minBuckets); buckets >= current {
		return nil
	}
	return p.resize(ctx, buckets, 2*now.Live)
}

// Compact implements core.Policy. It reduces buckets and slabs to the numbers that the options
// determine. A fixed table keeps its memory and is only flushed.
func (p *policy) Compact(ctx context.Context, now core.Counters) error {
	if p.opts.Fixed {
		return p.engine.flush(ctx)
	}
	if _, err := p.updatePerKey(ctx, now); err != nil {
		return err
	}
	buckets := p.buckets()
	if p.opts.Buckets == 0 {
		required, _ := bucketsFor(now.Live, p.perBucket)
		buckets = min(buckets, max(required, p.minBuckets))
	}
	err := p.resize(ctx, buckets, now.Live)
	if err != nil && noMemory(err) {
		return p.engine.flush(ctx)
	}
	return err
}

// resize rehashes to the given number of buckets, with a pool for n pairs.
func (p *policy) resize(ctx context.Context, buckets uint32, n uint64) error {
	old, start := p.buckets(), time.Now()
	units := chainedFor(n, p.perKey, buckets, p.widths.Slot)
	err := p.engine.rehash(ctx, buckets, units)
	if errors.Is(err, op.ErrFull) {
		// The distribution of the keys is worse than chance. This many units always suffice.
		units += ceilDiv(int(n), slotsIn(p.widths.Slot))
		err = p.engine.rehash(ctx, buckets, units)
	}
	if err != nil {
		return err
	}
	p.free = 0 // not counted yet
	observe.Rehashed("slab", p.opts.Logger, start, p.engine.geometry().bytes(), "from_buckets", old, "to_buckets", buckets, "units", units)
	return nil
}
