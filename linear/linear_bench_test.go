package linear_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/linear"
)

// Batches of all keys at once, by widths, number of keys, load and operation:
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
				bench := newBench[K, V](b, dev, n, load)
				b.Run("hit", bench.hit)
				b.Run("miss", bench.miss)
				b.Run("update", bench.update)
				b.Run("insert", bench.insert)
				b.Run("delete", bench.delete)
			})
		}
	}
}

// bench is a map of n keys at a load, in a table of fixed size.
type bench[K, V ~uint32 | ~uint64] struct {
	m               *linear.Map[K, V]
	present, absent []K
	vals            []V
}

func newBench[K, V ~uint32 | ~uint64](b *testing.B, dev device.Device, n int, load float64) *bench[K, V] {
	x := &bench[K, V]{vals: make([]V, n)}
	x.m = conformance.Open(b, linear.New[K, V], dev, &linear.Options{Capacity: n, MaxLoad: load, Fixed: true, Seed: 1})
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

// insert fills the empty table, which it empties off the clock.
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

// delete empties the full table, which it fills off the clock.
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
	n := float64(len(x.present))
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/key")
	b.ReportMetric(float64(conformance.StatsOf(b, x.m).Bytes)/n, "bytes/entry")
}
