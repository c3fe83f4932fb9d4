package horton_test

import (
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

// modes are those of a default table, and of tables with many moves.
var modes = []mode{
	{Arch: 90, Name: "default", Options: horton.Options{}},
	{Arch: 80, Name: "4 slots,eager", Options: horton.Options{Slots: 4, MaxLoad: .9, Reclaim: horton.Eager}},
	{Arch: 90, Name: "4 slots,unordered", Options: horton.Options{Slots: 4, MaxLoad: .9, Unordered: true}},
	{Arch: 90, Name: "2 slots,eager", Options: horton.Options{Slots: 2, MaxLoad: .8, Reclaim: horton.Eager}},
	{Arch: 80, Name: "16 slots,unordered", Options: horton.Options{Slots: 16, MaxLoad: .97, Unordered: true}},
}

type mode = dst.Mode[horton.Options]

func options(m mode, s dst.Shape) *horton.Options {
	o := m.Options
	o.Capacity, o.Fixed, o.Seed = s.Capacity, s.Fixed, 1
	return horton.Crowded(o)
}

// troubles are shapes of programs that are hard for horton tables: those of all structures, and
// programs on tables at their maximum load, with lookups during insertions that move keys.
var troubles = append(slices.Clip(dst.Shapes),
	dst.Shape{Name: "evictions", Capacity: 120, Fixed: true, Keys: 128, Hot: 120, Batches: 7,
		Kinds: []weft.OpKind{weft.OpPutNew, weft.OpPutNew, weft.OpDelete, weft.OpPutNew, weft.OpPut, weft.OpPutNew, dst.Mixed}},
	dst.Shape{Name: "evictions, streams", Capacity: 100, Fixed: true, Keys: 110, Hot: 100, Batches: 14, Streams: 3,
		Kinds: []weft.OpKind{weft.OpPutNew, weft.OpGet, weft.OpPutNew, weft.OpGet, weft.OpGet, weft.OpDelete, weft.OpGet, weft.OpPutNew, weft.OpGet, weft.OpGet}},
	dst.Shape{Name: "two blocks", Capacity: 60, Fixed: true, Keys: 30, Hot: 40, Cold: 260, Batches: 2},
)

// Under any schedule of their threads, some order of a batch's operations explains their results.
func TestSchedules(t *testing.T) {
	for i, m := range modes {
		if seeds := fewSeeds; m.Arch == 80 || i == 0 {
			if m.Options.Slots == 16 { // these programs are the longest
				seeds /= 2
			}
			dst.Explore(t, m, schedules[uint64, uint64](m).WithSeeds(seeds))
		}
		if i%2 == 0 && m.Arch == 90 { // slots are those of 64-bit keys and values
			dst.Explore(t, m, schedules[uint32, uint64](m))
		} else if i%2 == 1 {
			dst.Explore(t, m, schedules[uint64, uint32](m))
		}
		if m.Arch == 90 { // TestSameKernels
			dst.Explore(t, m, schedules[uint32, uint32](m))
			dst.Explore(t, m, setSchedules[uint32](m))
		}
	}
	dst.Explore(t, modes[2], setSchedules[uint64](modes[2]))
}

// impossible reports whether no table can have the statistics s.
func impossible(s horton.Stats) bool {
	return s.PerHit < 1 || s.PerHit > 2 || s.PerMiss < 1 || s.PerMiss > 2 || s.Len > s.Slots+8
}

const fewSeeds = 4

func schedules[K weft.Key, V weft.Value](m mode) dst.Config[K, V] {
	return withMode(m, dst.Maps(func(dev device.Device, s dst.Shape) (*horton.Map[K, V], error) {
		return horton.New[K, V](dev, options(m, s))
	}, impossible))
}

func setSchedules[K weft.Key](m mode) dst.Config[K, uint32] {
	return withMode(m, dst.Sets(func(dev device.Device, s dst.Shape) (*horton.Set[K], error) {
		return horton.NewSet[K](dev, options(m, s))
	}, impossible))
}

func withMode[K weft.Key, V weft.Value](m mode, cfg dst.Config[K, V]) dst.Config[K, V] {
	cfg.Arch, cfg.Unordered, cfg.Shapes, cfg.Seeds = m.Arch, m.Options.Unordered, troubles, fewSeeds
	return cfg
}

// Combining operations lose no value, in whichever order they run alongside puts, deletes and
// lookups.
func TestReduceSchedules(t *testing.T) {
	for _, m := range []mode{{Arch: 80, Name: "4 slots", Options: horton.Options{Slots: 4, MaxLoad: .9}}, {Arch: 90, Name: "8 slots,eager", Options: horton.Options{MaxLoad: .94, Reclaim: horton.Eager}}} {
		dst.Explore(t, m, schedules[uint32, uint32](m).Reducing())
		dst.Explore(t, m, schedules[uint64, uint64](m).Reducing())
	}
}

// The kernels of both architectures differ only for slots of 16 bytes.
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
				suite[uint64, uint32](t, dev, 60, &horton.Options{Slots: 4, MaxLoad: .9}, conformance.HostCases...)
				return
			}
			suite[uint64, uint64](t, dev, 150, &horton.Options{Capacity: 10, MaxLoad: .94}, conformance.HostCases...)
			if opts.Arch == 90 { // TestSameKernels
				suite[uint32, uint32](t, dev, 150, nil)
				setSuite[uint32](t, dev, 150, nil, conformance.HostCases...)
			}
		})
	}
}
