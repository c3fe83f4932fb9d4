package conformance

import (
	"math/rand/v2"
	"testing"
)

// Bench measures hits, misses, updates, insertions and deletions in batches of n keys. The empty
// map m has capacity for n keys. report adds the structure's own metrics to the time per key.
func Bench[K, V ~uint32 | ~uint64](b *testing.B, m AnyMap[K, V], n int, report func(b *testing.B)) {
	keys := Sequence[K](1, 2*n)
	rand.New(rand.NewPCG(1, 1)).Shuffle(2*n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	x := &bench[K, V]{m, keys[:n], keys[n:], make([]V, n), report}
	x.put(b, n)
	b.Run("hit", x.hit)
	b.Run("miss", x.miss)
	b.Run("update", x.update)
	b.Run("insert", x.insert)
	b.Run("delete", x.delete)
}

type bench[K, V ~uint32 | ~uint64] struct {
	m               AnyMap[K, V]
	present, absent []K
	vals            []V
	reportExtra     func(b *testing.B)
}

func (x *bench[K, V]) put(b *testing.B, want int) {
	n, err := x.m.Put(b.Context(), x.present, x.vals)
	WantCount(b, "Put", n, want, err)
}

func (x *bench[K, V]) get(b *testing.B, keys []K, want int) {
	for b.Loop() {
		n, err := x.m.Get(b.Context(), keys, x.vals, nil)
		WantCount(b, "Get", n, want, err)
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

// insert measures the time to fill the map, without the time to clear it.
func (x *bench[K, V]) insert(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		must(b, x.m.Clear(b.Context()))
		b.StartTimer()
		x.put(b, len(x.present))
	}
	x.report(b)
}

// delete measures the time to empty the full map, without the time to refill it.
func (x *bench[K, V]) delete(b *testing.B) {
	for b.Loop() {
		n, err := x.m.Delete(b.Context(), x.present, nil)
		WantCount(b, "Delete", n, len(x.present), err)
		b.StopTimer()
		must(b, x.m.Clear(b.Context()))
		x.put(b, len(x.present))
		b.StartTimer()
	}
	x.report(b)
}

func (x *bench[K, V]) report(b *testing.B) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(x.present)), "ns/key")
	x.reportExtra(b)
}
