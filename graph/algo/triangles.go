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
	// hub is the number of upward neighbors from which on a vertex has its neighbors in a bitmap,
	// instead of merging them with each of theirs.
	hub = 8
	// partsPerCore evens out parts of equal work that take unequal time.
	partsPerCore = 8
)

// Triangles counts the triangles of an undirected graph: sets of three vertices that are neighbors
// of each other. Self loops and parallel edges add none. For a directed graph it uses its
// Symmetric.
//
// It works on the oriented view, in which each triangle is one pair of edges u→v, v→w with an edge
// u→w. Each core gets the same number of these pairs. The neighbors of v are looked up among those
// of u: in a bitmap if u has many, by merging if it has few.
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

// partStart returns the beginning of a part, of parts in all.
func partStart(all uint64, part, parts int) uint64 {
	return all/uint64(parts)*uint64(part) + all%uint64(parts)*uint64(part)/uint64(parts)
}

// wedges counts the pairs of edges u→v, v→w before those of each vertex u, plus one for each u→v.
// The last element is the total.
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

// wedgeCounter counts the wedges that an edge closes.
type wedgeCounter struct {
	o      *graph.CSR
	bitmap []uint64 // empty between two vertices
}

// count counts among the wedges [lo,hi). An edge u→v belongs to the part with its first wedge.
func (c *wedgeCounter) count(ctx context.Context, before []uint64, lo, hi uint64) (closed uint64) {
	if lo == hi {
		return 0
	}
	// The first vertex with wedges from lo on.
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

// countVertex counts those of one vertex; its first wedge has number at.
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

// countCommon counts the numbers that two ascending rows have in common.
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
