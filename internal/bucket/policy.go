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
	// vain is the number of other seeds tried in a row that helped none of the operations.
	vain int
	// crowded is the number of keys at which shrinking failed. It is tried again when half of them
	// are left.
	crowded uint64
	// hopeless is the number of keys at which no seed helped a table of fixed size. Seeds are tried
	// again when one key in giveUpShare has gone.
	hopeless uint64
	// reruns reports that few of the operations that ran again have found a slot, so that the next
	// try is another seed.
	reruns bool
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

// Mixed implements [core.Policy].
func (p *Policy) Mixed() batch.Flags { return 0 }

// Describe implements [core.Policy].
func (p *Policy) Describe() string { return fmt.Sprintf("in %d slots", p.Slots()) }

// Slots returns the number of slots of all buckets.
func (p *Policy) Slots() int { return p.slots(p.Engine.Size().Lines) }

// room returns how many more keys fit within MaxLoad.
func (p *Policy) room(live uint64) int { return core.RoomIn(p.Slots(), p.MaxLoad) - int(live) }

// SafeLoad returns a load that every table of this size reaches. It is less for a small table,
// since few keys are spread less evenly.
func (p *Policy) SafeLoad() float64 {
	const spread = 4
	return p.Safe - spread/math.Sqrt(float64(p.Slots()))
}

// sureKeys returns how many keys a table of fixed size takes for certain; small ones may need other
// seeds.
func (c *Config) sureKeys(lines uint32) int {
	const spread = 1
	slots := c.slots(lines)
	if !c.Fixed || c.Sure == 0 {
		return slots
	}
	return int(float64(slots)*c.Sure - spread*math.Sqrt(float64(slots)))
}

// tight reports whether some of n operations of a batch may find no slot. They run again if the
// table can make space; otherwise the caller learns which failed.
func (p *Policy) tight(now core.Counters, n int) bool {
	return float64(now.Live)+float64(n) > p.SafeLoad()*float64(p.Slots())
}

// full reports whether a table of fixed size holds Capacity keys.
func (p *Policy) full(now core.Counters) bool {
	return p.Fixed && now.Exact && now.Live >= uint64(p.Capacity)
}

// Before implements [core.Policy]. It grows the table, if necessary, so that the whole batch fits,
// or at least a chunk.
func (p *Policy) Before(ctx context.Context, now core.Counters, s *device.Stream, b *batch.Batch) (n int, report bool, err error) {
	p.reruns = false
	switch {
	case s != nil && !now.Exact && p.tight(now, b.N):
		return 0, false, nil
	case p.Fixed:
		n = b.N
	default:
		n, err = p.makeRoom(ctx, now, s, b)
	}
	return n, s != nil && p.tight(now, n), err
}

// makeRoom grows the table, if necessary, and returns how many operations of a batch to run.
func (p *Policy) makeRoom(ctx context.Context, now core.Counters, s *device.Stream, b *batch.Batch) (n int, err error) {
	chunk, room := min(b.N, core.ChunkOps), p.room(now.Live)
	if room >= chunk {
		return min(b.N, room), nil
	}
	if !now.Exact {
		return 0, nil
	}
	if room >= 0 && s == nil {
		if updates, err := core.Updates(ctx, p.Engine, now, b.Chunk(0, chunk), p.Seed); updates || err != nil {
			return chunk, err
		}
	}
	need, expect, err := core.Need(ctx, p.Engine, now, s, b.Chunk(0, chunk), b.N, p.Seed)
	if err != nil {
		return 0, err
	}
	if need <= room {
		return chunk, nil
	}
	if err = p.grow(ctx, now, uint64(expect), uint64(need)); err == nil {
		return max(chunk, min(b.N, p.room(now.Live))), nil
	}
	// No memory to grow: use the space left for as many operations as are likely to bring that many
	// new keys.
	if room > 0 && cannotGrow(err) {
		return max(1, int(float64(chunk)*float64(room)/float64(need))), nil
	}
	return 0, err
}

// grow rehashes for the new keys that are expected. Without memory for those, it rehashes for the
// keys of a chunk.
func (p *Policy) grow(ctx context.Context, now core.Counters, expect, need uint64) (err error) {
	for _, fresh := range []uint64{expect, need} {
		lines, ok := p.linesFor(now.Live + fresh)
		if !ok {
			err = fmt.Errorf("%w: %d keys need more than the largest table", op.ErrFull, now.Live+fresh)
			continue
		}
		if have := p.Engine.Size().Lines; lines < 2*have {
			lines = p.double(have)
		}
		if err = p.resize(ctx, max(lines, p.minLines)); err == nil || !cannotGrow(err) {
			return err
		}
	}
	return err
}

// double returns twice a size, so that growth costs each key a constant number of moves.
func (p *Policy) double(lines uint32) uint32 {
	return uint32(min(2*uint64(lines), uint64(p.MostLines)))
}

func cannotGrow(err error) bool {
	return errors.Is(err, device.ErrMemory) || errors.Is(err, op.ErrFull)
}

// Retry implements [core.Policy]. Operations fail because keys crowd, because an iteration keeps
// keys in place, or because threads of a GPU were in each other's way. If the table has few keys
// for its size, Retry first runs them again. If that fails, another seed spreads the keys anew. If
// the table has many keys, it is also doubled. A table of fixed size with Capacity keys is full.
func (p *Policy) Retry(ctx context.Context, now core.Counters, failed *batch.Batch) (still []uint32, more bool, err error) {
	now.Exact = true
	still = core.All(failed.N)
	if p.full(now) {
		return still, false, nil
	}
	lines := p.Engine.Size().Lines
	switch load := float64(now.Live) / float64(p.Slots()); {
	case load > p.SafeLoad() && !p.Fixed:
		lines = p.double(lines)
	case p.reruns:
		p.reruns = false
	default:
		still, err = core.Rerun(ctx, p.Engine, failed)
		if len(still) < failed.N || err != nil { // threads met, or ran out of time
			p.vain, p.reruns = 0, len(still) > failed.N/2 && err == nil
			return still, len(still) > 0, err
		}
	}
	if p.hopeless > 0 && now.Live > p.hopeless-p.hopeless/giveUpShare {
		return still, false, nil
	}
	if err := p.reseed(ctx, lines); err != nil {
		// The operations count as not run. A fixed table is full in any case, and so is one with
		// keys that crowd.
		if errors.Is(err, op.ErrFull) || p.Fixed && errors.Is(err, device.ErrMemory) {
			p.giveUp(now)
			err = nil
		}
		return still, false, err
	}
	still, err = core.Rerun(ctx, p.Engine, failed)
	if p.vain++; len(still) < failed.N {
		p.vain = 0
	}
	if p.vain == reseeds {
		p.vain = 0
		p.giveUp(now)
		return still, false, err
	}
	return still, true, err
}

// giveUp records that no seed helps a table of fixed size.
func (p *Policy) giveUp(now core.Counters) {
	if p.Fixed {
		p.hopeless = max(now.Live, 1)
	}
}

const (
	// reseeds is the number of other seeds tried in a row.
	reseeds = 8
	// giveUpShare is such that 1/giveUpShare of the keys for which no seed helped must go before a
	// retry.
	giveUpShare = 64
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
			lines = p.double(lines)
		}
	}
	return err
}

// resize rehashes to a number of lines of buckets. If keys crowd there with the present seed, it
// takes another.
func (p *Policy) resize(ctx context.Context, lines uint32) error {
	err := p.shrink(ctx, lines)
	if errors.Is(err, op.ErrFull) {
		return p.reseed(ctx, lines)
	}
	return err
}

// shrink rehashes to a number of lines with the present seed.
func (p *Policy) shrink(ctx context.Context, lines uint32) error {
	return p.rehash(ctx, Size{lines, p.Engine.Size().Seed})
}

func (p *Policy) rehash(ctx context.Context, to Size) error {
	have, began := p.Engine.Size(), time.Now()
	to.Lines = p.whole(to.Lines)
	if err := p.Engine.Rehash(ctx, to); err != nil {
		return err
	}
	observe.Rehashed(p.Name, p.Logger, began, core.LinesBytes(to.Lines), "from_lines", have.Lines, "to_lines", to.Lines, "reseeded", have.Seed != to.Seed)
	return nil
}

// After implements [core.Policy]. It shrinks a table that has become almost empty.
func (p *Policy) After(ctx context.Context, now core.Counters, delta int) error {
	have := p.Engine.Size().Lines
	if delta >= 0 || p.Fixed || have <= p.minLines ||
		float64(now.Live) > float64(p.Slots())*p.MaxLoad*shrinkShare || now.Live > p.crowded/2 && p.crowded > 0 {
		return nil
	}
	lines, _ := p.linesFor(2 * now.Live)
	if lines = max(lines, p.minLines); lines >= have {
		return nil
	}
	err := p.shrink(ctx, lines)
	switch {
	case err == nil:
		p.crowded = 0
	case errors.Is(err, op.ErrFull):
		p.crowded = now.Live
	}
	return err
}

// Compact implements [core.Policy]. It rehashes to the size that the options require, which drops
// dead slots. If keys crowd there, the table is unchanged.
func (p *Policy) Compact(ctx context.Context, now core.Counters) error {
	have := p.Engine.Size().Lines
	lines := have
	if !p.Fixed {
		need, _ := p.linesFor(now.Live)
		lines = min(have, max(need, p.minLines))
	}
	if lines == have && now.Dead == 0 {
		return nil
	}
	if err := p.shrink(ctx, lines); !errors.Is(err, op.ErrFull) {
		return err
	}
	return nil
}
