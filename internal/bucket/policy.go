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

// Policy is a [core.Policy] that decides when a table grows, shrinks, and takes another seed. Any
// key may take the slot of a deleted one, so only the number of keys counts. A failed rehash does
// not fail a call that has done its work.
type Policy struct {
	Config
	Engine Engine

	// minLines is the number of lines that Capacity requires.
	minLines uint32
	// failedSeeds is the number of other seeds tried in a row that helped none of the operations.
	failedSeeds int
	// failedShrink is the number of keys at which shrinking failed. It is tried again when half of
	// them are left.
	failedShrink uint64
	// failedReseed is the number of keys at which no seed helped a table of fixed size. Seeds are
	// tried again when one key in reseedShare has gone.
	failedReseed uint64
	// reseedNext reports that few of the operations that ran again have found a slot, so that the
	// next try is another seed.
	reseedNext bool
}

// NewPolicy returns the policy of a table. Its engine has a table of the first size.
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

// remaining returns how many more keys fit within MaxLoad.
func (p *Policy) remaining(live uint64) int { return core.MaxUsed(p.Slots(), p.MaxLoad) - int(live) }

// SafeLoad returns a load that every table of this size reaches. It is less for a small table,
// since few keys are spread less evenly.
func (p *Policy) SafeLoad() float64 {
	const spread = 4
	return p.ReachableLoad - spread/math.Sqrt(float64(p.Slots()))
}

// fixedKeys returns how many keys a table of fixed size takes for certain; small ones may need
// other seeds.
func (c *Config) fixedKeys(lines uint32) int {
	const spread = 1
	slots := c.slots(lines)
	if !c.Fixed || c.FixedLoad == 0 {
		return slots
	}
	return int(float64(slots)*c.FixedLoad - spread*math.Sqrt(float64(slots)))
}

// mayOverflow reports whether some of n operations of a batch may find no slot. They run again if
// the table can make space; otherwise the caller learns which failed.
func (p *Policy) mayOverflow(now core.Counters, n int) bool {
	return float64(now.Live)+float64(n) > p.SafeLoad()*float64(p.Slots())
}

// full reports whether a table of fixed size holds Capacity keys.
func (p *Policy) full(now core.Counters) bool {
	return p.Fixed && now.Exact && now.Live >= uint64(p.Capacity)
}

// Prepare implements [core.Policy]. It grows the table, if necessary, so that the whole batch fits,
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

// ensureCapacity grows the table, if necessary, and returns how many operations of a batch to run.
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
	// No memory to grow: use the space left for as many operations as are likely to bring that many
	// new keys.
	if remaining > 0 && cannotGrow(err) {
		return max(1, int(float64(chunk)*float64(remaining)/float64(required))), nil
	}
	return 0, err
}

// grow rehashes for the new keys that are expected. Without memory for those, it rehashes for the
// keys of a chunk.
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

// doubled returns twice a size, so that growth costs each key a constant number of moves.
func (p *Policy) doubled(lines uint32) uint32 {
	return uint32(min(2*uint64(lines), uint64(p.MaxLines)))
}

func cannotGrow(err error) bool {
	return errors.Is(err, device.ErrMemory) || errors.Is(err, op.ErrFull)
}

// Retry implements [core.Policy]. Operations fail because keys crowd, because an iteration keeps
// keys in place, or because threads of a GPU were in each other's way. If the table has few keys
// for its size, Retry first runs them again. If that fails, another seed spreads the keys anew. If
// the table has many keys, it is also doubled. A table of fixed size with Capacity keys is full.
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
		if len(remaining) < failed.N || err != nil { // threads met, or ran out of time
			p.failedSeeds, p.reseedNext = 0, len(remaining) > failed.N/2 && err == nil
			return remaining, len(remaining) > 0, err
		}
	}
	if p.failedReseed > 0 && now.Live > p.failedReseed-p.failedReseed/reseedShare {
		return remaining, false, nil
	}
	if err := p.reseed(ctx, lines); err != nil {
		// The operations count as not run. A fixed table is full in any case, and so is one with
		// keys that crowd.
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

// recordFailedReseed records that no seed helps a table of fixed size.
func (p *Policy) recordFailedReseed(now core.Counters) {
	if p.Fixed {
		p.failedReseed = max(now.Live, 1)
	}
}

const (
	// reseeds is the number of other seeds tried in a row.
	reseeds = 8
	// reseedShare is such that 1/reseedShare of the keys for which no seed helped must go before a
	// retry.
	reseedShare = 64
	// nextSeed derives a seed from the one before.
	nextSeed = 0x9e3779b97f4a7c15
	// shrinkShare is a share of the load limit: a table shrinks when deletes leave fewer keys.
	shrinkShare = 1.0 / 8
)

// reseed rehashes to a size with another seed, or to larger ones with others, until one takes all
// keys.
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

// resize rehashes to a number of lines of buckets. If keys crowd there with the present seed, it
// takes another.
func (p *Policy) resize(ctx context.Context, lines uint32) error {
	err := p.rehashSameSeed(ctx, lines)
	if errors.Is(err, op.ErrFull) {
		return p.reseed(ctx, lines)
	}
	return err
}

// rehashSameSeed rehashes to a number of lines with the present seed.
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

// Compact implements [core.Policy]. It rehashes to the size that the options require, which drops
// dead slots. If keys crowd there, the table is unchanged.
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
