package slab_test

import (
	"fmt"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/slab"
)

// TestConformance runs the suites of maps, multimaps and sets of all widths, and of signed and
// floating-point types.
func TestConformance(t *testing.T) {
	dev := devicetest.Open(t)
	full := conformance.ScaleOf(dev)
	part := full.Part(5) // large batches of other widths run the same code
	t.Run("uint32,uint32", func(t *testing.T) { suite[uint32, uint32](t, dev, full, nil) })
	t.Run("uint64,uint64", func(t *testing.T) { suite[uint64, uint64](t, dev, part, nil, conformance.HostCases...) })
	t.Run("multimap uint32,uint32", func(t *testing.T) { multiSuite[uint32, uint32](t, dev, part, nil) })
	t.Run("multimap uint64,uint64", func(t *testing.T) { multiSuite[uint64, uint64](t, dev, part, nil, conformance.HostCases...) })
	t.Run("set uint32", func(t *testing.T) { setSuite[uint32](t, dev, part, nil) })
	if conformance.Raced {
		return // other types run the same code
	}
	t.Run("uint32,uint64", func(t *testing.T) { suite[uint32, uint64](t, dev, part, nil, conformance.HostCases...) })
	t.Run("uint64,uint32", func(t *testing.T) { suite[uint64, uint32](t, dev, part, nil, conformance.HostCases...) })
	t.Run("int32,float32", func(t *testing.T) { suite[int32, float32](t, dev, part, nil, conformance.HostCases...) })
	t.Run("int64,float64", func(t *testing.T) { suite[int64, float64](t, dev, part, nil, conformance.HostCases...) })
	t.Run("multimap uint32,uint64", func(t *testing.T) { multiSuite[uint32, uint64](t, dev, part, nil, conformance.HostCases...) })
	t.Run("multimap uint64,uint32", func(t *testing.T) { multiSuite[uint64, uint32](t, dev, part, nil, conformance.HostCases...) })
	t.Run("multimap int64,float32", func(t *testing.T) { multiSuite[int64, float32](t, dev, part, nil, conformance.HostCases...) })
	t.Run("set int64", func(t *testing.T) { setSuite[int64](t, dev, part, nil, conformance.HostCases...) })
}

// TestConformanceWithOptions runs the suites on structures with few buckets and long chains, and on
// dense structures that never flush themselves.
func TestConformanceWithOptions(t *testing.T) {
	if testing.Short() {
		t.Skip("the same code with other options")
	}
	dev := devicetest.Open(t)
	few := conformance.ScaleOf(dev).Part(20)
	for name, opts := range map[string]*slab.Options{
		"few buckets": {Buckets: 20},
		"dense":       {MaxLoad: .85, Capacity: 10, MaxTombstones: -1},
		"unordered":   {Unordered: true},
	} {
		t.Run(name, func(t *testing.T) {
			without := conformance.HostCases
			if opts.Unordered { // any of equal keys may win
				without = append([]string{"OnDuplicates"}, without...)
			} else {
				t.Run("uint32,uint32", func(t *testing.T) { suite[uint32, uint32](t, dev, few, opts, conformance.HostCases...) })
				t.Run("set uint32", func(t *testing.T) { setSuite[uint32](t, dev, few, opts, conformance.HostCases...) })
			}
			t.Run("multimap uint64,uint64", func(t *testing.T) { multiSuite[uint64, uint64](t, dev, few, opts, without...) })
		})
	}
}

// TestConformanceSimulated runs the suites on the kernels of both architectures, on a simulated
// GPU. Kernels for slots of 16 bytes run under random schedules, since in lockstep no thread reads
// a pending slot. Other kernels run in lockstep.
func TestConformanceSimulated(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, opts := range []sim.Options{{Arch: 90}, {Arch: 80, Scheduler: sim.Random, Seed: 1}, {Arch: 90, Scheduler: sim.Random, Seed: 2}} {
		t.Run(fmt.Sprintf("sm_%d,%s", opts.Arch, opts.Scheduler), func(t *testing.T) {
			t.Parallel()
			dev := devicetest.OpenSim(t, &opts)
			if opts.Scheduler == sim.Fast {
				t.Run("uint32,uint32", func(t *testing.T) { suite[uint32, uint32](t, dev, conformance.Slow, nil) })
				t.Run("multimap uint32,uint32", func(t *testing.T) { multiSuite[uint32, uint32](t, dev, conformance.Slow, nil) })
				t.Run("set uint32", func(t *testing.T) { setSuite[uint32](t, dev, conformance.Slow, nil, conformance.HostCases...) })
				return
			}
			const size = 150
			few := &slab.Options{Buckets: 50}
			if opts.Arch == 80 { // TestKernelsSimulated runs both architectures
				t.Run("uint64,uint64", func(t *testing.T) { suite[uint64, uint64](t, dev, size, few, conformance.HostCases...) })
			} else {
				t.Run("multimap uint64,uint64", func(t *testing.T) { multiSuite[uint64, uint64](t, dev, size, few, conformance.HostCases...) })
				// TestSameKernels covers the other architecture.
				t.Run("int32,float32", func(t *testing.T) { reductions[int32, float32](t, dev, size) })
			}
			t.Run("int64,float64", func(t *testing.T) { reductions[int64, float64](t, dev, size) })
			t.Run("uint32,int64", func(t *testing.T) { reductions[uint32, int64](t, dev, size) })
		})
	}
}

// reductions runs the kernels that depend on the type of values.
func reductions[K weft.Key, V weft.Value](t *testing.T, dev device.Device, size conformance.Scale) {
	conformance.Reductions(t, dev, size, conformance.MapOf(slab.New[K, V], nil))
}

func suite[K weft.Key, V weft.Value](t *testing.T, dev device.Device, size conformance.Scale, opts *slab.Options, skip ...string) {
	conformance.Map(t, dev, size, conformance.MapOf(slab.New[K, V], opts), skip...)
}

func multiSuite[K weft.Key, V weft.Value](t *testing.T, dev device.Device, size conformance.Scale, opts *slab.Options, skip ...string) {
	conformance.MultiMap(t, dev, size, conformance.MultiMapOf(slab.NewMultiMap[K, V], opts), skip...)
}

func setSuite[K weft.Key](t *testing.T, dev device.Device, size conformance.Scale, opts *slab.Options, skip ...string) {
	conformance.Set(t, dev, size, conformance.SetOf(slab.NewSet[K], opts), skip...)
}

// TestHotKeys checks that the threads of a block combine their operations on one key.
func TestHotKeys(t *testing.T) {
	conformance.HotKeys(t, conformance.MapOf(slab.New[uint32, uint32], nil), conformance.MapOf(slab.New[uint64, uint64], nil))
}
