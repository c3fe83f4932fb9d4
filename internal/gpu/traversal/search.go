package traversal

import (
	"context"
	"math/bits"

	"github.com/weftgo/weft/device"
)

// bitsOf returns the number of bits of the numbers below n, at least one.
func bitsOf(n int) int { return max(1, bits.Len(uint(max(n, 1)-1))) }

// NoVertex is no vertex, and the depth of a vertex that is not found.
const NoVertex = 1<<32 - 1

const (
	// rounds is the number of rounds that are submitted at a time
	rounds = 8
	// if lists have at most few arcs, and at most growth times as many as the one before.
	maxBatchedArcs, growth = 1 << 16, 2
	// Vertices that have not been found search for a neighbor in the list if the list has at least
	// this part of the remaining arcs, and this part of all vertices, as on a CPU.
	arcsPart, verticesPart = 14, 24
)

// BFS writes the depths of all vertices from a source, 32 bits each, and None for vertices without
// a path. It returns the number of vertices per depth.
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
// of an earlier list.
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

// search runs n rounds from a depth on, and returns the sizes of the lists that they find. The
// first list serves even depths.
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

// roundThreads returns the size of a round's launch: few threads if several rounds are submitted at
// a time.
func (c *call) roundThreads(g rows, rounds int) int {
	all := int(max(g.arcs, uint64(g.vertices)))
	if rounds > 1 {
		return min(maxBatchedArcs, all)
	}
	return all
}

const (
	// firstNeighbors is the number of neighbors that each vertex is united with first; also
	// compiled into the kernels.
	firstNeighbors = 2
	// samples is the number of vertices sampled to find the largest component.
	samples = 1 << 10
)

// Components writes the smallest vertex of each vertex's component, 32 bits, and returns the number
// of components. frequent returns the most frequent of some labels. The graph has vertices.
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
