package slab

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/op"
)

//go:generate go run ../cmd/weftgen -target 80,90+ptx83 -struct weft::slab::Demand -struct weft::slab::Move -struct weft::slab::Tried -type slab::Tried=triedWords -type slab::Demand=demandWords -type slab::Move=moveWords ../kernels/include/weft/slab_arcs.cuh
//go:generate go run ../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 -widths 64_0,64_32 -type slab::Table=.tableRef -type slab::Graph=graphRef -type slab::Plain=plainEdges -type weft::ChangeParams=graphChangeParams -type weft::WinnersParams=graphWinnersParams -type weft::ExportParams=graphExportParams -type weft::Lookup=internal/gpu.Lookup -type weft::Changes=internal/gpu.Changes -type weft::Winners=internal/gpu.Winners -type weft::Export=internal/gpu.Export slab_graph.cu

// gpuGraph is a GPU engine for tables with arcs as keys. For flushes, and for resolving duplicates
// up to the choice of winners, it uses the kernels of other tables. The other kernels have the same
// loops with another locate, or work by vertex (graph.cuh).
//
// A batch of insertions is first run without reserving memory (arcBatch.insert and insertAttempt).
// An arc overflows if its vertex has no table or its chain would get long. Memory is reserved only
// for these arcs. The kernel count stores the number of arcs of each vertex as incoming, lists the
// vertices with chains that would get long, and plans their base slabs. The host reads the total
// and moves the listed tables, or all tables. Then the incoming counts are cleared. For large
// batches all edges are counted first.
type gpuGraph struct {
	gpuEngine
	sizing
	graph       graphKernels
	seed        uint64
	maxVertices int // exclusive limit of vertex numbers
	directed    bool

	demandWork   gpu.Work    // demand of a batch, and the tables to move
	readWork     gpu.Work    // temporary memory for reading rows
	nListed      int         // number of tables to move
	listedDemand demandWords // demand of the tables to move
	hasIncoming  bool        // whether vertices may have incoming counts
	arcs         arcBatch

	columns columnWork
}

// graphKernels holds the kernels for weights of one width.
type graphKernels struct {
	engine *gpuGraph
	widths batch.Widths

	find, change, export, renew  device.Kernel
	arcs, pick                   device.Kernel
	check, insert, erase         device.Kernel // check and insert serve graphs without weights
	count, sweep, forget, plan   device.Kernel
	move, settle                 device.Kernel
	measure, hand, degrees, rows device.Kernel
	doom, sever                  device.Kernel
	close                        device.Kernel
}

func newGPUGraph(dev device.Device, w batch.Widths, s sizing, o *GraphOptions) (_ graphEngine, _ *core.Leases, err error) {
	e := &gpuGraph{sizing: s, seed: o.Seed, maxVertices: o.MaxVertices, directed: o.Directed}
	e.kernel.engine, e.graph.engine, e.graph.widths = &e.Engine, e, w
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	if err = e.graph.load(dev); err != nil {
		return nil, nil, err
	}
	if err = e.OpenEngine(dev, w, slotsIn(w.Slot), &e.graph); err != nil {
		return nil, nil, err
	}
	if err = errors.Join(e.arcs.open(dev, e), e.columns.open(dev, e)); err != nil {
		return nil, nil, err
	}
	gen, err := e.allocate(o.Vertices, 0, spareUnits)
	if err != nil {
		return nil, nil, err
	}
	leases, err := e.Start(gen)
	if err != nil {
		return nil, nil, err
	}
	if err = e.clearOwners(); err != nil {
		err = errors.Join(err, leases.Free())
	}
	return e, leases, err
}

func (k *graphKernels) load(dev device.Device) error {
	w, e := k.widths, k.engine
	slots := batch.Widths{Key: 4, Val: w.Val} // widths of the slots, as in other tables
	order := []gpu.Entry{{Name: "contend", To: &e.Order.Contend}, {Name: "reset", To: &e.Order.Reset}}
	entries := []gpu.Entry{
		{Name: "find", To: &k.find}, {Name: "change", To: &k.change}, {Name: "export", To: &k.export}, {Name: "renew", To: &k.renew},
		{Name: "arcs", To: &k.arcs}, {Name: "pick", To: &k.pick}, {Name: "check", To: &k.check}, {Name: "erase", To: &k.erase}, {Name: "winners_first", To: &e.Order.First},
		{Name: "count", To: &k.count}, {Name: "sweep", To: &k.sweep}, {Name: "forget", To: &k.forget}, {Name: "plan", To: &k.plan}, {Name: "move", To: &k.move}, {Name: "settle", To: &k.settle},
		{Name: "measure", To: &k.measure}, {Name: "hand", To: &k.hand}, {Name: "degrees", To: &k.degrees}, {Name: "rows", To: &k.rows},
		{Name: "doom", To: &k.doom}, {Name: "sever", To: &k.sever},
		{Name: "close", To: &k.close},
	}
	if w.Val > 0 {
		order = append(order, gpu.Entry{Name: "claim", To: &e.Order.Claim})
		entries = append(entries, gpu.Entry{Name: "winners_last", To: &e.Order.Last})
	} else {
		entries = append(entries, gpu.Entry{Name: "insert", To: &k.insert})
	}
	return errors.Join(
		gpu.Load(dev, slabGraphImages[gpu.Variant(w)], entries),
		gpu.Load(dev, slabImages[gpu.Variant(batch.Widths{Key: 8, Val: min(2*w.Val, 8)})], order),
		gpu.Load(dev, slabImages[gpu.Variant(slots)], []gpu.Entry{{Name: "flush", To: &e.kernel.flush}, {Name: "chains", To: &e.kernel.chains}}),
	)
}

// Close implements core.Engine.
func (e *gpuGraph) Close() error {
	var err error
	if e.Stream != nil {
		err = errors.Join(e.demandWork.Free(&e.Queue), e.readWork.Free(&e.Queue), e.arcs.close(), e.columns.close())
	}
	return errors.Join(err, e.gpuEngine.Close())
}

func (e *gpuGraph) allocate(vertices int, slabs uint64, units int) (*generation, error) {
	n, err := e.baseSlabs(slabs)
	if err != nil {
		return nil, err
	}
	return allocateGraph(e.Dev, geometry{seed: e.seed, buckets: n}, vertices, units)
}

func (e *gpuGraph) dict() *dictionary { return e.generation().dict }

// clearOwners removes the tables of all vertices. The base slabs must be empty.
func (e *gpuGraph) clearOwners() error {
	d := e.dict()
	err := e.RunSync(context.Background(), d.clearOwnersOn)
	if err == nil {
		d.nextSlab, d.ownedSlabs = 0, 0
	}
	return err
}

func (d *dictionary) clearOwnersOn(s *device.Stream) error {
	return inOrder(
		func() error { return s.Fill(d.vertices.Ptr, 0, d.vertices.Size/4) },
		func() error { return s.Fill(d.owners.Ptr, noOwner, d.owners.Size/4) })
}

// Clear implements core.Engine. It empties the base slabs before vertices lose them.
func (e *gpuGraph) Clear(ctx context.Context) error {
	return inOrder(func() error { return e.gpuEngine.Clear(ctx) }, e.clearOwners)
}

func inOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// graphRefOf returns a generation as a parameter of kernels. If sweep is true, the allocator
// searches the whole pool, which batches without retries require.
func graphRefOf(p core.Parts, sweep bool) graphRef {
	g := p.(*generation)
	t := refOf(g)
	if sweep {
		t.alloc = g.units.Ref(true)
	}
	return graphRef{table: t, vertices: g.dict.vertices.Ptr, owners: g.dict.owners.Ptr, n: uint32(g.dict.n), longest: ^uint32(0)}
}

// refFor returns the graph as a parameter of kernels that run change c. An attempt limits the
// length of chains. For other changes without retries, the allocator searches the whole pool.
func (e *gpuGraph) refFor(p core.Parts, c *gpu.Change) graphRef {
	ref := graphRefOf(p, !e.arcs.attempting && c.Args.Failed.Items == 0)
	if e.arcs.attempting {
		ref.longest = e.maxChain(slotsIn(e.Widths.Slot))
	}
	return ref
}

// Lookup implements gpu.Structure.
func (k *graphKernels) Lookup(s *device.Stream, p core.Parts, b *batch.Batch, hits device.Ptr) error {
	lookup, grid := gpu.LookupOf(b, hits, tileLanes)
	return device.Launch(s, k.find, grid, gpu.Block, &findParams{graph: graphRefOf(p, false), lookup: lookup})
}

// Change implements gpu.Structure.
func (k *graphKernels) Change(s *device.Stream, p core.Parts, c *gpu.Change) (contended bool, err error) {
	params := graphChangeParams{table: k.engine.refFor(p, c), changes: c.Args}
	return c.Ordered(), device.Launch(s, k.change, gpu.Grid(c.N), gpu.Block, &params)
}

// Change implements core.Engine. It does not resolve duplicates if their order determines only
// results that are not requested. Deletions, and insertions without weights, change the graph in
// the same way in any order.
func (e *gpuGraph) Change(ctx context.Context, s *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	if b.Kind != op.Put && !b.Columns[batch.OK].Given() {
		plain := *b
		plain.Flags &^= batch.Order
		b = &plain
	}
	return e.gpuEngine.Change(ctx, s, b)
}

// ResolveWinners implements gpu.Structure.
func (k *graphKernels) ResolveWinners(s *device.Stream, p core.Parts, c *gpu.Change, w *gpu.Winners) error {
	return device.Launch(s, k.engine.Order.Winners(c.Kind), gpu.Wave(s.Device(), c.N), gpu.Block,
		&graphWinnersParams{table: k.engine.refFor(p, c), winners: *w})
}

// Export implements gpu.Structure.
func (k *graphKernels) Export(s *device.Stream, p core.Parts, lo, hi uint32, out *batch.Batch, count device.Ptr) error {
	return device.Launch(s, k.export, tiles(s.Device(), hi-lo), gpu.Block, &graphExportParams{
		table: graphRefOf(p, false), to: gpu.ExportOf(out, p.(*generation).Memory(), lo, hi, count),
	})
}

// ---- capacity ---------------------------------------------------------------

const demandBytes = int(unsafe.Sizeof(demandWords{}))

// demandParams returns the parameters of kernels that reserve memory. n is the number of listed
// vertices or of items in a batch.
func (e *gpuGraph) demandParams(n int) roomParams {
	at := e.demandWork.Buf.Ptr
	return roomParams{
		graph: graphRefOf(e.Parts(), true), demand: at, moves: at + device.Ptr(demandBytes), n: uint64(n),
		most: uint32(e.maxVertices), wanted: e.load16, times: rehashTimes, next: e.dict().nextSlab,
	}
}

// demandParamsFor returns demandParams for a batch of arcs in Keys, or of edges from Keys to Keys2.
func (e *gpuGraph) demandParamsFor(b *batch.Batch) roomParams {
	p := e.demandParams(b.N)
	if b.Columns[batch.Keys2].Given() {
		p.from, p.ends, p.both = b.Columns[batch.Keys].Ptr, b.Columns[batch.Keys2].Ptr, uint32(e.arcsPerEdge()-1)
	} else {
		p.keys = b.Columns[batch.Keys].Ptr
	}
	if e.arcsIn(b) >= e.dict().n {
		p.sweep = 1
	}
	return p
}

// arcsIn returns the number of arcs in a batch of arcs or edges.
func (e *gpuGraph) arcsIn(b *batch.Batch) int {
	if b.Columns[batch.Keys2].Given() {
		return b.N * e.arcsPerEdge()
	}
	return b.N
}

// readDemand runs launch, which computes a demand, and reads the demand.
func (e *gpuGraph) readDemand(ctx context.Context, s *device.Stream, launch func() error) (d demandWords, err error) {
	err = e.Submit(s, func() error {
		return inOrder(func() error { return s.Fill(e.demandWork.Buf.Ptr, 0, demandBytes/4) }, launch)
	})
	if err == nil {
		err = s.CopyOut(ctx, unsafe.Slice((*byte)(unsafe.Pointer(&d)), demandBytes), e.demandWork.Buf.Ptr)
	}
	return d, err
}

// countIncoming implements graphEngine.
func (e *gpuGraph) countIncoming(ctx context.Context, s *device.Stream, b *batch.Batch) (needed demand, err error) {
	if s == nil { // a batch that is run again
		err = e.RunWhole(ctx, &e.readWork, b.Select(batch.Keys), 0, func(onDevice *batch.Batch, _ int) error {
			needed, err = e.countIncoming(ctx, e.Stream, onDevice)
			return err
		})
		return needed, err
	}
	n := e.dict().n
	listed := max(1, min(e.arcsIn(b), n))
	if err := e.demandWork.Grow(&e.Queue, demandBytes+int(unsafe.Sizeof(moveWords{}))*listed); err != nil {
		return needed, err
	}
	p := e.demandParamsFor(b)
	launch := func(k device.Kernel, n int) error { return device.Launch(s, k, gpu.Wave(e.Dev, n), gpu.Block, &p) }
	e.hasIncoming = true
	d, err := e.readDemand(ctx, s, func() error {
		err := launch(e.graph.count, b.N)
		if err == nil && p.sweep != 0 {
			err = launch(e.graph.sweep, n)
		}
		if err == nil {
			err = launch(e.graph.plan, listed)
		}
		return err
	})
	if err == nil && d.bad != 0 {
		// The batch consists of edges, since arcs are made from checked edges.
		err = e.arcs.rangeError(ctx, s, b, int(^d.bad))
	}
	e.nListed, e.listedDemand = int(d.crowded), d
	return demand{vertices: int(d.vertices), slabs: d.slabs}, err
}

// clearIncoming implements graphEngine.
func (e *gpuGraph) clearIncoming(_ context.Context, s *device.Stream, b *batch.Batch) error {
	if !e.hasIncoming {
		return nil
	}
	if s == nil { // the batch is in host memory
		s, b = e.Stream, nil
	}
	var p roomParams
	if b != nil {
		p = e.demandParamsFor(b)
	} else {
		p = e.demandParams(0)
		p.sweep = 1
	}
	err := e.Submit(s, func() error {
		return device.Launch(s, e.graph.forget, gpu.Wave(e.Dev, max(int(p.n), e.dict().n)), gpu.Block, &p)
	})
	e.hasIncoming = err != nil
	return err
}

// rehash implements graphEngine. It reserves units for any distribution of the arcs, plus one for
// each tile that may hold a unit.
func (e *gpuGraph) rehash(ctx context.Context) (done bool, err error) {
	grid := device.Dim{X: min(e.nListed, 8*e.Dev.Properties().Units)}
	arcs := int(e.listedDemand.arcs)
	if err := e.units().Reserve(ctx, arcs/slotsIn(e.Widths.Slot)+min(arcs, grid.X*gpu.BlockThreads/tileLanes)); err != nil {
		return false, err
	}
	p, g := e.demandParams(e.nListed), e.generation()
	err = e.RunExclusive(ctx, func(s *device.Stream) error {
		if done = !e.Leases.Held(); !done { // only here no iteration can begin
			return nil
		}
		next := g.dict.nextSlab
		// If the second launch fails, the slabs written by the first stay unused until all tables
		// move.
		g.dict.nextSlab = g.buckets
		err := inOrder(
			func() error { return device.Launch(s, e.graph.move, grid, gpu.Block, &p) },
			func() error { return device.Launch(s, e.graph.settle, grid, gpu.Block, &p) })
		if err == nil {
			g.dict.nextSlab, g.dict.ownedSlabs = next+uint32(e.listedDemand.slabs), g.dict.ownedSlabs+uint32(e.listedDemand.kept)
		}
		return err
	})
	if err != nil || !done {
		return false, err
	}
	var d demandWords
	if err = e.Stream.CopyOut(ctx, unsafe.Slice((*byte)(unsafe.Pointer(&d)), demandBytes), e.demandWork.Buf.Ptr); err != nil {
		return false, err
	}
	switch {
	case int(d.lost) > e.nListed:
		return false, fmt.Errorf("the device reports %d vertices without slabs, but only %d move",
			d.lost, e.nListed)
	case d.lost > 0:
		return false, fmt.Errorf("no slabs for the tables of %d vertices that move: %w", d.lost,
			op.ErrFull)
	}
	return true, nil
}

// neededSlabs implements graphEngine.
func (e *gpuGraph) neededSlabs(ctx context.Context) (uint64, error) {
	if err := e.demandWork.Grow(&e.Queue, demandBytes); err != nil {
		return 0, err
	}
	p := e.demandParams(0)
	d, err := e.readDemand(ctx, e.Stream, func() error {
		return device.Launch(e.Stream, e.graph.measure, gpu.Wave(e.Dev, e.dict().n), gpu.Block, &p)
	})
	return d.slabs, err
}

// rebuild implements graphEngine.
func (e *gpuGraph) rebuild(ctx context.Context, n int, slabs uint64, units int) error {
	dropped, err := e.rebuildTo(ctx, n, slabs, units)
	if err == nil && dropped > 0 {
		err = fmt.Errorf("no slabs for %d arcs: %w", dropped, op.ErrFull)
	}
	e.hasIncoming = e.hasIncoming && err != nil // moved vertices have no incoming counts
	return err
}

func (e *gpuGraph) rebuildTo(ctx context.Context, n int, slabs uint64, units int) (dropped int, err error) {
	to, err := e.allocate(n, slabs, units)
	if err != nil {
		return 0, err
	}
	p := e.demandParams(0)
	p.to = graphRefOf(to, true)
	dropped, err = e.Move(ctx, to, func(s *device.Stream, from core.Parts, dropped device.Ptr) error {
		return inOrder(
			func() error { return to.dict.clearOwnersOn(s) },
			func() error { return s.Fill(e.demandWork.Buf.Ptr, 0, demandBytes/4) },
			func() error { return device.Launch(s, e.graph.hand, gpu.Wave(e.Dev, int(p.graph.n)), gpu.Block, &p) },
			func() error {
				return device.Launch(s, e.graph.renew, tiles(e.Dev, p.graph.table.buckets), gpu.Block, &renewParams{from: p.graph, to: p.to, lost: dropped})
			})
	})
	to.dict.nextSlab, to.dict.ownedSlabs = uint32(slabs), uint32(slabs)
	return dropped, err
}

// scratch implements graphEngine.
func (e *gpuGraph) scratch() int {
	return int(e.arcs.bytes.Load()+e.columns.bytes.Load()) + e.demandWork.Buf.Size + e.readWork.Buf.Size
}

// chains implements graphEngine. It counts only the base slabs of vertices.
func (e *gpuGraph) chains(ctx context.Context) (lengths [chainLengths]uint64, err error) {
	lengths, err = e.gpuEngine.chains(ctx)
	lengths[1] -= uint64(e.generation().buckets) + 1 - uint64(e.dict().ownedSlabs)
	return lengths, err
}

// ---- vertices ---------------------------------------------------------------

// deleteVertices deletes all edges of vertices and frees memory. It returns the number of deleted
// edges.
func (e *gpuGraph) deleteVertices(ctx context.Context, t *core.Table, method string, vertices []uint32) (n int, err error) {
	limit := uint32(0) // only vertices less than maxVertices have edges
	for _, u := range vertices {
		if u < uint32(e.maxVertices) {
			limit = max(limit, u+1)
		}
	}
	err = t.RunChange(ctx, method, func() (int, error) {
		b := &batch.Batch{N: len(vertices), Columns: batch.Columns{batch.Keys: batch.Input(vertices)}}
		if limit == 0 {
			return 0, nil
		}
		words := ceilDiv(int(limit), 32)
		err := e.RunWhole(ctx, &e.readWork, b, 8+4*words, func(onDevice *batch.Batch, at int) (err error) {
			n, err = e.deleteEdgesOf(ctx, onDevice, e.readWork.Buf.Ptr+device.Ptr(at), limit, words)
			return err
		})
		return -n, err
	})
	return n, err
}

// deleteEdgesOf deletes the edges of vertices that lie in device memory. at is the first address of
// its temporary memory: a count of arcs, followed by marks in the given number of words.
func (e *gpuGraph) deleteEdgesOf(ctx context.Context, b *batch.Batch, at device.Ptr, limit uint32, words int) (edges int, err error) {
	g := e.generation()
	p := doomedParams{
		graph: graphRefOf(g, false), vertices: b.Columns[batch.Keys].Ptr, deleted: at, marks: at + 8,
		n: uint32(b.N), limit: limit, both: uint32(e.arcsPerEdge() - 1),
	}
	err = e.RunSync(ctx, func(s *device.Stream) error {
		return inOrder(
			func() error { return s.Fill(at, 0, 2+words) },
			func() error { return device.Launch(s, e.graph.doom, gpu.Wave(e.Dev, b.N), gpu.Block, &p) },
			func() error { return device.Launch(s, e.graph.sever, tiles(e.Dev, g.buckets), gpu.Block, &p) })
	})
	var arcs [1]uint64
	if err == nil {
		err = e.Stream.CopyOut(context.WithoutCancel(ctx), device.Bytes(arcs[:]), at)
	}
	return int(arcs[0]) / e.arcsPerEdge(), err
}

// ---- reading ----------------------------------------------------------------

// addCount implements graphEngine.
func (e *gpuGraph) addCount(s *device.Stream, to device.Slice[uint64], n uint64) error {
	return e.AddCount(s, to.Ptr(), n)
}

// find implements graphEngine.
func (e *gpuGraph) find(ctx context.Context, t *core.Table, method string, s *device.Stream, b *batch.Batch, hits device.Ptr) (int, error) {
	if s == nil {
		return findArcs(ctx, t, method, b)
	}
	return 0, t.View(ctx, s, func(p core.Parts) error {
		look := gpu.Lookup{Vals: b.Columns[batch.Vals].Ptr, Found: b.Columns[batch.OK].Ptr, Hits: hits, N: uint64(b.N)}
		params := findParams{graph: graphRefOf(p, false), from: b.Columns[batch.Keys].Ptr, to: b.Columns[batch.Keys2].Ptr, lookup: look}
		return launchNonempty(s, e.graph.find, gpu.Grid(b.N), b.N, &params)
	})
}

func launchNonempty[P any](s *device.Stream, k device.Kernel, grid device.Dim, n int, p *P) error {
	if n == 0 {
		return nil
	}
	return device.Launch(s, k, grid, gpu.Block, p)
}

// degrees implements graphEngine.
func (e *gpuGraph) degrees(ctx context.Context, s *device.Stream, g *generation, b *batch.Batch) error {
	return e.runRead(ctx, s, b, func(s *device.Stream, b *batch.Batch) error {
		p := rowsParams{graph: graphRefOf(g, false), vertices: b.Columns[batch.Keys].Ptr, degrees: b.Columns[batch.Counts].Ptr, n: uint32(b.N)}
		return launchNonempty(s, e.graph.degrees, gpu.Wave(e.Dev, b.N), b.N, &p)
	})
}

// rows implements graphEngine.
func (e *gpuGraph) rows(ctx context.Context, s *device.Stream, g *generation, b *batch.Batch) error {
	return e.runRead(ctx, s, b, func(s *device.Stream, b *batch.Batch) error {
		p := rowsParams{
			graph: graphRefOf(g, false), vertices: b.Columns[batch.Keys].Ptr, offsets: b.Columns[batch.Offsets].Ptr,
			ids: b.Columns[batch.OutKeys].Ptr, weights: b.Columns[batch.Vals].Ptr, limit: uint64(b.Columns[batch.OutKeys].Rows()), n: uint32(b.N),
		}
		return launchNonempty(s, e.graph.rows, gpu.Wave(e.Dev, 32*b.N), b.N, &p)
	})
}

// runRead runs a launch that reads the graph on a stream. Without a stream it copies the columns
// between host and device; the caller then holds the writer lock.
func (e *gpuGraph) runRead(ctx context.Context, s *device.Stream, b *batch.Batch, launch func(s *device.Stream, b *batch.Batch) error) error {
	if s != nil || b.N == 0 {
		return launch(s, b)
	}
	return e.RunWhole(ctx, &e.readWork, b, 0, func(onDevice *batch.Batch, _ int) error { return launch(e.Stream, onDevice) })
}

// offsets implements graphEngine.
func (e *gpuGraph) offsets(s *device.Stream, b *batch.Batch) error {
	return e.Offsets(s, b.Columns[batch.Counts].Ptr, b.Columns[batch.Offsets].Ptr, b.N)
}
