package algo

import (
	"context"
	"math"
	"slices"
	"sync/atomic"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
)

// KCore computes the core numbers of an undirected graph: cores receives, for each vertex, the largest k for
// which it is in a subgraph whose vertices all have k neighbors in it. It returns the largest one. Self loops count nothing; an
// edge that is there several times counts as often.
//
// Vertices of the smallest degree are taken away, all at a time, with their edges, until none is left of that degree
// (Dasari, Ranjan, Zubair: "ParK", 2014).
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

// peeling is a graph of which vertices have been taken away.
type peeling struct {
	device.Host
	ctx     context.Context
	g       *graph.CSR
	degrees []uint32 // in what is left; of vertices that are not, their core number at most
	cores   []uint32
	left    []uint32
	level   int64 // all vertices of that degree have been taken away, and of smaller ones
}

// begin finds the smallest degree of what is left, and moves the vertices that have it to now.
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

// peel takes vertices away, whose core number is k, and gathers those whose degree falls to k by that.
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

// fall takes one from a degree that is above k, and reports whether it is k then.
func fall(degree *uint32, k uint32) bool {
	for old := atomic.LoadUint32(degree); old > k; old = atomic.LoadUint32(degree) {
		if atomic.CompareAndSwapUint32(degree, old, old-1) {
			return old-1 == k
		}
	}
	return false
}
