package group

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft/column"
)

// Cores with a full part combine rows of existing groups and distribute other rows, in any mixture.
// Rows of all groups keep their order.
func TestFullParts(t *testing.T) {
	aggs := []Aggregate{{Func: Rows}, {Sum, 0}, {First, 0}, {Last, 0}, {First, 1}, {Max, 2}}
	for name, key := range map[string]func(rng *rand.Rand, i int) int64{
		"some often": func(rng *rand.Rand, i int) int64 {
			if rng.IntN(8) > 0 {
				return rng.Int64N(50)
			}
			return rng.Int64N(20_000)
		},
		"one often":       func(rng *rand.Rand, i int) int64 { return int64(i%2) * rng.Int64N(30_000) },
		"often, then not": func(rng *rand.Rand, i int) int64 { return rng.Int64N(100) + int64(i/40_000*i) },
		"not, then often": func(rng *rand.Rand, i int) int64 { return rng.Int64N(100) + int64((i/40_000^1)&1*i) },
		"all different":   func(rng *rand.Rand, i int) int64 { return int64(i) },
	} {
		for _, cores := range []int{1, 2, 5} {
			t.Run(fmt.Sprintf("%s, %d cores", name, cores), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(uint64(cores), 3))
				x := &trial{rng: rng, values: []column.Type{column.Int32, column.Int8, column.Bytes}, aggs: aggs}
				g, m := create(t, open(t, cores), aggs, nil), &model{}
				for _, n := range []int{80_000, 30_000} {
					keys := make([]int64, n)
					for i := range keys {
						keys[i] = key(rng, i)
					}
					_, values := x.batch(n)
					k := []column.Column{column.Of(keys)}
					if g.packed != nil {
						g.packed.maxLocalGroups = 300
					} else {
						must(t, g.bindTypes(typesOf(k), typesOf(values), false))
						g.packed.maxLocalGroups = 300
					}
					must(t, g.Add(t.Context(), k, values))
					m.add(k, values, n)
					r, err := g.Result(t.Context())
					must(t, err)
					if d := differ(linesOf(r), m.lines(aggs, x.values, false, false)); d != "" {
						t.Fatal(d)
					}
				}
			})
		}
	}
}

// No code matches rec 0, which holds no record.
func TestFindCodes(t *testing.T) {
	l, err := newLayout([]Aggregate{{Func: Rows}}, []column.Type{column.Int64}, nil, false)
	must(t, err)
	p, k := newPart(l, nil, 0), new(block)
	if n := p.find(k, []uint64{1 << 63, 0, 1 << 63, 1}, nil, 0, 10); n != 4 || p.n != 3 || p.rows(0) != 2 {
		t.Fatalf("%d rows have %d groups, and the first one has %d", n, p.n, p.rows(0))
	}
}

// The first rows of a batch determine the capacity of parts for the groups of all its rows.
func TestRoom(t *testing.T) {
	g := create(t, open(t, 2), nil, nil)
	keys := make([]int64, 300_000)
	for i := range keys {
		keys[i] = int64(i) * 7919
	}
	must(t, g.Add(t.Context(), []column.Column{column.Of(keys)}, nil))
	if room := g.packed.capacity; room < len(keys) || room > len(keys)/4*5 {
		t.Errorf("%d groups are in parts with room for %d", g.Len(), room)
	}
}
