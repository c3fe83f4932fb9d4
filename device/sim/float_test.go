package sim

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// This file compares floating-point arithmetic with a reference: exact rational numbers, rounded by
// division of integers.

func (f format) finite(v uint64) bool { return v&^f.sign() < f.infinity() }

// exact returns the value of a finite number.
func (f format) exact(v uint64) *big.Rat {
	if f.bits == 32 {
		return new(big.Rat).SetFloat64(float64(math.Float32frombits(uint32(v))))
	}
	return new(big.Rat).SetFloat64(math.Float64frombits(v))
}

func power(e int) *big.Rat {
	r := new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), uint(max(e, -e))))
	if e < 0 {
		r.Inv(r)
	}
	return r
}

// wholes returns a non-negative number, rounded to an integer.
func wholes(x *big.Rat, negative bool, mode rounding) *big.Int {
	q, r := new(big.Int).QuoRem(x.Num(), x.Denom(), new(big.Int))
	half := r.Lsh(r, 1).Cmp(x.Denom())
	var count bool
	switch mode {
	case toNearest:
		count = half > 0 || half == 0 && q.Bit(0) != 0
	case down:
		count = r.Sign() != 0 && negative
	case up:
		count = r.Sign() != 0 && !negative
	}
	if count {
		q.Add(q, big.NewInt(1))
	}
	return q
}

// rounded returns the bits of a nonzero number.
func (f format) rounded(x *big.Rat, mode rounding) uint64 {
	negative := x.Sign() < 0
	x = new(big.Rat).Abs(x)
	last := max(x.Num().BitLen()-x.Denom().BitLen()-f.digits, f.low)
	if new(big.Rat).Mul(x, power(-last)).Cmp(power(f.digits)) >= 0 {
		last++
	}
	q := wholes(new(big.Rat).Mul(x, power(-last)), negative, mode)
	if q.BitLen() > f.digits {
		q.Rsh(q, 1)
		last++
	}
	sign := uint64(0)
	if negative {
		sign = f.sign()
	}
	switch greatest := -f.low - 2*f.digits + 3; {
	case last > greatest && (mode == toNearest || mode == down && negative || mode == up && !negative):
		return sign | f.infinity()
	case last > greatest:
		return sign | (f.infinity() - 1)
	case q.BitLen() < f.digits:
		return sign | q.Uint64()
	}
	return sign | uint64(last-f.low+1)<<(f.digits-1) | q.Uint64()&^f.minNormal()
}

// hardFloat returns a number that is hard to compute with: near the ends of the range, with few
// digits, or with long runs of equal digits.
func hardFloat(f format, rng *rand.Rand) uint64 {
	exponents := 1<<(f.bits-f.digits) - 1
	e := rng.IntN(exponents)
	switch rng.IntN(6) {
	case 0:
		e = rng.IntN(3)
	case 1:
		e = exponents - 1 - rng.IntN(3)
	case 2, 3:
		e = exponents/2 + rng.IntN(2*f.digits+6) - f.digits - 3
	}
	m := rng.Uint64()
	switch rng.IntN(5) {
	case 0:
		m = 0
	case 1:
		m = uint64(1) << rng.IntN(64)
	case 2:
		m = -(uint64(1) << rng.IntN(64)) << rng.IntN(64)
	case 3:
		m = ^uint64(0) - uint64(rng.IntN(3))
	}
	v := uint64(e)<<(f.digits-1) | m&(f.minNormal()-1)
	if rng.IntN(2) == 0 {
		v |= f.sign()
	}
	return v
}

// zeroOf returns the zero that is the sum of a and b, which are opposite numbers or zeros.
func zeroOf(f format, mode rounding, a, b uint64) uint64 {
	if a&f.sign() == b&f.sign() && f.exact(a).Sign() == 0 {
		return a & f.sign()
	}
	if mode == down {
		return f.sign()
	}
	return 0
}

// exactly maps an operation to its exact result on finite operands. x is nil if the result is not a
// finite number. If x is 0, zero is the result.
var exactly = map[string]func(f format, mode rounding, a, b, c uint64) (x *big.Rat, zero uint64){
	"add": func(f format, mode rounding, a, b, _ uint64) (*big.Rat, uint64) {
		return new(big.Rat).Add(f.exact(a), f.exact(b)), zeroOf(f, mode, a, b)
	},
	"sub": func(f format, mode rounding, a, b, _ uint64) (*big.Rat, uint64) {
		return new(big.Rat).Sub(f.exact(a), f.exact(b)), zeroOf(f, mode, a, b^f.sign())
	},
	"mul": func(f format, _ rounding, a, b, _ uint64) (*big.Rat, uint64) {
		return new(big.Rat).Mul(f.exact(a), f.exact(b)), (a ^ b) & f.sign()
	},
	"div": func(f format, _ rounding, a, b, _ uint64) (*big.Rat, uint64) {
		if f.exact(b).Sign() == 0 {
			return nil, 0
		}
		return new(big.Rat).Quo(f.exact(a), f.exact(b)), (a ^ b) & f.sign()
	},
	"fma": func(f format, mode rounding, a, b, c uint64) (*big.Rat, uint64) {
		product := new(big.Rat).Mul(f.exact(a), f.exact(b))
		sign := (a ^ b) & f.sign()
		if product.Sign() != 0 { // product and c cancel each other
			sign = ^c & f.sign()
		}
		return product.Add(product, f.exact(c)), zeroOf(f, mode, c&f.sign(), sign)
	},
	"sqrt": func(f format, _ rounding, a, _, _ uint64) (*big.Rat, uint64) {
		x := f.exact(a)
		if x.Sign() < 0 {
			return nil, 0
		}
		// The integer has so long a root that one half more in the last digit stands for all
		// dropped digits in every rounding.
		const more = 1400
		n := new(big.Rat).Mul(x, power(2*more)).Num()
		root := new(big.Int).Sqrt(n)
		y := new(big.Rat).SetInt(root)
		if new(big.Int).Mul(root, root).Cmp(n) != 0 {
			y.Add(y, big.NewRat(1, 2))
		}
		return y.Mul(y, power(-more)), a & f.sign()
	},
}

var floatOps = map[string]*floatOp{"add": &floatAdd, "sub": &floatSub, "mul": &floatMul, "div": &floatDiv, "fma": &floatFMA, "sqrt": &floatSqrt}

// compute returns the result of an instruction, and requires the same result without the host's
// processor.
func compute(t *testing.T, op string, f floatForm, a, b, c uint64) uint64 {
	t.Helper()
	o := floatOps[op]
	v, exact := o.of(f)(a, b, c), f.result(o.exact(f, f.operand(a), f.operand(b), f.operand(c)))
	if v != exact {
		t.Fatalf("%s of %x, %x, %x: the host computes %x, it is %x", op, a, b, c, v, exact)
	}
	return v
}

// In every rounding, every operation returns the correct neighbor of the exact result.
func TestFloatArithmetic(t *testing.T) {
	for op, exact := range exactly {
		for _, f := range formats {
			t.Run(fmt.Sprint(op, f.bits), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(3, uint64(f.bits)))
				for range floatTrials {
					a, b, c := hardFloat(f, rng), hardFloat(f, rng), hardFloat(f, rng)
					if op == "fma" && rng.IntN(2) == 0 { // close to the addend
						c = (compute(t, "mul", floatForm{format: f}, a, b, 0) ^ f.sign()) + uint64(rng.IntN(3))
					}
					if !f.finite(a) || !f.finite(b) || !f.finite(c) {
						continue
					}
					for mode := toNearest; mode <= up; mode++ {
						x, want := exact(f, mode, a, b, c)
						if x == nil {
							continue
						}
						if x.Sign() != 0 {
							want = f.rounded(x, mode)
						}
						if got := compute(t, op, floatForm{format: f, mode: mode}, a, b, c); got != want {
							t.Fatalf("rounding %d of %x, %x, %x: got %x, want %x", mode, a, b, c, got, want)
						}
					}
				}
			})
		}
	}
}

const floatTrials = 2000

// The host's processor rounds to nearest as this package does. This compares far more operands.
func TestFloatArithmeticOfTheHost(t *testing.T) {
	for op := range floatOps {
		for _, f := range formats {
			rng := rand.New(rand.NewPCG(4, uint64(f.bits)))
			for range 15 * floatTrials {
				a, b, c := hardFloat(f, rng), hardFloat(f, rng), hardFloat(f, rng)
				compute(t, op, floatForm{format: f}, a, b, c)
			}
		}
	}
}

// With .ftz the result is a zero if, rounded to the digits of a normal number, it is less than the
// least normal number.
func TestFloatFlush(t *testing.T) {
	f := formats[32]
	wide := format{64, f.digits, 8 * f.low} // the same digits of far smaller numbers
	flushed, kept := 0, 0                   // next to the least normal number
	for op, exact := range exactly {
		rng := rand.New(rand.NewPCG(5, 5))
		for range floatTrials {
			a, b, c := f.flush(hardFloat(f, rng)), f.flush(hardFloat(f, rng)), f.flush(hardFloat(f, rng))
			if rng.IntN(2) == 0 {
				a, b, c = f.minNormal()+rng.Uint64N(4), 0x3f800000-rng.Uint64N(8), f.sign()
			}
			if !f.finite(a) || !f.finite(b) || !f.finite(c) {
				continue
			}
			for mode := toNearest; mode <= up; mode++ {
				x, want := exact(f, mode, a, b, c)
				if x == nil {
					continue
				}
				if x.Sign() != 0 {
					want = f.rounded(x, mode)
					tiny := wide.rounded(x, mode)&^wide.sign() < wide.rounded(f.exact(f.minNormal()), mode)
					switch least := want&^f.sign() == f.minNormal() && x.Cmp(f.exact(want)) != 0; {
					case tiny && least:
						flushed++
					case least:
						kept++
					}
					if tiny {
						want &= f.sign()
					}
				}
				if got := compute(t, op, floatForm{format: f, mode: mode, ftz: true}, a, b, c); got != want {
					t.Fatalf("%s, rounding %d of %x, %x, %x: got %x, want %x", op, mode, a, b, c, got, want)
				}
			}
		}
	}
	if flushed < 100 || kept < 100 {
		t.Errorf("only %d flushed and %d kept next to the least normal number", flushed, kept)
	}
}

// These cases cover NaNs, infinities and the modifiers.
func TestFloatSpecial(t *testing.T) {
	const (
		inf, nan, tiny, one = 0x7f800000, 0x7fffffff, 0x00000003, 0x3f800000
		minus               = 0x80000000
		inf64, one64        = 0x7ff0000000000000, 0x3ff0000000000000
		made                = 0xfff8000000000000 // NaN of an invalid operation
	)
	single, double := floatForm{format: formats[32]}, floatForm{format: formats[64]}
	ftz, sat := single, single
	ftz.ftz, sat.sat = true, true
	for _, c := range []struct {
		op      string
		f       floatForm
		a, b, c uint64
		want    uint64
	}{
		{"add", single, inf, inf | minus, 0, nan},
		{"add", single, 0x7f800001, one, 0, nan},
		{"mul", single, inf, 0, 0, nan},
		{"div", single, 0, 0, 0, nan},
		{"div", single, one, minus, 0, inf | minus},
		{"sqrt", single, one | minus, 0, 0, nan},
		{"sqrt", single, minus, 0, 0, minus},
		{"fma", single, inf, 0, one, nan},
		{"fma", single, inf, one, inf | minus, nan},
		{"add", double, inf64, inf64 | 1<<63, 0, made},
		{"div", double, inf64, inf64, 0, made},
		{"mul", double, 0x7ff4000000000123, one64, 0, 0x7ffc000000000123},
		{"sub", double, one64, 0xfff8000000000456, 0, 0xfff8000000000456},
		{"fma", double, one64, 0xfff8000000000456, 0x7ff8000000000789, 0xfff8000000000456},
		// the second of two NaNs
		{"add", double, 0xfff8000000000456, 0x7ff0000000000123, 0, 0x7ff8000000000123},
		{"sub", double, 0x7ff0000000000123, 0xfff8000000000456, 0, 0xfff8000000000456},
		{"mul", double, 0xfff8000000000456, 0x7ff0000000000123, 0, 0x7ff8000000000123},
		// the first NaN
		{"div", double, 0x7ff0000000000123, 0xfff8000000000456, 0, 0x7ff8000000000123},
		{"fma", double, 0x7ff8000000000123, one64, 0xfff8000000000456, 0xfff8000000000456},
		{"fma", double, 0x7ff8000000000123, 0x7ff8000000000789, one64, 0x7ff8000000000789},
		{"add", ftz, tiny, minus | tiny, 0, 0},
		{"mul", ftz, 0x00800000, 0x3f7fffff, 0, 0},          // fits the digits of a normal number
		{"mul", ftz, 0x00800001, 0x3f7ffffe, 0, 0x00800000}, // does not fit and is rounded
		{"mul", single, 0x00800000, 0x3f7fffff, 0, 0x00800000},
		{"mul", ftz, 0x00800000 | minus, 0x3f000000, 0, minus}, // the least normal number, halved
		{"mul", single, 0x00800000, 0x3f000000, 0, 0x00400000},
		// not quite half of the last digit more
		{"fma", single, 0x1a000001, 0x19fffffe, 0x00400001, 0x00400001},
		{"add", sat, one, one, 0, one},
		{"sub", sat, 0, one, 0, 0},
		{"add", sat, 0x7fc00000, one, 0, 0},
		{"add", sat, minus, minus, 0, 0},
		{"mul", sat, 0x3f000000, one, 0, 0x3f000000},
	} {
		if got := compute(t, c.op, c.f, c.a, c.b, c.c); got != c.want {
			t.Errorf("%s of %x, %x, %x: got %x, want %x", c.op, c.a, c.b, c.c, got, c.want)
		}
	}
}

// Conversions return the correct neighbor of the exact number, or the end of the range.
func TestFloatConversions(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 7))
	for range 20_000 {
		for _, f := range formats {
			v := hardFloat(f, rng)
			if !f.finite(v) {
				continue
			}
			x, negative := f.exact(v), v&f.sign() != 0
			for mode := toNearest; mode <= up; mode++ {
				for _, name := range []string{"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"} {
					to := types[name]
					want := wholes(new(big.Rat).Abs(x), negative, mode)
					if negative {
						want.Neg(want)
					}
					low, high := big.NewInt(0), new(big.Int).SetUint64(to.mask())
					if to.signed() {
						high.SetUint64(to.mask() >> 1)
						low.Not(high)
					}
					if want.Cmp(low) < 0 {
						want = low
					}
					if want.Cmp(high) > 0 {
						want = high
					}
					bits := want.Uint64()
					if want.Sign() < 0 {
						bits = uint64(want.Int64()) & to.mask()
					}
					ff := floatForm{format: f, mode: mode}
					if got := ff.integer(f.float(v), to); got != bits {
						t.Fatalf("rounding %d of f%d %x to %s: got %x, want %x", mode, f.bits, v, name, got, bits)
					}
				}
				other := formats[96-f.bits]
				var want uint64
				switch {
				case x.Sign() != 0:
					want = other.rounded(x, mode)
				case negative:
					want = other.sign()
				}
				if got := other.encode(f.float(v), mode); got != want {
					t.Fatalf("rounding %d of f%d %x to f%d: got %x, want %x", mode, f.bits, v, other.bits, got, want)
				}
			}
		}
	}
}
