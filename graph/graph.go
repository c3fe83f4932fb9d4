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

// Graph is a graph that changes: batches of edges are inserted and deleted, in Go slices or on the
// device (On). [New] makes one. All methods are safe for concurrent use.
//
// A batch has the outcome of its operations one after the other. In an undirected graph, an edge
// from u to v and one from v to u are the same edge. With Options.Multi, Insert adds another edge
// even if one exists, and Delete deletes all edges between two ends. A vertex exists from the time
// an edge or [Graph.InsertVertices] inserts it until [Graph.DeleteVertices] deletes it.
type Graph struct{ *store }

// New makes a graph without vertices. Options are those of [Build].
func New(dev device.Device, opts *Options) (*Graph, error) {
	g, err := newStore(dev, core.Type{}, opts)
	if err != nil {
		return nil, err
	}
	return &Graph{g}, nil
}

// Device returns the device of the graph.
func (g *Graph) Device() device.Device { return g.dev }

// Vertices returns the number of vertices. It is exact for every call that has returned, and for
// batches on the device up to the last Sync. It neither locks nor waits; nor do Arcs and Edges.
func (g *Graph) Vertices() int { return int(g.size.vertices.Load()) }

// Arcs returns the number of entries in all rows, as [CSR.Arcs].
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

// Directed reports whether edges lead one way only.
func (g *Graph) Directed() bool { return g.opts.Directed }

// ---- changes -------------------------------------------------------------------

// Insert inserts edges, and the vertices at their ends. It returns how many were absent; inserted,
// unless nil, receives which. It skips self loops, unless Options keep them. A vertex not less than
// MaxVertices returns weft.ErrOptions with the position of its edge, before anything changes.
// (Delete and lookups find no such edge.) Insert panics if slices differ in length.
//
// A change is done completely or, after an error, not at all. But more than half a million edges
// run in pieces, one after the other. If memory or ctx ends between two pieces, the
// weft.PartialError reports how many operations are done. The error of every batch is a
// PartialError. A piece without memory is not run, so Failed is 0.
func (g *Graph) Insert(ctx context.Context, from, to []uint32, inserted []bool) (int, error) {
	return g.change(ctx, nil, "Insert", edgeBatch(op.Put, from, to, batch.Column{}, inserted))
}

// Delete deletes edges and returns how many were present; deleted, unless nil, receives which.
func (g *Graph) Delete(ctx context.Context, from, to []uint32, deleted []bool) (int, error) {
	return g.change(ctx, nil, "Delete", edgeBatch(op.Delete, from, to, batch.Column{}, deleted))
}

// Apply runs a mixed batch of weft.OpPut and weft.OpDelete, in its order. It returns how many edges
// it inserted and deleted; done, unless nil, receives which operations did. Other kinds return
// device.ErrInvalid, and nothing is run.
func (g *Graph) Apply(ctx context.Context, kinds []weft.OpKind, from, to []uint32, done []bool) (int, error) {
	b := edgeBatch(op.Put, from, to, batch.Column{}, done)
	b.Columns[batch.Kinds] = batch.Input(kinds)
	return g.change(ctx, nil, "Apply", b)
}

// InsertOn is Insert for a batch on the device, on a stream. inserted may be empty. It adds the
// number that Insert returns to counts[0], if given. The host allocates memory, so the call waits
// for the earlier work of the stream, but not for the rows to be written. The columns must not
// change until the stream has run the batch.
func (g *Graph) InsertOn(s *device.Stream, from, to device.Slice[uint32], inserted device.Slice[bool], counts ...device.Slice[uint64]) error {
	return g.changeOn(s, "InsertOn", edgeBatchOn(op.Put, from, to, batch.Column{}, inserted), counts)
}

// DeleteOn is Delete for a batch on the device, as InsertOn.
func (g *Graph) DeleteOn(s *device.Stream, from, to device.Slice[uint32], deleted device.Slice[bool], counts ...device.Slice[uint64]) error {
	return g.changeOn(s, "DeleteOn", edgeBatchOn(op.Delete, from, to, batch.Column{}, deleted), counts)
}

// ApplyOn is Apply for a batch on the device, as InsertOn. kinds are those of weft.OpKind; any kind
// other than weft.OpPut deletes.
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

// InsertVertices inserts vertices without edges, and returns how many were absent.
func (g *Graph) InsertVertices(ctx context.Context, vertices []uint32) (n int, err error) {
	return g.insertVertices(ctx, "InsertVertices", vertices)
}

// DeleteVertices deletes vertices with all their edges, in both directions, and returns how many
// were present. Their numbers may be used again. In an undirected graph few vertices take as long
// as deleting their edges. For many vertices, and always in a directed graph, it scans all rows for
// edges to the vertices. So one call with many vertices is better than many calls.
func (g *Graph) DeleteVertices(ctx context.Context, vertices []uint32) (n int, err error) {
	return g.runChange(ctx, nil, "DeleteVertices", vertexBatch(op.Delete, len(vertices), batch.Input(vertices)), g.engine.deleteVertices, nil)
}

func (g *store) insertVertices(ctx context.Context, method string, vertices []uint32) (n int, err error) {
	return g.runChange(ctx, nil, method, vertexBatch(op.Put, len(vertices), batch.Input(vertices)), g.engine.insertVertices, nil)
}

// InsertVerticesOn is InsertVertices for a batch on the device. It adds the number of new vertices
// to counts[0], if given. The host copies the batch to its memory, since it allocates the records:
// the call waits for the earlier work of the stream.
func (g *Graph) InsertVerticesOn(s *device.Stream, vertices device.Slice[uint32], counts ...device.Slice[uint64]) error {
	const method = "InsertVerticesOn"
	b := vertexBatch(op.Put, vertices.Len(), batch.InputOn(vertices))
	count, err := core.CounterOf(g.dev, counts)
	if err = errors.Join(err, g.checkPlace(s, b)); err != nil {
		return wrap(method, err)
	}
	host := make([]uint32, b.N)
	if err := vertices.CopyTo(context.Background(), s, host); err != nil {
		return wrap(method, err)
	}
	n, err := g.insertVertices(context.Background(), method, host)
	return errors.Join(err, wrap(method, g.engine.addCount(s, count, uint64(n))))
}

// DeleteVerticesOn is DeleteVertices for a batch on the device, as InsertOn. It adds the number of
// vertices that were present to counts[0], if given.
func (g *Graph) DeleteVerticesOn(s *device.Stream, vertices device.Slice[uint32], counts ...device.Slice[uint64]) error {
	const method = "DeleteVerticesOn"
	b := vertexBatch(op.Delete, vertices.Len(), batch.InputOn(vertices))
	if err := g.checkPlace(s, b); err != nil {
		return wrap(method, err)
	}
	_, err := g.runChange(context.Background(), s, method, b, g.engine.deleteVertices, counts)
	return err
}

// vertexBatch returns a batch of vertices to insert or delete.
func vertexBatch(kind op.Kind, n int, vertices batch.Column) *batch.Batch {
	return &batch.Batch{N: n, Kind: kind, Columns: batch.Columns{batch.Keys: vertices}}
}

// checkPlace refuses streams and columns of other devices, and closed streams of the host.
func (g *store) checkPlace(s *device.Stream, b *batch.Batch) error {
	err := b.CheckDevice(g.dev, s)
	if err == nil && isHost(g.dev) {
		err = cpu.SyncStream(s)
	}
	return err
}

// Clear removes all edges and vertices, and frees memory. Snapshots keep theirs.
func (g *Graph) Clear(ctx context.Context) error {
	return wrap("Clear", g.withExclusive(ctx, func() error {
		m, err := newMemory(g.dev, g.shape, g.opts.MaxVertices)
		if err != nil {
			return err
		}
		if err := g.engine.clear(ctx, m); err != nil {
			return errors.Join(err, m.Free())
		}
		g.blocks, g.vertices, g.arcs, g.loops = blocks{}, 0, 0, 0
		return errors.Join(g.replaceMemory(m), g.publish(ctx, nil))
	}))
}

// Compact moves all rows to new memory, one after the other, and frees the old memory. Graphs do so
// by themselves when more than two thirds of the memory is free after four batches in a row, or in
// Sync. They do not while a snapshot keeps the old memory.
func (g *Graph) Compact(ctx context.Context) error {
	return wrap("Compact", g.withExclusive(ctx, func() error { return g.rebuild(ctx) }))
}

// Sync waits for all batches on the device, and frees memory if more than two thirds of it is
// unused.
func (g *Graph) Sync(ctx context.Context) error {
	return wrap("Sync", g.withExclusive(ctx, func() error { return errors.Join(g.shrink(ctx, 1), g.publish(ctx, nil)) }))
}

// Close frees the graph after the calls in flight. The memory of snapshots is freed with them. It
// is idempotent.
func (g *Graph) Close() error {
	first, err := g.leases.Close()
	if !first {
		return nil
	}
	g.open.Lock()
	defer g.open.Unlock()
	g.closed = true
	g.tracked.Closed()
	return wrap("Close", errors.Join(err, g.endpoints.Close(), g.engine.close(), g.leases.Free()))
}

// ---- lookups -------------------------------------------------------------------

// Has looks up edges and returns how many exist; found, unless nil, receives which. Numbers that
// are no vertices have no edges.
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

// HasOn is Has for a batch on the device. It adds the number of edges found to hits[0], if given.
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
		core.AddCount(to, n) // no kernel has added them
		return err
	}))
}

// submitRead submits a function that reads the present graph.
func (g *store) readOn(s *device.Stream, b *batch.Batch, f func(*view) error) error {
	if err := g.checkPlace(s, b); err != nil {
		return err
	}
	return g.read(context.Background(), s, f)
}

// Degree writes the number of neighbors of each vertex to degrees, in a directed graph the
// out-degree.
func (g *Graph) Degree(ctx context.Context, vertices, degrees []uint32) error {
	b := degreeBatch(vertices, degrees)
	b.MustMatch("graph", "Degree")
	return wrap("Degree", g.read(ctx, nil, func(v *view) error { return g.engine.degrees(ctx, nil, v, b) }))
}

func degreeBatch(vertices, degrees []uint32) *batch.Batch {
	return &batch.Batch{N: len(vertices), Columns: batch.Columns{batch.Keys: batch.Input(vertices), batch.Counts: batch.Output(degrees)}}
}

// DegreeOn is Degree for a batch on the device.
func (g *Graph) DegreeOn(s *device.Stream, vertices, degrees device.Slice[uint32]) error {
	b := &batch.Batch{N: vertices.Len(), Columns: batch.Columns{batch.Keys: batch.InputOn(vertices), batch.Counts: batch.OutputOn(degrees)}}
	b.MustMatch("graph", "DegreeOn")
	return wrap("DegreeOn", g.readOn(s, b, func(v *view) error { return g.engine.degrees(context.Background(), s, v, b) }))
}

// Neighbors appends the neighbors of a vertex to a slice, in ascending order.
func (g *Graph) Neighbors(ctx context.Context, vertex uint32, to []uint32) ([]uint32, error) {
	r, err := g.currentRows(ctx, "Neighbors", []uint32{vertex})
	return append(to, r.ids...), err
}

// Rows returns the neighbors of vertices: those of vertices[i] are
// neighbors[offsets[i]:offsets[i+1]], in ascending order.
func (g *Graph) Rows(ctx context.Context, vertices []uint32) (offsets []uint64, neighbors []uint32, err error) {
	r, err := g.currentRows(ctx, "Rows", vertices)
	return r.offsets, r.ids, err
}

// RowsOn is Rows for a batch on the device. It writes degrees, as long as vertices, offsets, one
// longer, and as many neighbors as fit into that slice.
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

// rows are rows of several vertices in host memory.
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

// rowsOf reads the rows of n vertices, of the first n if vertices is nil.
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
	// aligned
	r.weights = device.Bytes(make([]uint64, (len(r.ids)*v.weight+7)/8))[:len(r.ids)*v.weight]
	b.Columns[batch.Counts], b.Columns[batch.Offsets] = batch.Column{}, batch.OffsetsIn(r.offsets)
	b.Columns[batch.OutKeys] = batch.Output(r.ids)
	if v.weight > 0 {
		b.Columns[batch.Vals] = batch.Output(r.weights).WithWidth(v.weight)
	}
	return r, g.engine.rows(ctx, nil, v, b)
}

// CSR returns the graph as immutable rows, for all vertex numbers up to the largest ever used.
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

// simple reports whether rows are known to have no loops and no parallel edges.
func (g *store) simple(loops uint64) bool { return loops == 0 && !g.opts.Multi }

// Save writes the graph to a stream in the format that [Graph.Load] reads on any device. Changes
// wait until it is written; [Snapshot.Save] does not block them.
func (g *Graph) Save(ctx context.Context, to io.Writer) error {
	return wrap("Save", g.read(ctx, nil, func(v *view) error { return g.save(ctx, v, to) }))
}

// Load inserts the vertices and edges of a saved graph. It keeps self loops and parallel edges if
// Options do, as Insert. A stream of another kind, a damaged or a truncated one returns
// weft.ErrFormat, and vertices beyond MaxVertices return weft.ErrOptions. Some edges that precede
// the damage may have been inserted.
func (g *Graph) Load(ctx context.Context, from io.Reader) error {
	return wrap("Load", g.load(ctx, from))
}

// InsertCSR inserts the vertices and edges of an immutable graph. It keeps the direction of the
// edges of a directed one.
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

// smallerEndArcs returns the arcs of an undirected graph from their smaller end, with their
// weights. In a multigraph the other arcs would be edges of their own.
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
