package group

import (
	"math"

	"github.com/weftgo/weft/column"
)

// The variance comes from the sum and the sum of squares of the values. Each sum is a pair of
// floats with 106 significant bits: the high part is the sum rounded to a float64, the low part is
// the rounding error. Pairs are added in any order, so states merge like other sums. The variance
// keeps at least 40 bits if the values are up to 10^9 standard deviations from zero. Welford's
// method, merged by Chan's rule, loses bits there that depend on the order of the rows, and divides
// once per row. (Dekker, A floating-point technique for extending the available precision, 1971.)

// momentsWords is the number of words of a slot: the sum and the sum of squares, each as a high and
// a low part.
const momentsWords = 4

func (k slotKind) isMoments() bool { return k >= momentsSigned && k <= momentsFloat }

// momentsState lists the state columns of a slot of moments. Merging adds each to its pair.
func momentsState(offset int) []stateColumn {
	kinds := [momentsWords]slotKind{addHigh, addLow, addHigh, addLow}
	all := make([]stateColumn, momentsWords)
	for i := range all {
		s := slot{kind: kinds[i], offset: offset + i}
		all[i] = stateColumn{typ: column.Float64, slot: s, source: -1}
	}
	return all
}

// addMoments adds a value to the slot at the start of words.
func addMoments(words []uint64, x float64) {
	addDouble(words, x, 0)
	square := x * x
	addDouble(words[2:], square, math.FMA(x, x, -square))
}

// addDouble adds the pair (high, low) to the pair at the start of words.
func addDouble(words []uint64, high, low float64) {
	a, b := math.Float64frombits(words[0]), math.Float64frombits(words[1])
	s, e := twoSum(a, high)
	e += b + low
	sum := s + e
	words[0], words[1] = math.Float64bits(sum), math.Float64bits(e-(sum-s))
}

// twoSum returns a+b, and the error of that sum.
func twoSum(a, b float64) (sum, err float64) {
	sum = a + b
	c := sum - a
	return sum, (a - (sum - c)) + (b - c)
}

// spreadReader returns a reader of the variance or the standard deviation.
func spreadReader(a reading) reader {
	return reader{words: func(r *run, b *readBuffer) bool {
		for j := range r.n {
			i := r.lo + j
			n := r.p.rows(i) - r.p.nullCount(a.source, i)
			v := 0.
			if n >= 2 {
				v = variance(r.p.recs[r.p.rec(i)+a.slot.offset:], n)
			}
			if a.fn == StdDev {
				v = math.Sqrt(v)
			}
			b.words[j], b.null[j] = math.Float64bits(v), n < 2
		}
		return true
	}}
}

// variance returns the variance of a sample of n values from their moments: the sum of squares less
// the square of the sum over n, over n-1.
func variance(words []uint64, n uint64) float64 {
	f := math.Float64frombits
	high, low, count := f(words[0]), f(words[1]), float64(n)
	square := high * high
	squareLow := math.FMA(high, high, -square) + float64(2*high*low)
	mean := square / count // of the squared sum; its error follows
	meanLow := (math.FMA(-mean, count, square) + squareLow) / count
	distances := (f(words[2]) - mean) + (f(words[3]) - meanLow)
	return math.Max(0, distances) / (count - 1)
}
