package graph

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/observe"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/touched"
)

// store is a graph that changes, without the types of its weights.
//
// It uses leases, batches and errors of package core, but is no core.Table. A table of edges would
// have the chunks and retries of the core, and no rows. A table per vertex would take a call for
// each. Here a batch has two keys and runs as a whole. An edge of an undirected graph is in two
// rows, and the memory of a row depends on all operations of its vertex.
type store struct {
	opts Options
	shape
	dev    device.Device
	leases *core.Leases
	engine engine

	// The writer lock protects the following fields.
	blocks
	vertices   int    // number of records
	arcs       uint64 // entries of all rows
	loops      uint64
	epoch      uint32   // number of the next snapshot
	snapshots  []uint32 // epochs of the open snapshots, ascending
	superseded []bool   // for each of those, whether it is of an earlier generation
	copies     int      // size of the snapshots' memory other than blocks
	underused  int      // batches in a row that have left much memory free

	size      sizes
	weights   core.Type    // 0: none
	open      sync.RWMutex // held by calls on snapshots, so that Close waits for them
	closed    bool
	endpoints touched.Lister
	tracked   *observe.Tracked
}

// sizes are the sizes when a call returned, or at the last Sync.
type sizes struct{ vertices, arcs, loops atomic.Uint64 }

// engine works on the memory of a store, on one kind of device. Changes run one at a time and
// exclude lookups of the present graph, but not those of snapshots.
type engine interface {
	// change runs a batch of edges, from Keys to Keys2 with weights Vals, of kinds op.Put and
	// op.Delete: completely or, after an error, not at all. It returns the number of edges that
	// were absent (Put) or present (Delete).
	change(ctx context.Context, s *device.Stream, b *batch.Batch) (uint64, error)
	// insertVertices and deleteVertices run a batch of vertices, in Keys. They return how many are
	// new, or were present.
	insertVertices(ctx context.Context, s *device.Stream, b *batch.Batch) (uint64, error)
	deleteVertices(ctx context.Context, s *device.Stream, b *batch.Batch) (uint64, error)
	// find looks up edges from Keys to Keys2, writes Vals and OK and returns the number found. On a
	// stream of a GPU it adds the number to count, unless that is null, and returns 0.
	find(ctx context.Context, s *device.Stream, v *view, b *batch.Batch, count device.Ptr) (uint64, error)
	// addCount submits adding n to a counter of the caller, if given.
	addCount(s *device.Stream, to device.Slice[uint64], n uint64) error
	// degrees writes the degrees of vertices Keys to Counts. Without Keys the vertices are the
	// first b.N.
	degrees(ctx context.Context, s *device.Stream, v *view, b *batch.Batch) error
	// rows writes the rows of vertices to OutKeys and Vals, from Offsets on, and never beyond.
	// Without Keys the vertices are the first b.N.
	rows(ctx context.Context, s *device.Stream, v *view, b *batch.Batch) error
	// offsets writes the prefix sums of Counts to Offsets.
	offsets(s *device.Stream, b *batch.Batch) error
	// readAlive reads the bitmap of present vertices.
	readAlive(ctx context.Context, v *view) ([]uint32, error)
	// countPresent reads the number of vertices, after all changes.
	countPresent(ctx context.Context) (uint64, error)
	// copyView copies the memory that changes overwrite, for a snapshot.
	copyView(ctx context.Context, v *view) (*view, error)
	// reclaim frees and counts the retired blocks of snapshots for which held returns false.
	reclaim(ctx context.Context, seen func(retiredBlock) bool) error
	// compact copies the graph to new memory.
	compact(ctx context.Context) (*memory, error)
	// clear drops all blocks; m is the new memory.
	clear(ctx context.Context, m *memory) error
	// image returns the memory as host memory, with the free blocks of each class and the retired
	// blocks of snapshots.
	image(ctx context.Context, v *view) (*view, [classes][]uint32, []retiredBlock, error)
	// overheadBytes returns the size of the engine's memory other than its generation.
	overheadBytes() int
	close() error
}

func newStore(dev device.Device, weights core.Type, opts *Options) (*store, error) {
	g := &store{dev: dev, shape: shape{int(weights.Bits) / 8}, weights: weights}
	if opts != nil {
		g.opts = *opts
	}
	err := g.checkOptions()
	var m *memory
	if err == nil {
		m, err = newMemory(dev, g.shape, g.opts.MaxVertices)
	}
	if err != nil {
		return nil, fmt.Errorf("graph: new graph: %w", err)
	}
	g.leases = core.NewLeases(m)
	g.endpoints.Dev, g.endpoints.Most = dev, g.opts.MaxVertices
	if host, ok := dev.(device.Host); ok {
		g.engine = &cpuEngine{store: g, host: host}
	} else if g.engine, err = newGPUEngine(g); err != nil {
		return nil, errors.Join(fmt.Errorf("graph: new graph: %w", err), m.Free())
	}
	g.tracked = observe.Track(g, "graph", nil, func(g *store) (int, int) { return int(g.size.arcs.Load()), 0 })
	return g, nil
}

func (g *store) checkOptions() error {
	switch {
	case g.dev == nil:
		return core.Invalid("no device")
	case g.opts.MaxVertices < 0 || g.opts.MaxVertices > maxVertices:
		return core.Invalid("MaxVertices %d, want 1 to %d, or 0 for %d", g.opts.MaxVertices, maxVertices, defaultVertices)
	case g.opts.MaxVertices == 0:
		g.opts.MaxVertices = defaultVertices
	}
	return nil
}

// arcsPerEdge returns the number of row entries per edge.
func (g *store) arcsPerEdge() int {
	if g.opts.Directed {
		return 1
	}
	return 2
}

func (g *store) memory() *memory { return memoryOf(g.leases.Current()) }

// currentView returns the present graph. The caller holds the writer lock or excludes writers.
func (g *store) currentView() *view { return g.memory().view(g.vertices) }

func wrap(method string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("graph: %s: %w", method, err)
}

// withExclusive runs f in an exclusive section: no other writer, no reader of the present graph.
func (g *store) withExclusive(ctx context.Context, f func() error) error {
	if err := g.leases.LockWriter(ctx); err != nil {
		return err
	}
	defer g.leases.UnlockWriter()
	if err := g.leases.BeginExclusive(ctx); err != nil {
		return err
	}
	defer g.leases.EndExclusive()
	return f()
}

// read runs f while no writer changes the graph.
func (g *store) read(ctx context.Context, s *device.Stream, f func(*view) error) error {
	lease, err := g.leases.Read(ctx, nil)
	if err != nil {
		return err
	}
	if s != nil {
		lease.AddStream(s)
	}
	return errors.Join(f(g.currentView()), lease.End())
}

// minPiece and maxPiece bound the pieces of a batch of host memory. A piece has as many arcs as
// the graph. So insertions into growing rows cost at most a few copies of each row. The bounds
// limit the memory that a piece takes meanwhile.
const (
	minPiece = 1 << 20
	maxPiece = 1 << 24
)

func (g *store) pieceEdges() int {
	return int(min(max(g.arcs, minPiece), maxPiece)) / g.arcsPerEdge()
}

// change runs a batch of edges.
func (g *store) change(ctx context.Context, s *device.Stream, method string, b *batch.Batch, counts ...device.Slice[uint64]) (n int, err error) {
	return g.runChange(ctx, s, method, b, g.engine.change, counts)
}

// runChange runs a batch of edges or vertices.
func (g *store) runChange(ctx context.Context, s *device.Stream, method string, b *batch.Batch, run func(context.Context, *device.Stream, *batch.Batch) (uint64, error), counts []device.Slice[uint64]) (n int, err error) {
	b.MustMatch("graph", method)
	done := 0
	count, err := core.CounterOf(g.dev, counts)
	if err == nil {
		err = g.withExclusive(ctx, func() error {
			if err := g.validate(s, b); err != nil {
				return err
			}
			done, n, err = g.runPieces(ctx, s, b, run)
			return err
		})
	}
	// The count includes the pieces before an error.
	err = errors.Join(err, g.engine.addCount(s, count, uint64(n)))
	if err != nil {
		b.ClearFrom(done)
		err = wrap(method, op.Partial(done, nil, err))
	}
	return n, err
}

// validate checks a batch before anything changes.
func (g *store) validate(s *device.Stream, b *batch.Batch) error {
	if b.Columns[batch.Keys2].Given() && b.Inserts() {
		if err := g.checkWeights(b.N, &b.Columns[batch.Vals]); err != nil {
			return err
		}
	}
	if s == nil {
		for i, k := range batch.View[op.Kind](b.Columns[batch.Kinds].Host) {
			if err := checkKind(i, k); err != nil {
				return err
			}
		}
	}
	return g.checkRange(b) // the engine checks columns that only the device reads
}

// checkWeights refuses n edges without weights for a graph with weights, from methods that a
// WeightedGraph inherits from Graph.
func (g *store) checkWeights(n int, weights *batch.Column) error {
	if g.weight > 0 && n > 0 && !weights.Given() {
		return fmt.Errorf("%w: %d edges without weights, for a graph with weights", device.ErrInvalid, n)
	}
	return nil
}

// checkRange refuses to insert vertices out of range. Deletions of such vertices find nothing.
func (g *store) checkRange(b *batch.Batch) error {
	from, to := batch.View[uint32](b.Columns[batch.Keys].Host), batch.View[uint32](b.Columns[batch.Keys2].Host)
	kinds := batch.View[op.Kind](b.Columns[batch.Kinds].Host)
	for i, u := range from {
		v := u
		if len(to) > 0 {
			v = to[i]
		}
		if g.outOfRange(u, v) && (kinds == nil && b.Kind.Inserts() || kinds != nil && kinds[i] == op.Put) {
			return g.rangeError(i, u, v, len(to) > 0)
		}
	}
	return nil
}

// outOfRange reports whether one of two vertices is out of range.
func (g *store) outOfRange(u, v uint32) bool { return uint64(max(u, v)) >= uint64(g.opts.MaxVertices) }

func checkKind(i int, k op.Kind) error {
	if k != op.Put && k != op.Delete {
		return fmt.Errorf("%w: operation %d: edges are put and deleted, and there is no %v", device.ErrInvalid, i, k)
	}
	return nil
}

// rangeError returns the error of a vertex out of range.
func (g *store) rangeError(i int, u, v uint32, edge bool) error {
	if edge {
		return fmt.Errorf("%w: edge %d from %d to %d: vertices are 0 to %d; MaxVertices allows more", weft.ErrOptions, i, u, v, g.opts.MaxVertices-1)
	}
	return fmt.Errorf("%w: vertex %d of the batch is %d: vertices are 0 to %d; MaxVertices allows more", weft.ErrOptions, i, u, g.opts.MaxVertices-1)
}

// runPieces runs a batch piece by piece, and publishes the new sizes. done is the length of the
// prefix that was run.
func (g *store) runPieces(ctx context.Context, s *device.Stream, b *batch.Batch, run func(context.Context, *device.Stream, *batch.Batch) (uint64, error)) (done, n int, err error) {
	for err = ctx.Err(); done < b.N && err == nil; {
		size := min(b.N-done, g.pieceEdges())
		if s != nil && b.Columns[batch.Keys].Host == nil {
			size = b.N - done // the device checks its vertices before anything changes
		}
		var changed uint64
		if changed, err = run(ctx, s, b.Part(done, done+size)); err == nil {
			done += size
			n += int(changed)
			err = ctx.Err()
		}
	}
	if done == b.N {
		err = nil
	}
	if err == nil {
		err = g.shrink(ctx, shrinkAfter)
	}
	if done > 0 {
		err = errors.Join(err, g.publish(ctx, s))
	}
	return done, n, err
}

// publish updates the published sizes. On a stream of a GPU the number of vertices is published by
// the next Sync.
func (g *store) publish(ctx context.Context, s *device.Stream) error {
	g.size.arcs.Store(g.arcs)
	g.size.loops.Store(g.loops)
	if s != nil && !isHost(g.dev) {
		return nil
	}
	n, err := g.engine.countPresent(context.WithoutCancel(ctx))
	if err == nil {
		g.size.vertices.Store(n)
	}
	return err
}

func isHost(dev device.Device) bool {
	_, ok := dev.(device.Host)
	return ok
}

// ---- memory -------------------------------------------------------------------

// Memory is freed when the unused part is more than two thirds of what blocks took, and more than
// minShrinkUnits. A batch that changes all rows needs as much again, and leaves it unused. Nothing
// is copied while snapshots exist, since they refer to blocks by position. Freeing and reallocating
// memory takes longer than most batches, so it is kept for shrinkAfter batches, which may need it.
const (
	minShrinkUnits = 1 << 10
	shrinkAfter    = 4
)

// shrink frees memory that the given number of batches in a row have left unused. On a lack of
// memory or time it returns no error: the batch is done, and a later one tries again.
func (g *store) shrink(ctx context.Context, batches int) error {
	if g.units <= minShrinkUnits || g.used > g.units/3 || len(g.snapshots) > 0 {
		g.underused = 0
		return nil
	}
	if g.underused++; g.underused < batches {
		return nil
	}
	g.underused = 0
	err := g.rebuild(ctx)
	if errors.Is(err, device.ErrMemory) || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// rebuild copies the graph to new memory.
func (g *store) rebuild(ctx context.Context) error {
	m, err := g.engine.compact(ctx)
	if err != nil {
		return err
	}
	return g.replaceMemory(m)
}

func (g *store) replaceMemory(m *memory) error {
	for i := range g.superseded {
		g.superseded[i] = true
	}
	return g.leases.Replace(m)
}

// reserve allocates memory for blocks of the given units and records of the given vertices. clear
// zeroes new records.
func (g *store) reserve(units, vertices int, clear func(b device.Buffer, from int) error) error {
	m := g.memory()
	if units > maxUnits {
		return fmt.Errorf("%w: blocks of %d units of %d bytes, %d at most", op.ErrFull, units, g.unit(), maxUnits)
	}
	if err := m.pool.grow(units * g.unit()); err != nil {
		return fmt.Errorf("blocks of %d units of %d bytes: %w", units, g.unit(), err)
	}
	for _, a := range []struct {
		*area
		bytes int
	}{{&m.records, vertices * recordBytes}, {&m.alive, bitmapBytes(vertices)}} {
		before := a.buf
		if err := a.grow(a.bytes); err != nil {
			return fmt.Errorf("records of %d vertices: %w", vertices, err)
		}
		if a.buf.Size > before.Size {
			if err := clear(a.buf, before.Size); err != nil {
				a.buf = before // not cleared: it is new again
				return err
			}
		}
	}
	return nil
}

// degreesOf returns the degrees of all vertices.
func (g *store) degreesOf(ctx context.Context, v *view) ([]uint32, error) {
	degrees := make([]uint32, v.vertices)
	b := &batch.Batch{N: v.vertices, Columns: batch.Columns{batch.Counts: batch.Output(degrees)}}
	return degrees, g.engine.degrees(ctx, nil, v, b)
}

// newestSnapshot returns the epoch of the last open snapshot of this generation. ok is false if
// none is open.
func (g *store) newestSnapshot() (epoch uint32, ok bool) {
	for i, e := range slices.Backward(g.snapshots) {
		if !g.superseded[i] {
			return e, true
		}
	}
	return 0, false
}

// isHeld reports whether a snapshot of this generation has a block.
func (g *store) isHeld(x retiredBlock) bool {
	for i, e := range g.snapshots {
		if !g.superseded[i] && x.born <= e && e < x.died {
			return true
		}
	}
	return false
}
