package refs

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/linear"
	"github.com/weftgo/weft/slab"
)

// copier is a table, the kernel that copies all its pairs, and a constructor of the kernel's
// parameters.
type copier[K, V uint32 | uint64, R, P any] struct {
	table interface {
		View(context.Context, *device.Stream, func(R) error) error
		Check(context.Context) error
		Close() error
	}
	all    iter.Seq2[K, V]
	params func(R, pairs) P
}

type pair[K, V any] struct {
	key K
	val V
}

// run compares the pairs that the kernel copies with All, for launches of several shapes, and
// closes the table.
func (x copier[K, V, R, P]) run(t *testing.T, dev device.Device, k device.Kernel) {
	t.Helper()
	order := func(a, b pair[K, V]) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.val, b.val)) }
	var want []pair[K, V]
	for key, val := range x.all {
		want = append(want, pair[K, V]{key, val})
	}
	slices.SortFunc(want, order)
	s := must[*device.Stream](t)(dev.NewStream())
	n := len(want) + 1 // one pair too many would be detected
	keys, vals := must[device.Slice[K]](t)(device.Make[K](dev, n)), must[device.Slice[V]](t)(device.Make[V](dev, n))
	count := must[device.Slice[uint32]](t)(device.Make[uint32](dev, 1))
	to := pairs{keys: keys.Ptr(), vals: vals.Ptr(), count: count.Ptr(), room: uint32(n)}
	for _, shape := range [][2]int{{1, 1}, {1, 32}, {3, 40}, {5, 256}} {
		// sets have no values
		check(t, errors.Join(s.Fill(count.Ptr(), 0, 1), s.Fill(vals.Ptr(), 0, n*int(unsafe.Sizeof(V(0)))/4)))
		check(t, x.table.View(t.Context(), s, func(r R) error {
			p := x.params(r, to)
			return device.Launch(s, k, device.Dim{X: shape[0]}, device.Dim{X: shape[1]}, &p)
		}))
		gotKeys, gotVals, got := make([]K, n), make([]V, n), make([]uint32, 1)
		check(t, errors.Join(keys.CopyTo(t.Context(), s, gotKeys), vals.CopyTo(t.Context(), s, gotVals), count.CopyTo(t.Context(), s, got)))
		var have []pair[K, V]
		for i := range min(n, int(got[0])) {
			have = append(have, pair[K, V]{gotKeys[i], gotVals[i]})
		}
		slices.SortFunc(have, order)
		if !slices.Equal(have, want) {
			t.Fatalf("%d blocks of %d threads: %d pairs, want %d:\n%v\n%v", shape[0], shape[1], got[0], len(want), have, want)
		}
	}
	check(t, errors.Join(x.table.Check(t.Context()), x.table.Close(), s.Close(), keys.Free(), vals.Free(), count.Free()))
}

// filled returns keys, some equal to sentinels, their values, and half of the keys for deletion.
func filled[K, V uint32 | uint64]() (keys []K, vals []V, deletedKeys []K) {
	rng := rand.New(rand.NewPCG(3, 4))
	keys, vals = keysOf[K](rng, 400, 500), make([]V, 400)
	for i, k := range keys {
		vals[i] = ^V(k) * 3
	}
	return keys, vals, keys[:100]
}

func eachMap[K, V uint32 | uint64](t *testing.T, dev device.Device) {
	keys, vals, deletedKeys := filled[K, V]()
	ctx, w := t.Context(), batch.MapWidths[K, V]()
	l := must[*linear.Map[K, V]](t)(linear.New[K, V](dev, nil))
	must[int](t)(l.Put(ctx, keys, vals))
	must[int](t)(l.Delete(ctx, deletedKeys, nil))
	copier[K, V, linear.Ref, eachLinearParams]{l, l.All(), linearEach}.run(t, dev, kernel(t, dev, refsEachImages, w, "linear"))
	s := must[*slab.Map[K, V]](t)(slab.New[K, V](dev, &slab.Options{Buckets: 7})) // long chains
	must[int](t)(s.Put(ctx, keys, vals))
	must[int](t)(s.Delete(ctx, deletedKeys, nil))
	copier[K, V, slab.Ref, eachSlabParams]{s, s.All(), slabEach}.run(t, dev, kernel(t, dev, refsEachImages, w, "slab"))
}

func linearEach(r linear.Ref, to pairs) eachLinearParams {
	return eachLinearParams{ref: r, to: to}
}
func slabEach(r slab.Ref, to pairs) eachSlabParams { return eachSlabParams{ref: r, to: to} }

func eachSet[K uint32 | uint64](t *testing.T, dev device.Device) {
	keys, _, deletedKeys := filled[K, K]()
	ctx, w := t.Context(), batch.SetWidths[K]()
	with := func(all iter.Seq[K]) iter.Seq2[K, K] {
		return func(yield func(K, K) bool) {
			for k := range all {
				if !yield(k, 0) {
					return
				}
			}
		}
	}
	l := must[*linear.Set[K]](t)(linear.NewSet[K](dev, nil))
	must[int](t)(l.Add(ctx, keys, nil))
	must[int](t)(l.Delete(ctx, deletedKeys, nil))
	copier[K, K, linear.Ref, eachLinearParams]{l, with(l.All()), linearEach}.run(t, dev, kernel(t, dev, refsEachImages, w, "linear"))
	s := must[*slab.Set[K]](t)(slab.NewSet[K](dev, &slab.Options{Buckets: 3}))
	must[int](t)(s.Add(ctx, keys, nil))
	must[int](t)(s.Delete(ctx, deletedKeys, nil))
	copier[K, K, slab.Ref, eachSlabParams]{s, with(s.All()), slabEach}.run(t, dev, kernel(t, dev, refsEachImages, w, "slab"))
}

func eachMulti[K, V uint32 | uint64](t *testing.T, dev device.Device) {
	keys, vals, deletedKeys := filled[K, V]()
	m := must[*slab.MultiMap[K, V]](t)(slab.NewMultiMap[K, V](dev, &slab.Options{Buckets: 7}))
	for range 2 {
		must[int](t)(m.Put(t.Context(), keys, vals))
	}
	must[int](t)(m.Delete(t.Context(), deletedKeys, nil))
	copier[K, V, slab.Ref, eachParams]{m, m.All(), func(r slab.Ref, to pairs) eachParams { return eachParams{ref: r, to: to} }}.
		run(t, dev, kernel(t, dev, refsMultiImages, batch.MapWidths[K, V](), "each"))
}

// Kernels visit each pair of a table once.
func TestForEachPair(t *testing.T) {
	onGPUs(t, 2, func(t *testing.T, dev device.Device) {
		eachMap[uint32, uint32](t, dev)
		eachMap[uint64, uint64](t, dev)
		eachMap[uint64, uint32](t, dev)
		eachSet[uint32](t, dev)
		eachSet[uint64](t, dev)
		eachMulti[uint32, uint32](t, dev)
		eachMulti[uint32, uint64](t, dev)
	})
}
