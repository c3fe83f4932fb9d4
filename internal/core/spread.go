package core

// WeylOrder is the order in which the lines or buckets of a table are read. Place number i in the
// order is i·step modulo n. step is coprime to n and near n divided by the golden ratio (a Weyl
// sequence). Each place occurs once, and any run of consecutive i is spread evenly over the table.
// The gaps between the places of a run have at most three lengths (Sós, Świerczkowski, 1958). The
// gaps are similar if the continued fraction of step/n has small terms. Keys lie in their table in
// the order of their hash. So deleting keys, or inserting them into another table, in this order
// empties or fills each table evenly, whatever its size. In the order of the lines, a table would
// empty or fill one region at a time. Kernels compute the same order in spread.cuh.
type WeylOrder struct{ n, step uint32 }

const (
	// 1 divided by the golden ratio; all terms of its continued fraction are 1
	golden = 0.61803398874989484820
	// candidates is the number of integers near n·golden among which NewWeylOrder chooses.
	// Rounding makes the last terms of the fraction arbitrary.
	candidates = 128
)

// NewWeylOrder returns the order of n places, with 1 ≤ n < 1<<31.
func NewWeylOrder(n uint32) WeylOrder {
	first := uint32(max(int64(float64(n)*golden)-candidates/2, 1))
	best, lowest := first, ^uint32(0)
	for step := first; step < min(first+candidates, n); step++ {
		if terms := largestTerm(n, step); terms < lowest {
			best, lowest = step, terms
		}
	}
	return WeylOrder{n, best}
}

// largestTerm returns the largest term of the continued fraction of step/n. If n and step have a
// common divisor, it returns the largest uint32.
func largestTerm(n, step uint32) uint32 {
	largest := uint32(0)
	for step != 0 {
		if largest = max(largest, n/step); n%step == 0 {
			break
		}
		n, step = step, n%step
	}
	if step != 1 {
		return ^uint32(0)
	}
	return largest
}

// At returns place number i in the order.
func (s WeylOrder) At(i uint32) uint32 { return uint32(uint64(i) * uint64(s.step) % uint64(s.n)) }

// Next returns the place after the given place, without a division.
func (s WeylOrder) Next(place uint32) uint32 {
	if place += s.step; place >= s.n {
		place -= s.n
	}
	return place
}

// Step returns the distance between consecutive places. Kernels compute the order from it and n.
func (s WeylOrder) Step() uint32 { return s.step }
