package workload

import (
	"fmt"
	"math"
)

// Zipf draws ranks 0, 1, … n-1 with probability proportional to 1/(rank+1)^theta. Its exponents
// are below 1, such as YCSB's 0.99, which the generator of math/rand does not support. The method
// is that of Gray et al., "Quickly generating billion-record synthetic databases" (1994): the first
// two ranks are exact, and the others invert an integral.
type Zipf struct {
	n                 uint64
	theta, alpha, eta float64
	zeta              float64 // sum of all weights
}

// NewZipf returns a Zipf of n ranks. theta must lie strictly between 0 (uniform) and 1.
func NewZipf(n uint64, theta float64) (*Zipf, error) {
	if n == 0 || !(theta > 0 && theta < 1) {
		return nil, fmt.Errorf("workload: Zipf of %d ranks with exponent %g: need at least 1 rank and an exponent strictly between 0 and 1", n, theta)
	}
	z := &Zipf{n: n, theta: theta, alpha: 1 / (1 - theta), zeta: zeta(n, theta)}
	if n > 2 { // otherwise the exact ranks are the only ones
		z.eta = (1 - math.Pow(2/float64(n), 1-theta)) / (1 - zeta(2, theta)/z.zeta)
	}
	return z, nil
}

// N returns the number of ranks.
func (z *Zipf) N() uint64 { return z.n }

// Rank maps a uniform 64-bit draw to a rank.
func (z *Zipf) Rank(draw uint64) uint64 {
	u := float64(draw>>11) / (1 << 53)
	switch weight := u * z.zeta; {
	case z.n == 1 || weight < 1:
		return 0
	case z.n == 2 || weight < 1+math.Pow(.5, z.theta):
		return 1
	}
	r := uint64(float64(z.n) * math.Pow(z.eta*(u-1)+1, z.alpha))
	return min(r, z.n-1) // rounding can reach n
}

// Share returns the probability that a draw is among the k lowest ranks. It is computed from the
// definition, not from the generator's approximation.
func (z *Zipf) Share(k uint64) float64 { return zeta(min(k, z.n), z.theta) / z.zeta }

// zeta returns the sum of 1/i^theta for i in 1…n. After a million terms it uses the
// Euler-Maclaurin formula, with an error below 1e-12.
func zeta(n uint64, theta float64) float64 {
	const exact = 1 << 20
	sum := 0.
	for i := min(n, exact); i > 0; i-- { // small terms first, for precision
		sum += math.Pow(float64(i), -theta)
	}
	if n > exact {
		a, b := float64(exact), float64(n)
		sum += (math.Pow(b, 1-theta)-math.Pow(a, 1-theta))/(1-theta) +
			(math.Pow(b, -theta)-math.Pow(a, -theta))/2 +
			theta*(math.Pow(a, -theta-1)-math.Pow(b, -theta-1))/12
	}
	return sum
}
