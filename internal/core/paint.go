package core

import "slices"

// Span is the pairs with indexes [From,To) in an ordered table.
type Span struct{ From, To int }

// AssignRanges assigns each pair to the first span that contains it. Engines call it to delete
// ranges. all is the union of the spans, ascending, without overlapping or adjacent spans.
// counts[i] is the number of pairs assigned to spans[i]. AssignRanges divides the pairs into
// sections at the ends of all spans, and skips sections that an earlier span has taken.
func AssignRanges(spans []Span) (all []Span, counts []uint32) {
	ends := make([]int, 0, 2*len(spans))
	for _, s := range spans {
		ends = append(ends, s.From, s.To)
	}
	slices.Sort(ends)
	ends = slices.Compact(ends)
	free := make([]int, len(ends)) // next unassigned section, or a step toward it (union-find)
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
	counts = make([]uint32, len(spans))
	for n, s := range spans {
		from, _ := slices.BinarySearch(ends, s.From)
		for i := next(from); ends[i] < s.To; i = next(i) {
			counts[n] += uint32(ends[i+1] - ends[i])
			free[i] = i + 1
		}
	}
	for i := range free {
		switch n := len(all); {
		case free[i] == i:
		case n > 0 && all[n-1].To == ends[i]:
			all[n-1].To = ends[i+1]
		default:
			all = append(all, Span{ends[i], ends[i+1]})
		}
	}
	return all, counts
}
