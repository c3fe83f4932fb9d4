package group

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/op"
)

// A call whose context has ended adds nothing; one whose context ends later has added the first rows.
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

// At its limit a batch stops behind some row, with memory within the limit, and what has been added is those rows.
func TestMaxBytes(t *testing.T) {
	dev := open(t, 2)
	for _, keys := range [][]column.Type{{column.Int64}, {column.Bytes}, {column.Int64, column.Float64}} {
		for _, limit := range []int64{50_000, 400_000, 6_000_000} {
			t.Run(fmt.Sprint(keys, limit), func(t *testing.T) {
				x := &trial{rng: rand.New(rand.NewPCG(1, uint64(limit))), keys: keys, nulls: make([]bool, 2), groups: 100_000,
					values: []column.Type{column.Int32, column.Bytes}, aggs: []Aggregate{{Sum, 0}, {Last, 1}, {First, 0}}, opts: Options{MaxBytes: limit}}
				x.nulls[0] = true
				reach(t, dev, x)
			})
		}
	}
}

func reach(t *testing.T, dev device.Device, x *trial) {
	g, err := New(dev, x.aggs, &x.opts)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	m := &model{}
	for range 20 {
		keys, values := x.batch(10_000)
		err := g.Add(t.Context(), keys, values)
		done := 10_000
		if err != nil {
			var partial *op.PartialError
			if !errors.As(err, &partial) || !errors.Is(err, op.ErrFull) {
				t.Fatal(err)
			}
			done = partial.Done
		}
		m.add(keys, values, done)
		if b := g.recordBytes() + g.rest.bytes(); b > x.opts.MaxBytes {
			t.Fatalf("%d bytes, more than %d", b, x.opts.MaxBytes)
		}
		if err != nil {
			r, err := g.Result(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if d := differ(linesOf(r), m.lines(x.aggs, x.values, false, false)); d != "" {
				t.Fatal(d)
			}
			return
		}
	}
	t.Fatalf("%d groups, and no end", g.Len())
}

// Memory follows groups, not rows: batches of groups that are there take none that stays.
func TestMemoryIsFlat(t *testing.T) {
	dev := open(t, 2)
	for _, keys := range [][]column.Type{{column.Int32}, {column.Bytes}} {
		x := &trial{rng: rand.New(rand.NewPCG(3, 3)), keys: keys, nulls: []bool{true}, groups: 3 * fewGroups,
			values: []column.Type{column.Int64, column.Bytes}, aggs: []Aggregate{{Func: Rows}, {Sum, 0}, {Last, 1}, {Max, 1}}}
		g, err := New(dev, x.aggs, nil)
		if err != nil {
			t.Fatal(err)
		}
		k, v := x.batch(200_000)
		var after int64
		for i := range 30 {
			if err := g.Add(t.Context(), k, v); err != nil {
				t.Fatal(err)
			}
			bytes := g.recordBytes() + g.rest.bytes() + int64(g.scratch.mem.Size)
			if i == 2 {
				after = bytes
			} else if i > 2 && bytes != after {
				t.Fatalf("%v: %d bytes after batch %d, %d after the third", keys, bytes, i, after)
			}
		}
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
		if g.scratch.mem.Size != 0 {
			t.Error("scratch outlives Close")
		}
	}
}
