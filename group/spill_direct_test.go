package group

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/spill"
)

// If nearly all rows differ, they go to the file as they are. Rows of frequent groups do not. First
// and last values are right if both kinds alternate, with null keys and without.
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
			if g.spilled.directLeft > 0 {
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

// A table with maxParts parts is only replaced by a larger one if it is full. It then has the same
// groups, nulls and sums beyond 64 bits.
func TestMoreRoom(t *testing.T) {
	dev := open(t, 2)
	x := &trial{keys: []column.Type{column.Int64}, values: []column.Type{column.Int64},
		nulls: []bool{false}, groups: 4 * maxSinglePart, rng: rand.New(rand.NewPCG(5, 7)),
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
		must(t, g.addBuffered(t.Context()))
		g.packed.repartition(dev, len(g.packed.parts), 2*g.packed.groups())
	}
	r, err := g.Result(t.Context())
	must(t, err)
	if d := differ(linesOf(r), m.lines(x.aggs, x.values, true, false)); d != "" {
		t.Fatal(d)
	}
	g.packed.repartition(dev, maxParts, g.packed.groups())
	part := g.packed.parts[0]
	g.packed.splitParts(dev, 3*partGroups*maxParts)
	if g.packed.parts[0] != part {
		t.Error("a table of all parts was cut without need")
	}
}

// A failed read leaves no rows for the next read, and without a file all calls fail.
func TestMemoryReadFails(t *testing.T) {
	dev := open(t, 2)
	keys := make([]int64, 100_000)
	for i := range keys {
		keys[i] = int64(i) * 7919
	}
	all := []column.Column{column.Of(keys)}
	failed := 0
	for at := range int64(12) {
		g := tight(t, dev, &trial{aggs: []Aggregate{{Func: Rows}}}, 300_000)
		var disk *spill.Faulty
		g.spilled.wrapDisk = func(d spill.Disk) spill.Disk {
			disk = &spill.Faulty{Disk: d, Fault: spill.ReadError, At: at}
			return disk
		}
		must(t, g.Add(t.Context(), all, nil))
		if _, err := g.Result(t.Context()); err != nil {
			failed++
		}
		r, err := g.Result(t.Context())
		must(t, err)
		if r.Len() != len(keys) {
			t.Fatalf("read %d failed, and then there are %d groups, want %d", at, r.Len(), len(keys))
		}
		must(t, g.Close())
	}
	if failed == 0 {
		t.Error("no read failed")
	}

	g := tight(t, dev, &trial{aggs: []Aggregate{{Func: Rows}}}, 300_000)
	defer g.Close()
	g.opts.TempDir = "/nowhere/at/all"
	for range 2 {
		if err := g.Add(t.Context(), all, nil); err == nil {
			t.Error("a file in no directory was no error")
		}
	}
}

// Columns that no aggregate reads take no space in the file. Rows with null keys that are skipped
// do not count as groups.
func TestMemoryUnusedColumns(t *testing.T) {
	dev := open(t, 2)
	keys, valid := make([]int64, 100_000), make([]bool, 100_000)
	for i := range keys {
		keys[i], valid[i] = int64(i)*7919, i < 60_000
	}
	k := []column.Column{column.Of(keys).WithValid(column.OfBools(valid))}
	spilled := map[int]int64{}
	for _, n := range []int{1, 300} {
		var values []column.Column
		for range n {
			values = append(values, column.Of(keys))
		}
		x := &trial{aggs: []Aggregate{{Func: Sum}}, opts: Options{SkipNulls: true}}
		g := tight(t, dev, x, 300_000)
		must(t, g.Add(t.Context(), k, values))
		r, err := g.Result(t.Context())
		must(t, err)
		if r.Len() != 60_000 || g.Len() > 60_000 {
			t.Errorf("%d groups, and a Len of %d, want 60000", r.Len(), g.Len())
		}
		spilled[n] = g.Spilled()
		must(t, g.Close())
	}
	if spilled[300] > 2*spilled[1] {
		t.Errorf("%d bytes in the file with columns that are not read, %d without", spilled[300],
			spilled[1])
	}
}
