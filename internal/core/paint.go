package core

import "slices"

// Span are pairs [From,To) of a table that is ordered.
type Span struct{ From, To int }

// Paint gives each pair to the first of the spans that have it, for an engine that deletes
// ranges. It returns all of them as spans that neither meet nor overlap, in order, and how many each
// span has been given. The ends of all spans cut the pairs into sections; those that have been
// given away are skipped.
func Paint(spans []Span) (all []Span, counts []uint32) {
	ends := make([]int, 0, 2*len(spans))
	for _, s := range spans {
		ends = append(ends, s.From, s.To)
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
