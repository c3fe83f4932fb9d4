package graph

import (
	"context"
	"reflect"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// TestManyVertices deletes many vertices from rows of all lengths.
func TestManyVertices(t *testing.T) {
	dev := devicetest.Open(t)
	for _, o := range allOptions {
		sweeps(t, dev, o, weightless)
		sweeps(t, dev, o, weighted[uint32])
		sweeps(t, dev, o, weighted[uint64])
	}
}

// testGraph is a graph with functions that insert edges and return the rows of the graph or a
// snapshot.
type testGraph struct {
	*Graph
	insert func(ctx context.Context, from, to []uint32) error
	rows   func(ctx context.Context) (c *CSR, weights any, err error)
	held   func(ctx context.Context) (close func() error, rows func(ctx context.Context) (*CSR, any, error), err error)
}

// weightless and weighted make a testGraph without edges.
func weightless(dev device.Device, o Options) (*testGraph, error) {
	g, err := New(dev, &o)
	return &testGraph{
		Graph:  g,
		insert: func(ctx context.Context, from, to []uint32) error { _, err := g.Insert(ctx, from, to, nil); return err },
		rows:   func(ctx context.Context) (*CSR, any, error) { c, err := g.CSR(ctx); return c, nil, err },
		held: func(ctx context.Context) (func() error, func(ctx context.Context) (*CSR, any, error), error) {
			s, err := g.Snapshot(ctx)
			return s.Close, func(ctx context.Context) (*CSR, any, error) { c, err := s.CSR(ctx); return c, nil, err }, err
		},
	}, err
}

func weighted[W uint32 | uint64](dev device.Device, o Options) (*testGraph, error) {
	g, err := NewWeightedGraph[W](dev, &o)
	return &testGraph{
		Graph: g.Graph,
		insert: func(ctx context.Context, from, to []uint32) error {
			weights := make([]W, len(from))
			for i := range weights {
				weights[i] = W(i) * 3
			}
			_, err := g.Insert(ctx, from, to, weights, nil)
			return err
		},
		rows: func(ctx context.Context) (*CSR, any, error) { return parts(g.CSR(ctx)) },
		held: func(ctx context.Context) (func() error, func(ctx context.Context) (*CSR, any, error), error) {
			s, err := g.Snapshot(ctx)
			return s.Close, func(ctx context.Context) (*CSR, any, error) { return parts(s.CSR(ctx)) }, err
		},
	}, err
}

func parts[W Weight](c *Weighted[W], err error) (*CSR, any, error) {
	if err != nil {
		return nil, nil, err
	}
	return c.CSR, c.AllWeights(), nil
}

// sweeps deletes many vertices of a graph with rows of all lengths, twice, with a snapshot in
// between. The graph must equal a graph on a CPU.
func sweeps(t testing.TB, dev device.Device, o Options, open func(device.Device, Options) (*testGraph, error)) {
	ctx := t.Context()
	var from, to []uint32
	for u, degree := range []uint32{2*chunkSize + 700, 900, 33, 32, 31, 17, 9, 7, 6, 1} {
		for v := range degree {
			from, to = append(from, uint32(u)), append(to, 10+v*uint32(1+u%3))
		}
	}
	first, second := []uint32{1, 9, 5000000}, []uint32{0, 3, 9}
	for i := range uint32(4000) {
		if i%5 == 2 {
			first = append(first, 10+i)
		}
		second = append(second, 10+i/3)
	}
	var many, few []uint32
	for i := range uint32(1100) {
		many, few = append(many, 3000+2*i), append(few, 3001+i)
	}
	type state struct {
		*CSR
		weights any
	}
	var want, got [2]state
	for _, on := range []device.Device{devicetest.OpenCPU(t, 1), dev} {
		g, err := open(on, o)
		must(t, err)
		must(t, g.insert(ctx, from, to))
		must(t, g.insert(ctx, make([]uint32, len(many)), many)) // several blocks copy a row
		forceSweep(g.store, false)
		_, err = g.DeleteVertices(ctx, few)
		must(t, err)
		forceSweep(g.store, true)
		_, err = g.DeleteVertices(ctx, first)
		must(t, err)
		must(t, g.Check(ctx))
		done, then, err := g.held(ctx)
		must(t, err)
		_, err = g.DeleteVertices(ctx, second)
		must(t, err)
		must(t, g.Check(ctx))
		got[1].CSR, got[1].weights, err = g.rows(ctx)
		must(t, err)
		must(t, g.insert(ctx, from, to)) // takes the blocks that are now free
		got[0].CSR, got[0].weights, err = then(ctx)
		must(t, err)
		if want[0].CSR == nil {
			want = got
		}
		for i, x := range got {
			if !slices.Equal(x.Offsets(), want[i].Offsets()) || !slices.Equal(x.Targets(), want[i].Targets()) || !reflect.DeepEqual(x.weights, want[i].weights) {
				t.Errorf("%d arcs behind deletion %d that a CPU does not have so, of %d", x.Arcs(), i, want[i].Arcs())
			}
		}
		must(t, done())
		must(t, g.Check(ctx))
		must(t, g.Close())
	}
}
