package group

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/op"
)

// A call whose context has ended adds nothing. If the context ends later, the first rows are added.
func TestCancelled(t *testing.T) {
	dev := open(t, 2)
	g := create(t, dev, []Aggregate{{Func: Rows}}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var partial *op.PartialError
	err := g.Add(ctx, []column.Column{column.Of([]int{1})}, nil)
	if !errors.Is(err, context.Canceled) || !errors.As(err, &partial) || partial.Done != 0 || g.Len() != 0 {
		t.Errorf("Add with a context that has ended: %v", err)
	}
	if err := g.Add(t.Context(), []column.Column{column.Of([]int{1})}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Result(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Result with a context that has ended: %v", err)
	}
}

// cancelAfter is a context that ends after a number of checks.
type cancelAfter struct {
	context.Context
	looks int
}

func (c *cancelAfter) Err() error {
	if c.looks--; c.looks < 0 {
		return context.Canceled
	}
	return nil
}

// Batches are added in pieces. If a context ends between two pieces, the first ones are added.
func TestPieces(t *testing.T) {
	dev := open(t, 2)
	for _, keys := range [][]column.Type{{column.Int32}, {column.Bytes}, {column.Uint64, column.Int8}} {
		x := &trial{rng: rand.New(rand.NewPCG(4, 4)), keys: keys, nulls: make([]bool, 2), groups: 3 * maxSinglePart,
			values: []column.Type{column.Int32, column.Bytes}, aggs: []Aggregate{{Func: Rows}, {First, 0}, {Last, 0}, {Sum, 0}, {Last, 1}}}
		x.nulls[0] = true
		g, m := create(t, dev, x.aggs, nil), &model{}
		g.maxPiece = 7000
		k, v := x.batch(40_000)
		done := 0
		for _, looks := range []int{3, 2, 1000} {
			rest := func(cs []column.Column, hi int) (some []column.Column) {
				for _, c := range cs {
					some = append(some, c.Slice(done, hi))
				}
				return some
			}
			err := g.Add(&cancelAfter{t.Context(), looks}, rest(k, 40_000), rest(v, 40_000))
			n := 40_000 - done
			var partial *op.PartialError
			if errors.As(err, &partial) && errors.Is(err, context.Canceled) {
				n = partial.Done
			} else if err != nil || looks < 1000 {
				t.Fatalf("a context that ends: %v", err)
			}
			m.add(rest(k, done+n), rest(v, done+n), n)
			done += n
			r, err := g.Result(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if d := differ(linesOf(r), m.lines(x.aggs, x.values, false, false)); d != "" {
				t.Fatalf("keys %v, after %d rows: %s", keys, done, d)
			}
		}
	}
}

// Memory grows with groups, not with rows: batches of existing groups retain no memory.
func TestMemoryIsFlat(t *testing.T) {
	dev := open(t, 2)
	for _, keys := range [][]column.Type{{column.Int32}, {column.Bytes}} {
		x := &trial{rng: rand.New(rand.NewPCG(3, 3)), keys: keys, nulls: []bool{true}, groups: 3 * maxSinglePart,
			values: []column.Type{column.Int64, column.Bytes}, aggs: []Aggregate{{Func: Rows}, {Sum, 0}, {Last, 1}, {Max, 1}}}
		g, err := New(dev, x.aggs, nil)
		if err != nil {
			t.Fatal(err)
		}
		k, v := x.batch(100_000)
		var after int64
		for i := range 12 {
			if err := g.Add(t.Context(), k, v); err != nil {
				t.Fatal(err)
			}
			bytes := g.packed.bytes() + g.numbered.bytes() + g.interner.bytes() + 8*int64(len(g.scratch.mem))
			if i < 3 {
				after = max(after, bytes)
			} else if bytes > after+after/16 { // byte strings of local parts are in other segments
				t.Fatalf("%v: %d bytes after batch %d, %d after three", keys, bytes, i, after)
			}
		}
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
		if g.scratch != nil {
			t.Error("scratch outlives Close")
		}
	}
}
