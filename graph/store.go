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

// store implements a mutable graph for any type of weights.
//
// It uses leases, batches and errors of package core, but is not a core.Table. A core.Table of
// edges would support chunks and retries, but not rows, and a table per vertex would take a call
// per vertex. A batch of a store has two keys and runs as a whole. An edge of an undirected graph
// lies in two rows, and the memory of a row depends on all operations on its vertex.
type store struct {
	opts Options
	shape
	dev    device.Device
	leases *core.Leases
	engine engine

	// The writer lock protects the following fields.
	blocks
	vertices   int    // number of records
	arcs       uint64 // number of entries in all rows
	loops      uint64
	epoch      uint32   // epoch of the next snapshot
	snapshots  []uint32 // epochs of the open snapshots, ascending
	superseded []bool   // whether snapshots[i] reads an earlier memory generation
	copies     int      // memory of the snapshots other than blocks, in bytes
	underused  int      // number of batches in a row that left much memory unused

	size      sizes
	weights   core.Type    // zero without weights
	open      sync.RWMutex // read-locked by calls on snapshots; Close waits for them
	closed    bool
	endpoints touched.Lister
	tracked   *observe.Tracked
	journal   core.Journal // set before the first call, or never
}

// sizes holds the sizes after the last call, or at the last Sync.
type sizes struct{ vertices, arcs, loops atomic.Uint64 }

// engine runs operations of a store on one kind of device. Changes run one at a time and exclude
// lookups of the current graph. Lookups of snapshots run alongside changes.
type engine interface {
	// change runs a batch of edges from Keys to Keys2, with weights Vals, of kinds op.Put and
	// op.Delete. It returns the number of edges that were absent (Put) or present (Delete). If it
	// or another change returns an error, nothing has changed, unless outcomeUnknown returns true.
	change(ctx context.Context, s *device.Stream, b *batch.Batch) (uint64, error)
	// insertVertices and deleteVertices run a batch of the vertices in Keys. They return the number
	// of vertices that were absent or present.
	insertVertices(ctx context.Context, s *device.Stream, b *batch.Batch) (uint64, error)
	deleteVertices(ctx context.Context, s *device.Stream, b *batch.Batch) (uint64, error)
	// outcomeUnknown reports whether a change that returned an error may have changed the graph,
	// because its device has failed.
	outcomeUnknown() bool
	// find looks up edges from Keys to Keys2, writes Vals and OK and returns the number found. On a
	// stream of a GPU it returns 0 and adds the number to count, unless count is null.
	find(ctx context.Context, s *device.Stream, v *view, b *batch.Batch, count device.Ptr) (uint64, error)
	// addCount submits work that adds n to the caller's counter, unless the counter is empty.
	addCount(s *device.Stream, to device.Slice[uint64], n uint64) error
	// degrees writes the degrees of the vertices in Keys to Counts. Without Keys the vertices are 0
	// to b.N-1.
	degrees(ctx context.Context, s *device.Stream, v *view, b *batch.Batch) error
	// rows writes the rows of the vertices in Keys to OutKeys and Vals, at Offsets. It drops
	// entries that do not fit. Without Keys the vertices are 0 to b.N-1.
	rows(ctx context.Context, s *device.Stream, v *view, b *batch.Batch) error
	// offsets writes the prefix sums of Counts to Offsets.
	offsets(s *device.Stream, b *batch.Batch) error
	// readAlive reads the bitmap of present vertices.
	readAlive(ctx context.Context, v *view) ([]uint32, error)
	// countPresent returns the number of vertices after all changes.
	countPresent(ctx context.Context) (uint64, error)
	// copyView copies the memory that changes overwrite, for a snapshot.
	copyView(ctx context.Context, v *view) (*view, error)
	// reclaim frees the retired blocks for which seen returns false, and counts them as free.
	reclaim(ctx context.Context, seen func(retiredBlock) bool) error
	// compact copies the graph to new memory.
	compact(ctx context.Context) (*memory, error)
	// clear drops all blocks and vertices, before m becomes the memory of the graph.
	clear(ctx context.Context, m *memory) error
	// image returns a copy of the view in host memory, the free blocks of each class, and the
	// retired blocks that snapshots use.
	image(ctx context.Context, v *view) (*view, [classes][]uint32, []retiredBlock, error)
	// overheadBytes returns the size of the engine's memory other than the generation.
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

func (g *store) arcsPerEdge() int {
	if g.opts.Directed {
		return 1
	}
	return 2
}

func (g *store) memory() *memory { return memoryOf(g.leases.Current()) }

// currentView returns the current graph. The caller holds the writer lock or excludes writers.
func (g *store) currentView() *view { return g.memory().view(g.vertices) }

func wrap(method string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("graph: %s: %w", method, err)
}

// withExclusive runs f in an exclusive section, without writers or readers of the current graph.
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
	if err := g.readable(); err != nil {
		return err
	}
	lease, err := g.leases.Read(ctx, nil)
	if err != nil {
		return err
	}
	if s != nil {
		lease.AddStream(s)
	}
	return errors.Join(f(g.currentView()), lease.End())
}

// minPiece and maxPiece bound the number of arcs of a piece of a batch in host memory. Within these
// bounds a piece has as many arcs as the graph. So inserting into growing rows copies each row only
// a few times. The upper bound limits the temporary memory of a piece.
const (
	minPiece = 1 << 20
	maxPiece = 1 << 24
)

func (g *store) pieceEdges() int {
	return int(min(max(g.arcs, minPiece), maxPiece)) / g.arcsPerEdge()
}

func (g *store) change(ctx context.Context, s *device.Stream, method string, b *batch.Batch, counts ...device.Slice[uint64]) (n int, err error) {
	return g.runChange(ctx, s, method, b, g.engine.change, counts)
}

// runChange runs a batch of edges or vertices. It calls run for each piece of the batch.
func (g *store) runChange(ctx context.Context, s *device.Stream, method string, b *batch.Batch, run func(context.Context, *device.Stream, *batch.Batch) (uint64, error), counts []device.Slice[uint64]) (n int, err error) {
	b.MustMatch("graph", method)
	done := 0
	count, err := core.CounterOf(g.dev, counts)
	if err == nil {
		err = g.runDurable(ctx, s != nil, func() error {
			if err := g.validate(s, b); err != nil {
				return err
			}
			l, err := g.newLogger(ctx, s, b)
			if err != nil {
				return err
			}
			done, n, err = g.runPieces(ctx, s, b, run, l)
			return l.end(err)
		})
	}
	// n includes the pieces before the error.
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
	return g.checkRange(b) // the engine checks columns in device memory
}

// checkWeights returns an error for n edges without weights in a graph with weights. A
// WeightedGraph inherits methods of Graph that pass no weights.
func (g *store) checkWeights(n int, weights *batch.Column) error {
	if g.weight > 0 && n > 0 && !weights.Given() {
		return fmt.Errorf("%w: %d edges without weights, for a graph with weights", device.ErrInvalid, n)
	}
	return nil
}

// checkRange returns an error if the batch inserts a vertex out of range. Deletions may name such
// vertices and find nothing.
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

func (g *store) outOfRange(u, v uint32) bool { return uint64(max(u, v)) >= uint64(g.opts.MaxVertices) }

func checkKind(i int, k op.Kind) error {
	if k != op.Put && k != op.Delete {
		return fmt.Errorf("%w: operation %d: edges can be put and deleted, but not by %v",
			device.ErrInvalid, i, k)
	}
	return nil
}

func (g *store) rangeError(i int, u, v uint32, edge bool) error {
	if edge {
		return fmt.Errorf("%w: edge %d from %d to %d: vertices are 0 to %d; MaxVertices allows more", weft.ErrOptions, i, u, v, g.opts.MaxVertices-1)
	}
	return fmt.Errorf("%w: vertex %d of the batch is %d: vertices are 0 to %d; MaxVertices allows more", weft.ErrOptions, i, u, g.opts.MaxVertices-1)
}

// runPieces runs a batch piece by piece, logs each piece, and publishes the new sizes. It returns
// the number of operations run and the number of changes.
func (g *store) runPieces(ctx context.Context, s *device.Stream, b *batch.Batch, run func(context.Context, *device.Stream, *batch.Batch) (uint64, error), l *logger) (done, n int, err error) {
	for err = ctx.Err(); done < b.N && err == nil; {
		size := min(b.N-done, g.pieceEdges())
		if s != nil && b.Columns[batch.Keys].Host == nil {
			size = b.N - done // one piece: the device checks the vertices before anything changes
		}
		var changed uint64
		if changed, err = run(ctx, s, b.Part(done, done+size)); err != nil {
			l.fail(err)
			break
		}
		l.piece(done, done+size, changed)
		done += size
		n += int(changed)
		err = ctx.Err()
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

// publish makes the current sizes visible to Vertices, Arcs and Edges. On a stream of a GPU the
// next Sync publishes the number of vertices.
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

// Memory is freed if more than two thirds of the units are unused, and the units exceed
// minShrinkUnits. A batch that changes all rows writes them to new blocks and leaves the old blocks
// unused. Nothing is freed while a snapshot is open, since it refers to blocks by position. Freeing
// and reallocating memory takes longer than most batches. So unused memory is kept for shrinkAfter
// batches, which may need it.
const (
	minShrinkUnits = 1 << 10
	shrinkAfter    = 4
)

// shrink frees unused memory if at least the given number of batches in a row left it unused. It
// ignores a lack of memory and the end of ctx: the batch is done, and a later batch tries again.
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

// rebuild copies the graph to new memory and frees the old memory.
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

// reserve grows the memory to hold the given number of units in blocks, and records for the given
// number of vertices. clear zeroes new records and bits.
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
				a.buf = before // so that the next call clears it
				return err
			}
		}
	}
	return nil
}

func (g *store) degreesOf(ctx context.Context, v *view) ([]uint32, error) {
	degrees := make([]uint32, v.vertices)
	b := &batch.Batch{N: v.vertices, Columns: batch.Columns{batch.Counts: batch.Output(degrees)}}
	return degrees, g.engine.degrees(ctx, nil, v, b)
}

// newestSnapshot returns the epoch of the newest open snapshot of the current memory generation. ok
// is false if none exists.
func (g *store) newestSnapshot() (epoch uint32, ok bool) {
	for i, e := range slices.Backward(g.snapshots) {
		if !g.superseded[i] {
			return e, true
		}
	}
	return 0, false
}

// isHeld reports whether a snapshot of this generation refers to a retired block.
func (g *store) isHeld(x retiredBlock) bool {
	for i, e := range g.snapshots {
		if !g.superseded[i] && x.born <= e && e < x.died {
			return true
		}
	}
	return false
}
