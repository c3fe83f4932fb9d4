package parquet

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go/format"

	"github.com/weftgo/weft/column"
)

// TestExtents compares the statistics of a file as bytes. Bounds ignore NaN and nulls, and zeros
// include both signs. Bounds that a reader would misinterpret are omitted.
func TestExtents(t *testing.T) {
	nan, zero := math.NaN(), math.Copysign(0, -1)
	f8 := func(v float64) string { return string(le64(int64(math.Float64bits(v)))) }
	number := func(t column.Type) Type { return Type{Column: t} }
	text := Type{Kind: Text, Column: column.Bytes}
	nulls := func(c column.Column,
		valid ...bool) column.Column {
		return c.WithValid(column.OfBools(valid))
	}
	for i, c := range []struct {
		t           Type
		c           column.Column
		least, most string
		nulls       int64
		index       bool
	}{
		{number(column.Int64), nulls(column.Of([]int64{5, -9, 7}), true, false, true),
			string(le64(5)), string(le64(7)), 1, true},
		{number(column.Uint64), column.Of([]uint64{5, 1 << 63}), string(le64(5)),
			string(le64(math.MinInt64)), 0, true},
		{number(column.Int8), column.Of([]int8{5, -128}), string(le32(-128)), string(le32(5)), 0,
			true},
		{number(column.Uint16), column.Of([]uint16{5, 65535}), string(le32(5)),
			string(le32(65535)), 0, true},
		{number(column.Float64), column.Of([]float64{nan, 1, nan, -2, nan}), f8(-2), f8(1), 0,
			true},
		{number(column.Float64), column.Of([]float64{0, 1}), f8(zero), f8(1), 0, true},
		{number(column.Float64), column.Of([]float64{-1, zero}), f8(-1), f8(0), 0, true},
		{number(column.Float32), column.Of([]float32{0, float32(zero)}), "\x00\x00\x00\x80",
			"\x00\x00\x00\x00", 0, true},
		{number(column.Float64), column.Of([]float64{nan, nan}), "", "", 0, false},
		{number(column.Float64), nulls(column.Of([]float64{1, 2}), false, false), "", "", 2, true},
		{Type{Kind: Bool, Column: column.Bool}, column.Of([]bool{true, true}), "\x01", "\x01", 0,
			true},
		{Type{Kind: Bool, Column: column.Bool}, column.Of([]bool{true, false}), "\x00", "\x01", 0,
			true},
		{text, nulls(column.OfStrings([]string{"b", "\xc3\xbf", "a", ""}), true, true, true,
			false), "a", "\xc3\xbf", 1, true},
		{text, column.OfStrings([]string{"b", strings.Repeat("x", 257)}), "", "", 0, false},
		{Type{Kind: Decimal, Column: column.Bytes, Width: 2, Precision: 4}, must(column.OfWidth(2,
			[]byte("\xff\xff\x00\x01"))), "", "", 0, false},
	} {
		var out bytes.Buffer
		w := must(NewWriter(&out, []Field{{"x", c.t}}, "test"))
		half := c.c.Len() / 2
		for _, part := range []column.Column{c.c.Slice(0, half), c.c.Slice(half, c.c.Len())} {
			if err := w.Write([]column.Column{part}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		f := must(Open(bytes.NewReader(out.Bytes()), int64(out.Len())))
		stats, _ := f.chunkStats(0, &f.leaves[0])
		s := stats.MetaData.Statistics
		if string(s.MinValue) != c.least || string(s.MaxValue) != c.most ||
			s.NullCount.V != c.nulls || !s.NullCount.Valid {
			t.Errorf("case %d: %q to %q, %v nulls", i, s.MinValue, s.MaxValue, s.NullCount)
		}
		var x format.ColumnIndex
		if got := f.index(stats.ColumnIndexOffset, stats.ColumnIndexLength, &x); got != c.index {
			t.Errorf("case %d: an index of pages: %v", i, got)
		} else if got && string(x.MinValues[0])+string(x.MaxValues[0]) != c.least+c.most || got &&
			fmt.Sprint(x.NullCounts) != fmt.Sprint([]int64{c.nulls}) ||
			got && x.NullPages[0] != (c.least == "" && c.t.Kind == Number) {
			t.Errorf("case %d: %+v", i, x)
		}
	}
}
