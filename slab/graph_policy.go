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

// graphEngine extends core.Engine with operations for the policy and the methods of graphs.
type graphEngine interface {
	core.Engine
	dict() *dictionary
	units() *alloc.Owner
	flush(ctx context.Context) error
	chains(ctx context.Context) ([chainLengths]uint64, error)
	// scratch returns the size of all memory other than the generation.
	scratch() int

	// countIncoming counts the insertions of a batch for each vertex, and lists the vertices with
	// chains that would get long. Next the caller calls rehash, rebuild or clearIncoming. Without a
	// stream the batch lies in host memory.
	countIncoming(ctx context.Context, s *device.Stream, b *batch.Batch) (demand, error)
	// clearIncoming clears the counts of a batch. Without a batch it clears the counts that a
	// failed call has left.
	clearIncoming(ctx context.Context, s *device.Stream, b *batch.Batch) error
	// rehash moves the tables of the listed vertices to unused base slabs, which must suffice. It
	// does nothing during an iteration, which would miss edges or yield them twice.
	rehash(ctx context.Context) (done bool, err error)
	// rebuild moves all tables to a new generation with entries for n vertices, and with the given
	// numbers of base slabs and of units. Each table gets base slabs for its degree and its
	// incoming arcs. After an error the old generation is unchanged.
	rebuild(ctx context.Context, n int, slabs uint64, units int) error
	// neededSlabs returns the number of base slabs that rebuild needs.
	neededSlabs(ctx context.Context) (uint64, error)

	// addCount submits work that adds n to the caller's counter, unless the counter is empty.
	addCount(s *device.Stream, to device.Slice[uint64], n uint64) error
	// apply runs or submits a change of edges from Keys to Keys2. It returns the number of edges
	// changed. A submitted change returns 0 and adds the number to count, unless count is null.
	apply(ctx context.Context, t *core.Table, method string, s *device.Stream, b *batch.Batch, count device.Ptr) (int, error)
	// find runs or submits a lookup of edges from Keys to Keys2, which writes Vals and OK. It
	// returns the number of edges found. For a submitted lookup it returns 0 and adds the number to
	// hits, unless hits is null.
	find(ctx context.Context, t *core.Table, method string, s *device.Stream, b *batch.Batch, hits device.Ptr) (int, error)
	// degrees writes the degrees of the vertices in Keys to Counts. rows writes their neighbors to
	// OutKeys and the weights to Vals, at Offsets. Without a stream the columns lie in host memory.
	degrees(ctx context.Context, s *device.Stream, g *generation, b *batch.Batch) error
	rows(ctx context.Context, s *device.Stream, g *generation, b *batch.Batch) error
	// offsets writes the prefix sums of Counts to Offsets, on a stream.
	offsets(s *device.Stream, b *batch.Batch) error
	// exportRows writes the targets of all arcs to OutKeys, row by row in ascending order, and the
	// weights to Vals, if given. It waits until they are written. It returns the offsets of the
	// rows up to the last vertex with an edge.
	exportRows(ctx context.Context, s *device.Stream, b *batch.Batch) (device.Slice[uint64], error)
}

// demand is the memory that a batch of insertions needs.
type demand struct {
	vertices int    // required number of dictionary entries
	slabs    uint64 // number of base slabs for tables that are rehashed
}

// graphPolicy decides when tables of vertices grow, when all tables move, and when dead slots are
// dropped. It counts the insertions of each vertex before a batch runs. So all tables get their
// base slabs together before the edges are inserted, and no chain gets long meanwhile.
type graphPolicy struct {
	opts   GraphOptions
	widths batch.Widths
	sizing
	engine graphEngine
	free   int    // lower bound on the number of free units in the pool
	peak   uint64 // maximum number of arcs since all tables moved
}

// Flags implements core.Policy.
func (p *graphPolicy) Flags(kind op.Kind) batch.Flags {
	f := batch.Order
	if kind != op.Delete && p.opts.Overwrite {
		f |= batch.Reuse
	}
	return f
}

// MixedFlags implements core.Policy.
func (p *graphPolicy) MixedFlags() batch.Flags { return 0 }

// Describe implements core.Policy.
func (p *graphPolicy) Describe() string {
	d := p.engine.dict()
	return fmt.Sprintf("in %d base slabs of %d vertices", d.ownedSlabs, d.n)
}

// Prepare implements core.Policy.
func (p *graphPolicy) Prepare(ctx context.Context, now core.Counters, s *device.Stream, b *batch.Batch) (n int, report bool, err error) {
	if !now.Exact {
		return 0, false, nil
	}
	if now, err = p.flushIfNeeded(ctx, now); err != nil {
		return 0, false, err
	}
	if err := p.reserveFor(ctx, now, s, b, b.N); err != nil {
		return 0, false, err
	}
	report = s != nil && min(b.N, p.maxUnitsFor(b.N)+maxUnlinked) > p.free
	p.free -= p.maxUnitsFor(b.N)
	p.peak = max(p.peak, now.Live+uint64(b.N))
	return b.N, report, nil
}

// prepareAttempt prepares for n insertions that may overflow and may take any unit of the pool.
func (p *graphPolicy) prepareAttempt(ctx context.Context, bound core.Counters, s *device.Stream, n int) (err error) {
	if err := p.engine.clearIncoming(ctx, s, nil); err != nil {
		return err
	}
	if p.needsFlush(bound) {
		if bound, err = p.engine.ReadCounters(ctx); err == nil {
			bound.Dead, bound.Exact = bound.Used-bound.Live, true
			bound, err = p.flushIfNeeded(ctx, bound)
		}
	}
	p.free, p.peak = 0, max(p.peak, bound.Live+uint64(n))
	return err
}

// reserveBatch reserves memory for a large batch of edges before it runs. arcs is the number of its
// arcs.
func (p *graphPolicy) reserveBatch(ctx context.Context, now core.Counters, s *device.Stream, edges *batch.Batch, arcs int) error {
	now, err := p.flushIfNeeded(ctx, now)
	if err == nil {
		err = p.reserveFor(ctx, now, s, edges, arcs)
	}
	return err
}

// reserveFor reserves memory for a batch of n insertions before it runs.
func (p *graphPolicy) reserveFor(ctx context.Context, now core.Counters, s *device.Stream, b *batch.Batch, n int) error {
	before := p.engine.Current()
	err := p.growTables(ctx, s, b, n)
	if err == nil {
		err = p.engine.clearIncoming(ctx, s, b)
	} else {
		err = errors.Join(err, p.engine.clearIncoming(context.WithoutCancel(ctx), s, b))
	}
	if err != nil {
		return err
	}
	if p.engine.Current() != before { // moved tables have no tombstones
		now.Used = now.Live
	}
	return p.reserve(ctx, now, s, b, n)
}

// growTables provides dictionary entries and base slabs for a batch.
func (p *graphPolicy) growTables(ctx context.Context, s *device.Stream, b *batch.Batch, incoming int) error {
	needed, err := p.engine.countIncoming(ctx, s, b)
	if entries := p.engine.dict().n; err == nil && needed.vertices > entries {
		if err = p.rebuild(ctx, min(max(needed.vertices, 2*entries), p.opts.MaxVertices), incoming); err == nil {
			needed, err = p.engine.countIncoming(ctx, s, b)
		}
	}
	if err != nil || needed.slabs == 0 {
		return err
	}
	g := p.engine.Current().Parts.(*generation)
	if uint64(g.dict.nextSlab)+needed.slabs > uint64(g.buckets) {
		return p.rebuild(ctx, g.dict.n, incoming)
	}
	p.opts.Logger.Debug("slab: graph: rehash of vertices", "base_slabs", needed.slabs)
	p.free = 0 // the rehash frees and takes units
	if done, err := p.engine.rehash(ctx); done || err != nil && !errors.Is(err, op.ErrFull) {
		return err
	}
	// All tables move. The pool may have the maximum of super blocks and need larger ones.
	return p.rebuild(ctx, g.dict.n, incoming)
}

// rebuild moves all tables to a new generation with entries for n vertices and the base slabs that
// they need. The pool gets units for the expected chains of the present and incoming arcs. Without
// incoming arcs it gets at most as many units as are in use now.
func (p *graphPolicy) rebuild(ctx context.Context, n, incoming int) error {
	slabs, err := p.engine.neededSlabs(ctx)
	now, err2 := p.engine.ReadCounters(ctx)
	if err = errors.Join(err, err2); err != nil {
		return err
	}
	units := p.expected(now.Live+uint64(incoming), uint32(min(slabs, maxBuckets)))
	if incoming == 0 {
		pool, err := p.countPool(ctx)
		if err != nil {
			return err
		}
		units = min(units, pool.Used)
	}
	return p.rebuildWith(ctx, n, slabs, units+spareUnits)
}

// expected returns the expected number of chained slabs, given the numbers of arcs and of base
// slabs.
func (p *graphPolicy) expected(arcs uint64, slabs uint32) int {
	return chainedFor(arcs, 1, max(slabs, 1), p.widths.Slot)
}

func (p *graphPolicy) rebuildWith(ctx context.Context, n int, slabs uint64, units int) error {
	start, from := time.Now(), p.engine.dict().ownedSlabs
	err := p.engine.rebuild(ctx, n, slabs, units)
	// The distribution of the arcs is worse than chance: add the units that they fill.
	if errors.Is(err, op.ErrFull) {
		var now core.Counters
		if now, err = p.engine.ReadCounters(ctx); err == nil {
			err = p.engine.rebuild(ctx, n, slabs, units+ceilDiv(int(now.Live), slotsIn(p.widths.Slot)))
		}
	}
	if err != nil {
		return fmt.Errorf("moving all to other base slabs: %w", err)
	}
	g := p.engine.Current().Parts.(*generation)
	p.free, p.peak = 0, 0
	observe.Rehashed("slab: graph", p.opts.Logger, start, g.bytes(), "from_slabs", from, "to_slabs", g.dict.ownedSlabs, "vertices", n)
	return nil
}

// maxUnitsFor returns the maximum number of units that n insertions take.
func (p *graphPolicy) maxUnitsFor(n int) int {
	return maxChained(n, p.engine.dict().ownedSlabs, p.widths.Slot)
}

// reserve ensures that the pool has the units that n insertions of a batch are expected to take.
// Insertions that find no unit are retried.
func (p *graphPolicy) reserve(ctx context.Context, now core.Counters, s *device.Stream, b *batch.Batch, n int) error {
	limit := p.maxUnitsFor(n)
	if limit <= p.free {
		return nil
	}
	pool, err := p.countPool(ctx)
	if err != nil {
		return err
	}
	needed := p.expected(now.Used+uint64(n), p.engine.dict().ownedSlabs) - pool.Used
	if needed = min(max(needed, spareUnits), limit); needed <= p.free {
		return nil
	}
	if err := p.grow(ctx, s, b, needed); !errors.Is(err, device.ErrMemory) {
		return err
	}
	_, err = p.countPool(ctx) // the insertions may overflow
	return err
}

// grow provides the given number of free units. It adds super blocks or, at their maximum number,
// moves all tables to a pool of larger super blocks.
func (p *graphPolicy) grow(ctx context.Context, s *device.Stream, b *batch.Batch, units int) error {
	err := p.engine.units().Reserve(ctx, units)
	if errors.Is(err, op.ErrFull) {
		err = p.enlargePool(ctx, s, b, units)
	}
	if err == nil {
		_, err = p.countPool(ctx)
	}
	return err
}

// enlargePool moves all tables to a pool of larger super blocks. It counts the batch that will run,
// so that tables made for the batch remain, even those of vertices without edges.
func (p *graphPolicy) enlargePool(ctx context.Context, s *device.Stream, b *batch.Batch, units int) (err error) {
	defer func() { err = errors.Join(err, p.engine.clearIncoming(context.WithoutCancel(ctx), s, b)) }()
	if _, err := p.engine.countIncoming(ctx, s, b); err != nil {
		return err
	}
	pool, err := p.countPool(ctx)
	if err != nil {
		return err
	}
	slabs, err := p.engine.neededSlabs(ctx)
	if err != nil {
		return err
	}
	return p.rebuildWith(ctx, p.engine.dict().n, slabs, 2*(pool.Units+units))
}

func (p *graphPolicy) countPool(ctx context.Context) (alloc.Usage, error) {
	s, err := p.engine.units().Usage(ctx)
	if err == nil {
		p.free = s.Units - s.Used
	}
	return s, err
}

// Retry implements core.Policy. Retry allocates more units before it runs the operations again, so
// after finitely many retries all of them find one.
func (p *graphPolicy) Retry(ctx context.Context, _ core.Counters, failed *batch.Batch) (deferred []uint32, more bool, err error) {
	if _, err = p.countPool(ctx); err == nil {
		// Reserve more than n units, since the last free units are hard to find.
		err = p.grow(ctx, nil, failed, p.free+min(failed.N, p.maxUnitsFor(failed.N)+maxUnlinked))
	}
	if err != nil {
		return core.AllRows(failed.N), false, err
	}
	deferred, err = core.Rerun(ctx, p.engine, failed)
	p.free = 0
	return deferred, true, err
}

// Trim implements core.Policy.
func (p *graphPolicy) Trim(ctx context.Context, now core.Counters, delta int) error {
	now, err := p.flushIfNeeded(ctx, now)
	if err != nil || delta >= 0 || now.Live >= p.peak/2 {
		return err
	}
	p.peak = now.Live
	slabs, err := p.engine.neededSlabs(ctx)
	if g := p.engine.Current().Parts.(*generation); err == nil && uint64(g.buckets) > 2*slabs+2*spareUnits {
		err = p.rebuild(ctx, g.dict.n, 0)
	}
	return err
}

// needsFlush reports whether the graph has many dead slots.
func (p *graphPolicy) needsFlush(now core.Counters) bool {
	dead, slots := float64(now.Dead), float64(p.engine.dict().ownedSlabs)*float64(slotsIn(p.widths.Slot))
	return p.opts.MaxTombstones >= 0 && dead > p.opts.MaxTombstones*float64(now.Used) && dead >= flushShare*slots
}

// flushIfNeeded flushes a graph with many dead slots. It returns the counters after the flush.
func (p *graphPolicy) flushIfNeeded(ctx context.Context, now core.Counters) (core.Counters, error) {
	if !p.needsFlush(now) {
		return now, nil
	}
	p.opts.Logger.Debug("slab: graph: flush", "live", now.Live, "dead", now.Dead)
	if err := p.engine.flush(ctx); err != nil {
		return now, fmt.Errorf("flush: %w", err)
	}
	p.free = 0 // the pool has more free units than that
	now, err := p.engine.ReadCounters(context.WithoutCancel(ctx))
	now.Dead, now.Exact = now.Used-now.Live, true
	return now, err
}

// Compact implements core.Policy.
func (p *graphPolicy) Compact(ctx context.Context, _ core.Counters) error {
	return p.rebuild(ctx, p.engine.dict().n, 0)
}
