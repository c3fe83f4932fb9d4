package linear

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/observe"
	"github.com/weftgo/weft/internal/op"
)

// policy decides when a table grows, shrinks and drops dead slots. If a rehash fails after a call
// has done its work, the call still succeeds.
type policy struct {
	opts   Options
	widths batch.Widths
	engine engine
	// minLines is the number of lines that the option Capacity requires.
	minLines uint32

	// failedShrink is the number of keys at which shrinking failed. Shrinking is tried again when
	// half of these keys are left.
	failedShrink uint64
	// failedGrowth holds the size and the counters before a doubling that did not help operations
	// which had found no slot.
	failedGrowth struct {
		core.Counters
		lines uint32
	}
}

// Flags implements [core.Policy].
func (p *policy) Flags(kind op.Kind) (f batch.Flags) {
	if !p.opts.Unordered && !kind.Reduces() {
		f |= batch.Order
	}
	// A dead slot of a set does not hold its key; see KeyOnly in slot.cuh.
	if kind != op.Delete && (p.opts.Tombstones == Reuse || p.widths.Val == 0) {
		f |= batch.Reuse
	}
	return f
}

// MixedFlags implements [core.Policy].
func (p *policy) MixedFlags() batch.Flags { return 0 }

// Describe implements [core.Policy].
func (p *policy) Describe() string { return fmt.Sprintf("in %d slots", p.slots()) }

func (p *policy) slots() int {
	return int(p.engine.geometry().lines) * lineBytes / p.widths.Slot
}

func (p *policy) remaining(used uint64) int { return p.remainingAt(p.opts.MaxLoad, used) }

func (p *policy) remainingAt(load float64, used uint64) int {
	return keysAt(p.engine.geometry().lines, load, p.widths.Slot) - int(used)
}

func (p *policy) full(now core.Counters) bool {
	return p.opts.Fixed && now.Live >= uint64(maxKeys(p.engine.geometry().lines, p.perLine()))
}

func (p *policy) perLine() int { return lineBytes / p.widths.Slot }

// overflowLoad is the fraction of used slots above which an operation may find no slot on its path.
const overflowLoad = 0.95

// mayOverflow reports whether some of n operations of a batch may find no slot. Such operations run
// again if the table can make space; otherwise the caller learns which failed.
func (p *policy) mayOverflow(now core.Counters, n int) bool {
	return float64(now.Used)+float64(n) > overflowLoad*float64(p.slots())
}

// Prepare implements [core.Policy]. If necessary, it grows the table so that the whole batch fits,
// or at least one chunk.
func (p *policy) Prepare(ctx context.Context, now core.Counters, s *device.Stream, b *batch.Batch) (n int, report bool, err error) {
	switch {
	case s != nil && !now.Exact && p.mayOverflow(now, b.N):
		return 0, false, nil
	case p.opts.Fixed:
		n, err = p.rehashInPlaceIfDue(ctx, now, s != nil, b.N)
	default:
		n, err = p.ensureCapacity(ctx, now, s, b)
	}
	return n, s != nil && (p.mayOverflow(now, n) || p.skipsTombstones(b)), err
}

// skipsTombstones reports whether an operation of a batch may find no slot although the table has
// many. Mixed batches do not reuse dead slots of a set, since such slots do not hold their keys. So
// the extra line may fill if keys that look like sentinels come and go.
func (p *policy) skipsTombstones(b *batch.Batch) bool {
	return p.widths.Val == 0 && b.Columns[batch.Kinds].Given()
}

// minChunk is the number of free slots below which the keys of a chunk are looked up first, to
// count the new keys. That lookup takes half as long as the changes.
const minChunk = core.ChunkOps / 8

// ensureCapacity grows the table if necessary, and returns how many operations of a batch to run.
func (p *policy) ensureCapacity(ctx context.Context, now core.Counters, s *device.Stream, b *batch.Batch) (n int, err error) {
	chunk, remaining := min(b.N, core.ChunkOps), p.remaining(now.Used)
	if remaining >= chunk || s == nil && remaining >= min(chunk, minChunk) {
		return min(b.N, remaining), nil
	}
	if !now.Exact {
		return 0, nil
	}
	if nRun := min(chunk, p.remainingAt(overflowLoad, now.Used)); remaining >= 0 && s == nil && nRun > 0 {
		if updates, err := core.HasOnlyUpdates(ctx, p.engine, now, b.Chunk(0, nRun), p.opts.Seed); updates || err != nil {
			return nRun, err
		}
	}
	required, expected, err := core.EstimateInserts(ctx, p.engine, now, s, b.Chunk(0, chunk), b.N, p.opts.Seed)
	if err != nil {
		return 0, err
	}
	if required <= remaining {
		return chunk, nil
	}
	if err = p.grow(ctx, now, uint64(expected), uint64(required)); err == nil {
		return max(chunk, min(b.N, p.remaining(now.Live))), nil
	}
	// The table cannot grow, because memory is short or keys crowd at any size. Run as many
	// operations as are likely to fill the remaining slots with new keys.
	if remaining > 0 && cannotGrow(err) {
		return max(1, int(float64(chunk)*float64(remaining)/float64(required))), nil
	}
	return 0, err
}

// Reserve implements [core.Reserver]. In a table of fixed size, it drops dead slots if they may
// take needed space.
func (p *policy) Reserve(ctx context.Context, now core.Counters, n int) (ok bool, err error) {
	switch remaining := p.remaining(now.Used); {
	case p.opts.Fixed && (now.Dead == 0 || n <= p.remainingAt(overflowLoad, now.Used)), !p.opts.Fixed && n <= remaining:
		return true, nil
	case !now.Exact:
		return false, nil
	case p.opts.Fixed:
		_, err = p.rehashInPlace(ctx)
		return true, err
	}
	return true, p.grow(ctx, now, uint64(n), uint64(n))
}

// grow rehashes to a size for the expected number of new keys. If memory does not suffice, it
// rehashes to a size for the required number.
func (p *policy) grow(ctx context.Context, now core.Counters, expected, required uint64) (err error) {
	for _, fresh := range []uint64{expected, required} {
		lines, ok := linesFor(now.Live+fresh, p.opts.MaxLoad, p.widths.Slot)
		if !ok {
			err = fmt.Errorf("%w: %d keys need more than the largest table", op.ErrFull, now.Live+fresh)
			continue
		}
		if err = p.resize(ctx, p.growthSize(lines), true); err == nil || !cannotGrow(err) {
			return err
		}
	}
	return err
}

func cannotGrow(err error) bool {
	return errors.Is(err, device.ErrMemory) || errors.Is(err, op.ErrFull)
}

// growthSize returns the new number of lines of a table that must grow to at least the given
// number. It at least doubles the table, so that growth costs each key a constant number of moves.
// If dropping dead slots makes half the table free, the size stays.
func (p *policy) growthSize(lines uint32) uint32 {
	current := p.engine.geometry().lines
	switch {
	case lines > current/2 && lines < 2*current:
		lines = uint32(min(2*uint64(current), maxLines))
	case lines <= current/2:
		lines = current
	}
	return max(lines, p.minLines)
}

// Retry implements [core.Policy]. A fixed table drops its dead slots. A growing table is too
// crowded in one region, so it doubles. If doubling helps no operation, the old table is restored.
func (p *policy) Retry(ctx context.Context, now core.Counters, failed *batch.Batch) (remaining []uint32, retry bool, err error) {
	all := core.AllRows(failed.N)
	if p.rehashUseless(now) {
		return all, false, nil
	}
	lines := p.engine.geometry().lines
	// Other operations may have freed slots.
	if p.opts.Fixed && now.Used < uint64(maxUsed(lines, p.perLine())) {
		if remaining, err = core.Rerun(ctx, p.engine, failed); len(remaining) < failed.N || err != nil {
			return remaining, len(remaining) > 0, err
		}
	}
	before, err := p.makeSpace(ctx, p.skipsTombstones(failed) && now.Dead > 0)
	if err != nil {
		// The operations count as overflowed. Without memory, a fixed table is full in any case,
		// and so is a table in which keys crowd.
		if errors.Is(err, op.ErrFull) || p.opts.Fixed && errors.Is(err, device.ErrMemory) {
			err = nil
		}
		return all, false, err
	}
	remaining, err = core.Rerun(ctx, p.engine, failed)
	switch {
	case before == nil: // next, a growing table without dead slots doubles
		return remaining, !p.opts.Fixed, err
	case len(remaining) == failed.N && err == nil:
		p.failedGrowth.Counters, p.failedGrowth.lines = now, lines
		return remaining, false, p.engine.revert(before)
	}
	return remaining, false, errors.Join(err, before.End())
}

// makeSpace makes space for operations that found no slot. If the old table can be restored, it
// returns a lease on it. If dead is set, all dead slots must go. A rehash in place does not suffice
// for that, because on a GPU it leaves the extra line as it is.
func (p *policy) makeSpace(ctx context.Context, dead bool) (before *core.Lease, err error) {
	lines := p.engine.geometry().lines
	if p.opts.Fixed && !dead {
		if done, err := p.rehashInPlace(ctx); done || err != nil {
			return nil, err
		}
	}
	if p.opts.Fixed || dead {
		if err := p.resize(ctx, lines, true); p.opts.Fixed || !cannotGrow(err) {
			return nil, err
		}
	}
	before = p.engine.keepTable()
	if err := p.resize(ctx, uint32(min(2*uint64(lines), maxLines)), true); err != nil {
		return nil, errors.Join(err, before.End())
	}
	return before, nil
}

// rehashUseless reports whether a rehash cannot help. In a fixed table it cannot if no slot is dead
// or the table holds as many keys as it may. In a growing table it cannot if doubling has failed in
// much the same state.
func (p *policy) rehashUseless(now core.Counters) bool {
	if p.opts.Fixed {
		return now.Dead == 0 || p.full(now)
	}
	s := p.failedGrowth
	return p.engine.geometry().lines == s.lines && now.Used <= s.Used+s.Used/8 && now.Dead <= s.Dead+s.Used/8
}

// resize rehashes to a table of the given number of lines. If thorough, it accepts more crowding.
func (p *policy) resize(ctx context.Context, lines uint32, thorough bool) error {
	old, start := p.engine.geometry().lines, time.Now()
	if err := p.engine.rehash(ctx, lines, thorough); err != nil {
		return err
	}
	observe.Rehashed("linear", p.opts.Logger, start, p.engine.geometry().bytes(), "from_lines", old, "to_lines", lines)
	return nil
}
