package column

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

type cents int64

func must(t interface{ Fatal(...any) }, c Column, err error) Column {
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func anys(c Column) []any {
	var vs []any
	for i := range c.Len() {
		vs = append(vs, c.Any(i))
	}
	return vs
}

func TestColumns(t *testing.T) {
	small, err := OfOffsets([]int32{1, 1, 3}, []byte("xab"))
	small = must(t, small, err)
	large, err := OfOffsets([]int64{0, 2, 3}, []byte("abx"))
	large = must(t, large, err)
	wide, err := OfWidth(2, []byte("abcd"))
	wide = must(t, wide, err)
	none, err := OfOffsets([]int32{}, nil)
	none = must(t, none, err)
	for _, tt := range []struct {
		name string
		c    Column
		typ  Type
		want []any
	}{
		{"nothing", Column{}, None, nil},
		{"int", Of([]int{-1, 2}), Int64, []any{int64(-1), int64(2)}},
		{"named", Of([]cents{5}), Int64, []any{int64(5)}},
		{"int8", Of([]int8{-128}), Int8, []any{int8(-128)}},
		{"int16", Of([]int16{-1}), Int16, []any{int16(-1)}},
		{"int32", Of([]int32{-1}), Int32, []any{int32(-1)}},
		{"uint8", Of([]uint8{255}), Uint8, []any{uint8(255)}},
		{"uint16", Of([]uint16{1}), Uint16, []any{uint16(1)}},
		{"uint32", Of([]uint32{1}), Uint32, []any{uint32(1)}},
		{"uint64", Of([]uint64{math.MaxUint64}), Uint64, []any{uint64(math.MaxUint64)}},
		{"float32", Of([]float32{.5}), Float32, []any{float32(.5)}},
		{"float64", Of([]float64{.1}), Float64, []any{.1}},
		{"bool", Of([]bool{true, false}), Bool, []any{true, false}},
		{"strings", OfStrings([]string{"", "é\xff"}), Bytes, []any{"", "é\xff"}},
		{"small offsets", small, Bytes, []any{"", "ab"}},
		{"large offsets", large, Bytes, []any{"ab", "x"}},
		{"one width", wide, Bytes, []any{"ab", "cd"}},
		{"no offsets", none, Bytes, nil},
		{"nulls", Of([]int8{1, 2, 3}).WithValid(OfBools([]bool{true, false, true})), Int8, []any{int8(1), nil, int8(3)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.c.Type() != tt.typ || tt.c.Len() != len(tt.want) || !slices.Equal(anys(tt.c), tt.want) {
				t.Fatalf("%v of %d: %v, want %v %v", tt.c.Type(), tt.c.Len(), anys(tt.c), tt.typ, tt.want)
			}
			for lo := range tt.want {
				for hi := lo; hi <= len(tt.want); hi++ {
					if s := tt.c.Slice(lo, hi); s.Len() != hi-lo || !slices.Equal(anys(s), slices.Clip(tt.want[lo:hi])) {
						t.Errorf("%d to %d are %v", lo, hi, anys(s))
					}
				}
			}
		})
	}
}

func TestMemory(t *testing.T) {
	small := []int32{1, 1, 3}
	c, err := OfOffsets(small, []byte("xab"))
	c = must(t, c, err).Slice(1, 2)
	if s, l, data := c.Offsets(); &s[0] != &small[1] || len(s) != 2 || l != nil || string(data) != "xab" || c.Raw() != nil {
		t.Errorf("offsets %v, %v into %q, raw %q", s, l, data, c.Raw())
	}
	large := []int64{0, 2, 3}
	c, err = OfOffsets(large, []byte("abx"))
	if s, l, _ := must(t, c, err).Offsets(); s != nil || &l[0] != &large[0] || len(l) != 3 {
		t.Errorf("offsets %v, %v", s, l)
	}
	c, err = OfWidth(2, []byte("abcd"))
	if c = must(t, c, err).Slice(1, 2); string(c.Raw()) != "cd" {
		t.Errorf("memory of values of two bytes: %q", c.Raw())
	}
	if s, l, data := c.Offsets(); s != nil || l != nil || data != nil {
		t.Errorf("offsets of values of one width: %v, %v, %q", s, l, data)
	}
	if got := Of([]uint16{1, 2, 3}).Slice(1, 3).Raw(); !slices.Equal(got, []byte{2, 0, 3, 0}) {
		t.Errorf("memory of numbers: %v", got)
	}
	if c := OfStrings([]string{"a", "b"}).Slice(1, 2); c.Raw() != nil || !slices.Equal(c.Strings(), []string{"b"}) {
		t.Errorf("memory of strings: %q, %q", c.Raw(), c.Strings())
	}
	if got := Of([]int8{1}).Strings(); got != nil {
		t.Errorf("strings of numbers: %q", got)
	}
}

func TestWrongOffsets(t *testing.T) {
	for _, offsets := range [][]int32{{-1, 2}, {0, 2, 1}, {0, 4}} {
		if _, err := OfOffsets(offsets, []byte("abc")); err == nil {
			t.Errorf("%v is no error", offsets)
		}
	}
	for _, width := range []int{-1, 0, 2} {
		if _, err := OfWidth(width, []byte("abc")); err == nil {
			t.Errorf("width %d is no error", width)
		}
	}
}

func TestBitmap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOfN(rapid.Byte(), 8, 24).Draw(t, "bits")
		offset := rapid.IntRange(0, 20).Draw(t, "offset")
		b := OfBits(raw, offset, rapid.IntRange(0, 8*len(raw)-offset).Draw(t, "n"))
		lo := rapid.IntRange(0, b.Len()).Draw(t, "lo")
		b = b.Slice(lo, rapid.IntRange(lo, b.Len()).Draw(t, "hi"))
		n := 0
		for i := range b.Len() {
			at := offset + lo + i
			if want := raw[at/8]&(1<<(at%8)) != 0; b.At(i) != want {
				t.Fatalf("bit %d is %v", i, b.At(i))
			} else if want {
				n++
			}
		}
		if b.Count() != n {
			t.Fatalf("%d bits are set, not %d", n, b.Count())
		}
		c := Of(make([]int8, b.Len())).WithValid(b)
		if c.Nulls() != b.Len()-n {
			t.Fatalf("%d nulls of %d", c.Nulls(), b.Len()-n)
		}
	})
}

func ExampleColumn() {
	ages := Of([]int32{31, 0, 27}).WithValid(OfBools([]bool{true, false, true}))
	names := OfStrings([]string{"Ada", "Ben", "Cy"})
	for i := range ages.Len() {
		fmt.Println(names.Any(i), ages.Any(i))
	}
	// Output:
	// Ada 31
	// Ben <nil>
	// Cy 27
}

// OfBits also panics if offset plus n overflows int.
func TestTooManyBits(t *testing.T) {
	for _, at := range [][2]int{{0, math.MaxInt}, {math.MaxInt - 7, 100}, {math.MaxInt, math.MaxInt}, {1, 8}, {9, 0}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%d bits from %d on in one byte", at[1], at[0])
				}
			}()
			OfBits(make([]byte, 1), at[0], at[1])
		}()
	}
	if n := Type(200).Size(); n != 0 {
		t.Errorf("values of no type have %d bytes", n)
	}
}

// Columns of codes have the values of their dictionary, in any slice.
func TestCodes(t *testing.T) {
	small, err := OfOffsets([]int32{0, 1, 1, 3}, []byte("abc"))
	for _, dict := range []Column{OfStrings([]string{"a", "", "bc"}), must(t, small, err)} {
		codes := []uint32{2, 0, 1, 2}
		c, err := OfCodes(codes, dict)
		c = must(t, c, err).WithValid(OfBools([]bool{true, true, false, true}))
		if want := []any{"bc", "a", nil, "bc"}; c.Type() != Bytes || !c.HasCodes() || !slices.Equal(anys(c), want) {
			t.Errorf("%v of %v, want %v", anys(c), c.Type(), want)
		}
		part := c.Slice(1, 4)
		if got, d := part.Codes(); &got[0] != &codes[1] || len(got) != 3 || d.Len() != 3 || !slices.Equal(anys(part), []any{"a", nil, "bc"}) {
			t.Errorf("codes %v of %d values: %v", got, d.Len(), anys(part))
		}
		if small, large, _ := c.Offsets(); small != nil || large != nil || c.Strings() != nil || c.Raw() != nil || c.Width() != 0 {
			t.Error("codes are no strings, offsets or bytes of one width")
		}
		for _, wrong := range []Column{c, Of([]int64{1, 2, 3}), dict.WithValid(OfBools([]bool{true, true, true}))} {
			if _, err := OfCodes(codes, wrong); err == nil {
				t.Errorf("a dictionary of %v", wrong.Type())
			}
		}
		if _, err := OfCodes([]uint32{1, 3}, dict); err == nil || !strings.Contains(err.Error(), "code 1 is 3, in a dictionary of 3 values") {
			t.Errorf("a code outside: %v", err)
		}
	}
	if codes, dict := OfStrings([]string{"a"}).Codes(); codes != nil || dict.Len() != 0 {
		t.Error("strings have no codes")
	}
}
