package mixedtree

import (
	"github.com/weftgo/weft/internal/op"
	"testing"

	"github.com/weftgo/weft/btree"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
)

// Ranges and lookups are answered, and updates run, in one launch, on trees with and without
// versions.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, v := range []btree.Versions{btree.Whole, btree.OutOfPlace} {
		dev := devicetest.OpenSim(t, nil)
		s := devicetest.NewStream(t, dev)
		m, err := btree.New[uint32, uint32](dev, &btree.Options{Versions: v})
		must(t, err)
		k, err := Open(dev)
		must(t, err)
		const n = 90
		keys := conformance.Sequence[uint32](0, n)
		if _, err := m.Put(t.Context(), keys, keys); err != nil {
			t.Fatal(err)
		}
		l := Load{
			Kind: op.PutNew, Updates: devicetest.Upload(t, s, conformance.Sequence[uint32](1000, 40)), Vals: devicetest.Upload(t, s, make([]uint32, 40)),
			Queries: devicetest.Upload(t, s, keys[:50]), Counts: devicetest.Upload(t, s, make([]uint32, 50)),
			Sum: devicetest.Upload(t, s, make([]uint64, 1)), Span: 9,
		}
		must(t, k.Run(t.Context(), s, m, v, l))
		want := uint64(0)
		for i := range 50 {
			for j := i; j <= i+9; j++ {
				want += uint64(j)
			}
		}
		answered(t, s, l, 10, want)
		l.Kind, l.Updates, l.Vals, l.Span = op.Delete, devicetest.Upload(t, s, keys[60:]), device.Slice[uint32]{}, 0
		must(t, k.Run(t.Context(), s, m, v, l))
		answered(t, s, l, 1, want+49*50/2)
		must(t, m.Sync(t.Context()))
		if m.Len() != 60+40 {
			t.Errorf("versions %d: %d keys", v, m.Len())
		}
		must(t, m.Check(t.Context()))
		must(t, m.Close())
	}
}

// answered requires that each query has found the given number of pairs, and that the values found
// add up to sum.
func answered(t *testing.T, s *device.Stream, l Load, each uint32, sum uint64) {
	t.Helper()
	counts, total := make([]uint32, l.Queries.Len()), make([]uint64, 1)
	must(t, l.Counts.CopyTo(t.Context(), s, counts))
	must(t, l.Sum.CopyTo(t.Context(), s, total))
	for i, n := range counts {
		if n != each {
			t.Fatalf("query %d finds %d pairs, want %d", i, n, each)
		}
	}
	if total[0] != sum {
		t.Fatalf("the values sum up to %d, want %d", total[0], sum)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
