package algo

import (
	"context"
	"math/bits"
	"slices"
	"sync/atomic"
)

// Marks of a vertex.
const (
	markChanged = 1 << iota // the vertex is in Ranking.changed
	markActive              // the vertex is in Ranking.active
)

// converge pushes ranks until the residual is within the tolerance.
func (r *Ranking) converge(ctx context.Context, g Reader) (result PageRankResult, err error) {
	for r.unconverged(len(r.changed.vertices()), len(r.active.vertices())) && result.Iterations < r.o.Iterations {
		if err := ctx.Err(); err != nil {
			return result, err
		}
		if r.shouldSweep() {
			c, err := g.CSR(ctx)
			if err != nil {
				return result, err
			}
			if r.failed = r.checkDegrees(c); r.failed != nil {
				return result, r.failed
			}
			return r.runSweeps(ctx, c, result)
		}
		if r.failed = r.pushActive(context.WithoutCancel(ctx), g); r.failed != nil {
			return result, r.failed
		}
		r.updateRanks()
		result.Iterations++
	}
	result.Change = r.residualShare()
	return result, nil
}

// rowsPerRead is the maximum number of rows that are read at a time.
const rowsPerRead = 1 << 16

// pushActive pushes the ranks of the active vertices to their neighbors, and records the neighbors
// as changed. Sums are integers, so the order in which cores add does not matter.
func (r *Ranking) pushActive(ctx context.Context, g Reader) error {
	var pushed atomic.Uint64
	for active := range slices.Chunk(r.active.vertices(), rowsPerRead) {
		offsets, neighbors, err := g.Rows(ctx, active)
		if err != nil {
			return err
		}
		for i, v := range active {
			if degree := offsets[i+1] - offsets[i]; degree != uint64(r.degrees[v]) {
				return degreeError(v, uint32(degree), r.degrees[v])
			}
			if end := offsets[i+1]; end > offsets[i] && int(neighbors[end-1]) >= len(r.ranks) {
				return invalid("ranking", "vertex %d has an edge to %d, but by the inserted edges there are %d vertices", v, neighbors[end-1], len(r.ranks))
			}
		}
		r.host.Parallel(len(active), front, func(lo, hi int) {
			var changed []uint32
			part := uint64(0)
			for i := lo; i < hi; i++ {
				v := active[i]
				atomic.AndUint32(&r.marks[v], ^uint32(markActive))
				if to := neighbors[offsets[i]:offsets[i+1]]; len(to) > 0 {
					part += r.residualOf(v)
					changed = r.push(v, to, changed)
					part -= r.residualOf(v) // the remainder of the division by the degree
				}
			}
			r.changed.add(changed)
			pushed.Add(part)
		})
	}
	r.residual -= pushed.Load()
	r.active.used.Store(0)
	r.load = 0
	return nil
}

// push pushes the rank of a vertex to its neighbors. It appends the newly changed neighbors.
func (r *Ranking) push(u uint32, to, changed []uint32) []uint32 {
	share := r.ranks[u] / uint64(len(to))
	delta := share - r.pushed[u]
	r.pushed[u] = share
	if delta == 0 {
		return changed
	}
	for _, v := range to {
		atomic.AddUint64(&r.sums[v], delta)
		if r.mark(v, markChanged) {
			changed = append(changed, v)
		}
	}
	return changed
}

// mark sets a mark of a vertex and reports whether the mark was unset.
func (r *Ranking) mark(v, as uint32) bool {
	return atomic.LoadUint32(&r.marks[v])&as == 0 && atomic.OrUint32(&r.marks[v], as)&as == 0
}

// updateRanks computes ranks from sums and finds the vertices that must push.
func (r *Ranking) updateRanks() {
	n := uint64(len(r.ranks))
	changed := r.changed.vertices()
	vertex := func(i int) uint32 { return changed[i] }
	count := len(changed)
	if r.redistribute() {
		vertex, count = func(i int) uint32 { return uint32(i) }, len(r.ranks)
	}
	var dangling, load, residual atomic.Uint64
	r.host.Parallel(count, grain, func(lo, hi int) {
		var active []uint32
		danglingPart, residualPart, arcs := uint64(0), uint64(0), uint64(0)
		for i := lo; i < hi; i++ {
			v := vertex(i)
			r.marks[v] &^= markChanged
			residualPart -= r.residualOf(v)
			followed, _ := bits.Mul64(r.sums[v]+r.distributed/n, r.damping)
			before := r.ranks[v]
			r.ranks[v] = r.base + followed
			if r.degrees[v] == 0 {
				danglingPart += r.ranks[v] - before
				continue
			}
			rest := r.residualOf(v)
			residualPart += rest
			if rest > r.limit && r.mark(v, markActive) {
				active = append(active, v)
				arcs += uint64(r.degrees[v])
			}
		}
		r.active.add(active)
		dangling.Add(danglingPart)
		load.Add(arcs)
		residual.Add(residualPart)
	})
	r.dangling += dangling.Load()
	r.load += load.Load()
	r.residual += residual.Load()
	r.changed.used.Store(0)
}

// residualOf returns the absolute difference between the rank of a vertex and what it has pushed.
// After an insertion of edges the result may overflow. It is then subtracted as it was added, so
// totals are right in the end.
func (r *Ranking) residualOf(v uint32) uint64 {
	d := uint64(r.degrees[v])
	if d == 0 {
		return 0
	}
	return absDiff(r.ranks[v]/d, r.pushed[v]) * d
}
