package graph

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/op"
)

// Graph is a mutable graph. Its methods take batches of edges in Go slices or, with the suffix On,
// in device memory. [New] makes a Graph. All methods are safe for concurrent use.
//
// The operations of a batch take effect as if they ran one after the other. In an undirected graph,
// an edge from u to v and an edge from v to u are the same edge. With Options.Multi, Insert adds
// another edge even if one exists, and Delete deletes all edges between two ends. An edge or
// [Graph.InsertVertices] inserts a vertex, and [Graph.DeleteVertices] deletes it. A vertex remains
// when its last edge is deleted.
type Graph struct{ *store }

// New makes a graph without vertices. See [Options] for the defaults.
func New(dev device.Device, opts *Options) (*Graph, error) {
	g, err := newStore(dev, core.Type{}, opts)
	if err != nil {
		return nil, err
	}
	return &Graph{g}, nil
}

// Device returns the device of the graph.
func (g *Graph) Device() device.Device { return g.dev }

// Vertices returns the number of vertices. It includes all calls that have returned, but batches in
// device memory only up to the last Sync. Vertices, Arcs and Edges neither lock nor wait.
func (g *Graph) Vertices() int { return int(g.size.vertices.Load()) }

// Arcs returns the number of entries in all rows. See [CSR.Arcs].
func (g *Graph) Arcs() int { return int(g.size.arcs.Load()) }

// Edges returns the number of edges.
func (g *Graph) Edges() int {
	return edgesOf(g.opts.Directed, g.size.arcs.Load(), g.size.loops.Load())
}

func edgesOf(directed bool, arcs, loops uint64) int {
	if directed {
		return int(arcs)
	}
	return int((arcs + loops) / 2)
}

// Directed reports whether edges lead only one way.
func (g *Graph) Directed() bool { return g.opts.Directed }

// ---- changes -------------------------------------------------------------------

// Insert inserts edges and the vertices at their ends. It returns the number of edges that were
// absent. Unless inserted is nil, inserted[i] reports whether edge i was absent. Insert skips self
// loops unless Options.SelfLoops is set. If a vertex is not less than MaxVertices, Insert returns
// weft.ErrOptions with the position of its edge, before anything changes. (Delete and lookups
// accept such a vertex and find no edge.) Insert panics if the slices differ in length.
//
// After an error, a small batch has changed nothing. A batch of more than half a million edges may
// run in pieces, one after the other. If memory is exhausted or ctx ends between two pieces, the
// error reports the number of operations done. Every batch returns its error as a
// weft.PartialError. A piece that lacks memory does not run, so Failed is 0.
func (g *Graph) Insert(ctx context.Context, from, to []uint32, inserted []bool) (int, error) {
	return g.change(ctx, nil, "Insert", edgeBatch(op.Put, from, to, batch.Column{}, inserted))
}

// Delete deletes edges and returns the number of edges that were present. Unless deleted is nil,
// deleted[i] reports whether edge i was present.
func (g *Graph) Delete(ctx context.Context, from, to []uint32, deleted []bool) (int, error) {
	return g.change(ctx, nil, "Delete", edgeBatch(op.Delete, from, to, batch.Column{}, deleted))
}

// Apply runs a batch of insertions (weft.OpPut) and deletions (weft.OpDelete), in order. It returns
// the number of edges that it inserted and deleted. Unless done is nil, done[i] reports whether
// operation i changed the graph. Any other kind returns device.ErrInvalid, and nothing changes.
func (g *Graph) Apply(ctx context.Context, kinds []weft.OpKind, from, to []uint32, done []bool) (int, error) {
	b := edgeBatch(op.Put, from, to, batch.Column{}, done)
	b.Columns[batch.Kinds] = batch.Input(kinds)
	return g.change(ctx, nil, "Apply", b)
}

// InsertOn inserts edges from slices in device memory. See [Graph.Insert] for the results; inserted
// may be empty. If counts is given, InsertOn adds the number of new edges to counts[0]. The host
// allocates memory, so InsertOn waits for the earlier work of stream s, but not until the rows are
// written. The caller must not change the slices until s has run the batch.
func (g *Graph) InsertOn(s *device.Stream, from, to device.Slice[uint32], inserted device.Slice[bool], counts ...device.Slice[uint64]) error {
	return g.changeOn(s, "InsertOn", edgeBatchOn(op.Put, from, to, batch.Column{}, inserted), counts)
}

// DeleteOn deletes edges, which are listed in device memory. If counts is given, it adds the number
// of deleted edges to counts[0]. DeleteOn waits as [Graph.InsertOn] does. See [Graph.Delete].
func (g *Graph) DeleteOn(s *device.Stream, from, to device.Slice[uint32], deleted device.Slice[bool], counts ...device.Slice[uint64]) error {
	return g.changeOn(s, "DeleteOn", edgeBatchOn(op.Delete, from, to, batch.Column{}, deleted), counts)
}

// ApplyOn runs insertions and deletions from slices in device memory. kinds holds values of
// weft.OpKind: weft.OpPut inserts, any other kind deletes. If counts is given, ApplyOn adds the
// number of changed edges to counts[0]. It waits as [Graph.InsertOn] does. See [Graph.Apply].
func (g *Graph) ApplyOn(s *device.Stream, kinds device.Slice[uint8], from, to device.Slice[uint32], done device.Slice[bool], counts ...device.Slice[uint64]) error {
	b := edgeBatchOn(op.Put, from, to, batch.Column{}, done)
	b.Columns[batch.Kinds] = batch.InputOn(kinds)
	return g.changeOn(s, "ApplyOn", b, counts)
}

func (g *store) changeOn(s *device.Stream, method string, b *batch.Batch, counts []device.Slice[uint64]) error {
	b.MustMatch("graph", method)
	if err := g.checkPlace(s, b); err != nil {
		return wrap(method, err)
	}
	_, err := g.change(context.Background(), s, method, b, counts...)
	return err
}

func edgeBatch(kind op.Kind, from, to []uint32, vals batch.Column, ok []bool) *batch.Batch {
	return &batch.Batch{N: len(from), Kind: kind, Columns: batch.Columns{
		batch.Keys: batch.Input(from), batch.Keys2: batch.Input(to), batch.Vals: vals, batch.OK: batch.Optional(ok),
	}}
}

func edgeBatchOn(kind op.Kind, from, to device.Slice[uint32], vals batch.Column, ok device.Slice[bool]) *batch.Batch {
	return &batch.Batch{N: from.Len(), Kind: kind, Columns: batch.Columns{
		batch.Keys: batch.InputOn(from), batch.Keys2: batch.InputOn(to), batch.Vals: vals, batch.OK: batch.OptionalOn(ok),
	}}
}

// InsertVertices inserts vertices without edges. It returns the number that were absent.
func (g *Graph) InsertVertices(ctx context.Context, vertices []uint32) (n int, err error) {
	return g.insertVertices(ctx, "InsertVertices", vertices)
}

// DeleteVertices deletes vertices with all their edges, in both directions. It returns the number
// that were present. The vertex numbers may be used again. In an undirected graph, deleting few
// vertices takes as long as deleting their edges. For many vertices, and always in a directed
// graph, DeleteVertices scans all rows. So one call with many vertices is better than many calls.
func (g *Graph) DeleteVertices(ctx context.Context, vertices []uint32) (n int, err error) {
	return g.deleteVertices(ctx, "DeleteVertices", vertices)
}

func (g *store) deleteVertices(ctx context.Context, method string, vertices []uint32) (n int, err error) {
	return g.runChange(ctx, nil, method, vertexBatch(op.Delete, len(vertices), batch.Input(vertices)), g.engine.deleteVertices, nil)
}

func (g *store) insertVertices(ctx context.Context, method string, vertices []uint32) (n int, err error) {
	return g.runChange(ctx, nil, method, vertexBatch(op.Put, len(vertices), batch.Input(vertices)), g.engine.insertVertices, nil)
}

// InsertVerticesOn inserts vertices from a slice in device memory. If counts is given, it adds the
// number of new vertices to counts[0]. It copies the slice to host memory, since the host allocates
// the records. So it waits for the earlier work of stream s.
func (g *Graph) InsertVerticesOn(s *device.Stream, vertices device.Slice[uint32], counts ...device.Slice[uint64]) error {
	const method = "InsertVerticesOn"
	b := vertexBatch(op.Put, vertices.Len(), batch.InputOn(vertices))
	if err := g.checkPlace(s, b); err != nil {
		return wrap(method, err)
	}
	host := make([]uint32, b.N)
	if err := vertices.CopyTo(context.Background(), s, host); err != nil {
		return wrap(method, err)
	}
	b.Columns[batch.Keys] = batch.Input(host)
	_, err := g.runChange(context.Background(), s, method, b, g.engine.insertVertices, counts)
	return err
}

// DeleteVerticesOn deletes the vertices that a slice in device memory lists, with all their edges.
// If counts is given, it adds the number of vertices that were present to counts[0].
// DeleteVerticesOn waits for the earlier work of stream s.
func (g *Graph) DeleteVerticesOn(s *device.Stream, vertices device.Slice[uint32], counts ...device.Slice[uint64]) error {
	const method = "DeleteVerticesOn"
	b := vertexBatch(op.Delete, vertices.Len(), batch.InputOn(vertices))
	if err := g.checkPlace(s, b); err != nil {
		return wrap(method, err)
	}
	_, err := g.runChange(context.Background(), s, method, b, g.engine.deleteVertices, counts)
	return err
}

func vertexBatch(kind op.Kind, n int, vertices batch.Column) *batch.Batch {
	return &batch.Batch{N: n, Kind: kind, Columns: batch.Columns{batch.Keys: vertices}}
}

// checkPlace returns an error if the stream or a column belongs to another device. It also refuses
// a closed stream of a host.
func (g *store) checkPlace(s *device.Stream, b *batch.Batch) error {
	err := b.CheckDevice(g.dev, s)
	if err == nil && isHost(g.dev) {
		err = cpu.SyncStream(s)
	}
	return err
}

// Clear removes all edges and vertices and frees their memory. Open snapshots keep their memory.
func (g *Graph) Clear(ctx context.Context) error {
	return wrap("Clear", g.clear(ctx))
}

func (g *store) clear(ctx context.Context) error {
	return g.runDurable(ctx, false, func() error {
		l, err := g.newLogger(ctx, nil, &batch.Batch{})
		if err != nil {
			return err
		}
		m, err := newMemory(g.dev, g.shape, g.opts.MaxVertices)
		if err != nil {
			return err
		}
		if err := g.engine.clear(ctx, m); err != nil {
			err = errors.Join(err, m.Free())
			l.fail(err)
			return l.end(err)
		}
		g.blocks, g.vertices, g.arcs, g.loops = blocks{}, 0, 0, 0
		l.cleared()
		return l.end(errors.Join(g.replaceMemory(m), g.publish(ctx, nil)))
	})
}

// Compact moves all rows to new memory, without gaps, and frees the old memory. A graph compacts
// itself when more than two thirds of its memory is free after four batches in a row, or in Sync.
// It does not do so while a snapshot is open.
func (g *Graph) Compact(ctx context.Context) error {
	return wrap("Compact", g.withExclusive(ctx, func() error { return g.rebuild(ctx) }))
}

// Sync waits for all batches on the device. It frees memory if over two thirds are unused.
func (g *Graph) Sync(ctx context.Context) error {
	err := g.withExclusive(ctx, func() error { return errors.Join(g.shrink(ctx, 1), g.publish(ctx, nil)) })
	if g.journal != nil {
		err = errors.Join(err, g.journal.Flush(ctx))
	}
	return wrap("Sync", err)
}

// Close waits for running calls and frees the graph. An open snapshot keeps its memory until it is
// closed, but returns weft.ErrClosed. Close is idempotent.
func (g *Graph) Close() error {
	first, err := g.leases.Close()
	if !first {
		return nil
	}
	if g.journal != nil { // first, because a checkpoint may read a snapshot
		err = errors.Join(err, g.journal.Close())
	}
	g.open.Lock()
	defer g.open.Unlock()
	g.closed = true
	g.tracked.Closed()
	return wrap("Close", errors.Join(err, g.endpoints.Close(), g.engine.close(), g.leases.Free()))
}

// ---- lookups -------------------------------------------------------------------

// Has looks up edges and returns the number that exist. Unless found is nil, found[i] reports
// whether edge i exists. A number that is not a vertex has no edges.
func (g *Graph) Has(ctx context.Context, from, to []uint32, found []bool) (int, error) {
	return g.find(ctx, "Has", edgeBatch(op.Get, from, to, batch.Column{}, found))
}

func (g *store) find(ctx context.Context, method string, b *batch.Batch) (n int, err error) {
	b.MustMatch("graph", method)
	err = g.read(ctx, nil, func(v *view) error {
		hits, err := g.engine.find(ctx, nil, v, b, 0)
		n = int(hits)
		return err
	})
	return n, wrap(method, err)
}

// HasOn looks up edges from slices in device memory; found may be empty. If hits is given, HasOn
// adds the number of edges found to hits[0].
func (g *Graph) HasOn(s *device.Stream, from, to device.Slice[uint32], found device.Slice[bool], hits ...device.Slice[uint64]) error {
	return g.findOn(s, "HasOn", edgeBatchOn(op.Get, from, to, batch.Column{}, found), hits)
}

func (g *store) findOn(s *device.Stream, method string, b *batch.Batch, hits []device.Slice[uint64]) error {
	b.MustMatch("graph", method)
	to, err := core.CounterOf(g.dev, hits)
	if err != nil {
		return wrap(method, err)
	}
	return wrap(method, g.readOn(s, b, func(v *view) error {
		n, err := g.engine.find(context.Background(), s, v, b, to.Ptr())
		core.AddCount(to, n) // on a CPU; on a GPU n is 0 and the kernel counts
		return err
	}))
}

// readOn checks the devices of s and b and runs f on the current graph.
func (g *store) readOn(s *device.Stream, b *batch.Batch, f func(*view) error) error {
	if err := g.checkPlace(s, b); err != nil {
		return err
	}
	return g.read(context.Background(), s, f)
}

// Degree writes the number of neighbors of each vertex, in a directed graph the out-degree, to
// degrees.
func (g *Graph) Degree(ctx context.Context, vertices, degrees []uint32) error {
	b := degreeBatch(vertices, degrees)
	b.MustMatch("graph", "Degree")
	return wrap("Degree", g.read(ctx, nil, func(v *view) error { return g.engine.degrees(ctx, nil, v, b) }))
}

func degreeBatch(vertices, degrees []uint32) *batch.Batch {
	return &batch.Batch{N: len(vertices), Columns: batch.Columns{batch.Keys: batch.Input(vertices), batch.Counts: batch.Output(degrees)}}
}

// DegreeOn writes the number of neighbors of each vertex to degrees, both in device memory.
func (g *Graph) DegreeOn(s *device.Stream, vertices, degrees device.Slice[uint32]) error {
	b := &batch.Batch{N: vertices.Len(), Columns: batch.Columns{batch.Keys: batch.InputOn(vertices), batch.Counts: batch.OutputOn(degrees)}}
	b.MustMatch("graph", "DegreeOn")
	return wrap("DegreeOn", g.readOn(s, b, func(v *view) error { return g.engine.degrees(context.Background(), s, v, b) }))
}

// Neighbors appends the neighbors of a vertex, in ascending order, to a slice, which it returns.
func (g *Graph) Neighbors(ctx context.Context, vertex uint32, to []uint32) ([]uint32, error) {
	r, err := g.currentRows(ctx, "Neighbors", []uint32{vertex})
	return append(to, r.ids...), err
}

// Rows returns the neighbors of several vertices. The neighbors of vertices[i] are
// neighbors[offsets[i]:offsets[i+1]], in ascending order.
func (g *Graph) Rows(ctx context.Context, vertices []uint32) (offsets []uint64, neighbors []uint32, err error) {
	r, err := g.currentRows(ctx, "Rows", vertices)
	return r.offsets, r.ids, err
}

// RowsOn writes the degrees and neighbors of vertices to device memory. degrees must be as long as
// vertices, and offsets one longer. The row of vertices[i] begins at offsets[i], as in
// [Graph.Rows]. If neighbors is too short for all rows, RowsOn writes only the entries that fit.
func (g *Graph) RowsOn(s *device.Stream, vertices, degrees device.Slice[uint32], offsets device.Slice[uint64], neighbors device.Slice[uint32]) error {
	return g.rowsOn(s, "RowsOn", rowsBatchOn(vertices, degrees, offsets, neighbors))
}

func rowsBatchOn(vertices, degrees device.Slice[uint32], offsets device.Slice[uint64], neighbors device.Slice[uint32]) *batch.Batch {
	return &batch.Batch{N: vertices.Len(), Columns: batch.Columns{
		batch.Keys: batch.InputOn(vertices), batch.Counts: batch.OutputOn(degrees),
		batch.Offsets: batch.OffsetsOn(offsets), batch.OutKeys: batch.RowsOn(neighbors),
	}}
}

func (g *store) rowsOn(s *device.Stream, method string, b *batch.Batch) error {
	b.MustMatch("graph", method)
	return wrap(method, g.readOn(s, b, func(v *view) error { return g.writeRows(s, v, b) }))
}

// rows holds the rows of several vertices in host memory.
type rows struct {
	offsets []uint64
	ids     []uint32
	weights []byte
}

func (g *store) currentRows(ctx context.Context, method string, vertices []uint32) (r rows, err error) {
	err = g.read(ctx, nil, func(v *view) error {
		r, err = g.rowsOf(ctx, v, vertices, len(vertices))
		return err
	})
	return r, wrap(method, err)
}

// rowsOf reads the rows of n vertices. If vertices is nil, they are the vertices 0 to n-1.
func (g *store) rowsOf(ctx context.Context, v *view, vertices []uint32, n int) (r rows, err error) {
	degrees := make([]uint32, n)
	r.offsets = make([]uint64, n+1)
	b := &batch.Batch{N: n}
	if vertices != nil {
		b.Columns[batch.Keys] = batch.Input(vertices)
	}
	b.Columns[batch.Counts] = batch.Output(degrees)
	if err := g.engine.degrees(ctx, nil, v, b); err != nil {
		return r, err
	}
	for i, d := range degrees {
		r.offsets[i+1] = r.offsets[i] + uint64(d)
	}
	r.ids = make([]uint32, r.offsets[n])
	// Made of uint64, so that weights are aligned.
	r.weights = device.Bytes(make([]uint64, (len(r.ids)*v.weight+7)/8))[:len(r.ids)*v.weight]
	b.Columns[batch.Counts], b.Columns[batch.Offsets] = batch.Column{}, batch.OffsetsIn(r.offsets)
	b.Columns[batch.OutKeys] = batch.Output(r.ids)
	if v.weight > 0 {
		b.Columns[batch.Vals] = batch.Output(r.weights).WithWidth(v.weight)
	}
	return r, g.engine.rows(ctx, nil, v, b)
}

// CSR returns an immutable copy of the graph, with a row for each vertex number up to the largest
// that was ever used.
func (g *Graph) CSR(ctx context.Context) (c *CSR, err error) {
	err = g.read(ctx, nil, func(v *view) error {
		c, _, err = g.export(ctx, v, g.loops)
		return err
	})
	return c, wrap("CSR", err)
}

func (g *store) export(ctx context.Context, v *view, loops uint64) (*CSR, []byte, error) {
	r, err := g.rowsOf(ctx, v, nil, v.vertices)
	if err != nil {
		return nil, nil, err
	}
	return &CSR{
		offsets: r.offsets, neighbors: r.ids, loops: int(loops), directed: g.opts.Directed, sorted: true, simple: g.simple(loops),
	}, r.weights, nil
}

// simple reports whether rows certainly have neither loops nor parallel edges.
func (g *store) simple(loops uint64) bool { return loops == 0 && !g.opts.Multi }

// Save writes the graph in the format that [Graph.Load] reads on any device. Changes wait until
// Save returns. [Snapshot.Save] does not block changes.
func (g *Graph) Save(ctx context.Context, to io.Writer) error {
	return wrap("Save", g.read(ctx, nil, func(v *view) error { return g.save(ctx, v, to) }))
}

// Load inserts the vertices and edges of a saved graph. It keeps self loops and parallel edges only
// if the Options of the graph keep them. If the data is damaged, truncated or of another kind, Load
// returns weft.ErrFormat. If vertices are not less than MaxVertices, it returns weft.ErrOptions.
// Edges before the damage may have been inserted.
func (g *Graph) Load(ctx context.Context, from io.Reader) error {
	return wrap("Load", g.load(ctx, from))
}

// InsertCSR inserts the vertices and edges of an immutable graph, and returns the number of new
// edges.
func (g *Graph) InsertCSR(ctx context.Context, c *CSR) (int, error) {
	return g.insertCSR(ctx, c, batch.Column{})
}

func (g *store) insertCSR(ctx context.Context, c *CSR, vals batch.Column) (int, error) {
	if c.Vertices() > g.opts.MaxVertices {
		return 0, wrap("InsertCSR", fmt.Errorf("%w: %d vertices, MaxVertices is %d", weft.ErrOptions, c.Vertices(), g.opts.MaxVertices))
	}
	if err := g.checkWeights(c.Arcs(), &vals); err != nil {
		return 0, wrap("InsertCSR", err)
	}
	all := make([]uint32, c.Vertices())
	for i := range all {
		all[i] = uint32(i)
	}
	if _, err := g.insertVertices(ctx, "InsertCSR", all); err != nil {
		return 0, wrap("InsertCSR", op.Cause(err))
	}
	from, to := c.sources(), c.neighbors
	if g.opts.Multi && !g.opts.Directed && !c.directed {
		from, to, vals = smallerEndArcs(from, to, vals, g.weight)
	}
	n, err := g.change(ctx, nil, "InsertCSR", edgeBatch(op.Put, from, to, vals, nil))
	return n, wrap("InsertCSR", op.Cause(err))
}

// smallerEndArcs returns the arcs of an undirected graph that lead from a smaller vertex to a
// larger one or to itself, with their weights. Inserting the reverse arcs, too, would double the
// edges of a multigraph.
func smallerEndArcs(from, to []uint32, vals batch.Column, width int) (us, vs []uint32, keptVals batch.Column) {
	all, kept := weights{width, vals.Host}, weights{width, batch.Aligned(make([]byte, len(vals.Host)))}
	for i, u := range from {
		if u <= to[i] {
			kept.set(len(us), all, i)
			us, vs = append(us, u), append(vs, to[i])
		}
	}
	if width > 0 {
		keptVals = batch.Input(kept.bytes[:len(us)*width]).WithWidth(width)
	}
	return us, vs, keptVals
}
