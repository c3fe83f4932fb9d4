package conformance

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weftgo/weft"
)

// FixedCase describes a map of fixed size.
type FixedCase struct {
	Capacity int
	MaxLoad  float64 // 0 for the default
	Seed     uint64
}

func (c FixedCase) String() string {
	return fmt.Sprintf("%d keys at load %g, seed %d", c.Capacity, c.MaxLoad, c.Seed)
}

// FixedMaker makes a map of fixed size. The caller closes it.
type FixedMaker func(t testing.TB, c FixedCase) AnyMap[uint64, uint64]

// FixedHoldsCapacity requires a map of fixed size to accept Capacity random keys, in one batch or
// in several, with several seeds. Further keys must be accepted or rejected with ErrFull, and
// lookups must agree. After deletions below Capacity, an equal number of other keys must fit.
func FixedHoldsCapacity(t *testing.T, open FixedMaker, loads []float64, capacities ...int) {
	for _, load := range append(loads, 0) {
		for _, capacity := range capacities {
			for seed := range uint64(max(1, min(20, 20_000/capacity))) {
				c := FixedCase{capacity, load, seed + 1}
				fixedHoldsCapacity(t, open(t, c), c)
			}
		}
	}
}

func fixedHoldsCapacity(t *testing.T, m AnyMap[uint64, uint64], c FixedCase) {
	t.Helper()
	rng := rand.New(rand.NewPCG(c.Seed, uint64(c.Capacity)))
	keys := wide.uniqueKeys(c.Capacity+min(4*c.Capacity, 100_000), rng)
	base, extra := keys[:c.Capacity], keys[c.Capacity:]
	size := []int{c.Capacity, 1 << 12, 100}[c.Seed%3]
	if size < c.Capacity/1000 {
		size = c.Capacity
	}
	for lo := 0; lo < len(base); lo += size {
		part := base[lo:min(lo+size, len(base))]
		if n, err := m.Put(ctx(), part, part); n != len(part) || err != nil {
			t.Fatalf("%v: Put of keys %d to %d: %d, %v", c, lo, lo+len(part), n, err)
		}
	}
	accepted := make([]bool, len(extra))
	n, err := m.PutNew(ctx(), extra, extra, accepted)
	if n != m.Len()-c.Capacity || (err != nil) != (n < len(extra)) || err != nil && !errors.Is(err, weft.ErrFull) {
		t.Fatalf("%v: PutNew of %d more: %d, Len is %d, %v", c, len(extra), n, m.Len(), err)
	}
	checkFound := func(want []bool) {
		t.Helper()
		vals, found := make([]uint64, len(keys)), make([]bool, len(keys))
		_, err := m.Get(ctx(), keys, vals, found)
		must(t, err)
		for i, k := range keys {
			if found[i] != want[i] || found[i] && vals[i] != k {
				t.Fatalf("%v: key %d: found is %v, value %d", c, i, found[i], vals[i])
			}
		}
	}
	want := make([]bool, len(keys))
	for i := range base {
		want[i] = true
	}
	copy(want[len(base):], accepted)
	checkFound(want)

	// Delete to slightly below Capacity, then put keys that were rejected.
	var deleted, added []uint64
	slack := min(c.Capacity, 1000)
	for i, k := range keys {
		switch {
		case want[i] && m.Len()-len(deleted) > c.Capacity-slack:
			deleted, want[i] = append(deleted, k), false
		case !want[i] && len(added) < slack && i >= len(base):
			added, want[i] = append(added, k), true
		}
	}
	n, err = m.Delete(ctx(), deleted, nil)
	WantCount(t, "Delete", n, len(deleted), err)
	if n, err := m.Put(ctx(), added, added); n != len(added) || err != nil {
		t.Fatalf("%v: %d of %d keys come where others went: %v", c, n, len(added), err)
	}
	checkFound(want)
	must(t, m.Check(ctx()))
	must(t, m.Close())
}

// FixedRefusesQuickly requires a full map to reject keys in a time that does not depend on its
// size. The limit is the duration of a lookup of absent keys in a map with Capacity keys,
// multiplied by the factor times.
func FixedRefusesQuickly(t *testing.T, open FixedMaker, times float64, capacities ...int) {
	for _, capacity := range capacities {
		c := FixedCase{Capacity: capacity, Seed: 1}
		m := open(t, c)
		const batch = 10_000
		rng := rand.New(rand.NewPCG(1, 2))
		keys := wide.uniqueKeys(capacity+batch, rng)
		_, err := m.Put(ctx(), keys[:capacity], keys[:capacity])
		must(t, err)
		absent := keys[capacity:]
		look := quickest(3, 0, func() {
			n, err := m.Contains(ctx(), absent, nil)
			WantCount(t, "Contains of absent keys", n, 0, err)
		})
		for round := 0; err == nil && round < 20; round++ {
			extra := wide.uniqueKeys(capacity, rng)
			_, err = m.Put(ctx(), extra, extra)
		}
		if !errors.Is(err, weft.ErrFull) {
			t.Fatal(err)
		}
		limit := time.Duration(times * float64(look))
		refuse := quickest(50, limit, func() { _, _ = m.Put(ctx(), absent, absent) })
		t.Logf("%v: %v a lookup, %v a key that is refused", c, look/batch, refuse/batch)
		if refuse > limit {
			t.Errorf("%v: to refuse a key takes %v, and to look one up %v", c, refuse/batch, look/batch)
		}
		must(t, m.Close())
	}
}

// quickest runs f repeatedly and returns the shortest time. It runs f at most as often as tries
// says, and stops after a run that takes at most limit. On a busy machine many runs are slow, and
// one fast run proves that f can be fast.
func quickest(tries int, limit time.Duration, f func()) time.Duration {
	best := time.Duration(math.MaxInt64)
	for range tries {
		began := time.Now()
		f()
		if best = min(best, time.Since(began)); best <= limit {
			break
		}
	}
	return best
}

// FixedMeetsDeadline requires a batch to end soon after its deadline, in a full map and in a map
// that it fills. The map must then be consistent. It tests the default and the given load.
func FixedMeetsDeadline(t *testing.T, open FixedMaker, capacity int, load float64) {
	const wait, margin, tries = 50 * time.Millisecond, 100 * time.Millisecond, 10
	for _, load := range []float64{0, load} {
		c := FixedCase{Capacity: capacity, MaxLoad: load, Seed: 1}
		m := open(t, c)
		rng := rand.New(rand.NewPCG(3, 4))
		for _, desc := range []string{"filling it", "for a full map"} {
			longest := time.Duration(0)
			for try := range tries {
				keys := wide.uniqueKeys(max(capacity, 1<<20), rng)
				deadline, cancel := context.WithTimeout(ctx(), wait)
				began := time.Now()
				_, err := m.Put(deadline, keys, keys)
				longest = time.Since(began) - wait
				cancel()
				var partial *weft.PartialError
				// On a fast machine the batch may end before the deadline.
				if err != nil && (!errors.As(err, &partial) || partial.Done < len(keys) && !errors.Is(err, context.DeadlineExceeded)) {
					t.Fatalf("%v: %s: %v", c, desc, err)
				}
				if t.Logf("%v: %s: try %d ends %v after its deadline, Len is %d", c, desc, try, longest, m.Len()); longest <= margin {
					break
				}
			}
			if longest > margin {
				t.Errorf("%v: %s goes on for %v when its deadline has passed", c, desc, longest)
			}
			must(t, m.Check(ctx()))
			if desc == "filling it" {
				extra := wide.uniqueKeys(capacity, rng)
				_, _ = m.Put(ctx(), extra, extra)
			}
		}
		must(t, m.Close())
	}
}
