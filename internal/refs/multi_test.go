package refs

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/slab"
)

// multi is a multimap with user kernels, and its model.
type multi[K, V uint32 | uint64] struct {
	*slab.MultiMap[K, V]
	kernel device.Kernel
	stream *device.Stream
	rows   map[K][]V
}

func openMulti[K, V uint32 | uint64](t *testing.T, dev device.Device) *multi[K, V] {
	return &multi[K, V]{
		MultiMap: must[*slab.MultiMap[K, V]](t)(slab.NewMultiMap[K, V](dev, &slab.Options{Seed: 1})),
		kernel:   kernel(t, dev, refsMultiImages, batch.MapWidths[K, V](), "run"),
		stream:   must[*device.Stream](t)(dev.NewStream()),
		rows:     map[K][]V{},
	}
}

func (x *multi[K, V]) close(t testing.TB) {
	t.Helper()
	check(t, x.Check(t.Context()))
	check(t, errors.Join(x.Close(), x.stream.Close()))
}

// run runs operations of one kind on keys, in an Update or, for lookups, in a View.
func (x *multi[K, V]) run(t testing.TB, mode uint32, kind op.Kind, keys []K, vals []V, permitted int) (outcomes []uint32, held, sums []V) {
	t.Helper()
	kinds := slices.Repeat([]op.Kind{kind}, len(keys))
	c := upload(t, x.stream, kinds, keys, vals)
	submit := func(r slab.Ref) error {
		p := multiParams{ref: r, ops: c.ops(mode), sums: c.sums.Ptr()}
		return device.Launch(x.stream, x.kernel, device.Dim{X: (len(keys) + 63) / 64}, device.Dim{X: 64}, &p)
	}
	if kind == op.Get {
		check(t, x.View(t.Context(), x.stream, submit))
	} else {
		check(t, x.Update(t.Context(), x.stream, permitted, submit))
	}
	return c.download(t, x.stream)
}

// same compares the multimap with its model, regardless of order.
func (x *multi[K, V]) same(t testing.TB, of int) {
	t.Helper()
	keys, n := make([]K, of), 0
	for i := range keys {
		keys[i] = K(i) - 4
	}
	var rows weft.Rows[V]
	check(t, x.GetAll(t.Context(), keys, &rows))
	for i, k := range keys {
		got, want := slices.Sorted(slices.Values(rows.Row(i))), slices.Sorted(slices.Values(x.rows[k]))
		if n += len(want); !slices.Equal(got, want) {
			t.Fatalf("key %#x: %v, want %v", k, got, want)
		}
	}
	check(t, x.Sync(t.Context()))
	if x.Len() != n {
		t.Fatalf("%d pairs, want %d", x.Len(), n)
	}
	check(t, x.Check(t.Context()))
}

func (x *multi[K, V]) sum(k K) (sum V) {
	for _, v := range x.rows[k] {
		sum += v
	}
	return sum
}

func multimap[K, V uint32 | uint64](t *testing.T, dev device.Device) {
	const of = 40
	x := openMulti[K, V](t, dev)
	defer x.close(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 4 {
		how, n := uint32(round%2), 70+60*round
		keys, vals := make([]K, n), make([]V, n)
		for i := range keys {
			keys[i], vals[i] = K(rng.IntN(of))-4, V(rng.IntN(1000)+1)
			x.rows[keys[i]] = append(x.rows[keys[i]], vals[i])
		}
		outcomes, _, _ := x.run(t, how, op.Put, keys, vals, n)
		if slices.ContainsFunc(outcomes, func(o uint32) bool { return o != inserted }) {
			t.Fatalf("pairs are not added: %v", outcomes)
		}
		x.same(t, of)

		keys = keysOf[K](rng, of, of)
		outcomes, held, sums := x.run(t, how, op.Get, keys, make([]V, of), 0)
		for i, k := range keys {
			if there := len(x.rows[k]) > 0; (outcomes[i] == present) != there || there && !slices.Contains(x.rows[k], held[i]) || sums[i] != x.sum(k) {
				t.Fatalf("key %#x: %d, %d, sum %d, want one of %v", k, outcomes[i], held[i], sums[i], x.rows[k])
			}
		}

		few := keys[:12]
		outcomes, _, _ = x.run(t, how, op.PutNew, few, slices.Repeat([]V{7}, len(few)), len(few))
		for i, k := range few {
			if has := len(x.rows[k]) > 0; (outcomes[i] == present) != has {
				t.Fatalf("key %#x: %d", k, outcomes[i])
			} else if !has {
				x.rows[k] = []V{7}
			}
		}
		x.same(t, of)

		gone := keys[6:20]
		outcomes, held, _ = x.run(t, how, op.DeleteAll, gone, make([]V, len(gone)), 0)
		for i, k := range gone {
			if n := len(x.rows[k]); int(held[i]) != n || (outcomes[i] == deleted) != (n > 0) {
				t.Fatalf("key %#x: %d with %d pairs, want %d", k, outcomes[i], held[i], n)
			}
			delete(x.rows, k)
		}
		x.same(t, of)
	}
	// No pair beyond the limit is added.
	outcomes, _, _ := x.run(t, singleLane, op.Put, make([]K, 50), slices.Repeat([]V{1}, 50), 20)
	for _, o := range outcomes {
		if o == inserted {
			x.rows[0] = append(x.rows[0], 1)
		}
	}
	if err := x.Sync(t.Context()); !errors.Is(err, weft.ErrFull) {
		t.Errorf("Sync: %v", err)
	}
	x.same(t, of)
}

func TestMultiMap(t *testing.T) {
	t.Run("32,32", func(t *testing.T) { onGPUs(t, 4, multimap[uint32, uint32]) })
	t.Run("32,64", func(t *testing.T) { onGPUs(t, 4, multimap[uint32, uint64]) })
}

// multiErase removes the pairs of a multimap one by one.
func multiErase[K, V uint32 | uint64](t *testing.T) {
	onGPUs(t, 4, func(t *testing.T, dev device.Device) {
		for _, how := range modes {
			x := openMulti[K, V](t, dev)
			var keys []K
			var vals []V
			for i := range 150 {
				keys, vals = append(keys, K(i%5)-4), append(vals, V(i))
			}
			x.run(t, how, op.Put, keys, vals, 150)
			out, _, _ := x.run(t, how, op.Delete, keys[:100], vals[:100], 0)
			for i, o := range out {
				if o != deleted {
					t.Fatalf("%d: %d", i, o)
				}
			}
			check(t, x.Sync(t.Context()))
			if x.Len() != 50 {
				t.Fatalf("len %d", x.Len())
			}
			out, _, _ = x.run(t, how, op.Delete, keys[:100], vals[:100], 0)
			n := 0
			for _, o := range out {
				if o == deleted {
					n++
				}
			}
			check(t, x.Sync(t.Context()))
			if n != 50 || x.Len() != 0 {
				t.Fatalf("%d, len %d", n, x.Len())
			}
			x.close(t)
		}
	})
}

func TestMultiErase(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	t.Run("32,32", multiErase[uint32, uint32])
	t.Run("32,64", multiErase[uint32, uint64])
}
