package algo

import (
	"context"
	"math/bits"
	"slices"
	"sync/atomic"
)

// Marks of vertices.
const (
	markChanged = 1 << iota // in changed
	markActive              // in active
)

// settle hands ranks on until the remainder is within the tolerance.
func (r *Ranking) settle(ctx context.Context, g Reader) (result PageRankResult, err error) {
	for r.unsettled(len(r.changed.all()), len(r.active.all())) && result.Iterations < r.o.Iterations {
		if err := ctx.Err(); err != nil {
			return result, err
		}
		if r.crowded() {
			c, err := g.CSR(ctx)
			if err != nil {
				return result, err
			}
			if r.failed = r.agrees(c); r.failed != nil {
				return result, r.failed
			}
			return r.sweeps(ctx, c, result)
		}
		if r.failed = r.handOn(context.WithoutCancel(ctx), g); r.failed != nil {
			return result, r.failed
		}
		r.refresh()
		result.Iterations++
	}
	result.Change = r.off()
	return result, nil
}

// readAtOnce is the number of vertices with rows that are read at a time.
const readAtOnce = 1 << 16

// handOn gives all neighbors of active vertices their shares, and records the vertices with changed
// sums. Sums are integers, so the order in which cores add does not matter.
func (r *Ranking) handOn(ctx context.Context, g Reader) error {
	var all atomic.Uint64
	for some := range slices.Chunk(r.active.all(), readAtOnce) {
		offsets, neighbors, err := g.Rows(ctx, some)
		if err != nil {
			return err
		}
		for i, v := range some {
			if degree := offsets[i+1] - offsets[i]; degree != uint64(r.degrees[v]) {
				return moved(v, uint32(degree), r.degrees[v])
			}
			if end := offsets[i+1]; end > offsets[i] && int(neighbors[end-1]) >= len(r.ranks) {
				return invalid("ranking", "vertex %d has an edge to %d, and by the edges that came there are %d vertices", v, neighbors[end-1], len(r.ranks))
			}
		}
		r.host.Parallel(len(some), front, func(lo, hi int) {
			var own []uint32
			waited := uint64(0)
			for i := lo; i < hi; i++ {
				v := some[i]
				atomic.AndUint32(&r.marks[v], ^uint32(markActive))
				if to := neighbors[offsets[i]:offsets[i+1]]; len(to) > 0 {
					waited += r.waits(v)
					own = r.hand(v, to, own)
					waited -= r.waits(v) // the remainder of a division
				}
			}
			r.changed.add(own)
			all.Add(waited)
		})
	}
	r.waiting -= all.Load()
	r.active.used.Store(0)
	r.load = 0
	return nil
}

// hand hands on the rank of a vertex, and appends the neighbors that are not yet marked.
func (r *Ranking) hand(u uint32, to, noted []uint32) []uint32 {
	share := r.ranks[u] / uint64(len(to))
	more := share - r.handed[u]
	r.handed[u] = share
	if more == 0 {
		return noted
	}
	for _, v := range to {
		atomic.AddUint64(&r.sums[v], more)
		if r.mark(v, markChanged) {
			noted = append(noted, v)
		}
	}
	return noted
}

// mark marks a vertex, and reports whether it was unmarked.
func (r *Ranking) mark(v, as uint32) bool {
	return atomic.LoadUint32(&r.marks[v])&as == 0 && atomic.OrUint32(&r.marks[v], as)&as == 0
}

// refresh computes ranks from sums, and finds the vertices that must hand on.
func (r *Ranking) refresh() {
	n := uint64(len(r.ranks))
	changed := r.changed.all()
	vertex := func(i int) uint32 { return changed[i] }
	count := len(changed)
	if r.adrift() {
		vertex, count = func(i int) uint32 { return uint32(i) }, len(r.ranks)
	}
	var idle, load, waits atomic.Uint64
	r.host.Parallel(count, grain, func(lo, hi int) {
		var own []uint32
		more, waiting, arcs := uint64(0), uint64(0), uint64(0)
		for i := lo; i < hi; i++ {
			v := vertex(i)
			r.marks[v] &^= markChanged
			waiting -= r.waits(v)
			followed, _ := bits.Mul64(r.sums[v]+r.spread/n, r.damping)
			before := r.ranks[v]
			r.ranks[v] = r.base + followed
			if r.degrees[v] == 0 {
				more += r.ranks[v] - before
				continue
			}
			now := r.waits(v)
			waiting += now
			if now > r.limit && r.mark(v, markActive) {
				own = append(own, v)
				arcs += uint64(r.degrees[v])
			}
		}
		r.active.add(own)
		idle.Add(more)
		load.Add(arcs)
		waits.Add(waiting)
	})
	r.idle += idle.Load()
	r.load += load.Load()
	r.waiting += waits.Load()
	r.changed.used.Store(0)
}

// waits returns how much of its rank a vertex has not handed on, or has handed on in excess. If
// edges have just come it may exceed 64 bits. It is then added and subtracted once each, so sums
// are right in the end.
func (r *Ranking) waits(v uint32) uint64 {
	d := uint64(r.degrees[v])
	if d == 0 {
		return 0
	}
	return apart(r.ranks[v]/d, r.handed[v]) * d
}
