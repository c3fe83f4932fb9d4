package beam

import (
	"iter"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft/column"
	_ "github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/join"
)

// joinCase has two sides and the rows that join.Join returns for them.
type joinCase struct {
	plan        joinPlan
	left, right [][]byte
	broadcast   bool
	want        []string
}

func randomJoin(t testing.TB, rng *rand.Rand) *joinCase {
	t.Helper()
	n, m, keys := rng.IntN(60), rng.IntN(30), 1+rng.IntN(2)
	var c joinCase
	var leftColumns, rightColumns []column.Column
	for range keys {
		typ := randomTypes[rng.IntN(len(randomTypes))]
		leftColumns = append(leftColumns, randomColumn(rng, n, typ))
		rightColumns = append(rightColumns, randomColumn(rng, m, typ))
	}
	leftNames, rightNames := []string{"k", "a"}[:keys], []string{"k", "b"}[:keys]
	names, columns := randomSide(rng, n, rng.IntN(3), "v")
	leftNames, leftColumns = append(leftNames, names...), append(leftColumns, columns...)
	names, columns = randomSide(rng, m, rng.IntN(3), "v") // the same names as on the left side
	rightNames, rightColumns = append(rightNames, names...), append(rightColumns, columns...)
	c.plan = joinPlan{Left: leftNames[:keys], Right: rightNames[:keys],
		Kind:       join.Kind(rng.IntN(4)),
		NullsMatch: rng.IntN(2) == 0, Parts: 1 + rng.IntN(5), Memory: DefaultMemory}
	if c.broadcast = rng.IntN(2) == 0; c.broadcast && rng.IntN(100) == 0 {
		c.plan.Device = "sim" // a simulated GPU
	}
	c.left, c.right = randomBlocks(t, rng, leftNames, leftColumns), randomBlocks(t, rng, rightNames,
		rightColumns)
	c.want = joinedRows(t, &c.plan, leftColumns[:keys], leftColumns, rightColumns[:keys],
		rightColumns[keys:])
	return &c
}

// joinedRows returns the rows of join.Join.
func joinedRows(
	t testing.TB, p *joinPlan, leftKeys, left, rightKeys, right []column.Column,
) (rows []string) {
	t.Helper()
	j := must(join.NewJoin(must(openHost())(t), p.Kind, &join.Options{NullsMatch: p.NullsMatch}))(t)
	defer j.Close()
	if err := j.Build(t.Context(), rightKeys, right); err != nil {
		t.Fatal(err)
	}
	for _, batches := range []iter.Seq2[[]column.Column, error]{
		j.Probe(t.Context(), leftKeys, left), j.Finish(t.Context()),
	} {
		for columns, err := range batches {
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, rowsOf(columns)...)
		}
	}
	return rows
}

// drive runs the DoFns of the join without a runner.
func (c *joinCase) drive(t testing.TB, rng *rand.Rand) (out [][]byte) {
	t.Helper()
	plan := carried(t, c.plan)
	emit := func(b []byte) { out = append(out, b) }
	if c.broadcast {
		f := &broadcastJoin{Plan: plan}
		for _, b := range c.left {
			if err := f.ProcessElement(t.Context(), b, iterate(c.right), emit); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Teardown(); err != nil {
			t.Fatal(err)
		}
		return out
	}
	leftNulls, rightNulls := plan.nulls()
	left := bundles(t, rng, c.left, func() bundleFn {
		return carried(t, &dealtRows{Side: "left", Keys: plan.Left, Parts: plan.Parts,
			Nulls: leftNulls})
	})
	right := bundles(t, rng, c.right, func() bundleFn {
		return carried(t, &dealtRows{Side: "right", Keys: plan.Right, Parts: plan.Parts,
			Nulls: rightNulls})
	})
	rec := must(Decode(c.right[0]))(t)
	schema := [][]byte{must(encodeSchema(rec.Schema()))(t)}
	f := &joinedParts{Plan: plan}
	for part := range plan.Parts {
		err := f.ProcessElement(t.Context(), part, iterate(left[part]), iterate(right[part]),
			iterate(schema), emit)
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// However bundles are split, ordered and repeated, the result has the rows of join.Join.
func TestJoinBundles(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	n := 5000
	if testing.Short() {
		n = 500
	}
	for i := range n {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		c := randomJoin(t, rng)
		_, got, _ := table(t, c.drive(t, rng))
		if !sameRows(t, rowsOf(got), slices.Clone(c.want)) {
			t.Fatalf("seed %d, run %d: %+v, broadcast %v", seed, i, c.plan, c.broadcast)
		}
	}
}
