package algo

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
)

// Ranking maintains the PageRank of a graph that changes. After a batch it continues from the
// previous ranks. Each vertex pushes its rank to its neighbors, and does so again when its rank
// has changed. If a batch changes few ranks, only they are processed. If it changes many, all are,
// by iterations of [PageRank].
//
// A small change takes fewer iterations than a new start. But a batch that joins distant parts does
// not, since their ranks even out slowly. Measured, batches of a few edges are worth it; from a
// thousandth of the edges on, a new start is as good.
//
// Ranking ends when all vertices together have at most Tolerance left to push. So ranks are as
// close to the exact ones as those of PageRank, by the same bound, Tolerance·Damping/(1-Damping)
// over all vertices. (Frontiers that grow and are pruned are those of Sahu: "DF* PageRank", 2024.
// What was pushed adds up exactly, in integers, so errors do not accumulate over batches.)
//
// It works on the host, wherever the graph is; [DeviceRanking] is the same on a device. It takes 32
// bytes a vertex, and is not safe for concurrent use. The outcome is the same to the bit on any
// number of cores.
type Ranking struct {
	rankTotals
	host device.Host

	degrees []uint32
	ranks   []uint64
	pushed  []uint64 // amount that each vertex has pushed to each of its neighbors
	sums    []uint64 // sum pushed to each vertex

	marks   []uint32
	changed *vertexList // vertices with a changed sum
	active  *vertexList // vertices that must push
}

// NewRanking computes the ranks of a graph. Tolerance must be positive, and Warm false.
func NewRanking(ctx context.Context, dev device.Device, g *graph.CSR, opts *PageRankOptions) (*Ranking, error) {
	h, err := host(dev, "ranking")
	if err != nil {
		return nil, err
	}
	b, err := newRankTotals(opts, g.Directed())
	if err != nil {
		return nil, err
	}
	r := &Ranking{rankTotals: b, host: h, changed: newVertexList(0), active: newVertexList(0)}
	r.grow(g.Vertices())
	for v := range r.ranks {
		r.degrees[v], r.ranks[v] = uint32(g.Degree(uint32(v))), RankOne/uint64(len(r.ranks))
	}
	r.arcs = uint64(g.Arcs())
	_, err = r.runSweeps(ctx, g, PageRankResult{})
	return r, err
}

// Ranks returns the shares of [RankOne] of all vertices. The slice belongs to the Ranking and is
// valid until the next Update.
func (r *Ranking) Ranks() []uint64 { return r.ranks }

// Vertices returns the number of vertices.
func (r *Ranking) Vertices() int { return len(r.ranks) }

// grow adds vertices up to n, without neighbors. All ranks change then.
func (r *Ranking) grow(n int) {
	added := n - len(r.ranks)
	if added <= 0 {
		return
	}
	r.degrees, r.marks = append(r.degrees, make([]uint32, added)...), append(r.marks, make([]uint32, added)...)
	r.ranks, r.pushed, r.sums = append(r.ranks, make([]uint64, added)...), append(r.pushed, make([]uint64, added)...), append(r.sums, make([]uint64, added)...)
	active := newVertexList(n)
	active.add(r.active.vertices())
	r.changed, r.active = newVertexList(n), active
	r.rankTotals.grow(n)
}

// Update computes the ranks of g after a batch. inserted and deleted are the edges that the batch
// inserted and deleted, each once, as [graph.Edges.Filter] returns them. Parallel edges that one
// deletion removes are listed as many times. g must not have changed since; a snapshot does not.
// Vertices beyond the previous ones, up to the largest with an edge or inserted.Vertices, are new
// and change all ranks. So it is better to begin with the final number of vertices. A vertex from
// 2^28 on returns device.ErrInvalid, unless inserted.Vertices allows it.
//
// Edges that do not lead from the previous graph to g return device.ErrInvalid, as far as degrees
// reveal it. After that, or an error of g, the ranks are invalid, and every call returns the error.
// If ctx ends, the next call continues. Update panics if lists differ in length.
func (r *Ranking) Update(ctx context.Context, g Reader, inserted, deleted graph.Edges) (result PageRankResult, err error) {
	mustMatchEnds("ranking", inserted)
	mustMatchEnds("ranking", deleted)
	if r.failed == nil {
		r.failed = r.applyEdges(context.WithoutCancel(ctx), g, inserted, deleted)
	}
	if r.failed != nil {
		return result, r.failed
	}
	return r.converge(ctx, g)
}

// applyEdges applies inserted and deleted edges. Their ends push first, so that no vertex has
// pushed more than its rank when others are added up.
func (r *Ranking) applyEdges(ctx context.Context, g Reader, inserted, deleted graph.Edges) error {
	if g.Directed() != r.directed {
		return invalid("ranking", "edges have got a direction, or lost it")
	}
	n, err := verticesWith("ranking", len(r.ranks), inserted)
	if err != nil {
		return err
	}
	for i, u := range deleted.From {
		if v := deleted.To[i]; int(max(u, v)) >= len(r.ranks) {
			return invalid("ranking", "edge %d from %d to %d was deleted, and there were %d vertices", i, u, v, len(r.ranks))
		}
	}
	r.grow(n)
	endpoints, err := distinct(ctx, r.host, slices.Concat(inserted.From, inserted.To, deleted.From, deleted.To))
	if err != nil {
		return err
	}
	for _, v := range endpoints {
		r.residual -= r.residualOf(v)
		r.arcs -= uint64(r.degrees[v])
		if r.degrees[v] == 0 {
			r.dangling -= r.ranks[v]
		}
	}
	r.eachArc(inserted, func(u, v uint32) {
		atomic.AddUint32(&r.degrees[u], 1)
		atomic.AddUint64(&r.sums[v], r.pushed[u])
	})
	r.eachArc(deleted, func(u, v uint32) {
		atomic.AddUint32(&r.degrees[u], ^uint32(0))
		atomic.AddUint64(&r.sums[v], -r.pushed[u])
	})
	degrees := make([]uint32, len(endpoints))
	if err := g.Degree(ctx, endpoints, degrees); err != nil {
		return err
	}
	for i, v := range endpoints {
		if degrees[i] != r.degrees[v] {
			return degreeError(v, degrees[i], r.degrees[v])
		}
		if degrees[i] == 0 {
			r.dangling += r.ranks[v]
			r.pushed[v] = 0
		}
		r.residual += r.residualOf(v)
		r.arcs += uint64(degrees[i])
		if r.mark(v, markActive) {
			r.active.add(endpoints[i : i+1])
			r.load += uint64(degrees[i])
		}
		if r.mark(v, markChanged) {
			r.changed.add(endpoints[i : i+1])
		}
	}
	return nil
}

// eachArc calls f for the arcs of edges.
func (r *Ranking) eachArc(e graph.Edges, f func(u, v uint32)) {
	r.host.Parallel(len(e.From), rows, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			u, v := e.From[i], e.To[i]
			if f(u, v); !r.directed && u != v {
				f(v, u)
			}
		}
	})
}
