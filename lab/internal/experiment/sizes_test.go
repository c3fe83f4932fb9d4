package experiment

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/lab/internal/roofline"
)

// On a GPU, every structure has all operations at every size, each with a limit of its table's
// region.
func TestSizesOnGPU(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	cfg := tiny(devicetest.OpenSim(t, nil))
	cfg.N, cfg.Scale = 1<<10, Quick
	res, err := sizesExperiment.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	checkResult(t, res)
	ops := []string{"insert", "get_hit", "get_miss", "delete", "insert_ordered", "put_registered", "get_registered"}
	for _, structure := range []string{"linear", "slab"} {
		var got []string
		for _, row := range res.Rows {
			if row.Structure != structure {
				continue
			}
			got = append(got, row.Op)
			limit, region := roofline.Split(row.Limit)
			if fromHost := strings.HasSuffix(row.Op, "_registered"); (region == 0) != fromHost || !fromHost && region != 16<<10 {
				t.Errorf("%s %s: limit %s in %d bytes", structure, row.Op, limit, region)
			}
			if row.N != 1<<10 || row.Load != map[string]float64{"linear": .5, "slab": .55}[structure] {
				t.Errorf("row %+v: size and load", row)
			}
		}
		if !slices.Equal(got, ops) {
			t.Errorf("%s: operations %v, want %v", structure, got, ops)
		}
	}
	if len(res.Plots) != 2 {
		t.Errorf("%d plots of two structures", len(res.Plots))
	}
}

func TestPowers(t *testing.T) {
	r := &runner{Config: Config{Scale: Quick}}
	step := map[Scale]int{Quick: 4}
	for n, want := range map[int][]int{1 << 20: {1 << 10, 1 << 14, 1 << 18}, 1<<14 - 1: {1 << 10}, 1 << 10: {1 << 10}, 7: {7}, 0: {1}} {
		if got := r.powers(10, n, step); !slices.Equal(got, want) {
			t.Errorf("up to %d: %v, want %v", n, got, want)
		}
	}
	for bytes, want := range map[int]int{1: 1 << 10, 1 << 10: 1 << 10, 1<<10 + 1: 1 << 11, 24 << 20: 32 << 20} {
		if got := regionOf(bytes); got != want {
			t.Errorf("%d bytes lie in a region of %d, want %d", bytes, got, want)
		}
	}
}

// From the crossover on, no batch is slower than the loop.
func TestCrossover(t *testing.T) {
	for _, c := range []struct {
		speedups []float64
		want     any
	}{
		{nil, "none"}, {[]float64{.1, .5}, "none"}, {[]float64{.5, 1, 2}, 2}, {[]float64{2, .5, 1.5, 3}, 4}, {[]float64{1, 1}, 1}, {[]float64{2, .9}, "none"},
	} {
		var rows []Row
		for i, s := range c.speedups {
			rows = append(rows, Row{Op: "get", N: 1 << i}, Row{Op: "get", N: 1 << i, Speedup: figure(s)}, Row{Op: "put", N: 1 << i, Speedup: figure(.1)})
		}
		if got := crossover(rows, "get"); got != c.want {
			t.Errorf("speedups %v: crossover at %v, want %v", c.speedups, got, c.want)
		}
	}
}

// If a loop or a call returns wrong results, the experiment fails.
func TestWrongLoopsAreErrors(t *testing.T) {
	l := newLoops(testRunner(t), 64)
	n := l.draw(16, 4)
	right := goLoop(map[uint64]uint64{})
	if err := fillPeers(l.Seed, 16, []loopPeer{right}); err != nil {
		t.Fatal(err)
	}
	if err := l.measure(t.Context(), right, "", 4, n, loopRegion); err != nil {
		t.Errorf("right answers: %v", err)
	}
	forgets, mixes := right, right
	forgets.get = func(keys, vals []uint64, found []bool) (int, error) { return len(keys) - 1, nil }
	mixes.get = func(keys, vals []uint64, found []bool) (int, error) { return len(keys), nil }
	for _, p := range []loopPeer{forgets, mixes} {
		if err := l.measure(t.Context(), p, "", 4, n, loopRegion); !errors.Is(err, errWrong) {
			t.Errorf("wrong answers: %v", err)
		}
	}
	if err := fillPeers(l.Seed, 16, []loopPeer{right}); !errors.Is(err, errWrong) {
		t.Errorf("keys that were there before: %v", err)
	}
}
