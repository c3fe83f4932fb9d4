package algo

import (
	"context"
	"math"
	"slices"
	"sync/atomic"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
)

// KCore computes the core number of each vertex of an undirected graph. That is the largest k such
// that the vertex lies in a subgraph where each vertex has at least k neighbors. KCore returns the
// largest core number. Self loops do not count as neighbors; parallel edges count separately.
//
// All vertices of the smallest degree are removed together with their edges, until no vertex of
// that degree is left (Dasari, Ranjan, Zubair: "ParK", 2014).
func KCore(ctx context.Context, dev device.Device, g *graph.CSR, cores []uint32) (largest uint32, err error) {
	mustMatchVertices("KCore", g, len(cores))
	if !isHost(dev) {
		err = runUploaded(ctx, dev, "KCore", g.Upload, cores, func(s *device.Stream, d *graph.DeviceCSR, column device.Slice[uint32]) error {
			largest, err = KCoreOn(ctx, s, d, column)
			return err
		})
		return largest, err
	}
	h, err := host(dev, "KCore")
	if err != nil {
		return 0, err
	}
	if err := checkUndirected("KCore", g.Directed()); err != nil {
		return 0, err
	}
	p := peeling{Host: h, ctx: ctx, g: g, degrees: make([]uint32, len(cores)), cores: cores, remaining: make([]uint32, len(cores)), level: -1}
	for v := range uint32(len(cores)) {
		p.remaining[v] = v
		for _, u := range g.Neighbors(v) {
			if u != v {
				p.degrees[v]++
			}
		}
	}
	current, next := newVertexList(len(cores)), newVertexList(len(cores))
	for len(p.remaining) > 0 && ctx.Err() == nil {
		largest = p.nextLevel(current)
		for len(current.vertices()) > 0 && ctx.Err() == nil {
			p.peel(largest, current.vertices(), next)
			swap(&current, &next)
		}
		current.used.Store(0)
	}
	return largest, ctx.Err()
}

// peeling is a graph from which vertices are removed.
type peeling struct {
	device.Host
	ctx context.Context
	g   *graph.CSR
	// degrees in the remaining graph; at most the core number for removed vertices
	degrees   []uint32
	cores     []uint32
	remaining []uint32
	level     int64 // maximum degree of the removed vertices
}

// nextLevel finds the smallest degree in the remaining graph and moves the vertices of that degree
// to current.
func (p *peeling) nextLevel(current *vertexList) (largest uint32) {
	done := func(v uint32) bool { return int64(p.degrees[v]) <= p.level }
	p.remaining = slices.DeleteFunc(p.remaining, done)
	if len(p.remaining) == 0 {
		return uint32(p.level)
	}
	p.level = math.MaxInt64
	for _, v := range p.remaining {
		p.level = min(p.level, int64(p.degrees[v]))
	}
	p.remaining = slices.DeleteFunc(p.remaining, func(v uint32) bool {
		if done(v) {
			current.add([]uint32{v})
		}
		return done(v)
	})
	return uint32(p.level)
}

// peel removes the vertices in current, which have core number k. It adds the vertices with a
// degree that falls to k to next.
func (p *peeling) peel(k uint32, current []uint32, next *vertexList) {
	p.Parallel(len(current), front, func(lo, hi int) {
		if p.ctx.Err() != nil {
			return
		}
		var dropped []uint32
		for _, v := range current[lo:hi] {
			p.cores[v] = k
			for _, u := range p.g.Neighbors(v) {
				if decrement(&p.degrees[u], k) {
					dropped = append(dropped, u)
				}
			}
		}
		next.add(dropped)
	})
}

// decrement decrements a degree if it is above k, and reports whether it becomes k.
func decrement(degree *uint32, k uint32) bool {
	for old := atomic.LoadUint32(degree); old > k; old = atomic.LoadUint32(degree) {
		if atomic.CompareAndSwapUint32(degree, old, old-1) {
			return old-1 == k
		}
	}
	return false
}
