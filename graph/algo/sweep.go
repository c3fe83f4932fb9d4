package algo

import (
	"context"
	"math/bits"
	"sync/atomic"

	"github.com/weftgo/weft/graph"
)

// agrees checks that a graph has the degrees that follow from the edges. A graph may lack trailing
// vertices without edges.
func (r *Ranking) agrees(g *graph.CSR) error {
	for v := range r.degrees {
		degree := 0
		if v < g.Vertices() {
			degree = g.Degree(uint32(v))
		}
		if uint32(degree) != r.degrees[v] {
			return moved(uint32(v), uint32(degree), r.degrees[v])
		}
	}
	if uint64(g.Arcs()) != r.arcs {
		return invalid("ranking", "the graph has %d arcs, and by the edges that came and went %d", g.Arcs(), r.arcs)
	}
	return nil
}

// sweeps lets all vertices hand on until the remainder is within the tolerance.
func (r *Ranking) sweeps(ctx context.Context, g *graph.CSR, result PageRankResult) (PageRankResult, error) {
	r.all = true // if this call ends early, the next one continues here
	into, err := g.Transpose(ctx, r.host)
	if err != nil || len(r.ranks) == 0 {
		return result, err
	}
	r.share()
	for next := make([]uint64, len(r.ranks)); result.Iterations < r.o.Iterations; r.handed, next = next, r.handed {
		if err := ctx.Err(); err != nil {
			return result, err
		}
		r.spread = r.idle
		r.sweep(into, next)
		result.Iterations++
		if result.Change = r.off(); result.Change <= r.o.Tolerance || result.Iterations == r.o.Iterations {
			break
		}
	}
	r.all = false
	r.changed.used.Store(0)
	r.active.used.Store(0)
	r.load = 0
	for v := range r.marks {
		r.marks[v] = 0
		if r.waits(uint32(v)) > r.limit {
			r.marks[v] = markActive
			r.active.add([]uint32{uint32(v)})
			r.load += uint64(r.degrees[v])
		}
	}
	return result, nil
}

// share computes what vertices hand on from their ranks, and adds up the ranks of vertices without
// neighbors.
func (r *Ranking) share() {
	r.idle = 0
	for v, rank := range r.ranks {
		if d := uint64(r.degrees[v]); d > 0 {
			r.handed[v] = rank / d
		} else {
			r.handed[v] = 0
			r.idle += rank
		}
	}
}

// sweep lets all vertices hand on once, as an iteration of [PageRank] does: each adds up the shares
// of its predecessors. next receives the amounts that vertices will hand on next.
func (r *Ranking) sweep(into *graph.CSR, next []uint64) {
	var idle, waiting atomic.Uint64
	everywhere := r.spread / uint64(len(r.ranks))
	r.host.Parallel(len(r.ranks), rows, func(lo, hi int) {
		own, waits := uint64(0), uint64(0)
		for v := lo; v < hi; v++ {
			sum := uint64(0)
			if v < into.Vertices() {
				for _, u := range into.Neighbors(uint32(v)) {
					sum += r.handed[u]
				}
			}
			followed, _ := bits.Mul64(sum+everywhere, r.damping)
			r.sums[v], r.ranks[v] = sum, r.base+followed
			if d := uint64(r.degrees[v]); d > 0 {
				next[v] = r.ranks[v] / d
				waits += apart(next[v], r.handed[v]) * d
			} else {
				next[v] = 0
				own += r.ranks[v]
			}
		}
		idle.Add(own)
		waiting.Add(waits)
	})
	r.idle = idle.Load()
	r.waiting = waiting.Load()
}
