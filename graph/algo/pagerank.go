package algo

import (
	"context"
	"math"
	"math/bits"
	"sync/atomic"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
)

// RankOne is the sum of the ranks of all vertices: a rank r is the share r/RankOne. The sum of two
// ranks fits into 64 bits.
const RankOne = 1 << 62

// PageRankOptions configures [PageRank]. The zero value and nil select the defaults.
type PageRankOptions struct {
	// Damping is the probability of following an edge. The default is 0.85.
	Damping float64
	// Iterations is the maximum number of iterations. The default is 100.
	Iterations int
	// Tolerance ends the iteration when the changes of all ranks add up to at most this share. The
	// default is 10^-6. A negative value never ends it.
	Tolerance float64
	// Warm begins with the ranks of an earlier call instead of equal ranks. The graph may have
	// changed since. If the ranks are close to the new ones, fewer iterations are needed. New
	// vertices must have rank 0.
	Warm bool
}

func (o *PageRankOptions) check() (c PageRankOptions, err error) {
	if o != nil {
		c = *o
	}
	if c.Damping == 0 {
		c.Damping = 0.85
	}
	if c.Iterations == 0 {
		c.Iterations = 100
	}
	if c.Tolerance == 0 {
		c.Tolerance = 1e-6
	}
	switch {
	case !(c.Damping > 0 && c.Damping < 1):
		return c, invalid("PageRank", "Damping %v, want between 0 and 1", c.Damping)
	case c.Iterations < 0:
		return c, invalid("PageRank", "Iterations %d is negative", c.Iterations)
	case math.IsNaN(c.Tolerance):
		return c, invalid("PageRank", "Tolerance is not a number")
	}
	return c, nil
}

// PageRankResult reports how an iteration ended.
type PageRankResult struct {
	Iterations int
	// sum of all changes in the last iteration; for a Ranking, what is left to push
	Change float64
}

// PageRank computes how often a random walk visits each vertex. The walk follows an edge with
// probability Damping. Otherwise, and at vertices without edges, it restarts anywhere (Brin, Page:
// "The Anatomy of a Large-Scale Hypertextual Web Search Engine", 1998). ranks receives shares of
// [RankOne].
//
// Ranks are integers, so sums do not depend on the order of their terms: the result is the same to
// the bit on any machine. Divisions are rounded down. So the sum of all ranks is too small by a few
// parts in 2^62 per vertex and arc.
func PageRank(ctx context.Context, dev device.Device, g *graph.CSR, ranks []uint64, opts *PageRankOptions) (r PageRankResult, err error) {
	mustMatchVertices("PageRank", g, len(ranks))
	if !isHost(dev) {
		err = runUploaded(ctx, dev, "PageRank", g.Upload, ranks, func(s *device.Stream, d *graph.DeviceCSR, column device.Slice[uint64]) error {
			if opts != nil && opts.Warm {
				if err := column.CopyFrom(s, ranks); err != nil {
					return err
				}
			}
			r, err = PageRankOn(ctx, s, d, column, opts)
			return err
		})
		return r, err
	}
	h, err := host(dev, "PageRank")
	if err != nil {
		return r, err
	}
	o, err := opts.check()
	if err != nil || len(ranks) == 0 {
		return r, err
	}
	into, err := g.Transpose(ctx, dev)
	if err != nil {
		return r, err
	}
	n := uint64(len(ranks))
	w := walk{Host: h, out: g, into: into, ranks: ranks, shares: make([]uint64, n), fixedPoint: fixed(o.Damping, n)}
	if !o.Warm {
		for v := range ranks {
			ranks[v] = RankOne / n
		}
	}
	for r.Iterations < o.Iterations {
		change := w.step(ctx)
		if err := ctx.Err(); err != nil {
			return r, err
		}
		r.Iterations++
		if r.Change = float64(change) / RankOne; r.Change <= o.Tolerance {
			break
		}
	}
	return r, nil
}

// walk is a PageRank computation on a host.
type walk struct {
	device.Host
	out, into *graph.CSR
	ranks     []uint64
	shares    []uint64 // share that each vertex pushes to each of its neighbors
	fixedPoint
}

// fixedPoint holds the parameters of a PageRank computation.
type fixedPoint struct {
	damping uint64 // in units of 2^-64
	base    uint64 // the rank that each vertex gets from restarts
}

func fixed(damping float64, vertices uint64) (f fixedPoint) {
	f.damping = uint64(math.Ldexp(damping, 64))
	start, _ := bits.Mul64(RankOne, f.damping)
	f.base = (RankOne - start) / vertices
	return f
}

// step runs one iteration and returns the sum of all rank changes.
func (w *walk) step(ctx context.Context) uint64 {
	var dangling, change atomic.Uint64 // dangling: ranks of vertices without edges
	w.Parallel(len(w.ranks), grain, func(lo, hi int) {
		part := uint64(0)
		for v := lo; v < hi; v++ {
			if d := w.out.Degree(uint32(v)); d > 0 {
				w.shares[v] = w.ranks[v] / uint64(d)
			} else {
				part += w.ranks[v]
			}
		}
		dangling.Add(part)
	})
	share := dangling.Load() / uint64(len(w.ranks))
	w.Parallel(len(w.ranks), rows, func(lo, hi int) {
		if ctx.Err() != nil {
			return
		}
		part := uint64(0)
		for v := lo; v < hi; v++ {
			sum := share
			for _, u := range w.into.Neighbors(uint32(v)) {
				sum += w.shares[u]
			}
			followed, _ := bits.Mul64(sum, w.damping)
			rank := w.base + followed
			part += max(rank, w.ranks[v]) - min(rank, w.ranks[v])
			w.ranks[v] = rank
		}
		change.Add(part)
	})
	return change.Load()
}
