package refs

import (
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/slab"
)

// A Ref of a slab for reductions alone combines by atomics.
func slabReducing[K, V uint32 | uint64](t *testing.T) {
	onGPUs(t, 6, func(t *testing.T, dev device.Device) {
		for _, how := range ways {
			m := must[*slab.Map[K, V]](t)(slab.New[K, V](dev, &slab.Options{Capacity: 10, Seed: 1}))
			s := must[*device.Stream](t)(dev.NewStream())
			k := kernel(t, dev, refsImages, batch.MapWidths[K, V](), "slab")
			x := &table[K, V]{kernel: k, stream: s, shared: m, get: m.Get}
			const n, of = 130, 5
			want := map[K]V{}
			var kinds []op.Kind
			var keys []K
			var vals []V
			for i := range n {
				key := K(i%of) - 2
				want[key] += V(i)
				kinds, keys, vals = append(kinds, op.Sum), append(keys, key), append(vals, V(i))
			}
			c := upload(t, s, kinds, keys, vals)
			check(t, m.Update(t.Context(), s, of, func(r slab.Ref) error {
				return launch(s, k, func(o ops) slabParams { return slabParams{ref: r.Reducing(), ops: o} })(c.ops(how))
			}))
			c.download(t, s)
			x.same(t, want, 20)
			check(t, m.Close())
			check(t, s.Close())
		}
	})
}

func TestSlabReducing(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	t.Run("32,32", slabReducing[uint32, uint32])
	t.Run("64,64", slabReducing[uint64, uint64])
	t.Run("64,32", slabReducing[uint64, uint32])
}

// erase removes the pairs of a multimap one by one.
func multiErase[K, V uint32 | uint64](t *testing.T) {
	onGPUs(t, 6, func(t *testing.T, dev device.Device) {
		for _, how := range ways {
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
	t.Run("64,64", multiErase[uint64, uint64])
}
