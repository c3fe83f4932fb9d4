package table

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// padded returns text between pad bytes. They are digits, which must not change the result.
func padded(s string) (b []byte, lo, hi int) {
	return []byte("77777777" + s + "77777777"), pad, pad + len(s)
}

func TestNumbers(t *testing.T) {
	for _, tt := range []struct {
		text    string
		strict  any // expected integer; nil if none
		lenient any
		float   any
	}{
		{"0", 0, 0, 0.},
		{"-1", -1, -1, -1.},
		{"12345678", 12345678, 12345678, 12345678.},
		{"123456789", 123456789, 123456789, 123456789.},
		{"1234567890123456", 1234567890123456, 1234567890123456, 1234567890123456.},
		{"9223372036854775807", math.MaxInt64, math.MaxInt64, float64(math.MaxInt64)},
		{"9223372036854775808", nil, nil, 9223372036854775808.},
		{"-9223372036854775808", math.MinInt64, math.MinInt64, -9223372036854775808.},
		{"-9223372036854775809", nil, nil, -9223372036854775809.},
		{"99999999999999999999", nil, nil, 99999999999999999999.},
		{"007", nil, 7, 7.},
		{"00", nil, 0, 0.},
		{"-0", nil, 0, math.Copysign(0, -1)},
		{"+5", nil, 5, 5.},
		{"", nil, nil, nil},
		{"-", nil, nil, nil},
		{"1.5", nil, nil, 1.5},
		{".5", nil, nil, .5},
		{"5.", nil, nil, 5.},
		{"0.1", nil, nil, .1},
		{".", nil, nil, nil},
		{"1.2.3", nil, nil, nil},
		{"1e3", nil, nil, 1000.},
		{"1E-3", nil, nil, .001},
		{"1e", nil, nil, nil},
		{"1e+", nil, nil, nil},
		{"e3", nil, nil, nil},
		{"1e400", nil, nil, nil},
		{"1e99999999999999999999", nil, nil, nil},
		{"1e-400", nil, nil, 0.},
		{"0x10", nil, nil, nil},
		{"1_000", nil, nil, nil},
		{"12a", nil, nil, nil},
		{"1 ", nil, nil, nil},
		{"NaN", nil, nil, math.NaN()},
		{"-NaN", nil, nil, math.NaN()},
		{"inf", nil, nil, math.Inf(1)},
		{"-Inf", nil, nil, math.Inf(-1)},
		{"infinity", nil, nil, math.Inf(1)},
		{"3.14159265358979323846", nil, nil, math.Pi},
		{"2.2250738585072011e-308", nil, nil, 2.2250738585072011e-308},
		{"9007199254740993", 9007199254740993, 9007199254740993, 9007199254740992.},
		{"nan(0x8)", nil, nil, math.NaN()},
		{"+NAN", nil, nil, math.NaN()},
		{"nano", nil, nil, nil},
		{"nan(", nil, nil, nil},
		{"nan(-)", nil, nil, nil},
		{"-Infinity", nil, nil, math.Inf(-1)},
		{"INF", nil, nil, math.Inf(1)},
		{"infinite", nil, nil, nil},
		{"+-1", nil, nil, nil},
		{"--1", nil, nil, nil},
	} {
		b, lo, hi := padded(tt.text)
		var got [3]any
		for i := range 2 {
			if v, ok := parseInt(b, lo, hi, i == 1); ok {
				got[i] = int(v)
			}
		}
		if v, ok := parseFloat([]byte(tt.text)); ok {
			got[2] = v
		}
		if want := [3]any{tt.strict, tt.lenient, tt.float}; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q is %v, want %v", tt.text, got, want)
		}
	}
}

// The kind of a value agrees with the parsers that accept the value.
func TestClassify(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.StringMatching(`[-+]?[0-9]{1,21}`), rapid.StringMatching(`[-+0-9.eE]{0,8}`),
			rapid.StringMatching(`[-+]?[0-9]{0,3}\.?[0-9]{0,3}([eE][-+]?[0-9]{1,22})?`),
			rapid.SampledFrom([]string{"NaN", "-nan", "inf", "true", "True", "false", "x", "", "-0", "-00", "9223372036854775808", "18446744073709551616", "-9223372036854775809"}),
		).
			Draw(t, "value")
		b, lo, hi := padded(s)
		k := classify(b, lo, hi)
		_, strict := parseInt(b, lo, hi, false)
		v, lenient := parseInt(b, lo, hi, true)
		u, unsigned := parseUint(b, lo, hi, true)
		wantU, err := strconv.ParseUint(strings.TrimPrefix(s, "+"), 10, 64)
		if unsigned != (err == nil && !strings.HasPrefix(s, "++")) && v >= 0 &&
			!(lenient && v == 0) ||
			unsigned && err == nil && u != wantU {
			t.Fatalf("%q is %d, %v, strconv: %d, %v", s, u, unsigned, wantU, err)
		}
		f, float := parseFloat([]byte(s))
		_, number := parseDecimal([]byte(s))
		for is, want := range map[kind]bool{
			kindInt: strict, kindMinusZero: s == "-0", kindOddInt: lenient && !strict && s != "-0", kindBig: unsigned && !lenient, kindNumber: number,
			kindWord: float && !number, kindFloat: float && number && !integral([]byte(s)), kindBigInt: number && !lenient && !unsigned && float && integral([]byte(s)),
			kindOverflow: number && !float,
			kindNegative: number && s[0] == '-' && (lenient && v < 0 || !lenient && !(float && !integral([]byte(s)))),
		} {
			if k&is != 0 != want {
				t.Fatalf("%q is %b (%v), %b is wrong", s, k, f, is)
			}
		}
	})
}

// Decimals compare like rational numbers.
func TestDecimals(t *testing.T) {
	number := rapid.OneOf(
		rapid.StringMatching(`[-+]?[0-9]{1,21}`),
		rapid.StringMatching(`[-+]?[0-9]{0,3}\.?[0-9]{1,3}([eE][-+]?[0-9]{1,2})?`),
		rapid.StringMatching(`-?0{0,2}\.?0{0,2}[1-2]{1,2}0{0,2}(e-?[0-3])?`),
	)
	rapid.Check(t, func(t *rapid.T) {
		a, b := number.Draw(t, "a"), number.Draw(t, "b")
		x, okA := new(big.Rat).SetString(a)
		y, okB := new(big.Rat).SetString(b)
		p, isA := parseDecimal([]byte(a))
		q, isB := parseDecimal([]byte(b))
		if okA != isA || okB != isB {
			t.Fatalf("%q %v, %q %v", a, isA, b, isB)
		}
		if got, want := bytes.Compare(p.appendCode(nil), q.appendCode(nil)), x.Cmp(y); got != want {
			t.Fatalf("%q against %q is %d, want %d", a, b, got, want)
		}
		whole, ok := p.whole()
		if want := x.IsInt() && len(x.Num().Text(10)) <= 20; ok != want && len(whole) < 20 ||
			ok && string(whole) != x.Num().Text(10) {
			t.Fatalf("%q as an integer is %q, %v", a, whole, ok)
		}
	})
}

func TestCanonicalKeys(t *testing.T) {
	for text, want := range map[string]string{
		"nan": "NaN", "-NAN": "NaN", "+nan(ind)": "NaN", "-0": "0", "-0.0": "0.0", "-.0e5": ".0e5", "-0e": "-0e", "-0x": "-0x", "-": "-", "-.": "-.", "0": "0",
		"-1": "-1", "-0.01": "-0.01", "nano": "nano", "n": "n", "": "", "+0": "+0", "inf": "inf", "-0..0": "-0..0", "1.10": "1.10",
	} {
		if got := canonicalKey([]byte(text)); string(got) != want {
			t.Errorf("%q is the key %q, want %q", text, got, want)
		}
	}
}

func TestNumbersAgainstStrconv(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.StringMatching(`-?[0-9]{1,21}`), rapid.StringMatching(`-?[0-9]{0,9}\.?[0-9]{0,12}(e-?[0-9]{1,3})?`),
			rapid.StringMatching(`[-+0-9.eE]{0,12}`), rapid.Custom(func(t *rapid.T) string {
				return strconv.FormatFloat(rapid.Float64().Draw(t, "float"), 'g', -1, 64)
			})).
			Draw(t, "number")
		b, lo, hi := padded(s)
		v, ok := parseInt(b, lo, hi, true)
		want, err := strconv.ParseInt(s, 10, 64)
		if ok != (err == nil) && !(len(s) > 20) || ok && v != want {
			t.Fatalf("%q is %d, %v, strconv: %d, %v", s, v, ok, want, err)
		}
		f, ok := parseFloat([]byte(s))
		wantF, err := strconv.ParseFloat(s, 64)
		if ok != (err == nil) && !strings.ContainsAny(s, "NI") ||
			ok && math.Float64bits(f) != math.Float64bits(wantF) {
			t.Fatalf("%q is %v, %v, strconv: %v, %v", s, f, ok, wantF, err)
		}
		if v, ok := parseInt(b, lo, hi, false); ok && strconv.FormatInt(v, 10) != s {
			t.Fatalf("%q comes back as %d", s, v)
		}
	})
}
