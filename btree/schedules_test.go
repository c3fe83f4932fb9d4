package btree

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/dst"
)

// troubles lists shapes of programs that are hard for trees.
var troubles = []dst.Shape{
	{Name: "one leaf", Keys: 10, Hot: 90, Batches: 3},
	{Name: "few leaves", Keys: 40, Hot: 90, Batches: 4},
	{Name: "shifts in a leaf", Keys: 13, Hot: 120, Batches: 3, Kinds: []weft.OpKind{weft.OpPut, dst.Mixed, dst.Mixed}},
	{Name: "few keys, many threads", Keys: 3, Hot: 36, Cold: 120, Batches: 2},
	{Name: "splits", Keys: 20, Hot: 30, Cold: 150, Batches: 3, Kinds: []weft.OpKind{weft.OpPutNew, dst.Mixed, weft.OpPut}},
	{Name: "merges", Keys: 150, Hot: 150, Batches: 5, Kinds: []weft.OpKind{weft.OpPut, weft.OpPut, weft.OpDelete, weft.OpDelete, dst.Mixed}},
}

// TestSchedules checks that, under any schedule, some order of a batch's operations explains their
// results. Between batches, dead nodes are reclaimed and trees are compacted.
func TestSchedules(t *testing.T) {
	for _, unordered := range []bool{false, true} {
		explore(t, "uint32,uint32", schedules[uint32, uint32](unordered), unordered, 3)
		explore(t, "uint64,uint64", schedules[uint64, uint64](unordered), unordered, 2)
	}
	explore(t, "uint32,uint64", schedules[uint32, uint64](true), true, 1)
	explore(t, "uint64,uint32", schedules[uint64, uint32](true), true, 1)
}

// TestReduceSchedules checks that combining operations lose no value, in whichever order they run
// alongside puts, deletes and lookups.
func TestReduceSchedules(t *testing.T) {
	explore(t, "uint32,uint32", schedules[uint32, uint32](true).Reducing(), true, 1)
	explore(t, "uint64,uint64", schedules[uint64, uint64](false).Reducing(), false, 1)
}

// TestSameKernels checks that the kernels of all architectures are the same.
func TestSameKernels(t *testing.T) {
	conformance.SameKernels(t, "btree_32_32", "btree_32_64", "btree_64_32", "btree_64_64",
		"btree_versions_32_32", "btree_versions_32_64", "btree_versions_64_32", "btree_versions_64_64")
}

func explore[K weft.Key, V weft.Value](t *testing.T, widths string, cfg dst.Config[K, V], unordered bool, seeds int) {
	run := func(name string, seeds int, cfg dst.Config[K, V]) {
		t.Run(fmt.Sprintf("%s%s,unordered=%v", name, widths, unordered), func(t *testing.T) {
			t.Parallel()
			cfg.Seeds = seeds
			dst.Run(t, cfg)
		})
	}
	run("", seeds, cfg)
	cfg.Shapes = dst.Overlapping()
	run("overlapping ", 1, cfg)
}

func schedules[K weft.Key, V weft.Value](unordered bool) dst.Config[K, V] {
	return schedulesOf[K, V](&Options{Unordered: unordered})
}

func schedulesOf[K weft.Key, V weft.Value](opts *Options) dst.Config[K, V] {
	return dst.Config[K, V]{
		Arch: 90, Unordered: opts.Unordered, Shapes: troubles,
		New: func(dev device.Device, s dst.Shape) (dst.Subject[K, V], error) {
			m, err := New[K, V](dev, opts)
			if err != nil {
				return nil, err
			}
			return scheduled[K, V]{dst.Map(m), &m.table, &history[K, V]{m: m}}, nil
		},
		Upkeep: []dst.Upkeep[K, V]{
			{Name: "reclaim", Do: func(x dst.Subject[K, V]) error { return x.(scheduled[K, V]).table.reclaim(context.Background()) }},
			{Name: "compact", Do: func(x dst.Subject[K, V]) error { return x.(scheduled[K, V]).core.Compact(context.Background()) }},
		},
	}
}

// reclaim makes dead nodes free, even if they are few.
func (t *table) reclaim(ctx context.Context) error {
	return t.core.WithWriteLock(ctx, "reclaim", func(core.Counters) error { return t.policy.engine.reclaim(ctx) })
}

// scheduled is a structure under test with its table.
type scheduled[K weft.Key, V weft.Value] struct {
	dst.HostSubject[K, V]
	*table
	*history[K, V]
}

// history is a snapshot of a map, and the content of the map when it was taken.
type history[K weft.Key, V weft.Value] struct {
	m  *Map[K, V]
	at *weft.Snapshot[K, V]
	is map[K]V
}

// look takes a snapshot. If a snapshot exists already, look checks that its content has not
// changed, and closes it.
func (h *history[K, V]) look() (err error) {
	if h.at == nil {
		if h.at, err = h.m.Snapshot(context.Background()); err != nil {
			return err
		}
		h.is = maps.Collect(h.at.All())
		return h.isPresent()
	}
	for k, v := range h.at.All() {
		if is, ok := h.is[k]; !ok || is != v {
			return fmt.Errorf("a snapshot had %v, %v of key %v, and has %v then", is, ok, k, v)
		}
		delete(h.is, k)
	}
	if len(h.is) != 0 {
		return fmt.Errorf("a snapshot has lost %v", h.is)
	}
	err = h.at.Close()
	h.at = nil
	return err
}

// isPresent checks that a snapshot that has just been taken agrees with lookups of the present.
// Both see everything submitted before.
func (h *history[K, V]) isPresent() error {
	keys := slices.Collect(maps.Keys(h.is))
	vals, counts := make([]V, len(keys)), make([]uint32, 1)
	hits, err := h.m.Get(context.Background(), keys, vals, nil)
	if err != nil {
		return err
	}
	total, err := h.m.Count(context.Background(), []K{0}, []K{^K(0)}, counts)
	if err != nil {
		return err
	}
	if hits != len(keys) || total != len(keys) || h.at.Len() != len(keys) {
		return fmt.Errorf("a snapshot has %d pairs and tells of %d; there are %d, and %d of its keys", len(keys), h.at.Len(), total, hits)
	}
	for i, k := range keys {
		if vals[i] != h.is[k] {
			return fmt.Errorf("a snapshot has %v of key %v, whose value is %v", h.is[k], k, vals[i])
		}
	}
	return nil
}

// Close implements dst.Subject.
func (s scheduled[K, V]) Close() error {
	if s.at != nil {
		if err := s.look(); err != nil {
			return err
		}
	}
	return s.HostSubject.Close()
}

func (s scheduled[K, V]) CheckInvariants() error { return s.core.Check(context.Background()) }
