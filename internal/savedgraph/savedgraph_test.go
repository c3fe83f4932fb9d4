package savedgraph_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/slab"
)

type edge struct{ from, to uint32 }

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// weighted has the methods that the graphs of both packages share.
type weighted interface {
	Insert(from, to, weights []uint32) error
	Rows(vertices []uint32) (offsets []uint64, neighbors, weights []uint32, err error)
	Save(to io.Writer) error
	Load(from io.Reader) error
	Close() error
}

type ofGraph struct {
	testing.TB
	*graph.WeightedGraph[uint32]
}

func (g ofGraph) Insert(from, to, weights []uint32) error {
	_, err := g.WeightedGraph.Insert(g.Context(), from, to, weights, nil)
	return err
}

func (g ofGraph) Rows(vertices []uint32) ([]uint64, []uint32, []uint32, error) {
	return g.WeightedGraph.Rows(g.Context(), vertices)
}
func (g ofGraph) Save(to io.Writer) error   { return g.WeightedGraph.Save(g.Context(), to) }
func (g ofGraph) Load(from io.Reader) error { return g.WeightedGraph.Load(g.Context(), from) }

type ofSlab struct {
	testing.TB
	*slab.WeightedGraph[uint32]
}

func (g ofSlab) Insert(from, to, weights []uint32) error {
	_, err := g.WeightedGraph.Insert(g.Context(), from, to, weights, nil)
	return err
}

func (g ofSlab) Rows(vertices []uint32) ([]uint64, []uint32, []uint32, error) {
	return g.WeightedGraph.Rows(g.Context(), vertices)
}
func (g ofSlab) Save(to io.Writer) error   { return g.WeightedGraph.Save(g.Context(), to) }
func (g ofSlab) Load(from io.Reader) error { return g.WeightedGraph.Load(g.Context(), from) }

const vertices = 300

func open(t testing.TB, slabs, directed bool, maxVertices int) weighted {
	t.Helper()
	dev := devicetest.Open(t)
	if slabs {
		g, err := slab.NewWeightedGraph[uint32](dev, &slab.GraphOptions{Directed: directed, MaxVertices: maxVertices})
		must(t, err)
		return ofSlab{t, g}
	}
	g, err := graph.NewWeightedGraph[uint32](dev, &graph.Options{Directed: directed, MaxVertices: maxVertices})
	must(t, err)
	return ofGraph{t, g}
}

// content returns the edges of a graph, in both directions if it is undirected.
func content(t testing.TB, g weighted) map[edge]uint32 {
	t.Helper()
	all := make([]uint32, vertices)
	for i := range all {
		all[i] = uint32(i)
	}
	offsets, to, weights, err := g.Rows(all)
	must(t, err)
	edges := map[edge]uint32{}
	for u := range all {
		for i := offsets[u]; i < offsets[u+1]; i++ {
			edges[edge{uint32(u), to[i]}] = weights[i]
		}
	}
	return edges
}

// saved returns the edges of a graph and its saved form. The largest vertex of a directed graph has
// no edges of its own.
func saved(t testing.TB, slabs, directed bool) (map[edge]uint32, []byte) {
	t.Helper()
	g, r := open(t, slabs, directed, vertices), rand.New(rand.NewPCG(1, 2))
	from, to, weights := []uint32{0}, []uint32{vertices - 1}, []uint32{7}
	for range 2000 {
		from, to, weights = append(from, r.Uint32N(vertices-1)), append(to, r.Uint32N(vertices-1)), append(weights, r.Uint32())
	}
	var file bytes.Buffer
	must(t, g.Insert(from, to, weights), g.Save(&file))
	edges := content(t, g)
	must(t, g.Close())
	return edges, file.Bytes()
}

// kinds calls f for the graphs of both packages, directed and undirected.
func kinds(t *testing.T, f func(t *testing.T, slabs, directed bool)) {
	for _, slabs := range []bool{false, true} {
		for _, directed := range []bool{false, true} {
			t.Run(fmt.Sprintf("slabs %v, directed %v", slabs, directed), func(t *testing.T) { f(t, slabs, directed) })
		}
	}
}

// Graphs of both packages load graphs that either package has saved.
func TestEitherLoadsBoth(t *testing.T) {
	kinds(t, func(t *testing.T, slabs, directed bool) {
		want, file := saved(t, slabs, directed)
		for _, toSlabs := range []bool{false, true} {
			g, in := open(t, toSlabs, directed, vertices), bytes.NewReader(append(file, "and more"...))
			must(t, g.Load(in))
			if got := content(t, g); !maps.Equal(got, want) || in.Len() != len("and more") {
				t.Errorf("slabs %v: %d arcs, want %d; %d bytes are left", toSlabs, len(got), len(want), in.Len())
			}
			must(t, g.Close())
		}
	})
}

// An empty graph saves and loads.
func TestEmpty(t *testing.T) {
	kinds(t, func(t *testing.T, slabs, directed bool) {
		g := open(t, slabs, directed, vertices)
		var file bytes.Buffer
		must(t, g.Save(&file), g.Load(&file))
		if got := content(t, g); len(got) != 0 {
			t.Errorf("%v", got)
		}
		must(t, g.Close())
	})
}

// Load refuses damaged, truncated, mismatched and oversized streams. A closed graph refuses Load
// and Save.
func TestRefused(t *testing.T) {
	kinds(t, func(t *testing.T, slabs, directed bool) {
		_, file := saved(t, slabs, directed)
		for _, toSlabs := range []bool{false, true} {
			g := open(t, toSlabs, directed, vertices)
			for at := 0; at < len(file); at += 1 + at/7 {
				bad := bytes.Clone(file)
				bad[at] ^= 0x40
				if err := g.Load(bytes.NewReader(bad)); !errors.Is(err, weft.ErrFormat) {
					t.Errorf("slabs %v, byte %d is another one: %v", toSlabs, at, err)
				}
				if err := g.Load(bytes.NewReader(file[:at])); !errors.Is(err, weft.ErrFormat) {
					t.Errorf("slabs %v, %d bytes: %v", toSlabs, at, err)
				}
			}
			must(t, g.Close())
			if err := g.Load(bytes.NewReader(file)); !errors.Is(err, weft.ErrClosed) {
				t.Errorf("slabs %v, closed: %v", toSlabs, err)
			}
			if err := g.Save(io.Discard); !errors.Is(err, weft.ErrClosed) {
				t.Errorf("slabs %v, closed: %v", toSlabs, err)
			}
			turned, narrow := open(t, toSlabs, !directed, vertices), open(t, toSlabs, directed, vertices-1)
			if err := turned.Load(bytes.NewReader(file)); !errors.Is(err, weft.ErrFormat) {
				t.Errorf("slabs %v, edges lead otherwise: %v", toSlabs, err)
			}
			if err := narrow.Load(bytes.NewReader(file)); !errors.Is(err, weft.ErrOptions) {
				t.Errorf("slabs %v, a vertex is too large: %v", toSlabs, err)
			}
			must(t, turned.Close(), narrow.Close())
		}
	})
}

// full is a stream that accepts nothing.
type full struct{}

var errFull = errors.New("no space")

func (full) Write([]byte) (int, error) { return 0, errFull }

// Save returns the error of the stream.
func TestFullDisk(t *testing.T) {
	kinds(t, func(t *testing.T, slabs, directed bool) {
		g := open(t, slabs, directed, vertices)
		must(t, g.Insert([]uint32{1}, []uint32{2}, []uint32{3}))
		if err := g.Save(full{}); !errors.Is(err, errFull) {
			t.Errorf("%v", err)
		}
		must(t, g.Close())
	})
}
