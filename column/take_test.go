package column_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device/devicetest"
)

// Rows are taken from columns of all types and layouts, more than once and in any order.
func TestTake(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 100).Draw(t, "n")
		valid, text := drawValid(t, n), make([]string, n)
		for i := range text {
			text[i] = rapid.SampledFrom([]string{"", "a", "longer"}).Draw(t, "text")
		}
		columns := textLayouts(t, text, valid)
		wide, err := column.OfWidth(3, []byte(strings.Repeat("abcdef", n)))
		if err != nil {
			t.Fatal(err)
		}
		columns["width"] = withBits(t, wide.Slice(1, n+1), valid)
		for i, c := range fixedColumns(t, n) {
			columns[fmt.Sprint(i, c.Type())] = withBits(t, c, valid)
		}
		rows := rapid.SliceOfN(rapid.Uint32Range(0, uint32(n-1)), 0, 200).Draw(t, "rows")
		for name, c := range columns {
			got := column.Take(dev, c, rows)
			if got.Type() != c.Type() || got.Len() != len(rows) || got.HasNulls() != c.HasNulls() {
				t.Fatalf("%s: %v of %d rows", name, got.Type(), got.Len())
			}
			if got.HasCodes() != c.HasCodes() || got.Width() != c.Width() {
				t.Fatalf("%s: another layout", name)
			}
			for i, row := range rows {
				if g, w := got.Any(i), c.Any(int(row)); g != w && !(g != g && w != w) {
					t.Fatalf("%s: row %d, from %d, is %v, want %v", name, i, row, g, w)
				}
			}
		}
	})
}

// fixedColumns returns columns of n rows of all types of fixed size, as slices of longer ones.
func fixedColumns(t *rapid.T, n int) []column.Column {
	at := rapid.IntRange(0, 9).Draw(t, "at")
	ints := rapid.SliceOfN(rapid.Int64(), n+at, n+at).Draw(t, "integers")
	floats := rapid.SliceOfN(rapid.SampledFrom([]float64{
		0, math.Copysign(0, -1), math.NaN(), math.Float64frombits(0xfff123 << 40), 1.5, -.1,
		math.Inf(1), 1e-310, 1e-40,
	}), n+at, n+at).Draw(t, "floats")
	bools := rapid.SliceOfN(rapid.Bool(), n+at, n+at).Draw(t, "bools")
	all := []column.Column{
		castFixed[int8](ints), castFixed[int16](ints), castFixed[int32](ints), castFixed[int64](ints), castFixed[uint8](ints),
		castFixed[uint16](ints), castFixed[uint32](ints), castFixed[uint64](ints), castFixed[float32](floats), column.Of(floats),
		column.Of(bools),
	}
	for i, c := range all {
		all[i] = c.Slice(at, n+at)
	}
	return all
}

// A row outside the column panics, even if the memory continues there.
func TestTakeOutside(t *testing.T) {
	dev := devicetest.OpenCPU(t, 1)
	wide, err := column.OfWidth(1, []byte("abc"))
	if err != nil {
		t.Fatal(err)
	}
	small, err := column.OfOffsets([]int32{0, 1, 2, 3}, []byte("abc"))
	if err != nil {
		t.Fatal(err)
	}
	codes, err := column.OfCodes([]uint32{0, 0, 0}, column.OfStrings([]string{"a"}))
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []column.Column{
		column.Of([]int64{1, 2, 3}), column.Of([]bool{true, false, true}), wide, small, codes,
		column.OfStrings([]string{"a", "b", "c"}),
	} {
		for _, n := range []int{0, 2} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("column %d: row %d of %d is no panic", i, n, n)
					}
				}()
				column.Take(dev, c.Slice(0, n), []uint32{uint32(n)})
			}()
		}
	}
	if c := column.Take(dev, column.Column{}, nil); c.Len() != 0 || c.Type() != column.None {
		t.Errorf("no rows of no column are %v", c)
	}
}
