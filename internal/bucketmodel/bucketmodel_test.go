package bucketmodel

import (
	"math"
	"testing"
)

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if !(math.Abs(got-want) <= within) {
		t.Errorf("%s: %.5f, want %.5f within %g", what, got, want, within)
	}
}

// TestPaper compares the model with the numbers in the paper's text about figures 9 to 11.
func TestPaper(t *testing.T) {
	at := func(slots int, load float64) Horton { return Horton{slots, load, Entries(8)} }
	// Sections 6.3, 6.4 and 8. The paper rounds these numbers up.
	near(t, "hit at .95", at(8, .95).PerHit(), 1.18, .015)
	near(t, "miss at .95", at(8, .95).PerMiss(), 1.06, .0005)
	near(t, "hit at .9", at(8, .9).PerHit(), 1.15, .01)
	near(t, "miss at .9", at(8, .9).PerMiss(), 1.05, .002)
	near(t, "hit of 16 slots", at(16, .95).PerHit(), 1.1, .005)
	near(t, "hit of one slot where cuckoo tables are even", at(1, .7).PerHit(), 1.5, .005)
	for slots, load := range map[int]float64{4: .91, 8: .95, 16: .96} { // section 6.2
		if got := Feasible(slots); got <= load || got > load+.02 {
			t.Errorf("%d slots take a load of %.4f, want a little more than %g", slots, got, load)
		}
		if h := at(slots, load); h.PerHit() >= 1.3 || h.Alias() >= .08 {
			t.Errorf("%d slots at %g: %.3f per hit, alias %.3f", slots, load, h.PerHit(), h.Alias())
		}
		if hit := at(slots, .6).PerHit(); hit >= 1.1+.002 {
			t.Errorf("%d slots at .6: %.4f per hit", slots, hit)
		}
	}
	for _, slots := range []int{1, 2} {
		h := at(slots, Feasible(slots))
		if h.Load >= .9 || h.Alias() >= .08 {
			t.Errorf("%d slots: load %.3f, alias %.3f", slots, h.Load, h.Alias())
		}
		near(t, "what entries leave", 1-h.Overhead(), h.Load, 1e-9)
	}
	hit, miss := Even(2)
	near(t, "load balancing, hit", hit, 1.5, 0)
	near(t, "load balancing, miss", miss, 2, 0)
}

func TestEntries(t *testing.T) {
	for slotBytes, want := range map[int]int{4: 10, 8: 21, 16: 42} {
		if got := Entries(slotBytes); got != want {
			t.Errorf("%d entries in %d bytes, want %d", got, slotBytes, want)
		}
	}
}

// TestSums checks that shares add up to one at any load.
func TestSums(t *testing.T) {
	for lambda := 1. / 64; lambda <= 16; lambda *= 2 {
		total, mean := 0., 0.
		for x := range 200 {
			total += Poisson(lambda, x)
			mean += float64(x) * Poisson(lambda, x)
		}
		near(t, "shares of buckets", total, 1, 1e-12)
		near(t, "mean", mean, lambda, 1e-11)
		for _, slots := range []int{1, 2, 4, 8, 16} {
			h := Horton{slots, lambda / float64(slots), 21}
			near(t, "shares of keys", h.Primary()+h.Remap(), 1, 1e-12)
			if h.EntriesSet() > h.Alias()*21+1e-3 {
				t.Errorf("%+v: %.4f entries, %.4f keys that have one", h, h.EntriesSet(), h.Alias()*21)
			}
		}
	}
	var empty Horton
	empty.Slots, empty.Tags = 8, 21
	if empty.PerHit() != 1 || empty.PerMiss() != 1 || empty.Primary() != 1 || empty.TypeB() != 0 || empty.PerInsert(7) != 1 {
		t.Errorf("an empty table: %g, %g, %g, %g", empty.PerHit(), empty.PerMiss(), empty.Primary(), empty.TypeB())
	}
	if c := (FirstFit{Slots: 8}); c.PerHit() != 1 || math.Abs(c.PerMiss()-1) > 1e-9 {
		t.Errorf("an empty cuckoo table: %g, %g", c.PerHit(), c.PerMiss())
	}
}
