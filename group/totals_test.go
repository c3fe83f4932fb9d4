package group

import (
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// devices are those on which totals are tried: that of the environment, and the simulator.
func devices(t *testing.T, test func(t *testing.T, dev device.Device)) {
	t.Run("device", func(t *testing.T) { test(t, devicetest.Open(t)) })
	t.Run("sim", func(t *testing.T) { test(t, devicetest.OpenSim(t, nil)) })
}

// Rows on a device, in batches on several streams, have the totals that Go says.
func TestTotals(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		t.Run("int64 keys, int64 values", func(t *testing.T) { tryTotals[int64, int64](t, dev) })
		t.Run("int32 keys, uint64 values", func(t *testing.T) { tryTotals[int32, uint64](t, dev) })
		t.Run("uint32 keys, float64 values", func(t *testing.T) { tryTotals[uint32, float64](t, dev) })
	})
}

func tryTotals[K weft.Key, V Summand](t *testing.T, dev device.Device) {
	totals, err := NewTotals[K, V](dev, 0)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	streams := []*device.Stream{devicetest.NewStream(t, dev), devicetest.NewStream(t, dev)}
	counts, sums := make(map[K]int64), make(map[K]V)
	for i, n := range []int{0, 1, 300, 200, 700} {
		keys, values := make([]K, n), make([]V, n)
		for j := range keys {
			keys[j], values[j] = ^K(0)-K(rng.IntN(50)), V(rng.IntN(1000)) // those that look like sentinels among them
			counts[keys[j]]++
			sums[keys[j]] += values[j]
		}
		s := streams[i%2]
		if err := totals.AddOn(s, devicetest.Upload(t, s, keys), devicetest.Upload(t, s, values)); err != nil {
			t.Fatal(err)
		}
		if i < 2 {
			continue
		}
		r, err := totals.Result(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := slices.Sorted(maps.Keys(counts))
		if !slices.Equal(column.Values[K](r.Keys[0]), want) || totals.Len() != len(want) {
			t.Fatalf("%d keys %v, want %v", totals.Len(), column.Values[K](r.Keys[0]), want)
		}
		for j, k := range want {
			if n, sum := column.Values[int64](r.Values[0])[j], column.Values[V](r.Values[1])[j]; n != counts[k] || sum != sums[k] {
				t.Fatalf("key %v has %d rows and the sum %v, want %d and %v", k, n, sum, counts[k], sums[k])
			}
		}
	}
	for _, s := range streams {
		if err := s.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(totals.Close(), totals.Close()); err != nil {
		t.Fatal(err)
	}
	s := streams[0]
	if err := totals.AddOn(s, devicetest.Upload(t, s, []K{1}), devicetest.Upload(t, s, []V{1})); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("AddOn behind Close: %v", err)
	}
	if _, err := totals.Result(t.Context()); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("Result behind Close: %v", err)
	}
}

// Sums wrap, and columns of different lengths panic.
func TestTotalsOfExtremes(t *testing.T) {
	dev := devicetest.Open(t)
	totals, err := NewTotals[uint64, int64](dev, 10)
	if err != nil {
		t.Fatal(err)
	}
	defer totals.Close()
	s := devicetest.NewStream(t, dev)
	keys, values := devicetest.Upload(t, s, []uint64{7, 7}), devicetest.Upload(t, s, []int64{math.MaxInt64, 1})
	if err := totals.AddOn(s, keys, values); err != nil {
		t.Fatal(err)
	}
	r, err := totals.Result(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d := differ(linesOf(r), [][]any{{uint64(7), int64(2), int64(math.MinInt64)}}); d != "" {
		t.Error(d)
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	_ = totals.AddOn(s, keys, values.Sub(0, 1))
}
