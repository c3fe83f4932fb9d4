package traversal

import (
	"context"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu/prim"
)

// Rank holds the parameters of PageRank.
type Rank struct {
	Damping    uint64 // of 2^64
	Base       uint64 // rank that starts at every vertex
	Iterations int    // maximum
	Limit      uint64 // a change of at most Limit ends the iteration
	Warm       bool   // ranks holds initial ranks
}

const (
	// iterations is the number submitted at a time; those after the last one do nothing.
	iterations = 8
	// iterationWords is the number of 64-bit words that an iteration leaves, and changeWord is the
	// index of the change.
	iterationWords = int(unsafe.Sizeof(iteration{})) / 8
	changeWord     = int(unsafe.Offsetof(iteration{}.change)) / 8
)

// PageRank writes ranks, shares of 2^62 in 64 bits. The graph has vertices. For an undirected graph
// into is g, for a directed graph its transpose. PageRank returns the number of iterations and the
// change of the last one.
func (k *Kernels) PageRank(ctx context.Context, s *device.Stream, g, into Graph, ranks device.Ptr, o Rank) (done int, change uint64, err error) {
	c := k.begin(ctx, s, g)
	tiles := (into.Arcs + tileArcs - 1) / tileArcs
	parts := c.alloc(8*g.Vertices, 8*g.Vertices, 4*(tiles+1), 8*iterationWords*(iterations+1))
	p := rankParams{
		out: g.rows(), into: into.rows(), firsts: parts[2], ranks: ranks, shares: parts[0], sums: parts[1],
		damping: o.Damping, base: o.Base, limit: min(o.Limit, ^uint64(0)-1), now: parts[3],
	}
	if o.Warm {
		p.warm = 1
	}
	c.write(p.now, 0, ^uint64(0)) // so that the first iteration runs
	launch(c, k.rankStart, g.Vertices, &p)
	launch(c, k.rankCut, tiles+1, &cutParams{rows: p.into, firsts: p.firsts, tiles: uint64(tiles)})
	for ended := false; !ended && done < o.Iterations && c.err == nil; {
		changes := c.iterate(p, min(iterations, o.Iterations-done), parts[3])
		for i := 0; i < len(changes) && !ended && c.err == nil; i++ {
			done, change = done+1, changes[i]
			ended = change <= p.limit
		}
	}
	return done, change, c.end()
}

// iterate runs n iterations, starting from the state in the first slot, and leaves the state of the
// last there. It returns the change of each.
func (c *call) iterate(p rankParams, n int, slots device.Ptr) (changes []uint64) {
	at := func(i int) device.Ptr { return slots + device.Ptr(8*iterationWords*i) }
	c.fill(at(1), 0, 2*iterationWords*n)
	for i := range n {
		p.before, p.now = at(i), at(i+1)
		if p.into.arcs > 0 {
			launchBlocks(c, c.rankGather, int(p.into.arcs)/(tileArcs/32)+32, registerBlocks, &p)
		}
		launch(c, c.rankApply, int(p.out.vertices), &p)
	}
	c.copy(at(0), at(n), 8*iterationWords)
	words := c.read(at(1), iterationWords*n)
	for i := range n {
		changes = append(changes, words[iterationWords*i+changeWord])
	}
	return changes
}

// Transpose writes the graph with all edges reversed to memory of the same sizes. Its rows ascend.
func (k *Kernels) Transpose(ctx context.Context, s *device.Stream, g, to Graph) error {
	c := k.begin(ctx, s, g)
	if g.Arcs == 0 {
		c.fill(to.Offsets, 0, 2*(g.Vertices+1))
		return c.end()
	}
	parts := c.alloc(4*g.Arcs, 4*g.Arcs)
	order := prim.Sort{Widths: prim.Widths{Key: 4, Val: 4}, N: g.Arcs, Hi: bitsOf(g.Vertices)}
	order.From = prim.Rows{Keys: g.Targets, Vals: parts[0]}
	order.To = prim.Rows{Keys: parts[1], Vals: to.Targets}
	scratch := device.Buffer{Size: order.ScratchBytes()}
	scratch.Ptr = c.alloc(scratch.Size)[0]
	p := turnParams{rows: g.rows(), sources: parts[0], sorted: parts[1], offsets: to.Offsets}
	launch(c, k.turnSources, g.Arcs, &p)
	c.do(func() error { return k.prim.Sort(s, &order, scratch) })
	launch(c, k.turnOffsets, g.Vertices+1, &p)
	return c.end()
}
