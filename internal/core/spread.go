package core

// Spread is the order in which the lines or buckets of a table are read: place
// number i is i·step modulo n, with a step without a common divisor with n and
// near n divided by the golden ratio (a Weyl sequence). Each place comes once,
// and any run of consecutive i is spread evenly over the table: the gaps between
// its places have three lengths at most (Sós, Świerczkowski, 1958), and all are
// alike if the continued fraction of step/n has small terms. Homes lie in the
// order of the hash, so keys that are deleted, or put into another table, in the
// order in which a table is read leave and fill each table evenly, whatever its
// size. Read in the order of its lines, a table would empty or fill a region at
// a time. Twin: spread.cuh.
type Spread struct{ n, step uint32 }

const (
	golden = 0.61803398874989484820 // 1 divided by the golden ratio: all terms are 1
	// candidates are the whole numbers next to n·golden of which the best is
	// taken: rounding makes the last terms of the fraction what they happen to be.
	candidates = 128
)

// SpreadOver is the order of n places, 1 ≤ n < 1<<31.
func SpreadOver(n uint32) Spread {
	first := uint32(max(int64(float64(n)*golden)-candidates/2, 1))
	best, least := first, ^uint32(0)
	for step := first; step < min(first+candidates, n); step++ {
		if terms := largestTerm(n, step); terms < least {
			best, least = step, terms
		}
	}
	return Spread{n, best}
}

// largestTerm is that of the continued fraction of step/n; the largest number if
// both have a common divisor.
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

// At is place number i.
func (s Spread) At(i uint32) uint32 { return uint32(uint64(i) * uint64(s.step) % uint64(s.n)) }

// Next is the place behind a place, without a division.
func (s Spread) Next(place uint32) uint32 {
	if place += s.step; place >= s.n {
		place -= s.n
	}
	return place
}

// Step is what kernels need of the order, beside n.
func (s Spread) Step() uint32 { return s.step }
