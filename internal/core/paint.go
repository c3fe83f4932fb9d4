package core

import "slices"

// Span is the pairs [From,To) of an ordered table.
type Span struct{ From, To int }

// AssignRanges assigns each pair to the first span that contains it, for an engine that deletes
// ranges. It returns the union as spans that neither touch nor overlap, in order, and the number of
// pairs assigned to each span. The ends of all spans cut the pairs into sections; the search skips
// assigned sections.
func AssignRanges(spans []Span) (all []Span, counts []uint32) {
	ends := make([]int, 0, 2*len(spans))
	for _, s := range spans {
		ends = append(ends, s.From, s.To)
	}
	slices.Sort(ends)
	ends = slices.Compact(ends)
	free := make([]int, len(ends)) // the next free section, or a step toward it (union-find)
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
