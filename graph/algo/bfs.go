package algo

import (
	"context"
	"sync/atomic"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
)

// A search continues bottom-up if the frontier has more than 1/arcsPart of the unvisited arcs and
// more than 1/verticesPart of all vertices. Then each unvisited vertex looks for a neighbor in the
// frontier, instead of the reverse. (Beamer, Asanović, Patterson: "Direction-Optimizing
// Breadth-First Search", 2012)
const (
	arcsPart     = 14
	verticesPart = 24
)

// BFS searches a graph breadth first from a source. depths receives the number of edges of a
// shortest path to each vertex, or [Unreached] if no path exists. BFS returns the number of
// vertices at each depth, beginning with the source.
func BFS(ctx context.Context, dev device.Device, g *graph.CSR, source uint32, depths []uint32) (levels []int, err error) {
	mustMatchVertices("BFS", g, len(depths))
	if !isHost(dev) {
		err = runUploaded(ctx, dev, "BFS", g.Upload, depths, func(s *device.Stream, d *graph.DeviceCSR, column device.Slice[uint32]) error {
			levels, err = BFSOn(ctx, s, d, source, column)
			return err
		})
		return levels, err
	}
	h, err := host(dev, "BFS")
	if err != nil {
		return nil, err
	}
	if err := checkSource("BFS", g.Vertices(), source); err != nil {
		return nil, err
	}
	for v := range depths {
		depths[v] = Unreached
	}
	depths[source] = 0
	b := bfs{Host: h, ctx: ctx, g: g, depths: depths, frontier: newVertexList(g.Vertices()), next: newVertexList(g.Vertices())}
	b.frontier.add([]uint32{source})
	remaining := g.Arcs()
	for depth := uint32(0); len(b.frontier.vertices()) > 0 && ctx.Err() == nil; depth++ {
		levels = append(levels, len(b.frontier.vertices()))
		arcs := b.arcs()
		remaining -= arcs
		if !g.Directed() && arcs > remaining/arcsPart && len(b.frontier.vertices()) > g.Vertices()/verticesPart {
			b.bottomUp(depth)
		} else {
			b.topDown(depth)
		}
		swap(&b.frontier, &b.next)
	}
	return levels, ctx.Err()
}

type bfs struct {
	device.Host
	ctx            context.Context
	g              *graph.CSR
	depths         []uint32
	frontier, next *vertexList // vertices at the current depth and at the next
}

// arcs returns the number of arcs from the frontier.
func (b *bfs) arcs() int {
	var sum atomic.Int64
	frontier := b.frontier.vertices()
	b.Parallel(len(frontier), grain, func(lo, hi int) {
		part := 0
		for _, v := range frontier[lo:hi] {
			part += b.g.Degree(v)
		}
		sum.Add(int64(part))
	})
	return int(sum.Load())
}

// topDown visits the unvisited neighbors of the frontier, which is at the given depth.
func (b *bfs) topDown(depth uint32) {
	frontier := b.frontier.vertices()
	b.Parallel(len(frontier), front, func(lo, hi int) {
		if b.ctx.Err() != nil {
			return
		}
		var found []uint32
		for _, v := range frontier[lo:hi] {
			for _, u := range b.g.Neighbors(v) {
				if atomic.LoadUint32(&b.depths[u]) == Unreached && atomic.CompareAndSwapUint32(&b.depths[u], Unreached, depth+1) {
					found = append(found, u)
				}
			}
		}
		b.next.add(found)
	})
}

// bottomUp visits each unvisited vertex with a neighbor in the frontier.
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
