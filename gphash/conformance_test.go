package gphash

import (
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
)

// A map of each pair of widths passes the suite of maps, in a pool that grows from a few
// buckets.
func TestConformance(t *testing.T) {
	smallRegions(t)
	dev := devicetest.Open(t)
	half := conformance.ScaleOf(dev).Part(3)
	t.Run("uint32,uint32", func(t *testing.T) { suite[uint32, uint32](t, dev, half, Options{}) })
	if conformance.Raced {
		return // its code is the same for all widths
	}
	t.Run("uint64,uint64", func(t *testing.T) { suite[uint64, uint64](t, dev, half, Options{}) })
	t.Run("int32,float32", func(t *testing.T) { suite[int32, float32](t, dev, half, Options{}) })
	t.Run("uint64,uint32 in atomic batches", func(t *testing.T) { suite[uint64, uint32](t, dev, half, Options{AtomicBatch: 1000}) })
	if _, ok := dev.(device.Host); !ok {
		return
	}
	pmem := Options{Durability: PMem, AssertPMem: PMemConditions{Persistent: true}}
	t.Run("int64,float64 in PMem", func(t *testing.T) { suite[int64, float64](t, dev, half, pmem) })
}

func suite[K weft.Key, V weft.Value](t *testing.T, dev device.Device, scale conformance.Scale, o Options) {
	if o.Capacity = 100; o.Size == 0 {
		o.Size = 16 << 20
	}
	var pools atomic.Int64
	dir := memoryDir(t)
	conformance.Map(t, dev, scale, func(t testing.TB, dev device.Device) conformance.AnyMap[K, V] {
		path := filepath.Join(dir, strconv.Itoa(int(pools.Add(1))))
		m, err := CreateMap[K, V](path, dev, o)
		must(t, err)
		must(t, os.Remove(path)) // it stays until it is closed
		return loading[K, V]{m}
	})
}

// smallRegions lets all cores work on the tables of tests.
func smallRegions(t *testing.T) {
	was := regionBuckets
	regionBuckets = 9
	t.Cleanup(func() { regionBuckets = was })
}

// Kernels pass the suite of maps on a simulated GPU; what they do beside each other is
// TestSchedules'.
func TestConformanceSimulated(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	smallRegions(t)
	dev := devicetest.OpenSim(t, &sim.Options{Arch: 90})
	t.Run("plain", func(t *testing.T) { suite[int32, float32](t, dev, 150, Options{Size: 16 << 20}) })
	t.Run("values in a cache", func(t *testing.T) {
		suite[uint64, uint32](t, dev, 100, Options{Size: 16 << 20, Mirror: true, Cache: .7})
	})
	t.Run("in atomic batches", func(t *testing.T) {
		suite[uint32, uint64](t, dev, 150, Options{Size: 16 << 20, AtomicBatch: 100, AtomicTail: 400})
	})
}
