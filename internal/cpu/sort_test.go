package cpu

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft/device/devicetest"
)

// Rows must be sorted by key, and rows with equal keys must keep their order, for any distribution
// of keys.
func TestSort(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	rng := rand.New(rand.NewPCG(1, 1))
	for name, key := range map[string]func(i int) uint64{
		"random":    func(int) uint64 { return rng.Uint64() },
		"dense":     func(int) uint64 { return rng.Uint64N(1000) },
		"two":       func(int) uint64 { return rng.Uint64N(2) << 63 },
		"clustered": func(int) uint64 { return rng.Uint64N(4)<<60 | rng.Uint64N(50) },
		"skewed":    func(int) uint64 { return 1 << rng.Uint64N(64) },
		"falling":   func(i int) uint64 { return 1<<40 - uint64(i) },
		"sorted":    func(i int) uint64 { return uint64(i / 3) },
		"one":       func(int) uint64 { return 7 },
	} {
		for _, n := range []int{1, 2, 100, maxComparisonSort + 1, 2*sortGrain + 77} {
			keys := make([]uint64, n)
			for i := range keys {
				keys[i] = key(i)
			}
			var s Sorter[uint64]
			got, err := s.Sort(context.Background(), dev, keys, 1<<63)
			if err != nil || len(got) != n {
				t.Fatalf("%s: %d of %d items, %v", name, len(got), n, err)
			}
			seen := make([]bool, n)
			for _, it := range got {
				if seen[it.Row] || it.Key^1<<63 != keys[it.Row] {
					t.Fatalf("%s: row %d twice, or with key %x", name, it.Row, it.Key)
				}
				seen[it.Row] = true
			}
			if !slices.IsSortedFunc(got, compareItems[uint64]) {
				t.Errorf("%s: %d items are not in order", name, n)
			}
		}
	}
}

func TestSortEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var s Sorter[uint32]
	if _, err := s.Sort(ctx, devicetest.OpenCPU(t, 1), make([]uint32, 10), 0); err == nil {
		t.Error("no error")
	}
}
