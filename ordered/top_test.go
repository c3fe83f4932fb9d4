package ordered_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/mutate"
	"github.com/weftgo/weft/ordered"
)

// TestSearchesBelowTop searches maps of several sizes, so that blocks hold the level of leaves or a
// higher level in shared memory. All kinds of lookups must find their pairs.
func TestSearchesBelowTop(t *testing.T) {
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, n := range []int{0, 1, 300, 30_000} { // with 64 bits, the leaves of 26,000 pairs fit
		if err := lookupNeighbors(t, n, nil); err != nil {
			t.Errorf("%d pairs: %v", n, err)
		}
	}
	err := lookupNeighbors(t, 300, mutate.Replace(t, "get_64_64", `bar\.sync 0;`, ""))
	if err == nil {
		t.Error("it is not noticed that blocks search what they have not read yet")
	}
	t.Log(err)
}

// lookupNeighbors looks up keys and their neighbors in a map with every third number below 3n.
func lookupNeighbors(t *testing.T, n int, rewrite func(file, ptx string) string) (err error) {
	dev, err := sim.Open(&sim.Options{Scheduler: sim.Random, Rewrite: rewrite, Races: true})
	must(t, err)
	defer dev.Close()
	m, err := ordered.New[uint64, uint64](dev, nil)
	must(t, err)
	defer func() { err = errors.Join(err, m.Close()) }()
	keys, vals := make([]uint64, n), conformance.Sequence[uint64](7, n)
	for i := range keys {
		keys[i] = uint64(3 * i)
	}
	if _, err := m.Build(ctx(), keys, vals); err != nil {
		return err
	}
	const asked = 70 // two warps and some lanes
	var at [asked]int
	var ask, absent, got, next [asked]uint64
	var ranks [asked]uint64
	var found [asked]bool
	for i := range ask {
		at[i] = i * max(n-1, 0) / (asked - 1)
		ask[i] = uint64(3 * at[i])
		absent[i] = ask[i] + 1
	}
	hits, err := m.Get(ctx(), ask[:], got[:], found[:])
	if err == nil {
		_, err = m.Successor(ctx(), absent[:], next[:], nil, nil)
	}
	if err == nil {
		err = m.Rank(ctx(), absent[:], ranks[:])
	}
	misses, err2 := m.Contains(ctx(), absent[:], nil)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	if want := asked * min(n, 1); hits != want || misses != 0 {
		return fmt.Errorf("finds %d keys, and %d that are not there, want %d and 0", hits, misses, want)
	}
	for i := range got {
		if n > 0 && (got[i] != vals[at[i]] || ranks[i] != uint64(at[i]+1) || at[i] < n-1 && next[i] != ask[i]+3) {
			return fmt.Errorf("key %d: finds %d, %d pairs before the one behind it, and %d as that; want %d, %d and %d", ask[i], got[i], ranks[i], next[i], vals[at[i]], at[i]+1, ask[i]+3)
		}
	}
	return nil
}
