package slab

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestUtilizationOfThePaper checks the paper's numbers. Utilizations of 19 to 60 % have average
// slab counts of 0.2 to 0.7. The drop at about 65 % has 0.9 to 1.1, where nearly every bucket gets
// a second slab. No utilization exceeds 94 % (sections III-C, IV-B, VI-A).
func TestUtilizationOfThePaper(t *testing.T) {
	const m = 15
	for beta, want := range map[float64]float64{.2: .19, .7: .61, .9: .657, 1: .655, 1.1: .652, 5: .858} {
		if got := utilizationAt(beta*m, 1, 8); math.Abs(got-want) > .005 {
			t.Errorf("average slab count %v: utilization %.3f, want %.3f", beta, got, want)
		}
	}
	if got := utilizationAt(1e9, 1, 8); math.Abs(got-.9375) > 1e-6 {
		t.Errorf("endless chains: utilization %v", got)
	}
}

// TestMeanSlabsIsWhatHappens checks that keys in random buckets take the expected number of slabs.
func TestMeanSlabsIsWhatHappens(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const buckets = 1 << 14
	for _, m := range []int{7, 15, 30} {
		for _, keys := range []float64{.01, .5, 3, 7, 15, 40, 200} {
			counts := make([]int, buckets)
			for range int(keys * buckets) {
				counts[rng.IntN(buckets)]++
			}
			slabs := 0
			for _, n := range counts {
				slabs += max(1, (n+m-1)/m)
			}
			if got, want := meanSlabs(keys, 1, m), float64(slabs)/buckets; math.Abs(got-want) > .02*want {
				t.Errorf("%v keys per bucket, %d slots: %.3f slabs expected, %.3f counted", keys, m, got, want)
			}
		}
	}
	// The approximation for long chains continues the exact formula.
	for _, m := range []int{7, 30} {
		at := 64 * float64(m)
		if a, b := meanSlabs(at, 1, m), meanSlabs(at+.001, 1, m); math.Abs(a-b) > 1e-3 {
			t.Errorf("%d slots: %.3f slabs, then %.3f", m, a, b)
		}
	}
}

// TestPairsPerBucket checks that pairsPerBucket reaches the requested utilization, and that fewer
// pairs do not.
func TestPairsPerBucket(t *testing.T) {
	most := map[int]float64{4: .93, 8: .93, 16: .86}
	for _, slot := range []int{4, 8, 16} {
		for want := minMaxLoad; want <= most[slot]; want += .013 {
			keys, ok := pairsPerBucket(want, 1, slot)
			if got := utilizationAt(keys, 1, slot); !ok || got < want-1e-9 {
				t.Errorf("slots of %d bytes: utilization %.3f for %.3f", slot, got, want)
			}
			for fewer := keys * .98; fewer > keys/8; fewer *= .9 {
				if got := utilizationAt(fewer, 1, slot); got >= want {
					t.Errorf("slots of %d bytes: %.2f keys per bucket for %.3f, and %.2f have %.3f", slot, keys, want, fewer, got)
				}
			}
		}
		if _, ok := pairsPerBucket(most[slot]+.02, 1, slot); ok {
			t.Errorf("slots of %d bytes: utilization %.2f is possible", slot, most[slot]+.02)
		}
	}
}

func TestBucketsFor(t *testing.T) {
	for _, c := range []struct {
		n    uint64
		per  float64
		want uint32
		ok   bool
	}{
		{0, 9, 1, true}, {1, 9, 1, true}, {9, 9, 1, true}, {10, 9, 2, true}, {900, 9, 100, true},
		{maxBuckets * 2, 2, maxBuckets, true}, {maxBuckets*2 + 1, 2, 0, false}, {math.MaxUint64, 9, 0, false},
	} {
		if got, ok := bucketsFor(c.n, c.per); got != c.want || ok != c.ok {
			t.Errorf("%d keys, %v per bucket: %d buckets, %v; want %d, %v", c.n, c.per, got, ok, c.want, c.ok)
		}
	}
}

// TestChainedFor checks that the expected number lies between zero and the maximum for tables of
// all shapes.
func TestChainedFor(t *testing.T) {
	for _, slot := range []int{4, 8, 16} {
		for _, buckets := range []uint32{1, 10, 1 << 20} {
			for _, n := range []uint64{1, 100, 1 << 20, 1 << 30} {
				got, full := chainedFor(n, 1, buckets, slot), float64(n)/float64(slotsIn(slot))
				if got < int(full)-int(buckets) || float64(got) > full*1.125+.6*float64(buckets)+spareUnits {
					t.Errorf("%d keys in %d buckets, slots of %d bytes: %d units", n, buckets, slot, got)
				}
			}
		}
	}
	if got := chainedFor(0, 1, 100, 8); got != 0 {
		t.Errorf("no keys: %d units", got)
	}
	for _, c := range []struct{ n, buckets, want int }{
		{0, 10, 0}, {1, 10, 1}, {10, 10, 10}, {1500, 10, 111}, {1 << 20, 1 << 22, 1 << 20},
	} {
		if got := maxChained(c.n, uint32(c.buckets), 8); got != c.want {
			t.Errorf("%d insertions in %d buckets take at most %d units, want %d", c.n, c.buckets, got, c.want)
		}
	}
}

// TestPairsPerKey checks that keys with several pairs, in random buckets, take the expected number
// of slabs, and that pairsPerKey computes the number of pairs from it.
func TestPairsPerKey(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const buckets = 1 << 14
	for _, slot := range []int{8, 16} {
		for _, each := range []int{1, 2, 5, 20, 1000} {
			for _, pairs := range []float64{2, 5, 9} {
				m := slotsIn(slot)
				counts := make([]int, buckets)
				for left := int(pairs * buckets); left > 0; {
					n := 1 + rng.IntN(2*each-1)
					counts[rng.IntN(buckets)] += n
					left -= n
				}
				n, slabs := 0, 0
				for _, c := range counts {
					n, slabs = n+c, slabs+max(1, (c+m-1)/m)
				}
				if want, got := meanSlabs(float64(n)/buckets, float64(each), m), float64(slabs)/buckets; math.Abs(got-want) > .06*want {
					t.Errorf("%d slots, %d pairs of keys with %d: %.3f slabs expected, %.3f counted", m, n, each, want, got)
				}
				got := pairsPerKey(uint64(n), buckets, slabs-buckets, slot)
				if each == 1 && got != 1 {
					t.Errorf("%d slots, %d keys: they seem to have %.2f pairs", m, n, got)
				}
				if each < m && (pairs < float64(m)/2 || pairs > float64(m)) {
					continue // hardly any bucket has a chain, or all have chains
				}
				// The estimate serves to compute the number of buckets.
				is, _ := pairsPerBucket(.55, got, slot)
				if should, _ := pairsPerBucket(.55, float64(each), slot); math.Abs(is-should) > .12*should {
					t.Errorf("%d slots, %d pairs of keys with %d: they seem to have %.2f; %.2f pairs per bucket, not %.2f", m, n, each, got, is, should)
				}
			}
		}
	}
}
