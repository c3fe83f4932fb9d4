package group

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft/column"
)

// Rows that nearly all differ go to the file as they are, rows of frequent groups do not. First and
// last values are right if both kinds follow each other, and rows with null keys are present or
// left out.
func TestMemoryDirect(t *testing.T) {
	dev := open(t, 2)
	for _, skip := range []bool{false, true} {
		x := &trial{keys: []column.Type{column.Int64},
			values: []column.Type{column.Int64, column.Bytes, column.Bytes},
			aggs:   []Aggregate{{Func: Rows}, {Sum, 0}, {First, 0}, {Last, 0}, {Count, 1}}}
		x.opts = Options{Sorted: true, SkipNulls: skip}
		g, m, rng := tight(t, dev, x, 300_000), &model{skip: skip}, rand.New(rand.NewPCG(3, 4))
		direct, combined := 0, 0
		for batch := range 120 {
			const n = 1000
			groups := int64(1 << 40)
			if batch/30%2 == 1 {
				groups = 50
			}
			keys, values, valid := make([]int64, n), make([]int64, n), make([]bool, n)
			for i := range keys {
				keys[i], values[i], valid[i] = rng.Int64N(groups), rng.Int64N(1<<40), rng.IntN(50) > 0
				if groups > 50 && i%2 == 0 {
					keys[i] = int64(batch*n + i) // in each of two batches
				}
			}
			k := []column.Column{column.Of(keys).WithValid(column.OfBools(valid))}
			texts := someNulls(rng, column.OfStrings(slices.Repeat([]string{"long text"}, n)))
			v := []column.Column{column.Of(values), texts, texts}
			must(t, g.Add(t.Context(), k, v))
			m.add(k, v, n)
			if g.spilled.direct > 0 {
				direct++
			} else if g.spilled.parts != nil {
				combined++
			}
		}
		if direct < 20 || combined < 10 {
			t.Fatalf("%d batches went to the file as they were, %d to a table", direct, combined)
		}
		r, err := g.Result(t.Context())
		must(t, err)
		if d := differ(linesOf(r), m.lines(x.aggs, x.values, false, true)); d != "" {
			t.Fatalf("SkipNulls %v: %s", skip, d)
		}
		must(t, g.Close())
	}
}

// A table with the maximum number of parts gets more room only if it is full. Cut again, it has the
// same groups, nulls and sums beyond 64 bits.
func TestMoreRoom(t *testing.T) {
	dev := open(t, 2)
	x := &trial{keys: []column.Type{column.Int64}, values: []column.Type{column.Int64},
		nulls: []bool{false}, groups: 4 * fewGroups, rng: rand.New(rand.NewPCG(5, 7)),
		aggs: []Aggregate{{Func: Rows}, {Sum, 0}, {Mean, 0}, {Max, 0}, {First, 0}}}
	x.opts.WrapSums = true
	g, m := create(t, dev, x.aggs, &x.opts), &model{}
	for range 3 {
		k, _ := x.batch(20_000)
		values := make([]int64, 20_000)
		for i := range values {
			values[i] = (x.rng.Int64() - 1<<61) &^ 0xfff // sums exceed 64 bits
		}
		v := []column.Column{someNulls(x.rng, column.Of(values))}
		must(t, g.Add(t.Context(), k, v))
		m.add(k, v, 20_000)
		must(t, g.addWaiting(t.Context()))
		g.packed.cut(dev, len(g.packed.parts), 2*g.packed.groups())
	}
	r, err := g.Result(t.Context())
	must(t, err)
	if d := differ(linesOf(r), m.lines(x.aggs, x.values, true, false)); d != "" {
		t.Fatal(d)
	}
	g.packed.cut(dev, mostParts, g.packed.groups())
	part := g.packed.parts[0]
	g.packed.divide(dev, 3*partGroups*mostParts)
	if g.packed.parts[0] != part {
		t.Error("a table of all parts was cut without need")
	}
}
