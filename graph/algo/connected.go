package algo

import (
	"context"
	"sync/atomic"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
)

// Connected maintains the connected components of a growing graph, or the weakly connected
// components if it is directed. The cost of a batch depends on its edges, not on the size of the
// graph. A Connected cannot follow deletions, since their effect depends on the rest of the graph.
// After deletions call [Connected.Reset]. A Connected is not safe for concurrent use.
//
// The vertices form a forest. The root of a tree is its smallest vertex, and a search for the root
// halves the path (Tarjan, van Leeuwen: "Worst-Case Analysis of Set Union Algorithms", 1984).
// Threads contend only at roots, where one of them succeeds.
type Connected struct {
	host    device.Host
	parents []uint32
	count   int
}

// NewConnected finds the components of a graph.
func NewConnected(ctx context.Context, dev device.Device, g *graph.CSR) (*Connected, error) {
	h, err := host(dev, "connected")
	if err != nil {
		return nil, err
	}
	c := &Connected{host: h}
	return c, c.Reset(ctx, g)
}

// Reset replaces the components by the components of a graph. After an error nothing has changed.
func (c *Connected) Reset(ctx context.Context, g *graph.CSR) error {
	labels := make([]uint32, g.Vertices())
	count, err := Components(ctx, c.host, g, labels)
	if err != nil {
		return err
	}
	c.parents, c.count = labels, count
	return nil
}

// Insert unites the ends of edges. It adds all vertices up to the largest end, and as many as
// edges.Vertices. If a vertex is neither less than 2^28 nor less than edges.Vertices, Insert
// returns device.ErrInvalid with the position of its edge, before anything changes. If ctx ends,
// Insert may have inserted a part of the edges; inserting all of them again is allowed. Insert
// panics if From and To differ in length.
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

// unite unites the trees of two vertices. It reports whether they were in different trees.
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

// root returns the root of a vertex and halves the path to the root. A parent is replaced only by a
// smaller vertex of the same tree.
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

// Label returns the smallest vertex in the component of v. It panics if v is not a vertex.
func (c *Connected) Label(v uint32) uint32 { return c.root(v) }

// Labels sets labels[v] to the smallest vertex in the component of v, for each vertex v. It panics
// if the numbers of labels and vertices differ.
func (c *Connected) Labels(labels []uint32) {
	if len(labels) != len(c.parents) {
		panic("algo: connected: not as many labels as vertices")
	}
	flatten(c.host, c.parents)
	copy(labels, c.parents)
}
