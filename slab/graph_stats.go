package slab

import (
	"context"
	"errors"

	"github.com/weftgo/weft/internal/core"
)

// GraphStats describes the state of a [Graph].
type GraphStats struct {
	Vertices  int // entries of the dictionary
	Edges     int
	Arcs      int // neighbors of all vertices
	BaseSlabs int // base slabs in use by vertices
	Chained   int // chained slabs
	// Spare counts base slabs without a vertex: not handed out yet, or left by tables that have
	// moved.
	Spare      int
	Tombstones int // slots of deleted edges

	// Bytes is the size of all memory with edges: slabs, the dictionary, and the pool with its free
	// units.
	Bytes   int
	Scratch int // size of other memory, on a GPU the scratch of its batches
	// Load is the share of slots with edges among the slots of all slabs of vertices.
	Load float64
	// MeanChain and MaxChain are the slabs per bucket, which a search for an absent edge reads. A
	// MaxChain of 31 means 31 or more. Chains counts the buckets by their number of slabs, up to
	// 31.
	MeanChain float64
	MaxChain  int
	Chains    [chainLengths]uint64
}

// BytesPerEdge returns Bytes divided by the number of edges.
func (s GraphStats) BytesPerEdge() float64 { return float64(s.Bytes) / float64(max(1, s.Edges)) }

// Stats measures the graph in one pass over the links of its slabs.
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
