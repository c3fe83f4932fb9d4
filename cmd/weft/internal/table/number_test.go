package table

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// padded is a text with pad bytes on both sides that are digits, which must not matter.
func padded(s string) (b []byte, lo, hi int) {
	return []byte("77777777" + s + "77777777"), pad, pad + len(s)
}

func TestNumbers(t *testing.T) {
	for _, tt := range []struct {
		text       string
		whole      any // strict, nil: none
		float      any
		whole2, f2 any // lenient
	}{
		{"0", 0, 0., 0, 0.},
		{"-1", -1, -1., -1, -1.},
		{"12345678", 12345678, 12345678., 12345678, 12345678.},
		{"123456789", 123456789, 123456789., 123456789, 123456789.},
		{"1234567890123456", 1234567890123456, 1234567890123456., 1234567890123456, 1234567890123456.},
		{"9223372036854775807", math.MaxInt64, float64(math.MaxInt64), math.MaxInt64, float64(math.MaxInt64)},
		{"9223372036854775808", nil, 9223372036854775808., nil, 9223372036854775808.},
		{"-9223372036854775808", math.MinInt64, -9223372036854775808., math.MinInt64, -9223372036854775808.},
		{"-9223372036854775809", nil, -9223372036854775809., nil, -9223372036854775809.},
		{"99999999999999999999", nil, 99999999999999999999., nil, 99999999999999999999.},
		{"007", nil, nil, 7, 7.},
		{"00", nil, nil, 0, 0.},
		{"-0", nil, math.Copysign(0, -1), 0, math.Copysign(0, -1)},
		{"+5", nil, nil, 5, 5.},
		{"", nil, nil, nil, nil},
		{"-", nil, nil, nil, nil},
		{"1.5", nil, 1.5, nil, 1.5},
		{".5", nil, .5, nil, .5},
		{"5.", nil, 5., nil, 5.},
		{"0.1", nil, .1, nil, .1},
		{".", nil, nil, nil, nil},
		{"1.2.3", nil, nil, nil, nil},
		{"1e3", nil, 1000., nil, 1000.},
		{"1E-3", nil, .001, nil, .001},
		{"1e", nil, nil, nil, nil},
		{"1e+", nil, nil, nil, nil},
		{"e3", nil, nil, nil, nil},
		{"1e400", nil, nil, nil, nil},
		{"1e99999999999999999999", nil, nil, nil, nil},
		{"1e-400", nil, 0., nil, 0.},
		{"0x10", nil, nil, nil, nil},
		{"1_000", nil, nil, nil, nil},
		{"12a", nil, nil, nil, nil},
		{"1 ", nil, nil, nil, nil},
		{"NaN", nil, math.NaN(), nil, math.NaN()},
		{"-NaN", nil, nil, nil, nil},
		{"inf", nil, math.Inf(1), nil, math.Inf(1)},
		{"-Inf", nil, math.Inf(-1), nil, math.Inf(-1)},
		{"infinity", nil, nil, nil, nil},
		{"3.14159265358979323846", nil, math.Pi, nil, math.Pi},
		{"2.2250738585072011e-308", nil, 2.2250738585072011e-308, nil, 2.2250738585072011e-308},
		{"9007199254740993", 9007199254740993, 9007199254740992., 9007199254740993, 9007199254740992.},
	} {
		for i, want := range [][2]any{{tt.whole, tt.float}, {tt.whole2, tt.f2}} {
			b, lo, hi := padded(tt.text)
			var got [2]any
			if v, ok := parseInt(b, lo, hi, i == 1); ok {
				got[0] = int(v)
			}
			if v, ok := parseFloat([]byte(tt.text), i == 1); ok {
				got[1] = v
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%q, lenient %v, is %v, want %v", tt.text, i == 1, got, want)
			}
		}
	}
}

func TestNumbersAgainstStrconv(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.StringMatching(`-?[0-9]{1,21}`), rapid.StringMatching(`-?[0-9]{0,9}\.?[0-9]{0,12}(e-?[0-9]{1,3})?`),
			rapid.StringMatching(`[-+0-9.eE]{0,12}`), rapid.Custom(func(t *rapid.T) string {
				return strconv.FormatFloat(rapid.Float64().Draw(t, "float"), 'g', -1, 64)
			})).Draw(t, "number")
		b, lo, hi := padded(s)
		v, ok := parseInt(b, lo, hi, true)
		want, err := strconv.ParseInt(s, 10, 64)
		if ok != (err == nil) && !(len(s) > 20) || ok && v != want {
			t.Fatalf("%q is %d, %v, strconv: %d, %v", s, v, ok, want, err)
		}
		f, ok := parseFloat([]byte(s), true)
		wantF, err := strconv.ParseFloat(s, 64)
		if ok != (err == nil) && !strings.ContainsAny(s, "NI") || ok && math.Float64bits(f) != math.Float64bits(wantF) {
			t.Fatalf("%q is %v, %v, strconv: %v, %v", s, f, ok, wantF, err)
		}
		if v, ok := parseInt(b, lo, hi, false); ok && strconv.FormatInt(v, 10) != s {
			t.Fatalf("%q comes back as %d", s, v)
		}
	})
}
