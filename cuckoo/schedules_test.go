package cuckoo_test

import (
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/cuckoo"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/dst"
)

// modes are those of a default table, and of tables with many evictions.
var modes = []mode{
	{Arch: 90, Name: "default", Options: cuckoo.Options{}},
	{Arch: 80, Name: "4 slots", Options: cuckoo.Options{Slots: 4, MaxLoad: .95}},
	{Arch: 90, Name: "4 slots,unordered", Options: cuckoo.Options{Slots: 4, MaxLoad: .95, Unordered: true}},
	{Arch: 90, Name: "2 slots,balanced", Options: cuckoo.Options{Slots: 2, MaxLoad: .8, Policy: cuckoo.LoadBalancing}},
	{Arch: 80, Name: "1 slot,all buckets", Options: cuckoo.Options{Slots: 1, Lookup: cuckoo.AllBuckets}},
	{Arch: 90, Name: "1 slot,unordered", Options: cuckoo.Options{Slots: 1, Unordered: true}},
	{Arch: 80, Name: "16 slots,all buckets", Options: cuckoo.Options{Slots: 16, MaxLoad: .97, Policy: cuckoo.LoadBalancing, Lookup: cuckoo.AllBuckets, Unordered: true}},
}

type mode = dst.Mode[cuckoo.Options]

func options(m mode, s dst.Shape) *cuckoo.Options {
	o := m.Options
	o.Capacity, o.Fixed, o.Seed = s.Capacity, s.Fixed, 1
	return cuckoo.Crowded(o)
}

// troubles are shapes of programs that are hard for cuckoo tables: those of all structures, and
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
		if m.Arch == 80 || i == 0 {
			dst.Explore(t, m, schedules[uint64, uint64](m))
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
func impossible(s cuckoo.Stats) bool {
	return s.PerHit < 1 || s.PerHit > 5 || s.PerMiss < 1 || s.PerMiss > 5 || s.Len > s.Slots+4
}

const fewSeeds = 4

func schedules[K weft.Key, V weft.Value](m mode) dst.Config[K, V] {
	return withMode(m, dst.Maps(func(dev device.Device, s dst.Shape) (*cuckoo.Map[K, V], error) {
		return cuckoo.New[K, V](dev, options(m, s))
	}, impossible))
}

func setSchedules[K weft.Key](m mode) dst.Config[K, uint32] {
	return withMode(m, dst.Sets(func(dev device.Device, s dst.Shape) (*cuckoo.Set[K], error) {
		return cuckoo.NewSet[K](dev, options(m, s))
	}, impossible))
}

func withMode[K weft.Key, V weft.Value](m mode, cfg dst.Config[K, V]) dst.Config[K, V] {
	cfg.Arch, cfg.Unordered, cfg.Shapes, cfg.Seeds = m.Arch, m.Options.Unordered, troubles, fewSeeds
	return cfg
}

// Combining operations lose no value, in whichever order they run alongside puts, deletes and
// lookups.
func TestReduceSchedules(t *testing.T) {
	for _, m := range []mode{modes[1], modes[3]} {
		dst.Explore(t, m, schedules[uint32, uint32](m).Reducing())
		dst.Explore(t, m, schedules[uint64, uint64](m).Reducing())
	}
}

// The kernels of both architectures differ only for slots of 16 bytes.
func TestSameKernels(t *testing.T) {
	conformance.SameKernels(t, "cuckoo_32_32", "cuckoo_32_0", "cuckoo_64_0", "cuckoo_mixed_32_32")
}

// The kernels of both architectures pass the suites on a simulated GPU. Kernels with a swap of 128
// bits run in lockstep. Kernels without it, which are more complex, run under random schedules.
func TestConformanceSimulated(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	t.Run("sm_80,random", func(t *testing.T) {
		t.Parallel()
		dev := devicetest.OpenSim(t, &sim.Options{Arch: 80, Scheduler: sim.Random, Seed: 1})
		suite[uint64, uint32](t, dev, 60, &cuckoo.Options{Slots: 4, MaxLoad: .95}, conformance.HostCases...)
	})
	t.Run("sm_90", func(t *testing.T) {
		t.Parallel()
		dev := devicetest.OpenSim(t, &sim.Options{Arch: 90})
		suite[uint64, uint64](t, dev, 150, &cuckoo.Options{Capacity: 10, MaxLoad: .97}, conformance.HostCases...)
		suite[uint32, uint32](t, dev, 150, nil)
		setSuite[uint32](t, dev, 150, nil, conformance.HostCases...)
	})
}
