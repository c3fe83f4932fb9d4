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

// graphEngine is what the policy of graphs needs of a machine, and the graph itself.
type graphEngine interface {
	core.Engine
	dict() *dictionary
	units() *alloc.Owner
	flush(ctx context.Context) error
	chains(ctx context.Context) ([chainLengths]uint64, error)
	// scratch is the size of memory beside that of the generation.
	scratch() int

	// count notes how many insertions of a batch each vertex gets, and finds those whose chains would get long. The next
	// call is rehash, renew or forget. Without a stream the batch lies in host memory.
	count(ctx context.Context, s *device.Stream, b *batch.Batch) (demand, error)
	// forget undoes that; without a batch what is left of one for which it failed.
	forget(ctx context.Context, s *device.Stream, b *batch.Batch) error
	// rehash moves the tables of those vertices to base slabs that nobody has, of which there are enough; but not while an iteration
	// reads them, which would miss edges or bring them twice: then it does nothing.
	rehash(ctx context.Context) (done bool, err error)
	// renew moves all tables to a new generation with entries for n vertices, as many base slabs as are wanted, and a pool of so many units.
	// Each table gets base slabs for its degree and what is coming. On an error the old generation is unchanged.
	renew(ctx context.Context, n int, slabs uint64, units int) error
	// wanted is how many base slabs there would be.
	wanted(ctx context.Context) (uint64, error)

	// addCount submits adding n to a counter of a caller's, if there is one.
	addCount(s *device.Stream, to device.Slice[uint64], n uint64) error
	// apply runs a change of edges from Keys to Keys2, or submits it, and returns how many did something; of a
	// submitted one 0, and they are added to count, unless that is null.
	apply(ctx context.Context, t *core.Table, method string, s *device.Stream, b *batch.Batch, count device.Ptr) (int, error)
	// find looks edges from Keys to Keys2 up, or submits that, writes Vals and OK and returns how many there are; of a
	// submitted one 0, and they are added to hits, unless that is null.
	find(ctx context.Context, t *core.Table, method string, s *device.Stream, b *batch.Batch, hits device.Ptr) (int, error)
	// degrees writes the degrees of vertices Keys to Counts; rows their neighbors to OutKeys and weights to Vals, from
	// Offsets on. Without a stream the columns lie in host memory.
	degrees(ctx context.Context, s *device.Stream, g *generation, b *batch.Batch) error
	rows(ctx context.Context, s *device.Stream, g *generation, b *batch.Batch) error
	// offsets adds up Counts to Offsets, on a stream.
	offsets(s *device.Stream, b *batch.Batch) error
	// arrange writes where all arcs lead to OutKeys, and their weights to Vals, if it is given: row by row, each ascending. It returns
	// where rows begin, of as many vertices as have edges, and waits for that.
	arrange(ctx context.Context, s *device.Stream, b *batch.Batch) (device.Slice[uint64], error)
}

// demand is what a batch of insertions needs.
type demand struct {
	vertices int    // the dictionary must have
	slabs    uint64 // base slabs for tables that are rehashed
}

// graphPolicy decides when tables of vertices grow, when all move, and when dead slots go. A batch is counted by vertex before it
// is run, so a table has its base slabs, in bulk, before its edges come, and no chain gets long meanwhile.
type graphPolicy struct {
	opts   GraphOptions
	widths batch.Widths
	sizing
	engine graphEngine
	free   int    // at least so many units of the pool are
	peak   uint64 // most arcs since all was moved
}

// Flags is for [core.Policy].
func (p *graphPolicy) Flags(kind op.Kind) batch.Flags {
	f := batch.Order
	if kind != op.Delete && p.opts.Overwrite {
		f |= batch.Reuse
	}
	return f
}

// Mixed is for [core.Policy].
func (p *graphPolicy) Mixed() batch.Flags { return 0 }

// Describe is for [core.Policy].
func (p *graphPolicy) Describe() string {
	d := p.engine.dict()
	return fmt.Sprintf("in %d base slabs of %d vertices", d.kept, d.n)
}

// Before is for [core.Policy].
func (p *graphPolicy) Before(ctx context.Context, now core.Counters, s *device.Stream, b *batch.Batch) (n int, report bool, err error) {
	if !now.Exact {
		return 0, false, nil
	}
	if now, err = p.maybeFlush(ctx, now); err != nil {
		return 0, false, err
	}
	if err := p.roomFor(ctx, now, s, b, b.N); err != nil {
		return 0, false, err
	}
	report = s != nil && min(b.N, p.worst(b.N)+unitsInHand) > p.free
	p.free -= p.worst(b.N)
	p.peak = max(p.peak, now.Live+uint64(b.N))
	return b.N, report, nil
}

// tries comes before n insertions that need not find room, and take any unit of the pool.
func (p *graphPolicy) tries(ctx context.Context, bound core.Counters, s *device.Stream, n int) (err error) {
	if err := p.engine.forget(ctx, s, nil); err != nil {
		return err
	}
	if p.dirty(bound) {
		if bound, err = p.engine.Counters(ctx); err == nil {
			bound.Dead, bound.Exact = bound.Used-bound.Live, true
			bound, err = p.maybeFlush(ctx, bound)
		}
	}
	p.free, p.peak = 0, max(p.peak, bound.Live+uint64(n))
	return err
}

// foresee comes before a large batch of edges, so many arcs, that need not find room: it makes some for all of them.
func (p *graphPolicy) foresee(ctx context.Context, now core.Counters, s *device.Stream, edges *batch.Batch, arcs int) error {
	now, err := p.maybeFlush(ctx, now)
	if err == nil {
		err = p.roomFor(ctx, now, s, edges, arcs)
	}
	return err
}

// roomFor makes room for a batch of so many insertions, so that it is there before they are run.
func (p *graphPolicy) roomFor(ctx context.Context, now core.Counters, s *device.Stream, b *batch.Batch, n int) error {
	before := p.engine.Current()
	err := p.makeRoom(ctx, s, b, n)
	if err == nil {
		err = p.engine.forget(ctx, s, b)
	} else {
		err = errors.Join(err, p.engine.forget(context.WithoutCancel(ctx), s, b))
	}
	if err != nil {
		return err
	}
	if p.engine.Current() != before { // what has moved has left its tombstones
		now.Used = now.Live
	}
	return p.reserve(ctx, now, s, b, n)
}

// makeRoom gives vertices entries in the dictionary, and base slabs.
func (p *graphPolicy) makeRoom(ctx context.Context, s *device.Stream, b *batch.Batch, coming int) error {
	need, err := p.engine.count(ctx, s, b)
	if have := p.engine.dict().n; err == nil && need.vertices > have {
		if err = p.renew(ctx, min(max(need.vertices, 2*have), p.opts.MaxVertices), coming); err == nil {
			need, err = p.engine.count(ctx, s, b)
		}
	}
	if err != nil || need.slabs == 0 {
		return err
	}
	g := p.engine.Current().Parts.(*generation)
	if uint64(g.dict.next)+need.slabs > uint64(g.buckets) {
		return p.renew(ctx, g.dict.n, coming)
	}
	p.opts.Logger.Debug("slab: graph: rehash of vertices", "base_slabs", need.slabs)
	p.free = 0 // chains come and go
	if done, err := p.engine.rehash(ctx); done || err != nil && !errors.Is(err, op.ErrFull) {
		return err
	}
	return p.renew(ctx, g.dict.n, coming) // all moves, also where the pool may have no more super blocks: to one of larger ones
}

// renew moves all to a new generation, with a pool for the chains that chance makes of as many arcs, and of so many that are coming, with the base
// slabs that there will be; or if none are, for those that are there, if these are fewer.
func (p *graphPolicy) renew(ctx context.Context, n, coming int) error {
	slabs, err := p.engine.wanted(ctx)
	now, err2 := p.engine.Counters(ctx)
	if err = errors.Join(err, err2); err != nil {
		return err
	}
	units := p.expected(now.Live+uint64(coming), uint32(min(slabs, maxBuckets)))
	if coming == 0 {
		pool, err := p.countPool(ctx)
		if err != nil {
			return err
		}
		units = min(units, pool.Used)
	}
	return p.renewWith(ctx, n, slabs, units+spareUnits)
}

// expected is how many slabs are chained behind so many base slabs.
func (p *graphPolicy) expected(arcs uint64, slabs uint32) int {
	return chainedFor(arcs, 1, max(slabs, 1), p.widths.Slot)
}

func (p *graphPolicy) renewWith(ctx context.Context, n int, slabs uint64, units int) error {
	began, from := time.Now(), p.engine.dict().kept
	err := p.engine.renew(ctx, n, slabs, units)
	if errors.Is(err, op.ErrFull) { // arcs are spread worse than by chance: they take as many more units as they fill
		var now core.Counters
		if now, err = p.engine.Counters(ctx); err == nil {
			err = p.engine.renew(ctx, n, slabs, units+ceilDiv(int(now.Live), slotsIn(p.widths.Slot)))
		}
	}
	if err != nil {
		return fmt.Errorf("moving all to other base slabs: %w", err)
	}
	g := p.engine.Current().Parts.(*generation)
	p.free, p.peak = 0, 0
	observe.Rehashed("slab: graph", p.opts.Logger, began, g.bytes(), "from_slabs", from, "to_slabs", g.dict.kept, "vertices", n)
	return nil
}

// worst is the number of units that n insertions take at most.
func (p *graphPolicy) worst(n int) int {
	return mostChained(n, p.engine.dict().kept, p.widths.Slot)
}

// reserve makes the pool have the units that n insertions of a batch are expected to need. What finds none runs again.
func (p *graphPolicy) reserve(ctx context.Context, now core.Counters, s *device.Stream, b *batch.Batch, n int) error {
	most := p.worst(n)
	if most <= p.free {
		return nil
	}
	pool, err := p.countPool(ctx)
	if err != nil {
		return err
	}
	need := p.expected(now.Used+uint64(n), p.engine.dict().kept) - pool.Used
	if need = min(max(need, spareUnits), most); need <= p.free {
		return nil
	}
	if err := p.grow(ctx, s, b, need); !errors.Is(err, device.ErrMemory) {
		return err
	}
	_, err = p.countPool(ctx) // the insertions find out whether these are enough
	return err
}

// grow makes the pool have so many free units: by super blocks, or if it may have no more, by moving all to one of larger ones.
func (p *graphPolicy) grow(ctx context.Context, s *device.Stream, b *batch.Batch, units int) error {
	err := p.engine.units().Reserve(ctx, units)
	if errors.Is(err, op.ErrFull) {
		err = p.enlarge(ctx, s, b, units)
	}
	if err == nil {
		_, err = p.countPool(ctx)
	}
	return err
}

// enlarge moves all to a pool of larger super blocks, with the tables that a batch needs when it is run, or run again: those of vertices without
// edges have been made for it, and would go.
func (p *graphPolicy) enlarge(ctx context.Context, s *device.Stream, b *batch.Batch, units int) (err error) {
	defer func() { err = errors.Join(err, p.engine.forget(context.WithoutCancel(ctx), s, b)) }()
	if _, err := p.engine.count(ctx, s, b); err != nil {
		return err
	}
	pool, err := p.countPool(ctx)
	if err != nil {
		return err
	}
	slabs, err := p.engine.wanted(ctx)
	if err != nil {
		return err
	}
	return p.renewWith(ctx, p.engine.dict().n, slabs, 2*(pool.Units+units))
}

func (p *graphPolicy) countPool(ctx context.Context) (alloc.Usage, error) {
	s, err := p.engine.units().Usage(ctx)
	if err == nil {
		p.free = s.Units - s.Used
	}
	return s, err
}

// Retry is for [core.Policy]: there are more free units each time.
func (p *graphPolicy) Retry(ctx context.Context, _ core.Counters, failed *batch.Batch) (still []uint32, more bool, err error) {
	if _, err = p.countPool(ctx); err == nil {
		// More than there are: that none was found shows that they are hard to find.
		err = p.grow(ctx, nil, failed, p.free+min(failed.N, p.worst(failed.N)+unitsInHand))
	}
	if err != nil {
		return core.All(failed.N), false, err
	}
	still, err = core.Rerun(ctx, p.engine, failed)
	p.free = 0
	return still, true, err
}

// After is for [core.Policy].
func (p *graphPolicy) After(ctx context.Context, now core.Counters, delta int) error {
	now, err := p.maybeFlush(ctx, now)
	if err != nil || delta >= 0 || now.Live >= p.peak/2 {
		return err
	}
	p.peak = now.Live
	want, err := p.engine.wanted(ctx)
	if g := p.engine.Current().Parts.(*generation); err == nil && uint64(g.buckets) > 2*want+2*spareUnits {
		err = p.renew(ctx, g.dict.n, 0)
	}
	return err
}

// dirty tells whether a graph has many dead slots.
func (p *graphPolicy) dirty(now core.Counters) bool {
	dead, slots := float64(now.Dead), float64(p.engine.dict().kept)*float64(slotsIn(p.widths.Slot))
	return p.opts.MaxTombstones >= 0 && dead > p.opts.MaxTombstones*float64(now.Used) && dead >= flushShare*slots
}

// maybeFlush flushes a graph that has many dead slots.
func (p *graphPolicy) maybeFlush(ctx context.Context, now core.Counters) (core.Counters, error) {
	if !p.dirty(now) {
		return now, nil
	}
	p.opts.Logger.Debug("slab: graph: flush", "live", now.Live, "dead", now.Dead)
	if err := p.engine.flush(ctx); err != nil {
		return now, fmt.Errorf("flush: %w", err)
	}
	p.free = 0 // more than that
	now, err := p.engine.Counters(context.WithoutCancel(ctx))
	now.Dead, now.Exact = now.Used-now.Live, true
	return now, err
}

// Compact is for [core.Policy].
func (p *graphPolicy) Compact(ctx context.Context, _ core.Counters) error {
	return p.renew(ctx, p.engine.dict().n, 0)
}
