package horton

import (
	"testing"

	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
)

// TestChurn deletes and inserts keys until all have been replaced ten times. The number of buckets
// that lookups read stays within a bound for each Reclaim. The table takes another seed only with
// Never.
func TestChurn(t *testing.T) {
	conformance.SkipRaced(t, "batches this small are for one core")
	dev := devicetest.Open(t)
	const slots, turnovers, part = 1 << 14, 10, 16
	n := slots * 9 / 10
	for _, c := range []struct {
		reclaim   Reclaim
		hit, miss float64
	}{{Lazy, 1.17, 1.06}, {Eager, 1.165, 1.055}, {Never, 1.35, 1.25}} {
		t.Run(map[Reclaim]string{Lazy: "Lazy", Eager: "Eager", Never: "Never"}[c.reclaim], func(t *testing.T) {
			m := conformance.Open(t, New[uint32, uint32], dev, &Options{Capacity: n, MaxLoad: .9, Fixed: true, Seed: 7, Reclaim: c.reclaim})
			keys := conformance.Sequence[uint32](1, n*(turnovers+1))
			if _, err := m.Put(t.Context(), keys[:n], keys[:n]); err != nil {
				t.Fatal(err)
			}
			fresh := conformance.StatsOf(t, m)
			size := m.engine.Size()
			step := n / part
			at := 0
			for ; at+n+step <= len(keys); at += step {
				if got, err := m.Delete(t.Context(), keys[at:at+step], nil); got != step || err != nil {
					t.Fatalf("Delete: %d, %v", got, err)
				}
				if got, err := m.Put(t.Context(), keys[at+n:at+n+step], keys[at+n:at+n+step]); got != step || err != nil {
					t.Fatalf("Put: %d, %v", got, err)
				}
			}
			conformance.WantPairs(t, m, keys[at:at+n])
			s := conformance.StatsOf(t, m)
			t.Logf("buckets per hit %.4f, per miss %.4f, were %.4f, %.4f", s.PerHit, s.PerMiss, fresh.PerHit, fresh.PerMiss)
			if s.PerHit > c.hit || s.PerMiss > c.miss || m.engine.Size() != size && c.reclaim != Never {
				t.Errorf("%v; %+v, was %v; %+v", s, m.engine.Size(), fresh, size)
			}
		})
	}
}
