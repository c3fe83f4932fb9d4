package group

import (
	"math"
	"math/big"
	"math/bits"

	"github.com/weftgo/weft/column"
)

// The variance comes from the sum and the sum of squares of the values. Of integers, both are
// exact: numbers of two and three words. Of floats, each is three terms: the sum, and two levels of
// the rounding errors (Klein, A generalized Kahan-Babuska summation algorithm, 2006). Three terms
// hold the squares of values of like size exactly, so values far from zero lose no digits. All
// words are added in any order, so states merge like other sums. Welford's method, merged by Chan's
// rule, keeps fewer digits, and they depend on the order of the rows.

func (k slotKind) isMoments() bool { return k >= momentsSigned && k <= momentsFloat }

// momentsState lists the state columns of a slot of moments. Merging adds each to its word, and
// carries what does not fit to the words after it.
func momentsState(x slot) []stateColumn {
	kinds, typ := []slotKind{addLimb2, addLimb1, addLimb3, addLimb2, addLimb1}, column.Uint64
	if x.kind == momentsFloat {
		kinds = []slotKind{addTerm3, addTerm2, addTerm1, addTerm3, addTerm2, addTerm1}
		typ = column.Float64
	}
	all := make([]stateColumn, len(kinds))
	for i, kind := range kinds {
		all[i] = stateColumn{typ: typ, slot: slot{kind: kind, offset: x.offset + i}, source: -1}
	}
	return all
}

// addInt adds an integer to the moments at the start of words. magnitude is its absolute value.
func addInt(words []uint64, x, sign, magnitude uint64) {
	var carry uint64
	words[0], carry = bits.Add64(words[0], x, 0)
	words[1] += sign + carry
	high, low := bits.Mul64(magnitude, magnitude)
	words[2], carry = bits.Add64(words[2], low, 0)
	words[3], carry = bits.Add64(words[3], high, carry)
	words[4] += carry
}

// addFloat adds a float to the moments at the start of words.
func addFloat(words []uint64, x float64) {
	addTerm(words[:3], x)
	square := x * x
	addTerm(words[3:6], square)
	addTerm(words[4:6], math.FMA(x, x, -square))
}

// addTerm adds a float to a sum of terms. Each term takes the rounding error of the one before.
func addTerm(terms []uint64, x float64) {
	for i := range terms {
		t := math.Float64frombits(terms[i])
		sum := t + x
		c := sum - t
		x = (t - (sum - c)) + (x - c)
		terms[i] = math.Float64bits(sum)
	}
}

// addLimb adds a word to an integer, which begins with its lowest word.
func addLimb(limbs []uint64, x uint64) {
	for i := range limbs {
		limbs[i], x = bits.Add64(limbs[i], x, 0)
	}
}

// addLimbs and addTerms return an update that adds to a number of n words.
func addLimbs(n int) func(p *part, at int, ids []uint32, words []uint64) {
	return func(p *part, at int, ids []uint32, words []uint64) {
		for i, rec := range ids {
			at := int(rec) + at
			addLimb(p.recs[at:at+n], words[i])
		}
	}
}

func addTerms(n int) func(p *part, at int, ids []uint32, words []uint64) {
	return func(p *part, at int, ids []uint32, words []uint64) {
		for i, rec := range ids {
			at := int(rec) + at
			addTerm(p.recs[at:at+n], math.Float64frombits(words[i]))
		}
	}
}

// spreadReader returns a reader of the variance or the standard deviation.
func spreadReader(a reading) reader {
	return reader{words: func(r *run, b *readBuffer) bool {
		for j := range r.n {
			i := r.lo + j
			n, v := r.p.rows(i)-r.p.nullCount(a.source, i), 0.
			words := r.p.recs[r.p.rec(i)+a.slot.offset:]
			switch {
			case n < 2:
			case a.slot.kind == momentsFloat:
				v = varianceOfFloats(words, float64(n))
			default:
				v = varianceOfInts(words, n, a.slot.kind == momentsSigned)
			}
			if a.fn == StdDev {
				v = math.Sqrt(v)
			}
			b.words[j], b.null[j] = math.Float64bits(v), n < 2
		}
		return true
	}}
}

// varianceOfInts returns (n * squares - sum * sum) / (n * (n - 1)). The numerator is exact.
func varianceOfInts(words []uint64, n uint64, signed bool) float64 {
	divisor := float64(n) * float64(n-1)
	low, high := words[0], words[1]
	if signed && int64(high) < 0 {
		var carry uint64
		low, carry = bits.Add64(^low, 1, 0)
		high = ^high + carry
	}
	if high == 0 && words[3] == 0 && words[4] == 0 {
		h, l := bits.Mul64(n, words[2])
		sh, sl := bits.Mul64(low, low)
		l, borrow := bits.Sub64(l, sl, 0)
		if h, borrow = bits.Sub64(h, sh, borrow); borrow == 0 {
			return (math.Ldexp(float64(h), 64) + float64(l)) / divisor
		}
		return 0 // no values have these sums: a stream had them
	}
	number := func(limbs ...uint64) *big.Int { // the highest limb first
		x := new(big.Int)
		for _, limb := range limbs {
			x.Or(x.Lsh(x, 64), new(big.Int).SetUint64(limb))
		}
		return x
	}
	sum, squares := number(high, low), number(words[4], words[3], words[2])
	squares.Mul(squares, number(n)).Sub(squares, sum.Mul(sum, sum))
	v, _ := new(big.Float).SetInt(squares).Float64()
	return max(0, v/divisor)
}

// varianceOfFloats returns (squares - sum * sum / n) / (n - 1).
func varianceOfFloats(words []uint64, n float64) float64 {
	term := func(i int) float64 { return math.Float64frombits(words[i]) }
	sum, squares := term(0)+(term(1)+term(2)), term(3)+(term(4)+term(5))
	rest := squares - sum/n*sum
	if math.IsNaN(rest) || math.IsInf(rest, 0) {
		return math.NaN()
	}
	if rest > squares/1024 { // few digits cancel
		return rest / (n - 1)
	}
	exact := func(x float64) *big.Float { return new(big.Float).SetPrec(512).SetFloat64(x) }
	of := func(i int) *big.Float {
		x := exact(term(i))
		return x.Add(x, exact(term(i+1))).Add(x, exact(term(i+2)))
	}
	s, q := of(0), of(3)
	v, _ := q.Sub(q, s.Mul(s, s).Quo(s, exact(n))).Float64()
	return max(0, v) / (n - 1)
}
