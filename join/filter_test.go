package join_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/join"
)

func filterOf(t interface{ Fatal(...any) }, keys []column.Column,
	opts *join.FilterOptions) *join.Filter {
	types := make([]column.Type, len(keys))
	for i, c := range keys {
		types[i] = c.Type()
	}
	f, err := join.NewFilter(types, opts)
	if err != nil {
		t.Fatal(err)
	}
	half := keys[0].Len() / 2
	for _, at := range [][2]int{{0, half}, {half, keys[0].Len()}} {
		part := make([]column.Column, len(keys))
		for i, c := range keys {
			part[i] = c.Slice(at[0], at[1])
		}
		if err := f.Add(context.Background(), part); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// A filter passes all rows that match, and the bounds of each, for any columns and sizes.
func TestFilterKeepsMatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		types := rapid.SliceOfN(rapid.SampledFrom(drawn), 1, 3).Draw(t, "types")
		opts := &join.FilterOptions{NullsMatch: rapid.Bool().Draw(t, "NullsMatch"),
			Rows:     rapid.SampledFrom([]int{0, 1, 1000}).Draw(t, "Rows"),
			MaxBytes: rapid.SampledFrom([]int{0, 1, 100}).Draw(t, "MaxBytes")}
		right := drawSide(t, types, 40)
		f := filterOf(t, right, opts)
		left := drawSide(t, types, 40)
		want := modelOf(right, opts.NullsMatch).answers(left, opts.NullsMatch).semi
		got, err := f.Select(left, []uint32{7})
		if err != nil || got[0] != 7 || !slices.IsSorted(got[1:]) {
			t.Fatal(got, err)
		}
		for _, row := range want {
			if !slices.Contains(got[1:], row) {
				t.Fatalf("row %d matches, and is not in %v", row, got)
			}
		}
		for i, c := range left {
			checkBounds(t, f, i, c, want)
		}
	})
}

// checkBounds queries bounds around each row that matches.
func checkBounds(t *rapid.T, f *join.Filter, i int, c column.Column, match []uint32) {
	for _, row := range match {
		lo := rapid.IntRange(0, int(row)).Draw(t, "first")
		hi := rapid.IntRange(int(row)+1, c.Len()).Draw(t, "end")
		bounds, nulls := boundsOf(t, c.Slice(lo, hi))
		if !f.MayContain(i, bounds, nulls) {
			t.Fatalf("column %d, rows %d to %d lie between %v and %v, null %v; row %d matches", i,
				lo,
				hi, bounds.Any(0), bounds.Any(1), nulls, row)
		}
	}
}

// boundsOf returns bounds that Parquet may store for a column: without NaN, with any sign of zero,
// and sometimes incomplete.
func boundsOf(t *rapid.T, c column.Column) (bounds column.Column, nulls bool) {
	lo, hi := -1, -1
	for i := range c.Len() {
		v := c.Any(i)
		if v == nil {
			nulls = true
			continue
		}
		if f, ok := v.(float32); ok && f != f {
			continue
		}
		if f, ok := v.(float64); ok && f != f {
			continue
		}
		if lo < 0 || less(v, c.Any(lo)) {
			lo = i
		}
		if hi < 0 || !less(v, c.Any(hi)) {
			hi = i
		}
	}
	if c.Nulls() == c.Len() {
		return c.Slice(0, 0), true
	}
	known := []bool{lo >= 0 && rapid.Bool().Draw(t, "min"), hi >= 0 && rapid.Bool().Draw(t,
		"max")}
	two := pick(c, [2]uint32{uint32(max(lo, 0)), uint32(max(hi, 0))})
	return two.WithValid(column.OfBools(known)), nulls
}

// less compares values of one type.
func less(a, b any) bool {
	switch a := a.(type) {
	case int8:
		return a < b.(int8)
	case int16:
		return a < b.(int16)
	case int32:
		return a < b.(int32)
	case int64:
		return a < b.(int64)
	case uint8:
		return a < b.(uint8)
	case uint16:
		return a < b.(uint16)
	case uint32:
		return a < b.(uint32)
	case uint64:
		return a < b.(uint64)
	case float32:
		return a < b.(float32)
	case float64:
		return a < b.(float64)
	case bool:
		return !a && b.(bool)
	case string:
		return a < b.(string)
	}
	panic(a)
}

// Ranges exclude what they should, for each type.
func TestFilterBounds(t *testing.T) {
	inf, nan, zero := math.Inf(1), math.NaN(), math.Copysign(0, -1)
	long := string(make([]byte, 300))
	nulls := column.Of([]int64{0, 0}).WithValid(column.OfBools([]bool{false, false}))
	for i, c := range []struct {
		build, bounds column.Column
		nulls         bool
		match         bool // without NullsMatch; with it
		nullsMatch    bool
	}{
		{column.Of([]int64{5, 9}), column.Of([]int64{9, 20}), false, true, true},
		{column.Of([]int64{5, 9}), column.Of([]int64{10, 20}), false, false, false},
		{column.Of([]int64{5, 9}), column.Of([]int64{-20, 4}), true, false, false},
		{column.Of([]int8{-5, -3}), column.Of([]int8{1, 9}), false, false, false},
		{column.Of([]uint64{1 << 63}), column.Of([]uint64{0, 1<<63 - 1}), false, false, false},
		{column.Of([]uint64{1 << 63}), column.Of([]uint64{1 << 62, 1<<63 + 1}), false, true, true},
		{column.Of([]bool{true}), column.Of([]bool{false, false}), false, false, false},
		{column.Of([]float64{zero}), column.Of([]float64{0, 1}), false, true, true},
		{column.Of([]float64{0}), column.Of([]float64{-1, zero}), false, true, true},
		{column.Of([]float32{1}), column.Of([]float32{2, 3}), false, false, false},
		{column.Of([]float64{1}), column.Of([]float64{nan, -2}), false, false, false},
		{column.Of([]float64{1}), column.Of([]float64{nan, nan}), false, true, true},
		{column.Of([]float64{1, nan}), column.Of([]float64{2, 3}), false, true, true},
		{column.Of([]float64{-inf}), column.Of([]float64{-1, inf}), false, false, false},
		{column.OfStrings([]string{"b"}), column.OfStrings([]string{"a", "az"}), false, false,
			false},
		{column.OfStrings([]string{"b"}), column.OfStrings([]string{"a", "b"}), false, true, true},
		{column.OfStrings([]string{"\xff"}), column.OfStrings([]string{"a", "\x7f"}), false,
			false, false},
		{column.OfStrings([]string{long + "m"}), column.OfStrings([]string{long + "a", long + "b"}),
			false, true, true},
		{nulls, column.Of([]int64{0, 9}), true, false, true},
		{nulls, column.Of([]int64{0, 9}), false, false, false},
		{nulls, column.Of([]int64{}), true, false, true},
		{column.Of([]int64{5}), column.Of([]int64{}), true, false, false},
		{column.Of([]int64{}), column.Of([]int64{0, 9}), true, false, false},
		{column.Of([]int64{5}), nulls, false, true, true}, // unknown bounds
	} {
		for _, match := range []bool{false, true} {
			f := filterOf(t, []column.Column{c.build}, &join.FilterOptions{NullsMatch: match})
			want := map[bool]bool{false: c.match, true: c.nullsMatch}[match]
			if got := f.MayContain(0, c.bounds, c.nulls); got != want {
				t.Errorf("case %d, NullsMatch %v: %v", i, match, got)
			}
		}
	}
}

// Only a small share of absent keys passes, and none outside the range.
func TestFilterDrops(t *testing.T) {
	const n = 1 << 17
	rng := rand.New(rand.NewPCG(1, 2))
	build, probe, far := make([]uint64, n), make([]uint64, n), make([]uint64, n)
	texts := make([]string, n)
	for i := range n {
		build[i], probe[i], far[i] = rng.Uint64()>>1, rng.Uint64()>>1, 1<<63+rng.Uint64()>>1
		texts[i] = fmt.Sprint(probe[i])
	}
	f := filterOf(t, []column.Column{column.Of(build)}, &join.FilterOptions{Rows: n})
	if f.Bytes() != 2*n {
		t.Errorf("%d bytes for %d rows", f.Bytes(), n)
	}
	rows, _ := f.Select([]column.Column{column.Of(probe)}, nil)
	if rate := float64(len(rows)) / n; rate > .0015 {
		t.Errorf("%.4f of the other keys pass", rate)
	}
	if rows, _ := f.Select([]column.Column{column.Of(far)}, nil); len(rows) != 0 {
		t.Errorf("%d keys outside the range pass", len(rows))
	}
	rows, _ = f.Select([]column.Column{column.Of(build)}, nil)
	if len(rows) != n {
		t.Errorf("%d of %d keys pass", len(rows), n)
	}
	pair := []column.Column{column.Of(build), column.OfStrings(texts)}
	f = filterOf(t, pair, &join.FilterOptions{Rows: n})
	slices.Reverse(texts)
	if rows, _ = f.Select(pair, nil); len(rows) > n/500 {
		t.Errorf("%d of %d pairs of keys pass", len(rows), n)
	}
}

// A filter that is too small keeps only its ranges.
func TestFilterOverfull(t *testing.T) {
	keys := make([]int64, 1<<14)
	for i := range keys {
		keys[i] = int64(2 * i)
	}
	texts := make([]string, len(keys))
	for i := range texts {
		texts[i] = fmt.Sprintf("%06d", i)
	}
	for _, c := range []column.Column{column.Of(keys), column.OfStrings(texts)} {
		f := filterOf(t, []column.Column{c}, &join.FilterOptions{MaxBytes: 1 << 10})
		if f.Bytes() != 0 {
			t.Errorf("%d bytes of 128 bits for %d rows stay", f.Bytes(), len(keys))
		}
		rows, err := f.Select([]column.Column{c}, nil)
		if err != nil || len(rows) != len(keys) {
			t.Errorf("%d rows pass, %v", len(rows), err)
		}
	}
	valid := make([]bool, len(keys))
	valid[0], valid[9] = true, true
	some := []column.Column{column.Of(keys), column.Of(keys).WithValid(column.OfBools(valid))}
	f := filterOf(t, some[:1], &join.FilterOptions{MaxBytes: 1})
	if err := f.Add(context.Background(), some[1:]); err != nil {
		t.Fatal(err)
	}
	if rows, _ := f.Select(some[1:], nil); !slices.Equal(rows, []uint32{0, 9}) {
		t.Errorf("of rows with a key 2 and not %d pass", len(rows))
	}
	f = filterOf(t, []column.Column{column.OfStrings(texts)}, &join.FilterOptions{MaxBytes: 1})
	rows, _ := f.Select([]column.Column{column.OfStrings([]string{"", "0", "000000", "1", "z"})},
		nil)
	if !slices.Equal(rows, []uint32{2}) {
		t.Errorf("rows %v pass", rows)
	}
}

func TestFilterErrors(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	for _, types := range [][]column.Type{nil, {column.None}} {
		if _, err := join.NewFilter(types, nil); !errors.Is(err, weft.ErrOptions) {
			t.Errorf("%v: %v", types, err)
		}
	}
	for _, o := range []join.FilterOptions{{Rows: -1}, {MaxBytes: -1}} {
		if _, err := join.NewFilter([]column.Type{column.Int8}, &o); !errors.Is(err,
			weft.ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	f, _ := join.NewFilter([]column.Type{column.Int8}, nil)
	for _, keys := range [][]column.Column{nil, {column.Of([]int16{1})}} {
		if err := f.Add(ctx, keys); !errors.Is(err, weft.ErrOptions) {
			t.Errorf("%v: %v", keys, err)
		}
		if _, err := f.Select(keys, nil); !errors.Is(err, weft.ErrOptions) {
			t.Errorf("%v: %v", keys, err)
		}
	}
	cancel()
	if err := f.Add(ctx, []column.Column{column.Of([]int8{1})}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("bounds of another type do not panic")
		}
	}()
	f.MayContain(0, column.Of([]int16{1, 2}), false)
}

// BenchmarkFilter probes absent keys, within the range and outside it.
func BenchmarkFilter(b *testing.B) {
	const probes = 1 << 17
	for _, n := range []int{1e4, 1e6, 1e7} {
		for _, bits := range []int{8, 12, 16} {
			rng := rand.New(rand.NewPCG(1, 2))
			build, probe := make([]int64, n), make([]int64, probes)
			for i := range build {
				build[i] = rng.Int64()
			}
			for i := range probe {
				probe[i] = rng.Int64()
			}
			keys := []column.Column{column.Of(build)}
			f := filterOf(b, keys, &join.FilterOptions{Rows: n, MaxBytes: n * bits / 8})
			b.Run(fmt.Sprintf("keys=%d/bits=%d", n, bits), func(b *testing.B) {
				var rows []uint32
				for b.Loop() {
					rows, _ = f.Select([]column.Column{column.Of(probe)}, rows[:0])
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/probes, "ns/row")
				b.ReportMetric(1e6*float64(len(rows))/probes, "passed/million")
			})
		}
	}
	for _, far := range []bool{false, true} {
		build, probe := make([]int64, 1e4), make([]int64, probes)
		for i := range build {
			build[i] = int64(i)
		}
		for i := range probe {
			probe[i] = int64(i) + 1e4
			if !far {
				probe[i] = int64(i) % 1e4
			}
		}
		f := filterOf(b, []column.Column{column.Of(build)}, &join.FilterOptions{Rows: 1e4})
		b.Run(fmt.Sprintf("outside=%v", far), func(b *testing.B) {
			var rows []uint32
			for b.Loop() {
				rows, _ = f.Select([]column.Column{column.Of(probe)}, rows[:0])
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/probes, "ns/row")
		})
	}
	b.Run("add", func(b *testing.B) {
		build := make([]int64, 1e6)
		for i := range build {
			build[i] = rand.Int64()
		}
		for b.Loop() {
			filterOf(b, []column.Column{column.Of(build)}, &join.FilterOptions{Rows: 1e6})
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1e6, "ns/row")
	})
}

// pick returns two values of a column. If a value is null, the bytes under it are undefined.
func pick(c column.Column, rows [2]uint32) column.Column {
	lo, hi := c.Slice(int(rows[0]), int(rows[0])+1), c.Slice(int(rows[1]), int(rows[1])+1)
	two, err := column.Concat(lo, hi)
	if err != nil {
		panic(err)
	}
	return two
}
