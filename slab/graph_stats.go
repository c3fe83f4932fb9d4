package slab

import (
	"context"
	"errors"

	"github.com/weftgo/weft/internal/core"
)

// GraphStats describes the size and memory of a [Graph].
type GraphStats struct {
	Vertices  int // number of dictionary entries
	Edges     int
	Arcs      int // total number of neighbors of all vertices
	BaseSlabs int // number of base slabs that vertices own
	Chained   int // number of chained slabs
	// Spare is the number of base slabs without a vertex: not yet assigned, or left by moved
	// tables.
	Spare      int
	Tombstones int // number of slots of deleted edges

	// Bytes is the size of the memory for edges: slabs, dictionary, and pool with its free units.
	Bytes   int
	Scratch int // size of other memory, on a GPU the work memory of batches
	// Load is the share of slots that hold edges among the slots of all slabs of vertices.
	Load float64
	// MeanChain and MaxChain are the mean and maximum number of slabs per bucket, which a search
	// for an absent edge reads. A MaxChain of 31 means 31 or more. Chains[i] is the number of
	// buckets with i slabs, or with 31 and more.
	MeanChain float64
	MaxChain  int
	Chains    [chainLengths]uint64
}

// BytesPerEdge returns Bytes divided by the number of edges.
func (s GraphStats) BytesPerEdge() float64 { return float64(s.Bytes) / float64(max(1, s.Edges)) }

// Stats measures the graph by reading the links of all slabs.
func (g *graph) Stats(ctx context.Context) (s GraphStats, err error) {
	err = g.core.WithWriteLock(ctx, "Stats", func(now core.Counters) error {
		e := g.policy.engine
		pool, err := g.policy.countPool(ctx)
		chains, err2 := e.chains(ctx)
		if err = errors.Join(err, err2); err != nil {
			return err
		}
		gen, d := g.generation(), e.dict()
		s = GraphStats{
			Vertices: d.n, Arcs: int(now.Live), Edges: int(now.Live), BaseSlabs: int(d.ownedSlabs), Chained: pool.Used, Spare: int(gen.buckets - d.ownedSlabs),
			Tombstones: int(now.Dead), Bytes: gen.MemoryBytes(), Scratch: e.scratch() + g.ends.Bytes(), Chains: chains,
		}
		if !g.Directed() {
			s.Edges /= 2
		}
		slabs := float64(max(1, s.BaseSlabs+s.Chained))
		s.Load = float64(s.Arcs) / (slabs * float64(slotsIn(g.policy.widths.Slot)))
		s.MeanChain = slabs / float64(max(1, s.BaseSlabs))
		for length, n := range chains {
			if n > 0 {
				s.MaxChain = length
			}
		}
		return nil
	})
	return s, err
}
