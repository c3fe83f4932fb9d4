package algo

import (
	"context"
	"sync/atomic"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
)

// A frontier with more than 1/arcsPart of the unvisited arcs and 1/verticesPart of all vertices is
// searched bottom-up. Each vertex that has not been found looks for a neighbor in the frontier,
// instead of the reverse. (Beamer, Asanović, Patterson: "Direction-Optimizing Breadth-First
// Search", 2012)
const (
	arcsPart     = 14
	verticesPart = 24
)

// BFS searches a graph breadth first from a vertex. depths receives the number of edges of a
// shortest path to each vertex, [Unreached] if none exists. BFS returns the number of vertices at
// each depth, beginning with the source.
func BFS(ctx context.Context, dev device.Device, g *graph.CSR, source uint32, depths []uint32) (levels []int, err error) {
	perVertex("BFS", g, len(depths))
	if !isHost(dev) {
		err = uploaded(ctx, dev, "BFS", g.Upload, depths, func(s *device.Stream, d *graph.DeviceCSR, column device.Slice[uint32]) error {
			levels, err = BFSOn(ctx, s, d, source, column)
			return err
		})
		return levels, err
	}
	h, err := host(dev, "BFS")
	if err != nil {
		return nil, err
	}
	if err := exists("BFS", g.Vertices(), source); err != nil {
		return nil, err
	}
	for v := range depths {
		depths[v] = Unreached
	}
	depths[source] = 0
	b := bfs{Host: h, ctx: ctx, g: g, depths: depths, now: newGathering(g.Vertices()), next: newGathering(g.Vertices())}
	b.now.add([]uint32{source})
	rest := g.Arcs()
	for depth := uint32(0); len(b.now.all()) > 0 && ctx.Err() == nil; depth++ {
		levels = append(levels, len(b.now.all()))
		arcs := b.arcs()
		rest -= arcs
		if !g.Directed() && arcs > rest/arcsPart && len(b.now.all()) > g.Vertices()/verticesPart {
			b.bottomUp(depth)
		} else {
			b.topDown(depth)
		}
		swap(&b.now, &b.next)
	}
	return levels, ctx.Err()
}

// bfs is one search.
type bfs struct {
	device.Host
	ctx       context.Context
	g         *graph.CSR
	depths    []uint32
	now, next *gathering // the frontier, and the next one
}

// arcs counts the arcs of the frontier.
func (b *bfs) arcs() int {
	var sum atomic.Int64
	now := b.now.all()
	b.Parallel(len(now), grain, func(lo, hi int) {
		own := 0
		for _, v := range now[lo:hi] {
			own += b.g.Degree(v)
		}
		sum.Add(int64(own))
	})
	return int(sum.Load())
}

// topDown goes from the frontier, at the given depth, to its neighbors.
func (b *bfs) topDown(depth uint32) {
	now := b.now.all()
	b.Parallel(len(now), front, func(lo, hi int) {
		if b.ctx.Err() != nil {
			return
		}
		var found []uint32
		for _, v := range now[lo:hi] {
			for _, u := range b.g.Neighbors(v) {
				if atomic.LoadUint32(&b.depths[u]) == Unreached && atomic.CompareAndSwapUint32(&b.depths[u], Unreached, depth+1) {
					found = append(found, u)
				}
			}
		}
		b.next.add(found)
	})
}

// bottomUp searches, for all vertices that have not been found, a neighbor in the frontier.
func (b *bfs) bottomUp(depth uint32) {
	b.Parallel(b.g.Vertices(), rows, func(lo, hi int) {
		if b.ctx.Err() != nil {
			return
		}
		var found []uint32
		for v := lo; v < hi; v++ {
			if atomic.LoadUint32(&b.depths[v]) != Unreached {
				continue
			}
			for _, u := range b.g.Neighbors(uint32(v)) {
				if atomic.LoadUint32(&b.depths[u]) == depth {
					atomic.StoreUint32(&b.depths[v], depth+1)
					found = append(found, uint32(v))
					break
				}
			}
		}
		b.next.add(found)
	})
}
