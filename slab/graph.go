package slab

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/touched"
)

// Graph is a mutable graph with a hash set of neighbors for each vertex. This is the layout of
// Awad's thesis "Fully Concurrent GPU Data Structures" (2022), chapter 5. [NewGraph] makes a Graph.
// All methods are safe for concurrent use.
//
// Vertices are the numbers below Options.MaxVertices; they all exist. The graph has no parallel
// edges and no self loops. In an undirected graph, edges from u to v and from v to u are the same.
//
// The operations of a batch take effect as if they ran one after the other. If a batch fails
// midway, for example when memory runs out, the error reports the number of edges that are done.
// Other edges of the batch may also be stored, in an undirected graph even in one direction only.
// Run them again, or delete them.
//
// Package durable makes a graph survive power failures. Changes of a durable graph run one after
// the other. After a change that failed, the store has each edge of the batch in both directions or
// not at all.
type Graph struct{ graph }

// WeightedGraph is a Graph with a weight for each edge. It stores neighbors and weights in hash
// maps. Inserting an edge again replaces its weight.
type WeightedGraph[W Weight] struct{ graph }

// Weight constrains the types of edge weights.
type Weight interface{ ~int32 | ~uint32 | ~float32 }

// graph implements both kinds of graphs, without the type of weights. For the core, a graph is one
// table with arcs as 64-bit keys. Only the bucket of a key differs from other tables, and slots
// store only the neighbor. Loops over batches, duplicates, retries, flushes and counters are those
// of this package, which does not export them. So graphs of this layout are not in package graph.
type graph struct {
	core   *core.Table
	policy *graphPolicy
	ends   *touched.Lister
	log    *graphLog
}

// NewGraph makes a graph without edges on a device. The device must stay open until the graph is
// closed. NewGraph returns [weft.ErrOptions], [device.ErrMemory], or an error of loading kernels.
func NewGraph(dev device.Device, opts *GraphOptions) (*Graph, error) {
	g, err := newGraph(dev, core.Set, 0, core.SetTypes[uint64](), opts)
	if err != nil {
		return nil, err
	}
	return &Graph{g}, nil
}

// NewWeightedGraph makes a graph without edges on a device. See [NewGraph] for the errors.
func NewWeightedGraph[W Weight](dev device.Device, opts *GraphOptions) (*WeightedGraph[W], error) {
	g, err := newGraph(dev, core.Map, 4, core.MapTypes[uint64, W](), opts)
	if err != nil {
		return nil, err
	}
	return &WeightedGraph[W]{g}, nil
}

func newGraph(dev device.Device, kind core.Kind, weight int, types core.Types, o *GraphOptions) (graph, error) {
	opts, err := o.check()
	w := graphWidths(weight)
	c := core.Config{Name: "slab: graph", Kind: kind, Device: dev, Widths: w, Types: types, Logger: opts.Logger}
	t, err := core.Make(c, err, func(c *core.Config) (err error) {
		p := &graphPolicy{opts: opts, widths: w}
		if p.sizing, err = sizingFor(opts.MaxLoad, w.Slot); err != nil {
			return err
		}
		p.engine, c.Leases, err = newGraphEngine(c.Device, w, p.sizing, &opts)
		c.Policy, c.Engine = p, p.engine
		return err
	})
	if err != nil {
		return graph{}, err
	}
	ends, log := &touched.Lister{Dev: dev, Most: opts.MaxVertices}, &graphLog{lock: make(chan struct{}, 1)}
	return graph{t, t.Policy.(*graphPolicy), ends, log}, nil
}

func newGraphEngine(dev device.Device, w batch.Widths, s sizing, o *GraphOptions) (graphEngine, *core.Leases, error) {
	host, ok := dev.(device.Host)
	switch {
	case !ok:
		return newGPUGraph(dev, w, s, o)
	case w.Val == 0:
		return newCPUGraph[struct{}, struct{}](host, s, o.Seed, o.Vertices)
	}
	return newCPUGraph[uint32, uint32](host, s, o.Seed, o.Vertices)
}

// Device returns the device of the graph.
func (g *graph) Device() device.Device { return g.core.Device }

// Directed reports whether edges lead only one way.
func (g *graph) Directed() bool { return g.policy.opts.Directed }

// Arcs returns the total number of neighbors of all vertices. It counts all returned calls, but
// batches on the device only up to the last Sync. Arcs and Edges neither lock nor wait.
func (g *graph) Arcs() int { return g.core.Len() }

// Edges returns the number of edges.
func (g *graph) Edges() int {
	if g.Directed() {
		return g.Arcs()
	}
	return g.Arcs() / 2
}

// ---- changes ----------------------------------------------------------------

// Insert inserts edges and returns the number of edges that were absent. Unless inserted is nil,
// inserted[i] reports whether edge i was absent. Insert skips self loops. If a vertex is not less
// than MaxVertices, Insert returns [weft.ErrOptions] with the position of its edge, before anything
// changes. (Delete and lookups accept such a vertex and find no edge.) Insert panics if the slices
// differ in length.
func (g *Graph) Insert(ctx context.Context, from, to []uint32, inserted []bool) (int, error) {
	return g.change(ctx, "Insert", nil, op.PutNew, edgeColumns(from, to, batch.Column{}, inserted))
}

// Insert inserts edges with weights, and replaces the weights of existing edges. See
// [Graph.Insert].
func (g *WeightedGraph[W]) Insert(ctx context.Context, from, to []uint32, weights []W, inserted []bool) (int, error) {
	return g.change(ctx, "Insert", nil, op.Put, edgeColumns(from, to, batch.Input(weights), inserted))
}

// Delete deletes edges and returns the number of edges that were present. Unless deleted is nil,
// deleted[i] reports whether edge i was present.
func (g *graph) Delete(ctx context.Context, from, to []uint32, deleted []bool) (int, error) {
	return g.change(ctx, "Delete", nil, op.Delete, edgeColumns(from, to, batch.Column{}, deleted))
}

// InsertOn inserts edges from slices in device memory; inserted may be empty. See [Graph.Insert]
// for the results. If counts is given, InsertOn adds the number of new edges to counts[0]. After an
// error this is the number of new edges in the parts before the error.
//
// On a GPU the call waits until the batch is checked. Edges are inserted into the tables that have
// capacity. For the other edges the host enlarges the tables; they may not be inserted yet when the
// call returns. The caller must not change the slices until s has run the batch.
//
// If a vertex is out of range, InsertOn returns weft.ErrOptions and inserts no edge. But with
// inserted, counts, or weights, a batch of more than 2^22 edges runs in parts of 2^22 edges. Then
// the parts before that vertex are inserted, as [weft.PartialError] reports.
func (g *Graph) InsertOn(s *device.Stream, from, to device.Slice[uint32], inserted device.Slice[bool], counts ...device.Slice[uint64]) error {
	return g.changeOn("InsertOn", s, op.PutNew, edgeColumnsOn(from, to, batch.Column{}, inserted), counts)
}

// InsertOn inserts edges with weights from slices in device memory. See [Graph.InsertOn].
func (g *WeightedGraph[W]) InsertOn(s *device.Stream, from, to device.Slice[uint32], weights device.Slice[W], inserted device.Slice[bool], counts ...device.Slice[uint64]) error {
	return g.changeOn("InsertOn", s, op.Put, edgeColumnsOn(from, to, batch.InputOn(weights), inserted), counts)
}

// DeleteOn deletes edges, which are listed in device memory, and does not wait. See [Graph.Delete]
// for the results. If counts is given, it adds the number of deleted edges to counts[0]. The next
// Delete or Compact frees memory.
func (g *graph) DeleteOn(s *device.Stream, from, to device.Slice[uint32], deleted device.Slice[bool], counts ...device.Slice[uint64]) error {
	return g.changeOn("DeleteOn", s, op.Delete, edgeColumnsOn(from, to, batch.Column{}, deleted), counts)
}

func edgeColumns(from, to []uint32, vals batch.Column, ok []bool) *batch.Batch {
	return &batch.Batch{N: len(from), Columns: batch.Columns{
		batch.Keys: batch.Input(from), batch.Keys2: batch.Input(to), batch.Vals: vals, batch.OK: batch.Optional(ok),
	}}
}

func edgeColumnsOn(from, to device.Slice[uint32], vals batch.Column, ok device.Slice[bool]) *batch.Batch {
	return &batch.Batch{N: from.Len(), Columns: batch.Columns{
		batch.Keys: batch.InputOn(from), batch.Keys2: batch.InputOn(to), batch.Vals: vals, batch.OK: batch.OptionalOn(ok),
	}}
}

// change runs a change of edges in host memory, or submits a change on a stream.
func (g *graph) change(ctx context.Context, method string, s *device.Stream, kind op.Kind, b *batch.Batch) (int, error) {
	return g.changeCounted(ctx, method, s, kind, b, 0)
}

// changeCounted does the same as change. On a GPU it also adds the number of changed edges to
// count, unless count is null.
func (g *graph) changeCounted(ctx context.Context, method string, s *device.Stream, kind op.Kind, b *batch.Batch, count device.Ptr) (int, error) {
	if g.log.journal == nil {
		return g.changeNow(ctx, method, s, kind, b, count)
	}
	if err := g.prepare(method, kind, b); err != nil {
		return 0, err
	}
	return g.changeLogged(ctx, method, s, b, count)
}

// changeNow does the same as changeCounted, and stores nothing in the journal.
func (g *graph) changeNow(ctx context.Context, method string, s *device.Stream, kind op.Kind, b *batch.Batch, count device.Ptr) (int, error) {
	if err := g.prepare(method, kind, b); err != nil {
		return 0, err
	}
	return g.policy.engine.apply(ctx, g.core, method, s, b, count)
}

// prepare checks a batch and sets its kind and its flags.
func (g *graph) prepare(method string, kind op.Kind, b *batch.Batch) error {
	b.MustMatch(g.core.Name, method)
	b.Kind = kind
	if !g.Directed() {
		b.Flags = bothWays
	}
	if err := g.admit(b); kind != op.Delete && err != nil {
		b.ClearFrom(0)
		return g.core.Partial(method, 0, nil, err)
	}
	return nil
}

func (g *graph) changeOn(method string, s *device.Stream, kind op.Kind, b *batch.Batch, counts []device.Slice[uint64]) error {
	count, err := g.core.Counter(counts)
	if err = errors.Join(err, b.CheckDevice(g.core.Device, s)); err != nil {
		return g.core.Partial(method, 0, nil, err)
	}
	n, err := g.changeCounted(context.Background(), method, s, kind, b, count.Ptr())
	// not counted by a kernel; n includes what was done before an error
	core.AddCount(count, uint64(n))
	return err
}

// admit returns an error if a batch in host memory has a vertex out of range.
func (g *graph) admit(b *batch.Batch) error {
	to := batch.View[uint32](b.Columns[batch.Keys2].Host)
	for i, u := range batch.View[uint32](b.Columns[batch.Keys].Host) {
		if most := g.policy.opts.MaxVertices; uint64(max(u, to[i])) >= uint64(most) {
			return rangeError(i, u, to[i], most)
		}
	}
	return nil
}

// DeleteVertices deletes all edges of vertices, in both directions, and returns the number of
// edges. It reads the tables of the neighbors, and in a directed graph the tables of all vertices.
// A GPU also reads the owner of each base slab. So one call with many vertices is better than many
// calls. For a durable graph, it lists the edges in host memory. Edges that concurrent calls insert
// at these vertices may remain. After an error some edges may be deleted in only one direction. In
// that case call DeleteVertices again.
func (g *graph) DeleteVertices(ctx context.Context, vertices []uint32) (int, error) {
	return g.deleteVertices(ctx, "DeleteVertices", nil, vertices)
}

// deleteVertices implements DeleteVertices, and with a stream DeleteVerticesOn.
func (g *graph) deleteVertices(ctx context.Context, method string, s *device.Stream, vertices []uint32) (int, error) {
	if g.log.journal != nil {
		return g.deleteVerticesLogged(ctx, method, s, vertices)
	}
	if e, ok := g.policy.engine.(*gpuGraph); ok {
		return e.deleteVertices(ctx, g.core, method, vertices)
	}
	from, to, err := g.edgesOf(ctx, method, vertices)
	if err != nil {
		return 0, err
	}
	n, err := g.change(ctx, method, nil, op.Delete, edgeColumns(from, to, batch.Column{}, nil))
	return n, g.rerunError(method, err)
}

// DeleteVerticesOn deletes all edges of the vertices that a slice in device memory lists. If counts
// is given, it adds the number of deleted edges to counts[0]. It copies the slice to host memory,
// so it waits for the earlier work of stream s, and for the deletion.
func (g *graph) DeleteVerticesOn(s *device.Stream, vertices device.Slice[uint32], counts ...device.Slice[uint64]) error {
	const method = "DeleteVerticesOn"
	b := &batch.Batch{N: vertices.Len(), Columns: batch.Columns{batch.Keys: batch.InputOn(vertices)}}
	count, err := g.core.Counter(counts)
	host := make([]uint32, vertices.Len())
	if err = errors.Join(err, b.CheckDevice(g.core.Device, s)); err == nil {
		err = vertices.CopyTo(context.Background(), s, host)
	}
	if err != nil {
		return fmt.Errorf("%s: %s: %w", g.core.Name, method, err)
	}
	n, err := g.deleteVertices(context.Background(), method, s, host)
	return errors.Join(err, g.policy.engine.addCount(s, count, uint64(n)))
}

// edgesOf returns the edges of the given vertices.
func (g *graph) edgesOf(ctx context.Context, method string, vertices []uint32) (from, to []uint32, err error) {
	doomed := slices.Compact(slices.Sorted(slices.Values(vertices)))
	collect := func(some []uint32, wanted func(u, v uint32) bool) error {
		offsets, neighbors, _, err := g.rowsOf(ctx, method, some, false)
		for i, u := range some {
			for _, v := range neighbors[offsets[i]:offsets[i+1]] {
				if wanted(u, v) {
					from, to = append(from, u), append(to, v)
				}
			}
		}
		return err
	}
	err = collect(doomed, func(u, v uint32) bool { return true })
	if g.Directed() {
		goes := make(map[uint32]bool, len(doomed))
		for _, u := range doomed {
			goes[u] = true
		}
		all := 0
		if err == nil {
			all, err = g.vertices(ctx, method)
		}
		for lo := 0; lo < all && err == nil; lo += bulkGrain {
			err = collect(sequence(lo, min(lo+bulkGrain, all)), func(u, v uint32) bool { return goes[v] && !goes[u] })
		}
	}
	return from, to, err
}

func sequence(lo, hi int) []uint32 {
	all := make([]uint32, hi-lo)
	for i := range all {
		all[i] = uint32(lo + i)
	}
	return all
}

// vertices returns the number of dictionary entries, which no vertex with neighbors reaches.
func (g *graph) vertices(ctx context.Context, method string) (n int, err error) {
	err = g.core.WithWriteLock(ctx, method, func(core.Counters) error {
		n = g.policy.engine.dict().n
		return nil
	})
	return n, err
}

// Clear removes all edges and keeps the memory. After an error some edges may remain: call it
// again.
func (g *graph) Clear(ctx context.Context) error {
	if g.log.journal != nil {
		return g.clearLogged(ctx)
	}
	return g.core.Clear(ctx)
}

// Compact moves all tables to as many base slabs as they need, drops tombstones and frees memory.
func (g *graph) Compact(ctx context.Context) error { return g.core.Compact(ctx) }

// Sync waits for all batches on the device. A durable graph then has all changes on the disk.
func (g *graph) Sync(ctx context.Context) error {
	err := g.core.Sync(ctx)
	if j := g.log.journal; j != nil {
		err = errors.Join(err, g.wrap("Sync", j.Flush(ctx)))
	}
	return err
}

// Check reads the whole graph and returns [weft.ErrCorrupt] with the first inconsistency.
func (g *graph) Check(ctx context.Context) error { return g.core.Check(ctx) }

// Close waits for running calls and frees the graph. It is idempotent.
func (g *graph) Close() error { return errors.Join(g.ends.Close(), g.log.close(g.core.Close)) }

// ---- lookups ----------------------------------------------------------------

// Has looks up edges and returns the number that exist. Unless found is nil, found[i] reports
// whether edge i exists.
func (g *graph) Has(ctx context.Context, from, to []uint32, found []bool) (int, error) {
	return g.find(ctx, "Has", edgeColumns(from, to, batch.Column{}, found))
}

// HasOn looks up edges from slices in device memory; found may be empty. If hits is given, HasOn
// adds the number of edges found to hits[0].
func (g *graph) HasOn(s *device.Stream, from, to device.Slice[uint32], found device.Slice[bool], hits ...device.Slice[uint64]) error {
	return g.findOn("HasOn", s, edgeColumnsOn(from, to, batch.Column{}, found), hits)
}

// Weight writes the weights of edges, and 0 for absent edges. It returns the number of edges that
// exist. Unless found is nil, found[i] reports whether edge i exists.
func (g *WeightedGraph[W]) Weight(ctx context.Context, from, to []uint32, weights []W, found []bool) (int, error) {
	return g.find(ctx, "Weight", edgeColumns(from, to, batch.Output(weights), found))
}

// WeightOn looks up the weights of edges in device memory. If hits is given, it adds the number of
// edges found to hits[0].
func (g *WeightedGraph[W]) WeightOn(s *device.Stream, from, to device.Slice[uint32], weights device.Slice[W], found device.Slice[bool], hits ...device.Slice[uint64]) error {
	return g.findOn("WeightOn", s, edgeColumnsOn(from, to, batch.OutputOn(weights), found), hits)
}

func (g *graph) find(ctx context.Context, method string, b *batch.Batch) (int, error) {
	b.MustMatch(g.core.Name, method)
	b.Kind = op.Get
	if err := g.readable(); err != nil {
		b.ClearFrom(0)
		return 0, g.core.Partial(method, 0, nil, err)
	}
	return g.policy.engine.find(ctx, g.core, method, nil, b, 0)
}

func (g *graph) findOn(method string, s *device.Stream, b *batch.Batch, hits []device.Slice[uint64]) error {
	b.MustMatch(g.core.Name, method)
	b.Kind = op.Get
	to, err := g.core.Counter(hits)
	if err = errors.Join(err, b.CheckDevice(g.core.Device, s), g.readable()); err != nil {
		return fmt.Errorf("%s: %s: %w", g.core.Name, method, err)
	}
	n, err := g.policy.engine.find(context.Background(), g.core, method, s, b, to.Ptr())
	core.AddCount(to, uint64(n)) // on a CPU; on a GPU n is 0 and the kernel counts
	return err
}

// Degree writes the number of neighbors of each vertex, in a directed graph the out-degree, to
// degrees.
func (g *graph) Degree(ctx context.Context, vertices, degrees []uint32) error {
	b := &batch.Batch{N: len(vertices), Columns: batch.Columns{batch.Keys: batch.Input(vertices), batch.Counts: batch.Output(degrees)}}
	b.MustMatch(g.core.Name, "Degree")
	if err := g.readable(); err != nil {
		return g.wrap("Degree", err)
	}
	return g.core.WithWriteLock(ctx, "Degree", func(core.Counters) error {
		return g.policy.engine.degrees(ctx, nil, g.generation(), b)
	})
}

func (g *graph) generation() *generation { return g.core.Leases.Current().Parts.(*generation) }

// DegreeOn writes the number of neighbors of each vertex to degrees, both in device memory.
func (g *graph) DegreeOn(s *device.Stream, vertices, degrees device.Slice[uint32]) error {
	b := &batch.Batch{N: vertices.Len(), Columns: batch.Columns{batch.Keys: batch.InputOn(vertices), batch.Counts: batch.OutputOn(degrees)}}
	return g.readOn("DegreeOn", s, b, func(at *generation) error { return g.policy.engine.degrees(context.Background(), s, at, b) })
}

// readOn checks the devices of s and b and runs f on the current generation.
func (g *graph) readOn(method string, s *device.Stream, b *batch.Batch, f func(*generation) error) error {
	b.MustMatch(g.core.Name, method)
	if err := errors.Join(b.CheckDevice(g.core.Device, s), g.readable()); err != nil {
		return fmt.Errorf("%s: %s: %w", g.core.Name, method, err)
	}
	if _, ok := g.core.Device.(device.Host); !ok {
		return g.core.View(context.Background(), s, func(p core.Parts) error { return f(p.(*generation)) })
	}
	return g.core.WithWriteLock(context.Background(), method, func(core.Counters) error { return f(g.generation()) })
}

// RowsOn writes the degrees and neighbors of vertices to device memory. degrees must be as long as
// vertices, and offsets one longer. The row of vertices[i] begins at offsets[i]. If neighbors is
// too short for all rows, RowsOn writes only the entries that fit.
func (g *graph) RowsOn(s *device.Stream, vertices, degrees device.Slice[uint32], offsets device.Slice[uint64], neighbors device.Slice[uint32]) error {
	return g.rowsOn(s, vertices, degrees, offsets, neighbors, batch.Column{})
}

// RowsOn writes the degrees, neighbors and weights of vertices to device memory. See
// [Graph.RowsOn]. It panics if weights is shorter than neighbors.
func (g *WeightedGraph[W]) RowsOn(s *device.Stream, vertices, degrees device.Slice[uint32], offsets device.Slice[uint64], neighbors device.Slice[uint32], weights device.Slice[W]) error {
	return g.rowsOn(s, vertices, degrees, offsets, neighbors, batch.RowsOn(weights.Sub(0, neighbors.Len())))
}

func (g *graph) rowsOn(s *device.Stream, vertices, degrees device.Slice[uint32], offsets device.Slice[uint64], neighbors device.Slice[uint32], vals batch.Column) error {
	b := &batch.Batch{N: vertices.Len(), Columns: batch.Columns{
		batch.Keys: batch.InputOn(vertices), batch.Counts: batch.OutputOn(degrees), batch.Offsets: batch.OffsetsOn(offsets), batch.OutKeys: batch.RowsOn(neighbors),
		batch.Vals: vals,
	}}
	return g.readOn("RowsOn", s, b, func(at *generation) error {
		e, ctx := g.policy.engine, context.Background()
		return inOrder(
			func() error { return e.degrees(ctx, s, at, b) },
			func() error { return e.offsets(s, b) },
			func() error { return e.rows(ctx, s, at, b) })
	})
}

// Rows returns the neighbors of several vertices. The neighbors of vertices[i] are
// neighbors[offsets[i]:offsets[i+1]], in no order.
func (g *graph) Rows(ctx context.Context, vertices []uint32) (offsets []uint64, neighbors []uint32, err error) {
	offsets, neighbors, _, err = g.rowsOf(ctx, "Rows", vertices, false)
	return offsets, neighbors, err
}

// Rows returns the neighbors of several vertices, and the weights in the same order. See
// [Graph.Rows].
func (g *WeightedGraph[W]) Rows(ctx context.Context, vertices []uint32) (offsets []uint64, neighbors []uint32, weights []W, err error) {
	offsets, neighbors, bytes, err := g.rowsOf(ctx, "Rows", vertices, true)
	return offsets, neighbors, batch.View[W](bytes), err
}

// Neighbors appends the neighbors of a vertex to a slice, in no order, and returns the slice.
func (g *graph) Neighbors(ctx context.Context, vertex uint32, to []uint32) ([]uint32, error) {
	_, row, _, err := g.rowsOf(ctx, "Neighbors", []uint32{vertex}, false)
	return append(to, row...), err
}

// rowsOf reads rows and, if weighted is true, their weights.
func (g *graph) rowsOf(ctx context.Context, method string, vertices []uint32, weighted bool) (offsets []uint64, ids []uint32, weights []byte, err error) {
	if err = g.readable(); err != nil {
		err = g.wrap(method, err)
	} else {
		err = g.core.WithWriteLock(ctx, method, func(core.Counters) error {
			offsets, ids, weights, err = g.rowsNow(ctx, vertices, weighted)
			return err
		})
	}
	if err != nil {
		return make([]uint64, len(vertices)+1), nil, nil, err
	}
	return offsets, ids, weights, nil
}

// rowsNow reads rows under the writer lock.
func (g *graph) rowsNow(ctx context.Context, vertices []uint32, weighted bool) (offsets []uint64, ids []uint32, weights []byte, err error) {
	degrees := make([]uint32, len(vertices))
	b := &batch.Batch{N: len(vertices), Columns: batch.Columns{batch.Keys: batch.Input(vertices), batch.Counts: batch.Output(degrees)}}
	if err := g.policy.engine.degrees(ctx, nil, g.generation(), b); err != nil {
		return nil, nil, nil, err
	}
	offsets = make([]uint64, len(vertices)+1)
	for i, d := range degrees {
		offsets[i+1] = offsets[i] + uint64(d)
	}
	ids = make([]uint32, offsets[len(vertices)])
	if len(ids) == 0 { // a GPU waits for its kernel only to copy results
		return offsets, ids, nil, nil
	}
	b.Columns[batch.Counts], b.Columns[batch.Offsets], b.Columns[batch.OutKeys] = batch.Column{}, batch.OffsetsIn(offsets), batch.Output(ids)
	if weighted {
		vals := make([]uint32, len(ids))
		weights = device.Bytes(vals)
		b.Columns[batch.Vals] = batch.Output(vals)
	}
	return offsets, ids, weights, g.policy.engine.rows(ctx, nil, g.generation(), b)
}

// ---- triangles --------------------------------------------------------------

// probes is the minimum number of edges that Triangles looks up at a time.
const probes = 1 << 20

// Triangles counts the triangles of an undirected graph. For a directed graph it returns
// [device.ErrInvalid]. Like the thesis, it looks up edges. For each vertex it selects the neighbors
// with a larger degree, or with the same degree and a larger number, and looks up an edge between
// each two of them. If the graph changes meanwhile, the count may belong to no single moment. A GPU
// takes one launch per step, and changes wait for it. Triangles of package graph are faster to
// count, since sorted rows are intersected.
func (g *graph) Triangles(ctx context.Context) (count uint64, err error) {
	if g.Directed() {
		return 0, fmt.Errorf("%s: Triangles: %w: the graph is directed", g.core.Name, device.ErrInvalid)
	}
	if err := g.readable(); err != nil {
		return 0, g.wrap("Triangles", err)
	}
	if e, ok := g.policy.engine.(*gpuGraph); ok {
		err = g.core.WithWriteLock(ctx, "Triangles", func(core.Counters) error {
			count, err = e.triangles(ctx)
			return err
		})
		return count, err
	}
	n, err := g.vertices(ctx, "Triangles")
	if err != nil {
		return 0, err
	}
	all := sequence(0, n)
	degrees := make([]uint32, len(all))
	if err := g.Degree(ctx, all, degrees); err != nil {
		return 0, err
	}
	var from, to []uint32
	probe := func() error {
		n, err := g.Has(ctx, from, to, nil)
		count += uint64(n)
		from, to = from[:0], to[:0]
		return err
	}
	for part := range slices.Chunk(all, bulkGrain) {
		offsets, neighbors, err := g.Rows(ctx, part)
		if err != nil {
			return 0, err
		}
		for i, u := range part {
			row := slices.DeleteFunc(neighbors[offsets[i]:offsets[i+1]], func(v uint32) bool {
				return int(v) < len(degrees) && (degrees[v] < degrees[u] || degrees[v] == degrees[u] && v < u)
			})
			for j, v := range row {
				for _, w := range row[:j] {
					from, to = append(from, v), append(to, w)
				}
				if len(from) >= probes {
					if err := probe(); err != nil {
						return 0, err
					}
				}
			}
		}
	}
	return count, errors.Join(probe(), ctx.Err())
}
