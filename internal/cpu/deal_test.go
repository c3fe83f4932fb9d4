package cpu

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftgo/weft/device/cpu"
)

// Each operation must be in exactly one share, which contains its place, and operations must keep
// their order. The shares must be disjoint and cover all places.
func TestDealerProperties(t *testing.T) {
	dev, err := cpu.Open(&cpu.Options{Workers: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	var d Partitioner // reuses its memory for each batch, as in an engine
	rapid.Check(t, func(t *rapid.T) {
		last := rapid.Uint32Range(0, 2000).Draw(t, "last")
		places := rapid.SliceOfN(rapid.Uint32Range(0, last), 1, 500).Draw(t, "places")
		shares := d.PartitionOps(dev, last, len(places), func(lo, hi int, out []uint32) { copy(out, places[lo:hi]) })

		next := uint32(0)
		var all []uint32
		for i, s := range shares {
			if s.Lo != next || s.Hi < s.Lo {
				t.Fatalf("share %d is [%d,%d), the one before ends at %d", i, s.Lo, s.Hi, next)
			}
			next = s.Hi
			if !slices.IsSorted(s.Ops) {
				t.Fatalf("share %d is out of order: %v", i, s.Ops)
			}
			for _, op := range s.Ops {
				if p := places[op]; p < s.Lo || p >= s.Hi {
					t.Fatalf("operation %d at %d is in share [%d,%d)", op, p, s.Lo, s.Hi)
				}
			}
			all = append(all, s.Ops...)
		}
		if next != last+1 {
			t.Fatalf("shares end at %d of %d", next, last+1)
		}
		slices.Sort(all)
		for i, op := range all {
			if op != uint32(i) || len(all) != len(places) {
				t.Fatalf("%d operations were dealt as %d: %v", len(places), len(all), all)
			}
		}
	})
}

// If a batch has fewer ranges than cores, some cores must get no range, and must not reuse their
// range of the previous batch.
func TestDealToManyCores(t *testing.T) {
	for _, workers := range []int{1, 3, 48, 500} {
		dev, err := cpu.Open(&cpu.Options{Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		var d Partitioner
		for _, n := range []int{4096, 2048, 2049, 2065, 1, 5000} {
			sum := 0
			for _, s := range d.PartitionOps(dev, 999, n, func(lo, hi int, out []uint32) {
				for i := range out {
					out[i] = uint32((lo + i) * 7 % 1000)
				}
			}) {
				sum += len(s.Ops)
			}
			if sum != n {
				t.Errorf("%d workers: %d of %d operations were dealt", workers, sum, n)
			}
		}
		if err := dev.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAll(t *testing.T) {
	var d Partitioner
	for _, n := range []int{5, 0, 300, 2} {
		ops := d.AllOps(n)
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
