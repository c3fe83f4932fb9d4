package horton_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/horton"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/dst"
)

// A mode is a way in which the kernels of maps and sets differ.
type mode struct {
	arch      int
	slots     int
	load      float64
	reclaim   horton.Reclaim
	unordered bool
}

func (m mode) String() string {
	return fmt.Sprintf("sm_%d,%d slots,reclaim %d,unordered %v", m.arch, m.slots, m.reclaim, m.unordered)
}

func (m mode) options(s dst.Shape) *horton.Options {
	return &horton.Options{Capacity: s.Capacity, Fixed: s.Fixed, Slots: m.slots, MaxLoad: m.load, Reclaim: m.reclaim, Unordered: m.unordered, Seed: 1}
}

// modes are those of a default table, and of those with many moves.
var modes = []mode{
	{arch: 90, slots: 8},
	{arch: 80, slots: 4, load: .9, reclaim: horton.Eager},
	{arch: 90, slots: 4, load: .9, unordered: true},
	{arch: 90, slots: 2, load: .8, reclaim: horton.Eager},
	{arch: 80, slots: 16, load: .97, unordered: true},
}

// troubles are shapes of programs for horton tables: those of all structures; and tables
// that are as full as they get, with lookups beside insertions that move keys.
var troubles = append(slices.Clip(dst.Shapes),
	dst.Shape{Name: "evictions", Capacity: 120, Fixed: true, Keys: 128, Hot: 120, Batches: 7,
		Kinds: []weft.OpKind{weft.OpPutNew, weft.OpPutNew, weft.OpDelete, weft.OpPutNew, weft.OpPut, weft.OpPutNew, dst.Mixed}},
	dst.Shape{Name: "evictions, streams", Capacity: 100, Fixed: true, Keys: 110, Hot: 100, Batches: 14, Streams: 3,
		Kinds: []weft.OpKind{weft.OpPutNew, weft.OpGet, weft.OpPutNew, weft.OpGet, weft.OpGet, weft.OpDelete, weft.OpGet, weft.OpPutNew, weft.OpGet, weft.OpGet}},
	dst.Shape{Name: "two blocks", Capacity: 60, Fixed: true, Keys: 30, Hot: 40, Cold: 260, Batches: 2},
)

// Under any schedule of their threads, what the operations of a batch return is explained
// by some order of them.
func TestSchedules(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for i, m := range modes {
		if m.arch == 80 || i == 0 {
			explore(t, "uint64,uint64", schedules[uint64, uint64](m), m)
		}
		if i%2 == 0 {
			explore(t, "uint32,uint64", schedules[uint32, uint64](m), m)
		} else {
			explore(t, "uint64,uint32", schedules[uint64, uint32](m), m)
		}
		if m.arch == 90 { // TestSameKernels
			explore(t, "uint32,uint32", schedules[uint32, uint32](m), m)
			explore(t, "set uint32", setSchedules[uint32](m), m)
		}
	}
	explore(t, "set uint64", setSchedules[uint64](modes[2]), modes[2])
}

func explore[K weft.Key, V weft.Value](t *testing.T, widths string, cfg dst.Config[K, V], m mode) {
	t.Run(fmt.Sprintf("%s,%v", widths, m), func(t *testing.T) {
		t.Parallel()
		dst.Run(t, cfg)
	})
}

// invariant is a structure whose memory is looked through in the end.
type invariant[K weft.Key, V weft.Value] struct {
	dst.HostSubject[K, V]
	table interface {
		CheckInvariants() error
		Stats(ctx context.Context) (horton.Stats, error)
		Compact(ctx context.Context) error
	}
}

func (s invariant[K, V]) CheckInvariants() error { return s.table.CheckInvariants() }

// upkeep is what may be done between batches.
func upkeep[K weft.Key, V weft.Value]() []dst.Upkeep[K, V] {
	return []dst.Upkeep[K, V]{
		{Name: "Stats", Do: func(x dst.Subject[K, V]) error {
			s, err := x.(invariant[K, V]).table.Stats(context.Background())
			if err == nil && (s.PerHit < 1 || s.PerHit > 2 || s.PerMiss < 1 || s.PerMiss > 2 || s.Len > s.Slots+8) {
				err = fmt.Errorf("no table is like that: %v", s)
			}
			return err
		}},
		{Name: "Compact", Do: func(x dst.Subject[K, V]) error { return x.(invariant[K, V]).table.Compact(context.Background()) }},
	}
}

const fewSeeds = 7

func schedules[K weft.Key, V weft.Value](m mode) dst.Config[K, V] {
	return dst.Config[K, V]{Arch: m.arch, Seeds: fewSeeds, Shapes: troubles, Unordered: m.unordered, Upkeep: upkeep[K, V](), New: func(dev device.Device, s dst.Shape) (dst.Subject[K, V], error) {
		t, err := horton.New[K, V](dev, m.options(s))
		if err != nil {
			return nil, err
		}
		return invariant[K, V]{dst.Map(t), t}, nil
	}}
}

func setSchedules[K weft.Key](m mode) dst.Config[K, uint32] {
	return dst.Config[K, uint32]{Arch: m.arch, Seeds: fewSeeds, Shapes: troubles, Uniform: true, Unordered: m.unordered, Upkeep: upkeep[K, uint32](), New: func(dev device.Device, s dst.Shape) (dst.Subject[K, uint32], error) {
		t, err := horton.NewSet[K](dev, m.options(s))
		if err != nil {
			return nil, err
		}
		return invariant[K, uint32]{dst.Set(t), t}, nil
	}}
}

// Values that are combined are all there, in some order, whatever is put, deleted and
// looked up beside them.
func TestReduceSchedules(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, m := range []mode{{arch: 80, slots: 4, load: .9}, {arch: 90, slots: 8, load: .94, reclaim: horton.Eager}} {
		explore(t, "uint32,uint32", reducing(schedules[uint32, uint32](m)), m)
		explore(t, "uint64,uint64", reducing(schedules[uint64, uint64](m)), m)
	}
}

func reducing[K weft.Key, V weft.Value](cfg dst.Config[K, V]) dst.Config[K, V] {
	cfg.Reduce = true
	return cfg
}

// The kernels of the architectures differ for slots of 16 bytes alone.
func TestSameKernels(t *testing.T) {
	conformance.SameKernels(t, "horton_32_32", "horton_32_0", "horton_64_0", "horton_mixed_32_32")
}

// The kernels of both architectures pass the suites on a simulated GPU, in lockstep and
// under random schedules.
func TestConformanceSimulated(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, opts := range []sim.Options{{Arch: 80}, {Arch: 90}, {Arch: 80, Scheduler: sim.Random, Seed: 1}} {
		t.Run(fmt.Sprintf("sm_%d,%s", opts.Arch, opts.Scheduler), func(t *testing.T) {
			t.Parallel()
			dev := devicetest.OpenSim(t, &opts)
			if opts.Scheduler == sim.Random {
				suite[uint64, uint32](t, dev, 60, &horton.Options{Slots: 4, MaxLoad: .9})
				return
			}
			suite[uint64, uint64](t, dev, 150, &horton.Options{Capacity: 10, MaxLoad: .94})
			if opts.Arch == 90 { // TestSameKernels
				suite[uint32, uint32](t, dev, 150, nil)
				setSuite[uint32](t, dev, 150, nil)
			}
		})
	}
}
