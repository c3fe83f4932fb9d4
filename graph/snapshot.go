package graph

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

// Snapshot is the state of a [Graph] at one moment. Lookups and algorithms run on it while updates
// continue, and neither waits for the other. A Snapshot copies the records, 32 bytes a vertex, and
// keeps the blocks that the rows had at that moment. It keeps this memory until it is closed. It is
// valid while the graph is open.
type Snapshot struct {
	graph *store
	view  *view
	lease *core.Lease
	epoch uint32

	present, arcs, loops uint64

	mu     sync.Mutex
	users  int // number of running calls, plus one until Close
	closed bool
}

// Snapshot takes a snapshot. It includes all calls that have returned and all submitted batches.
func (g *Graph) Snapshot(ctx context.Context) (*Snapshot, error) {
	s, err := g.snapshot(ctx)
	return s, wrap("Snapshot", err)
}

func (g *store) snapshot(ctx context.Context) (s *Snapshot, err error) {
	if err := g.leases.LockWriter(ctx); err != nil {
		return nil, err
	}
	defer g.leases.UnlockWriter()
	return g.snapshotLocked(ctx)
}

// snapshotLocked takes a snapshot. The caller holds the writer lock.
func (g *store) snapshotLocked(ctx context.Context) (s *Snapshot, err error) {
	present, err := g.engine.countPresent(ctx)
	if err != nil {
		return nil, err
	}
	lease, err := g.leases.Hold(ctx)
	if err != nil {
		return nil, err
	}
	v, err := g.engine.copyView(ctx, g.currentView())
	if err != nil {
		return nil, errors.Join(err, lease.End())
	}
	s = &Snapshot{graph: g, view: v, lease: lease, epoch: g.epoch, present: present, arcs: g.arcs, loops: g.loops, users: 1}
	g.snapshots, g.superseded = append(g.snapshots, g.epoch), append(g.superseded, false)
	g.epoch++
	g.copies += s.view.copyBytes()
	return s, nil
}

// withOpen runs f while the snapshot stays open.
func (s *Snapshot) withOpen(ctx context.Context, f func() error) error {
	s.mu.Lock()
	err := ctx.Err()
	if s.closed {
		err = op.ErrClosed
	}
	if err == nil {
		s.users++
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return errors.Join(s.runIfOpen(f), s.release())
}

// runIfOpen runs f unless the graph is closed.
func (s *Snapshot) runIfOpen(f func() error) error {
	s.graph.open.RLock()
	defer s.graph.open.RUnlock()
	if s.graph.closed {
		return op.ErrClosed
	}
	if err := s.graph.readable(); err != nil {
		return err
	}
	return f()
}

// release ends the use of the snapshot by one call or, in Close, by its owner. The last release
// frees the memory.
func (s *Snapshot) release() (err error) {
	s.mu.Lock()
	s.users--
	last := s.users == 0
	s.mu.Unlock()
	if !last {
		return nil
	}
	ctx, g := context.Background(), s.graph
	if g.leases.LockWriter(ctx) == nil { // an error means that the graph is closed
		err = g.removeSnapshot(ctx, s)
		g.leases.UnlockWriter()
	}
	return errors.Join(err, freeCopy(g.dev, s.view), s.lease.End())
}

// removeSnapshot removes a snapshot from the graph and frees the blocks that only it used.
func (g *store) removeSnapshot(ctx context.Context, s *Snapshot) error {
	i := slices.Index(g.snapshots, s.epoch)
	g.copies -= s.view.copyBytes()
	old := g.superseded[i]
	g.snapshots, g.superseded = slices.Delete(g.snapshots, i, i+1), slices.Delete(g.superseded, i, i+1)
	if old {
		return nil
	}
	return g.engine.reclaim(ctx, g.isHeld)
}

// copyBytes returns the size of a snapshot's records and bitmap.
func (v *view) copyBytes() int { return v.records.Size + v.alive.Size }

func freeCopy(dev device.Device, v *view) (err error) {
	for _, b := range []device.Buffer{v.records, v.alive} {
		if b.Size > 0 {
			err = errors.Join(err, dev.Free(b))
		}
	}
	return err
}

// Close frees the memory of the snapshot when running calls have ended. Later calls on the snapshot
// return weft.ErrClosed. Close is idempotent.
func (s *Snapshot) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	if !first {
		return nil
	}
	return wrap("Snapshot", s.release())
}

// Vertices returns the number of vertices.
func (s *Snapshot) Vertices() int { return int(s.present) }

// Edges returns the number of edges.
func (s *Snapshot) Edges() int { return edgesOf(s.graph.opts.Directed, s.arcs, s.loops) }

// Directed reports whether edges lead only one way.
func (s *Snapshot) Directed() bool { return s.graph.opts.Directed }

// Has looks up edges of the snapshot. See [Graph.Has].
func (s *Snapshot) Has(ctx context.Context, from, to []uint32, found []bool) (n int, err error) {
	return s.find(ctx, "Has", edgeBatch(op.Get, from, to, batch.Column{}, found))
}

func (s *Snapshot) find(ctx context.Context, method string, b *batch.Batch) (n int, err error) {
	b.MustMatch("graph", method)
	err = s.withOpen(ctx, func() error {
		hits, err := s.graph.engine.find(ctx, nil, s.view, b, 0)
		n = int(hits)
		return err
	})
	return n, wrap(method, err)
}

// Degree writes the number of neighbors of each vertex to degrees. See [Graph.Degree].
func (s *Snapshot) Degree(ctx context.Context, vertices, degrees []uint32) error {
	b := degreeBatch(vertices, degrees)
	b.MustMatch("graph", "Degree")
	return wrap("Degree", s.withOpen(ctx, func() error { return s.graph.engine.degrees(ctx, nil, s.view, b) }))
}

// Neighbors appends the neighbors of a vertex, in ascending order, to a slice, which it returns.
func (s *Snapshot) Neighbors(ctx context.Context, vertex uint32, to []uint32) ([]uint32, error) {
	_, ids, err := s.Rows(ctx, []uint32{vertex})
	return append(to, ids...), err
}

// Rows returns the neighbors of several vertices. See [Graph.Rows].
func (s *Snapshot) Rows(ctx context.Context, vertices []uint32) (offsets []uint64, neighbors []uint32, err error) {
	var r rows
	err = s.withOpen(ctx, func() error {
		r, err = s.graph.rowsOf(ctx, s.view, vertices, len(vertices))
		return err
	})
	return r.offsets, r.ids, wrap("Rows", err)
}

// CSR returns the snapshot as an immutable graph in host memory. See [Graph.CSR].
func (s *Snapshot) CSR(ctx context.Context) (c *CSR, err error) {
	c, _, err = s.export(ctx)
	return c, err
}

func (s *Snapshot) export(ctx context.Context) (c *CSR, weights []byte, err error) {
	err = s.withOpen(ctx, func() error {
		c, weights, err = s.graph.export(ctx, s.view, s.loops)
		return err
	})
	return c, weights, wrap("CSR", err)
}

// Save writes the snapshot, while updates continue. See [Graph.Save].
func (s *Snapshot) Save(ctx context.Context, to io.Writer) error {
	return wrap("Save", s.withOpen(ctx, func() error { return s.graph.save(ctx, s.view, to) }))
}
