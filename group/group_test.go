package group

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/op"
	"pgregory.net/rapid"
)

// open returns a host that fails the test if memory is left on it.
func open(t testing.TB, workers int) device.Host { return devicetest.OpenCPU(t, workers) }

// create makes groups that are closed at the end of the test.
func create(t *testing.T, dev device.Device, aggs []Aggregate, opts *Options) *Groups {
	t.Helper()
	g, err := New(dev, aggs, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

var types = []column.Type{column.Int8, column.Int16, column.Int32, column.Int64, column.Uint8, column.Uint16,
	column.Uint32, column.Uint64, column.Float32, column.Float64, column.Bool, column.Bytes}

// random returns a column of n values. Some values are frequent, and some are edge cases.
func random(rng *rand.Rand, t column.Type, n, groups int) column.Column {
	switch t {
	case column.Int8:
		return randomInts[int8](rng, n, groups)
	case column.Int16:
		return randomInts[int16](rng, n, groups)
	case column.Int32:
		return randomInts[int32](rng, n, groups)
	case column.Int64:
		return randomInts[int64](rng, n, groups)
	case column.Uint8:
		return randomInts[uint8](rng, n, groups)
	case column.Uint16:
		return randomInts[uint16](rng, n, groups)
	case column.Uint32:
		return randomInts[uint32](rng, n, groups)
	case column.Uint64:
		return randomInts[uint64](rng, n, groups)
	case column.Float32:
		return randomFloats[float32](rng, n, groups)
	case column.Float64:
		return randomFloats[float64](rng, n, groups)
	case column.Bool:
		vs := make([]bool, n)
		for i := range vs {
			vs[i] = rng.IntN(2) == 1
		}
		return column.Of(vs)
	}
	return randomTexts(rng, n, groups)
}

func randomInts[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](rng *rand.Rand, n, groups int) column.Column {
	vs := make([]T, n)
	for i := range vs {
		vs[i] = T(rng.IntN(groups))
		if ^T(0) < 0 {
			vs[i] -= T(groups / 2)
		}
	}
	return column.Of(vs)
}

func randomFloats[T float32 | float64](rng *rand.Rand, n, groups int) column.Column {
	vs := make([]T, n)
	for i := range vs {
		switch x := rng.IntN(groups + 8); x {
		case 0:
			vs[i] = T(math.NaN())
		case 1:
			vs[i] = -T(math.NaN())
		case 2:
			vs[i] = T(math.Copysign(0, -1))
		case 3:
			vs[i] = T(math.Inf(1))
		case 4:
			vs[i] = T(math.Inf(-1))
		default:
			vs[i] = T(x-groups/2) / 4
		}
	}
	return column.Of(vs)
}

// randomTexts returns byte strings in one of the forms of columns.
func randomTexts(rng *rand.Rand, n, groups int) column.Column {
	vs := make([]string, n)
	ends := make([]int32, n+1)
	var data []byte
	for i := range vs {
		x := rng.IntN(groups)
		vs[i] = strings.Repeat("\xff", x%3) + fmt.Sprint(x / 3)[:min(x, 1+x%7, len(fmt.Sprint(x/3)))]
		data = append(data, vs[i]...)
		ends[i+1] = int32(len(data))
	}
	if rng.IntN(2) == 0 {
		return column.OfStrings(vs)
	}
	c, err := column.OfOffsets(ends, data)
	if err != nil {
		panic(err)
	}
	return c
}

// someNulls makes some values null, with a bitmap at a random offset.
func someNulls(rng *rand.Rand, c column.Column) column.Column {
	valid := make([]bool, c.Len()+3)
	for i := range valid {
		valid[i] = rng.IntN(4) > 0
	}
	return c.WithValid(column.OfBools(valid).Slice(3, len(valid)))
}

// allOf returns all aggregates of a column of a type.
func allOf(t column.Type, col int) (aggs []Aggregate) {
	for f := Rows; f <= StdDev; f++ {
		if allows(f, t) {
			aggs = append(aggs, Aggregate{Func: f, Column: col})
		}
	}
	return aggs
}

// allows reports whether a function takes values of a type.
func allows(f Func, t column.Type) bool {
	switch {
	case f.numeric():
		return t.Integer() || t.Float()
	case f == AnyTrue || f == AllTrue:
		return t == column.Bool
	}
	return true
}

// trial is a sequence of random batches that are added to Groups and to the model.
type trial struct {
	rng          *rand.Rand
	keys, values []column.Type
	nulls        []bool // by key column
	groups       int
	opts         Options
	aggs         []Aggregate
}

func (x *trial) batch(n int) (keys, values []column.Column) {
	for i, t := range x.keys {
		c := random(x.rng, t, n, x.groups)
		if x.nulls[i] {
			c = someNulls(x.rng, c)
		}
		keys = append(keys, c)
	}
	for _, t := range x.values {
		c := random(x.rng, t, n, 40)
		if x.rng.IntN(2) == 0 {
			c = someNulls(x.rng, c)
		}
		values = append(values, c)
	}
	return keys, values
}

func (x *trial) run(t interface {
	Fatal(...any)
	Fatalf(string, ...any)
	Context() context.Context
}, dev device.Device, sizes ...int) {
	g, err := New(dev, x.aggs, &x.opts)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	m := &model{skip: x.opts.SkipNulls}
	for i, n := range sizes {
		keys, values := x.batch(n)
		m.add(keys, values, n)
		if err := g.Add(t.Context(), keys, values); err != nil {
			t.Fatal(err)
		}
		if g.Len() != len(m.groups) {
			t.Fatalf("%d groups after batch %d, want %d", g.Len(), i, len(m.groups))
		}
		if i%2 == 1 && i < len(sizes)-1 {
			continue
		}
		r, err := g.Result(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d := differ(linesOf(r), m.lines(x.aggs, x.values, x.opts.WrapSums, x.opts.Sorted)); d != "" {
			t.Fatalf("keys %v, values %v, after batch %d: %s", x.keys, x.values, i, d)
		}
	}
}

// Every type is a key and a value, with and without nulls, and with all aggregates.
func TestTypes(t *testing.T) {
	dev := open(t, 2)
	for i, key := range types {
		for j, value := range types {
			rng := rand.New(rand.NewPCG(uint64(i), uint64(j)))
			x := trial{rng: rng, keys: []column.Type{key}, values: []column.Type{value}, nulls: []bool{(i+j)%2 == 0},
				groups: 1 + 20*(j%3), aggs: allOf(value, 0), opts: Options{Sorted: (i+j)%4 == 0, SkipNulls: j%3 == 0}}
			x.run(t, dev, 200, 0, 300)
		}
	}
}

// Columns, types, batches and options are random.
func TestProperties(t *testing.T) {
	dev := open(t, 3)
	rapid.Check(t, func(t *rapid.T) {
		x := drawTrial(t)
		x.run(t, dev, rapid.SliceOfN(rapid.IntRange(0, 100), 1, 5).Draw(t, "batches")...)
	})
}

// drawTrial draws types, aggregates and options.
func drawTrial(t *rapid.T) trial {
	x := trial{rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)), groups: rapid.IntRange(1, 50).Draw(t, "groups")}
	x.keys = rapid.SliceOfN(rapid.SampledFrom(types), 1, 4).Draw(t, "keys")
	x.nulls = rapid.SliceOfN(rapid.Bool(), len(x.keys), len(x.keys)).Draw(t, "nulls")
	x.values = rapid.SliceOfN(rapid.SampledFrom(types), 0, 3).Draw(t, "values")
	for i, typ := range x.values {
		all := allOf(typ, i)
		x.aggs = append(x.aggs, rapid.SliceOfN(rapid.SampledFrom(all), 0, 5).Draw(t, "aggregates")...)
	}
	x.opts = Options{SkipNulls: rapid.Bool().Draw(t, "skip"), Sorted: rapid.Bool().Draw(t, "sorted"),
		Capacity: rapid.SampledFrom([]int{0, 10, maxSinglePart + 1}).Draw(t, "capacity")}
	return x
}

// Cores combine a small number of groups, distribute a large one, and change between both.
func TestManyRows(t *testing.T) {
	dev := open(t, 2)
	for _, groups := range []int{1, 100, maxSinglePart / 2, 3 * maxSinglePart} {
		for _, keys := range [][]column.Type{{column.Int32}, {column.Uint64, column.Bool}} {
			t.Run(fmt.Sprint(groups, keys), func(t *testing.T) {
				x := trial{rng: rand.New(rand.NewPCG(uint64(groups), 7)), keys: keys, nulls: []bool{true, false},
					values: []column.Type{column.Int32, column.Bytes, column.Float32}, groups: groups,
					aggs: []Aggregate{{Func: Rows}, {Sum, 0}, {First, 0}, {Last, 0}, {Mean, 0}, {Max, 1}, {Last, 1}, {Min, 2}}}
				x.run(t, dev, 8000, 25_000, 100, 5000)
			})
		}
	}
}

// Many groups are sorted by several columns, with strings that differ after a common prefix.
func TestSorted(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	const n = 20_000
	names := make([]string, n)
	for i := range names {
		names[i] = "all of them" + strings.Repeat("common", rng.IntN(3)) + strings.Repeat("\x00", rng.IntN(3)) + fmt.Sprint(rng.IntN(3000))
	}
	keys := []column.Column{random(rng, column.Float32, n, 5), someNulls(rng, column.OfStrings(names)), someNulls(rng, random(rng, column.Int16, n, 1000))}
	values := []column.Column{someNulls(rng, random(rng, column.Bytes, n, 100))}
	aggs := []Aggregate{{Func: Rows}, {First, 0}, {Max, 0}}
	r, err := By(t.Context(), open(t, 3), keys, values, aggs, &Options{Sorted: true})
	if err != nil {
		t.Fatal(err)
	}
	m := &model{}
	m.add(keys, values, n)
	if d := differ(linesOf(r), m.lines(aggs, []column.Type{column.Bytes}, false, true)); d != "" {
		t.Error(d)
	}
}

// The same column may be several keys and values.
func TestDuplicateColumns(t *testing.T) {
	c := column.Of([]int32{3, 1, 3})
	r, err := By(t.Context(), open(t, 2), []column.Column{c, c}, []column.Column{c, c}, []Aggregate{{Sum, 0}, {Sum, 1}, {Sum, 1}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := differ(linesOf(r), [][]any{{int32(3), int32(3), int64(6), int64(6), int64(6)}, {int32(1), int32(1), int64(1), int64(1), int64(1)}}); d != "" {
		t.Error(d)
	}
}

// Without key columns all rows are a group. Without aggregates the result is the distinct keys.
func TestNoColumns(t *testing.T) {
	dev := open(t, 2)
	c := []column.Column{column.Of([]uint8{3, 1, 3})}
	for _, tt := range []struct {
		keys, values []column.Column
		aggs         []Aggregate
		want         [][]any
	}{
		{nil, c, []Aggregate{{Func: Rows}, {Max, 0}}, [][]any{{int64(3), uint8(3)}}},
		{c, nil, nil, [][]any{{uint8(3)}, {uint8(1)}}},
		{nil, nil, []Aggregate{{Func: Rows}}, nil},
		{[]column.Column{c[0].Slice(1, 1)}, nil, []Aggregate{{Func: Rows}}, nil},
	} {
		r, err := By(t.Context(), dev, tt.keys, tt.values, tt.aggs, nil)
		if err != nil {
			t.Fatal(err)
		}
		if d := differ(linesOf(r), tt.want); d != "" {
			t.Error(d)
		}
		if len(r.Keys) != len(tt.keys) || len(r.Values) != len(tt.aggs) {
			t.Errorf("%d keys and %d values", len(r.Keys), len(r.Values))
		}
	}
}

// Sums of integers are exact in any order. A sum that does not fit at the end is an error.
func TestSums(t *testing.T) {
	dev := open(t, 2)
	add := func(g *Groups, keys []int16, values column.Column) {
		t.Helper()
		if err := g.Add(t.Context(), []column.Column{column.Of(keys)}, []column.Column{values}); err != nil {
			t.Fatal(err)
		}
	}
	signed := create(t, dev, []Aggregate{{Sum, 0}, {Mean, 0}}, nil)
	add(signed, []int16{1, 2, 2, 1}, column.Of([]int64{math.MaxInt64, math.MinInt64, -5, 5}))
	_, err := signed.Result(t.Context())
	if !errors.Is(err, ErrOverflow) || !strings.Contains(err.Error(), "(1)") || !strings.Contains(err.Error(), "column 0") {
		t.Errorf("sums of too many bits: %v", err)
	}
	add(signed, []int16{1}, column.Of([]int64{-6}))
	if _, err = signed.Result(t.Context()); !errors.Is(err, ErrOverflow) || !strings.Contains(err.Error(), "(2)") {
		t.Errorf("a sum of too many bits: %v", err)
	}
	add(signed, []int16{2}, column.Of([]int64{6}))
	r, err := signed.Result(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := column.Values[int64](r.Values[0]); !slices.Equal(got, []int64{math.MaxInt64 - 1, math.MinInt64 + 1}) {
		t.Errorf("sums %v", got)
	}

	wrap := create(t, dev, []Aggregate{{Sum, 0}, {Mean, 0}}, &Options{WrapSums: true})
	add(wrap, []int16{1, 1, 1}, column.Of([]uint64{math.MaxUint64, math.MaxUint64, 5}))
	if r, err = wrap.Result(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := differ(linesOf(r), [][]any{{int16(1), uint64(3), math.Ldexp(2, 64) / 3}}); d != "" {
		t.Error(d)
	}
}

// Carries of sums move with their groups.
func TestSumsOfManyRows(t *testing.T) {
	dev := open(t, 2)
	const n, groups = 40_000, 100
	keys, values := make([]int, n), make([]int64, n)
	for i := range keys {
		keys[i], values[i] = i%groups, math.MaxInt64
		if i%(2*groups) >= groups {
			values[i] = -math.MaxInt64 + 1
		}
	}
	cut := make([]int, 2*maxSinglePart) // more groups: present ones move
	for i := range cut {
		cut[i] = groups + i
	}
	g := create(t, dev, []Aggregate{{Sum, 0}}, nil)
	for _, b := range []struct {
		keys   []int
		values []int64
	}{{keys[:n/2], values[:n/2]}, {cut, make([]int64, len(cut))}, {keys[n/2:], values[n/2:]}, {keys[:groups], values[:groups]}, {keys[:groups], values[:groups]}} {
		if err := g.Add(t.Context(), []column.Column{column.Of(b.keys)}, []column.Column{column.Of(b.values)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := g.Result(t.Context()); !errors.Is(err, ErrOverflow) || !strings.Contains(err.Error(), "(0)") {
		t.Fatalf("sums of too many bits: %v", err)
	}
	for range 2 {
		if err := g.Add(t.Context(), []column.Column{column.Of(keys[groups : 2*groups])}, []column.Column{column.Of(values[groups : 2*groups])}); err != nil {
			t.Fatal(err)
		}
	}
	r, err := g.Result(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, sum := range column.Values[int64](r.Values[0]) {
		want := int64(0)
		if i < groups {
			want = n/groups/2 + 2
		}
		if sum != want {
			t.Fatalf("the sum of group %d is %d, want %d", i, sum, want)
		}
	}
}

// Errors for invalid arguments name the fault.
func TestErrors(t *testing.T) {
	dev := open(t, 1)
	ints, texts := column.Of([]int32{1, 2}), column.OfStrings([]string{"a", "b"})
	for want, tt := range map[string]struct {
		aggs         []Aggregate
		opts         *Options
		keys, values []column.Column
	}{
		"Func(99)":                               {aggs: []Aggregate{{Func: 99}}},
		"value column -1":                        {aggs: []Aggregate{{Sum, -1}}},
		"Options.Capacity":                       {opts: &Options{Capacity: -1}},
		"Options.Memory":                         {opts: &Options{Memory: MinMemory - 1}},
		"column 1, but there are 1":              {aggs: []Aggregate{{Sum, 1}}, keys: []column.Column{ints}, values: []column.Column{ints}},
		"sum of value column 1, which has bytes": {aggs: []Aggregate{{Sum, 1}}, keys: []column.Column{ints}, values: []column.Column{ints, texts}},
		"mean of value column 0, which has bool": {aggs: []Aggregate{{Mean, 0}}, values: []column.Column{column.Of([]bool{true})}},
		"key column 1 has no type":               {keys: []column.Column{ints.Slice(0, 0), {}}},
		"value column 0 has no type":             {aggs: []Aggregate{{Max, 0}}, keys: []column.Column{ints.Slice(0, 0)}, values: make([]column.Column, 1)},
	} {
		if _, err := By(t.Context(), dev, tt.keys, tt.values, tt.aggs, tt.opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	g := create(t, dev, []Aggregate{{Sum, 0}}, nil)
	if r, err := g.Result(t.Context()); err != nil || r.Len() != 0 || len(r.Values) != 1 {
		t.Errorf("the result of nothing is %v, %v", r, err)
	}
	one := []column.Column{ints}
	if err := g.Add(t.Context(), one, one); err != nil {
		t.Fatal(err)
	}
	for want, tt := range map[string]struct{ keys, values []column.Column }{
		"2 key columns, where the first batch had 1": {[]column.Column{ints, ints}, one},
		"0 value columns": {one, nil},
		"key column 0 has bytes, where the first batch had int32":   {[]column.Column{texts}, one},
		"value column 0 has bytes, where the first batch had int32": {one, []column.Column{texts}},
	} {
		if err := g.Add(t.Context(), tt.keys, tt.values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := errors.Join(g.Close(), g.Close()); err != nil {
		t.Error(err)
	}
	if err := g.Add(t.Context(), one, one); !errors.Is(err, op.ErrClosed) {
		t.Errorf("Add behind Close: %v", err)
	}
	if _, err := g.Result(t.Context()); !errors.Is(err, op.ErrClosed) {
		t.Errorf("Result behind Close: %v", err)
	}
}

func TestUnequalLengthsPanic(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	_, _ = By(t.Context(), open(t, 1), []column.Column{column.Of([]int{1})}, []column.Column{column.Of([]int{1, 2})}, nil, nil)
}

// Names of functions print and parse.
func TestFuncs(t *testing.T) {
	for f := Rows; f <= StdDev; f++ {
		if got, err := ParseFunc(f.String()); got != f || err != nil {
			t.Errorf("%v is %v, %v", f, got, err)
		}
	}
	if _, err := ParseFunc("median"); err == nil || !strings.Contains(err.Error(), "mean") {
		t.Errorf("median: %v", err)
	}
	if s := Func(99).String(); s != "group.Func(99)" {
		t.Error(s)
	}
}
