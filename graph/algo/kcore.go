package algo

import (
	"context"
	"math"
	"slices"
	"sync/atomic"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
)

// KCore computes the core numbers of an undirected graph. cores receives, for each vertex, the
// largest k such that it is in a subgraph of vertices with at least k neighbors in that subgraph.
// KCore returns the largest core number. Self loops do not count; parallel edges count separately.
//
// Vertices of the smallest degree are removed, all at a time, with their edges, until none is left
// of that degree (Dasari, Ranjan, Zubair: "ParK", 2014).
func KCore(ctx context.Context, dev device.Device, g *graph.CSR, cores []uint32) (largest uint32, err error) {
	perVertex("KCore", g, len(cores))
	if !isHost(dev) {
		err = uploaded(ctx, dev, "KCore", g.Upload, cores, func(s *device.Stream, d *graph.DeviceCSR, column device.Slice[uint32]) error {
			largest, err = KCoreOn(ctx, s, d, column)
			return err
		})
		return largest, err
	}
	h, err := host(dev, "KCore")
	if err != nil {
		return 0, err
	}
	if err := undirected("KCore", g.Directed()); err != nil {
		return 0, err
	}
	p := peeling{Host: h, ctx: ctx, g: g, degrees: make([]uint32, len(cores)), cores: cores, left: make([]uint32, len(cores)), level: -1}
	for v := range uint32(len(cores)) {
		p.left[v] = v
		for _, u := range g.Neighbors(v) {
			if u != v {
				p.degrees[v]++
			}
		}
	}
	now, next := newGathering(len(cores)), newGathering(len(cores))
	for len(p.left) > 0 && ctx.Err() == nil {
		largest = p.begin(now)
		for len(now.all()) > 0 && ctx.Err() == nil {
			p.peel(largest, now.all(), next)
			swap(&now, &next)
		}
		now.used.Store(0)
	}
	return largest, ctx.Err()
}

// peeling is a graph with some vertices removed.
type peeling struct {
	device.Host
	ctx     context.Context
	g       *graph.CSR
	degrees []uint32 // in the remaining graph; of removed vertices, at most their core number
	cores   []uint32
	left    []uint32
	level   int64 // all vertices of at most that degree have been removed
}

// begin finds the smallest degree of the remaining graph, and moves its vertices to now.
func (p *peeling) begin(now *gathering) (largest uint32) {
	done := func(v uint32) bool { return int64(p.degrees[v]) <= p.level }
	p.left = slices.DeleteFunc(p.left, done)
	if len(p.left) == 0 {
		return uint32(p.level)
	}
	p.level = math.MaxInt64
	for _, v := range p.left {
		p.level = min(p.level, int64(p.degrees[v]))
	}
	p.left = slices.DeleteFunc(p.left, func(v uint32) bool {
		if done(v) {
			now.add([]uint32{v})
		}
		return done(v)
	})
	return uint32(p.level)
}

// peel removes vertices with core number k, and gathers those with a degree that falls to k.
func (p *peeling) peel(k uint32, now []uint32, next *gathering) {
	p.Parallel(len(now), front, func(lo, hi int) {
		if p.ctx.Err() != nil {
			return
		}
		var fallen []uint32
		for _, v := range now[lo:hi] {
			p.cores[v] = k
			for _, u := range p.g.Neighbors(v) {
				if fall(&p.degrees[u], k) {
					fallen = append(fallen, u)
				}
			}
		}
		next.add(fallen)
	})
}

// fall decrements a degree above k, and reports whether it is then k.
func fall(degree *uint32, k uint32) bool {
	for old := atomic.LoadUint32(degree); old > k; old = atomic.LoadUint32(degree) {
		if atomic.CompareAndSwapUint32(degree, old, old-1) {
			return old-1 == k
		}
	}
	return false
}
