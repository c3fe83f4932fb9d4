package slab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/op"
)

// cpuGraph is a CPU engine for tables with arcs as keys. Only locate and the operations by vertex
// differ from other tables. V and SV are uint32 or struct{}.
type cpuGraph[V, SV cpu.Val] struct {
	*cpuEngine[uint64, uint32, V, SV]
	sizing
	seed     uint64
	toRehash []uint32 // vertices with chains that a batch would make long
}

// vertexGrain is the number of vertices that a core processes at a time.
const vertexGrain = 1 << 10

func newCPUGraph[V, SV cpu.Val](dev device.Host, s sizing, seed uint64, vertices int) (graphEngine, *core.Leases, error) {
	e := &cpuEngine[uint64, uint32, V, SV]{cpu.Engine{Device: dev, SlotsPerLine: slotsIn(int(unsafe.Sizeof(cpu.Slot[uint32, SV]{})))}, false}
	g := &cpuGraph[V, SV]{cpuEngine: e, sizing: s, seed: seed}
	gen, err := g.allocate(vertices, 0, spareUnits)
	if err != nil {
		return nil, nil, err
	}
	leases, err := g.Start(gen)
	return g, leases, err
}

// allocate makes a generation with the given number of base slabs, plus a reserve. No base slab has
// an owner.
func (e *cpuGraph[V, SV]) allocate(vertices int, slabs uint64, units int) (*generation, error) {
	n, err := e.baseSlabs(slabs)
	if err != nil {
		return nil, err
	}
	gen, err := allocateGraph(e.Device, geometry{seed: e.seed, buckets: n}, vertices, units)
	if err == nil {
		e.clearOwners(gen.dict)
	}
	return gen, err
}

// clearOwners removes the tables of all vertices.
func (e *cpuGraph[V, SV]) clearOwners(d *dictionary) {
	clear(d.entries())
	owners := batch.View[uint32](d.owners.Host)
	for i := range owners {
		owners[i] = noOwner
	}
	d.nextSlab, d.ownedSlabs = 0, 0
}

func (e *cpuGraph[V, SV]) generation() *generation { return e.Parts().(*generation) }

func (e *cpuGraph[V, SV]) dict() *dictionary { return e.generation().dict }

// Clear implements core.Engine.
func (e *cpuGraph[V, SV]) Clear(ctx context.Context) error {
	err := e.cpuEngine.Clear(ctx)
	if err == nil {
		e.clearOwners(e.dict())
	}
	return err
}

// countArc adds delta to the degree of the source of an arc. It ignores keys that are not arcs. The
// addition is atomic because several cores may process the buckets of one vertex.
func countArc[N, K cpu.Key, V cpu.Val](t *cpuTable[K, V], name N, delta int64) {
	var stored K
	if unsafe.Sizeof(name) > unsafe.Sizeof(stored) && delta != 0 {
		atomic.AddUint32(&t.vertices[uint64(name)>>32].degree, uint32(delta))
	}
}

// ---- capacity ---------------------------------------------------------------

// countIncoming implements graphEngine.
func (e *cpuGraph[V, SV]) countIncoming(_ context.Context, _ *device.Stream, b *batch.Batch) (needed demand, err error) {
	keys, entries := batch.View[uint64](b.Columns[batch.Keys].Host), e.dict().entries()
	e.toRehash = e.toRehash[:0]
	for _, k := range keys {
		needed.vertices = max(needed.vertices, int(k>>32)+1)
	}
	if needed.vertices > len(entries) {
		return needed, nil
	}
	var mu sync.Mutex
	e.Device.Parallel(len(keys), bulkGrain, func(lo, hi int) {
		var part []uint32
		for _, k := range keys[lo:hi] {
			v := &entries[k>>32]
			// Only the insertion that exceeds the limit lists the vertex.
			incoming, limit := uint64(atomic.AddUint32(&v.incoming, 1)), e.maxDegree(v.slabs)
			if all := uint64(v.degree) + incoming; all > limit && (all == limit+1 || incoming == 1) {
				part = append(part, uint32(k>>32))
			}
		}
		mu.Lock()
		defer mu.Unlock()
		e.toRehash = append(e.toRehash, part...)
	})
	for _, u := range e.toRehash {
		needed.slabs += uint64(e.slabsFor(entries[u].degree + entries[u].incoming))
	}
	return needed, nil
}

// clearIncoming implements graphEngine.
func (e *cpuGraph[V, SV]) clearIncoming(_ context.Context, _ *device.Stream, b *batch.Batch) error {
	keys, entries := batch.View[uint64](b.Columns[batch.Keys].Host), e.dict().entries()
	for _, k := range keys {
		if u := k >> 32; u < uint64(len(entries)) {
			entries[u].incoming = 0
		}
	}
	return nil
}

// assignSlabs assigns unused base slabs to a vertex, in place of its current base slabs.
func (d *dictionary) assignSlabs(u, slabs uint32) {
	v, owners := &d.entries()[u], batch.View[uint32](d.owners.Host)
	for b := v.first; b < v.first+v.slabs; b++ {
		owners[b] = noOwner
	}
	d.ownedSlabs += slabs - v.slabs
	v.first, v.slabs = d.nextSlab, slabs
	d.nextSlab += slabs
	for b := v.first; b < d.nextSlab; b++ {
		owners[b] = u
	}
}

// graphMover moves the table of a vertex on one core.
type graphMover[SV cpu.Val] struct {
	mover[uint32, SV]
	extracted []cpu.Slot[uint32, SV]
	dead      uint64
}

// extract moves the live slots of a vertex from its base slabs and chains to extracted. It leaves
// the base slabs empty and without chains.
func (m *graphMover[SV]) extract(v vertex) {
	m.extracted = m.extracted[:0]
	for b := v.first; b < v.first+v.slabs; b++ {
		base := m.src.base(b)
		for slab := base; slab != nil; slab = m.src.next(slab) {
			for _, s := range m.src.slots(slab) {
				switch {
				case !isSentinel(s.Key):
					m.extracted = append(m.extracted, s)
				case s.Key == cpu.Sentinel[uint32](cpu.Dead):
					m.dead++
				}
			}
		}
		m.src.truncate(base, 0)
		linkOf(base).tail = noUnit
	}
}

// rehash implements graphEngine. It reserves units that suffice for any distribution of the slots:
// a table needs at most one chained slab per full slab of its slots. No other operation takes these
// units meanwhile, and a worker searches all units. So no slot is deferred, and nothing can fail
// after the slots have left their old tables.
func (e *cpuGraph[V, SV]) rehash(ctx context.Context) (done bool, err error) {
	if e.Leases.Held() {
		return false, nil
	}
	g := e.generation()
	entries, maxChained := g.dict.entries(), 0
	for _, u := range e.toRehash {
		maxChained += ceilDiv(int(entries[u].degree), slotsIn(int(unsafe.Sizeof(cpu.Slot[uint32, SV]{}))))
	}
	if err := g.units.Reserve(ctx, maxChained); err != nil {
		return false, err
	}
	old := make([]vertex, len(e.toRehash))
	for i, u := range e.toRehash {
		old[i] = entries[u]
		g.dict.assignSlabs(u, e.slabsFor(entries[u].degree+entries[u].incoming))
	}
	movers := make([]graphMover[SV], len(old))
	e.Device.Parallel(len(old), 1, func(i, _ int) {
		m := &movers[i]
		m.src, m.dst = tableOf[uint32, SV](g), tableOf[uint32, SV](g)
		m.units = m.dst.units.Worker()
		m.extract(old[i])
		for j := range m.extracted {
			m.insert(locate(&m.dst, arcOf(e.toRehash[i], m.extracted[j].Key)), &m.extracted[j])
		}
		m.extracted = nil
	})
	moved := make([]mover[uint32, SV], len(movers))
	for i := range movers {
		g.Tally().Used -= movers[i].dead
		moved[i] = movers[i].mover
	}
	_, err = e.putDeferred(context.WithoutCancel(ctx), g, moved)
	return err == nil, err
}

// putDeferred reserves units and appends the deferred slots to their chains. It returns the number
// of all slots that have moved.
func (e *cpuGraph[V, SV]) putDeferred(ctx context.Context, g *generation, movers []mover[uint32, SV]) (moved uint64, err error) {
	nDeferred := 0
	for i := range movers {
		moved += movers[i].moved
		nDeferred += len(movers[i].deferred)
	}
	if nDeferred == 0 {
		return moved, nil
	}
	if err := g.units.Reserve(ctx, maxChained(nDeferred, g.dict.ownedSlabs, int(unsafe.Sizeof(cpu.Slot[uint32, SV]{})))); err != nil {
		return moved, err
	}
	m := mover[uint32, SV]{dst: tableOf[uint32, SV](g)}
	m.units = m.dst.units.Worker()
	for i := range movers {
		for _, p := range movers[i].deferred {
			m.insert(p.bucket, &p.slot)
		}
	}
	if n := len(m.deferred); n > 0 {
		return moved, fmt.Errorf("no slabs for %d edges that move: %w", n, op.ErrFull)
	}
	return moved + m.moved, nil
}

// neededSlabs implements graphEngine.
func (e *cpuGraph[V, SV]) neededSlabs(context.Context) (uint64, error) {
	var sum atomic.Uint64
	entries := e.dict().entries()
	e.Device.Parallel(len(entries), bulkGrain, func(lo, hi int) {
		n := uint64(0)
		for _, v := range entries[lo:hi] {
			n += uint64(e.slabsFor(v.degree + v.incoming))
		}
		sum.Add(n)
	})
	return sum.Load(), nil
}

// rebuild implements graphEngine.
func (e *cpuGraph[V, SV]) rebuild(ctx context.Context, n int, slabs uint64, units int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	from := e.generation()
	to, err := e.allocate(n, slabs, units)
	if err != nil {
		return err
	}
	return e.Move(ctx, to, func() error {
		entries := to.dict.entries()
		for u, v := range from.dict.entries() {
			to.dict.assignSlabs(uint32(u), e.slabsFor(v.degree+v.incoming))
			entries[u].degree, entries[u].incoming = v.degree, v.incoming
		}
		return e.moveAll(ctx, from, to)
	})
}

func (e *cpuGraph[V, SV]) moveAll(ctx context.Context, from, to *generation) error {
	entries := from.dict.entries()
	movers := make([]mover[uint32, SV], ceilDiv(len(entries), vertexGrain))
	e.Device.Parallel(len(entries), vertexGrain, func(lo, hi int) {
		m := mover[uint32, SV]{src: tableOf[uint32, SV](from), dst: tableOf[uint32, SV](to), watch: cpu.NewWatch(ctx)}
		m.units = m.dst.units.Worker()
		for u := lo; u < hi; u++ {
			v := entries[u]
			for s := range m.src.live(v.first, v.first+v.slabs) {
				if m.watch.ShouldStop(1) {
					return
				}
				m.insert(locate(&m.dst, arcOf(uint32(u), s.Key)), s)
			}
		}
		movers[lo/vertexGrain] = m
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	n, err := e.putDeferred(ctx, to, movers)
	*to.Tally() = core.Tally{Live: n, Used: n}
	return err
}

// ---- edges ------------------------------------------------------------------

// apply implements graphEngine. It converts each edge to its arcs. The result of an edge is the
// result of its last arc, which leads from the smaller end to the larger end.
func (e *cpuGraph[V, SV]) apply(ctx context.Context, t *core.Table, method string, s *device.Stream, b *batch.Batch, _ device.Ptr) (n int, err error) {
	if err := cpu.SyncStream(s); err != nil {
		return 0, err
	}
	from, to := batch.View[uint32](b.Columns[batch.Keys].Host), batch.View[uint32](b.Columns[batch.Keys2].Host)
	both := b.Flags&bothWays != 0
	vals := batch.View[uint32](b.Columns[batch.Vals].Host)
	keys, ends, weights := make([]uint64, 0, 2*len(from)), make([]int, len(from)), make([]uint32, 0, 2*len(vals))
	for i, u := range from {
		for _, k := range arcsOf(u, to[i], both) {
			keys = append(keys, k)
			if vals != nil {
				weights = append(weights, vals[i])
			}
		}
		ends[i] = len(keys)
	}
	done := make([]bool, len(keys))
	arcs := &batch.Batch{N: len(keys), Kind: b.Kind}
	arcs.Columns[batch.Keys], arcs.Columns[batch.OK] = batch.Input(keys), batch.Output(done)
	if vals != nil {
		arcs.Columns[batch.Vals] = batch.Input(weights)
	}
	_, err = t.Change(ctx, method, arcs)
	ok := batch.View[bool](b.Columns[batch.OK].Host)
	for i, u := range from {
		changed := u != to[i] && done[ends[i]-1]
		if changed {
			n++
		}
		if ok != nil {
			ok[i] = changed
		}
	}
	return n, inEdges(err, 0, func(arc int) int {
		return sort.Search(len(ends), func(i int) bool { return ends[i] > arc })
	})
}

// inEdges converts the error of a batch of arcs to the error of its edges. first is the position of
// these edges in the caller's batch. edgeOf returns the edge that an arc belongs to.
func inEdges(err error, first int, edgeOf func(arc int) int) error {
	p := (*op.PartialError)(nil)
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &p):
		return op.Partial(first, nil, err)
	}
	done := edgeOf(p.Done)
	rows := p.Rows[:0]
	for _, arc := range p.Rows {
		if i := edgeOf(arc); i < done { // otherwise only one of its arcs has been tried
			rows = append(rows, first+i)
		}
	}
	p.Rows = slices.Compact(rows)
	p.Done, p.Failed = first+done, len(p.Rows)
	return err
}

// bothWays extends the flags of package batch. It puts an edge into the tables of both its ends.
const bothWays batch.Flags = 1 << 24

// arcsOf returns the arcs of an edge. If both is set, the last arc leads from the smaller end to
// the larger end. A loop has no arcs.
func arcsOf(u, v uint32, both bool) []uint64 {
	switch {
	case u == v:
		return nil
	case !both:
		return []uint64{arcOf(u, v)}
	}
	return []uint64{arcOf(max(u, v), min(u, v)), arcOf(min(u, v), max(u, v))}
}

// addCount implements graphEngine.
func (e *cpuGraph[V, SV]) addCount(_ *device.Stream, to device.Slice[uint64], n uint64) error {
	core.AddCount(to, n)
	return nil
}

// find implements graphEngine.
func (e *cpuGraph[V, SV]) find(ctx context.Context, t *core.Table, method string, s *device.Stream, b *batch.Batch, hits device.Ptr) (int, error) {
	if err := cpu.SyncStream(s); err != nil {
		return 0, err
	}
	return findArcs(ctx, t, method, b)
}

// findArcs looks up edges in host memory.
func findArcs(ctx context.Context, t *core.Table, method string, b *batch.Batch) (int, error) {
	from, to := batch.View[uint32](b.Columns[batch.Keys].Host), batch.View[uint32](b.Columns[batch.Keys2].Host)
	keys := make([]uint64, len(from))
	for i, u := range from {
		keys[i] = arcOf(u, to[i])
	}
	look := *b
	look.Columns[batch.Keys], look.Columns[batch.Keys2] = batch.Input(keys), batch.Column{}
	return t.Get(ctx, method, nil, &look)
}

// ---- reading ----------------------------------------------------------------

// degrees implements graphEngine.
func (e *cpuGraph[V, SV]) degrees(_ context.Context, s *device.Stream, g *generation, b *batch.Batch) error {
	if err := cpu.SyncStream(s); err != nil {
		return err
	}
	vertices, counts, entries := batch.View[uint32](b.Columns[batch.Keys].Host), batch.View[uint32](b.Columns[batch.Counts].Host), g.dict.entries()
	for i, u := range vertices {
		if counts[i] = 0; int(u) < len(entries) {
			counts[i] = entries[u].degree
		}
	}
	return nil
}

// offsets implements graphEngine.
func (e *cpuGraph[V, SV]) offsets(_ *device.Stream, b *batch.Batch) error {
	offsets := batch.View[uint64](b.Columns[batch.Offsets].Host)
	offsets[0] = 0
	for i, n := range batch.View[uint32](b.Columns[batch.Counts].Host) {
		offsets[i+1] = offsets[i] + uint64(n)
	}
	return nil
}

// rows implements graphEngine.
func (e *cpuGraph[V, SV]) rows(ctx context.Context, s *device.Stream, g *generation, b *batch.Batch) error {
	if err := cpu.SyncStream(s); err != nil {
		return err
	}
	vertices, offsets := batch.View[uint32](b.Columns[batch.Keys].Host), batch.View[uint64](b.Columns[batch.Offsets].Host)
	ids, vals, entries := batch.View[uint32](b.Columns[batch.OutKeys].Host), batch.View[V](b.Columns[batch.Vals].Host), g.dict.entries()
	e.Device.Parallel(len(vertices), vertexGrain, func(lo, hi int) {
		t := tableOf[uint32, SV](g)
		for i := lo; i < hi && ctx.Err() == nil; i++ {
			at, u := offsets[i], vertices[i]
			if int(u) >= len(entries) {
				continue
			}
			for slot := range t.live(entries[u].first, entries[u].first+entries[u].slabs) {
				if at >= uint64(len(ids)) || at >= offsets[i+1] {
					break
				}
				if ids[at] = slot.Key; vals != nil {
					vals[at] = *(*V)(unsafe.Pointer(&slot.Val))
				}
				at++
			}
		}
	})
	return ctx.Err()
}

// Export implements core.Engine.
func (e *cpuGraph[V, SV]) Export(ctx context.Context, l *core.Lease, lo, hi uint32, out *batch.Batch) (int, error) {
	g := l.Parts.(*generation)
	t, owners, rows := tableOf[uint32, SV](g), batch.View[uint32](g.dict.owners.Host), cpu.RowsOf[uint64, V](out)
	err := cpu.Walk(ctx, g.Memory(), lo, hi, func(line uint32) {
		for s := range t.live(line, line+1) {
			cpu.AddRow(&rows, arcOf(owners[line], s.Key), s)
		}
	})
	return rows.N, err
}

// scratch implements graphEngine.
func (e *cpuGraph[V, SV]) scratch() int { return 0 }

// chains implements engine. It counts only the base slabs of vertices.
func (e *cpuGraph[V, SV]) chains(ctx context.Context) (classes [chainLengths]uint64, err error) {
	classes, err = e.cpuEngine.chains(ctx)
	classes[1] -= uint64(e.generation().buckets) + 1 - uint64(e.dict().ownedSlabs)
	return classes, err
}
