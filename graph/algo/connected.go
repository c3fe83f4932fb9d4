package algo

import (
	"context"
	"sync/atomic"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
)

// Connected maintains the connected components of a graph that grows, the weakly connected ones if
// it is directed. The cost of a batch of edges depends on the batch, not on the size of the graph.
// The effect of deletions cannot be determined without reading the rest of the graph; after them,
// [Connected.Reset] recomputes the components. A Connected is not safe for concurrent use.
//
// The vertices are a forest. Roots are the smallest of their trees, and walks halve the paths
// (Tarjan, van Leeuwen: "Worst-Case Analysis of Set Union Algorithms", 1984). Threads contend only
// at roots, where one of them wins.
type Connected struct {
	host    device.Host
	parents []uint32
	count   int
}

// NewConnected computes the components of a graph.
func NewConnected(ctx context.Context, dev device.Device, g *graph.CSR) (*Connected, error) {
	h, err := host(dev, "connected")
	if err != nil {
		return nil, err
	}
	c := &Connected{host: h}
	return c, c.Reset(ctx, g)
}

// Reset recomputes the components from a graph. After an error nothing has changed.
func (c *Connected) Reset(ctx context.Context, g *graph.CSR) error {
	labels := make([]uint32, g.Vertices())
	count, err := Components(ctx, c.host, g, labels)
	if err != nil {
		return err
	}
	c.parents, c.count = labels, count
	return nil
}

// Insert unites the ends of edges. A new vertex is added with all smaller numbers, as are the
// vertices that edges.Vertices counts. A vertex from 2^28 on returns device.ErrInvalid with the
// position of its edge, before anything changes, unless edges.Vertices allows it. If ctx ends, some
// edges have been inserted, and all may be inserted again. Insert panics if From and To differ in
// length.
func (c *Connected) Insert(ctx context.Context, edges graph.Edges) error {
	mustMatchEnds("connected", edges)
	n, err := verticesWith("connected", len(c.parents), edges)
	if err != nil {
		return err
	}
	for v := len(c.parents); v < n; v++ {
		c.parents = append(c.parents, uint32(v))
		c.count++
	}
	var united atomic.Int64
	c.host.Parallel(len(edges.From), rows, func(lo, hi int) {
		if ctx.Err() != nil {
			return
		}
		part := 0
		for i := lo; i < hi; i++ {
			if c.unite(edges.From[i], edges.To[i]) {
				part++
			}
		}
		united.Add(int64(part))
	})
	c.count -= int(united.Load())
	return ctx.Err()
}

// unite unites the trees of two vertices, and reports whether they were different.
func (c *Connected) unite(u, v uint32) bool {
	for {
		u, v = c.root(u), c.root(v)
		if u == v {
			return false
		}
		high, low := max(u, v), min(u, v)
		if atomic.CompareAndSwapUint32(&c.parents[high], high, low) {
			return true
		}
	}
}

// root returns the root of a vertex, and halves the path to it. Parents only decrease, and stay in
// the tree.
func (c *Connected) root(v uint32) uint32 {
	for {
		parent := atomic.LoadUint32(&c.parents[v])
		grandparent := atomic.LoadUint32(&c.parents[parent])
		if parent == grandparent {
			return parent
		}
		atomic.CompareAndSwapUint32(&c.parents[v], parent, grandparent)
		v = grandparent
	}
}

// Vertices returns the number of vertices, including those without edges.
func (c *Connected) Vertices() int { return len(c.parents) }

// Count returns the number of components.
func (c *Connected) Count() int { return c.count }

// Label returns the smallest vertex of a vertex's component. It panics like a slice index if v is
// not a vertex.
func (c *Connected) Label(v uint32) uint32 { return c.root(v) }

// Labels writes the labels of all vertices, as [Components] does.
func (c *Connected) Labels(labels []uint32) {
	if len(labels) != len(c.parents) {
		panic("algo: connected: not as many labels as vertices")
	}
	flatten(c.host, c.parents)
	copy(labels, c.parents)
}
