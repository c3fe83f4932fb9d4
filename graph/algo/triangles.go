package algo

import (
	"context"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
)

const (
	// hub is the minimum row length for which a vertex's neighbors are stored in a bitmap. Shorter
	// rows are merged with the rows of their neighbors.
	hub = 8
	// partsPerCore balances the load, since parts of equal size may take unequal time.
	partsPerCore = 8
)

// Triangles counts the triangles of an undirected graph, which are sets of three vertices that are
// all neighbors. Self loops and parallel edges add no triangle. In a directed graph it counts the
// triangles of the graph that Symmetric returns.
//
// Triangles uses the graph that [graph.CSR.Oriented] returns. There each triangle is a wedge u→v,
// v→w with an edge u→w that closes it. Each core processes the same number of wedges. It looks
// up the neighbors of v among the neighbors of u: in a bitmap if u has many, otherwise by merging.
func Triangles(ctx context.Context, dev device.Device, g *graph.CSR) (uint64, error) {
	if !isHost(dev) {
		return trianglesByKernels(ctx, dev, g)
	}
	h, err := host(dev, "triangles")
	if err != nil {
		return 0, err
	}
	o, err := g.Oriented(ctx, dev)
	if err != nil {
		return 0, err
	}
	before := wedges(h, o)
	parts := max(1, min(h.Properties().Units*partsPerCore, int(before[len(before)-1]>>12)))
	var total atomic.Uint64
	bitmaps := sync.Pool{New: func() any { return &wedgeCounter{o: o, bitmap: make([]uint64, (o.Vertices()+63)/64)} }}
	h.Parallel(parts, 1, func(part, _ int) {
		c := bitmaps.Get().(*wedgeCounter)
		defer bitmaps.Put(c)
		all := before[len(before)-1]
		total.Add(c.count(ctx, before, partStart(all, part, parts), partStart(all, part+1, parts)))
	})
	return total.Load(), ctx.Err()
}

// partStart returns the number of the first wedge of a part. all is the number of wedges, which are
// divided into equal parts.
func partStart(all uint64, part, parts int) uint64 {
	return all/uint64(parts)*uint64(part) + all%uint64(parts)*uint64(part)/uint64(parts)
}

// wedges numbers all wedges u→v, v→w in the order of u, v and w. It leaves out one number after
// the wedges of each edge u→v. Element u of the result is the first number of a wedge that begins
// at u, and the last element is the end of the numbers.
func wedges(h device.Host, o *graph.CSR) []uint64 {
	before := make([]uint64, o.Vertices()+1)
	h.Parallel(o.Vertices(), rows, func(lo, hi int) {
		for u := lo; u < hi; u++ {
			for _, v := range o.Neighbors(uint32(u)) {
				before[u+1] += uint64(o.Degree(v)) + 1
			}
		}
	})
	for u := range o.Vertices() {
		before[u+1] += before[u]
	}
	return before
}

// wedgeCounter counts the wedges with an edge that closes them.
type wedgeCounter struct {
	o      *graph.CSR
	bitmap []uint64 // all zero between two calls of countVertex
}

// count counts the closed wedges with numbers in [lo,hi); before is the result of wedges. All
// wedges of an edge u→v belong to the range that contains the first of them.
func (c *wedgeCounter) count(ctx context.Context, before []uint64, lo, hi uint64) (closed uint64) {
	if lo == hi {
		return 0
	}
	// The first vertex u that has a wedge with number lo or more.
	u := sort.Search(c.o.Vertices(), func(u int) bool { return before[u+1] > lo })
	for unchecked := uint64(0); u < c.o.Vertices() && before[u] < hi; u++ {
		if unchecked += before[u+1] - before[u]; unchecked > 1<<18 {
			if unchecked = 0; ctx.Err() != nil {
				return closed
			}
		}
		closed += c.countVertex(uint32(u), before[u], lo, hi)
	}
	return closed
}

// countVertex counts the closed wedges of vertex u. at is the number of the first wedge of u.
func (c *wedgeCounter) countVertex(u uint32, at, lo, hi uint64) (closed uint64) {
	row := c.o.Neighbors(u)
	first, last := 0, len(row)
	for i, v := range row {
		if at < lo {
			first = i + 1
		}
		if at >= hi {
			last = i
			break
		}
		at += uint64(c.o.Degree(v)) + 1
	}
	if first >= last {
		return 0
	}
	if len(row) < hub {
		for _, v := range row[first:last] {
			closed += countCommon(row, c.o.Neighbors(v))
		}
		return closed
	}
	for _, w := range row {
		c.bitmap[w>>6] |= 1 << (w & 63)
	}
	for _, v := range row[first:last] {
		for _, w := range c.o.Neighbors(v) {
			closed += c.bitmap[w>>6] >> (w & 63) & 1
		}
	}
	for _, w := range row {
		c.bitmap[w>>6] = 0
	}
	return closed
}

// countCommon returns the number of elements that two ascending rows have in common.
func countCommon(a, b []uint32) (count uint64) {
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		x, y := a[i], b[j]
		if x <= y {
			i++
		}
		if y <= x {
			j++
		}
		if x == y {
			count++
		}
	}
	return count
}
