package sorted

import (
	"context"
	"slices"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/cpu"
)

// deleteRanges removes the pairs of ranges. A pair of several ranges counts for the first one.
func (e *cpuEngine[K, V]) deleteRanges(ctx context.Context, b *batch.Batch) error {
	q := questions[K, V]{
		array: pairsOf[K, V](e.Parts()), flip: e.flip,
		lo: batch.View[K](b.Columns[batch.Keys].Host), hi: batch.View[K](b.Columns[batch.Keys2].Host),
	}
	spans := make([]span, b.N)
	done, _, err := e.Each(ctx, b.N, func(w *cpu.Watch, from, to int) (ran, hits int) { return q.spans(w, from, to, spans) })
	if done < b.N {
		return err
	}
	gone, counts := paint(spans)
	if to := batch.View[uint32](b.Columns[batch.Counts].Host); to != nil {
		for i, n := range counts {
			to[i] = uint32(n)
		}
	}
	return e.replace(keep[K, V](gone, len(q.array.keys)))
}

// span are pairs [from,to).
type span struct{ from, to int }

// spans finds the pairs of ranges [from,to) on one core.
func (q *questions[K, V]) spans(w *cpu.Watch, from, to int, spans []span) (ran, hits int) {
	var at, ends places
	for lo := from; lo < to; lo += searched {
		if w.Over(searched) {
			return lo - from, 0
		}
		hi := min(lo+searched, to)
		q.search(q.lo[lo:hi], q.flip, &at)
		q.search(q.hi[lo:hi], q.flip, &ends)
		for i := lo; i < hi; i++ {
			spans[i].from, spans[i].to = q.span(i, at[i-lo], ends[i-lo])
		}
	}
	return to - from, 0
}

// paint gives each pair to the first of the spans that have it, and returns all of them as
// spans that neither meet nor overlap, in order, and how many each span has been given. The
// ends of all spans cut the pairs into sections; those that have been given away are skipped.
func paint(spans []span) (all []span, counts []int) {
	ends := make([]int, 0, 2*len(spans))
	for _, s := range spans {
		ends = append(ends, s.from, s.to)
	}
	slices.Sort(ends)
	ends = slices.Compact(ends)
	free := make([]int, len(ends)) // the first section from here on that is free, or on the way to it
	for i := range free {
		free[i] = i
	}
	next := func(i int) int {
		for free[i] != i {
			free[i] = free[free[i]]
			i = free[i]
		}
		return i
	}
	counts = make([]int, len(spans))
	for n, s := range spans {
		from, _ := slices.BinarySearch(ends, s.from)
		for i := next(from); ends[i] < s.to; i = next(i) {
			counts[n] += ends[i+1] - ends[i]
			free[i] = i + 1
		}
	}
	for i := range free {
		switch n := len(all); {
		case free[i] == i:
		case n > 0 && all[n-1].to == ends[i]:
			all[n-1].to = ends[i+1]
		default:
			all = append(all, span{ends[i], ends[i+1]})
		}
	}
	return all, counts
}

// keep is to write the pairs, of so many, that are not in spans.
func keep[K, V uint32 | uint64](gone []span, n int) (jobs []job[K, V], live int, changes bool) {
	from := 0
	for _, s := range append(gone, span{n, n}) {
		for from < s.from {
			to := min(from+jobPairs, s.from)
			jobs = append(jobs, job[K, V]{from: from, to: to, at: live})
			live += to - from
			from = to
		}
		from = s.to
	}
	return jobs, live, len(gone) > 0
}
