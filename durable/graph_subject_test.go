package durable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/internal/savedgraph"
)

// edgeList is a list of operations on edges. A graph without weights ignores the weights.
type edgeList struct {
	from, to []uint32
	weights  []uint64
	kinds    []weft.OpKind
}

// drawEdgeList draws n operations on few vertices, so that they often meet.
func drawEdgeList(rng *rand.Rand, vertices uint32, n int) (e edgeList) {
	for range n {
		kind := weft.OpPut
		if rng.IntN(2) == 0 {
			kind = weft.OpDelete
		}
		e.from, e.to = append(e.from, rng.Uint32N(vertices)), append(e.to, rng.Uint32N(vertices))
		e.weights, e.kinds = append(e.weights, rng.Uint64N(1000)), append(e.kinds, kind)
	}
	return e
}

// columns are an edgeList in device memory.
type columns[W graph.Weight] struct {
	from, to device.Slice[uint32]
	weights  device.Slice[W]
	kinds    device.Slice[uint8]
	done     device.Slice[bool]
}

func uploadEdges[W graph.Weight](t testing.TB, s *device.Stream, e edgeList) columns[W] {
	kinds := make([]uint8, len(e.kinds))
	for i, k := range e.kinds {
		kinds[i] = uint8(k)
	}
	return columns[W]{
		uploadTo(t, s, e.from), uploadTo(t, s, e.to), uploadTo(t, s, weightsOf[W](e)), uploadTo(t, s, kinds), uploadTo(t, s, make([]bool, len(kinds))),
	}
}

func uploadTo[T device.Elem](t testing.TB, s *device.Stream, v []T) device.Slice[T] {
	t.Helper()
	d, err := device.Upload(s, v)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Free() })
	return d
}

func weightsOf[W graph.Weight](e edgeList) []W {
	weights := make([]W, len(e.weights))
	for i, w := range e.weights {
		weights[i] = W(w)
	}
	return weights
}

// rowGraph is a graph of package graph, with weights or without.
type rowGraph interface {
	subject
	inner() *graph.Graph
	insert(ctx context.Context, e edgeList) error
	apply(ctx context.Context, e edgeList) error
	insertOn(t testing.TB, s *device.Stream, e edgeList) error
	applyOn(t testing.TB, s *device.Stream, e edgeList) error
	insertCSR(ctx context.Context, host device.Device, e edgeList) error
}

type plainRows struct{ *graph.Graph }

func newPlainRows(dev device.Device, o graph.Options) (plainRows, error) {
	g, err := graph.New(dev, &o)
	return plainRows{g}, err
}

// smallHost is a CPU without address ranges, so that small graphs take little memory.
type smallHost struct{ device.Host }

func (smallHost) Reserve(int) (device.Range, error) { return nil, device.ErrUnsupported }
func (smallHost) Memory() (device.Memory, error) {
	return device.Memory{Total: 1 << 30, Free: 1 << 30}, nil
}

func (g plainRows) inner() *graph.Graph         { return g.Graph }
func (g plainRows) content() string             { return graphContent(g.Graph) }
func (g plainRows) change(rng *rand.Rand) error { return changeGraph(g, rng, 8, 20) }

func (g plainRows) insert(ctx context.Context, e edgeList) error {
	_, err := g.Insert(ctx, e.from, e.to, nil)
	return err
}

func (g plainRows) apply(ctx context.Context, e edgeList) error {
	_, err := g.Apply(ctx, e.kinds, e.from, e.to, nil)
	return err
}

func (g plainRows) insertOn(t testing.TB, s *device.Stream, e edgeList) error {
	c := uploadEdges[uint32](t, s, e)
	return g.InsertOn(s, c.from, c.to, c.done)
}

func (g plainRows) applyOn(t testing.TB, s *device.Stream, e edgeList) error {
	c := uploadEdges[uint32](t, s, e)
	return g.ApplyOn(s, c.kinds, c.from, c.to, device.Slice[bool]{})
}

func (g plainRows) insertCSR(ctx context.Context, host device.Device, e edgeList) error {
	c, err := graph.Build(ctx, host, graph.Edges{From: e.from, To: e.to}, &graph.Options{Directed: g.Directed(), Multi: true})
	if err == nil {
		_, err = g.InsertCSR(ctx, c)
	}
	return err
}

type weightedRows[W graph.Weight] struct{ *graph.WeightedGraph[W] }

func newWeightedRows[W graph.Weight](dev device.Device, o graph.Options) (weightedRows[W], error) {
	g, err := graph.NewWeightedGraph[W](dev, &o)
	return weightedRows[W]{g}, err
}

func (g weightedRows[W]) inner() *graph.Graph         { return g.Graph }
func (g weightedRows[W]) content() string             { return graphContent(g.Graph) }
func (g weightedRows[W]) change(rng *rand.Rand) error { return changeGraph(g, rng, 8, 20) }

func (g weightedRows[W]) insert(ctx context.Context, e edgeList) error {
	_, err := g.Insert(ctx, e.from, e.to, weightsOf[W](e), nil)
	return err
}

func (g weightedRows[W]) apply(ctx context.Context, e edgeList) error {
	_, err := g.Apply(ctx, e.kinds, e.from, e.to, weightsOf[W](e), nil)
	return err
}

func (g weightedRows[W]) insertOn(t testing.TB, s *device.Stream, e edgeList) error {
	c := uploadEdges[W](t, s, e)
	return g.InsertOn(s, c.from, c.to, c.weights, device.Slice[bool]{})
}

func (g weightedRows[W]) applyOn(t testing.TB, s *device.Stream, e edgeList) error {
	c := uploadEdges[W](t, s, e)
	return g.ApplyOn(s, c.kinds, c.from, c.to, c.weights, c.done)
}

func (g weightedRows[W]) insertCSR(ctx context.Context, host device.Device, e edgeList) error {
	o := &graph.Options{Directed: g.Directed(), Multi: true}
	c, err := graph.BuildWeighted(ctx, host, graph.Edges{From: e.from, To: e.to}, weightsOf[W](e), o)
	if err == nil {
		_, err = g.InsertCSR(ctx, c)
	}
	return err
}

// changeGraph makes a random change, usually of few edges.
func changeGraph(g rowGraph, rng *rand.Rand, vertices uint32, most int) (err error) {
	n := 1 + rng.IntN(4)
	if rng.IntN(4) == 0 {
		n = most
	}
	ctx, e := context.Background(), drawEdgeList(rng, vertices, n)
	switch rng.IntN(12) {
	default:
		err = g.insert(ctx, e)
	case 0, 1:
		_, err = g.inner().Delete(ctx, e.from, e.to, nil)
	case 2, 3, 4:
		err = g.apply(ctx, e)
	case 5:
		_, err = g.inner().InsertVertices(ctx, e.from)
	case 6:
		_, err = g.inner().DeleteVertices(ctx, e.from[:1])
	case 7:
		if rng.IntN(4) == 0 {
			err = g.inner().Clear(ctx)
		}
	}
	return err
}

// savedContent receives a saved graph.
type savedContent struct {
	vertices []uint32
	edges    []string
}

func (c *savedContent) Vertices(_ context.Context, ids []uint32) error {
	c.vertices = append(c.vertices, ids...)
	return nil
}

func (c *savedContent) Edges(_ context.Context, from, to []uint32, weights []byte) error {
	for i := range from {
		w := len(weights) / len(from)
		c.edges = append(c.edges, fmt.Sprintf("%d-%d:%x", from[i], to[i], weights[i*w:(i+1)*w]))
	}
	return nil
}

// graphContent returns the vertices and the edges of a graph, with their weights. Parallel edges
// are in the order of their rows.
func graphContent(g *graph.Graph) string {
	var file bytes.Buffer
	c, ctx := &savedContent{}, context.Background()
	err := g.Save(ctx, &file)
	if err == nil {
		head := file.Bytes()[8:]
		kind := savedgraph.Kind{Letter: head[0], Weight: int(head[1]) / 8, Flags: head[2]}
		err = savedgraph.Load(ctx, &file, kind, 1<<32-1, c)
	}
	if err == nil && (len(c.vertices) != g.Vertices() || len(c.edges) != g.Edges()) {
		err = fmt.Errorf("there are %d vertices and %d edges", g.Vertices(), g.Edges())
	}
	if err = errors.Join(err, g.Check(ctx)); err != nil {
		return err.Error()
	}
	return fmt.Sprint(c.vertices, c.edges)
}

// graphSubject makes subjects of the crash tests.
func graphSubject(k graphKind, dev device.Device) func() (subject, error) {
	return func() (subject, error) { return k.make(smallHost{dev.(device.Host)}, k.Options) }
}

// graphKind is a kind of graphs that tests run.
type graphKind struct {
	name string
	make func(dev device.Device, o graph.Options) (rowGraph, error)
	graph.Options
}

func graphKinds() []graphKind {
	const most = 100
	plain := func(dev device.Device, o graph.Options) (rowGraph, error) { return newPlainRows(dev, o) }
	floats := func(dev device.Device, o graph.Options) (rowGraph, error) { return newWeightedRows[float32](dev, o) }
	longs := func(dev device.Device, o graph.Options) (rowGraph, error) { return newWeightedRows[int64](dev, o) }
	return []graphKind{
		{"plain", plain, graph.Options{MaxVertices: most}},
		{"plain, directed, loops", plain, graph.Options{MaxVertices: most, Directed: true, SelfLoops: true}},
		{"plain, multi, loops", plain, graph.Options{MaxVertices: most, Multi: true, SelfLoops: true}},
		{"float32, loops", floats, graph.Options{MaxVertices: most, SelfLoops: true}},
		{"float32, directed, multi", floats, graph.Options{MaxVertices: most, Directed: true, Multi: true}},
		{"int64, directed", longs, graph.Options{MaxVertices: most, Directed: true}},
		{"int64, multi, loops", longs, graph.Options{MaxVertices: most, Multi: true, SelfLoops: true}},
		{"int64, directed, multi, loops", longs, graph.Options{MaxVertices: most, Directed: true, Multi: true, SelfLoops: true}},
	}
}

// openRows opens a graph on a file system.
func openRows(t testing.TB, fs fileSystem, k graphKind, dev device.Device, opts Options) rowGraph {
	t.Helper()
	opts, err := opts.check()
	if err != nil {
		t.Fatal(err)
	}
	g, err := open(t.Context(), fs, nopCloser{}, func() (rowGraph, error) { return k.make(dev, k.Options) }, opts)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// anyChange makes a random change of any kind, on stream s or from host memory.
func anyChange(t testing.TB, g rowGraph, s *device.Stream, host device.Device, rng *rand.Rand) error {
	ctx, inner := t.Context(), g.inner()
	if rng.IntN(2) == 0 {
		return changeGraph(g, rng, 12, 60)
	}
	e := drawEdgeList(rng, 12, 1+rng.IntN(30))
	switch rng.IntN(8) {
	case 0:
		return g.insertCSR(ctx, host, e)
	case 1:
		other, err := graph.New(inner.Device(), &graph.Options{Directed: inner.Directed(), MaxVertices: 100})
		if err != nil {
			return err
		}
		defer other.Close()
		_, err = other.InsertVertices(ctx, e.to)
		var file bytes.Buffer
		if err = errors.Join(err, other.Save(ctx, &file)); err != nil {
			return err
		}
		if err = inner.Load(ctx, &file); errors.Is(err, weft.ErrFormat) {
			return nil // it has other weights
		}
		return err
	case 2:
		return inner.Compact(ctx)
	case 3:
		return g.insertOn(t, s, e)
	case 4:
		return g.applyOn(t, s, e)
	case 5:
		return inner.DeleteOn(s, uploadTo(t, s, e.from), uploadTo(t, s, e.to), device.Slice[bool]{})
	case 6:
		return inner.InsertVerticesOn(s, uploadTo(t, s, e.from))
	}
	return inner.DeleteVerticesOn(s, uploadTo(t, s, e.to[:1]))
}
