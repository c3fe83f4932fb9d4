package lsm_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
)

// BenchmarkMap measures batches of all keys at once, by widths and number of keys:
//
//	go test ./lsm -run '^$' -bench 'Map/uint64,uint64/n=1000000'
func BenchmarkMap(b *testing.B) {
	dev := devicetest.Open(b)
	for _, n := range []int{1_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("uint32,uint32/n=%d", n), func(b *testing.B) { conformance.Bench(b, open[uint32, uint32](b, dev, nil), n, noFigures) })
		b.Run(fmt.Sprintf("uint64,uint64/n=%d", n), func(b *testing.B) { conformance.Bench(b, open[uint64, uint64](b, dev, nil), n, noFigures) })
	}
}

func noFigures(*testing.B) {}

// BenchmarkOn measures batches on the device, of maps of 10⁶ pairs, and on a GPU also of 10⁸. It
// reports 10⁹ operations per second:
//
//	WEFT_DEVICE=cuda go test ./lsm -run '^$' -bench On
func BenchmarkOn(b *testing.B) {
	dev := devicetest.Open(b)
	sizes := []int{1_000_000}
	if dev.Properties().Kind == device.CUDA {
		sizes = append(sizes, 100_000_000)
	}
	for _, n := range sizes {
		b.Run(fmt.Sprintf("uint32,uint32/n=%d", n), func(b *testing.B) { benchmarkOn[uint32, uint32](b, dev, n) })
		b.Run(fmt.Sprintf("uint64,uint64/n=%d", n), func(b *testing.B) { benchmarkOn[uint64, uint64](b, dev, n) })
	}
}

// benchmarkOn measures a map of n random pairs: building it, lookups and ranks of all its keys, and
// the first 8 pairs after up to 1<<22 of them. It also measures Puts of 1<<20 and 1<<22 keys, which
// show the cost of a merge, whether keys are new or not.
func benchmarkOn[K, V ~uint32 | ~uint64](b *testing.B, dev device.Device, n int) {
	g := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []K {
		keys := make([]K, n)
		for i := range keys {
			keys[i] = K(g.Uint64())
		}
		return keys
	}
	const few, limit = 1 << 22, 8
	st, m := devicetest.NewStream(b, dev), open[K, V](b, dev, nil)
	keys := random(max(n, few))
	all, more, top := devicetest.Upload(b, st, keys[:n]), devicetest.Upload(b, st, random(few)), devicetest.Upload(b, st, slices.Repeat([]K{^K(0)}, few))
	vals, ranks := devicetest.Upload(b, st, make([]V, max(n, few))), devicetest.Upload(b, st, make([]uint64, n))
	counts, out, outVals := devicetest.Upload(b, st, make([]uint32, few)), devicetest.Upload(b, st, make([]K, limit*few)), devicetest.Upload(b, st, make([]V, limit*few))
	measure := func(name string, rows int, call func() error) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				must(b, call())
				must(b, st.Sync(b.Context()))
			}
			b.ReportMetric(float64(rows)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "G/s")
		})
	}
	measure("build", n, func() error {
		must(b, m.Clear(b.Context()))
		return m.BuildOn(st, all, vals.Sub(0, n))
	})
	measure("get", n, func() error { return m.GetOn(st, all, vals.Sub(0, n), device.Slice[bool]{}) })
	measure("rank", n, func() error { return m.RankOn(st, all, ranks) })
	measure("range of 8", min(n, few), func() error {
		q := min(n, few)
		return m.RangeFirstOn(st, all.Sub(0, q), top.Sub(0, q), limit, counts.Sub(0, q), out.Sub(0, limit*q), outVals.Sub(0, limit*q))
	})
	for _, size := range []int{1 << 20, few} {
		measure(fmt.Sprintf("put %d", size), size, func() error { return m.PutOn(st, more.Sub(0, size), vals.Sub(0, size)) })
	}
}
