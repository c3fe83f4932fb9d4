package bucket

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/hash"
	"github.com/weftgo/weft/internal/observe"
	"github.com/weftgo/weft/internal/op"
)

// Policy is a [core.Policy] that decides when a table grows, shrinks, or takes another seed. Any
// key may take the slot of a deleted key, so decisions depend on the number of keys and not on dead
// slots. If a call has done its work and a rehash then fails, the call does not fail.
type Policy struct {
	Config
	Engine Engine

	// minLines is the number of lines that Capacity requires. The table never has fewer.
	minLines uint32
	// failedSeeds is the number of seeds tried in a row after which no operation found a slot.
	failedSeeds int
	// failedShrink is the number of keys when shrinking failed. Shrinking is tried again when half
	// of the keys are left.
	failedShrink uint64
	// failedReseed is the number of keys at which no seed helped a fixed table. Seeds are tried
	// again when one key in reseedShare has gone.
	failedReseed uint64
	// reseedNext is set if few operations found a slot when they ran again. The next try then takes
	// another seed.
	reseedNext bool
}

// NewPolicy returns the policy of a table. The current table of e must have the first size.
func NewPolicy(c Config, e Engine) *Policy {
	return &Policy{Config: c, Engine: e, minLines: e.Size().Lines}
}

// Flags implements [core.Policy].
func (p *Policy) Flags(kind op.Kind) (f batch.Flags) {
	if !p.Unordered && !kind.Reduces() {
		f |= batch.Order
	}
	if kind != op.Delete {
		f |= batch.Reuse
	}
	return f
}

// MixedFlags implements [core.Policy].
func (p *Policy) MixedFlags() batch.Flags { return 0 }

// Describe implements [core.Policy].
func (p *Policy) Describe() string { return fmt.Sprintf("in %d slots", p.Slots()) }

// Slots returns the number of slots of all buckets.
func (p *Policy) Slots() int { return p.slots(p.Engine.Size().Lines) }

// remaining returns the number of keys that can be added before MaxLoad is reached.
func (p *Policy) remaining(live uint64) int { return core.MaxUsed(p.Slots(), p.MaxLoad) - int(live) }

// SafeLoad returns a load that every table of the current size reaches. A small table has a lower
// SafeLoad, since few keys are spread less evenly.
func (p *Policy) SafeLoad() float64 {
	const spread = 4
	return p.ReachableLoad - spread/math.Sqrt(float64(p.Slots()))
}

// fixedKeys returns a number of keys that a fixed table certainly takes. A small table may need
// other seeds to take them.
func (c *Config) fixedKeys(lines uint32) int {
	const spread = 1
	slots := c.slots(lines)
	if !c.Fixed || c.FixedLoad == 0 {
		return slots
	}
	return int(float64(slots)*c.FixedLoad - spread*math.Sqrt(float64(slots)))
}

// mayOverflow reports whether some of n operations may find no slot. Such operations run again if
// the table can make space. Otherwise the call reports them as failed.
func (p *Policy) mayOverflow(now core.Counters, n int) bool {
	return float64(now.Live)+float64(n) > p.SafeLoad()*float64(p.Slots())
}

// full reports whether a fixed table holds Capacity keys.
func (p *Policy) full(now core.Counters) bool {
	return p.Fixed && now.Exact && now.Live >= uint64(p.Capacity)
}

// Prepare implements [core.Policy]. If necessary, it grows the table so that the whole batch fits,
// or at least a chunk.
func (p *Policy) Prepare(ctx context.Context, now core.Counters, s *device.Stream, b *batch.Batch) (n int, report bool, err error) {
	p.reseedNext = false
	switch {
	case s != nil && !now.Exact && p.mayOverflow(now, b.N):
		return 0, false, nil
	case p.Fixed:
		n = b.N
	default:
		n, err = p.ensureCapacity(ctx, now, s, b)
	}
	return n, s != nil && p.mayOverflow(now, n), err
}

// ensureCapacity grows the table if necessary. It returns the number of operations of a batch to
// run.
func (p *Policy) ensureCapacity(ctx context.Context, now core.Counters, s *device.Stream, b *batch.Batch) (n int, err error) {
	chunk, remaining := min(b.N, core.ChunkOps), p.remaining(now.Live)
	if remaining >= chunk {
		return min(b.N, remaining), nil
	}
	if !now.Exact {
		return 0, nil
	}
	if remaining >= 0 && s == nil {
		if updates, err := core.HasOnlyUpdates(ctx, p.Engine, now, b.Chunk(0, chunk), p.Seed); updates || err != nil {
			return chunk, err
		}
	}
	required, expected, err := core.EstimateInserts(ctx, p.Engine, now, s, b.Chunk(0, chunk), b.N, p.Seed)
	if err != nil {
		return 0, err
	}
	if required <= remaining {
		return chunk, nil
	}
	if err = p.grow(ctx, now, uint64(expected), uint64(required)); err == nil {
		return max(chunk, min(b.N, p.remaining(now.Live))), nil
	}
	// The table cannot grow. Run as many operations as are likely to fill the remaining slots.
	if remaining > 0 && cannotGrow(err) {
		return max(1, int(float64(chunk)*float64(remaining)/float64(required))), nil
	}
	return 0, err
}

// grow rehashes to a table with space for expected new keys. If memory is short, it makes space for
// required new keys.
func (p *Policy) grow(ctx context.Context, now core.Counters, expected, required uint64) (err error) {
	for _, fresh := range []uint64{expected, required} {
		lines, ok := p.linesFor(now.Live + fresh)
		if !ok {
			err = fmt.Errorf("%w: %d keys need more than the largest table", op.ErrFull, now.Live+fresh)
			continue
		}
		if current := p.Engine.Size().Lines; lines < 2*current {
			lines = p.doubled(current)
		}
		if err = p.resize(ctx, max(lines, p.minLines)); err == nil || !cannotGrow(err) {
			return err
		}
	}
	return err
}

// doubled returns twice the number of lines, up to MaxLines. Doubling makes growth cost each key a
// constant number of moves.
func (p *Policy) doubled(lines uint32) uint32 {
	return uint32(min(2*uint64(lines), uint64(p.MaxLines)))
}

func cannotGrow(err error) bool {
	return errors.Is(err, device.ErrMemory) || errors.Is(err, op.ErrFull)
}

// Retry implements [core.Policy]. An operation fails for one of three reasons: too many keys share
// its buckets, an iteration forbids moves, or threads of a GPU blocked each other. If the load is
// low, Retry first runs the operations again. If that does not help, it takes another seed. If the
// load is high, it also doubles the table. A fixed table with Capacity keys is full, so Retry does
// nothing.
func (p *Policy) Retry(ctx context.Context, now core.Counters, failed *batch.Batch) (remaining []uint32, retry bool, err error) {
	now.Exact = true
	remaining = core.AllRows(failed.N)
	if p.full(now) {
		return remaining, false, nil
	}
	lines := p.Engine.Size().Lines
	switch load := float64(now.Live) / float64(p.Slots()); {
	case load > p.SafeLoad() && !p.Fixed:
		lines = p.doubled(lines)
	case p.reseedNext:
		p.reseedNext = false
	default:
		remaining, err = core.Rerun(ctx, p.Engine, failed)
		// the cause was threads that met, or a time limit
		if len(remaining) < failed.N || err != nil {
			p.failedSeeds, p.reseedNext = 0, len(remaining) > failed.N/2 && err == nil
			return remaining, len(remaining) > 0, err
		}
	}
	if p.failedReseed > 0 && now.Live > p.failedReseed-p.failedReseed/reseedShare {
		return remaining, false, nil
	}
	if err := p.reseed(ctx, lines); err != nil {
		// The operations have not run. If no seed helps, or a fixed table has no memory for a
		// rehash, the table counts as full.
		if errors.Is(err, op.ErrFull) || p.Fixed && errors.Is(err, device.ErrMemory) {
			p.recordFailedReseed(now)
			err = nil
		}
		return remaining, false, err
	}
	remaining, err = core.Rerun(ctx, p.Engine, failed)
	if p.failedSeeds++; len(remaining) < failed.N {
		p.failedSeeds = 0
	}
	if p.failedSeeds == reseeds {
		p.failedSeeds = 0
		p.recordFailedReseed(now)
		return remaining, false, err
	}
	return remaining, true, err
}

// recordFailedReseed records for a fixed table that no seed helps.
func (p *Policy) recordFailedReseed(now core.Counters) {
	if p.Fixed {
		p.failedReseed = max(now.Live, 1)
	}
}

const (
	// reseeds is the maximum number of other seeds tried in a row.
	reseeds = 8
	// reseedShare is the divisor of the keys at which no seed helped. Seeds are tried again when
	// 1/reseedShare of these keys have gone.
	reseedShare = 64
	// nextSeed is the constant that derives a seed from the previous seed.
	nextSeed = 0x9e3779b97f4a7c15
	// shrinkShare is a share of MaxLoad. A table shrinks if deletes leave its load below that
	// share.
	shrinkShare = 1.0 / 8
)

// reseed rehashes to the given number of lines with other seeds, until a table takes all keys. If
// several seeds fail and the table is not fixed, it also doubles the number of lines.
func (p *Policy) reseed(ctx context.Context, lines uint32) (err error) {
	seed := p.Engine.Size().Seed
	for try := range reseeds {
		seed = hash.Uint64(seed, nextSeed)
		if err = p.rehash(ctx, Size{lines, seed}); !errors.Is(err, op.ErrFull) {
			return err
		}
		if try%2 == 1 && !p.Fixed {
			lines = p.doubled(lines)
		}
	}
	return err
}

// resize rehashes to the given number of lines. If the keys do not fit with the current seed, it
// tries others.
func (p *Policy) resize(ctx context.Context, lines uint32) error {
	err := p.rehashSameSeed(ctx, lines)
	if errors.Is(err, op.ErrFull) {
		return p.reseed(ctx, lines)
	}
	return err
}

func (p *Policy) rehashSameSeed(ctx context.Context, lines uint32) error {
	return p.rehash(ctx, Size{lines, p.Engine.Size().Seed})
}

func (p *Policy) rehash(ctx context.Context, to Size) error {
	old, start := p.Engine.Size(), time.Now()
	to.Lines = p.roundLines(to.Lines)
	if err := p.Engine.Rehash(ctx, to); err != nil {
		return err
	}
	observe.Rehashed(p.Name, p.Logger, start, core.LinesBytes(to.Lines), "from_lines", old.Lines, "to_lines", to.Lines, "reseeded", old.Seed != to.Seed)
	return nil
}

// Trim implements [core.Policy]. It shrinks a table that has become almost empty.
func (p *Policy) Trim(ctx context.Context, now core.Counters, delta int) error {
	current := p.Engine.Size().Lines
	if delta >= 0 || p.Fixed || current <= p.minLines ||
		float64(now.Live) > float64(p.Slots())*p.MaxLoad*shrinkShare || now.Live > p.failedShrink/2 && p.failedShrink > 0 {
		return nil
	}
	lines, _ := p.linesFor(2 * now.Live)
	if lines = max(lines, p.minLines); lines >= current {
		return nil
	}
	err := p.rehashSameSeed(ctx, lines)
	switch {
	case err == nil:
		p.failedShrink = 0
	case errors.Is(err, op.ErrFull):
		p.failedShrink = now.Live
	}
	return err
}

// Compact implements [core.Policy]. It rehashes to the size that the options require, which frees
// dead slots. If the keys do not fit, the table is unchanged.
func (p *Policy) Compact(ctx context.Context, now core.Counters) error {
	current := p.Engine.Size().Lines
	lines := current
	if !p.Fixed {
		required, _ := p.linesFor(now.Live)
		lines = min(current, max(required, p.minLines))
	}
	if lines == current && now.Dead == 0 {
		return nil
	}
	if err := p.rehashSameSeed(ctx, lines); !errors.Is(err, op.ErrFull) {
		return err
	}
	return nil
}
