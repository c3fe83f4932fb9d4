package algo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/graph"
)

type shape struct {
	name string
	graph.Edges
}

// shapes returns graphs on which algorithms behave differently.
func shapes() (all []shape) {
	r := rand.New(rand.NewPCG(7, 7))
	add := func(name string, n, m int, edge func(i int) (u, v int)) {
		e := graph.Edges{Vertices: n}
		for i := range m {
			u, v := edge(i)
			e.From, e.To = append(e.From, uint32(u)), append(e.To, uint32(v))
		}
		all = append(all, shape{name, e})
	}
	uniform := func(n int) func(int) (int, int) {
		return func(int) (int, int) { return r.IntN(n), r.IntN(n) }
	}
	add("empty", 0, 0, nil)
	add("alone", 1, 0, nil)
	add("loop", 2, 3, func(int) (int, int) { return 1, 1 })
	add("triangle", 3, 3, func(i int) (int, int) { return i, (i + 1) % 3 })
	add("path", 300, 299, func(i int) (int, int) { return i, i + 1 })
	add("star", 1500, 1499, func(i int) (int, int) { return 1499, i })
	add("complete", 40, 1600, func(i int) (int, int) { return i / 40, i % 40 })
	add("sparse", 2000, 1500, uniform(2000))
	add("dense", 300, 6000, uniform(300))
	add("skewed", 3000, 16_000, func(int) (int, int) {
		a, b := r.Float64(), r.Float64()
		return int(3000 * a * a * a * a), int(3000 * b * b)
	})
	add("cliques", 1000, 8000, func(i int) (int, int) {
		c := r.IntN(50) * 20
		return c + r.IntN(20), c + r.IntN(20)
	})
	return all
}

// onShapes runs a test on all shapes, directed and undirected, on one core and on three.
func onShapes(t *testing.T, test func(t *testing.T, dev device.Device, g *graph.CSR)) {
	cores := []int{1, 3}
	if testing.Short() { // three cores suffice for the race detector
		cores = cores[1:]
	}
	for _, workers := range cores {
		dev := devicetest.OpenCPU(t, workers)
		for _, s := range shapes() {
			for _, o := range []graph.Options{{}, {Directed: true}, {SelfLoops: true, Multi: true}} {
				t.Run(fmt.Sprintf("%s/directed=%v/multi=%v/%d", s.name, o.Directed, o.Multi, workers), func(t *testing.T) {
					g, err := graph.Build(t.Context(), dev, s.Edges, &o)
					if err != nil {
						t.Fatal(err)
					}
					test(t, dev, g)
				})
			}
		}
	}
}

// neighborsOf returns for each vertex the set of its neighbors in either direction.
func neighborsOf(g *graph.CSR) []map[uint32]bool {
	sets := make([]map[uint32]bool, g.Vertices())
	for v := range sets {
		sets[v] = map[uint32]bool{}
	}
	for u, v := range g.All() {
		if u != v {
			sets[u][v], sets[v][u] = true, true
		}
	}
	return sets
}

func TestTriangles(t *testing.T) {
	onShapes(t, func(t *testing.T, dev device.Device, g *graph.CSR) {
		sets := neighborsOf(g)
		want := uint64(0)
		for u, set := range sets {
			for v := range set {
				if int(v) < u {
					continue
				}
				for w := range sets[v] {
					if w > v && set[w] {
						want++
					}
				}
			}
		}
		if got, err := Triangles(t.Context(), dev, g); err != nil || got != want {
			t.Errorf("%d triangles, %v; want %d", got, err, want)
		}
	})
}

// TestParts checks that each wedge is counted once, for any number of parts.
func TestParts(t *testing.T) {
	dev := devicetest.OpenCPU(t, 1)
	all := shapes()
	for _, s := range all[len(all)-2:] {
		g, err := graph.Build(t.Context(), dev, s.Edges, nil)
		if err != nil {
			t.Fatal(err)
		}
		want, err := Triangles(t.Context(), dev, g)
		if err != nil {
			t.Fatal(err)
		}
		o, err := g.Oriented(t.Context(), dev)
		if err != nil {
			t.Fatal(err)
		}
		before := wedges(dev, o)
		c := wedgeCounter{o: o, bitmap: make([]uint64, (o.Vertices()+63)/64)}
		for _, parts := range []int{1, 2, 7, 100, 4099} {
			sum := uint64(0)
			for i := range parts {
				n := before[len(before)-1]
				sum += c.count(t.Context(), before, partStart(n, i, parts), partStart(n, i+1, parts))
			}
			if sum != want {
				t.Errorf("%s: %d triangles in %d parts, want %d", s.name, sum, parts, want)
			}
		}
	}
}

func TestComponents(t *testing.T) {
	onShapes(t, func(t *testing.T, dev device.Device, g *graph.CSR) {
		sets := neighborsOf(g)
		want, count := make([]uint32, g.Vertices()), 0
		for v := range want {
			want[v] = NoVertex
		}
		for v := range want {
			if want[v] != NoVertex {
				continue
			}
			count++
			want[v] = uint32(v)
			for list := []int{v}; len(list) > 0; {
				u := list[0]
				list = list[1:]
				for w := range sets[u] {
					if want[w] == NoVertex {
						want[w] = uint32(v)
						list = append(list, int(w))
					}
				}
			}
		}
		labels := make([]uint32, g.Vertices())
		if got, err := Components(t.Context(), dev, g, labels); err != nil || got != count || !slices.Equal(labels, want) {
			t.Errorf("%d components, %v; want %d, or other labels", got, err, count)
		}
	})
}

func TestBFS(t *testing.T) {
	onShapes(t, func(t *testing.T, dev device.Device, g *graph.CSR) {
		depths := make([]uint32, g.Vertices())
		for _, source := range sources(g) {
			want := make([]uint32, g.Vertices())
			for v := range want {
				want[v] = Unreached
			}
			want[source] = 0
			var levels []int
			for list := []uint32{source}; len(list) > 0; list = list[1:] {
				u := list[0]
				if int(want[u]) == len(levels) {
					levels = append(levels, 0)
				}
				levels[want[u]]++
				for _, v := range g.Neighbors(u) {
					if want[v] == Unreached {
						want[v] = want[u] + 1
						list = append(list, v)
					}
				}
			}
			if got, err := BFS(t.Context(), dev, g, source, depths); err != nil || !slices.Equal(got, levels) || !slices.Equal(depths, want) {
				t.Fatalf("from %d: levels %v, %v; want %v, or other depths", source, got, err, levels)
			}
		}
	})
}

// sources returns vertices from which searches begin.
func sources(g *graph.CSR) []uint32 {
	if g.Vertices() == 0 {
		return nil
	}
	return slices.Compact([]uint32{0, uint32(g.Vertices() / 2), uint32(g.Vertices() - 1)})
}

func TestPageRank(t *testing.T) {
	onShapes(t, func(t *testing.T, dev device.Device, g *graph.CSR) {
		const iterations, damping = 12, 0.8
		n := g.Vertices()
		ranks := make([]uint64, n)
		r, err := PageRank(t.Context(), dev, g, ranks, &PageRankOptions{Damping: damping, Iterations: iterations, Tolerance: -1})
		if n == 0 {
			if err != nil || r.Iterations != 0 {
				t.Errorf("no vertices: %+v, %v", r, err)
			}
			return
		}
		if err != nil || r.Iterations != iterations {
			t.Fatalf("%+v, %v", r, err)
		}
		want := make([]float64, n)
		for v := range want {
			want[v] = 1 / float64(n)
		}
		for range iterations {
			next, dangling := make([]float64, n), 0.
			for u := range want {
				row := g.Neighbors(uint32(u))
				if len(row) == 0 {
					dangling += want[u]
				}
				for _, v := range row {
					next[v] += want[u] / float64(len(row))
				}
			}
			for v := range next {
				next[v] = (1-damping)/float64(n) + damping*(next[v]+dangling/float64(n))
			}
			want = next
		}
		sum := uint64(0)
		for v := range want {
			sum += ranks[v]
			if got := float64(ranks[v]) / RankOne; math.Abs(got-want[v]) > 1e-12 {
				t.Fatalf("rank of %d is %v, want %v", v, got, want[v])
			}
		}
		if maxLoss := uint64(iterations * 3 * (n + g.Arcs())); sum > RankOne || RankOne-sum > maxLoss {
			t.Errorf("ranks add up to 1 - %d units, want at most %d less", RankOne-sum, maxLoss)
		}
	})
}

// TestPageRankBits checks that ranks are the same to the bit on any number of cores, and in all
// versions of the package.
func TestPageRankBits(t *testing.T) {
	all := shapes()
	var first []uint64
	for workers := 1; workers <= 5; workers++ {
		dev := devicetest.OpenCPU(t, workers)
		g, err := graph.Build(t.Context(), dev, all[len(all)-2].Edges, &graph.Options{Directed: true})
		if err != nil {
			t.Fatal(err)
		}
		ranks := make([]uint64, g.Vertices())
		r, err := PageRank(t.Context(), dev, g, ranks, nil)
		if err != nil || r.Change > 1e-6 || r.Iterations == 100 {
			t.Fatalf("%+v, %v", r, err)
		}
		if first == nil {
			first = ranks
		}
		if !slices.Equal(ranks, first) {
			t.Fatalf("%d cores have other ranks", workers)
		}
	}
	digest := uint64(0)
	for _, r := range first {
		digest = digest*0x9e3779b97f4a7c15 + r
	}
	if want := uint64(rankDigest); digest != want {
		t.Errorf("the ranks are others: digest %#x, want %#x", digest, want)
	}
}

// rankDigest is the digest of TestPageRankBits on a machine with two cores.
const rankDigest = 0x99abe38b5d1900f3

func TestSSSP(t *testing.T) {
	onShapes(t, func(t *testing.T, dev device.Device, g *graph.CSR) {
		whole, large, floats := make([]uint32, g.Arcs()), make([]uint64, g.Arcs()), make([]float64, g.Arcs())
		r := rand.New(rand.NewPCG(1, uint64(g.Arcs())))
		for i := range whole {
			whole[i] = uint32(r.IntN(30))
			large[i] = r.Uint64N(1 << 45)
			floats[i] = r.ExpFloat64()
		}
		wantPaths(t, dev, graph.NewWeighted(g, whole))
		wantPaths(t, dev, graph.NewWeighted(g, large))
		for i := range whole { // equal weights: distances coincide with thresholds
			whole[i] = 3
		}
		wantPaths(t, dev, graph.NewWeighted(g, whole))
		for _, source := range sources(g) {
			weighted := graph.NewWeighted(g, floats)
			got := make([]float64, g.Vertices())
			reached, err := SSSP(t.Context(), dev, weighted, source, got)
			if want, n := bellmanFord(weighted, source, math.Inf(1)); err != nil || reached != n || !slices.Equal(got, want) {
				t.Fatalf("floats from %d: %d reached, %v; want %d, or other distances", source, reached, err, n)
			}
		}
	})
}

func wantPaths[W uint32 | uint64](t *testing.T, dev device.Device, g *graph.Weighted[W]) {
	t.Helper()
	for _, source := range sources(g.CSR) {
		got := make([]uint64, g.Vertices())
		reached, err := SSSP(t.Context(), dev, g, source, got)
		if want, n := bellmanFord(g, source, uint64(math.MaxUint64)); err != nil || reached != n || !slices.Equal(got, want) {
			t.Fatalf("from %d: %d reached, %v; want %d, or other distances", source, reached, err, n)
		}
	}
}

// bellmanFord computes distances by relaxing edges until no distance decreases.
func bellmanFord[W graph.Weight, D Distance](g *graph.Weighted[W], source uint32, unreached D) (at []D, reached int) {
	at = make([]D, g.Vertices())
	for v := range at {
		at[v] = unreached
	}
	at[source] = 0
	for list := []uint32{source}; len(list) > 0; list = list[1:] {
		u := list[0]
		for i, v := range g.Neighbors(u) {
			if d := at[u] + D(g.Weights(u)[i]); d < at[v] {
				at[v] = d
				list = append(list, v)
			}
		}
	}
	for _, d := range at {
		if d != unreached {
			reached++
		}
	}
	return at, reached
}

func TestKCore(t *testing.T) {
	onShapes(t, func(t *testing.T, dev device.Device, g *graph.CSR) {
		cores := make([]uint32, g.Vertices())
		largest, err := KCore(t.Context(), dev, g, cores)
		if g.Directed() {
			if !errors.Is(err, device.ErrInvalid) {
				t.Errorf("directed: %v", err)
			}
			return
		}
		want, wantLargest := peeled(g)
		if err != nil || largest != wantLargest || !slices.Equal(cores, want) {
			t.Errorf("largest core %d, %v; want %d, or others", largest, err, wantLargest)
		}
	})
}

// peeled computes core numbers by removing one vertex of the smallest degree at a time.
func peeled(g *graph.CSR) (cores []uint32, largest uint32) {
	cores = make([]uint32, g.Vertices())
	degrees, byDegree := make([]int, g.Vertices()), map[int][]uint32{}
	for u, v := range g.All() {
		if u != v {
			degrees[u]++
		}
	}
	for v, d := range degrees {
		byDegree[d] = append(byDegree[d], uint32(v))
	}
	for left, d := g.Vertices(), 0; left > 0; {
		list := byDegree[d]
		if len(list) == 0 {
			d++
			continue
		}
		v := list[len(list)-1]
		byDegree[d] = list[:len(list)-1]
		if degrees[v] != d {
			continue // it has moved
		}
		degrees[v] = -1
		largest = max(largest, uint32(d))
		cores[v] = largest
		left--
		for _, u := range g.Neighbors(v) {
			if degrees[u] > 0 && u != v {
				degrees[u]--
				byDegree[degrees[u]] = append(byDegree[degrees[u]], u)
				d = min(d, degrees[u])
			}
		}
	}
	return cores, largest
}

// TestErrors checks that invalid arguments return an error that explains them.
func TestErrors(t *testing.T) {
	dev := devicetest.OpenCPU(t, 1)
	g, err := graph.Build(t.Context(), dev, graph.Edges{Vertices: 4, From: []uint32{0, 1}, To: []uint32{1, 2}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	four, ranks, floats, whole := make([]uint32, 4), make([]uint64, 4), make([]float64, 4), make([]uint64, 4)
	gpu := devicetest.OpenSim(t, nil)
	rank := func(o PageRankOptions) func() error {
		return func() error { _, err := PageRank(t.Context(), dev, g, ranks, &o); return err }
	}
	for _, tt := range []struct {
		run  func() error
		want error
		say  string
	}{
		{func() error { _, err := BFS(t.Context(), dev, g, 4, four); return err }, device.ErrInvalid, "the source is 4, but there are 4 vertices"},
		{func() error {
			_, err := SSSP(t.Context(), dev, graph.NewWeighted(g, []int32{1, 1, 1, 1}), 9, floats)
			return err
		}, device.ErrInvalid, "the source is 9"},
		{func() error {
			_, err := SSSP(t.Context(), dev, graph.NewWeighted(g, []int32{1, 1, -5, 1}), 0, floats)
			return err
		}, device.ErrInvalid, "the edge from 1 to 2 has the invalid weight -5"},
		{func() error {
			_, err := SSSP(t.Context(), dev, graph.NewWeighted(g, []float32{1, 1, 1, float32(math.NaN())}), 0, floats)
			return err
		}, device.ErrInvalid, "the edge from 2 to 1 has the invalid weight NaN"},
		{func() error {
			_, err := SSSP(t.Context(), dev, graph.NewWeighted(g, []float32{1, 1, 1, 1}), 0, whole)
			return err
		}, device.ErrInvalid, "the weights are floats, but the distances are integers"},
		{func() error {
			_, err := SSSP(t.Context(), dev, graph.NewWeighted(g, []uint64{1, 1, 1 << 62, 1}), 0, whole)
			return err
		}, device.ErrInvalid, "too long for 64 bits"},
		{func() error { _, err := Sample(t.Context(), dev, g, []uint32{0, 4}, 2, four, nil); return err }, device.ErrInvalid, "vertex 1 of the batch is 4"},
		{rank(PageRankOptions{Damping: 1}), device.ErrInvalid, "Damping 1"},
		{rank(PageRankOptions{Damping: math.NaN()}), device.ErrInvalid, "Damping NaN"},
		{rank(PageRankOptions{Iterations: -1}), device.ErrInvalid, "Iterations -1"},
		{rank(PageRankOptions{Tolerance: math.NaN()}), device.ErrInvalid, "Tolerance"},
		{func() error { _, err := NewRanking(t.Context(), dev, g, &PageRankOptions{Warm: true}); return err }, device.ErrInvalid, "Warm"},
		{func() error { _, err := NewConnected(t.Context(), gpu, g); return err }, device.ErrUnsupported, "only on CPUs"},
	} {
		if err := tt.run(); !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.say) {
			t.Errorf("%v, want %v with %q", err, tt.want, tt.say)
		}
	}
	for name, f := range map[string]func(){
		"components": func() { Components(t.Context(), dev, g, four[:3]) },
		"sample":     func() { Sample(t.Context(), dev, g, []uint32{0}, 3, four, nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: a slice of another length does not panic", name)
				}
			}()
			f()
		}()
	}
}

// TestCancelled checks that every function returns the error of a cancelled context.
func TestCancelled(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	all := shapes()
	g, err := graph.Build(t.Context(), dev, all[len(all)-1].Edges, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	words, ranks := make([]uint32, g.Vertices()), make([]uint64, g.Vertices())
	for name, run := range map[string]func() error{
		"triangles":  func() error { _, err := Triangles(ctx, dev, g); return err },
		"components": func() error { _, err := Components(ctx, dev, g, words); return err },
		"BFS":        func() error { _, err := BFS(ctx, dev, g, 0, words); return err },
		"PageRank":   func() error { _, err := PageRank(ctx, dev, g, ranks, nil); return err },
		"SSSP": func() error {
			_, err := SSSP(ctx, dev, graph.NewWeighted(g, make([]uint32, g.Arcs())), 0, ranks)
			return err
		},
		"KCore":  func() error { _, err := KCore(ctx, dev, g, words); return err },
		"sample": func() error { _, err := Sample(ctx, dev, g, []uint32{1}, 1, words[:1], nil); return err },
	} {
		if err := run(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWarmPageRank checks that good initial ranks need fewer iterations, and correct ranks only
// one.
func TestWarmPageRank(t *testing.T) {
	onShapes(t, func(t *testing.T, dev device.Device, g *graph.CSR) {
		if g.Vertices() == 0 {
			return
		}
		ranks := make([]uint64, g.Vertices())
		first, err := PageRank(t.Context(), dev, g, ranks, nil)
		must(t, err)
		before := slices.Clone(ranks)
		warm, err := PageRank(t.Context(), dev, g, ranks, &PageRankOptions{Warm: true})
		must(t, err)
		off := 0.
		for v, r := range ranks {
			off += float64(max(r, before[v])-min(r, before[v])) / RankOne
		}
		if warm.Iterations != 1 || warm.Change != off || off > 1e-6 {
			t.Errorf("%d iterations, and %d more, by which ranks changed by %v, which it says is %v", first.Iterations, warm.Iterations, off, warm.Change)
		}
	})
}
