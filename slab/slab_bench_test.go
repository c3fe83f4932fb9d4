package slab_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/slab"
)

// Batches of all keys at once, by widths, number of keys, utilization and
// operation:
//
//	go test ./slab -run '^$' -bench 'Map/uint64,uint64/n=1000000'
func BenchmarkMap(b *testing.B) {
	dev := devicetest.Open(b)
	b.Run("uint32,uint32", func(b *testing.B) { benchmark[uint32, uint32](b, dev) })
	b.Run("uint64,uint32", func(b *testing.B) { benchmark[uint64, uint32](b, dev) })
	b.Run("uint64,uint64", func(b *testing.B) { benchmark[uint64, uint64](b, dev) })
}

func benchmark[K, V ~uint32 | ~uint64](b *testing.B, dev device.Device) {
	for _, n := range []int{1_000, 100_000, 1_000_000, 10_000_000} {
		for _, utilization := range []float64{.4, .55, .7} {
			b.Run(fmt.Sprintf("n=%d/utilization=%g", n, utilization), func(b *testing.B) {
				bench := newBench[K, V](b, dev, n, utilization)
				b.Run("hit", bench.hit)
				b.Run("miss", bench.miss)
				b.Run("update", bench.update)
				b.Run("insert", bench.insert)
				b.Run("delete", bench.delete)
			})
		}
	}
}

// bench is a map of n keys at a utilization.
type bench[K, V ~uint32 | ~uint64] struct {
	m               *slab.Map[K, V]
	present, absent []K
	vals            []V
}

func newBench[K, V ~uint32 | ~uint64](b *testing.B, dev device.Device, n int, utilization float64) *bench[K, V] {
	x := &bench[K, V]{vals: make([]V, n)}
	x.m = conformance.Open(b, slab.New[K, V], dev, &slab.Options{Capacity: n, MaxLoad: utilization, Seed: 1})
	keys := conformance.Sequence[K](1, 2*n)
	rand.New(rand.NewPCG(1, 1)).Shuffle(2*n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	x.present, x.absent = keys[:n], keys[n:]
	x.put(b, n)
	return x
}

func (x *bench[K, V]) put(b *testing.B, want int) {
	if n, err := x.m.Put(b.Context(), x.present, x.vals); n != want || err != nil {
		b.Fatal(n, err)
	}
}

func (x *bench[K, V]) get(b *testing.B, keys []K, want int) {
	for b.Loop() {
		if n, err := x.m.Get(b.Context(), keys, x.vals, nil); n != want || err != nil {
			b.Fatal(n, err)
		}
	}
	x.report(b)
}

func (x *bench[K, V]) hit(b *testing.B)  { x.get(b, x.present, len(x.present)) }
func (x *bench[K, V]) miss(b *testing.B) { x.get(b, x.absent, 0) }

func (x *bench[K, V]) update(b *testing.B) {
	for b.Loop() {
		x.put(b, 0)
	}
	x.report(b)
}

// insert fills the empty map, which it empties off the clock.
func (x *bench[K, V]) insert(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		if err := x.m.Clear(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		x.put(b, len(x.present))
	}
	x.report(b)
}

// delete empties the full map, which it fills off the clock. The base slabs
// are the same from round to round.
func (x *bench[K, V]) delete(b *testing.B) {
	for b.Loop() {
		if n, err := x.m.Delete(b.Context(), x.present, nil); n != len(x.present) || err != nil {
			b.Fatal(n, err)
		}
		b.StopTimer()
		if err := x.m.Clear(b.Context()); err != nil {
			b.Fatal(err)
		}
		x.put(b, len(x.present))
		b.StartTimer()
	}
	x.report(b)
}

func (x *bench[K, V]) report(b *testing.B) {
	n, s := float64(len(x.present)), conformance.StatsOf(b, x.m)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/key")
	b.ReportMetric(float64(s.Bytes)/n, "bytes/entry")
	b.ReportMetric(s.Utilization, "utilization")
}
