package gphash

import (
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/pool"
)

// thorough is a factor for the work of tests of kernels.
var thorough = flag.Int("thorough", 1, "so many times the usual work of tests of kernels, 1 to 16")

// A map of each pair of widths, including signed and floating types, passes the suite of maps. Its
// pool grows from a few buckets.
func TestConformance(t *testing.T) {
	smallParts(t)
	dev := devicetest.Open(t)
	part := conformance.ScaleOf(dev).Part(16 / *thorough)
	t.Run("uint32,uint32", func(t *testing.T) { suite[uint32, uint32](t, dev, part, Options{}) })
	if conformance.Raced {
		return // the code is the same for all widths
	}
	t.Run("int64,float64", func(t *testing.T) { suite[int64, float64](t, dev, part, Options{}, conformance.HostCases...) })
	t.Run("int32,uint64", func(t *testing.T) { suite[int32, uint64](t, dev, part, Options{}, conformance.HostCases...) })
	t.Run("uint64,float32 in atomic batches", func(t *testing.T) { suite[uint64, float32](t, dev, part, Options{AtomicBatch: 1000}) })
	if _, ok := dev.(device.Host); !ok {
		return
	}
	pmem := Options{Durability: PMem, AssertPMem: PMemConditions{Persistent: true}}
	t.Run("int64,float64 in PMem", func(t *testing.T) { suite[int64, float64](t, dev, part, pmem, conformance.HostCases...) })
}

func suite[K weft.Key, V weft.Value](t *testing.T, dev device.Device, scale conformance.Scale, o Options, without ...string) {
	if o.Capacity = 100; o.Size == 0 {
		o.Size = pool.DataStart + 4<<20
	}
	var pools atomic.Int64
	dir := memoryDir(t)
	conformance.Map(t, dev, scale, func(t testing.TB, dev device.Device) conformance.AnyMap[K, V] {
		path := filepath.Join(dir, strconv.Itoa(int(pools.Add(1))))
		m, err := CreateMap[K, V](path, dev, o)
		must(t, err)
		must(t, os.Remove(path)) // the open pool keeps the file
		return loading[K, V]{m}
	}, without...)
}

// smallParts makes regions and units small, so that all cores work on the tables of tests, and
// small pools have several units.
func smallParts(t *testing.T) {
	wasBuckets, wasUnit := minRegionBits, unit
	minRegionBits, unit = 9, 1<<11
	t.Cleanup(func() { minRegionBits, unit = wasBuckets, wasUnit })
}

// smallPool is the size of a pool with 64 such units. Tests take longer with larger pools: loading
// a cache sorts all possible values.
const smallPool = pool.DataStart + 1<<20

// Kernels pass the suite of maps on a simulated GPU. TestSchedules tests their concurrency.
func TestConformanceSimulated(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	smallParts(t)
	dev := devicetest.OpenSim(t, &sim.Options{Arch: 90})
	t.Run("plain", func(t *testing.T) {
		suite[uint32, uint32](t, dev, 100, Options{Size: smallPool})
	})
	t.Run("values in a cache", func(t *testing.T) {
		suite[uint64, float32](t, dev, conformance.Scale(24**thorough), Options{Size: smallPool, Mirror: true, Cache: .7}, conformance.HostCases...)
	})
	t.Run("in atomic batches", func(t *testing.T) {
		suite[int32, uint64](t, dev, conformance.Scale(40**thorough), Options{Size: smallPool, AtomicBatch: 60, AtomicTail: 250}, conformance.HostCases...)
	})
}
