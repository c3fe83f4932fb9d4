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

// policy decides when the index grows. As in the paper, it grows when a key finds no slot, since
// until then operations cost the same at any load. In mode Beside each batch drains buckets of the
// bottom level and zeroes buckets of the next level, in proportion to its size. In mode Stop the
// batch that grows the index drains and zeroes everything.
type policy struct {
	*engine
	run    core.Engine // runs the operations: engine, or the engine of a GPU
	resize Resize
}

// drainPerOp is the number of buckets that a batch drains per operation. At this rate, operations
// fill less than one bucket of the level above for each drained bucket.
const drainPerOp = 0.5

// Flags and MixedFlags implement [core.Policy]. The engine keeps the order of a batch without
// flags.
func (p *policy) Flags(op.Kind) batch.Flags { return 0 }
func (p *policy) MixedFlags() batch.Flags   { return 0 }

// Prepare implements [core.Policy].
func (p *policy) Prepare(ctx context.Context, now core.Counters, s *device.Stream, b *batch.Batch) (n int, report bool, err error) {
	if err := p.checkWritable(); err != nil {
		return 0, false, err
	}
	n = min(b.N, core.ChunkOps)
	if p.redo != nil {
		n = min(n, p.redo.capacity())
	}
	nearFull := s != nil && float64(now.Live)+float64(n) > safeLoad*float64(p.slotsIn(p.openLevels()))
	if nearFull && !now.Exact {
		return 0, false, nil
	}
	if uint64(n) > p.slotsIn(p.openLevels()) {
		if err := p.growAhead(ctx, now, s, b.Part(0, n)); err != nil {
			return n, false, err
		}
	}
	if err = p.zeroAhead(now, b, n); err == nil {
		_, err = p.drain(ctx, uint64(drainPerOp*float64(n))+1)
	}
	return n, nearFull || s != nil && p.mayLackMemory(now.Used, uint64(n)), err
}

// safeLoad is a load at which practically every key finds a slot.
const safeLoad = 0.75

// mayLackMemory reports whether n more values might find no memory, given the number of used slots.
// Each region may hold free memory that other regions cannot use.
func (p *policy) mayLackMemory(used, n uint64) bool {
	v := p.values
	total := uint64(len(v.space.owner)-v.space.levels) * v.perUnit
	perRegion := uint64(1) << p.bits() * v.perUnit
	return used+2*n+perRegion > total
}

// growAhead grows the index before a batch that may bring more keys than the index has slots.
// Without it, the keys would fill several new levels one after the other.
func (p *policy) growAhead(ctx context.Context, now core.Counters, s *device.Stream, b *batch.Batch) error {
	newKeys, _, err := core.EstimateInserts(ctx, p.run, now, s, b, b.N, p.seed[0])
	if err == nil {
		err = p.fetchSpace()
	}
	for err == nil && float64(now.Live)+float64(newKeys) > maxLoad*float64(p.slotsIn(p.openLevels())) {
		next := level{bits: p.live[0].bits + 1}
		units := p.unitsOf(next)
		if p.next != nil {
			units = 0 // next is already allocated
		}
		if next.bits >= maxLevels || p.Leases.Held() || p.values.freeValues(p.typicalClass(b), units) < uint64(newKeys) {
			return nil // the level would take the memory of the values
		}
		if err = p.addLevel(); err == nil {
			_, err = p.drain(ctx, math.MaxUint64)
		}
		if errors.Is(err, errNoSpace) {
			return nil // the index has grown as far as possible
		}
	}
	return err
}

// typicalClass returns the class of a record of average size in a batch.
func (p *policy) typicalClass(b *batch.Batch) (class int) {
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

// maxLoad is the load up to which keys move to make slots for other keys, and up to which a batch
// may grow an index. At higher loads moves take much longer.
const maxLoad = 0.95

// Retry implements [core.Policy]. Operations without a slot run again after the number of slots has
// grown. Operations without memory for their values run again alone and may use memory of any
// region. For these operations, records are compacted.
func (p *policy) Retry(ctx context.Context, now core.Counters, failed *batch.Batch) (remaining []uint32, retry bool, err error) {
	if err = p.checkWritable(); err == nil && p.noSpace == nil {
		live := now.Live
		if p.redo != nil {
			live += uint64(failed.N) // all operations need slots at once
		}
		err = p.enlarge(ctx, live)
	}
	lacked := p.noSpace
	if err == nil {
		p.nRetries++
		if p.anyRegion = lacked != nil; p.anyRegion {
			err = p.releaseNext()
		}
		if err == nil && p.anyRegion && p.records() {
			err = p.compactFor(failed)
		}
		if err == nil {
			remaining, err = core.Rerun(ctx, p.run, failed)
		}
		p.anyRegion = false
		if lacked != nil && len(remaining) == failed.N {
			err = lacked
		}
	}
	if err != nil {
		remaining = make([]uint32, failed.N)
		for i := range remaining {
			remaining[i] = uint32(i)
		}
	}
	return remaining, len(remaining) > 0 && err == nil, err
}

// enlarge drains the closed levels, which frees slots evenly in the levels above. If a key finds no
// slot there, enlarge adds a level.
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

// Trim implements [core.Policy]. It does nothing, since a pool keeps its size.
func (p *policy) Trim(context.Context, core.Counters, int) error { return nil }

// Compact implements [core.Policy].
func (p *policy) Compact(ctx context.Context, _ core.Counters) error {
	if err := p.checkWritable(); err != nil {
		return err
	}
	if err := p.recycle(); err != nil {
		return err
	}
	_, err := p.drain(ctx, math.MaxUint64)
	if err == nil && p.records() {
		err = p.compactAll(ctx)
	}
	return err
}

// Describe implements [core.Policy].
func (p *policy) Describe() string {
	return fmt.Sprintf("in %d slots of a pool of %d MiB", p.slotsIn(p.live), p.mem.Words()*pm.Word>>20)
}
