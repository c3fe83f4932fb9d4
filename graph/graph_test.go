package graph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// randomEdges returns m edges between n vertices. Many occur twice, and many lead to hubs.
func randomEdges(n, m int, seed uint64) (e Edges, weights []uint32) {
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range m {
		u, v := uint32(r.IntN(n)), uint32(r.IntN(n))
		switch r.IntN(8) {
		case 0:
			v = uint32(n - 1)
		case 1:
			v = u
		case 2:
			if i > 0 {
				j := r.IntN(i)
				u, v = e.To[j], e.From[j]
			}
		}
		e.From, e.To = append(e.From, u), append(e.To, v)
		weights = append(weights, uint32(i))
	}
	return e, weights
}

type arc struct {
	from, to, weight uint32
}

// modelOf returns the arcs that a graph should have, computed edge by edge.
func modelOf(e Edges, weights []uint32, o Options) (arcs []arc) {
	latest := map[[2]uint32]int{}
	add := func(u, v, w uint32) {
		if at, ok := latest[[2]uint32{u, v}]; ok && !o.Multi {
			arcs[at].weight = w
			return
		}
		latest[[2]uint32{u, v}] = len(arcs)
		arcs = append(arcs, arc{u, v, w})
	}
	for i, u := range e.From {
		v := e.To[i]
		if u == v && !o.SelfLoops {
			continue
		}
		add(u, v, weights[i])
		if u != v && !o.Directed {
			add(v, u, weights[i])
		}
	}
	slices.SortStableFunc(arcs, func(a, b arc) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	})
	return arcs
}

func arcsOf(g *Weighted[uint32]) (arcs []arc) {
	for u := range uint32(g.Vertices()) {
		for i, v := range g.Neighbors(u) {
			arcs = append(arcs, arc{u, v, g.Weights(u)[i]})
		}
	}
	return arcs
}

// TestBuild compares graphs from random lists with a map, for all options, sizes and numbers of
// cores.
func TestBuild(t *testing.T) {
	cores := []int{1, 3}
	if testing.Short() { // three cores suffice for the race detector
		cores = cores[1:]
	}
	for _, workers := range cores {
		dev := devicetest.OpenCPU(t, workers)
		for _, size := range []struct{ n, m int }{{1, 5}, {2, 3}, {7, 40}, {300, 2000}, {20_000, 40_000}} {
			for bits := range 8 {
				o := Options{Directed: bits&1 != 0, SelfLoops: bits&2 != 0, Multi: bits&4 != 0}
				e, weights := randomEdges(size.n, size.m, uint64(size.n+bits))
				g, err := BuildWeighted(t.Context(), dev, e, weights, &o)
				if err != nil {
					t.Fatal(err)
				}
				want := modelOf(e, weights, o)
				if got := arcsOf(g); !slices.Equal(got, want) {
					t.Fatalf("%d vertices, %d edges, %+v: %d arcs, want %d, or others", size.n, size.m, o, len(got), len(want))
				}
				plain, err := Build(t.Context(), dev, e, &o)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(plain.Targets(), g.Targets()) || !slices.Equal(plain.Offsets(), g.Offsets()) {
					t.Fatalf("%+v: the graph without weights is another", o)
				}
				verify(t, dev, plain, want)
			}
		}
	}
}

// verify compares all properties of a graph with its arcs.
func verify(t *testing.T, dev device.Device, g *CSR, arcs []arc) {
	t.Helper()
	loops := 0
	for _, a := range arcs {
		if a.from == a.to {
			loops++
		}
		if !g.Has(a.from, a.to) {
			t.Fatalf("edge %d to %d is missing", a.from, a.to)
		}
	}
	edges := len(arcs)
	if !g.Directed() {
		edges = (len(arcs)-loops)/2 + loops
	}
	if g.Arcs() != len(arcs) || g.Loops() != loops || g.Edges() != edges || !g.Sorted() {
		t.Fatalf("%d arcs, %d loops, %d edges, sorted %v; want %d, %d, %d", g.Arcs(), g.Loops(), g.Edges(), g.Sorted(), len(arcs), loops, edges)
	}
	if g.Has(0, uint32(g.Vertices())) || g.Has(uint32(g.Vertices()), 0) {
		t.Fatal("has an edge with a vertex that it does not have")
	}
	if err := g.Check(t.Context(), dev); err != nil {
		t.Fatal(err)
	}
	copied, err := NewCSR(g.Offsets(), g.Targets(), g.Directed())
	if err != nil {
		t.Fatal(err)
	}
	if copied.Loops() != loops || !copied.Sorted() || copied.Simple() != g.Simple() {
		t.Fatalf("made of its rows it has %d loops, sorted %v, simple %v; the graph is simple: %v", copied.Loops(), copied.Sorted(), copied.Simple(), g.Simple())
	}
}

// TestViews compares views with the arcs.
func TestViews(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	for seed := range uint64(20) {
		n := 1 + int(seed)*3
		e, weights := randomEdges(n, 6*n, seed)
		e.Vertices = n + int(seed%3) // some have no edges
		g, err := BuildWeighted(t.Context(), dev, e, weights, &Options{Directed: true, SelfLoops: true})
		if err != nil {
			t.Fatal(err)
		}
		arcs := arcsOf(g)
		turned := make([]arc, len(arcs))
		both := Edges{Vertices: g.Vertices()}
		var list []uint32
		for i, a := range arcs {
			turned[i] = arc{a.to, a.from, a.weight}
			both.From, both.To, list = append(both.From, a.from), append(both.To, a.to), append(list, a.weight)
		}
		transposed, err := g.Transpose(t.Context(), dev)
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(turned, func(a, b arc) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
		if !slices.Equal(arcsOf(transposed), turned) {
			t.Fatalf("seed %d: the transposed graph is another", seed)
		}
		symmetric, err := g.Symmetric(t.Context(), dev)
		if err != nil {
			t.Fatal(err)
		}
		if want := modelOf(both, list, Options{SelfLoops: true}); !slices.Equal(arcsOf(symmetric), want) {
			t.Fatalf("seed %d: the symmetric graph is another", seed)
		}
		for _, of := range []*CSR{g.CSR, symmetric.CSR} {
			oriented, err := of.Oriented(t.Context(), dev)
			if err != nil {
				t.Fatal(err)
			}
			wantOriented(t, symmetric.CSR, oriented)
		}
	}
}

// wantOriented checks that an oriented graph has each edge once, from the smaller degree, in order.
func wantOriented(t *testing.T, g, oriented *CSR) {
	t.Helper()
	if want := g.Edges() - g.Loops(); oriented.Edges() != want || !oriented.Directed() || !oriented.Simple() {
		t.Fatalf("oriented: %d edges, want %d", oriented.Edges(), want)
	}
	for u, v := range oriented.All() {
		if !g.Has(u, v) || g.Degree(u) > g.Degree(v) || g.Degree(u) == g.Degree(v) && u >= v {
			t.Fatalf("oriented: %d to %d, of degrees %d and %d", u, v, g.Degree(u), g.Degree(v))
		}
	}
	if _, err := NewCSR(oriented.Offsets(), oriented.Targets(), true); err != nil {
		t.Fatal(err)
	}
	for v := range uint32(oriented.Vertices()) {
		row := oriented.Neighbors(v)
		if !slices.IsSorted(row) || len(row)*len(row) > 2*g.Edges() {
			t.Fatalf("oriented: row %v of %d edges", row, g.Edges())
		}
	}
}

// TestUnsorted checks views and queries of a graph with unsorted rows and repeated edges.
func TestUnsorted(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	g, err := NewCSR([]uint64{0, 4, 6, 9, 9}, []uint32{2, 1, 1, 0, 0, 0, 2, 0, 2}, true)
	if err != nil {
		t.Fatal(err)
	}
	if g.Sorted() || g.Simple() || g.Loops() != 3 || !g.Has(0, 1) || g.Has(1, 2) || g.Has(3, 0) {
		t.Errorf("sorted %v, simple %v, %d loops", g.Sorted(), g.Simple(), g.Loops())
	}
	weighted, err := NewWeighted(g, []uint32{20, 10, 11, 0, 100, 101, 220, 200, 221}).Sort(t.Context(), dev)
	if err != nil {
		t.Fatal(err)
	}
	if want := []uint32{0, 10, 11, 20, 100, 101, 200, 220, 221}; !slices.Equal(weighted.AllWeights(), want) || !weighted.Sorted() || weighted.Simple() {
		t.Errorf("sorted, the weights are %v, want %v", weighted.AllWeights(), want)
	}
	for _, tt := range []struct {
		targets        []uint32
		simple, sorted bool
	}{{[]uint32{2, 1, 2, 0}, true, false}, {[]uint32{1, 2, 2, 0}, true, true}, {[]uint32{2, 1, 0, 0}, true, false}, {[]uint32{2, 2, 2, 0}, false, true}, {[]uint32{2, 0, 2, 0}, false, false}} {
		g, err := NewCSR([]uint64{0, 2, 3, 4}, slices.Clone(tt.targets), true)
		if err != nil {
			t.Fatal(err)
		}
		if g.Sorted() != tt.sorted || g.Simple() != (tt.simple && tt.sorted) {
			t.Errorf("%v: sorted %v, simple %v", tt.targets, g.Sorted(), g.Simple())
		}
		s, err := g.Sort(t.Context(), dev)
		if err != nil {
			t.Fatal(err)
		}
		if !s.Sorted() || s.Simple() != tt.simple {
			t.Errorf("%v, sorted: sorted %v, simple %v, want %v", tt.targets, s.Sorted(), s.Simple(), tt.simple)
		}
	}
}

// TestUnsortedUndirected checks that an undirected graph stays undirected when its rows are sorted.
func TestUnsortedUndirected(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	g, err := NewCSR([]uint64{0, 3, 5, 7, 8}, []uint32{3, 2, 1, 2, 0, 1, 0, 0}, false)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewWeighted(g, []uint32{3, 2, 1, 12, 1, 12, 2, 3}).Sort(t.Context(), dev)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := g.Sort(t.Context(), dev)
	if err != nil {
		t.Fatal(err)
	}
	if s.Directed() || plain.Directed() || !plain.Simple() || !s.Simple() || plain.Edges() != 4 || !slices.Equal(s.AllWeights(), []uint32{1, 2, 3, 1, 12, 2, 12, 3}) {
		t.Errorf("sorted: directed %v, %v, %d edges, weights %v", s.Directed(), plain.Directed(), plain.Edges(), s.AllWeights())
	}
	if err := g.Check(t.Context(), dev); err != nil {
		t.Error(err)
	}
	oriented, err := g.Oriented(t.Context(), dev)
	if err != nil {
		t.Fatal(err)
	}
	wantOriented(t, plain, oriented)
}

// TestErrors checks that invalid graphs are refused with a position, and that nothing is built.
func TestErrors(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	many := Edges{From: make([]uint32, 3*grain), To: make([]uint32, 3*grain)}
	many.To[grain+7], many.From[2*grain+1] = 5, 9
	many.Vertices = 5
	for _, tt := range []struct {
		name string
		make func() error
		want error
		say  string
	}{
		{"vertex beyond the count", func() error {
			_, err := Build(t.Context(), dev, Edges{3, []uint32{0, 3}, []uint32{1, 2}}, nil)
			return err
		}, weft.ErrOptions, "edge 1 from 3 to 2: vertices are 0 to 2, as Vertices says"},
		{"the first of several", func() error { _, err := Build(t.Context(), dev, many, nil); return err },
			weft.ErrOptions, fmt.Sprintf("edge %d from 0 to 5", grain+7)},
		{"vertex beyond the limit", func() error {
			_, err := Build(t.Context(), dev, Edges{0, []uint32{0}, []uint32{defaultVertices}}, nil)
			return err
		}, weft.ErrOptions, "edge 0 from 0 to 268435456: vertices are 0 to 268435455; MaxVertices allows more"},
		{"vertices beyond the limit", func() error {
			_, err := Build(t.Context(), dev, Edges{Vertices: 11}, &Options{MaxVertices: 10})
			return err
		}, weft.ErrOptions, "11 vertices, want 0 to 10"},
		{"negative limit", func() error { _, err := Build(t.Context(), dev, Edges{}, &Options{MaxVertices: -1}); return err }, weft.ErrOptions, "MaxVertices -1"},
		{"negative vertices", func() error { _, err := Build(t.Context(), dev, Edges{Vertices: -1}, nil); return err }, weft.ErrOptions, "-1 vertices"},
		{"no offsets", func() error { _, err := NewCSR(nil, nil, true); return err }, weft.ErrOptions, "the offsets are empty"},
		{"first offset", func() error { _, err := NewCSR([]uint64{1, 1}, []uint32{0}, true); return err }, weft.ErrOptions, "from 1 to 1, want 0 to 1"},
		{"last offset", func() error { _, err := NewCSR([]uint64{0, 2}, []uint32{0}, true); return err }, weft.ErrOptions, "from 0 to 2"},
		{"offsets fall", func() error { _, err := NewCSR([]uint64{0, 9, 1}, []uint32{0}, true); return err }, weft.ErrOptions, "offset 1 is 9, but the next one is 1"},
		{"no such neighbor", func() error { _, err := NewCSR([]uint64{0, 0, 2}, []uint32{0, 2}, true); return err }, weft.ErrOptions, "neighbor 1 of vertex 1 is 2, but there are 2"},
		{"one way only", func() error {
			g, err := NewCSR([]uint64{0, 1, 2, 2}, []uint32{1, 2}, false)
			if err != nil {
				return err
			}
			return g.Check(t.Context(), dev)
		}, weft.ErrCorrupt, "vertex 0 differ"},
		{"cancelled", func() error {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := Build(ctx, dev, Edges{0, []uint32{0}, []uint32{1}}, nil)
			return err
		}, context.Canceled, ""},
		{"device", func() error {
			_, err := Build(t.Context(), devicetest.OpenSim(t, nil), Edges{}, nil)
			return err
		}, device.ErrUnsupported, "only on CPUs"},
	} {
		if err := tt.make(); !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.say) {
			t.Errorf("%s: %v, want %v with %q", tt.name, err, tt.want, tt.say)
		}
	}
}

// TestPanics checks that slices of different length panic.
func TestPanics(t *testing.T) {
	dev := devicetest.OpenCPU(t, 1)
	for name, f := range map[string]func(){
		"edges":   func() { Build(t.Context(), dev, Edges{From: []uint32{1}}, nil) },
		"weights": func() { BuildWeighted(t.Context(), dev, Edges{}, []uint32{1}, nil) },
		"arcs":    func() { NewWeighted(&CSR{offsets: []uint64{0}}, []uint32{1}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s of different lengths: no panic", name)
				}
			}()
			f()
		}()
	}
}

func TestEmpty(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	for _, e := range []Edges{{}, {Vertices: 3}, {From: []uint32{2}, To: []uint32{2}}} {
		g, err := BuildWeighted[float64](t.Context(), dev, e, make([]float64, len(e.From)), nil)
		if err != nil {
			t.Fatal(err)
		}
		want := e.Vertices + 3*len(e.From)
		if g.Vertices() != want || g.Arcs() != 0 || len(g.Offsets()) != want+1 {
			t.Errorf("%+v: %d vertices, %d arcs", e, g.Vertices(), g.Arcs())
		}
		d, err := g.Degrees(t.Context(), dev)
		if err != nil || d.Max != 0 || d.Isolated != want || d.Histogram[0] != want {
			t.Errorf("%+v: degrees %+v, %v", e, d, err)
		}
	}
}

func TestDegrees(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	// A star of eight edges, a separate edge, and a vertex with only a self loop.
	e := Edges{Vertices: 12, From: []uint32{0, 0, 0, 0, 0, 0, 0, 0, 9, 11}, To: []uint32{1, 2, 3, 4, 5, 6, 7, 8, 10, 11}}
	g, err := Build(t.Context(), dev, e, &Options{SelfLoops: true})
	if err != nil {
		t.Fatal(err)
	}
	d, err := g.Degrees(t.Context(), dev)
	if err != nil {
		t.Fatal(err)
	}
	mean := 19. / 12
	if d.Min != 1 || d.Max != 8 || d.Isolated != 1 || !slices.Equal(d.Histogram, []int{0, 11, 0, 0, 1}) ||
		math.Abs(d.Mean-mean) > 1e-12 || math.Abs(d.Sigma-math.Sqrt((64+11)/12.-mean*mean)) > 1e-12 {
		t.Errorf("%+v", d)
	}
	directed, err := Build(t.Context(), dev, e, &Options{Directed: true})
	if err != nil {
		t.Fatal(err)
	}
	if d, err := directed.Degrees(t.Context(), dev); err != nil || d.Min != 0 || d.Max != 8 || d.Isolated != 1 || !slices.Equal(d.Histogram, []int{10, 1, 0, 0, 1}) {
		t.Errorf("directed: %+v, %v", d, err)
	}
}

// TestFilter checks Filter and Endpoints for the edges of a batch.
func TestFilter(t *testing.T) {
	e := Edges{Vertices: 9, From: []uint32{5, 1, 5, 7}, To: []uint32{1, 2, 0, 7}}
	kept := e.Filter([]bool{true, false, true, true})
	if kept.Vertices != 9 || !slices.Equal(kept.From, []uint32{5, 5, 7}) || !slices.Equal(kept.To, []uint32{1, 0, 7}) {
		t.Errorf("%+v", kept)
	}
	if ends := kept.Endpoints(); !slices.Equal(ends, []uint32{0, 1, 5, 7}) {
		t.Errorf("ends %v", ends)
	}
	if none := (Edges{}).Filter(nil); len(none.From) > 0 || len(none.Endpoints()) > 0 {
		t.Errorf("of no edges: %+v", none)
	}
}
