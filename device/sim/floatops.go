package sim

import (
	"math"
	"slices"
)

// This file implements the exact floating-point instructions. Approximate ones (.approx, .full) do
// not load.

var roundings = map[string]rounding{
	"rn": toNearest, "rz": toZero, "rm": down, "rp": up,
	"rni": toNearest, "rzi": toZero, "rmi": down, "rpi": up, // to an integral number
}

// floatForm is the format of an instruction's operands, with the modifiers of the instruction.
type floatForm struct {
	format
	mode rounding
	ftz  bool // whether subnormal operands and results become zeros
	sat  bool // whether results are clamped to [0, 1]
}

func floatFormOf(t typ, f form) floatForm {
	ff := floatForm{format: t.format(), ftz: slices.Contains(f, "ftz"), sat: slices.Contains(f, "sat")}
	for _, modifier := range f {
		if mode, ok := roundings[modifier]; ok {
			ff.mode = mode
		}
	}
	return ff
}

// operand unpacks an operand and applies ftz.
func (f floatForm) operand(v uint64) float {
	if f.ftz {
		v = f.flush(v)
	}
	return f.float(v)
}

// result rounds and packs a computed value, and applies ftz and sat.
func (f floatForm) result(n float) uint64 {
	if f.ftz && n.kind == finite && f.tiny(n) {
		n.hi, n.lo = 0, 0
	}
	v := f.encode(n, f.mode)
	if f.sat {
		one := uint64(2-f.low-f.digits) << (f.digits - 1)
		if f.isNaN(v) || v&f.sign() != 0 {
			v = 0
		}
		v = min(v, one)
	}
	return v
}

// tiny reports whether n is less than the least normal number after rounding to the full number of
// digits, although a subnormal number is stored with fewer. An H200 flushes such a number even if
// rounding to the stored digits would give a normal number.
func (f floatForm) tiny(n float) bool {
	n.exp += f.digits // with this exponent all digits are stored
	return f.encode(n, f.mode)&^f.sign() < uint64(1+f.digits)*f.minNormal()
}

// floatOp is an operation on up to three operands.
type floatOp struct {
	exact func(f floatForm, a, b, c float) float
	// single and double compute the same on the host's processor, which rounds to nearest as a GPU
	// does and is ten times as fast. If the result is a NaN, exact is called instead.
	single func(a, b, c float32) float32
	double func(a, b, c float64) float64
}

var (
	floatAdd = floatOp{
		func(f floatForm, a, b, _ float) float { return a.add(b, f.mode) },
		func(a, b, _ float32) float32 { return a + b },
		func(a, b, _ float64) float64 { return a + b },
	}
	floatSub = floatOp{
		func(f floatForm, a, b, _ float) float { return a.add(b.minus(), f.mode) },
		func(a, b, _ float32) float32 { return a - b },
		func(a, b, _ float64) float64 { return a - b },
	}
	floatMul = floatOp{
		func(_ floatForm, a, b, _ float) float { return a.mul(b) },
		func(a, b, _ float32) float32 { return a * b },
		func(a, b, _ float64) float64 { return a * b },
	}
	floatDiv = floatOp{
		func(_ floatForm, a, b, _ float) float { return a.div(b) },
		func(a, b, _ float32) float32 { return a / b },
		func(a, b, _ float64) float64 { return a / b },
	}
	floatFMA = floatOp{
		func(f floatForm, a, b, c float) float {
			// A NaN in b precedes one in c, and c precedes a, as on an H200.
			if b.kind == notANumber {
				return b
			}
			return a.mul(b).add(c, f.mode)
		},
		fuseSingle,
		math.FMA,
	}
	floatRcp = floatOp{
		func(_ floatForm, a, _, _ float) float { return float{lo: 1}.div(a) },
		func(a, _, _ float32) float32 { return 1 / a },
		func(a, _, _ float64) float64 { return 1 / a },
	}
	floatSqrt = floatOp{
		func(_ floatForm, a, _, _ float) float { return a.sqrt() },
		func(a, _, _ float32) float32 { return float32(math.Sqrt(float64(a))) },
		func(a, _, _ float64) float64 { return math.Sqrt(a) },
	}
)

// fuseSingle computes a·b+c in double precision, where the product is exact, and rounds the sum to
// single precision. Rounding twice is correct unless the first result lies half way between two
// single-precision numbers, or is subnormal in single precision. Then fuseSingle returns a NaN.
func fuseSingle(a, b, c float32) float32 {
	sum := float64(a)*float64(b) + float64(c)
	const extra = 1<<29 - 1 // digits that single precision lacks
	if math.Float64bits(sum)&extra == (extra+1)/2 || math.Abs(sum) < 0x1p-126 {
		return float32(math.NaN())
	}
	return float32(sum)
}

// of returns the operation on packed numbers for one form.
func (op *floatOp) of(f floatForm) func(a, b, c uint64) uint64 {
	exact := func(a, b, c uint64) uint64 {
		return f.result(op.exact(f, f.operand(a), f.operand(b), f.operand(c)))
	}
	switch {
	case f.mode != toNearest || f.ftz || f.sat:
		return exact
	case f.bits == 32:
		return func(a, b, c uint64) uint64 {
			v := op.single(math.Float32frombits(uint32(a)), math.Float32frombits(uint32(b)), math.Float32frombits(uint32(c)))
			if v != v {
				return exact(a, b, c)
			}
			return uint64(math.Float32bits(v))
		}
	}
	return func(a, b, c uint64) uint64 {
		v := op.double(math.Float64frombits(a), math.Float64frombits(b), math.Float64frombits(c))
		if v != v {
			return exact(a, b, c)
		}
		return math.Float64bits(v)
	}
}

// arithmetic resolves "op.modifiers.type d, a[, b[, c]]".
func arithmetic(op *floatOp, sources int) builder {
	return func(a *assembler, s *statement, f form) (instr, error) {
		t := f.last()
		o := a.operands(s)
		in := instr{d: o.dst(t), exec: apply3(op.of(floatFormOf(t, f)))}
		for _, row := range []*int32{&in.a, &in.b, &in.c}[:sources] {
			*row = o.src(t)
		}
		return in, o.done()
	}
}

// bits1 resolves "op[.ftz].type d, a". A NaN keeps its sign in double precision, and a signaling
// NaN becomes quiet, as on an H200.
func bits1(op func(f format, a uint64) uint64) builder {
	return func(a *assembler, s *statement, fm form) (instr, error) {
		t := fm.last()
		f := floatFormOf(t, fm)
		o := a.operands(s)
		in := instr{d: o.dst(t), a: o.src(t)}
		in.exec = apply1(func(a uint64) uint64 {
			switch {
			case f.isNaN(a):
				return f.nan(f.float(a))
			case f.ftz:
				a = f.flush(a)
			}
			return op(f.format, a)
		})
		return in, o.done()
	}
}

func floatNeg(f format, a uint64) uint64 { return a ^ f.sign() }
func floatAbs(f format, a uint64) uint64 { return a &^ f.sign() }

// buildCopySign resolves "copysign.type d, a, b". d is b with the sign of a.
func buildCopySign(a *assembler, s *statement, fm form) (instr, error) {
	t := fm.last()
	f := t.format()
	o := a.operands(s)
	in := instr{d: o.dst(t), a: o.src(t), b: o.src(t)}
	in.exec = apply2(func(a, b uint64) uint64 { return b&^f.sign() | a&f.sign() })
	return in, o.done()
}

// properties are the tests of testp on a number without its sign.
var properties = map[string]func(f format, v uint64) bool{
	"finite":     func(f format, v uint64) bool { return v < f.infinity() },
	"infinite":   func(f format, v uint64) bool { return v == f.infinity() },
	"number":     func(f format, v uint64) bool { return v <= f.infinity() },
	"notanumber": func(f format, v uint64) bool { return v > f.infinity() },
	"normal":     func(f format, v uint64) bool { return v == 0 || v >= f.minNormal() && v < f.infinity() },
	"subnormal":  func(f format, v uint64) bool { return v != 0 && v < f.minNormal() },
}

// buildTestProperty resolves "testp.property.type p, a".
func buildTestProperty(a *assembler, s *statement, fm form) (instr, error) {
	has, t := properties[fm[0]], fm.last()
	f := t.format()
	o := a.operands(s)
	in := instr{d: o.predDst(), a: o.src(t)}
	in.exec = func(w *warp, in *instr, m uint32) {
		var p uint32
		for rest := m; rest != 0; rest &= rest - 1 {
			if i := lowest(rest); has(f, w.rows[in.a][i]&^f.sign()) {
				p |= 1 << i
			}
		}
		w.preds[in.d] = w.preds[in.d]&^m | p
	}
	return in, o.done()
}

// extreme resolves min and max. If one operand is a NaN, the result is the other operand, or a NaN
// if the modifier NaN is present. -0 is less than 0.
func extreme(isMin bool) builder {
	return func(a *assembler, s *statement, fm form) (instr, error) {
		t := fm.last()
		f := floatFormOf(t, fm)
		nan := slices.Contains(fm, "NaN")
		o := a.operands(s)
		in := instr{d: o.dst(t), a: o.src(t), b: o.src(t)}
		in.exec = apply2(func(a, b uint64) uint64 {
			if f.ftz {
				a, b = f.flush(a), f.flush(b)
			}
			switch noA, noB := f.isNaN(a), f.isNaN(b); {
			case noA && noB || nan && (noA || noB):
				return f.nan(f.float(b))
			case noA:
				return b
			case noB:
				return a
			}
			if (f.rank(a) < f.rank(b)) == isMin {
				return a
			}
			return b
		})
		return in, o.done()
	}
}

// rank maps numbers to integers in the same order, with -0 before 0.
func (f format) rank(v uint64) int64 {
	if v&f.sign() != 0 {
		return ^int64(v &^ f.sign())
	}
	return int64(v)
}

// comparisons are the tests on the results of orderKey.
var comparisons = map[string]func(a, b uint64) bool{
	"eq": func(a, b uint64) bool { return a == b },
	"ne": func(a, b uint64) bool { return a != b },
	"lt": func(a, b uint64) bool { return a < b },
	"le": func(a, b uint64) bool { return a <= b },
	"gt": func(a, b uint64) bool { return a > b },
	"ge": func(a, b uint64) bool { return a >= b },
}

// floatComparison returns the named test of setp on packed numbers. If an operand is a NaN, tests
// with suffix u are true and the others false.
func floatComparison(name string, f floatForm) func(a, b uint64) bool {
	unordered := name == "nan"
	if base, ok := comparisons[name[:2]]; ok && (len(name) == 2 || name[2:] == "u") {
		return func(a, b uint64) bool {
			if f.isNaN(a) || f.isNaN(b) {
				return len(name) > 2
			}
			return base(f.orderKey(a), f.orderKey(b))
		}
	}
	return func(a, b uint64) bool { return (f.isNaN(a) || f.isNaN(b)) == unordered }
}

// orderKey maps numbers to unsigned integers in the same order. Both zeros have the same key.
func (f floatForm) orderKey(v uint64) uint64 {
	if f.ftz {
		v = f.flush(v)
	}
	if v == f.sign() {
		v = 0
	}
	return uint64(f.rank(v)) ^ 1<<63
}
