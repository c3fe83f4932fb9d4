package durable_test

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/weftgo/weft"
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

// Every method that changes a map has the same content after the store is opened again.
func TestMethods(t *testing.T) {
	dir := t.TempDir()
	m := openMap(t, dir, durable.Options{})
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 300 {
		keys, vals := make([]uint64, 1+rng.IntN(50)), make([]uint64, 50)
		for i := range keys {
			keys[i], vals[i] = rng.Uint64N(100), rng.Uint64N(1000)
		}
		vals = vals[:len(keys)]
		var err error
		switch rng.IntN(9) {
		case 0, 1:
			_, err = m.Put(ctx, keys, vals)
		case 2:
			_, err = m.PutNew(ctx, keys, vals, nil)
		case 3:
			_, err = m.Delete(ctx, keys, nil)
		case 4:
			_, err = m.Reduce(ctx, keys, vals, weft.Sum)
		case 5:
			_, err = m.GetOrPut(ctx, keys, vals, nil)
		case 6:
			ops := make([]weft.Op[uint64, uint64], len(keys))
			for i, k := range keys {
				ops[i] = weft.Op[uint64, uint64]{Kind: []weft.OpKind{weft.OpGet, weft.OpPut, weft.OpDelete, weft.OpSum}[rng.IntN(4)], Key: k, Value: vals[i]}
			}
			err = m.Apply(ctx, ops, nil)
		case 7:
			if rng.IntN(20) == 0 {
				err = m.Clear(ctx)
			} else {
				err = durable.Checkpoint(ctx, m)
			}
		case 8:
			model := maps.Collect(m.All())
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			m = openMap(t, dir, durable.Options{LogLimit: 1 << 14})
			if got := maps.Collect(m.All()); !maps.Equal(got, model) {
				t.Fatalf("round %d: %d pairs are %d after reopening", round, len(model), len(got))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
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
