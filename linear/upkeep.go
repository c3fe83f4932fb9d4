package linear

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

// Reserve makes space for n new keys, so that the table does not grow while they are inserted. The
// table grows to the lines that the keys need, or to twice the present size if that is more. After
// [device.ErrMemory] the table is unchanged. A table of fixed size drops tombstones if they may
// take needed space.
func (t *table) Reserve(ctx context.Context, n int) error {
	if n < 0 {
		return fmt.Errorf("linear: Reserve: %w: %d keys", device.ErrInvalid, n)
	}
	return t.core.Reserve(ctx, n)
}

// maxDeadShare is the maximum number of dead slots in a fixed table, as a fraction of the slots
// that MaxLoad leaves free. With more, the table is rehashed in place. A smaller fraction causes
// more rehashes, a larger one longer searches; NOTES.md has the measurement.
const maxDeadShare = 3.0 / 8

// maxDeadLoad is the value that inPlaceDue uses instead of a larger MaxLoad, which leaves almost no
// slot free.
const maxDeadLoad = 0.875

// inPlaceDue reports whether a fixed table with the given numbers of live and dead slots should be
// rehashed in place. If not, n is the minimum number of insertions until a rehash is due.
func (p *policy) inPlaceDue(live, dead uint64) (due bool, n int) {
	slots, load := float64(p.slots()), min(p.opts.MaxLoad, maxDeadLoad)
	if float64(dead) < max(slots/128, 4) { // too few for a pass over the table
		return false, math.MaxInt
	}
	// Limit the used slots or, in a table above its design load, the fraction of the free slots
	// that are dead.
	remaining := max(slots*(load+(1-load)*maxDeadShare)-float64(live+dead), slots-float64(live)-float64(dead)/maxDeadShare)
	// With almost no slots left, updates still run in large batches, because they take no slots.
	return remaining <= 0, max(int(remaining), int(slots)/128, 1)
}

// rehashInPlaceIfDue rehashes a fixed table in place if that is due before n insertions. It returns
// how many of these insertions may run before the next call. For a batch on a stream, it requires
// exact counters only if a rehash is due by the counters' upper bounds.
func (p *policy) rehashInPlaceIfDue(ctx context.Context, now core.Counters, stream bool, n int) (int, error) {
	if stream {
		due, _ := p.inPlaceDue(now.Live+uint64(n), now.Dead)
		switch {
		case !due:
			return n, nil
		case !now.Exact:
			return 0, nil
		}
		// Rehash already at half the number of dead slots. Otherwise every batch would wait for
		// exact counters.
		if due, _ = p.inPlaceDue(now.Live+uint64(n), 2*now.Dead); due {
			_, err := p.rehashInPlace(ctx)
			return n, err
		}
		return n, nil
	}
	due, limit := p.inPlaceDue(now.Live, now.Dead)
	if !due {
		return min(n, limit), nil
	}
	if _, err := p.rehashInPlace(ctx); err != nil {
		return 0, err
	}
	now, err := p.engine.ReadCounters(context.WithoutCancel(ctx))
	if due, limit = p.inPlaceDue(now.Live, now.Used-now.Live); due {
		limit = n // a rehash was not possible; continue without it
	}
	return min(n, limit), err
}

// rehashInPlace rehashes in place and logs it. done is false if no rehash was possible.
func (p *policy) rehashInPlace(ctx context.Context) (done bool, err error) {
	if done, err = p.engine.rehashInPlace(ctx); done {
		p.opts.Logger.Debug("linear: rehash in place", "lines", p.engine.geometry().lines)
	}
	return done, err
}

// resizeUpTo tries increasing sizes from lines to limit until a rehash succeeds. It returns
// weft.ErrFull if keys crowd at each size.
func (p *policy) resizeUpTo(ctx context.Context, lines, limit uint32) (err error) {
	for {
		if err = p.resize(ctx, lines, false); !errors.Is(err, op.ErrFull) || lines >= limit {
			return err
		}
		lines = min(lines+lines/2+1, limit)
	}
}

// Trim implements [core.Policy]. It shrinks a table that has become almost empty.
func (p *policy) Trim(ctx context.Context, now core.Counters, delta int) error {
	current := p.engine.geometry().lines
	if delta >= 0 || p.opts.Fixed || current <= p.minLines ||
		float64(now.Live) > float64(p.slots())*p.opts.MaxLoad*shrinkShare || now.Live > p.failedShrink/2 && p.failedShrink > 0 {
		return nil
	}
	lines, _ := linesFor(2*now.Live, p.opts.MaxLoad, p.widths.Slot)
	if lines = max(lines, p.minLines); lines >= current {
		return nil
	}
	err := p.resizeUpTo(ctx, lines, max(lines, current/2))
	switch {
	case err == nil:
		p.failedShrink = 0
	case errors.Is(err, op.ErrFull):
		p.failedShrink = now.Live
	}
	return err
}

// Compact implements [core.Policy]. It rehashes to the smallest size that the options and the keys
// permit. If keys crowd at each size, the table stays unchanged.
func (p *policy) Compact(ctx context.Context, now core.Counters) error {
	current := p.engine.geometry().lines
	if p.opts.Fixed {
		if now.Dead == 0 {
			return nil
		}
		if done, err := p.rehashInPlace(ctx); done || err != nil {
			return err
		}
	}
	lines := current
	if !p.opts.Fixed {
		required, _ := linesFor(now.Live, p.opts.MaxLoad, p.widths.Slot)
		lines = min(current, max(required, p.minLines))
	}
	limit := current // a rehash to the same size drops dead slots
	if now.Dead == 0 {
		limit--
	}
	if lines > limit {
		return nil
	}
	if err := p.resizeUpTo(ctx, lines, limit); !errors.Is(err, op.ErrFull) {
		return err
	}
	return nil
}
