package group

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/op"
)

// Small batches of many groups are buffered, and all methods that read groups include them. A batch
// that is not buffered comes after buffered ones.
func TestWait(t *testing.T) {
	dev := open(t, 2)
	aggs := []Aggregate{{Func: Rows}, {Sum, 0}, {First, 0}, {Last, 0}, {Min, 1}}
	for _, memory := range []int64{0, MinMemory} {
		t.Run(fmt.Sprint(memory), func(t *testing.T) {
			x := &trial{rng: rand.New(rand.NewPCG(5, 6)), keys: []column.Type{column.Int64}, nulls: []bool{true},
				groups: 4 * maxSinglePart, values: []column.Type{column.Int32, column.Float64}, aggs: aggs}
			g, m := create(t, dev, aggs, &Options{Memory: memory}), &model{}
			add := func(n int) {
				k, v := x.batch(n)
				must(t, g.Add(t.Context(), k, v))
				m.add(k, v, n)
			}
			check := func(r *Result, err error) {
				t.Helper()
				must(t, err)
				if d := differ(linesOf(r), m.lines(aggs, x.values, false, false)); d != "" {
					t.Fatal(d)
				}
			}
			add(50_000)
			for _, n := range []int{1000, 7, 1500} {
				add(n)
			}
			if g.buffered.Len() != 2507 {
				t.Fatalf("%d rows wait", g.buffered.Len())
			}
			if g.Len() != len(m.groups) || g.buffered.Len() != 0 {
				t.Fatalf("%d groups, want %d", g.Len(), len(m.groups))
			}
			add(500)
			add(300_000) // not buffered
			check(g.Result(t.Context()))
			add(600)
			var saved bytes.Buffer
			must(t, g.Save(t.Context(), &saved))
			again, err := Load(t.Context(), dev, &saved, nil)
			must(t, err)
			defer again.Close()
			check(again.Result(t.Context()))
			add(700)
			merged := create(t, dev, aggs, nil)
			must(t, merged.Merge(t.Context(), g))
			check(merged.Result(t.Context()))
		})
	}
}

// Buffered rows are not lost if a context ends before they are added.
func TestWaitCancelled(t *testing.T) {
	dev := open(t, 2)
	keys := make([]int64, 8*maxSinglePart)
	for i := range keys {
		keys[i] = int64(i) * 7919
	}
	all := []column.Column{column.Of(keys)}
	g := create(t, dev, []Aggregate{{Func: Rows}}, nil)
	must(t, g.Add(t.Context(), all, nil))
	must(t, g.Add(t.Context(), all, nil))
	if g.buffered.Len() != len(keys) {
		t.Fatalf("%d rows wait", g.buffered.Len())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.Result(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	var partial *op.PartialError
	long := []column.Column{column.Of(make([]int64, bufferedRows))} // makes buffered rows be added
	if err := g.Add(ctx, long, nil); !errors.As(err, &partial) || partial.Done != 0 {
		t.Fatal(err)
	}
	r, err := g.Result(t.Context())
	must(t, err)
	for i, n := range column.Values[int64](r.Values[0]) {
		if n != 2 {
			t.Fatalf("group %d has %d rows", i, n)
		}
	}
}

// Buffered rows take little more memory than their values, even in batches of one row. Batches
// without rows take none.
func TestWaitSmallBatches(t *testing.T) {
	g := create(t, open(t, 2), []Aggregate{{Func: Rows}, {Last, 0}}, nil)
	keys := make([]int64, 8*maxSinglePart)
	for i := range keys {
		keys[i] = int64(i) * 7919
	}
	all := column.Of(keys)
	must(t, g.Add(t.Context(), []column.Column{all}, []column.Column{all}))
	last := make([]int64, 12_000)
	for i := range last {
		last[i] = int64(i)
		k, v := all.Slice(i%100, i%100+1), column.Of(last).Slice(i, i+1)
		must(t, g.Add(t.Context(), []column.Column{k}, []column.Column{v}))
		must(t, g.Add(t.Context(), []column.Column{k.Slice(0, 0)}, []column.Column{v.Slice(0, 0)}))
	}
	if n := g.buffered.Len(); n != len(last) || g.buffered.Bytes() > int64(20*n) {
		t.Fatalf("%d rows wait in %d bytes", n, g.buffered.Bytes())
	}
	r, err := g.Result(t.Context())
	must(t, err)
	for i, v := range column.Values[int64](r.Values[1])[:100] {
		if want := last[(len(last)-1-i)/100*100+i]; v != want {
			t.Fatalf("the last value of group %d is %d, want %d", i, v, want)
		}
	}
}
