package linear

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

// policy decides when a table grows, shrinks and drops dead slots.
type policy struct {
	opts     Options
	widths   batch.Widths
	engine   engine
	minLines uint32 // what Capacity asks for
}

// Flags is for [core.Policy].
func (p *policy) Flags(kind op.Kind) (f batch.Flags) {
	if !p.opts.Unordered {
		f |= batch.Order
	}
	// Sets can't remember a dead key, see KeyOnly in layout.cuh.
	if kind != op.Delete && (p.opts.Tombstones == Reuse || p.widths.Val == 0) {
		f |= batch.Reuse
	}
	return f
}

// Mixed is for [core.Policy].
func (p *policy) Mixed() batch.Flags { return 0 }

// Describe is for [core.Policy].
func (p *policy) Describe() string { return fmt.Sprintf("in %d slots", p.slots()) }

func (p *policy) slots() int {
	return int(p.engine.geometry().lines) * lineBytes / p.widths.Slot
}

// room is how many more slots may be used.
func (p *policy) room(used uint64) int { return roomIn(p.slots(), p.opts.MaxLoad) - int(used) }

// Before is for [core.Policy]: it grows the table, if it must, so that the whole
// batch has room, or at least a chunk.
func (p *policy) Before(ctx context.Context, now core.Counters, s *device.Stream, b *batch.Batch) (n int, report bool, err error) {
	if p.opts.Fixed {
		return b.N, false, nil
	}
	chunk := min(b.N, core.ChunkOps)
	if room := p.room(now.Used); room >= chunk {
		return min(b.N, room), false, nil
	}
	if !now.Exact {
		return 0, false, nil
	}
	need, err := p.need(ctx, now, s, b.Chunk(0, chunk))
	if err != nil {
		return 0, false, err
	}
	if need <= p.room(now.Used) {
		return chunk, false, nil
	}
	expect := uint64(float64(need) / float64(chunk) * float64(b.N))
	if err = p.grow(ctx, now, expect, uint64(need)); err == nil {
		return max(chunk, min(b.N, p.room(now.Live))), false, nil
	}
	// No memory to grow: use what room there is.
	if room := p.room(now.Used); room > 0 && errors.Is(err, device.ErrMemory) {
		return min(chunk, room), false, nil
	}
	return 0, false, err
}

// need is how many slots a chunk takes at most. Updates need none: a lookup is
// cheaper than growing for nothing, and its outcome tells how much room the
// whole batch is likely to need.
func (p *policy) need(ctx context.Context, now core.Counters, s *device.Stream, b *batch.Batch) (int, error) {
	need, err := b.Insertions(ctx, s)
	if err != nil || now.Live == 0 {
		return need, err
	}
	present, err := p.engine.present(ctx, s, b)
	return min(need, b.N-present), err
}

// grow rehashes for as many new keys as are expected, or if there is no memory
// for that, for those of a chunk.
func (p *policy) grow(ctx context.Context, now core.Counters, expect, need uint64) (err error) {
	for _, fresh := range []uint64{expect, need} {
		lines, ok := linesFor(now.Live+fresh, p.opts.MaxLoad, p.widths.Slot)
		if !ok {
			err = fmt.Errorf("%w: %d keys need more than the largest table", op.ErrFull, now.Live+fresh)
			continue
		}
		if err = p.resize(ctx, p.stretch(lines)); !errors.Is(err, device.ErrMemory) {
			return err
		}
	}
	return err
}

// stretch is the size to grow to when lines are needed: at least double, so
// that growth costs each key a constant number of moves, unless dropping dead
// slots alone makes half the table free.
func (p *policy) stretch(lines uint32) uint32 {
	have := p.engine.geometry().lines
	switch {
	case lines > have/2 && lines < 2*have:
		lines = uint32(min(2*uint64(have), maxLines))
	case lines <= have/2:
		lines = have
	}
	return max(lines, p.minLines)
}

// Retry is for [core.Policy]: a fixed table gets rid of its dead slots, a
// growing one was too crowded in one place.
func (p *policy) Retry(ctx context.Context, now core.Counters, failed *batch.Batch) (better bool, err error) {
	lines := p.engine.geometry().lines
	switch {
	case !p.opts.Fixed:
		lines = uint32(min(2*uint64(lines), maxLines))
	case now.Used == now.Live:
		return false, nil
	}
	if err = p.resize(ctx, lines); p.opts.Fixed && errors.Is(err, device.ErrMemory) {
		return false, nil // full in any case
	}
	return err == nil, err
}

// After is for [core.Policy]: a table that has become almost empty gets smaller.
func (p *policy) After(ctx context.Context, now core.Counters, delta int) error {
	have := p.engine.geometry().lines
	if delta >= 0 || p.opts.Fixed || have <= p.minLines || have == 1 ||
		float64(now.Live) > float64(p.slots())*p.opts.MaxLoad*shrinkShare {
		return nil
	}
	lines, _ := linesFor(2*now.Live, p.opts.MaxLoad, p.widths.Slot)
	if lines = max(lines, p.minLines); lines >= have {
		return nil
	}
	return p.resize(ctx, lines)
}

// Compact is for [core.Policy].
func (p *policy) Compact(ctx context.Context, now core.Counters) error {
	lines := p.engine.geometry().lines
	if !p.opts.Fixed {
		need, _ := linesFor(now.Live, p.opts.MaxLoad, p.widths.Slot)
		lines = min(lines, max(need, p.minLines))
	}
	if now.Used == now.Live && lines == p.engine.geometry().lines {
		return nil
	}
	return p.resize(ctx, lines)
}

// resize rehashes to a number of lines.
func (p *policy) resize(ctx context.Context, lines uint32) error {
	have := p.engine.geometry().lines
	if err := p.engine.rehash(ctx, lines); err != nil {
		return err
	}
	p.opts.Logger.Debug("linear: rehash", "from_lines", have, "to_lines", lines, "bytes", p.engine.geometry().bytes())
	return nil
}
