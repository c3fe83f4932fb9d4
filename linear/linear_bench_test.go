package linear_test

import (
	"fmt"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/linear"
)

// BenchmarkMap measures batches with all keys, by widths, number of keys, load and operation:
//
//	go test ./linear -run '^$' -bench 'Map/uint64,uint64/n=1000000'
func BenchmarkMap(b *testing.B) {
	dev := devicetest.Open(b)
	b.Run("uint32,uint32", func(b *testing.B) { benchmark[uint32, uint32](b, dev) })
	b.Run("uint64,uint32", func(b *testing.B) { benchmark[uint64, uint32](b, dev) })
	b.Run("uint64,uint64", func(b *testing.B) { benchmark[uint64, uint64](b, dev) })
}

func benchmark[K, V ~uint32 | ~uint64](b *testing.B, dev device.Device) {
	for _, n := range []int{1_000, 100_000, 1_000_000} {
		for _, load := range []float64{.5, .8, .95} {
			b.Run(fmt.Sprintf("n=%d/load=%g", n, load), func(b *testing.B) {
				m := conformance.Open(b, linear.New[K, V], dev, &linear.Options{Capacity: n, MaxLoad: load, Fixed: true, Seed: 1})
				conformance.Bench(b, m, n, func(b *testing.B) {
					s := conformance.StatsOf(b, m)
					b.ReportMetric(float64(s.Bytes)/float64(n), "bytes/entry")
				})
			})
		}
	}
}
