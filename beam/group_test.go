package beam

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/group"
)

// driveGroup runs the DoFns of a plan without a runner.
func driveGroup(t testing.TB, rng *rand.Rand, plan groupPlan, blocks [][]byte) (out [][]byte) {
	t.Helper()
	pieces := bundles(t, rng, blocks, func() bundleFn { return &partialGroups{Plan: carried(t, plan)} })
	merge := &mergedGroups{Plan: carried(t, plan)}
	for _, part := range sortedKeys(pieces) {
		for range 1 + rng.IntN(2) { // only the last run counts
			var got [][]byte
			err := merge.ProcessElement(t.Context(), part, iterate(pieces[part]),
				func(b []byte) { got = append(got, b) })
			if err != nil {
				t.Fatal(err)
			}
			pieces[part+1<<20] = got
		}
		out = append(out, pieces[part+1<<20]...)
	}
	return out
}

// However bundles are split, ordered and repeated, the result has the groups of group.By.
func TestGroupBundles(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	n := 10_000
	if testing.Short() {
		n = 500
	}
	for i := range n {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		if !testGroupBundles(t, rng) {
			t.Fatalf("seed %d, run %d", seed, i)
		}
	}
}

func testGroupBundles(t *testing.T, rng *rand.Rand) bool {
	rows := rng.IntN(80)
	keyNames, keys := randomSide(rng, rows, 1+rng.IntN(3), "k")
	valueNames, values := randomSide(rng, rows, rng.IntN(3), "v")
	aggs, ordered := randomAggregates(rng, values)
	order := make([]int64, rows) // ascending
	at := int64(rng.IntN(10)) - 1000
	for i := range order {
		at += 1 + int64(rng.IntN(100))
		order[i] = at
	}
	blocks := randomBlocks(t, rng, slices.Concat(keyNames, valueNames, []string{"at"}),
		slices.Concat(keys, values, []column.Column{column.Of(order)}))
	plan := groupPlan{Keys: keyNames, Values: valueNames, Aggs: aggs}
	opts := &Options{SkipNulls: rng.IntN(4) == 0, Parts: 1 + rng.IntN(5)}
	if ordered {
		opts.Order = "at"
	}
	if rng.IntN(200) == 0 {
		opts.Device = "sim" // a simulated GPU
	}
	if err := plan.set(opts); err != nil {
		t.Fatal(err)
	}
	_, got, _ := table(t, driveGroup(t, rng, plan, blocks))
	want, err := group.By(t.Context(), must(openHost())(t), keys, values, aggs,
		&group.Options{SkipNulls: opts.SkipNulls})
	if err != nil {
		t.Fatal(err)
	}
	return sameRows(t, rowsOf(got), rowsOf(slices.Concat(want.Keys, want.Values)))
}

// sameRows compares rows in any order.
func sameRows(t testing.TB, got, want []string) bool {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
		return false
	}
	return true
}
