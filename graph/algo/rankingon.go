package algo

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/internal/gpu/traversal"
)

// DeviceReader is a graph that changes, or a snapshot of one, that kernels and the host read in
// place: a [graph.Graph] or a [graph.Snapshot].
type DeviceReader interface {
	Reader
	View(ctx context.Context, s *device.Stream, submit func(graph.Ref) error) error
	CSROn(ctx context.Context, s *device.Stream) (*graph.DeviceCSR, error)
}

var _, _ DeviceReader = (*graph.Graph)(nil), (*graph.Snapshot)(nil)

// DeviceRanking is a [Ranking] in device memory. It follows batches on the device, as passed to
// [graph.Graph.InsertOn], and its ranks are the same to the bit. The host decides how to continue,
// so it waits for a few words each time that ranks are handed on.
//
// On a GPU it takes 60 bytes a vertex, on a CPU as much as a Ranking, until Free. It is not safe
// for concurrent use.
type DeviceRanking struct {
	dev  device.Device
	host *Ranking             // on a CPU
	out  device.Slice[uint64] // memory of its ranks

	balance
	k               *traversal.Following
	kept            traversal.Kept
	changed, active int // numbers of vertices with a changed sum, and of those that must hand on
}

// NewRankingOn is [NewRanking] of a graph on a device. It waits for the ranks.
func NewRankingOn(ctx context.Context, s *device.Stream, g *graph.DeviceCSR, opts *PageRankOptions) (*DeviceRanking, error) {
	if err := readable("ranking", s, g); err != nil {
		return nil, err
	}
	r := &DeviceRanking{dev: g.Device()}
	err := r.begin(ctx, s, g, opts)
	if err != nil {
		return nil, named("ranking", errors.Join(err, r.Free()))
	}
	return r, nil
}

func (r *DeviceRanking) begin(ctx context.Context, s *device.Stream, g *graph.DeviceCSR, opts *PageRankOptions) (err error) {
	if c := g.Host(); c != nil {
		if r.host, err = NewRanking(ctx, r.dev, c, opts); err != nil {
			return err
		}
		return r.give()
	}
	if r.balance, err = newBalance(opts, g.Directed()); err != nil {
		return err
	}
	if r.k, err = traversal.LoadFollowing(r.dev); err != nil {
		return err
	}
	if err := r.grow(ctx, s, g.Vertices()); err != nil || g.Vertices() == 0 {
		return errors.Join(err, ctx.Err())
	}
	r.arcs = uint64(g.Arcs())
	if err := r.k.Begin(ctx, s, &r.kept, rowsOf(g)); err != nil {
		return err
	}
	_, err = r.sweeps(ctx, s, g, PageRankResult{})
	return err
}

// give moves the ranks of the host to memory of its device when their number has changed.
func (r *DeviceRanking) give() error {
	n := r.host.Vertices()
	if r.out.Len() == n {
		return nil
	}
	out, err := device.Make[uint64](r.dev, n)
	if err != nil {
		return err
	}
	ranks := out.Host()
	copy(ranks, r.host.ranks)
	r.host.ranks = ranks[:n:n]
	old := r.out
	r.out = out
	return old.Free()
}

// Ranks returns the shares of [RankOne] of all vertices. The slice belongs to the ranking and must
// not be modified. It is valid until the next Update or Free.
func (r *DeviceRanking) Ranks() device.Slice[uint64] {
	if r.host != nil {
		return r.out.Sub(0, r.out.Len())
	}
	return r.kept.Ranks.Sub(0, r.kept.Ranks.Len())
}

// Vertices returns the number of vertices.
func (r *DeviceRanking) Vertices() int { return r.Ranks().Len() }

// Free frees the memory; every later call returns device.ErrClosed. Free is idempotent.
func (r *DeviceRanking) Free() error {
	r.failed = &failure{"ranking", fmt.Errorf("%w: it has been freed", device.ErrClosed)}
	return errors.Join(r.out.Free(), r.kept.Free(r.dev))
}

// Update is [Ranking.Update] of the edges on the device that count (Done). It waits for the ranks.
func (r *DeviceRanking) Update(ctx context.Context, s *device.Stream, g DeviceReader, inserted, deleted graph.DeviceEdges) (result PageRankResult, err error) {
	for _, e := range []*graph.DeviceEdges{&inserted, &deleted} {
		if err := e.Check(r.dev); err != nil {
			return result, named("ranking", err)
		}
	}
	switch {
	case r.failed != nil:
		return result, r.failed
	case s == nil || s.Device() != r.dev:
		return result, invalid("ranking", "the stream is not of the ranking's device")
	case r.host != nil:
		if err := s.Sync(context.WithoutCancel(ctx)); err != nil {
			return result, named("ranking", err)
		}
		result, err = r.host.Update(ctx, g, inserted.Host(), deleted.Host())
		return result, named("ranking", errors.Join(err, r.give()))
	}
	if r.failed = named("ranking", r.take(context.WithoutCancel(ctx), s, g, inserted, deleted)); r.failed != nil {
		return result, r.failed
	}
	result, err = r.settle(ctx, s, g)
	return result, named("ranking", err)
}

func edgesOf(e graph.DeviceEdges) traversal.Edges {
	return traversal.Edges{From: e.From.Ptr(), To: e.To.Ptr(), Done: e.Done.Ptr(), N: e.From.Len()}
}

// grow adds vertices up to the given number.
func (r *DeviceRanking) grow(ctx context.Context, s *device.Stream, vertices int) error {
	if vertices > r.vertices {
		if err := r.k.Grow(ctx, s, &r.kept, vertices); err != nil {
			return err
		}
		r.balance.grow(vertices)
	}
	r.kept.Directed, r.kept.Damping, r.kept.Base, r.kept.Limit = r.directed, r.damping, r.base, r.limit
	return nil
}

// take applies inserted and deleted edges, as that of [Ranking].
func (r *DeviceRanking) take(ctx context.Context, s *device.Stream, g DeviceReader, inserted, deleted graph.DeviceEdges) error {
	if g.Directed() != r.directed {
		return invalid("ranking", "edges have got a direction, or lost it")
	}
	most, err := verticesOn(ctx, s, r.k, "ranking", r.vertices, inserted)
	if err != nil {
		return err
	}
	if err := r.there(ctx, s, deleted); err != nil {
		return err
	}
	if err := r.grow(ctx, s, most); err != nil || r.vertices == 0 {
		return err
	}
	var t traversal.Tally
	err = r.view(ctx, s, g, func(c traversal.Changing) error {
		t, err = r.k.Take(ctx, s, &r.kept, c, edgesOf(inserted), edgesOf(deleted))
		return err
	})
	if err != nil {
		return err
	}
	r.idle, r.waiting, r.arcs, r.load = r.idle+t.Idle, r.waiting+t.Waiting, r.arcs+t.Arcs, r.load+t.Load
	r.changed, r.active = t.Changed, t.Active
	return r.agree(ctx, s, g, t)
}

// there refuses deleted edges of vertices that did not exist.
func (r *DeviceRanking) there(ctx context.Context, s *device.Stream, deleted graph.DeviceEdges) error {
	if deleted.From.Len() == 0 {
		return nil
	}
	told, err := r.k.Check(ctx, s, edgesOf(deleted), r.vertices)
	if err != nil || told.Bad < 0 {
		return err
	}
	ends, err := edgeOf(ctx, s, deleted, told.Bad)
	if err != nil {
		return err
	}
	return invalid("ranking", "edge %d from %d to %d was deleted, and there were %d vertices", told.Bad, ends[0], ends[1], r.vertices)
}

// view runs f with the graph as kernels read it.
func (r *DeviceRanking) view(ctx context.Context, s *device.Stream, g DeviceReader, f func(traversal.Changing) error) error {
	return g.View(ctx, s, func(c graph.Ref) error {
		return f(traversal.Changing{Records: c.Records, Pool: c.Pool, Alive: c.Alive, Vertices: c.Vertices, Unit: c.Unit})
	})
}

// agree returns an error if a pass has found a vertex with a row that does not match the edges.
func (r *DeviceRanking) agree(ctx context.Context, s *device.Stream, g DeviceReader, t traversal.Tally) error {
	switch {
	case t.Wrong < 0:
		return nil
	case t.Wrong >= r.vertices:
		return invalid("ranking", "an edge leads to vertex %d, and by the edges that came there are %d vertices", t.Wrong, r.vertices)
	}
	degree := []uint32{0}
	want, err := r.k.DegreeOf(ctx, s, &r.kept, t.Wrong)
	if err := errors.Join(err, g.Degree(ctx, []uint32{uint32(t.Wrong)}, degree)); err != nil {
		return err
	}
	if degree[0] == want {
		return invalid("ranking", "vertex %d has an edge to another vertex than the %d that there are by the edges that came", t.Wrong, r.vertices)
	}
	return moved(uint32(t.Wrong), degree[0], want)
}

// settle hands ranks on until the remainder is within the tolerance.
func (r *DeviceRanking) settle(ctx context.Context, s *device.Stream, g DeviceReader) (result PageRankResult, err error) {
	for r.unsettled(r.changed, r.active) && result.Iterations < r.o.Iterations && r.vertices > 0 {
		if err := ctx.Err(); err != nil {
			return result, err
		}
		if r.crowded() {
			return r.resweep(ctx, s, g, result)
		}
		if r.failed = named("ranking", r.handOn(context.WithoutCancel(ctx), s, g)); r.failed != nil {
			return result, r.failed
		}
		result.Iterations++
	}
	result.Change = r.off()
	return result, nil
}

// handOn lets the active vertices hand on.
func (r *DeviceRanking) handOn(ctx context.Context, s *device.Stream, g DeviceReader) (err error) {
	all, load := r.adrift(), r.load
	r.kept.Spread = r.spread
	var t traversal.Tally
	err = r.view(ctx, s, g, func(c traversal.Changing) error {
		t, err = r.k.HandOn(ctx, s, &r.kept, c, r.active, int(load), all)
		return err
	})
	if err != nil {
		return err
	}
	r.idle, r.waiting, r.load = r.idle+t.Idle, r.waiting+t.Waiting, t.Load
	r.changed, r.active = 0, t.Active
	return r.agree(ctx, s, g, t)
}

// resweep lets all vertices hand on along the edges of the present graph.
func (r *DeviceRanking) resweep(ctx context.Context, s *device.Stream, g DeviceReader, before PageRankResult) (result PageRankResult, err error) {
	d, err := g.CSROn(ctx, s)
	if err != nil {
		return before, err
	}
	defer func() { err = errors.Join(err, d.Free()) }()
	t, err := r.k.Agrees(ctx, s, &r.kept, rowsOf(d))
	if err != nil {
		return before, err
	}
	if r.failed = named("ranking", r.agree(ctx, s, g, t)); r.failed == nil && uint64(d.Arcs()) != r.arcs {
		r.failed = invalid("ranking", "the graph has %d arcs, and by the edges that came and went %d", d.Arcs(), r.arcs)
	}
	if r.failed != nil {
		return before, r.failed
	}
	return r.sweeps(ctx, s, d, before)
}

// sweeps lets all vertices hand on until the remainder is within the tolerance.
func (r *DeviceRanking) sweeps(ctx context.Context, s *device.Stream, g *graph.DeviceCSR, result PageRankResult) (PageRankResult, error) {
	r.all = true // if this call ends early, the next one continues here
	into, free, err := turned(ctx, s, r.k.Kernels, g, rowsOf(g))
	var t traversal.Tally
	if err == nil {
		t, err = r.k.Sweeps(ctx, s, &r.kept, into, func(idle, waiting uint64) (bool, error) {
			r.spread, r.idle, r.waiting = r.kept.Spread, idle, waiting
			result.Iterations++
			result.Change = r.off()
			return result.Change > r.o.Tolerance && result.Iterations < r.o.Iterations, ctx.Err()
		})
	}
	if err := errors.Join(err, free()); err != nil {
		return result, err
	}
	r.all = false
	r.changed, r.active, r.load = 0, t.Active, t.Load
	return result, nil
}

// verticesOn is verticesWith for edges on a device.
func verticesOn(ctx context.Context, s *device.Stream, k *traversal.Following, name string, before int, e graph.DeviceEdges) (int, error) {
	n, err := verticesWith(name, before, graph.Edges{Vertices: e.Vertices})
	if err != nil {
		return 0, err
	}
	if e.From.Len() == 0 {
		return n, nil
	}
	limit := max(n, mostVertices)
	told, err := k.Check(ctx, s, edgesOf(e), limit)
	if err == nil && told.Bad >= 0 {
		err = beyondOn(ctx, s, name, e, told.Bad, limit)
	}
	return max(n, told.Vertices), err
}

// beyondOn returns the error of an edge on a device with a vertex beyond the limit.
func beyondOn(ctx context.Context, s *device.Stream, name string, e graph.DeviceEdges, i, limit int) error {
	ends, err := edgeOf(ctx, s, e, i)
	if err != nil {
		return err
	}
	return beyond(name, i, ends[0], ends[1], limit)
}

// edgeOf reads an edge.
func edgeOf(ctx context.Context, s *device.Stream, e graph.DeviceEdges, i int) (ends [2]uint32, err error) {
	err = e.From.Sub(i, i+1).CopyTo(ctx, s, ends[:1])
	if err == nil {
		err = e.To.Sub(i, i+1).CopyTo(ctx, s, ends[1:])
	}
	return ends, err
}
