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

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/gpu/groups"
)

// devices runs a test on the simulator, and on the device that the environment selects.
func devices(t *testing.T, test func(t *testing.T, dev device.Device)) {
	t.Run("device", func(t *testing.T) { test(t, devicetest.Open(t)) })
	t.Run("sim", func(t *testing.T) {
		if testing.Short() {
			t.Skip("interprets kernels")
		}
		test(t, devicetest.OpenSim(t, nil))
	})
}

// small returns groups whose tables are small, so that they overflow and grow. The default tables
// are large, which takes time in a simulator.
func small(t interface {
	Helper()
	Fatal(...any)
}, dev device.Device, aggs []Aggregate, opts *Options) *GroupsOn {
	t.Helper()
	g, err := NewOn(dev, aggs, opts)
	must(t, err)
	if on, ok := g.impl.(*gpuGroups); ok {
		on.sizes = smallSizes
	}
	return g
}

var smallSizes = groups.Options{MinSlots: 64, Round: 1024, Cells: 31, Blocks: 2}

// Aggregates of two columns.
var onDevice = []Aggregate{
	{Func: Rows}, {Func: Sum}, {Func: Mean}, {Func: Min, Column: 1}, {Func: Max}, {Func: Sum, Column: 1}, {Func: Count, Column: 1},
	{Func: Max, Column: 1}, {Func: First}, {Func: Last, Column: 1}, {Func: Count},
}

// of returns its arguments, the types of the columns of a case.
func of(t ...column.Type) []column.Type { return t }

// Rows on a device, in batches on several streams, have the same aggregates as in [Groups].
func TestOn(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		for _, c := range []struct {
			keys, values []column.Type
			aggs         []Aggregate
		}{
			{of(column.Int64), of(column.Int64, column.Int64), onDevice},
			{of(column.Int64), of(column.Int64), onDevice[:2]},
			{of(column.Uint64), of(column.Uint64, column.Float32), onDevice},
			{of(column.Int32), of(column.Uint64), onDevice[:3]},
			{of(column.Uint32), of(column.Float64, column.Int8), onDevice},
			{of(column.Float64), of(column.Int32, column.Bool), []Aggregate{{Func: Sum}, {Func: Min, Column: 1}, {Func: Last, Column: 1}}},
			{of(column.Float32), of(column.Float32, column.Uint16), onDevice},
			{of(column.Int64), nil, onDevice[:1]},
			{of(column.Uint64), nil, nil},
			// Packed, with bits for nulls.
			{of(column.Int32, column.Int16, column.Bool), of(column.Int64), onDevice[:2]},
			{of(column.Uint8, column.Float32), of(column.Int16, column.Uint8), onDevice},
			{of(column.Bool), of(column.Uint32, column.Int64), onDevice},
			// Packed, without.
			{of(column.Int32, column.Float32), of(column.Int64), onDevice[:2]},
			{of(column.Uint16, column.Int16, column.Uint32), of(column.Float64, column.Float64), onDevice},
			// Longer keys.
			{of(column.Int64, column.Int8), of(column.Int64), onDevice[:2]},
			{of(column.Float64, column.Int64, column.Float32, column.Uint8), of(column.Int64, column.Uint16), onDevice},
			{nil, of(column.Int64, column.Int8), onDevice},
		} {
			for _, o := range []Options{{WrapSums: true}, {WrapSums: true, SkipNulls: true}} {
				for _, nulls := range []int{0, 3} {
					if nulls == 0 && o.SkipNulls {
						continue // no nulls to skip
					}
					t.Run(fmt.Sprintf("%v by %v, %d nulls, skipped %v", c.values, c.keys, nulls, o.SkipNulls), func(t *testing.T) {
						tryOn(t, dev, c.keys, c.values, c.aggs, o, nulls)
					})
				}
			}
		}
	})
}

// drawn draws values of a type: small ones with exact sums, and some edge cases. On average, one of
// nulls values is null.
func drawn(rng *rand.Rand, t column.Type, n, limit, nulls int) column.Column {
	c := map[column.Type]func() column.Column{
		column.Int8: drawnAs[int8](rng, n, limit), column.Int16: drawnAs[int16](rng, n, limit), column.Int32: drawnAs[int32](rng, n, limit),
		column.Int64: drawnAs[int64](rng, n, limit), column.Uint8: drawnAs[uint8](rng, n, limit), column.Uint16: drawnAs[uint16](rng, n, limit),
		column.Uint32: drawnAs[uint32](rng, n, limit), column.Uint64: drawnAs[uint64](rng, n, limit),
		column.Float32: drawnAs[float32](rng, n, limit), column.Float64: drawnAs[float64](rng, n, limit),
		column.Bool: func() column.Column {
			all := make([]bool, n)
			for i := range all {
				all[i] = rng.IntN(2) == 0
			}
			return column.Of(all)
		},
	}[t]()
	if nulls == 0 {
		return c
	}
	valid := make([]bool, n)
	for i := range valid {
		valid[i] = rng.IntN(nulls) > 0
	}
	return c.WithValid(column.OfBools(valid))
}

func drawnAs[T interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64
}](rng *rand.Rand, n, most int) func() column.Column {
	return func() column.Column {
		all := make([]T, n)
		odd := []float64{math.NaN(), math.Inf(1), math.Copysign(0, -1), math.Inf(-1), math.Float64frombits(math.MaxUint64)}
		for i := range all {
			all[i] = T(rng.IntN(most) & 127)
			if rng.IntN(3) == 0 {
				all[i] = -all[i] // unsigned ones then have many bits
			}
			if k := rng.IntN(200); k < len(odd) && T(1)/T(2) > 0 {
				all[i] = T(odd[k])
			}
		}
		return column.Of(all)
	}
}

// upload returns columns on a device, with bitmaps at any offset.
func upload(t *testing.T, s *device.Stream, columns []column.Column) (all []column.On) {
	t.Helper()
	for i, c := range columns {
		on, err := column.Upload(s, c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(s.Sync(context.Background()), on.Free()); err != nil {
				t.Error(err)
			}
		})
		if c.HasNulls() && i%2 == 1 {
			bits := make([]byte, c.Len()/8+3)
			for j := range c.Len() {
				if at := j + 11; !c.Null(j) {
					bits[at/8] |= 1 << (at % 8)
				}
			}
			all = append(all, on.WithValid(devicetest.Upload(t, s, bits), 11))
			continue
		}
		all = append(all, on)
	}
	return all
}

func tryOn(t *testing.T, dev device.Device, keys, values []column.Type, aggs []Aggregate, o Options, nulls int) {
	g := small(t, dev, aggs, &o)
	o.Sorted = true
	host, err := New(devicetest.OpenCPU(t, 1), aggs, &o)
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	rng := rand.New(rand.NewPCG(5, 6))
	streams := []*device.Stream{devicetest.NewStream(t, dev), devicetest.NewStream(t, dev)}
	var keyBatches, valueBatches [][]column.Column
	for i, n := range []int{0, 1, 300, 0, 200, 900} {
		every := nulls
		if i == 2 { // none, and some later
			every = 0
		}
		var k, v []column.Column
		for _, typ := range keys {
			k = append(k, drawn(rng, typ, n, 1+50/len(keys), every))
		}
		for _, typ := range values {
			v = append(v, drawn(rng, typ, n, 1000, every))
		}
		s := streams[i%2]
		if err := errors.Join(g.AddOn(s, upload(t, s, k), upload(t, s, v)), host.Add(t.Context(), k, v)); err != nil {
			t.Fatal(err)
		}
		keyBatches, valueBatches = append(keyBatches, k), append(valueBatches, v)
		if i != 0 && i != 3 && i != 5 {
			continue
		}
		got, err := g.Result(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want, err := host.Result(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d := differ(linesOf(got), linesOf(want)); d != "" {
			t.Fatalf("batch %d: %s", i, d)
		}
		if i != 5 {
			continue
		}
		if d := differ(sortedLines(downloadResult(t, g, s)), sortedLines(got)); d != "" {
			t.Fatalf("on the device: %s", d)
		}
	}
	tryMergeOn(t, g, &o, keyBatches, valueBatches)
	tryClosed(t, g, streams[0])
}

// downloadResult downloads the result that ResultOn leaves on the device.
func downloadResult(t *testing.T, g *GroupsOn, s *device.Stream) *Result {
	t.Helper()
	on, err := g.ResultOn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := &Result{Keys: download(t, s, on.Keys), Values: download(t, s, on.Values)}
	if err := errors.Join(on.Free(), on.Free()); err != nil {
		t.Fatal(err)
	}
	return r
}

func download(t *testing.T, s *device.Stream, columns []column.On) (all []column.Column) {
	t.Helper()
	for _, c := range columns {
		local, err := c.Download(t.Context(), s)
		if err != nil || local.Type() != c.Type() {
			t.Fatalf("a column of %v is one of %v; %v", c.Type(), local.Type(), err)
		}
		all = append(all, local)
	}
	return all
}

// sortedLines returns the lines of a result in the order of their texts.
func sortedLines(r *Result) [][]any {
	return slices.SortedFunc(slices.Values(linesOf(r)), func(a, b []any) int { return strings.Compare(text(a), text(b)) })
}

// Columns of results stay on the device, with their types.
func TestResultOn(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		g, err := NewOn(dev, []Aggregate{{Func: Sum}, {Func: Min}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		s := devicetest.NewStream(t, dev)
		if err := g.AddOn(s, on(devicetest.Upload(t, s, []uint32{7, 7})), on(devicetest.Upload(t, s, []int32{-3, 5}))); err != nil {
			t.Fatal(err)
		}
		r, err := g.ResultOn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer r.Free()
		sums, least := devicetest.Download(t, s, column.SliceOf[int64](r.Values[0])), devicetest.Download(t, s, column.SliceOf[int32](r.Values[1]))
		if !slices.Equal(sums, []int64{2}) || !slices.Equal(least, []int32{-3}) || r.Values[0].HasNulls() {
			t.Errorf("sums %v and minima %v", sums, least)
		}
	})
}

// on returns a column of a slice.
func on[T column.Fixed](s device.Slice[T]) []column.On { return []column.On{column.OfSlice(s)} }

func tryClosed(t *testing.T, g *GroupsOn, s *device.Stream) {
	t.Helper()
	if err := errors.Join(g.Close(), g.Close()); err != nil {
		t.Fatal(err)
	}
	if err := g.AddOn(s, nil, nil); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("AddOn behind Close: %v", err)
	}
	if _, err := g.Result(t.Context()); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("Result behind Close: %v", err)
	}
	if _, err := g.ResultOn(t.Context()); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("ResultOn behind Close: %v", err)
	}
}

// TestOnOverflow adds values until sums exceed 64 bits. Some sums return to the range later, which
// is no overflow.
func TestOnOverflow(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		most := uint64(math.MaxUint64)
		for _, c := range []struct {
			name, key string
			sum       func(o *Options) (*Result, error)
			wrapped   any
		}{
			{"over", "(7)", func(o *Options) (*Result, error) {
				return sumOn(t, dev, o, []int64{9, 7, 7}, []int64{math.MinInt64, math.MaxInt64, 1})
			}, int64(math.MinInt64)},
			{"under", "(-1)", func(o *Options) (*Result, error) {
				return sumOn(t, dev, o, []int64{-1, 7, -1}, []int64{math.MinInt64, 0, -1})
			}, int64(math.MaxInt64)},
			{"and back", "", func(o *Options) (*Result, error) {
				return sumOn(t, dev, o, []int64{7, 7, 7, 7}, []int64{math.MaxInt64, math.MaxInt64, -2, -math.MaxInt64})
			}, int64(math.MaxInt64 - 2)},
			{"unsigned", "(18446744073709551615)", func(o *Options) (*Result, error) {
				return sumOn(t, dev, o, []uint64{most, most}, []uint64{most, 1})
			}, uint64(0)},
			{"unsigned, one of two", "(4)", func(o *Options) (*Result, error) {
				return sumOn(t, dev, o, []uint32{5, 4, 5, 4}, []uint64{1, most, 2, most})
			}, most - 1},
		} {
			_, err := c.sum(nil)
			if errors.Is(err, ErrOverflow) != (c.key != "") || err != nil && !strings.Contains(err.Error(), "of key "+c.key) {
				t.Errorf("%s: %v", c.name, err)
			}
			r, err := c.sum(&Options{WrapSums: true})
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Values[0].Any(0); got != c.wrapped {
				t.Errorf("%s: the sum is %v, want %v", c.name, got, c.wrapped)
			}
		}
	})
}

func sumOn[K, V column.Fixed](t *testing.T, dev device.Device, o *Options, keys []K, values []V) (*Result, error) {
	t.Helper()
	g := small(t, dev, []Aggregate{{Func: Sum}}, o)
	defer g.Close()
	s := devicetest.NewStream(t, dev)
	if err := g.AddOn(s, on(devicetest.Upload(t, s, keys)), on(devicetest.Upload(t, s, values))); err != nil {
		t.Fatal(err)
	}
	r, err := g.Result(t.Context())
	there, errOn := g.ResultOn(t.Context())
	if errOn == nil {
		errOn = there.Free()
	}
	if fmt.Sprint(err) != strings.Replace(fmt.Sprint(errOn), "ResultOn", "Result", 1) {
		t.Errorf("Result says %v, ResultOn %v", err, errOn)
	}
	return r, err
}

// All NaN are one key and -0 is 0, with the same bits as in groups on the host.
func TestOnFloatKeys(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		wide := []float64{math.Copysign(0, -1), math.NaN(), math.Inf(-1), 0, 5e-324, -5e-324}
		for _, bits := range []uint64{math.MaxUint64, 0x7ff0000000000001, 0xfff8000000000000, 0x7fffffffffffffff} {
			wide = append(wide, math.Float64frombits(bits))
		}
		keysOn(t, dev, wide)
		narrow := []float32{float32(math.Copysign(0, -1)), 0, float32(math.Inf(1)), -math.SmallestNonzeroFloat32, math.MaxFloat32}
		for _, bits := range []uint32{math.MaxUint32, 0x7f800001, 0xffc00000, 0x7fffffff} {
			narrow = append(narrow, math.Float32frombits(bits))
		}
		keysOn(t, dev, narrow)
	})
}

func keysOn[K column.Fixed](t *testing.T, dev device.Device, keys []K) {
	t.Helper()
	want, err := By(t.Context(), devicetest.OpenCPU(t, 1), []column.Column{column.Of(keys)}, nil, nil, &Options{Sorted: true})
	if err != nil {
		t.Fatal(err)
	}
	got, err := sumOn(t, dev, nil, keys, make([]int32, len(keys)))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Keys[0].Raw(), want.Keys[0].Raw()) {
		t.Errorf("keys %x, want %x", got.Keys[0].Raw(), want.Keys[0].Raw())
	}
}

// Groups can be closed after an error on a closed stream, although both return ErrClosed.
func TestOnClosedStream(t *testing.T) {
	dev, err := sim.Open(nil) // without the checks of devicetest for such streams
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	before, err := dev.Memory()
	if err != nil {
		t.Fatal(err)
	}
	g, err := NewOn(dev, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := device.Upload(s, []int64{1})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	if err := g.AddOn(s, on(keys), nil); !errors.Is(err, device.ErrClosed) {
		t.Errorf("a stream that is closed: %v", err)
	}
	if err := errors.Join(g.Close(), g.Close(), keys.Free()); err != nil {
		t.Error(err)
	}
	if after, err := dev.Memory(); err != nil || after != before {
		t.Errorf("%+v is left of %+v; %v", after, before, err)
	}
}

// Invalid arguments are errors, and no row is added.
func TestOnRefuses(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		for _, c := range []struct {
			aggs []Aggregate
			opts Options
			want error
		}{
			{[]Aggregate{{Func: 99}}, Options{}, weft.ErrOptions},
			{nil, Options{Memory: MinMemoryOn}, weft.ErrOptions},
			{nil, Options{Capacity: -1}, weft.ErrOptions},
			{[]Aggregate{{Func: Sum, Column: math.MaxInt}}, Options{}, weft.ErrOptions},
			{[]Aggregate{{Func: Rows, Column: math.MaxInt}, {Func: Count, Column: maxColumnsOn}}, Options{}, weft.ErrOptions},
		} {
			if _, err := NewOn(dev, c.aggs, &c.opts); !errors.Is(err, c.want) {
				t.Errorf("%v, %+v: %v", c.aggs, c.opts, err)
			}
		}
		g, err := NewOn(dev, onDevice, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		s := devicetest.NewStream(t, dev)
		keys := devicetest.Upload(t, s, []int64{1, 2})
		elsewhere := devicetest.OpenCPU(t, 1)
		away := devicetest.NewStream(t, elsewhere)
		far, bits := devicetest.Upload(t, away, []int64{1, 2}), devicetest.Upload(t, away, []uint8{3})
		for _, c := range []struct {
			s            *device.Stream
			keys, values []column.On
			err          error
			want         string
		}{
			{s, on(keys), nil, weft.ErrOptions, "the sum of value column 0, but there are 0"},
			{s, on(keys), []column.On{column.OfSlice(keys), column.OfSlice(far)}, device.ErrInvalid, "value column 1 lies on another device"},
			{s, on(far), []column.On{column.OfSlice(keys), column.OfSlice(keys)}, device.ErrInvalid, "key column 0 lies on another device"},
			{s, []column.On{column.OfSlice(keys).WithValid(bits, 0)}, nil, device.ErrInvalid, "the bitmap of key column 0 lies on another device"},
			{away, on(keys), nil, device.ErrInvalid, "the stream belongs to another device"},
			{nil, on(keys), nil, device.ErrInvalid, "the stream is nil"},
			{s, []column.On{{}}, nil, weft.ErrOptions, "key column 0 has no type"},
		} {
			if err := g.AddOn(c.s, c.keys, c.values); !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		}
		if r, err := g.Result(t.Context()); err != nil || r.Len() != 0 || len(r.Keys) != 0 || len(r.Values) != len(onDevice) {
			t.Errorf("result of no batch: %v, %v", r, err)
		}
		two := []column.On{column.OfSlice(keys), column.OfSlice(keys)}
		if err := g.AddOn(s, on(keys), two); err != nil {
			t.Fatal(err)
		}
		if err := g.AddOn(s, two, two); !errors.Is(err, weft.ErrOptions) || !strings.Contains(err.Error(), "2 key columns, where the first batch had 1") {
			t.Errorf("another key: %v", err)
		}
		defer func() {
			if msg := fmt.Sprint(recover()); !strings.Contains(msg, "column 1 has 1 rows, those before it 2") {
				t.Errorf("columns of two lengths: %s", msg)
			}
		}()
		_ = g.AddOn(s, on(keys), []column.On{two[0], two[1].Slice(0, 1)})
	})
}

// If any allocation fails, there is an error and no memory stays in use. This holds for one key,
// for null keys with their own table, and for numbered keys.
func TestOnMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, x := range []*growth{
		{keys: of(column.Int64), values: of(column.Int64), aggs: []Aggregate{{Func: Max}}, n: 100},
		{keys: of(column.Int64), values: of(column.Int32), aggs: []Aggregate{{Func: Sum}, {Func: First}}, n: 300, nulls: 9},
		{keys: of(column.Int16, column.Int64), values: of(column.Int64), aggs: []Aggregate{{Func: Mean}}, n: 1500, nulls: 9},
	} {
		x.draw(t)
		n := 0
		for ran := false; !ran; n++ {
			dev := devicetest.OpenSim(t, nil)
			fired := devicetest.FailAfter(dev, n)
			err := x.run(t, dev)
			if live := devicetest.Live(dev); live.Bytes != 0 || live.Streams != 0 || live.Events != 0 {
				t.Errorf("by %v, operation %d failed: %+v are left", x.keys, n, live)
			}
			if ran = !fired(); ran && err != nil || !ran && !errors.Is(err, device.ErrMemory) {
				t.Errorf("by %v, operation %d failed: %v", x.keys, n, err)
			}
		}
		if n < 20 {
			t.Errorf("by %v: %d operations", x.keys, n)
		}
	}
}

// growth holds rows with more keys than the first tables hold.
type growth struct {
	keys, values []column.Type
	aggs         []Aggregate
	n, nulls     int

	k, v []column.Column
	want *Result
}

func (x *growth) draw(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	numbers := make([]int64, x.n)
	for i := range numbers {
		numbers[i] = int64(i)
	}
	last := len(x.keys) - 1
	for _, typ := range x.keys[:last] {
		x.k = append(x.k, drawn(rng, typ, x.n, 100, x.nulls))
	}
	x.k = append(x.k, column.Of(numbers))
	if x.nulls > 0 {
		x.k[last] = x.k[last].WithValid(drawn(rng, column.Bool, x.n, 2, x.nulls).Valid())
	}
	for _, typ := range x.values {
		x.v = append(x.v, drawn(rng, typ, x.n, 100, x.nulls))
	}
	var err error
	x.want, err = By(t.Context(), devicetest.OpenCPU(t, 1), x.k, x.v, x.aggs, &Options{Sorted: true})
	must(t, err)
}

func (x *growth) run(t *testing.T, dev device.Device) (err error) {
	s, err := dev.NewStream()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	sent := func(columns []column.Column) (all []column.On) {
		for _, c := range columns {
			on, failed := column.Upload(s, c)
			err = errors.Join(err, failed)
			all = append(all, on)
		}
		return all
	}
	keys, values := sent(x.k), sent(x.v)
	defer func() {
		for _, c := range slices.Concat(keys, values) {
			err = errors.Join(err, c.Free())
		}
	}()
	if err != nil {
		return err
	}
	g, err := NewOn(dev, x.aggs, nil)
	if err != nil {
		return err
	}
	g.impl.(*gpuGroups).sizes = smallSizes
	defer func() { err = errors.Join(err, g.Close()) }()
	if err := g.AddOn(s, keys, values); err != nil {
		// The batch has been added in part, or not at all.
		again := g.AddOn(s, keys, values)
		if r, end := g.Result(context.Background()); again != nil && !errors.Is(again, device.ErrMemory) || again == nil && (end != nil || r.Len() != x.want.Len()) {
			t.Errorf("behind a batch that failed: %v, %v", again, end)
		}
		return err
	}
	r, err := g.Result(t.Context())
	if err != nil {
		// A second call may return the result.
		r, again := g.Result(t.Context())
		if again != nil || differ(linesOf(r), linesOf(x.want)) != "" {
			t.Errorf("behind a result that failed: %v", again)
		}
		return err
	}
	if d := differ(linesOf(r), linesOf(x.want)); d != "" {
		t.Error(d)
	}
	there, err := g.ResultOn(t.Context())
	if err != nil {
		return err
	}
	return there.Free()
}

// If a context ends at any point, the call stops, groups stay as they were, and no memory stays in
// use.
func TestOnEnds(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		g := small(t, dev, []Aggregate{{Func: Sum}, {Func: Min}}, nil)
		defer g.Close()
		s := devicetest.NewStream(t, dev)
		keys := devicetest.Upload(t, s, []int64{-1, 2, -1})
		if err := errors.Join(g.AddOn(s, on(keys), on(keys)), s.Sync(t.Context())); err != nil {
			t.Fatal(err)
		}
		before := devicetest.Live(dev).Bytes
		try := func(looks int) (left int, ended bool) {
			t.Helper()
			ctx := &cancelAfter{t.Context(), looks}
			r, err := g.Result(ctx)
			left = ctx.looks
			there, errOn := g.ResultOn(&cancelAfter{t.Context(), looks})
			if errOn == nil {
				errOn = there.Free()
			}
			for _, err := range []error{err, errOn} {
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Fatalf("a context that ends after %d looks: %v", looks, err)
				}
			}
			if live := devicetest.Live(dev).Bytes; live != before {
				t.Fatalf("a context that ends after %d looks: %d bytes are live, %d were", looks, live, before)
			}
			if err == nil && (r.Len() != 2 || r.Values[0].Any(0) != int64(-2)) {
				t.Errorf("%d groups, the sum is %v", r.Len(), r.Values[0].Any(0))
			}
			return left, err != nil
		}
		left, _ := try(math.MaxInt)
		all := math.MaxInt - left
		for looks := 0; looks < all; looks++ {
			// the number of polls of a GPU varies
			if _, ended := try(looks); !ended && looks == 0 {
				t.Error("nobody minds a context that has ended")
			}
			if looks > 10 && looks < all-30 {
				looks += 20 // the kernel takes many steps on the simulator
			}
		}
	})
}
