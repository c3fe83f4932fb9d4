package linear

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftgo/weft/device/cpu"
)

// The dealer gives each operation to exactly one share, the one that owns its
// home line, and keeps their order; shares are disjoint and cover the table
// and its extra line.
func TestDealerProperties(t *testing.T) {
	dev, err := cpu.Open(&cpu.Options{Workers: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	var d dealer // keeps its memory from batch to batch, as in the engine
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.Uint32Range(1, 2000).Draw(t, "lines")
		homes := rapid.SliceOfN(rapid.Uint32Range(0, (lines+1)*lineSectors-1), 1, 500).Draw(t, "homes")
		shares := d.out(dev, lines, len(homes), func(lo, hi int, out []uint32) { copy(out, homes[lo:hi]) })

		next := uint32(0)
		var all []uint32
		for i, s := range shares {
			if s.lo != next || s.hi < s.lo {
				t.Fatalf("share %d is [%d,%d), the one before ends at %d", i, s.lo, s.hi, next)
			}
			next = s.hi
			if !slices.IsSorted(s.ops) {
				t.Fatalf("share %d is out of order: %v", i, s.ops)
			}
			for _, op := range s.ops {
				if line := homes[op] / lineSectors; line < s.lo || line >= s.hi {
					t.Fatalf("operation %d of line %d is in share [%d,%d)", op, line, s.lo, s.hi)
				}
			}
			all = append(all, s.ops...)
		}
		if next != lines+1 {
			t.Fatalf("shares end at line %d of %d and the extra one", next, lines)
		}
		slices.Sort(all)
		for i, op := range all {
			if op != uint32(i) || len(all) != len(homes) {
				t.Fatalf("%d operations were dealt as %d: %v", len(homes), len(all), all)
			}
		}
	})
}

func TestDealerAll(t *testing.T) {
	var d dealer
	for _, n := range []int{5, 0, 300, 2} {
		ops := d.all(n)
		if len(ops) != n {
			t.Fatalf("%d operations, want %d", len(ops), n)
		}
		for i, op := range ops {
			if op != uint32(i) {
				t.Fatalf("operation %d is %d", i, op)
			}
		}
	}
}

// With more cores than a batch has full shares of work for, some of them get
// nothing: not even what they had in the batch before.
func TestBatchesForManyCores(t *testing.T) {
	for _, workers := range []int{1, 3, 48, 64, 100, 500} {
		m, err := New[uint64, uint64](openCPU(t, workers), nil)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0
		for _, n := range []int{2 * aloneOps, aloneOps, aloneOps + 1, aloneOps + 17, 3*aloneOps + 1} {
			keys := make([]uint64, n)
			for i := range keys {
				keys[i] = uint64(sum + i)
			}
			if got, err := m.Put(t.Context(), keys, keys); got != n || err != nil {
				t.Fatalf("%d workers: Put of %d keys: %d, %v", workers, n, got, err)
			}
			vals := make([]uint64, n)
			if hits, err := m.Get(t.Context(), keys, vals, nil); hits != n || err != nil || !slices.Equal(vals, keys) {
				t.Fatalf("%d workers: %d of %d keys are there: %v", workers, hits, n, err)
			}
			sum += n
		}
		if err := m.CheckInvariants(); err != nil || m.Len() != sum {
			t.Errorf("%d workers: %d keys, want %d: %v", workers, m.Len(), sum, err)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
