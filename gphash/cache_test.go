package gphash

import (
	"path/filepath"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/dst"
	"github.com/weftgo/weft/internal/mutate"
)

// Lookups in mixed batches increase the heat of values like other lookups, even if the same batch
// replaces the value. Changes alone do not.
func TestMixedBatchesWarmTheCache(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	smallParts(t)
	dev := devicetest.OpenSim(t, &sim.Options{Arch: 80})
	for i := range 4 {
		policy, values := CachePolicy(i%2), i >= 2
		x, err := Create(filepath.Join(memoryDir(t), "pool"), dev, Options{
			KeySize: 8, ValueSize: 8, Size: smallPool, Capacity: 20, Mirror: values, Cache: 1, CachePolicy: policy, Seed: [2]uint64{1, 2},
		})
		must(t, err)
		apply := func(key byte, kinds ...weft.OpKind) {
			keys := make([]byte, 8*len(kinds))
			for i := range kinds {
				keys[8*i] = key
			}
			must(t, x.Apply(t.Context(), kinds, keys, make([]byte, len(keys)), nil))
		}
		rate := func(key byte) float64 {
			must(t, x.LoadCache(t.Context()))
			_, err := x.Get(t.Context(), []byte{key, 0, 0, 0, 0, 0, 0, 0}, make([]byte, 8), nil)
			must(t, err)
			s, err := x.Stats(t.Context())
			must(t, err)
			return s.CacheHitRate
		}
		apply(1, weft.OpPut)
		apply(1, weft.OpPut)
		if r := rate(1); r != 0 {
			t.Errorf("policy %d, of values %v: %.2f of what nobody has looked up is in the cache", policy, values, r)
		}
		apply(2, weft.OpPut)
		apply(2, weft.OpGet, weft.OpPut)
		if r := rate(2); r != 1 {
			t.Errorf("policy %d, of values %v: %.2f of what a mixed batch has looked up is in the cache", policy, values, r)
		}
		must(t, x.Check(t.Context()))
		must(t, x.Close())
	}
}

// Lookups alongside a load detect a cache entry that becomes visible before its words.
func TestLoadingMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, m := range []struct{ kernel, pattern, with string }{
		{"cache_fill", `st\.release\.gpu`, "st.relaxed.gpu"},
		{"get", `ld\.acquire\.gpu\.global\.b32`, "ld.relaxed.gpu.global.b32"},
	} {
		cfg := programs[uint32, uint64](t, withValues)
		// seed 9 finds it
		cfg.Shapes, cfg.First, cfg.Seeds, cfg.NoShrink = dst.Overlapping(), 8, 200, true
		cfg.Rewrite = mutate.Replace(t, m.kernel, m.pattern, m.with)
		f, tried := dst.Find(cfg)
		if f == nil {
			t.Fatalf("%s: not found by %v", m.kernel, tried)
		}
		t.Logf("%s: found by program %d: %v", m.kernel, tried.Programs, f.Err)
	}
}
