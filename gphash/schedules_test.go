package gphash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/dst"
	"github.com/weftgo/weft/internal/mutate"
	"github.com/weftgo/weft/internal/pm"
)

// loading is a map with a Compact that also starts to load the cache, if the map has one. Later
// operations then run while the cache is being filled.
type loading[K weft.Key, V weft.Value] struct{ *Map[K, V] }

func (m loading[K, V]) Compact(ctx context.Context) error {
	return errors.Join(m.Map.Compact(ctx), m.core.WithWriteLock(ctx, "LoadCache", func(now core.Counters) error {
		if g, ok := m.engine.accel.(*gpuEngine); ok && g.k.cache.share > 0 {
			return g.startLoading(uint64(now.Live))
		}
		return nil
	}))
}

// scheduled is a map that tests check between batches.
type scheduled[K weft.Key, V weft.Value] struct{ loading[K, V] }

// CheckInvariants runs Check, which reads the whole pool.
func (m scheduled[K, V]) CheckInvariants() error { return m.Check(ctx) }

// programs returns programs for an index that begins with few or with many buckets.
func programs[K weft.Key, V weft.Value](t *testing.T, m dst.Mode[Options]) dst.Config[K, V] {
	cfg := dst.Maps(func(dev device.Device, s dst.Shape) (scheduled[K, V], error) {
		types := core.MapTypes[K, V]()
		o := m.Options
		o.KeySize, o.ValueSize = int(types.Key.Bits/8), int(types.Val.Bits/8)
		o.Capacity, o.Hash, o.Seed = max(s.Capacity, 1), SipHash, [2]uint64{1, 2}
		p, _ := memoryPool(t, &o, rand.New(rand.NewPCG(1, 2)), func(mapped []byte) *pm.Memory { return pm.New(mapped, nil) })
		c, e, _, err := openTable(ctx, p, dev, OpenOptions{Resize: o.Resize, Mirror: o.Mirror, Cache: o.Cache, AtomicTail: o.AtomicTail}, types)
		if err != nil {
			return scheduled[K, V]{}, err
		}
		if strings.Contains(m.Name, "rounds") {
			e.accel.(*gpuEngine).k.minWarps = 2
		}
		return scheduled[K, V]{loading[K, V]{&Map[K, V]{weft.NewMap[K, V](c), c, e}}}, nil
	}, func(s Stats) bool { return s.Keys > s.Slots || s.Levels < 2 })
	cfg.Arch, cfg.Seeds = m.Arch, 3
	cfg.Shapes = append(cfg.Shapes, dst.Shapes...)
	cfg.Shapes = append(cfg.Shapes, keysMakeWay)
	return cfg
}

// keysMakeWay runs lookups alongside changes in an index that is almost full.
var keysMakeWay = dst.Shape{Name: "keys make way", Capacity: 10, Keys: 60, Hot: 40, Batches: 14, Streams: 3,
	Kinds: []weft.OpKind{weft.OpPutNew, weft.OpGet, weft.OpPutNew, weft.OpGet, weft.OpGet, weft.OpDelete, weft.OpGet, weft.OpPut, weft.OpGet, weft.OpGet}}

var twoSlots = dst.Mode[Options]{Arch: 80, Name: "2 slots", Options: Options{Slots: 2, Hashes: 2, Levels: 2}}

// Under any schedule of threads, the results of a batch match a serial order of its operations,
// alongside other batches and a resize.
func TestSchedules(t *testing.T) {
	dst.Explore(t, twoSlots, programs[uint64, uint64](t, twoSlots).Updating())
	stop := dst.Mode[Options]{Arch: 80, Name: "stop,mirror,rounds", Options: Options{Slots: 4, Hashes: 2, Levels: 2, Resize: Stop, Mirror: true}}
	dst.Explore(t, stop, programs[uint32, uint64](t, stop))
	mirror := dst.Mode[Options]{Arch: 80, Name: "2 slots,mirror", Options: Options{Slots: 2, Hashes: 2, Levels: 2, Mirror: true}}
	dst.Explore(t, mirror, programs[uint64, uint32](t, mirror))
	cached := dst.Mode[Options]{Arch: 80, Name: "2 slots,cache,rounds", Options: Options{Slots: 2, Hashes: 2, Levels: 2, Cache: .4}}
	dst.Explore(t, cached, programs[uint32, uint32](t, cached))
	dst.Explore(t, withValues, programs[uint32, uint64](t, withValues))
	rounds := dst.Mode[Options]{Arch: 80, Name: "2 slots,rounds", Options: twoSlots.Options}
	dst.Explore(t, rounds, programs[uint64, uint32](t, rounds).Reducing())
	atomic := dst.Mode[Options]{Arch: 80, Name: "2 slots,atomic", Options: Options{Slots: 2, Hashes: 2, Levels: 2, AtomicBatch: 40}}
	dst.Explore(t, atomic, programs[uint64, uint32](t, atomic).Updating())
	tail := dst.Mode[Options]{Arch: 80, Name: "4 slots,atomic,tail", Options: Options{Slots: 4, Hashes: 2, Levels: 2, AtomicBatch: 40, AtomicTail: 100}}
	dst.Explore(t, tail, programs[uint32, uint64](t, tail))
	values := dst.Mode[Options]{Arch: 80, Name: "2 slots,atomic,tail,values", Options: Options{Slots: 2, Hashes: 2, Levels: 2, AtomicBatch: 40, AtomicTail: 60, Cache: .6}}
	dst.Explore(t, values, programs[uint64, uint64](t, values))
}

// The tests detect each mutant of lookups.
func TestLookupMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, m := range []struct {
		name, pattern, with string
		from                uint64 // a seed shortly before the first one that detects the mutant
	}{
		// see pick
		{"a value may be read before the control word of its slot, by other lanes", `bar\.warp\.sync [^;]*;`, "", 167},
		{"a value may be read before the control word of its slot", `ld\.acquire\.sys`, "ld.relaxed.sys", 22},
	} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			cfg := programs[uint64, uint64](t, twoSlots)
			cfg.Shapes, cfg.First, cfg.Seeds, cfg.NoShrink = []dst.Shape{keysMakeWay}, m.from, 200, true
			cfg.Rewrite = mutate.Replace(t, "get", m.pattern, m.with)
			f, tried := dst.Find(cfg)
			if f == nil {
				t.Fatalf("not found by %v", tried)
			}
			t.Logf("found by program %d: %v", tried.Programs, f.Err)
		})
	}
}

// withValues is an index with a cache of values.
var withValues = dst.Mode[Options]{Arch: 80, Name: "2 slots,mirror,values", Options: Options{Slots: 2, Hashes: 2, Levels: 2, Mirror: true, Cache: .6}}

// The tests detect changes that bypass the cache.
func TestChangesPastTheCache(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	cfg := programs[uint32, uint64](t, withValues)
	cached := unsafe.Offsetof(changeParams{}.table) + unsafe.Offsetof(tableRef{}.cached)
	cfg.First, cfg.Seeds, cfg.NoShrink = 29, 100, true // seed 30 detects it
	cfg.Rewrite = mutate.Replace(t, "change", fmt.Sprintf(`ld\.param\.u64 (%%rd\d+), \[%%rd\d+\+%d\]`, cached), "mov.u64 $1, 0")
	f, tried := dst.Find(cfg)
	if f == nil {
		t.Fatalf("not found by %v", tried)
	}
	t.Logf("found by program %d: %v", tried.Programs, f.Err)
}
