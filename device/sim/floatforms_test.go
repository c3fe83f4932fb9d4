package sim

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// This file has the forms of floating-point instructions, and their operands.

// floatSources is the number of sources of each floating-point instruction.
var floatSources = map[string]int{
	"add": 2, "sub": 2, "mul": 2, "div": 2, "min": 2, "max": 2, "copysign": 2,
	"fma": 3, "mad": 3, "rcp": 1, "sqrt": 1, "abs": 1, "neg": 1,
}

func floating(t string) bool { return t == "f32" || t == "f64" }

// combines reports whether a comparison has a predicate operand.
func combines(list []string) bool {
	return slices.ContainsFunc(list, func(m string) bool { return m == "and" || m == "or" || m == "xor" })
}

// setBodies returns code that compares and stores a number.
func setBodies(form string, list []string) map[string]string {
	to, from := list[len(list)-2], list[len(list)-1]
	text := form + " " + bank(to) + "1, A, B"
	if combines(list) {
		text += ", P"
	}
	return map[string]string{"": fill(text, from) + ";\n" + widen(to, "%o0", bank(to)+"1")}
}

// inputTables are the input words of the kernels of forms.
type inputTables struct{ integers, singles, doubles, cells []uint64 }

func formTables() inputTables {
	return inputTables{formInput(), floatInput(formats[32]), floatInput(formats[64]), floatCells()}
}

// of returns the table for a form, by the type of its sources.
func (i *inputTables) of(form string) []uint64 {
	list := strings.Split(form, ".")
	t := list[len(list)-1]
	switch {
	case (list[0] == "atom" || list[0] == "red") && floating(t):
		return i.cells
	// instructions that only move bits
	case list[0] == "ld" || list[0] == "st" || list[0] == "mov" || list[0] == "selp":
		return i.integers
	case t == "f32":
		return i.singles
	case t == "f64":
		return i.doubles
	}
	return i.integers
}

// edges returns numbers that need special treatment.
func (f format) edges() []uint64 {
	one := uint64(2-f.low-f.digits) << (f.digits - 1)
	ulp := f.minNormal()
	return []uint64{
		0, f.sign(), one, one | f.sign(), one + 1, one - 1,
		f.infinity(), f.infinity() | f.sign(), f.infinity() - 1, f.minNormal(), f.minNormal() - 1, 1 | f.sign(),
		// a signaling NaN and quiet ones
		f.infinity() + 5, f.infinity() | f.sign() | ulp/2 | 9, f.infinity() + ulp/2 + 0x123,
		one - ulp, // a half
	}
}

// floatInput returns every pair of edges for two operands, with random values for the others. After
// these come numbers near those that round to integers, and hard ones.
func floatInput(f format) []uint64 {
	rng := rand.New(rand.NewPCG(8, uint64(f.bits)))
	edges := f.edges()
	const more = 128
	var in []uint64
	for thread := range len(edges)*len(edges) + more {
		words := make([]uint64, formInputs)
		for i := range words {
			switch rng.IntN(4) {
			case 0:
				words[i] = edges[rng.IntN(len(edges))]
			case 1: // for roundings to integers
				words[i] = f.encode(float{lo: rng.Uint64N(1 << 10), exp: rng.IntN(70) - 4, negative: rng.IntN(2) == 0}, toNearest)
			default:
				words[i] = hardFloat(f, rng)
			}
		}
		switch pair := len(edges) * len(edges); {
		case thread < pair:
			words[0], words[1] = edges[thread%len(edges)], edges[thread/len(edges)]
		case thread < pair+more/4: // products next to the least normal number
			words[0], words[1] = f.minNormal()+uint64(rng.IntN(3)), edges[2]-uint64(rng.IntN(4))
			words[2] = uint64(rng.IntN(3)) | f.sign()
		case thread < pair+more/2: // sums and products that nearly cancel
			words[2] = (floatMul.of(floatForm{format: f})(words[0], words[1], 0) ^ f.sign()) + uint64(rng.IntN(3))
		}
		words[4] = rng.Uint64() // decides predicates
		in = append(in, words...)
	}
	return in
}

// floatCells returns the input of atomic additions. A thread's word of memory and its addend (its
// first and fourth word) are numbers of both formats.
func floatCells() []uint64 {
	rng := rand.New(rand.NewPCG(9, 9))
	single, double := formats[32].edges(), formats[64].edges()
	in := make([]uint64, formThreads*formInputs)
	for i := range in {
		switch rng.IntN(4) {
		case 0:
			in[i] = double[rng.IntN(len(double))]
		case 1:
			in[i] = rng.Uint64()<<32 | single[rng.IntN(len(single))]
		default:
			in[i] = hardFloat(formats[64], rng)&^0xffffffff | hardFloat(formats[32], rng)
		}
	}
	return in
}
