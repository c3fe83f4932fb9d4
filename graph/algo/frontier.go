package algo

import (
	"context"
	"math/bits"
	"sync/atomic"
)

// settle hands ranks on until nobody has to.
func (r *Ranking) settle(ctx context.Context, read rowsOf) (result PageRankResult, err error) {
	for {
		if r.failed = r.handOn(read); r.failed != nil {
			return result, r.failed
		}
		if r.settled() || result.Iterations == r.o.Iterations {
			break
		}
		if err := ctx.Err(); err != nil {
			return result, err
		}
		r.refresh()
		result.Iterations++
	}
	result.Change = r.pending()
	return result, nil
}

// settled reports whether no rank may have become another.
func (r *Ranking) settled() bool {
	return !r.all && r.changed.used.Load() == 0 && apart(r.idle, r.spread) <= r.limit*uint64(len(r.ranks))
}

func apart(a, b uint64) uint64 { return max(a, b) - min(a, b) }

// handOn gives all neighbors of active vertices what they are to have, and notes whose rank that changes. Sums are integers, so that the order
// in which cores add does not matter.
func (r *Ranking) handOn(read rowsOf) error {
	active := r.active.all()
	err := read(active, func(lo, hi int, row func(i int) []uint32) {
		var own []uint32
		for i := lo; i < hi; i++ {
			to := row(i)
			if len(to) == 0 {
				continue
			}
			own = r.hand(active[i], to, own)
		}
		r.changed.add(own)
	})
	r.active.used.Store(0)
	return err
}

// hand hands on the rank of a vertex, and appends the neighbors that nobody has noted.
func (r *Ranking) hand(u uint32, to, noted []uint32) []uint32 {
	share := r.ranks[u] / uint64(len(to))
	more := share - r.handed[u]
	r.handed[u] = share
	if more == 0 {
		return noted
	}
	for _, v := range to {
		atomic.AddUint64(&r.sums[v], more)
		if atomic.LoadUint32(&r.marks[v]) == 0 && atomic.SwapUint32(&r.marks[v], 1) == 0 {
			noted = append(noted, v)
		}
	}
	return noted
}

// refresh makes ranks of sums, and finds out who has to hand on.
func (r *Ranking) refresh() {
	n := uint64(len(r.ranks))
	if apart(r.idle, r.spread) > r.limit*n {
		r.spread, r.all = r.idle, true
	}
	changed := r.changed.all()
	for _, v := range changed {
		r.marks[v] = 0
	}
	vertex := func(i int) uint32 { return changed[i] }
	count := len(changed)
	if r.all {
		vertex, count = func(i int) uint32 { return uint32(i) }, len(r.ranks)
	}
	var idle atomic.Uint64
	r.host.Parallel(count, grain, func(lo, hi int) {
		var own []uint32
		more := uint64(0)
		for i := lo; i < hi; i++ {
			v := vertex(i)
			followed, _ := bits.Mul64(r.sums[v]+r.spread/n, r.damping)
			before := r.ranks[v]
			r.ranks[v] = r.base + followed
			if r.degrees[v] == 0 {
				more += r.ranks[v] - before
			} else if r.waits(v) > r.limit {
				own = append(own, v)
			}
		}
		r.active.add(own)
		idle.Add(more)
	})
	r.idle += idle.Load()
	r.changed.used.Store(0)
	r.all = false
}

// waits is how much of its rank a vertex with neighbors has not handed on, or too much.
func (r *Ranking) waits(v uint32) uint64 {
	d := uint64(r.degrees[v])
	return apart(r.ranks[v]/d, r.handed[v]) * d
}

// pending is what all vertices have not handed on, as a share of all ranks.
func (r *Ranking) pending() float64 {
	var all atomic.Uint64
	r.host.Parallel(len(r.ranks), grain, func(lo, hi int) {
		own := uint64(0)
		for v := lo; v < hi; v++ {
			if r.degrees[v] > 0 {
				own += r.waits(uint32(v))
			}
		}
		all.Add(own)
	})
	return float64(all.Load()+apart(r.idle, r.spread)) / RankOne
}
