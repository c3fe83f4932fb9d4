package shard

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"sync/atomic"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/graph/algo"
	"github.com/weftgo/weft/mpi/comm"
)

// PageRank computes [algo.PageRank] of a graph on all ranks of r. The result is bit-identical for
// any number of them. ranks has an element per vertex, and each rank receives the values of all
// vertices. If its length differs between ranks or is too small, the error is device.ErrInvalid. An
// iteration adds up 8 bytes per vertex over all ranks. It uses 24 bytes of memory per vertex,
// besides ranks, and twice the arcs of this rank.
func PageRank(
	ctx context.Context, g *Graph, ranks []uint64, opts *algo.PageRankOptions,
) (algo.PageRankResult, error) {
	x := g.open(methodPageRank)
	defer x.close()
	clear(x.sent)
	w, before := newWalk(ctx, g, ranks, opts)
	g.r.head[headArg] = hashOf(w.opts, len(ranks))
	if x.agree(ctx, before, false); x.err != nil {
		_, err := x.endEmpty()
		return w.PageRankResult, err
	}
	if x.err = g.r.sameArg(x.sign); x.err != nil {
		_, err := x.endEmpty()
		return w.PageRankResult, err
	}
	x.failure = w.run()
	_, err := x.endEmpty()
	return w.PageRankResult, err
}

// walk is a PageRank computation on one rank. Package algo has a version for one process.
type walk struct {
	algo.PageRankResult
	g     *Graph
	opts  algo.PageRankOptions
	rows  *graph.CSR // arcs of this rank
	into  *graph.CSR // the same arcs, from targets to sources
	own   []bool     // whether each vertex belongs to this rank
	ranks []uint64
	// shares has the value that each vertex of this rank passes to each neighbor.
	shares []uint64
	// sums has the value that each vertex receives. Its last element is the value that vertices
	// without neighbors pass to all vertices.
	sums    []uint64
	damping uint64 // as a fraction of 2^64
	base    uint64 // value of a vertex that receives nothing
}

func newWalk(
	ctx context.Context, g *Graph, ranks []uint64, opts *algo.PageRankOptions,
) (*walk, error) {
	w := &walk{g: g, ranks: ranks}
	if opts != nil {
		w.opts = *opts
	}
	w.opts.Damping = orDefault(w.opts.Damping, 0.85)
	w.opts.Iterations = orDefault(w.opts.Iterations, 100)
	w.opts.Tolerance = orDefault(w.opts.Tolerance, 1e-6)
	none, err := graph.NewCSR([]uint64{0}, nil, true)
	if err == nil { // checks the options
		_, err = algo.PageRank(ctx, g.r.dev, none, nil, &w.opts)
	}
	if err == nil {
		w.rows, err = g.local.CSR(ctx)
	}
	if err != nil {
		return w, err
	}
	n := len(ranks)
	if w.rows.Vertices() > n {
		return w, fmt.Errorf("%w: PageRank: %d elements for ranks, but there is a vertex %d",
			device.ErrInvalid, n, w.rows.Vertices()-1)
	}
	if w.into, err = w.rows.Transpose(ctx, g.r.dev); err != nil || n == 0 {
		return w, err
	}
	w.own, w.shares, w.sums = make([]bool, n), make([]uint64, n), make([]uint64, n+1)
	for v := range w.own {
		w.own[v] = g.owners.rank(position(&g.owners, uint32(v)), g.r.size) == g.r.rank
	}
	w.damping = uint64(math.Ldexp(w.opts.Damping, 64))
	start, _ := bits.Mul64(algo.RankOne, w.damping)
	w.base = (algo.RankOne - start) / uint64(n)
	return w, nil
}

func orDefault[T comparable](v, other T) T {
	if v == *new(T) {
		return other
	}
	return v
}

// run iterates until the change is at most the tolerance, or up to the maximum number of
// iterations.
func (w *walk) run() error {
	if len(w.ranks) == 0 {
		return nil
	}
	if !w.opts.Warm {
		fill(w.ranks, algo.RankOne/uint64(len(w.ranks)))
	}
	for w.Iterations < w.opts.Iterations {
		w.send()
		if err := w.g.r.comm.AllReduce(context.Background(), comm.Sum, w.sums); err != nil {
			return w.g.r.commError(err)
		}
		w.Iterations++
		if w.Change = float64(w.receive()) / algo.RankOne; w.Change <= w.opts.Tolerance {
			break
		}
	}
	return nil
}

const walkGrain = 1 << 12

// send adds up the values that the vertices of this rank pass to their neighbors.
func (w *walk) send() {
	var dangling atomic.Uint64
	n, held := len(w.ranks), w.rows.Vertices()
	w.g.r.dev.Parallel(n, walkGrain, func(lo, hi int) {
		sum := uint64(0)
		for v := lo; v < hi; v++ {
			switch {
			case !w.own[v]:
			case v < held && w.rows.Degree(uint32(v)) > 0:
				w.shares[v] = w.ranks[v] / uint64(w.rows.Degree(uint32(v)))
			default:
				sum += w.ranks[v]
			}
		}
		dangling.Add(sum)
	})
	w.g.r.dev.Parallel(n, walkGrain, func(lo, hi int) {
		for v := lo; v < hi; v++ {
			sum := uint64(0)
			if v < held {
				for _, u := range w.into.Neighbors(uint32(v)) {
					sum += w.shares[u]
				}
			}
			w.sums[v] = sum
		}
	})
	w.sums[n] = dangling.Load()
}

// receive computes the values of all vertices and returns their total change.
func (w *walk) receive() uint64 {
	var change atomic.Uint64
	n := len(w.ranks)
	everywhere := w.sums[n] / uint64(n)
	w.g.r.dev.Parallel(n, walkGrain, func(lo, hi int) {
		own := uint64(0)
		for v := lo; v < hi; v++ {
			followed, _ := bits.Mul64(w.sums[v]+everywhere, w.damping)
			rank := w.base + followed
			own += max(rank, w.ranks[v]) - min(rank, w.ranks[v])
			w.ranks[v] = rank
		}
		change.Add(own)
	})
	return change.Load()
}
