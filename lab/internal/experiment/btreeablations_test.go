package experiment

import (
	"testing"

	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
)

// Wherever the device fails, the error is returned and nothing leaks.
func TestTreeWaysFailures(t *testing.T) {
	conformance.SkipRaced(t, ownTests)
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	t.Run("ablations", func(t *testing.T) { failEverywhere(t, btreeAblationsExperiment, devicetest.OpenSim(t, nil), 211) })
	t.Run("cache", func(t *testing.T) { failEverywhere(t, btreeCacheExperiment, devicetest.OpenSim(t, nil), 31) })
}

// Each variant has a rate relative to its base, and the base has none.
func TestTreeWays(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	conformance.SkipRaced(t, ownTests)
	cfg := tiny(devicetest.OpenSim(t, nil))
	cfg.N, cfg.Scale = 256, Quick
	res, err := btreeAblationsExperiment.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	checkResult(t, res)
	seen := map[string]int{}
	for _, row := range res.Rows {
		seen[row.Structure]++
		if base := row.Structure == "alone" || row.Structure == "erase" || row.Structure == "find"; base != (row.Speedup == nil) {
			t.Errorf("%s, %s: speedup %v", row.Structure, row.Op, row.Speedup)
		}
	}
	for structure, n := range map[string]int{"alone": 2, "restart": 2, "spin": 2, "backoff": 2, "fences": 2, "coupled": 1, "btree": 1, "erase": 1, "erase_l1": 1, "find": 1, "find_l1": 1} {
		if seen[structure] != n {
			t.Errorf("%s has %d rows, want %d", structure, seen[structure], n)
		}
	}
}

// A tree with eleven slots per node has one level for each factor of eleven.
func TestLevels(t *testing.T) {
	for _, c := range []struct{ pairs, nodes, want int }{{11, 2, 2}, {200_000, 20_003, 6}, {100_000_000, 10_000_000, 8}} {
		if got := levelsOf(c.pairs, c.nodes); got != c.want {
			t.Errorf("%d pairs in %d nodes: %d levels, want %d", c.pairs, c.nodes, got, c.want)
		}
	}
}
