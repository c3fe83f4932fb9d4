package core

// WeylOrder is the order in which the lines or buckets of a table are read. Place number i is
// i·step modulo n, where step is coprime to n and near n divided by the golden ratio (a Weyl
// sequence). Each place comes once, and any run of consecutive i is spread evenly over the table:
// the gaps between its places have at most three lengths (Sós, Świerczkowski, 1958), and all are
// similar if the continued fraction of step/n has small terms. Homes lie in the order of the hash.
// So deleting keys, or inserting them into another table, in the order in which a table is read
// empties and fills each table evenly, whatever its size. In the order of its lines, a table would
// empty or fill one region at a time. Twin: spread.cuh.
type WeylOrder struct{ n, step uint32 }

const (
	golden = 0.61803398874989484820 // 1 divided by the golden ratio: all terms are 1
	// candidates is the number of integers next to n·golden from which NewWeylOrder takes the best:
	// rounding makes the last terms of the fraction arbitrary.
	candidates = 128
)

// NewWeylOrder returns the order of n places, 1 ≤ n < 1<<31.
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

// largestTerm returns the largest term of the continued fraction of step/n, or the largest number
// if both have a common divisor.
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

// At returns place number i.
func (s WeylOrder) At(i uint32) uint32 { return uint32(uint64(i) * uint64(s.step) % uint64(s.n)) }

// Next returns the place after a place, without a division.
func (s WeylOrder) Next(place uint32) uint32 {
	if place += s.step; place >= s.n {
		place -= s.n
	}
	return place
}

// Step returns the step, which kernels use together with n.
func (s WeylOrder) Step() uint32 { return s.step }
