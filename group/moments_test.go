package group

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// spreads returns the variance and the standard deviation of values, added in batches of the given
// number of rows to tables that are merged.
func spreads(t *testing.T, values column.Column, perTable int) (variance, deviation any) {
	t.Helper()
	dev, aggs := open(t, 1), []Aggregate{{Func: Var}, {Func: StdDev}}
	all := create(t, dev, aggs, nil)
	for lo := 0; lo < values.Len(); lo += perTable {
		part := values.Slice(lo, min(lo+perTable, values.Len()))
		g := create(t, dev, aggs, nil)
		keys := column.Of(make([]int64, part.Len()))
		if err := g.Add(t.Context(), []column.Column{keys}, []column.Column{part}); err != nil {
			t.Fatal(err)
		}
		if err := all.Merge(t.Context(), g); err != nil {
			t.Fatal(err)
		}
	}
	r, err := all.Result(t.Context())
	if err != nil || r.Len() != 1 {
		t.Fatalf("%d groups, %v", r.Len(), err)
	}
	return r.Values[0].Any(0), r.Values[1].Any(0)
}

// Values far from zero keep the digits of their variance, in whatever pieces they come.
func TestSpreadFarFromZero(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, offset := range []float64{0, 1e6, -1e9, 1e12} {
		values := make([]float64, 10_000)
		var mean, want float64
		for i := range values {
			values[i] = offset + float64(rng.IntN(1000)) // exact
			mean += (values[i] - offset) / float64(len(values))
		}
		for _, v := range values {
			d := v - offset - mean
			want += d * d / float64(len(values)-1)
		}
		for _, perTable := range []int{len(values), 777, 1} {
			v, d := spreads(t, column.Of(values), perTable)
			if got := v.(float64); math.Abs(got-want) > 1e-9*want || d != math.Sqrt(got) {
				t.Errorf("%g, %d rows a table: %v and %v, want %v", offset, perTable, v, d, want)
			}
		}
	}
}

// Integers of any size and floats of any offset have the variance that exact sums give.
func TestSpreadOfTimes(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	nanos, high, floats := make([]int64, 1000), make([]uint64, 1000), make([]float64, 100_000)
	for i := range nanos {
		nanos[i] = 1_700_000_000_000_000_000 + rng.Int64N(1000)
		high[i] = math.MaxUint64 - rng.Uint64N(1000)
	}
	for i := range floats {
		floats[i] = 1e15 + float64(rng.IntN(64))/8
	}
	for name, c := range map[string]column.Column{
		"nanoseconds": column.Of(nanos), "negative": column.Of([]int64{math.MinInt64, math.MinInt64 + 3}),
		"beyond float64": column.Of([]int64{1 << 53, 1<<53 + 1}), "largest": column.Of(high), "floats": column.Of(floats),
	} {
		vs := make([]any, c.Len())
		for i := range vs {
			vs[i] = c.Any(i)
		}
		want := float64(spreadOf(Var, vs).(approx))
		for _, perTable := range []int{c.Len(), 300} {
			if v, _ := spreads(t, c, perTable); math.Abs(v.(float64)-want) > 1e-12*want {
				t.Errorf("%s, %d rows a table: %v, want %v", name, perTable, v, want)
			}
		}
	}
}

func TestSpreadEdges(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for name, c := range map[string]struct {
		values column.Column
		want   float64 // -1 is null
	}{
		"one value":       {column.Of([]int32{7}), -1},
		"equal values":    {column.Of([]float64{.1, .1, .1}), 0},
		"large squares":   {column.Of([]float64{1e152, 3e152, 5e152, 7e152}), 6.67e304},
		"two":             {column.Of([]uint8{255, 253}), 2},
		"largest ints":    {column.Of([]uint64{math.MaxUint64, math.MaxUint64}), 0},
		"extremes":        {column.Of([]int64{math.MinInt64, math.MaxInt64}), math.Ldexp(1, 127)},
		"NaN":             {column.Of([]float64{1, nan}), nan},
		"infinity":        {column.Of([]float64{1, inf, 2}), nan},
		"squares too big": {column.Of([]float64{1e200, 1e200}), nan},
		"smallest":        {column.Of([]float32{math.SmallestNonzeroFloat32, 0}), 9.8e-91},
		"null beside one": {column.Of([]int64{1, 2}).WithValid(column.OfBools([]bool{true, false})), -1},
	} {
		for _, perTable := range []int{5, 1} {
			v, d := spreads(t, c.values, perTable)
			got, ok := v.(float64)
			if !ok {
				got = -1
			}
			same := math.IsNaN(got) && math.IsNaN(c.want) || math.Abs(got-c.want) <= .01*math.Abs(c.want)
			if !same || (d == nil) != (v == nil) {
				t.Errorf("%s: %v and %v, want %v", name, v, d, c.want)
			}
		}
	}
}

// GPUs have no kernels of moments, and say so.
func TestSpreadOnGPU(t *testing.T) {
	dev := devicetest.OpenSim(t, nil)
	aggs := []Aggregate{{Func: Rows}, {Func: StdDev}}
	if _, err := NewOn(dev, aggs, nil); !errors.Is(err, device.ErrUnsupported) {
		t.Errorf("NewOn: %v", err)
	}
	one := []column.Column{column.Of([]int64{1})}
	if _, err := ByOn(t.Context(), dev, one, one, aggs, nil); !errors.Is(err, device.ErrUnsupported) {
		t.Errorf("ByOn: %v", err)
	}
}
