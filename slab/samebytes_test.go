package slab

import (
	"context"
	"errors"
	"fmt"
	"github.com/weftgo/weft/internal/op"
	"iter"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/conformance"
)

// restore replaces the memory of a table by an image of a table with the same options.
func (t *table) restore(im *image) error {
	ctx := context.Background()
	if err := t.core.Leases.LockWriter(ctx); err != nil {
		return err
	}
	s, err := t.core.Device.NewStream()
	if err != nil {
		return err
	}
	gen := t.gen()
	blocks, err := blocksOf(s, gen.units.Ref(false))
	if len(blocks) != len(im.blocks) || gen.buckets != im.buckets {
		err = fmt.Errorf("%d buckets, %d memory blocks; the image has %d and %d", gen.buckets, len(blocks), im.buckets, len(im.blocks))
	} else if err == nil {
		err = s.CopyIn(gen.Buf.Ptr, im.base)
		for _, b := range blocks {
			from := im.blocks[b.first>>10]
			err = errors.Join(err, s.CopyIn(b.bitmap, from.bitmap), s.CopyIn(b.units, from.units))
		}
	}
	err = errors.Join(err, s.Sync(ctx), s.Close())
	t.core.Leases.UnlockWriter()
	// An empty change makes an engine read the counters again.
	return errors.Join(err, touch(t))
}

// touch deletes an absent key, so that the engine reads its counters again.
func touch(t *table) error {
	key := make([]byte, t.core.Widths.Key)
	key[3] = 1 << 6
	b := &batch.Batch{N: 1, Kind: op.Delete, Columns: batch.Columns{batch.Keys: batch.Input(key).WithWidth(len(key))}}
	_, err := t.core.Change(context.Background(), "touch", b)
	return err
}

func move(t *testing.T, from, to *table) {
	t.Helper()
	im, err := from.image()
	if err == nil {
		err = to.restore(im)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestStructuresMoveBetweenDevices copies the bytes of a structure to another device, which reads
// the structure and changes it further. The structure has chains and freed slabs.
func TestStructuresMoveBetweenDevices(t *testing.T) {
	moves := func(t *testing.T, dev device.Device, n int) {
		other := devicetest.OpenCPU(t, 2)
		t.Run("uint32,uint32", func(t *testing.T) { moves[uint32, uint32](t, dev, other, n) })
		t.Run("uint32,uint64", func(t *testing.T) { moves[uint32, uint64](t, dev, other, n) })
		t.Run("uint64,uint32", func(t *testing.T) { moves[uint64, uint32](t, dev, other, n) })
		t.Run("uint64,uint64", func(t *testing.T) { moves[uint64, uint64](t, dev, other, n) })
		t.Run("set uint32", func(t *testing.T) { setMoves[uint32](t, dev, other, n) })
		t.Run("set uint64", func(t *testing.T) { setMoves[uint64](t, dev, other, n) })
	}
	t.Run("device", func(t *testing.T) {
		dev := devicetest.Open(t)
		n := 3000
		if isSim(dev) {
			n = 300
		}
		moves(t, dev, n)
	})
	for _, arch := range []int{80, 90} {
		t.Run(fmt.Sprintf("sm_%d", arch), func(t *testing.T) {
			conformance.SkipRaced(t, "interprets kernels")
			moves(t, devicetest.OpenSim(t, &sim.Options{Arch: arch}), 300)
		})
	}
}

// sameOptions returns options for n keys that yield the same memory layout on each device.
func sameOptions(n int) *Options {
	return &Options{Capacity: 6 * n, Buckets: n/40 + 1, Fixed: true, Seed: 77}
}

// randomKey returns a key that collides with others, and sometimes equals a sentinel.
func randomKey[K ~uint32 | ~uint64](rng *rand.Rand, n int) K { return K(rng.IntN(n)) - 10 }

func moves[K, V ~uint32 | ~uint64](t *testing.T, dev, other device.Device, n int) {
	t.Run("map", func(t *testing.T) {
		first := conformance.Open(t, New[K, V], dev, sameOptions(n))
		fillMap(t, first, n)
		for _, to := range []device.Device{other, dev} { // there and back
			second := conformance.Open(t, New[K, V], to, sameOptions(n))
			move(t, &first.table, &second.table)
			sameContent(t, &first.table, &second.table, pairsOf(first.All()), pairsOf(second.All()))
			// Both continue in the same way: dead slots are kept for the same keys.
			fillMap(t, first, n)
			fillMap(t, second, n)
			sameContent(t, &first.table, &second.table, pairsOf(first.All()), pairsOf(second.All()))
			first = second
		}
	})
	t.Run("multimap", func(t *testing.T) {
		first := conformance.Open(t, NewMultiMap[K, V], dev, sameOptions(n))
		fillMultiMap(t, first, n)
		for _, to := range []device.Device{other, dev} {
			second := conformance.Open(t, NewMultiMap[K, V], to, sameOptions(n))
			move(t, &first.table, &second.table)
			sameLists(t, first, second, n)
			fillMultiMap(t, first, n)
			fillMultiMap(t, second, n)
			sameLists(t, first, second, n)
			first = second
		}
	})
}

func setMoves[K ~uint32 | ~uint64](t *testing.T, dev, other device.Device, n int) {
	first := conformance.Open(t, NewSet[K], dev, sameOptions(n))
	fillSet(t, first, n)
	for _, to := range []device.Device{other, dev} {
		second := conformance.Open(t, NewSet[K], to, sameOptions(n))
		move(t, &first.table, &second.table)
		for range 2 {
			sameContent(t, &first.table, &second.table, slices.Collect(first.All()), slices.Collect(second.All()))
			fillSet(t, first, n)
			fillSet(t, second, n)
		}
		first = second
	}
}

// fillMap runs insertions, updates, deletions and a flush on a map.
func fillMap[K, V ~uint32 | ~uint64](t *testing.T, m *Map[K, V], n int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(6, 6))
	for round := range 3 {
		keys, vals := make([]K, n), make([]V, n)
		for i := range keys {
			keys[i], vals[i] = randomKey[K](rng, 3*n), V(rng.Uint64())
		}
		_, err := m.Put(t.Context(), keys, vals)
		_, err2 := m.Delete(t.Context(), keys[:n/2], nil)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		if round == 1 {
			if err := m.Compact(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// fillMultiMap runs the same operations on a multimap, with each key at most once per batch.
func fillMultiMap[K, V ~uint32 | ~uint64](t *testing.T, m *MultiMap[K, V], n int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 7))
	for round := range 6 {
		keys, vals := make([]K, n/3), make([]V, n/3)
		for i := range keys {
			keys[i], vals[i] = K(3*i+round%3)-10, V(rng.Uint64())
		}
		_, err := m.Put(t.Context(), keys, vals)
		_, err2 := m.Delete(t.Context(), keys[:n/6], nil)
		_, err3 := m.DeleteAll(t.Context(), keys[n/6:n/5], nil)
		if err := errors.Join(err, err2, err3); err != nil {
			t.Fatal(err)
		}
		if round == 2 {
			if err := m.Compact(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func fillSet[K ~uint32 | ~uint64](t *testing.T, s *Set[K], n int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(8, 8))
	for range 3 {
		keys := make([]K, n)
		for i := range keys {
			keys[i] = randomKey[K](rng, 3*n)
		}
		_, err := s.Add(t.Context(), keys, nil)
		_, err2 := s.Delete(t.Context(), keys[:n/2], nil)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
	}
}

// pairsOf returns the pairs of a map as text.
func pairsOf[K, V ~uint32 | ~uint64](all iter.Seq2[K, V]) (pairs []string) {
	for k, v := range all {
		pairs = append(pairs, fmt.Sprint(k, v))
	}
	return pairs
}

func sameContent[T interface{ ~uint32 | ~uint64 | ~string }](t *testing.T, a, b *table, first, second []T) {
	t.Helper()
	slices.Sort(first)
	slices.Sort(second)
	if len(first) == 0 || !slices.Equal(first, second) || a.core.Len() != len(first) || b.core.Len() != len(second) {
		t.Fatalf("one has %d pairs and says %d, the other has %d and says %d", len(first), a.core.Len(), len(second), b.core.Len())
	}
}

// sameLists compares the values of each key in two multimaps, in order.
func sameLists[K, V ~uint32 | ~uint64](t *testing.T, a, b *MultiMap[K, V], n int) {
	t.Helper()
	keys := make([]K, n+20)
	for i := range keys {
		keys[i] = K(i) - 15
	}
	var first, second weft.Rows[V]
	if err := errors.Join(a.GetAll(t.Context(), keys, &first), b.GetAll(t.Context(), keys, &second)); err != nil {
		t.Fatal(err)
	}
	if len(first.Vals) == 0 || !reflect.DeepEqual(first, second) || a.Len() != len(first.Vals) || b.Len() != len(first.Vals) {
		t.Fatalf("one has %d values and says %d, the other has %d and says %d; the same: %v",
			len(first.Vals), a.Len(), len(second.Vals), b.Len(), reflect.DeepEqual(first, second))
	}
}

// TestBatchOrderOnCPU checks that on any number of cores the values of a key are in batch order.
func TestBatchOrderOnCPU(t *testing.T) {
	for _, workers := range []int{1, 2, 5} {
		m := conformance.Open(t, NewMultiMap[uint64, uint32], devicetest.OpenCPU(t, workers), nil)
		rng := rand.New(rand.NewPCG(1, 1))
		want := map[uint64][]uint32{}
		for range 3 {
			keys, vals := make([]uint64, 20_000), make([]uint32, 20_000)
			for i := range keys {
				keys[i], vals[i] = uint64(rng.IntN(3000)), rng.Uint32()
				want[keys[i]] = append(want[keys[i]], vals[i])
			}
			if _, err := m.Put(t.Context(), keys, vals); err != nil {
				t.Fatal(err)
			}
		}
		for k, list := range want {
			var rows weft.Rows[uint32]
			if err := m.GetAll(t.Context(), []uint64{k}, &rows); err != nil || !slices.Equal(rows.Vals, list) {
				t.Fatalf("%d workers, key %d: %d values, want %d in batch order: %v", workers, k, len(rows.Vals), len(list), err)
			}
		}
	}
}

// TestInvariantsAfterAnything checks that after any history a structure has a valid layout and the
// content of a Go map.
func TestInvariantsAfterAnything(t *testing.T) {
	dev := devicetest.Open(t)
	rapid.Check(t, func(rt *rapid.T) {
		opts := &Options{
			Capacity:      rapid.IntRange(0, 200).Draw(rt, "capacity"),
			Buckets:       rapid.SampledFrom([]int{0, 0, 1, 7}).Draw(rt, "buckets"),
			MaxLoad:       rapid.SampledFrom([]float64{.2, .55, .8}).Draw(rt, "utilization"),
			MaxTombstones: rapid.SampledFrom([]float64{-1, .01, .25}).Draw(rt, "tombstones"),
			Seed:          rapid.Uint64Range(1, 1<<63).Draw(rt, "seed"),
		}
		m, err := New[uint32, uint64](dev, opts)
		if err != nil {
			rt.Fatal(err)
		}
		mm, err := NewMultiMap[uint32, uint64](dev, opts)
		if err != nil {
			rt.Fatal(err)
		}
		defer func() {
			if err := errors.Join(m.Close(), mm.Close()); err != nil {
				rt.Error(err)
			}
		}()
		upkeep := func(flush, compact func(context.Context) error) func() error {
			return func() error {
				switch rapid.IntRange(0, 9).Draw(rt, "upkeep") {
				case 0:
					return flush(t.Context())
				case 1:
					return compact(t.Context())
				}
				return nil
			}
		}
		conformance.RandomHistory(rt, m, false, upkeep(m.policy.engine.flush, m.Compact))
		conformance.RandomHistory(rt, mm, true, upkeep(mm.policy.engine.flush, mm.Compact))
	})
}
