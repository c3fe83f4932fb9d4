package sorted

import (
	"context"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/inorder"
)

// deleteRanges removes the pairs of ranges. A pair in several ranges counts for the first one.
func (e *cpuEngine[K, V]) deleteRanges(ctx context.Context, b *batch.Batch) error {
	q := questions[K, V]{
		array: pairsOf[K, V](e.Parts()), flip: e.Flip,
		lo: batch.View[K](b.Columns[batch.Keys].Host), hi: batch.View[K](b.Columns[batch.Keys2].Host),
	}
	gone, err := e.Gone(ctx, b, q.spans)
	if err != nil {
		return err
	}
	return e.replace(keep[K, V](gone, len(q.array.vals)))
}

// spans finds the pairs of ranges [from,to) on one core.
func (q *questions[K, V]) spans(w *cpu.Watch, from, to int, spans []core.Span) (ran, hits int) {
	var at, ends inorder.Places
	for lo := from; lo < to; lo += inorder.Searched {
		if w.Over(inorder.Searched) {
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

// keep returns jobs that write those of n pairs that are not in spans.
func keep[K, V uint32 | uint64](gone []core.Span, n int) (jobs []job[K, V], live int, changes bool) {
	from := 0
	for _, s := range append(gone, core.Span{From: n, To: n}) {
		for from < s.From {
			to := min(from+jobPairs, s.From)
			jobs = append(jobs, job[K, V]{from: from, to: to, at: live})
			live += to - from
			from = to
		}
		from = s.To
	}
	return jobs, live, len(gone) > 0
}
