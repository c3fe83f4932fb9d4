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
)

// devices are those on which groups are tried: that of the environment, and the simulator.
func devices(t *testing.T, test func(t *testing.T, dev device.Device)) {
	t.Run("device", func(t *testing.T) { test(t, devicetest.Open(t)) })
	t.Run("sim", func(t *testing.T) {
		if testing.Short() {
			t.Skip("interprets kernels")
		}
		test(t, devicetest.OpenSim(t, nil))
	})
}

// aggregates of two columns, all that a device computes.
var onDevice = []Aggregate{{Func: Rows}, {Func: Sum}, {Func: Mean}, {Func: Min, Column: 1}, {Func: Max}, {Func: Sum, Column: 1}, {Func: Count, Column: 1}, {Func: Max, Column: 1}}

// Rows on a device, in batches on several streams, have the aggregates that [Groups] of the host say.
func TestOn(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		t.Run("int64, int64", func(t *testing.T) { tryOn[int64, int64](t, dev, onDevice) })
		t.Run("int64, int64, two", func(t *testing.T) { tryOn[int64, int64](t, dev, onDevice[:2]) })
		t.Run("uint64, uint64", func(t *testing.T) { tryOn[uint64, uint64](t, dev, onDevice) })
		t.Run("int32, uint64", func(t *testing.T) { tryOn[int32, uint64](t, dev, onDevice[:3]) })
		t.Run("uint32, float64", func(t *testing.T) { tryOn[uint32, float64](t, dev, onDevice) })
		t.Run("float64, int32", func(t *testing.T) { tryOn[float64, int32](t, dev, onDevice) })
		t.Run("float32, float32", func(t *testing.T) { tryOn[float32, float32](t, dev, onDevice) })
		t.Run("int, uint32", func(t *testing.T) { tryOn[int, uint32](t, dev, onDevice) })
		t.Run("no values", func(t *testing.T) { tryOn[int64, int64](t, dev, onDevice[:1]) })
		t.Run("no aggregates", func(t *testing.T) { tryOn[uint64, int64](t, dev, nil) })
	})
}

// drawn are values of a type: small ones, whose sums are exact, and some of the odd ones.
func drawn[T KeyOn](rng *rand.Rand, n, most int) []T {
	all := make([]T, n)
	odd := []float64{math.NaN(), math.Inf(1), math.Copysign(0, -1), math.Inf(-1), math.Float64frombits(math.MaxUint64)}
	for i := range all {
		all[i] = T(rng.IntN(most))
		if rng.IntN(3) == 0 {
			all[i] = -all[i] // of unsigned ones, those with many bits
		}
		if k := rng.IntN(200); k < len(odd) && T(1)/T(2) > 0 {
			all[i] = T(odd[k])
		}
	}
	return all
}

func tryOn[K KeyOn, V weft.Value](t *testing.T, dev device.Device, aggs []Aggregate) {
	g, err := NewOn[K, V](dev, aggs, &Options{WrapSums: true})
	if err != nil {
		t.Fatal(err)
	}
	host, err := New(devicetest.OpenCPU(t, 1), aggs, &Options{WrapSums: true, Sorted: true})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	rng := rand.New(rand.NewPCG(5, 6))
	streams := []*device.Stream{devicetest.NewStream(t, dev), devicetest.NewStream(t, dev)}
	for i, n := range []int{0, 1, 300, 0, 200, 3000} {
		keys, values := drawn[K](rng, n, 50), make([][]V, g.columns)
		s := streams[i%2]
		var columns []column.Column
		var uploaded []device.Slice[V]
		for j := range values {
			values[j] = drawn[V](rng, n, 1000)
			columns = append(columns, column.Of(values[j]))
			uploaded = append(uploaded, devicetest.Upload(t, s, values[j]))
		}
		if err := errors.Join(g.AddOn(s, devicetest.Upload(t, s, keys), uploaded...), host.Add(t.Context(), []column.Column{column.Of(keys)}, columns)); err != nil {
			t.Fatal(err)
		}
		if i == 4 {
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
		if d := differ(inOrder(there(t, g, s)), inOrder(got)); d != "" {
			t.Fatalf("batch %d, on the device: %s", i, d)
		}
	}
	tryClosed(t, g, streams[0])
}

// there is the result on the device, in memory of the host.
func there[K KeyOn, V weft.Value](t *testing.T, g *GroupsOn[K, V], s *device.Stream) *Result {
	t.Helper()
	on, err := g.ResultOn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same := make([]int, on.Len())
	for i := range same {
		same[i] = i
	}
	r := &Result{Keys: []column.Column{column.Of(devicetest.Download(t, s, on.Keys))}}
	for i, c := range on.values {
		values, err := c.at(t.Context(), s, same)
		if err != nil || values.Type() != on.Type(i) {
			t.Fatalf("aggregate %d has %v, want %v; %v", i, values.Type(), on.Type(i), err)
		}
		r.Values = append(r.Values, values)
	}
	if err := errors.Join(on.Free(), on.Free()); err != nil {
		t.Fatal(err)
	}
	return r
}

// inOrder are the lines of a result in the order of their texts.
func inOrder(r *Result) [][]any {
	return slices.SortedFunc(slices.Values(linesOf(r)), func(a, b []any) int { return strings.Compare(text(a), text(b)) })
}

// Columns of results stay on the device, with their types.
func TestResultOn(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		g, err := NewOn[uint32, int32](dev, []Aggregate{{Func: Sum}, {Func: Min}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		s := devicetest.NewStream(t, dev)
		if err := g.AddOn(s, devicetest.Upload(t, s, []uint32{7, 7}), devicetest.Upload(t, s, []int32{-3, 5})); err != nil {
			t.Fatal(err)
		}
		r, err := g.ResultOn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer r.Free()
		sums, least := devicetest.Download(t, s, ValuesOn[int64](r, 0)), devicetest.Download(t, s, ValuesOn[int32](r, 1))
		if !slices.Equal(sums, []int64{2}) || !slices.Equal(least, []int32{-3}) {
			t.Errorf("sums %v and minima %v", sums, least)
		}
		defer func() {
			if msg := fmt.Sprint(recover()); !strings.Contains(msg, "float64 asked of aggregate 1, which has int32") {
				t.Errorf("another type: %s", msg)
			}
		}()
		ValuesOn[float64](r, 1)
	})
}

func tryClosed[K KeyOn, V weft.Value](t *testing.T, g *GroupsOn[K, V], s *device.Stream) {
	t.Helper()
	if err := errors.Join(g.Close(), g.Close()); err != nil {
		t.Fatal(err)
	}
	values := make([]device.Slice[V], g.columns)
	for i := range values {
		values[i] = devicetest.Upload(t, s, []V{1})
	}
	if err := g.AddOn(s, devicetest.Upload(t, s, []K{1}), values...); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("AddOn behind Close: %v", err)
	}
	if _, err := g.Result(t.Context()); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("Result behind Close: %v", err)
	}
	if _, err := g.ResultOn(t.Context()); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("ResultOn behind Close: %v", err)
	}
}

// Sums that go over 64 bits, and come back or do not.
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

func sumOn[K KeyOn, V weft.Value](t *testing.T, dev device.Device, o *Options, keys []K, values []V) (*Result, error) {
	t.Helper()
	g, err := NewOn[K, V](dev, []Aggregate{{Func: Sum}}, o)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	s := devicetest.NewStream(t, dev)
	if err := g.AddOn(s, devicetest.Upload(t, s, keys), devicetest.Upload(t, s, values)); err != nil {
		t.Fatal(err)
	}
	r, err := g.Result(t.Context())
	on, errOn := g.ResultOn(t.Context())
	if errOn == nil {
		errOn = on.Free()
	}
	if fmt.Sprint(err) != strings.Replace(fmt.Sprint(errOn), "ResultOn", "Result", 1) {
		t.Errorf("Result says %v, ResultOn %v", err, errOn)
	}
	return r, err
}

// All NaN are one key and -0 is 0, in the bits that groups of the host have for them.
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

func keysOn[K KeyOn](t *testing.T, dev device.Device, keys []K) {
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

// Groups that a closed stream has spoilt are closed nevertheless, though both say ErrClosed.
func TestOnClosedStream(t *testing.T) {
	dev, err := sim.Open(nil) // without what devicetest has against such streams
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	before, err := dev.Memory()
	if err != nil {
		t.Fatal(err)
	}
	g, err := NewOn[int64, int64](dev, nil, nil)
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
	if err := g.AddOn(s, keys); !errors.Is(err, device.ErrClosed) {
		t.Errorf("a stream that is closed: %v", err)
	}
	if err := errors.Join(g.Close(), g.Close(), keys.Free()); err != nil {
		t.Error(err)
	}
	if after, err := dev.Memory(); err != nil || after != before {
		t.Errorf("%+v is left of %+v; %v", after, before, err)
	}
}

// What makes no sense is refused, and nothing has been added.
func TestOnRefuses(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		for _, c := range []struct {
			aggs []Aggregate
			opts Options
			want error
		}{
			{[]Aggregate{{Func: First}}, Options{}, device.ErrUnsupported},
			{[]Aggregate{{Func: Last}}, Options{}, device.ErrUnsupported},
			{[]Aggregate{{Func: 99}}, Options{}, weft.ErrOptions},
			{nil, Options{MaxBytes: 1}, weft.ErrOptions},
			{nil, Options{Capacity: -1}, weft.ErrOptions},
			{[]Aggregate{{Func: Sum, Column: math.MaxInt}}, Options{}, weft.ErrOptions},
			{[]Aggregate{{Func: Rows, Column: math.MaxInt}, {Func: Count, Column: mostColumns}}, Options{}, weft.ErrOptions},
		} {
			if _, err := NewOn[int64, int64](dev, c.aggs, &c.opts); !errors.Is(err, c.want) {
				t.Errorf("%v, %+v: %v", c.aggs, c.opts, err)
			}
		}
		g, err := NewOn[int64, int64](dev, onDevice, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		s := devicetest.NewStream(t, dev)
		keys := devicetest.Upload(t, s, []int64{1, 2})
		elsewhere := devicetest.OpenCPU(t, 1)
		away := devicetest.NewStream(t, elsewhere)
		far := devicetest.Upload(t, away, []int64{1, 2})
		for _, c := range []struct {
			s      *device.Stream
			keys   device.Slice[int64]
			values []device.Slice[int64]
			want   string
		}{
			{s, keys, nil, "0 value columns; aggregates name 2"},
			{s, keys, []device.Slice[int64]{keys, keys, keys}, "3 value columns"},
			{s, keys, []device.Slice[int64]{keys, far}, "value column 1 lies on another device"},
			{s, far, []device.Slice[int64]{keys, keys}, "the keys lie on another device"},
			{away, keys, []device.Slice[int64]{keys, keys}, "the stream belongs to another device"},
			{nil, keys, []device.Slice[int64]{keys, keys}, "no stream"},
		} {
			if err := g.AddOn(c.s, c.keys, c.values...); !errors.Is(err, device.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		}
		if r, err := g.Result(t.Context()); err != nil || r.Len() != 0 || len(r.Keys) != 1 || len(r.Values) != len(onDevice) {
			t.Errorf("result of no rows: %v, %v", r, err)
		}
		defer func() {
			if msg := fmt.Sprint(recover()); !strings.Contains(msg, "2 keys and 1 values in column 1") {
				t.Errorf("columns of two lengths: %s", msg)
			}
		}()
		_ = g.AddOn(s, keys, keys, keys.Sub(0, 1))
	})
}

// Memory that runs out, at every allocation, is an error, and nothing is left behind.
func TestOnMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for n := 0; ; n++ {
		dev := devicetest.OpenSim(t, nil)
		fired := devicetest.FailAfter(dev, n)
		err := growOn(t, dev)
		if live := devicetest.Live(dev); live.Bytes != 0 || live.Streams != 0 || live.Events != 0 {
			t.Errorf("operation %d failed: %+v are left", n, live)
		}
		if !fired() {
			if err != nil || n < 20 {
				t.Errorf("%d operations, %v", n, err)
			}
			return
		}
		if !errors.Is(err, device.ErrMemory) {
			t.Errorf("operation %d failed: %v", n, err)
		}
	}
}

// growOn groups more keys than the first table has room for.
func growOn(t *testing.T, dev device.Device) (err error) {
	const n = 1 << 16
	s, err := dev.NewStream()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	keys := make([]int64, n)
	for i := range keys {
		keys[i] = int64(i)
	}
	there, err := device.Upload(s, keys)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, there.Free()) }()
	g, err := NewOn[int64, int64](dev, []Aggregate{{Func: Max}}, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	if err := g.AddOn(s, there, there); err != nil {
		if again := g.AddOn(s, there, there); !errors.Is(again, device.ErrMemory) {
			t.Errorf("behind a batch that failed: %v", again)
		}
		return err
	}
	r, err := g.Result(t.Context())
	if err == nil && r.Len() != n {
		t.Errorf("%d groups, want %d", r.Len(), n)
	}
	return err
}

// A context that ends, wherever, ends the call, and leaves groups as they were and no memory.
func TestOnEnds(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		g, err := NewOn[int64, int64](dev, []Aggregate{{Func: Sum}, {Func: Min}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		s := devicetest.NewStream(t, dev)
		keys := devicetest.Upload(t, s, []int64{-1, 2, -1})
		if err := errors.Join(g.AddOn(s, keys, keys), s.Sync(t.Context())); err != nil {
			t.Fatal(err)
		}
		before := devicetest.Live(dev).Bytes
		try := func(looks int) (left int, ended bool) {
			t.Helper()
			ctx := &endsLater{t.Context(), looks}
			r, err := g.Result(ctx)
			left = ctx.looks
			on, errOn := g.ResultOn(&endsLater{t.Context(), looks})
			if errOn == nil {
				errOn = on.Free()
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
			if _, ended := try(looks); !ended && looks == 0 { // how often a GPU is asked whether it is done depends on chance
				t.Error("nobody minds a context that has ended")
			}
			if looks > 10 && looks < all-30 {
				looks += 20 // the kernel takes many steps on the simulator
			}
		}
	})
}
