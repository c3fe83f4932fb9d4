package slab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/dst"
)

// mode is a combination of properties of the structure under test.
type mode struct {
	arch      int
	unordered bool
	tight     bool // whether the pool has one free slab for each batch
}

func (m mode) String() string {
	s := fmt.Sprintf("sm_%d", m.arch)
	if m.unordered {
		s += ",unordered"
	}
	if m.tight {
		s += ",tight"
	}
	return s
}

// troubles are shapes of programs that stress slab hashes. Their options set the number of buckets.
var troubles = []dst.Shape{
	{Name: "one chain", Capacity: 8, Keys: 24, Hot: 96, Batches: 3},
	{Name: "few chains", Capacity: 8, Keys: 60, Hot: 60, Cold: 60, Batches: 4},
	{Name: "few keys, many threads", Capacity: 400, Keys: 3, Hot: 36, Cold: 150, Batches: 2},
	{Name: "one key", Capacity: 300, Keys: 1, Hot: 14, Cold: 260, Batches: 2},
	{Name: "around growth", Keys: 30, Hot: 60, Cold: 20, Batches: 5},
	{Name: "tombstones", Capacity: 8, Keys: 12, Hot: 40, Batches: 5},
	{Name: "around full", Capacity: 24, Fixed: true, Keys: 40, Hot: 120, Batches: 3},
}

func (m mode) options(s dst.Shape) *Options {
	o := &Options{Capacity: s.Capacity, Fixed: s.Fixed, Unordered: m.unordered, Seed: 1}
	switch s.Name {
	case "one chain":
		o.Buckets = 1
	case "few chains", "around full":
		o.Buckets = 3
	case "tombstones":
		o.Buckets, o.MaxTombstones = 1, .01
	}
	return o
}

// TestSchedules checks that under any schedule of the threads, the results of a batch match some
// order of its operations. Between batches structures flush themselves and grow.
func TestSchedules(t *testing.T) {
	for _, arch := range []int{80, 90} {
		m := mode{arch: arch}
		explore(t, "uint32,uint64", schedules[uint32, uint64](m), m)
		explore(t, "uint64,uint32", schedules[uint64, uint32](m), m)
		explore(t, "multimap uint32,uint64", multiSchedules[uint32, uint64](m), m)
		explore(t, "multimap uint64,uint32", multiSchedules[uint64, uint32](m), m)
		for _, m := range []mode{m, {arch: arch, unordered: true}, {arch: arch, tight: true}} {
			explore(t, "uint64,uint64", schedules[uint64, uint64](m), m)
			explore(t, "multimap uint64,uint64", multiSchedules[uint64, uint64](m), m)
			if arch == 80 {
				continue // TestSameKernels covers these
			}
			explore(t, "uint32,uint32", schedules[uint32, uint32](m), m)
			explore(t, "multimap uint32,uint32", multiSchedules[uint32, uint32](m), m)
			explore(t, "set uint32", setSchedules[uint32](m), m)
			explore(t, "set uint64", setSchedules[uint64](m), m)
		}
	}
}

// TestSameKernels checks that the kernels of the two architectures differ only for slots of 16
// bytes.
func TestSameKernels(t *testing.T) {
	conformance.SameKernels(t, "slab_32_32", "slab_32_0", "slab_64_0", "slab_multi_32_32", "slab_mixed_32_32", "slab_graph_64_0", "slab_graph_64_32")
}

// TestSchedulesOfGetOrPut runs GetOrPuts instead of PutNews. Some find no slab at first.
func TestSchedulesOfGetOrPut(t *testing.T) {
	for _, m := range []mode{{arch: 80}, {arch: 90, tight: true}} {
		cfg := schedules[uint32, uint64](m)
		cfg.Shapes, cfg.Loads, cfg.Seeds = slices.Concat(troubles, dst.Overlapping()), true, 10
		t.Run(m.String(), func(t *testing.T) {
			t.Parallel()
			dst.Run(t, cfg)
		})
	}
}

func explore[K weft.Key, V weft.Value](t *testing.T, widths string, cfg dst.Config[K, V], m mode) {
	run := func(name string, seeds int, cfg dst.Config[K, V]) {
		t.Run(fmt.Sprintf("%s%s,%v", name, widths, m), func(t *testing.T) {
			t.Parallel()
			cfg.Seeds = seeds // so that each test runs other programs
			dst.Run(t, cfg)
		})
	}
	run("", 5, cfg)
	run("overlapping ", 2, overlapping(cfg))
}

// overlapping returns a configuration for programs of overlapping batches.
func overlapping[K weft.Key, V weft.Value](cfg dst.Config[K, V]) dst.Config[K, V] {
	cfg.Shapes = dst.Overlapping()
	return cfg
}

func schedules[K weft.Key, V weft.Value](m mode) dst.Config[K, V] {
	return config(m, func(dev device.Device, s dst.Shape) (dst.HostSubject[K, V], *table, error) {
		x, err := New[K, V](dev, m.options(s))
		if err != nil {
			return nil, nil, err
		}
		return dst.Map(x), &x.table, nil
	})
}

func multiSchedules[K weft.Key, V weft.Value](m mode) dst.Config[K, V] {
	cfg := config(m, func(dev device.Device, s dst.Shape) (dst.HostSubject[K, V], *table, error) {
		x, err := NewMultiMap[K, V](dev, m.options(s))
		if err != nil {
			return nil, nil, err
		}
		return dst.MultiMap(x), &x.table, nil
	})
	cfg.Multi = true
	return cfg
}

func setSchedules[K weft.Key](m mode) dst.Config[K, uint32] {
	cfg := config(m, func(dev device.Device, s dst.Shape) (dst.HostSubject[K, uint32], *table, error) {
		x, err := NewSet[K](dev, m.options(s))
		if err != nil {
			return nil, nil, err
		}
		return dst.Set(x), &x.table, nil
	})
	cfg.Uniform = true
	return cfg
}

// config returns a configuration for the structures that open makes.
func config[K weft.Key, V weft.Value](m mode, open func(dev device.Device, s dst.Shape) (dst.HostSubject[K, V], *table, error)) dst.Config[K, V] {
	return dst.Config[K, V]{
		Arch: m.arch, Unordered: m.unordered, RetriesOps: m.tight, Shapes: troubles,
		New: func(dev device.Device, s dst.Shape) (dst.Subject[K, V], error) {
			x, t, err := open(dev, s)
			if err == nil && m.tight && !s.Fixed {
				t.run(&tightEngine{t.policy.engine, dev})
			}
			return scheduled[K, V]{x, t}, err
		},
		Upkeep: []dst.Upkeep[K, V]{
			{Name: "flush", Do: func(x dst.Subject[K, V]) error { return x.(scheduled[K, V]).table.flush() }},
			{Name: "Stats", Do: func(x dst.Subject[K, V]) error {
				s, err := x.(scheduled[K, V]).table.Stats(context.Background())
				if err == nil && (s.MaxChain < 1 || s.MaxChain > s.Slabs || s.MeanChain > float64(s.MaxChain)) {
					err = fmt.Errorf("no table has these settings: %v", s)
				}
				return err
			}},
			{Name: "rehash", Do: func(x dst.Subject[K, V]) error { return x.(scheduled[K, V]).rehash() }},
		},
	}
}

// scheduled is a structure under test with its table.
type scheduled[K weft.Key, V weft.Value] struct {
	dst.HostSubject[K, V]
	table *table
}

func (s scheduled[K, V]) CheckInvariants() error { return s.table.CheckInvariants() }

// GetAllOn calls GetAllOn of a multimap.
func (s scheduled[K, V]) GetAllOn(stream *device.Stream, keys device.Slice[K], counts device.Slice[uint32], offsets device.Slice[uint64], vals device.Slice[V]) error {
	return s.HostSubject.(interface {
		GetAllOn(*device.Stream, device.Slice[K], device.Slice[uint32], device.Slice[uint64], device.Slice[V]) error
	}).GetAllOn(stream, keys, counts, offsets, vals)
}

// GetAll calls GetAll of a multimap.
func (s scheduled[K, V]) GetAll(ctx context.Context, keys []K, rows *weft.Rows[V]) error {
	return s.HostSubject.(interface {
		GetAll(context.Context, []K, *weft.Rows[V]) error
	}).GetAll(ctx, keys, rows)
}

// rehash moves all pairs to another number of buckets, unless the number is fixed.
func (s scheduled[K, V]) rehash() error {
	p := s.table.policy
	if p.opts.Fixed {
		return nil
	}
	return s.table.core.WithWriteLock(context.Background(), "rehash", func(now core.Counters) error {
		return p.resize(context.Background(), 1+(p.buckets()+1)%4, now.Live)
	})
}

func (t *table) flush() error {
	return t.core.WithWriteLock(context.Background(), "flush", func(core.Counters) error { return t.policy.engine.flush(context.Background()) })
}

// tightEngine hides all free units of the pool except one while a batch on the device runs, so that
// operations overflow and are retried.
type tightEngine struct {
	engine
	dev device.Device
}

func (e *tightEngine) CountPresent(ctx context.Context, s *device.Stream, b *batch.Batch) (int, error) {
	return e.engine.(core.Presenter).CountPresent(ctx, s, b)
}

// Answer implements core.Answerer.
func (e *tightEngine) Answer(ctx context.Context, s *device.Stream, b *batch.Batch) error {
	return e.engine.(core.Answerer).Answer(ctx, s, b)
}

func (e *tightEngine) Change(ctx context.Context, s *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	if s == nil {
		return e.engine.Change(ctx, s, b)
	}
	show, err := hide(e.dev, e.units(), 1)
	if err != nil {
		return 0, nil, err
	}
	part := *b
	part.Flags |= batch.Report
	done, failed, err = e.engine.Change(ctx, s, &part)
	return done, failed, errors.Join(err, show())
}

// TestReduceSchedules checks that each combined value is included once, in any order, while other
// operations put, delete and look up.
func TestReduceSchedules(t *testing.T) {
	for _, m := range []mode{{arch: 80}, {arch: 90, tight: true}} {
		explore(t, "uint32,uint32", schedules[uint32, uint32](m).Reducing(), m)
		explore(t, "uint64,uint64", schedules[uint64, uint64](m).Reducing(), m)
	}
}
