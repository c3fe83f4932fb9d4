package triangles_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/graph/algo"
	"github.com/weftgo/weft/internal/gpu/triangles"
)

// bench holds the kernels of a device, with a stream.
type bench struct {
	testing.TB
	k *triangles.Kernels
	s *device.Stream
}

func on(t testing.TB, dev device.Device) bench {
	t.Helper()
	k, err := triangles.Load(dev)
	must(t, err)
	return bench{t, k, devicetest.NewStream(t, dev)}
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func (b bench) upload(offsets []uint64, neighbors []uint32) triangles.Rows {
	return triangles.Rows{Offsets: devicetest.Upload(b, b.s, offsets), Neighbors: devicetest.Upload(b, b.s, neighbors)}
}

// check compares the view of a graph, and its triangles, with those of the host.
func (b bench) check(g *graph.CSR) {
	b.Helper()
	ctx, host := context.Background(), devicetest.OpenCPU(b, 1)
	want, err := g.Oriented(ctx, host)
	must(b, err)
	count, err := algo.Triangles(ctx, host, g)
	must(b, err)
	view, err := b.k.Orient(ctx, b.s, b.upload(g.Offsets(), g.Targets()))
	must(b, err)
	if !slices.Equal(devicetest.Download(b, b.s, view.Offsets), want.Offsets()) || !slices.Equal(devicetest.Download(b, b.s, view.Neighbors), want.Targets()) {
		b.Errorf("%d vertices, %d arcs: the view is not that of the host", g.Vertices(), g.Arcs())
	}
	got, err := b.k.Count(ctx, b.s, view)
	must(b, err, view.Free())
	if got != count {
		b.Errorf("%d vertices, %d arcs: %d triangles, want %d", g.Vertices(), g.Arcs(), got, count)
	}
}

// build returns an undirected graph of a list of edges.
func build(t testing.TB, e graph.Edges, opts *graph.Options) *graph.CSR {
	t.Helper()
	g, err := graph.Build(context.Background(), devicetest.OpenCPU(t, 1), e, opts)
	must(t, err)
	return g
}

// random returns random edges among n vertices, with loops and duplicates.
func random(n, edges int, seed uint64) (e graph.Edges) {
	rng := rand.New(rand.NewPCG(seed, 1))
	e.Vertices = n
	for range edges {
		e.From, e.To = append(e.From, rng.Uint32N(uint32(n))), append(e.To, rng.Uint32N(uint32(n)))
	}
	return e
}

// clique returns all edges among n vertices.
func clique(n int) (e graph.Edges) {
	e.Vertices = n
	for u := range uint32(n) {
		for v := range u {
			e.From, e.To = append(e.From, u), append(e.To, v)
		}
	}
	return e
}

// hubs returns two vertices that all others lead to; the others form a ring.
func hubs(n int) (e graph.Edges) {
	e.Vertices = n
	for v := uint32(2); v < uint32(n); v++ {
		e.From, e.To = append(e.From, v, v, v), append(e.To, 0, 1, max(2, (v+1)%uint32(n)))
	}
	e.From, e.To = append(e.From, 0), append(e.To, 1)
	return e
}

// Views and counts equal those of the host: of nothing, of short rows, and of rows that warps or
// blocks hash.
func TestSmokeCount(t *testing.T) {
	b := on(t, devicetest.OpenGPU(t))
	for _, e := range []graph.Edges{
		{}, {Vertices: 1}, {Vertices: 100}, {From: []uint32{0}, To: []uint32{1}}, clique(3), clique(5), clique(17), clique(60), clique(200),
		random(40, 100, 1), random(500, 3000, 2), random(70, 2000, 3), hubs(1000),
	} {
		b.check(build(t, e, nil))
		b.check(build(t, e, &graph.Options{SelfLoops: true}))
		b.check(build(t, e, &graph.Options{SelfLoops: true, Multi: true}))
	}
}
