package cpu

import (
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/hash"
	"github.com/weftgo/weft/internal/op"
)

// Combined rows must have the same result as the rows of the batch. A batch that would hardly
// shrink must not be combined.
func TestCombine(t *testing.T) {
	t.Run("32,32", func(t *testing.T) { combines[uint32, uint32](t) })
	t.Run("32,64", func(t *testing.T) { combines[uint32, uint64](t) })
	t.Run("64,32", func(t *testing.T) { combines[uint64, uint32](t) })
	t.Run("64,64", func(t *testing.T) { combines[uint64, uint64](t) })
}

func combines[K Key, V uint32 | uint64](t *testing.T) {
	const n = 100_000
	for _, workers := range []int{1, 3} {
		dev, err := cpu.Open(&cpu.Options{Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		for _, groups := range []int{1, 100, 3000, 12_000, 1 << 30, 100} {
			for _, kind := range []op.Kind{op.Sum, op.Max, op.Or} {
				e := Engine{Device: dev}
				keys, vals, want := make([]K, n), make([]V, n), map[K]V{}
				for i := range n {
					keys[i], vals[i] = K(rng.IntN(groups))*0x01000193, V(rng.Uint64())
				}
				b := &batch.Batch{N: n, Kind: kind, Columns: batch.Columns{batch.Keys: batch.Input(keys), batch.Vals: batch.Input(vals)}}
				combined := e.Combine(b)
				if pays := groups <= 12_000; (combined != nil) != pays {
					t.Fatalf("%d groups, %d workers: combining them pays: %v", groups, workers, combined != nil)
				}
				if combined == nil {
					continue
				}
				if limit := maxRemainingRatio * n * 1.1; float64(combined.N) > limit {
					t.Errorf("%d groups: %d rows are left", groups, combined.N)
				}
				sum(kind, want, keys, vals)
				got := map[K]V{}
				sum(kind, got, batch.View[K](combined.Columns[batch.Keys].Host), batch.View[V](combined.Columns[batch.Vals].Host))
				if len(batch.View[K](combined.Columns[batch.Keys].Host)) != combined.N || !maps.Equal(got, want) {
					t.Fatalf("%d groups by %v: what is left adds up to something else", groups, kind)
				}
			}
		}
		dev.Close()
	}
}

func sum[K Key, V uint32 | uint64](kind op.Kind, to map[K]V, keys []K, vals []V) {
	for i, k := range keys {
		v, present := to[k]
		switch {
		case !present:
			v = vals[i]
		case kind == op.Sum:
			v += vals[i]
		case kind == op.Max:
			v = max(v, vals[i])
		default:
			v |= vals[i]
		}
		to[k] = v
	}
}

// For colliding keys, the search must cover only a few slots, so that rows with such keys stay
// separate.
func TestCombineCollidingKeys(t *testing.T) {
	dev, err := cpu.Open(&cpu.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	const colliding = 1 << 13
	keys := make([]uint32, 1<<16) // one key many times, then each key twice
	for k := uint32(1); len(keys) < 1<<16+colliding; k++ {
		if hash.Uint32(k, combineSeed)%combineSlots < 32 {
			keys = append(keys, k)
		}
	}
	keys = append(keys, keys[1<<16:]...)
	vals, want, got := core.AllRows(len(keys)), map[uint32]uint32{}, map[uint32]uint32{}
	e := Engine{Device: dev}
	combined := e.Combine(&batch.Batch{N: len(keys), Kind: op.Sum, Columns: batch.Columns{batch.Keys: batch.Input(keys), batch.Vals: batch.Input(vals)}})
	if combined == nil || combined.N < 2*colliding-100 || combined.N > 2*colliding+1 {
		t.Fatalf("of twice %d keys, %v rows are left", colliding, combined)
	}
	sum(op.Sum, want, keys, vals)
	sum(op.Sum, got, batch.View[uint32](combined.Columns[batch.Keys].Host), batch.View[uint32](combined.Columns[batch.Vals].Host))
	if !maps.Equal(got, want) {
		t.Error("what is left adds up to something else")
	}
}

// Rows sorted by shares must be the rows of the batch. Each must be in the share that contains its
// place, in batch order.
func TestDealtRows(t *testing.T) {
	const n, last = 50_000, 9_999
	dev, err := cpu.Open(&cpu.Options{Workers: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	var d Partitioner
	keys, vals := make([]uint64, n), make([]uint32, n)
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range n {
		keys[i], vals[i] = uint64(rng.IntN(last+1)), uint32(i)
	}
	b := &batch.Batch{N: n, Kind: op.Sum, Columns: batch.Columns{batch.Keys: batch.Input(keys), batch.Vals: batch.Input(vals)}}
	for _, limit := range []int{1, 7, 300} {
		rows, shares := d.PartitionRows(dev, last, b, limit, func(lo, hi int, places []uint32) {
			for i, k := range keys[lo:hi] {
				places[i] = uint32(k)
			}
		})
		original := core.AllRows(n)
		d.ToOriginals(original)
		at := 0
		for _, s := range shares {
			before := -1
			for _, i := range s.Ops {
				k, v := batch.View[uint64](rows.Columns[batch.Keys].Host)[i], batch.View[uint32](rows.Columns[batch.Vals].Host)[i]
				if int(i) != at || uint32(k) < s.Lo || uint32(k) >= s.Hi || keys[v] != k || original[i] != v || int(v) <= before {
					t.Fatalf("row %d of %d shares: key %d of row %d, after %d, in share [%d,%d)", i, limit, k, v, before, s.Lo, s.Hi)
				}
				at, before = at+1, int(v)
			}
		}
		if at != n || len(shares) > limit+1 {
			t.Fatalf("%d of %d rows in %d shares", at, n, len(shares))
		}
	}
}
