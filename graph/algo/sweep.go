package algo

import (
	"context"
	"math/bits"
	"sync/atomic"

	"github.com/weftgo/weft/graph"
)

// checkDegrees checks that a graph has the degrees that follow from the edges. A graph may lack
// trailing vertices without edges.
func (r *Ranking) checkDegrees(g *graph.CSR) error {
	for v := range r.degrees {
		degree := 0
		if v < g.Vertices() {
			degree = g.Degree(uint32(v))
		}
		if uint32(degree) != r.degrees[v] {
			return degreeError(uint32(v), uint32(degree), r.degrees[v])
		}
	}
	if uint64(g.Arcs()) != r.arcs {
		return invalid("ranking",
			"the graph has %d arcs, want %d by the inserted and deleted edges", g.Arcs(), r.arcs)
	}
	return nil
}

// runSweeps pushes the ranks of all vertices until the residual is within the tolerance.
func (r *Ranking) runSweeps(ctx context.Context, g *graph.CSR, result PageRankResult) (PageRankResult, error) {
	r.allActive = true // if this call ends early, the next call continues here
	into, err := g.Transpose(ctx, r.host)
	if err != nil || len(r.ranks) == 0 {
		return result, err
	}
	r.initShares()
	for next := make([]uint64, len(r.ranks)); result.Iterations < r.o.Iterations; r.pushed, next = next, r.pushed {
		if err := ctx.Err(); err != nil {
			return result, err
		}
		r.distributed = r.dangling
		r.sweep(into, next)
		result.Iterations++
		if result.Change = r.residualShare(); result.Change <= r.o.Tolerance || result.Iterations == r.o.Iterations {
			break
		}
	}
	r.allActive = false
	r.changed.used.Store(0)
	r.active.used.Store(0)
	r.load = 0
	for v := range r.marks {
		r.marks[v] = 0
		if r.residualOf(uint32(v)) > r.limit {
			r.marks[v] = markActive
			r.active.add([]uint32{uint32(v)})
			r.load += uint64(r.degrees[v])
		}
	}
	return result, nil
}

// initShares computes from the ranks what each vertex has pushed, and the sum of the ranks of
// vertices without neighbors.
func (r *Ranking) initShares() {
	r.dangling = 0
	for v, rank := range r.ranks {
		if d := uint64(r.degrees[v]); d > 0 {
			r.pushed[v] = rank / d
		} else {
			r.pushed[v] = 0
			r.dangling += rank
		}
	}
}

// sweep pushes the ranks of all vertices once, as an iteration of [PageRank] does: each vertex adds
// up the shares that its predecessors push. next receives the shares for the next sweep.
func (r *Ranking) sweep(into *graph.CSR, next []uint64) {
	var dangling, residual atomic.Uint64
	share := r.distributed / uint64(len(r.ranks))
	r.host.Parallel(len(r.ranks), rows, func(lo, hi int) {
		danglingPart, residualPart := uint64(0), uint64(0)
		for v := lo; v < hi; v++ {
			sum := uint64(0)
			if v < into.Vertices() {
				for _, u := range into.Neighbors(uint32(v)) {
					sum += r.pushed[u]
				}
			}
			followed, _ := bits.Mul64(sum+share, r.damping)
			r.sums[v], r.ranks[v] = sum, r.base+followed
			if d := uint64(r.degrees[v]); d > 0 {
				next[v] = r.ranks[v] / d
				residualPart += absDiff(next[v], r.pushed[v]) * d
			} else {
				next[v] = 0
				danglingPart += r.ranks[v]
			}
		}
		dangling.Add(danglingPart)
		residual.Add(residualPart)
	})
	r.dangling = dangling.Load()
	r.residual = residual.Load()
}
