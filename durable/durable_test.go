package durable_test

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/durable"
	"github.com/weftgo/weft/linear"
)

var ctx = context.Background()

// openMap opens a store with a map in a folder.
func openMap(t testing.TB, dir string, opts durable.Options) *linear.Map[uint64, uint64] {
	t.Helper()
	m, err := durable.Open(ctx, dir, makeMap(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func makeMap(t testing.TB) func() (*linear.Map[uint64, uint64], error) {
	dev := devicetest.OpenCPU(t, 2)
	return func() (*linear.Map[uint64, uint64], error) { return linear.New[uint64, uint64](dev, nil) }
}

// A change that overflows a table of fixed size leaves in the store what it leaves in the table.
func TestOverflow(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(n int) (keys []uint64) {
		for range n {
			keys = append(keys, rng.Uint64())
		}
		return keys
	}
	dir, make := t.TempDir(), func() (*linear.Map[uint64, uint64], error) {
		return linear.New[uint64, uint64](dev, &linear.Options{Capacity: 1000, Fixed: true, Seed: 1})
	}
	m, err := durable.Open(ctx, dir, make, durable.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		keys := random(300)
		_, err = m.Reduce(ctx, keys, keys, weft.Sum)
	}
	keys := random(500)
	if _, perr := m.Put(ctx, keys, keys); !errors.Is(err, weft.ErrFull) || !errors.Is(perr, weft.ErrFull) {
		t.Fatal(err, perr)
	}
	want := maps.Collect(m.All())
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if m, err = durable.Open(ctx, dir, make, durable.Options{}); err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if got := maps.Collect(m.All()); !maps.Equal(got, want) {
		t.Errorf("%d pairs are %d after reopening", len(want), len(got))
	}
}

// A Batcher gathers the changes of many goroutines, so that they share frames and syncs.
func TestBatcher(t *testing.T) {
	dir := t.TempDir()
	m := openMap(t, dir, durable.Options{})
	b, err := weft.NewBatcher[uint64, uint64](m, nil)
	if err != nil {
		t.Fatal(err)
	}
	const goroutines, rounds = 64, 20
	var wait sync.WaitGroup
	for g := range uint64(goroutines) {
		wait.Go(func() {
			for i := range uint64(rounds) {
				if _, err := b.Put(ctx, g<<32|i, i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	info, err := durable.Status(m)
	if err != nil || info.Frames > goroutines*rounds/2 {
		t.Errorf("%d frames for %d changes, %v", info.Frames, goroutines*rounds, err)
	}
	if err := errors.Join(b.Close(), m.Close()); err != nil {
		t.Fatal(err)
	}
	m = openMap(t, dir, durable.Options{})
	if m.Len() != goroutines*rounds {
		t.Errorf("%d pairs", m.Len())
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

// A panic while a store is opened leaves it unlocked.
func TestPanicInOpen(t *testing.T) {
	dir := t.TempDir()
	m := openMap(t, dir, durable.Options{})
	if _, err := m.Put(ctx, []uint64{1}, []uint64{2}); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		dev, err := cpu.Open(nil) // without the checks of devicetest: the map is not closed
		if err != nil {
			t.Fatal(err)
		}
		opts := durable.Options{Progress: func(int64, int64) { panic("no") }}
		durable.Open(ctx, dir, func() (*linear.Map[uint64, uint64], error) {
			return linear.New[uint64, uint64](dev, nil)
		}, opts)
	}()
	m = openMap(t, dir, durable.Options{})
	if m.Len() != 1 {
		t.Errorf("%d pairs", m.Len())
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
