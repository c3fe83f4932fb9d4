package traversal

import (
	"context"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu/prim"
)

// Rank holds the parameters of PageRank.
type Rank struct {
	Damping    uint64 // damping factor times 2^64
	Base       uint64 // rank that every vertex gets regardless of its arcs
	Iterations int    // maximum number of iterations
	Limit      uint64 // the iteration ends when ranks change by at most Limit
	Warm       bool   // start from the values in ranks
}

const (
	// iterations is the number of iterations that are submitted at a time. Those after the last one
	// that is needed do nothing.
	iterations = 8
	// iterationWords is the number of 64-bit words of results per iteration. changeWord is the
	// index of the change among these.
	iterationWords = int(unsafe.Sizeof(iteration{})) / 8
	changeWord     = int(unsafe.Offsetof(iteration{}.change)) / 8
)

// PageRank writes the rank of each vertex as a share of 2^62 (uint64). The graph must not be empty.
// into is g itself if g is undirected, or the transpose of g. PageRank returns the number of
// iterations and the change of all ranks in the last one.
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

// iterate runs n iterations and returns the change of each. The first starts from the state in slot
// 0, and the state after the last is copied to slot 0.
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

// Transpose computes the transpose of g, which has all edges reversed, in the memory that to
// locates. The sizes of both graphs are equal. The targets in each row ascend.
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
