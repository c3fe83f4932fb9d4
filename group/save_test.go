package group

import (
	"bytes"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/op"
)

// claiming returns saved groups of n keys. Each group claims a number of rows, and a carry.
func claiming(t *testing.T, n int, rows uint64, carry int64) io.Reader {
	t.Helper()
	g := create(t, open(t, 1), []Aggregate{{Func: Rows}, {Sum, 0}}, nil)
	keys := make([]int64, n)
	for i := range keys {
		keys[i] = int64(i)
	}
	columns := []column.Column{column.Of(keys)}
	must(t, g.Add(t.Context(), columns, columns))
	p := g.packed.parts[0]
	for i := range n {
		p.recs[p.rec(i)+wordRows] = rows
		if carry != 0 {
			p.recordOverflow(p.rec(i)+wordSlots, carry)
		}
	}
	var b bytes.Buffer
	must(t, g.Save(t.Context(), &b))
	return &b
}

// Row counts of forged streams do not wrap, in one stream or in several.
func TestLoadManyRows(t *testing.T) {
	dev := open(t, 1)
	for _, tt := range []struct {
		groups int
		rows   uint64
		carry  int64
		ok     bool
	}{
		{2, maxRows / 2, 0, true}, {3, maxRows / 2, 0, false}, {2, maxRows, 0, false},
		{4, maxRows, 0, false}, {1, math.MaxUint64, 0, false}, {1, maxRows + 1, 0, false},
		{1, 7, 7, true}, {1, 7, -7, true}, {1, 7, 8, false}, {1, 7, math.MinInt64, false},
	} {
		g, err := Load(t.Context(), dev, claiming(t, tt.groups, tt.rows, tt.carry), nil)
		if tt.ok != (err == nil) || err != nil && !errors.Is(err, op.ErrFormat) {
			t.Errorf("%+v: %v", tt, err)
		}
		if err == nil {
			must(t, g.Close())
		}
	}
	var halves [3]*Groups
	for i := range halves {
		var err error
		halves[i], err = Load(t.Context(), dev, claiming(t, 1, maxRows/2, 0), nil)
		must(t, err)
		defer halves[i].Close()
	}
	must(t, halves[0].Merge(t.Context(), halves[1]))
	if err := halves[0].Merge(t.Context(), halves[2]); !errors.Is(err, op.ErrFull) {
		t.Errorf("3 times 2^61 rows: %v", err)
	}
	if r, err := halves[0].Result(t.Context()); err != nil || r.Values[0].Any(0) != int64(maxRows) {
		t.Errorf("groups that could not be merged are no longer what they were: %v", err)
	}
}

// Shares of the largest limits are positive, and do not exceed the limits.
func TestMemoryOfAnySize(t *testing.T) {
	dev := open(t, 1)
	for _, memory := range []int64{MinMemory, 1 << 40, 3 << 61, math.MaxInt64} {
		for _, key := range []column.Column{column.OfStrings([]string{"a"}),
			column.Of([]int32{1})} {
			g := create(t, dev, []Aggregate{{Func: First}}, &Options{Memory: memory})
			must(t, g.Add(t.Context(), []column.Column{key, key}, []column.Column{key}))
			s := &g.spilled
			for _, share := range []int64{s.growingBytes, s.fixedBytes, s.bufferBytes, g.memoryShare(g.packed),
				g.memoryShare(g.numbered)} {
				if share <= 0 || share > memory {
					t.Errorf("Memory %d: a share of %d", memory, share)
				}
			}
			if s.textBytes < 0 || s.textBytes > memory-s.fixedBytes || s.maxRows < 1 {
				t.Errorf("Memory %d: %d for keys, pieces of %d rows", memory, s.textBytes, s.maxRows)
			}
		}
	}
}

// Groups with equal first ordinals are in the order of their keys, wherever the groups were.
func TestOrdinalTies(t *testing.T) {
	const n = 60_000
	dev := open(t, 2)
	for _, memory := range []int64{0, 500_000} {
		x := &trial{aggs: []Aggregate{{Func: Rows}}}
		g := create(t, dev, x.aggs, nil)
		if memory > 0 {
			g = tight(t, dev, x, memory)
			defer g.Close()
		}
		keys, ordinals := rand.New(rand.NewPCG(1, 9)).Perm(n), make([]uint64, n)
		for i, k := range keys {
			ordinals[i] = uint64(k) / 3 * 5
		}
		must(t, g.AddAt(t.Context(), ordinals, []column.Column{column.Of(keys)}, nil))
		if spilled := g.spilled.nStates > 0; spilled != (memory > 0) {
			t.Fatalf("memory %d: in the file is %v", memory, spilled)
		}
		r, err := g.Result(t.Context())
		must(t, err)
		var paged []int64
		for p, err := range g.Pages(t.Context()) {
			must(t, err)
			paged = append(paged, column.Values[int64](p.Keys[0])...)
		}
		for _, got := range [][]int64{column.Values[int64](r.Keys[0]), paged} {
			if !slices.IsSorted(got) || len(got) != n {
				t.Errorf("memory %d: %d keys, or not in order", memory, len(got))
			}
		}
	}
}
