package graph

import (
	"bytes"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/devicetest"
)

// TestMultigraphKept checks that a multigraph keeps its parallel edges and their order when it is
// saved and loaded, or exported and inserted.
func TestMultigraphKept(t *testing.T) {
	dev, ctx := devicetest.Open(t), t.Context()
	for _, o := range []Options{{Multi: true}, {Multi: true, SelfLoops: true}, {Multi: true, Directed: true, SelfLoops: true}} {
		p := play[uint32](t, dev, o, 11, 12, 8, 60)
		var saved bytes.Buffer
		must(t, p.g.Save(ctx, &saved))
		c, err := p.g.CSR(ctx)
		must(t, err)
		s := devicetest.NewStream(t, dev)
		on, err := p.g.CSROn(ctx, s)
		must(t, err)
		if c.Simple() || on.Simple() {
			t.Errorf("rows of a multigraph are said to be simple")
		}
		must(t, on.Free())
		for _, fill := range []func(*WeightedGraph[uint32]) error{
			func(g *WeightedGraph[uint32]) error { return g.Load(ctx, &saved) },
			func(g *WeightedGraph[uint32]) error { _, err := g.InsertCSR(ctx, c); return err },
		} {
			g, err := NewWeightedGraph[uint32](dev, &o)
			must(t, err)
			must(t, fill(g))
			must(t, g.Check(ctx))
			got, err := g.CSR(ctx)
			must(t, err)
			if !slices.Equal(got.Targets(), c.Targets()) || !slices.Equal(got.AllWeights(), c.AllWeights()) || got.Loops() != c.Loops() {
				t.Errorf("directed=%v: %v with %v, want %v with %v", o.Directed, got.Targets(), got.AllWeights(), c.Targets(), c.AllWeights())
			}
			must(t, g.Close())
		}
		p.close()
	}
}

// TestParallelEdgesOfOneBatch inserts and deletes one edge many times in a batch. The operations
// must take effect in order.
func TestParallelEdgesOfOneBatch(t *testing.T) {
	dev, ctx := devicetest.Open(t), t.Context()
	g, err := NewWeightedGraph[uint32](dev, &Options{Multi: true})
	must(t, err)
	defer g.Close()
	const n = 3000
	ends, weights, kinds, done := make([]uint32, n), make([]uint32, n), make([]weft.OpKind, n), make([]bool, n)
	other := slices.Repeat([]uint32{1}, n)
	for i := range n {
		weights[i], kinds[i] = uint32(i), weft.OpPut
	}
	for _, deleted := range [][]int{{}, {0}, {0, 1, n - 1}, {n / 2}, {n / 3, n / 2, n/2 + 1}} {
		before := g.Edges()
		for i := range kinds {
			kinds[i] = weft.OpPut
		}
		want, left := n, before+n
		for _, i := range deleted {
			kinds[i] = weft.OpDelete
			if i > 0 && kinds[i-1] == weft.OpDelete || i == 0 && before == 0 {
				want--
			}
			left = n - 1 - i
		}
		got, err := g.Apply(ctx, kinds, ends, other, weights, done)
		must(t, err)
		must(t, g.Check(ctx))
		if got != want || g.Edges() != left {
			t.Errorf("deletions at %v behind %d edges: %d operations did something and %d edges are there, want %d and %d", deleted, before, got, g.Edges(), want, left)
		}
	}
	c, err := g.CSR(ctx)
	must(t, err)
	if first := c.Weights(0)[0]; first != n/2+2 || !slices.IsSorted(c.Weights(0)) {
		t.Errorf("parallel edges are %v, want those behind the last deletion, in order", c.Weights(0))
	}
	if nDeleted, err := g.DeleteVertices(ctx, []uint32{1}); err != nil || nDeleted != 1 || g.Edges() != 0 {
		t.Errorf("%d vertices went, %d edges are left: %v", nDeleted, g.Edges(), err)
	}
	must(t, g.Check(ctx))
}
