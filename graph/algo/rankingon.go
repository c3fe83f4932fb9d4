package algo

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/internal/gpu/traversal"
)

// DeviceReader is a mutable graph, or a snapshot, that kernels and the host can read in place.
// [graph.Graph] and [graph.Snapshot] implement it.
type DeviceReader interface {
	Reader
	View(ctx context.Context, s *device.Stream, submit func(graph.Ref) error) error
	CSROn(ctx context.Context, s *device.Stream) (*graph.DeviceCSR, error)
}

var _, _ DeviceReader = (*graph.Graph)(nil), (*graph.Snapshot)(nil)

// DeviceRanking maintains the PageRank of a mutable graph in device memory. See [Ranking]. It
// processes batches in device memory, as passed to [graph.Graph.InsertOn]. Its ranks equal those of
// a Ranking to the bit. The host decides how to continue, so it waits after each push.
//
// Until Free it takes 60 bytes a vertex on a GPU, 32 bytes on a CPU. It is not safe for concurrent
// use.
type DeviceRanking struct {
	dev       device.Device
	host      *Ranking             // not nil on a CPU
	hostRanks device.Slice[uint64] // memory of host.ranks

	rankTotals
	k               *traversal.DynamicKernels
	state           traversal.RankState
	changed, active int // number of vertices with a changed sum, and of vertices that must push
}

// NewRankingOn computes the ranks of a graph on a device, and waits for them. See [NewRanking].
func NewRankingOn(ctx context.Context, s *device.Stream, g *graph.DeviceCSR, opts *PageRankOptions) (*DeviceRanking, error) {
	if err := checkReadable("ranking", s, g); err != nil {
		return nil, err
	}
	r := &DeviceRanking{dev: g.Device()}
	err := r.start(ctx, s, g, opts)
	if err != nil {
		return nil, wrap("ranking", errors.Join(err, r.Free()))
	}
	return r, nil
}

func (r *DeviceRanking) start(ctx context.Context, s *device.Stream, g *graph.DeviceCSR, opts *PageRankOptions) (err error) {
	if c := g.Host(); c != nil {
		if r.host, err = NewRanking(ctx, r.dev, c, opts); err != nil {
			return err
		}
		return r.moveRanks()
	}
	if r.rankTotals, err = newRankTotals(opts, g.Directed()); err != nil {
		return err
	}
	if r.k, err = traversal.LoadDynamic(r.dev); err != nil {
		return err
	}
	if err := r.grow(ctx, s, g.Vertices()); err != nil || g.Vertices() == 0 {
		return errors.Join(err, ctx.Err())
	}
	r.arcs = uint64(g.Arcs())
	if err := r.k.Init(ctx, s, &r.state, rowsOf(g)); err != nil {
		return err
	}
	_, err = r.runSweeps(ctx, s, g, PageRankResult{})
	return err
}

// moveRanks moves host.ranks to memory of the device if the number of vertices has changed.
func (r *DeviceRanking) moveRanks() error {
	n := r.host.Vertices()
	if r.hostRanks.Len() == n {
		return nil
	}
	out, err := device.Make[uint64](r.dev, n)
	if err != nil {
		return err
	}
	ranks := out.Host()
	copy(ranks, r.host.ranks)
	r.host.ranks = ranks[:n:n]
	old := r.hostRanks
	r.hostRanks = out
	return old.Free()
}

// Ranks returns the ranks of all vertices as shares of [RankOne]. The slice belongs to the ranking
// and must not be modified. It is valid until the next Update or Free.
func (r *DeviceRanking) Ranks() device.Slice[uint64] {
	if r.host != nil {
		return r.hostRanks.Sub(0, r.hostRanks.Len())
	}
	return r.state.Ranks.Sub(0, r.state.Ranks.Len())
}

// Vertices returns the number of vertices.
func (r *DeviceRanking) Vertices() int { return r.Ranks().Len() }

// Free frees the memory. Later calls return device.ErrClosed. Free is idempotent.
func (r *DeviceRanking) Free() error {
	r.failed = &failure{"ranking", fmt.Errorf("%w: it has been freed", device.ErrClosed)}
	return errors.Join(r.hostRanks.Free(), r.state.Free(r.dev))
}

// Update computes the ranks of g after a batch, and waits for them. It processes the edges that
// inserted.Done and deleted.Done select. See [Ranking.Update].
func (r *DeviceRanking) Update(ctx context.Context, s *device.Stream, g DeviceReader, inserted, deleted graph.DeviceEdges) (result PageRankResult, err error) {
	for _, e := range []*graph.DeviceEdges{&inserted, &deleted} {
		if err := e.Check(r.dev); err != nil {
			return result, wrap("ranking", err)
		}
	}
	switch {
	case r.failed != nil:
		return result, r.failed
	case s == nil || s.Device() != r.dev:
		return result, invalid("ranking", "the stream is on another device than the ranking")
	case r.host != nil:
		if err := s.Sync(context.WithoutCancel(ctx)); err != nil {
			return result, wrap("ranking", err)
		}
		result, err = r.host.Update(ctx, g, inserted.Host(), deleted.Host())
		return result, wrap("ranking", errors.Join(err, r.moveRanks()))
	}
	if r.failed = wrap("ranking", r.applyEdges(context.WithoutCancel(ctx), s, g, inserted, deleted)); r.failed != nil {
		return result, r.failed
	}
	result, err = r.converge(ctx, s, g)
	return result, wrap("ranking", err)
}

func edgesOf(e graph.DeviceEdges) traversal.Edges {
	return traversal.Edges{From: e.From.Ptr(), To: e.To.Ptr(), Done: e.Done.Ptr(), N: e.From.Len()}
}

func (r *DeviceRanking) grow(ctx context.Context, s *device.Stream, vertices int) error {
	if vertices > r.vertices {
		if err := r.k.Grow(ctx, s, &r.state, vertices); err != nil {
			return err
		}
		r.rankTotals.grow(vertices)
	}
	r.state.Directed, r.state.Damping, r.state.Base, r.state.Limit = r.directed, r.damping, r.base, r.limit
	return nil
}

// applyEdges applies inserted and deleted edges to degrees and sums.
func (r *DeviceRanking) applyEdges(ctx context.Context, s *device.Stream, g DeviceReader, inserted, deleted graph.DeviceEdges) error {
	if g.Directed() != r.directed {
		return invalid("ranking", "the graph changed from directed to undirected, or back")
	}
	n, err := verticesOn(ctx, s, r.k, "ranking", r.vertices, inserted)
	if err != nil {
		return err
	}
	if err := r.checkDeleted(ctx, s, deleted); err != nil {
		return err
	}
	if err := r.grow(ctx, s, n); err != nil || r.vertices == 0 {
		return err
	}
	var t traversal.Tally
	err = r.view(ctx, s, g, func(c traversal.DynamicGraph) error {
		t, err = r.k.ApplyEdges(ctx, s, &r.state, c, edgesOf(inserted), edgesOf(deleted))
		return err
	})
	if err != nil {
		return err
	}
	r.dangling, r.residual, r.arcs, r.load = r.dangling+t.Dangling, r.residual+t.Residual, r.arcs+t.Arcs, r.load+t.Load
	r.changed, r.active = t.Changed, t.Active
	return r.checkTally(ctx, s, g, t)
}

// checkDeleted returns an error if a deleted edge has an end that did not exist.
func (r *DeviceRanking) checkDeleted(ctx context.Context, s *device.Stream, deleted graph.DeviceEdges) error {
	if deleted.From.Len() == 0 {
		return nil
	}
	check, err := r.k.Check(ctx, s, edgesOf(deleted), r.vertices)
	if err != nil || check.Bad < 0 {
		return err
	}
	ends, err := edgeOf(ctx, s, deleted, check.Bad)
	if err != nil {
		return err
	}
	return invalid("ranking", "edge %d from %d to %d was deleted, but there were only %d vertices",
		check.Bad, ends[0], ends[1], r.vertices)
}

// view runs f with g as a kernel parameter.
func (r *DeviceRanking) view(ctx context.Context, s *device.Stream, g DeviceReader, f func(traversal.DynamicGraph) error) error {
	return g.View(ctx, s, func(c graph.Ref) error {
		return f(traversal.DynamicGraph{Records: c.Records, Pool: c.Pool, Alive: c.Alive, Vertices: c.Vertices, Unit: c.Unit})
	})
}

// checkTally returns an error if a kernel has found a row that does not match the edges.
func (r *DeviceRanking) checkTally(ctx context.Context, s *device.Stream, g DeviceReader, t traversal.Tally) error {
	switch {
	case t.Mismatch < 0:
		return nil
	case t.Mismatch >= r.vertices:
		return invalid("ranking", "an edge leads to vertex %d, but by the inserted edges there are %d vertices", t.Mismatch, r.vertices)
	}
	degree := []uint32{0}
	want, err := r.k.DegreeOf(ctx, s, &r.state, t.Mismatch)
	if err := errors.Join(err, g.Degree(ctx, []uint32{uint32(t.Mismatch)}, degree)); err != nil {
		return err
	}
	if degree[0] == want {
		return invalid("ranking", "vertex %d has an edge beyond the %d vertices of the inserted edges", t.Mismatch, r.vertices)
	}
	return degreeError(uint32(t.Mismatch), degree[0], want)
}

// converge pushes ranks until the residual is within the tolerance.
func (r *DeviceRanking) converge(ctx context.Context, s *device.Stream, g DeviceReader) (result PageRankResult, err error) {
	for r.unconverged(r.changed, r.active) && result.Iterations < r.o.Iterations && r.vertices > 0 {
		if err := ctx.Err(); err != nil {
			return result, err
		}
		if r.shouldSweep() {
			return r.sweepCurrent(ctx, s, g, result)
		}
		if r.failed = wrap("ranking", r.pushActive(context.WithoutCancel(ctx), s, g)); r.failed != nil {
			return result, r.failed
		}
		result.Iterations++
	}
	result.Change = r.residualShare()
	return result, nil
}

// pushActive pushes the ranks of the active vertices to their neighbors.
func (r *DeviceRanking) pushActive(ctx context.Context, s *device.Stream, g DeviceReader) (err error) {
	all, load := r.redistribute(), r.load
	r.state.Distributed = r.distributed
	var t traversal.Tally
	err = r.view(ctx, s, g, func(c traversal.DynamicGraph) error {
		t, err = r.k.Push(ctx, s, &r.state, c, r.active, int(load), all)
		return err
	})
	if err != nil {
		return err
	}
	r.dangling, r.residual, r.load = r.dangling+t.Dangling, r.residual+t.Residual, t.Load
	r.changed, r.active = 0, t.Active
	return r.checkTally(ctx, s, g, t)
}

// sweepCurrent exports the current graph and runs sweeps on it.
func (r *DeviceRanking) sweepCurrent(ctx context.Context, s *device.Stream, g DeviceReader, before PageRankResult) (result PageRankResult, err error) {
	d, err := g.CSROn(ctx, s)
	if err != nil {
		return before, err
	}
	defer func() { err = errors.Join(err, d.Free()) }()
	t, err := r.k.CheckDegrees(ctx, s, &r.state, rowsOf(d))
	if err != nil {
		return before, err
	}
	if r.failed = wrap("ranking", r.checkTally(ctx, s, g, t)); r.failed == nil && uint64(d.Arcs()) != r.arcs {
		r.failed = invalid("ranking",
			"the graph has %d arcs, want %d by the inserted and deleted edges", d.Arcs(), r.arcs)
	}
	if r.failed != nil {
		return before, r.failed
	}
	return r.runSweeps(ctx, s, d, before)
}

// runSweeps pushes the ranks of all vertices until the residual is within the tolerance.
func (r *DeviceRanking) runSweeps(ctx context.Context, s *device.Stream, g *graph.DeviceCSR, result PageRankResult) (PageRankResult, error) {
	r.allActive = true // if this call ends early, the next call continues here
	into, free, err := transpose(ctx, s, r.k.Kernels, g, rowsOf(g))
	var t traversal.Tally
	if err == nil {
		t, err = r.k.Sweep(ctx, s, &r.state, into, func(idle, waiting uint64) (bool, error) {
			r.distributed, r.dangling, r.residual = r.state.Distributed, idle, waiting
			result.Iterations++
			result.Change = r.residualShare()
			return result.Change > r.o.Tolerance && result.Iterations < r.o.Iterations, ctx.Err()
		})
	}
	if err := errors.Join(err, free()); err != nil {
		return result, err
	}
	r.allActive = false
	r.changed, r.active, r.load = 0, t.Active, t.Load
	return result, nil
}

// verticesOn does the same as verticesWith for edges in device memory.
func verticesOn(ctx context.Context, s *device.Stream, k *traversal.DynamicKernels, name string, before int, e graph.DeviceEdges) (int, error) {
	n, err := verticesWith(name, before, graph.Edges{Vertices: e.Vertices})
	if err != nil {
		return 0, err
	}
	if e.From.Len() == 0 {
		return n, nil
	}
	limit := max(n, maxVertices)
	check, err := k.Check(ctx, s, edgesOf(e), limit)
	if err == nil && check.Bad >= 0 {
		err = rangeErrorOn(ctx, s, name, e, check.Bad, limit)
	}
	return max(n, check.Vertices), err
}

// rangeErrorOn returns the error of edge i, which has a vertex that is not less than limit.
func rangeErrorOn(ctx context.Context, s *device.Stream, name string, e graph.DeviceEdges, i, limit int) error {
	ends, err := edgeOf(ctx, s, e, i)
	if err != nil {
		return err
	}
	return rangeError(name, i, ends[0], ends[1], limit)
}

func edgeOf(ctx context.Context, s *device.Stream, e graph.DeviceEdges, i int) (ends [2]uint32, err error) {
	err = e.From.Sub(i, i+1).CopyTo(ctx, s, ends[:1])
	if err == nil {
		err = e.To.Sub(i, i+1).CopyTo(ctx, s, ends[1:])
	}
	return ends, err
}
