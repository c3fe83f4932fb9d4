package algo

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
)

// Ranking maintains the PageRank of a mutable graph. After a batch it continues from the previous
// ranks. Each vertex pushes its rank to its neighbors, and pushes again when its rank has changed.
// If few ranks change, only their vertices are processed. If many change, all are, as in
// [PageRank].
//
// A small change takes fewer iterations than a new start. A batch that joins distant parts is an
// exception, since ranks then even out slowly. In measurements, Update was faster for batches of a
// few edges. From a thousandth of the edges on, a new start was as good.
//
// Update ends when all vertices together have at most Tolerance left to push. So ranks are as close
// to the exact ranks as those of PageRank, by the same bound: Tolerance·Damping/(1-Damping) over
// all vertices. (Sahu: "DF* PageRank", 2024, describes frontiers that grow and are pruned. Here
// pushed amounts are integers and add up exactly, so errors do not accumulate over batches.)
//
// A Ranking works on the host, even if the graph is on a GPU; [DeviceRanking] works on a device. It
// takes 32 bytes a vertex. It is not safe for concurrent use. The result is the same to the bit on
// any number of cores.
type Ranking struct {
	rankTotals
	host device.Host

	degrees []uint32
	ranks   []uint64
	pushed  []uint64 // amount that each vertex has pushed to each of its neighbors
	sums    []uint64 // sum that all vertices have pushed to each vertex

	marks   []uint32
	changed *vertexList // vertices with a changed sum
	active  *vertexList // vertices that must push
}

// NewRanking computes the ranks of a graph. opts must have neither a negative Tolerance nor Warm.
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

// Ranks returns the ranks of all vertices as shares of [RankOne]. The slice belongs to the Ranking
// and is valid until the next Update.
func (r *Ranking) Ranks() []uint64 { return r.ranks }

// Vertices returns the number of vertices.
func (r *Ranking) Vertices() int { return len(r.ranks) }

// grow adds vertices without neighbors until there are n. Then all ranks change.
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

// Update computes the ranks of g after a batch. inserted and deleted list each edge that the batch
// inserted or deleted once, as [graph.Edges.Filter] returns them. If one deletion removes several
// parallel edges, list the edge as many times. g must not have changed since; a snapshot never
// does.
//
// Update adds all vertices up to the largest end and up to inserted.Vertices. New vertices change
// all ranks, so it is better to begin with the final number of vertices. If a vertex is neither
// less than 2^28 nor less than inserted.Vertices, Update returns device.ErrInvalid.
//
// If the edges do not lead to g, Update returns device.ErrInvalid, as far as degrees reveal it.
// After that, or after an error of g, the ranks are invalid, and every call returns the error. If
// ctx ends, the next call continues. Update panics if From and To of a list differ in length.
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

// applyEdges applies inserted and deleted edges to degrees and sums. It marks the ends of the edges
// to push first, so that no vertex has pushed more than its rank when residuals are added up.
func (r *Ranking) applyEdges(ctx context.Context, g Reader, inserted, deleted graph.Edges) error {
	if g.Directed() != r.directed {
		return invalid("ranking", "the graph changed from directed to undirected, or back")
	}
	n, err := verticesWith("ranking", len(r.ranks), inserted)
	if err != nil {
		return err
	}
	for i, u := range deleted.From {
		if v := deleted.To[i]; int(max(u, v)) >= len(r.ranks) {
			return invalid("ranking", "edge %d from %d to %d was deleted, but there were only %d vertices", i, u, v, len(r.ranks))
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

// eachArc calls f for each arc of the edges.
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
