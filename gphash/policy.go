package gphash

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/pm"
)

// policy decides when the index grows: when a key finds no slot, as in the paper, since until then
// operations cost the same at any load. With Beside each batch drains a part of the bottom level
// and zeroes one of the next, in proportion to its size. With Stop the batch that grows the index
// does all.
type policy struct {
	*engine
	run    core.Engine // runs operations: the engine, or that of a GPU
	resize Resize
}

// drainPerOp is the number of buckets that a batch drains per operation. That many operations fill
// less than a bucket of the level above.
const drainPerOp = 0.5

// Flags and Mixed implement [core.Policy]. The engine keeps the order of a batch by itself.
func (p *policy) Flags(op.Kind) batch.Flags { return 0 }
func (p *policy) Mixed() batch.Flags        { return 0 }

// Before implements [core.Policy].
func (p *policy) Before(ctx context.Context, now core.Counters, s *device.Stream, b *batch.Batch) (n int, report bool, err error) {
	if err := p.changeable(); err != nil {
		return 0, false, err
	}
	n = min(b.N, core.ChunkOps)
	if p.redo != nil {
		n = min(n, p.redo.capacity())
	}
	tight := s != nil && float64(now.Live)+float64(n) > roomy*float64(p.slotsIn(p.open()))
	if tight && !now.Exact {
		return 0, false, nil
	}
	if uint64(n) > p.slotsIn(p.open()) {
		if err := p.ahead(ctx, now, s, b.Part(0, n)); err != nil {
			return n, false, err
		}
	}
	if err = p.prepare(now, b, n); err == nil {
		_, err = p.drain(ctx, uint64(drainPerOp*float64(n))+1)
	}
	return n, tight || s != nil && p.short(now.Used, uint64(n)), err
}

// roomy is a load below which practically no key lacks a slot.
const roomy = 0.75

// short reports whether n more values might find no memory, with used slots in use. Each region may
// hold some free memory of its own.
func (p *policy) short(used, n uint64) bool {
	v := p.values
	all := uint64(len(v.space.owner)-v.space.levels) * v.per
	own := uint64(1) << p.bits() * v.per
	return used+2*n+own > all
}

// ahead grows an index for a batch that may bring more keys than the index has slots. Otherwise
// they would fill one new level after the other.
func (p *policy) ahead(ctx context.Context, now core.Counters, s *device.Stream, b *batch.Batch) error {
	need, _, err := core.Need(ctx, p.run, now, s, b, b.N, p.seed[0])
	if err == nil {
		err = p.fetch()
	}
	for err == nil && float64(now.Live)+float64(need) > fullest*float64(p.slotsIn(p.open())) {
		next := level{bits: p.live[0].bits + 1}
		units := p.unitsOf(next)
		if p.next != nil {
			units = 0 // allocated already
		}
		if next.bits >= maxLevels || p.Leases.Held() || p.values.left(p.typical(b), units) < uint64(need) {
			return nil // a level that takes the memory of the values is useless
		}
		if err = p.another(); err == nil {
			_, err = p.drain(ctx, math.MaxUint64)
		}
		if errors.Is(err, errNoSpace) {
			return nil // as far as possible
		}
	}
	return err
}

// typical returns the class of an average record of a batch.
func (p *policy) typical(b *batch.Batch) (class int) {
	if !p.records() {
		return 0
	}
	keys, values := 0, 0
	for i := range b.N {
		keys += len(b.Columns[batch.Keys].Row(i))
		if v := &b.Columns[batch.Vals]; v.Given() {
			values += len(v.Row(i))
		}
	}
	class, _ = p.values.class(keys/b.N, values/b.N)
	return class
}

// fullest is the load up to which keys move to make a slot for another, and up to which a batch may
// grow an index. Beyond it, moves take ever longer.
const fullest = 0.95

// Retry implements [core.Policy]. Operations without a slot run again once more slots exist. Those
// without memory for their value run alone and take it from any region; records are compacted for
// them.
func (p *policy) Retry(ctx context.Context, now core.Counters, failed *batch.Batch) (still []uint32, more bool, err error) {
	if err = p.changeable(); err == nil && p.noSpace == nil {
		live := now.Live
		if p.redo != nil {
			live += uint64(failed.N) // all of them need slots at once
		}
		err = p.enlarge(ctx, live)
	}
	lacked := p.noSpace
	if err == nil {
		p.retries++
		if p.lacked = lacked != nil; p.lacked {
			err = p.yield()
		}
		if err == nil && p.lacked && p.records() {
			err = p.gatherFor(failed)
		}
		if err == nil {
			still, err = core.Rerun(ctx, p.run, failed)
		}
		p.lacked = false
		if lacked != nil && len(still) == failed.N {
			err = lacked
		}
	}
	if err != nil {
		still = make([]uint32, failed.N)
		for i := range still {
			still[i] = uint32(i)
		}
	}
	return still, len(still) > 0 && err == nil, err
}

// enlarge makes slots by draining the closed levels, which fills the levels above evenly. If keys
// find no slot there, it adds a level.
func (p *policy) enlarge(ctx context.Context, live uint64) error {
	if p.closed > 0 && !p.Leases.Held() {
		if crowded, err := p.drain(ctx, math.MaxUint64); err != nil || !crowded {
			return err
		}
	}
	err := p.grow(live)
	if err == nil && p.resize == Stop {
		_, err = p.drain(ctx, math.MaxUint64)
	}
	return err
}

// After implements [core.Policy]. It does nothing, since a pool keeps its size.
func (p *policy) After(context.Context, core.Counters, int) error { return nil }

// Compact implements [core.Policy].
func (p *policy) Compact(ctx context.Context, _ core.Counters) error {
	if err := p.changeable(); err != nil {
		return err
	}
	if err := p.recycle(); err != nil {
		return err
	}
	_, err := p.drain(ctx, math.MaxUint64)
	if err == nil && p.records() {
		err = p.gatherAll(ctx)
	}
	return err
}

// Describe implements [core.Policy].
func (p *policy) Describe() string {
	return fmt.Sprintf("in %d slots of a pool of %d MiB", p.slotsIn(p.live), p.mem.Words()*pm.Word>>20)
}
