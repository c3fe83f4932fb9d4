package cuckoo_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/weftgo/weft/cuckoo"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
)

// BenchmarkMap measures batches of all keys at once, by widths, number of keys, slots per bucket
// and load:
//
//	go test ./cuckoo -run '^$' -bench 'Map/uint64,uint64/n=1000000'
func BenchmarkMap(b *testing.B) {
	dev := devicetest.Open(b)
	b.Run("uint32,uint32", func(b *testing.B) { benchmark[uint32, uint32](b, dev) })
	b.Run("uint64,uint64", func(b *testing.B) { benchmark[uint64, uint64](b, dev) })
}

func benchmark[K, V ~uint32 | ~uint64](b *testing.B, dev device.Device) {
	for _, n := range []int{1_000, 100_000, 1_000_000} {
		for _, c := range []struct {
			slots int
			load  float64
		}{{1, .85}, {4, .9}, {8, .5}, {8, .9}, {8, .95}, {16, .95}} {
			b.Run(fmt.Sprintf("n=%d/slots=%d/load=%g", n, c.slots, c.load), func(b *testing.B) {
				benchmarkTable[K, V](b, dev, n, &cuckoo.Options{Capacity: n, Slots: c.slots, MaxLoad: c.load, Fixed: true, Seed: 1})
			})
		}
	}
}

func benchmarkTable[K, V ~uint32 | ~uint64](b *testing.B, dev device.Device, n int, opts *cuckoo.Options) {
	m := conformance.Open(b, cuckoo.New[K, V], dev, opts)
	conformance.Bench(b, m, n, func(b *testing.B) {
		s := conformance.StatsOf(b, m)
		b.ReportMetric(float64(s.Bytes)/float64(n), "bytes/entry")
		b.ReportMetric(s.PerHit, "buckets/hit")
	})
}

// BenchmarkCores measures the same batches on one core and on all cores. The difference shows how
// much of a batch one core must run alone.
func BenchmarkCores(b *testing.B) {
	const n = 1_000_000
	for _, cores := range slices.Compact([]int{1, 2, runtime.GOMAXPROCS(0)}) {
		for _, load := range []float64{.5, .9} {
			b.Run(fmt.Sprintf("cores=%d/load=%g", cores, load), func(b *testing.B) {
				benchmarkTable[uint64, uint64](b, devicetest.OpenCPU(b, cores), n, &cuckoo.Options{Capacity: n, MaxLoad: load, Fixed: true, Seed: 1})
			})
		}
	}
}
