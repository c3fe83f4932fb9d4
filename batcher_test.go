package weft_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/linear"
	"github.com/weftgo/weft/ordered"
)

func ExampleNewBatcher() {
	dev, err := cpu.Open(nil)
	if err != nil {
		panic(err)
	}
	defer dev.Close()
	visits, err := linear.New[int64, int64](dev, nil)
	if err != nil {
		panic(err)
	}
	defer visits.Close()
	front, err := weft.NewBatcher(visits, nil)
	if err != nil {
		panic(err)
	}
	defer front.Close()

	var wg sync.WaitGroup
	for request := range 100 { // as the handlers of a server would
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			if _, err := front.Reduce(ctx, int64(request%3), 1, weft.Sum); err != nil {
				panic(err)
			}
		})
	}
	wg.Wait()
	n, found, err := front.Get(context.Background(), 0)
	fmt.Println(n, found, err)
	// Output: 34 true <nil>
}

func newBatcher[K weft.Key, V weft.Value](t testing.TB, m weft.Batched[K, V], opts *weft.BatcherOptions) *weft.Batcher[K, V] {
	t.Helper()
	b, err := weft.NewBatcher(m, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// A Batcher must work if MaxBatch is the largest int.
func TestBatcherOfAnySize(t *testing.T) {
	m := newLinear(t, devicetest.OpenCPU(t, 1), nil)
	b := newBatcher[uint64, int64](t, m, &weft.BatcherOptions{MaxBatch: math.MaxInt, Coalesce: weft.CoalesceAlways})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if inserted, err := b.Put(ctx, 7, 1); err != nil || !inserted {
		t.Errorf("inserted %v; %v", inserted, err)
	}
}

func newLinear(t testing.TB, dev device.Device, opts *linear.Options) *linear.Map[uint64, int64] {
	t.Helper()
	m, err := linear.New[uint64, int64](dev, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// Each goroutine changes its own keys and one common key. Each call must return what a Go map would
// return, and all changes of the common key must take effect. Calls are passed through, gathered,
// and gathered on a simulated GPU.
func TestBatcher(t *testing.T) {
	for name, test := range map[string]struct {
		dev        func(testing.TB) device.Device
		opts       *weft.BatcherOptions
		goroutines int
		calls      int
	}{
		"passes":  {devicetest.Open, nil, 16, 400},
		"gathers": {devicetest.Open, &weft.BatcherOptions{Coalesce: weft.CoalesceAlways}, 16, 400},
		"delayed, small batches": {devicetest.Open, &weft.BatcherOptions{
			Coalesce: weft.CoalesceAlways, MaxBatch: 3, Delay: 50 * time.Microsecond, MaxWaiting: 5,
		}, 16, 50},
		"sim": {func(t testing.TB) device.Device { return devicetest.OpenSim(t, nil) }, nil, 4, 12},
	} {
		t.Run(name, func(t *testing.T) {
			m := newLinear(t, test.dev(t), nil)
			b := newBatcher(t, m, test.opts)
			var wg sync.WaitGroup
			for g := range test.goroutines {
				wg.Go(func() { useBatcher(t, b, uint64(g+1)<<32, test.calls) })
			}
			wg.Wait()
			if n, found, err := b.Get(t.Context(), 0); n != int64(test.goroutines*test.calls) || !found || err != nil {
				t.Errorf("the common key is %v, %v, %v, want %d", n, found, err, test.goroutines*test.calls)
			}
		})
	}
}

// useBatcher makes calls with keys from base on and compares each result with a Go map.
func useBatcher(t *testing.T, b *weft.Batcher[uint64, int64], base uint64, rounds int) {
	ctx, model := t.Context(), map[uint64]int64{}
	for i := range rounds {
		key, val := base+uint64(i%5), int64(i)
		was, there := model[key]
		var got, want any
		var err error
		switch i % 6 {
		case 0, 3:
			got, err = b.Put(ctx, key, val)
			want, model[key] = !there, val
		case 1:
			var actual int64
			var loaded bool
			actual, loaded, err = b.GetOrPut(ctx, key, val)
			if !there {
				was, model[key] = val, val
			}
			got, want = [2]any{actual, loaded}, [2]any{was, there}
		case 2:
			got, err = b.Delete(ctx, key)
			want = there
			delete(model, key)
		case 4:
			got, err = b.Reduce(ctx, key, val, weft.Max)
			want, model[key] = !there, val
			if there {
				model[key] = max(was, val)
			}
		case 5:
			var v int64
			var found bool
			v, found, err = b.Get(ctx, key)
			got, want = [2]any{v, found}, [2]any{was, there}
		}
		if got != want || err != nil {
			t.Errorf("round %d, key %#x: %v, %v, want %v", i, key, got, err, want)
		}
		if _, err := b.Reduce(ctx, 0, 1, weft.Sum); err != nil {
			t.Error(err)
		}
	}
}

// gathers returns a Batcher that gathers n calls per batch, also on a CPU.
func gathers(t *testing.T, m weft.Batched[uint64, int64], n int) *weft.Batcher[uint64, int64] {
	return newBatcher(t, m, &weft.BatcherOptions{Coalesce: weft.CoalesceAlways, MaxBatch: n, Delay: time.Hour})
}

// A call with an invalid kind must fail before it joins a batch, so that it alone fails.
func TestBatcherKinds(t *testing.T) {
	m := newLinear(t, devicetest.Open(t), nil)
	b := gathers(t, m, 1)
	for _, kind := range []weft.OpKind{weft.OpDeleteAll, weft.OpUpdate, 10, 99} {
		if _, err := b.Apply(t.Context(), weft.Op[uint64, int64]{Kind: kind}); !errors.Is(err, device.ErrInvalid) {
			t.Errorf("kind %d: %v, want device.ErrInvalid", kind, err)
		}
	}
	if n, err := b.Put(t.Context(), 1, 2); !n || err != nil {
		t.Error(n, err)
	}
}

// Operations that only ordered maps have must work both passed through and gathered.
func TestBatcherOfOrderedMaps(t *testing.T) {
	m, err := ordered.New[uint64, int64](devicetest.Open(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, opts := range []*weft.BatcherOptions{nil, {Coalesce: weft.CoalesceAlways}} {
		b := newBatcher(t, m, opts)
		for key, want := range map[uint64]bool{1: true, 2: false} {
			if _, err := m.Put(t.Context(), []uint64{1}, []int64{5}); err != nil {
				t.Fatal(err)
			}
			r, err := b.Apply(t.Context(), weft.Op[uint64, int64]{Kind: weft.OpUpdate, Key: key, Value: 7})
			if r.OK != want || err != nil {
				t.Errorf("update of key %d: %v, %v, want %v", key, r, err, want)
			}
		}
	}
}

// If the map overflows, exactly the calls with absent keys must fail.
func TestBatcherFull(t *testing.T) {
	m := newLinear(t, devicetest.Open(t), &linear.Options{Capacity: 16, Fixed: true, MaxLoad: 1})
	b := gathers(t, m, 64)
	errs := make([]error, 64)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { _, errs[i] = b.Put(t.Context(), uint64(i), 1) })
	}
	wg.Wait()
	keys, found := make([]uint64, len(errs)), make([]bool, len(errs))
	for i := range keys {
		keys[i] = uint64(i)
	}
	if n, err := m.Contains(t.Context(), keys, found); n == 0 || n == len(keys) || err != nil {
		t.Fatalf("%d keys are there: %v", n, err)
	}
	for i, err := range errs {
		if errors.Is(err, weft.ErrFull) == found[i] || (err == nil) != found[i] {
			t.Errorf("call %d: %v; its key is there: %v", i, err, found[i])
		}
	}
}

// If the map rejects a batch, each of its calls must fail, and later calls must still run. A closed
// Batcher must reject calls and leave the map open.
func TestBatcherErrors(t *testing.T) {
	for _, how := range []weft.Coalesce{weft.CoalesceAlways, weft.CoalesceNever} {
		m := newLinear(t, devicetest.Open(t), nil)
		b := newBatcher(t, m, &weft.BatcherOptions{Coalesce: how})
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		if _, _, err := b.Get(t.Context(), 1); !errors.Is(err, weft.ErrClosed) {
			t.Errorf("Get of a closed map: %v", err)
		}
		if _, err := b.Put(t.Context(), 1, 1); !errors.Is(err, weft.ErrClosed) {
			t.Errorf("Put in a closed map: %v", err)
		}

		m = newLinear(t, devicetest.Open(t), nil)
		b = newBatcher(t, m, &weft.BatcherOptions{Coalesce: how})
		ended, end := context.WithCancel(t.Context())
		end()
		if _, err := b.Put(ended, 1, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("Put with a context that has ended: %v", err)
		}
		for range 2 {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}
		if _, _, err := b.GetOrPut(t.Context(), 1, 1); !errors.Is(err, weft.ErrClosed) {
			t.Errorf("GetOrPut of a closed front: %v", err)
		}
		if n, err := m.Put(t.Context(), []uint64{1}, []int64{1}); n != 1 || err != nil {
			t.Errorf("the map behind a closed front: %v, %v", n, err)
		}
	}
}

func TestBatcherOptions(t *testing.T) {
	m := newLinear(t, devicetest.Open(t), nil)
	for _, opts := range []weft.BatcherOptions{{MaxBatch: -1}, {Delay: -1}, {MaxWaiting: -1}, {Coalesce: -1}, {Coalesce: 3}} {
		if _, err := weft.NewBatcher(m, &opts); !errors.Is(err, weft.ErrOptions) {
			t.Errorf("%+v: %v, want ErrOptions", opts, err)
		}
	}
}

// BenchmarkBatcher measures one-key calls of 64 goroutines, on the device that WEFT_DEVICE selects.
// It compares direct calls of the map, calls of a Batcher with default options, and sync.Map. p99
// is the 99th percentile of the time per call.
func BenchmarkBatcher(b *testing.B) {
	const keys = 1 << 16
	// large enough that no Put checks the capacity
	m := newLinear(b, devicetest.Open(b), &linear.Options{Capacity: 2 * keys})
	front := newBatcher(b, m, nil)
	var peer sync.Map
	ctx := context.Background()
	all, vals := make([]uint64, keys), make([]int64, keys)
	for k := range uint64(keys) {
		all[k] = k
		peer.Store(k, int64(k))
	}
	if _, err := m.Put(ctx, all, vals); err != nil {
		b.Fatal(err)
	}
	columns := func() ([]uint64, []int64) { return make([]uint64, 1), make([]int64, 1) }
	for _, way := range []struct {
		name string
		get  func() func(key uint64) error
		put  func() func(key uint64) error
	}{
		{"calls", func() func(uint64) error {
			k, v := columns()
			return func(key uint64) error { k[0] = key; _, err := m.Get(ctx, k, v, nil); return err }
		}, func() func(uint64) error {
			k, v := columns()
			return func(key uint64) error { k[0] = key; _, err := m.Put(ctx, k, v); return err }
		}},
		{"batcher", func() func(uint64) error {
			return func(key uint64) error { _, _, err := front.Get(ctx, key); return err }
		}, func() func(uint64) error {
			return func(key uint64) error { _, err := front.Put(ctx, key, 1); return err }
		}},
		{"syncmap", func() func(uint64) error {
			return func(key uint64) error { peer.Load(key); return nil }
		}, func() func(uint64) error {
			return func(key uint64) error { peer.Store(key, int64(1)); return nil }
		}},
	} {
		b.Run("get/"+way.name, func(b *testing.B) { manyCallers(b, keys, way.get) })
		b.Run("put/"+way.name, func(b *testing.B) { manyCallers(b, keys, way.put) })
	}
}

func manyCallers(b *testing.B, keys uint64, caller func() func(key uint64) error) {
	const goroutines = 64
	took := make([][]time.Duration, goroutines)
	runtime.GC()
	b.ResetTimer()
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			call := caller()
			for i := range (b.N + goroutines - 1) / goroutines {
				start := time.Now()
				if err := call((uint64(i*goroutines+g) * 0x9e3779b97f4a7c15) % keys); err != nil {
					b.Error(err)
					return
				}
				if i%16 == 0 {
					took[g] = append(took[g], time.Since(start))
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	all := slices.Concat(took...)
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)*99/100].Nanoseconds())/1e3, "p99-µs")
}
