package sorted

import (
	"context"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/inorder"
)

// deleteRanges deletes the pairs inside ranges. A pair that lies in several ranges is counted for
// the first one.
func (e *cpuEngine[K, V]) deleteRanges(ctx context.Context, b *batch.Batch) error {
	q := queries[K, V]{
		array: pairsOf[K, V](e.Parts()), flip: e.Flip,
		lo: batch.View[K](b.Columns[batch.Keys].Host), hi: batch.View[K](b.Columns[batch.Keys2].Host),
	}
	removed, err := e.Gone(ctx, b, q.spans)
	if err != nil {
		return err
	}
	return e.replace(jobsOutside[K, V](removed, len(q.array.vals)))
}

// spans finds the indexes of the pairs inside each of ranges [from,to), on one core.
func (q *queries[K, V]) spans(w *cpu.Watch, from, to int, spans []core.Span) (ran, hits int) {
	var at, ends inorder.Places
	for lo := from; lo < to; lo += inorder.Searched {
		if w.ShouldStop(inorder.Searched) {
			return lo - from, 0
		}
		hi := min(lo+inorder.Searched, to)
		q.Search(q.lo[lo:hi], q.flip, &at)
		q.Search(q.hi[lo:hi], q.flip, &ends)
		for i := lo; i < hi; i++ {
			spans[i].From, spans[i].To = q.span(i, at[i-lo], ends[i-lo])
		}
	}
	return to - from, 0
}

// jobsOutside returns jobs that write the n pairs of the map, except those with removed indexes.
func jobsOutside[K, V uint32 | uint64](removed []core.Span, n int) (jobs []job[K, V], live int, changes bool) {
	from := 0
	for _, s := range append(removed, core.Span{From: n, To: n}) {
		for from < s.From {
			to := min(from+jobPairs, s.From)
			jobs = append(jobs, job[K, V]{from: from, to: to, at: live})
			live += to - from
			from = to
		}
		from = s.To
	}
	return jobs, live, len(removed) > 0
}
