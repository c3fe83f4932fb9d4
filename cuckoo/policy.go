package cuckoo

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/hash"
	"github.com/weftgo/weft/internal/op"
)

// policy decides when a table grows, shrinks, and takes another seed. A slot of a
// deleted key is for any key, so what counts is how many keys there are. A rehash is
// a means; a call that has done its work does not fail because of one.
type policy struct {
	opts     Options
	layout   layout
	engine   engine
	minLines uint32 // what Capacity asks for

	// vain is how many other seeds have been tried in a row for operations that none of
	// them helped.
	vain int
	// crowded is the number of keys with which shrinking did not help: it is tried
	// again when half of them are left.
	crowded uint64
}

// Flags is for [core.Policy].
func (p *policy) Flags(kind op.Kind) (f batch.Flags) {
	if !p.opts.Unordered && !kind.Reduces() {
		f |= batch.Order
	}
	if kind != op.Delete {
		f |= batch.Reuse
	}
	return f
}

// Mixed is for [core.Policy].
func (p *policy) Mixed() batch.Flags { return 0 }

// Describe is for [core.Policy].
func (p *policy) Describe() string { return fmt.Sprintf("in %d slots", p.slots()) }

func (p *policy) slots() int {
	return int(p.engine.geometry().lines) * lineBytes / p.layout.slotBytes
}

// bucketSlots are those of buckets, without the stash.
func (p *policy) bucketSlots() int {
	return int(p.engine.geometry().bucketLines()) * lineBytes / p.layout.slotBytes
}

// room is how many more keys there may be.
func (p *policy) room(live uint64) int {
	return core.RoomIn(p.bucketSlots(), p.opts.MaxLoad) - int(live)
}

// safeShare of the load that buckets bear is what a table takes without exception;
// of a small one less, since few keys are spread less evenly.
func (p *policy) safeLoad() float64 {
	const safeShare, spread = 0.97, 4
	return bearable[p.opts.Slots]*safeShare - spread/math.Sqrt(float64(p.bucketSlots()))
}

// tight reports whether some of n operations of a batch may find no room, and would
// if the table grew or had another seed.
func (p *policy) tight(now core.Counters, n int) bool {
	return float64(now.Live)+float64(n) > p.safeLoad()*float64(p.bucketSlots()) && !p.full(now)
}

// full reports a table of fixed size that holds what it is for.
func (p *policy) full(now core.Counters) bool {
	return p.opts.Fixed && now.Exact && now.Live >= uint64(p.opts.Capacity)
}

// Before is for [core.Policy]: it grows the table, if it must, so that the whole
// batch has room, or at least a chunk.
func (p *policy) Before(ctx context.Context, now core.Counters, s *device.Stream, b *batch.Batch) (n int, report bool, err error) {
	switch {
	case s != nil && !now.Exact && p.tight(now, b.N):
		return 0, false, nil
	case p.opts.Fixed:
		n = b.N
	default:
		n, err = p.makeRoom(ctx, now, s, b)
	}
	return n, s != nil && p.tight(now, n), err
}

// makeRoom grows the table, if it must, and returns how many operations of a batch
// are to be run.
func (p *policy) makeRoom(ctx context.Context, now core.Counters, s *device.Stream, b *batch.Batch) (n int, err error) {
	chunk, room := min(b.N, core.ChunkOps), p.room(now.Live)
	if room >= chunk {
		return min(b.N, room), nil
	}
	if !now.Exact {
		return 0, nil
	}
	if room >= 0 && s == nil {
		if updates, err := core.Updates(ctx, p.engine, now, b.Chunk(0, chunk), p.opts.Seed); updates || err != nil {
			return chunk, err
		}
	}
	need, expect, err := core.Need(ctx, p.engine, now, s, b.Chunk(0, chunk), b.N, p.opts.Seed)
	if err != nil {
		return 0, err
	}
	if need <= room {
		return chunk, nil
	}
	if err = p.grow(ctx, now, uint64(expect), uint64(need)); err == nil {
		return max(chunk, min(b.N, p.room(now.Live))), nil
	}
	// No memory to grow: use what room there is, by as many operations as are likely
	// to bring so many new keys.
	if room > 0 && cannotGrow(err) {
		return max(1, int(float64(chunk)*float64(room)/float64(need))), nil
	}
	return 0, err
}

// grow rehashes for as many new keys as are expected, or if there is no memory for
// that, for those of a chunk.
func (p *policy) grow(ctx context.Context, now core.Counters, expect, need uint64) (err error) {
	for _, fresh := range []uint64{expect, need} {
		lines, ok := p.layout.linesFor(now.Live+fresh, p.opts.MaxLoad)
		if !ok {
			err = fmt.Errorf("%w: %d keys need more than the largest table", op.ErrFull, now.Live+fresh)
			continue
		}
		if have := p.engine.geometry().bucketLines(); lines < 2*have {
			lines = p.double(have)
		}
		if err = p.resize(ctx, max(lines, p.minLines)); err == nil || !cannotGrow(err) {
			return err
		}
	}
	return err
}

// double is twice a size, so that growth costs each key a constant number of moves.
func (p *policy) double(lines uint32) uint32 {
	return uint32(min(2*uint64(lines), uint64(p.layout.maxLines())))
}

func cannotGrow(err error) bool {
	return errors.Is(err, device.ErrMemory) || errors.Is(err, op.ErrFull)
}

// reseeds is how many other seeds are tried in a row.
const reseeds = 8

// Retry is for [core.Policy]: keys crowd, or those that are in the way must stay
// where an iteration reads them. Where there are few keys for the size of the table,
// another seed spreads them anew; otherwise the table is doubled, too. A table of
// fixed size that holds what it is for is full.
func (p *policy) Retry(ctx context.Context, now core.Counters, failed *batch.Batch) (still []uint32, more bool, err error) {
	now.Exact = true
	still = core.All(failed.N)
	if p.full(now) {
		return still, false, nil
	}
	lines := p.engine.geometry().bucketLines()
	if load := float64(now.Live) / float64(p.bucketSlots()); load > p.safeLoad() && !p.opts.Fixed {
		lines = p.double(lines)
	}
	if err := p.reseed(ctx, lines); err != nil {
		// The operations count as not run. A fixed table is full in any case, and so is
		// one whose keys crowd.
		if errors.Is(err, op.ErrFull) || p.opts.Fixed && errors.Is(err, device.ErrMemory) {
			err = nil
		}
		return still, false, err
	}
	still, err = core.Rerun(ctx, p.engine, failed)
	if p.vain++; len(still) < failed.N {
		p.vain = 0
	}
	if p.vain == reseeds {
		p.vain = 0
		return still, false, err
	}
	return still, true, err
}

// reseed rehashes to a size with another seed, or to larger ones with others, until
// one takes all keys.
func (p *policy) reseed(ctx context.Context, lines uint32) (err error) {
	g := p.engine.geometry()
	for try := range reseeds {
		g.seed = hash.Uint64(g.seed, secondSeed)
		if err = p.rehash(ctx, p.layout.geometry(g.seed, lines)); !errors.Is(err, op.ErrFull) {
			return err
		}
		if try%2 == 1 && !p.opts.Fixed {
			lines = p.double(lines)
		}
	}
	return err
}

// resize rehashes to a number of lines of buckets; with another seed, if the one
// that there is does not spread the keys there.
func (p *policy) resize(ctx context.Context, lines uint32) error {
	err := p.rehash(ctx, p.layout.geometry(p.engine.geometry().seed, lines))
	if errors.Is(err, op.ErrFull) {
		return p.reseed(ctx, lines)
	}
	return err
}

func (p *policy) rehash(ctx context.Context, to geometry) error {
	have := p.engine.geometry()
	if err := p.engine.rehash(ctx, to); err != nil {
		return err
	}
	p.opts.Logger.Debug("cuckoo: rehash", "from_lines", have.lines, "to_lines", to.lines, "bytes", to.bytes(), "reseeded", have.seed != to.seed)
	return nil
}

// After is for [core.Policy]: a table that has become almost empty gets smaller.
func (p *policy) After(ctx context.Context, now core.Counters, delta int) error {
	have := p.engine.geometry().bucketLines()
	if delta >= 0 || p.opts.Fixed || have <= p.minLines ||
		float64(now.Live) > float64(p.bucketSlots())*p.opts.MaxLoad*shrinkShare || now.Live > p.crowded/2 && p.crowded > 0 {
		return nil
	}
	lines, _ := p.layout.linesFor(2*now.Live, p.opts.MaxLoad)
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

// Compact is for [core.Policy]: it rehashes to the size that the options ask for,
// which drops dead slots. If keys crowd there, the table stays as it is.
func (p *policy) Compact(ctx context.Context, now core.Counters) error {
	have := p.engine.geometry().bucketLines()
	lines := have
	if !p.opts.Fixed {
		need, _ := p.layout.linesFor(now.Live, p.opts.MaxLoad)
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

// shrink rehashes to a smaller size with the seed that there is.
func (p *policy) shrink(ctx context.Context, lines uint32) error {
	return p.rehash(ctx, p.layout.geometry(p.engine.geometry().seed, lines))
}
