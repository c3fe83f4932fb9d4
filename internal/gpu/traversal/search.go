package traversal

import (
	"context"
	"math/bits"

	"github.com/weftgo/weft/device"
)

// bitsOf returns the number of bits that represent the numbers below n, at least 1.
func bitsOf(n int) int { return max(1, bits.Len(uint(max(n, 1)-1))) }

// NoVertex stands for no vertex. It is also the depth of a vertex that a search does not reach.
const NoVertex = 1<<32 - 1

const (
	// rounds is the number of rounds that are submitted at a time if lists are short.
	rounds = 8
	// A list is short if it has at most maxBatchedArcs arcs and at most growth times the arcs of
	// the previous list.
	maxBatchedArcs, growth = 1 << 16, 2
	// A round may search in reverse: each vertex not yet found searches for a neighbor in the list.
	// It does so if the list has more than 1/arcsPart of the other remaining arcs and more than
	// 1/verticesPart of all vertices. The CPU uses the same limits.
	arcsPart, verticesPart = 14, 24
)

// BFS writes the depth of each vertex, its distance from source, to depths (uint32). Vertices
// without a path from source get NoVertex. It returns the number of vertices at each depth.
func (k *Kernels) BFS(ctx context.Context, s *device.Stream, g Graph, source uint32, depths device.Ptr) (levels []int, err error) {
	c := k.begin(ctx, s, g)
	lists, sizes := c.lists(g.Vertices), c.alloc(8 * (rounds + 1))[0]
	p := searchParams{rows: g.rows(), depths: depths, depth: source, next: lists.sized(0, sizes)}
	c.fill(depths, NoVertex, g.Vertices)
	launch(c, k.searchStart, 1, &p)
	front, remaining := c.read(sizes, 1)[0], g.Arcs
	for before := 0; front != 0 && c.err == nil; {
		n, kernel := c.plan(g, before, front, remaining)
		found := c.search(p, kernel, n, len(levels), &lists, sizes)
		for _, size := range append([]uint64{front}, found[:n-1]...) {
			if size != 0 {
				levels, remaining = append(levels, verticesOf(size)), remaining-arcsOf(size)
			}
		}
		before, front = arcsOf(front), found[n-1]
	}
	return levels, c.end()
}

// plan returns the number of rounds to submit next, and their kernel. before is the number of arcs
// of the previous list.
func (c *call) plan(g Graph, before int, front uint64, remaining int) (n int, kernel device.Kernel) {
	arcs := arcsOf(front)
	if !g.Directed && arcs > (remaining-arcs)/arcsPart && verticesOf(front) > g.Vertices/verticesPart {
		return 1, c.searchUp
	}
	if arcs <= min(maxBatchedArcs, growth*before) {
		return rounds, c.searchDown
	}
	return 1, c.searchDown
}

// search runs n rounds, the first at the given depth, and returns the sizes of the lists that they
// write. Even depths use the first list.
func (c *call) search(p searchParams, kernel device.Kernel, n, depth int, lists *frontierPair, sizes device.Ptr) []uint64 {
	at := func(i int) device.Ptr { return sizes + device.Ptr(8*i) }
	c.fill(at(1), 0, 2*n)
	for i := range n {
		p.depth = uint32(depth + i)
		p.now, p.next = lists.sized(depth+i, at(i)), lists.sized(depth+i+1, at(i+1))
		launch(c, kernel, c.roundThreads(p.rows, n), &p)
	}
	c.copy(at(0), at(n), 8)
	return c.read(at(1), n)
}

// roundThreads returns the number of threads of a round. Rounds that are submitted together get few
// threads.
func (c *call) roundThreads(g rows, rounds int) int {
	all := int(max(g.arcs, uint64(g.vertices)))
	if rounds > 1 {
		return min(maxBatchedArcs, all)
	}
	return all
}

const (
	// firstNeighbors is the number of neighbors that each vertex is united with first. Kernels use
	// the same constant.
	firstNeighbors = 2
	// samples is the number of vertices that are sampled to find the largest component.
	samples = 1 << 10
)

// Components writes to labels (uint32), for each vertex, the smallest vertex of its component. It
// returns the number of components. frequent returns the most frequent label of a sample. The graph
// must not be empty.
func (k *Kernels) Components(ctx context.Context, s *device.Stream, g Graph, labels device.Ptr, frequent func([]uint32) uint32) (count int, err error) {
	c := k.begin(ctx, s, g)
	n := g.Vertices
	parts := c.alloc(4*n, 8*n, 8, 8, 4*samples)
	p := uniteParams{
		rows: g.rows(), rest: frontier{list: parts[0], starts: parts[1], size: parts[2]}, labels: labels,
		count: parts[3], sample: parts[4], samples: samples, largest: NoVertex,
	}
	c.write(p.rest.size, 0)
	c.write(p.count, 0)
	launch(c, k.uniteStart, n, &p)
	for p.nth = range uint32(firstNeighbors) {
		launch(c, k.uniteFirst, n, &p)
		launch(c, k.uniteFlatten, n, &p)
	}
	launch(c, k.uniteSample, n, &p)
	if !g.Directed { // in a directed graph, a skipped edge may be the only link of a vertex
		sample := make([]uint32, samples)
		c.do(func() error { return s.CopyOut(ctx, device.Bytes(sample), p.sample) })
		p.largest = frequent(sample)
	}
	launch(c, k.unitePick, n, &p)
	launch(c, k.uniteRest, c.roundThreads(p.rows, 1), &p)
	launch(c, k.uniteFlatten, n, &p)
	launch(c, k.uniteCount, n, &p)
	count = int(c.read(p.count, 1)[0])
	return count, c.end()
}
