package algo

import (
	"context"
	"sync/atomic"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
)

// Connected keeps the connected components of a graph that grows, the weakly connected ones if it is directed: a batch of edges costs what they
// cost, however large the graph is. What deletions leave is not known without looking at the rest of the graph: after
// them, [Connected.Reset] finds the components anew. It is not for several goroutines at a time.
//
// Vertices are a forest in which roots are the smallest of their trees, and paths are halved as they are walked (Tarjan, van Leeuwen: "Worst-Case Analysis of Set Union
// Algorithms", 1984); threads meet at roots alone, where one of them wins.
type Connected struct {
	host    device.Host
	parents []uint32
	count   int
}

// NewConnected finds the components of a graph as it is.
func NewConnected(ctx context.Context, dev device.Device, g *graph.CSR) (*Connected, error) {
	h, err := host(dev, "connected")
	if err != nil {
		return nil, err
	}
	c := &Connected{host: h}
	return c, c.Reset(ctx, g)
}

// Reset finds the components of a graph as it is now, and forgets what there was. After an error nothing has changed.
func (c *Connected) Reset(ctx context.Context, g *graph.CSR) error {
	labels := make([]uint32, g.Vertices())
	count, err := Components(ctx, c.host, g, labels)
	if err != nil {
		return err
	}
	c.parents, c.count = labels, count
	return nil
}

// Insert unites the ends of edges. A vertex that has not been there is one from then on, with all of smaller numbers, and those that
// edges.Vertices counts. One from 2^28 on is device.ErrInvalid with the position of its edge, before anything is changed, unless edges.Vertices
// allows it. If ctx ends, some edges have been inserted, and all may be once more. It panics if From and To differ in length.
func (c *Connected) Insert(ctx context.Context, edges graph.Edges) error {
	matching("connected", edges)
	most, err := verticesWith("connected", len(c.parents), edges)
	if err != nil {
		return err
	}
	for v := len(c.parents); v < most; v++ {
		c.parents = append(c.parents, uint32(v))
		c.count++
	}
	var united atomic.Int64
	c.host.Parallel(len(edges.From), rows, func(lo, hi int) {
		if ctx.Err() != nil {
			return
		}
		own := 0
		for i := lo; i < hi; i++ {
			if c.unite(edges.From[i], edges.To[i]) {
				own++
			}
		}
		united.Add(int64(own))
	})
	c.count -= int(united.Load())
	return ctx.Err()
}

// unite makes the trees of two vertices one, and reports whether they were two.
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

// root finds the root of a vertex, and halves the path to it: parents only become smaller, and stay in the tree.
func (c *Connected) root(v uint32) uint32 {
	for {
		up := atomic.LoadUint32(&c.parents[v])
		further := atomic.LoadUint32(&c.parents[up])
		if up == further {
			return up
		}
		atomic.CompareAndSwapUint32(&c.parents[v], up, further)
		v = further
	}
}

// Vertices is the number of vertices, those without edges among them.
func (c *Connected) Vertices() int { return len(c.parents) }

// Count is the number of components.
func (c *Connected) Count() int { return c.count }

// Label is the smallest vertex of a vertex's component. It panics as a slice does if there is no such vertex.
func (c *Connected) Label(v uint32) uint32 { return c.root(v) }

// Labels writes those of all vertices, as [Components] does.
func (c *Connected) Labels(labels []uint32) {
	if len(labels) != len(c.parents) {
		panic("algo: connected: not as many labels as vertices")
	}
	flatten(c.host, c.parents)
	copy(labels, c.parents)
}
