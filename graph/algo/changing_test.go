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
	"github.com/weftgo/weft/internal/conformance"
)

// follower is a mutable graph with results that are maintained from batch to batch.
type follower struct {
	*testing.T
	cpu       device.Device
	r         *rand.Rand
	g         *graph.Graph
	vertices  int
	triangles uint64
	connected *Connected
	ranking   *Ranking
}

// follow returns a follower of an empty graph.
func follow(t *testing.T, dev, cpu device.Device, o graph.Options, seed uint64, vertices int, ranks *PageRankOptions) *follower {
	g, err := graph.New(dev, &o)
	must(t, err)
	t.Cleanup(func() { must(t, g.Close()) })
	all := make([]uint32, vertices)
	for i := range all {
		all[i] = uint32(i)
	}
	_, err = g.InsertVertices(t.Context(), all)
	must(t, err)
	f := &follower{T: t, cpu: cpu, r: rand.New(rand.NewPCG(seed, 3)), g: g, vertices: vertices}
	c, err := g.CSR(t.Context())
	must(t, err)
	f.connected, err = NewConnected(t.Context(), cpu, c)
	must(t, err)
	f.ranking, err = NewRanking(t.Context(), cpu, c, ranks)
	must(t, err)
	return f
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// draw returns random edges, a part of them repeated and a part from a hub. If existing is set, it
// returns present edges.
func (f *follower) draw(n int, existing bool) (e graph.Edges) {
	if existing {
		c, err := f.g.CSR(f.Context())
		must(f.T, err)
		for u, v := range c.All() {
			if f.r.IntN(c.Arcs()) < n {
				e.From, e.To = append(e.From, u), append(e.To, v)
			}
		}
		return e
	}
	for range n {
		u, v := f.r.IntN(f.vertices), f.r.IntN(f.vertices)
		if f.r.IntN(4) == 0 {
			u = 1
		}
		e.From, e.To = append(e.From, uint32(u)), append(e.To, uint32(v))
	}
	return e
}

// step runs a batch and updates the maintained results.
func (f *follower) step(deletes bool, n int) {
	ctx := f.Context()
	e := f.draw(n, deletes && f.r.IntN(2) == 0)
	before, err := f.g.Snapshot(ctx)
	must(f.T, err)
	done := make([]bool, len(e.From))
	if deletes {
		_, err = f.g.Delete(ctx, e.From, e.To, done)
	} else {
		_, err = f.g.Insert(ctx, e.From, e.To, done)
	}
	must(f.T, err)
	changed, none := e.Filter(done), graph.Edges{}
	inserted, deleted := changed, none
	if deletes {
		inserted, deleted = none, changed
	}
	if !f.g.Directed() {
		f.triangles += f.trianglesOf(f.g, inserted) - f.trianglesOf(before, deleted)
	}
	must(f.T, before.Close())
	_, err = f.ranking.Update(ctx, f.g, inserted, deleted)
	must(f.T, err)
	if deletes {
		c, err := f.g.CSR(ctx)
		must(f.T, err)
		must(f.T, f.connected.Reset(ctx, c))
	} else {
		must(f.T, f.connected.Insert(ctx, e))
	}
}

// trianglesOf counts triangles on the host and on the graph's device, and compares the counts.
func (f *follower) trianglesOf(g Reader, e graph.Edges) uint64 {
	f.Helper()
	want, err := TrianglesOf(f.Context(), f.cpu, g, e)
	must(f.T, err)
	got, err := TrianglesOf(f.Context(), f.g.Device(), g, e)
	must(f.T, err)
	if got != want {
		f.Fatalf("%d triangles of %d edges where the graph is, %d on the host", got, len(e.From), want)
	}
	f.trianglesOn(g, e, want)
	return want
}

// trianglesOn counts triangles on a GPU, of edges in device memory that a mask selects from others.
func (f *follower) trianglesOn(g Reader, e graph.Edges, want uint64) {
	f.Helper()
	dev := f.g.Device()
	if isHost(dev) {
		return
	}
	s := devicetest.NewStream(f, dev)
	n := len(e.From)
	only := make([]bool, 2*n)
	for i := range n {
		only[2*i] = true
	}
	var from, to []uint32
	for i, u := range e.From {
		from, to = append(from, u, e.To[n-1-i]), append(to, e.To[i], uint32(i))
	}
	got, err := TrianglesOfOn(f.Context(), s, g, devicetest.Upload(f, s, from), devicetest.Upload(f, s, to), devicetest.Upload(f, s, only))
	must(f.T, err)
	if got != want {
		f.Fatalf("%d triangles of %d edges on the device, %d on the host", got, n, want)
	}
}

// same compares the maintained results with newly computed results.
func (f *follower) same(exact *PageRankOptions, off float64) {
	f.Helper()
	ctx := f.Context()
	c, err := f.g.CSR(ctx)
	must(f.T, err)
	if !c.Directed() {
		want, err := Triangles(ctx, f.cpu, c)
		must(f.T, err)
		if f.triangles != want {
			f.Fatalf("%d triangles, want %d", f.triangles, want)
		}
	}
	labels, got := make([]uint32, c.Vertices()), make([]uint32, f.connected.Vertices())
	count, err := Components(ctx, f.cpu, c, labels)
	must(f.T, err)
	one := f.connected.Label(uint32(len(labels) / 2))
	f.connected.Labels(got)
	if f.connected.Count() != count || !slices.Equal(got, labels) || one != labels[len(labels)/2] {
		f.Fatalf("%d components, want %d; labels are the same: %v", f.connected.Count(), count, slices.Equal(got, labels))
	}
	ranks := make([]uint64, c.Vertices())
	_, err = PageRank(ctx, f.cpu, c, ranks, exact)
	must(f.T, err)
	if len(f.ranking.Ranks()) != len(ranks) {
		f.Fatalf("%d ranks of %d vertices", f.ranking.Vertices(), len(ranks))
	}
	sum := 0.
	for v, r := range f.ranking.Ranks() {
		sum += math.Abs(float64(r)-float64(ranks[v])) / RankOne
	}
	if sum > off {
		f.Fatalf("ranks are %g off, at most %g are allowed", sum, off)
	}
}

// TestFollowing checks over long histories that maintained results equal newly computed results.
// Ranks may differ within the tolerance.
func TestFollowing(t *testing.T) {
	conformance.SkipRaced(t, "batches run on many cores in tests of graphs")
	const tolerance, damping = 1e-5, 0.85
	for _, o := range []graph.Options{{}, {SelfLoops: true}, {Directed: true}, {Directed: true, SelfLoops: true}} {
		for seed, size := range []int{3, 40, 700} {
			t.Run(fmt.Sprintf("directed=%v/loops=%v/%d", o.Directed, o.SelfLoops, size), func(t *testing.T) {
				dev := devicetest.OpenCPU(t, 1+seed)
				f := follow(t, dev, dev, o, uint64(seed), 400, &PageRankOptions{Tolerance: tolerance, Damping: damping})
				for i := range 60 {
					if i == 30 {
						f.vertices = 450 // some are new
					}
					f.step(i%3 == 2 || i > 50, size)
					if size > 3 || i%10 == 9 {
						// Both differ from the exact ranks at most by the tolerance or by rounding.
						f.same(&PageRankOptions{Tolerance: 1e-13, Iterations: 300, Damping: damping}, tolerance*damping/(1-damping)+1e-12)
					}
				}
			})
		}
	}
}

// TestFollowingOnGPU runs TestFollowing with a graph on a GPU.
func TestFollowingOnGPU(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	f := follow(t, devicetest.OpenSim(t, nil), devicetest.OpenCPU(t, 2), graph.Options{}, 1, 60, nil)
	for i := range 4 {
		f.step(i == 2, 50)
	}
	f.same(&PageRankOptions{Tolerance: 1e-13, Iterations: 300}, 1e-5)
}

// TestRankingBits checks that maintained ranks are the same to the bit on any number of cores.
func TestRankingBits(t *testing.T) {
	conformance.SkipRaced(t, "batches run on many cores in tests of graphs")
	var first []uint64
	for workers := 1; workers <= 4; workers++ {
		dev := devicetest.OpenCPU(t, workers)
		f := follow(t, dev, dev, graph.Options{Directed: true}, 5, 3000, nil)
		for i := range 6 {
			f.step(i%3 == 2, 4000)
		}
		if first == nil {
			first = slices.Clone(f.ranking.Ranks())
		}
		if !slices.Equal(first, f.ranking.Ranks()) {
			t.Fatalf("%d cores have other ranks", workers)
		}
	}
}

// TestRankingIsLocal checks that after inserting one edge into a ring, an update reads rows near
// the edge and few others.
func TestRankingIsLocal(t *testing.T) {
	ctx := t.Context()
	dev := devicetest.OpenCPU(t, 2)
	const n = 1 << 14
	f := follow(t, dev, dev, graph.Options{}, 1, n, nil)
	ring, none := graph.Edges{}, graph.Edges{}
	for v := range uint32(n) {
		ring.From, ring.To = append(ring.From, v), append(ring.To, (v+1)%n)
	}
	read := &counting{Reader: f.g}
	_, err := f.g.Insert(ctx, ring.From, ring.To, nil)
	must(t, err)
	_, err = f.ranking.Update(ctx, read, ring, none)
	must(t, err)
	if read.rows != 0 {
		t.Errorf("for a ring of %d vertices, all of it new, %d rows were read, want the whole graph once", n, read.rows)
	}
	chord := graph.Edges{From: []uint32{5}, To: []uint32{n / 2}}
	_, err = f.g.Insert(ctx, chord.From, chord.To, nil)
	must(t, err)
	result, err := f.ranking.Update(ctx, read, chord, none)
	must(t, err)
	if result.Iterations < 10 || result.Change > 1e-6 || read.rows < 10 || read.rows > n {
		t.Errorf("for one edge, %+v and %d rows were read", result, read.rows)
	}
}

// counting is a Reader that counts the rows read.
type counting struct {
	Reader
	rows int
}

func (c *counting) Rows(ctx context.Context, vertices []uint32) ([]uint64, []uint32, error) {
	c.rows += len(vertices)
	return c.Reader.Rows(ctx, vertices)
}

// TestConnectedPath checks that deep trees stay fast. Each edge is linked to the end of a path that
// grows downwards.
func TestConnectedPath(t *testing.T) {
	const n = 1 << 16
	dev := devicetest.OpenCPU(t, 3)
	g, err := graph.Build(t.Context(), dev, graph.Edges{Vertices: n}, nil)
	must(t, err)
	c, err := NewConnected(t.Context(), dev, g)
	must(t, err)
	e := graph.Edges{}
	for v := uint32(n - 1); v > 0; v-- {
		e.From, e.To = append(e.From, n-1), append(e.To, v-1)
	}
	must(t, c.Insert(t.Context(), e))
	if c.Count() != 1 || c.Label(n-1) != 0 {
		t.Errorf("%d components, the last vertex is in that of %d", c.Count(), c.Label(n-1))
	}
}

// TestRankingErrors checks that edges that do not lead to the graph return an error and invalidate
// the ranks, and that an ended context changes nothing.
func TestRankingErrors(t *testing.T) {
	ctx := t.Context()
	dev := devicetest.OpenCPU(t, 2)
	one, none := graph.Edges{From: []uint32{3}, To: []uint32{4}}, graph.Edges{}
	for _, tt := range []struct {
		do  func(f *follower) error
		say string
	}{
		{func(f *follower) error { _, err := f.ranking.Update(ctx, f.g, one, none); return err }, "vertex 3 has 0 neighbors, want 1"},
		{func(f *follower) error { _, err := f.ranking.Update(ctx, f.g, none, one); return err }, "vertex 3 has 0 neighbors"},
		{func(f *follower) error {
			_, err := f.ranking.Update(ctx, f.g, none, graph.Edges{From: []uint32{1}, To: []uint32{50}})
			return err
		}, "edge 0 from 1 to 50 was deleted, but there were only 50 vertices"},
		{func(f *follower) error {
			g, err := graph.New(dev, &graph.Options{Directed: true})
			must(t, err)
			_, err = f.ranking.Update(ctx, g, none, none)
			return errors.Join(err, g.Close())
		}, "directed to undirected"},
		{func(f *follower) error { // the degrees match, but the ends do not
			_, err := f.g.Insert(ctx, []uint32{3, 60, 61, 62, 63, 64}, []uint32{59, 3, 3, 3, 3, 3}, nil)
			must(t, err)
			ends := []uint32{3, 4, 5, 6, 7, 8}
			_, err = f.ranking.Update(ctx, f.g, graph.Edges{From: []uint32{3, 3, 3, 3, 3, 3}, To: ends}, none)
			return err
		}, "by the inserted and deleted edges"},
	} {
		f := follow(t, dev, dev, graph.Options{}, 1, 50, nil)
		if err := tt.do(f); !errors.Is(err, device.ErrInvalid) || !strings.Contains(err.Error(), tt.say) {
			t.Errorf("%v, want %q", err, tt.say)
		}
		if _, err := f.ranking.Update(ctx, f.g, none, none); !errors.Is(err, device.ErrInvalid) {
			t.Errorf("behind an error: %v", err)
		}
	}
	f := follow(t, dev, dev, graph.Options{}, 1, 50, nil)
	e := f.draw(60, false)
	done := make([]bool, len(e.From))
	_, err := f.g.Insert(ctx, e.From, e.To, done)
	must(t, err)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := f.ranking.Update(ended, f.g, e.Filter(done), none); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := f.ranking.Update(ctx, f.g, none, none); err != nil {
		t.Error(err)
	}
	must(t, f.connected.Insert(ctx, e))
	f.triangles, err = TrianglesOf(ctx, dev, f.g, e)
	must(t, err)
	f.same(&PageRankOptions{Tolerance: 1e-13, Iterations: 300}, 1e-5)

	n, err := f.g.InsertVertices(ctx, []uint32{79})
	must(t, err)
	if _, err := f.ranking.Update(ctx, f.g, graph.Edges{Vertices: 80}, none); err != nil || n != 1 {
		t.Errorf("%d vertices more: %v", n, err)
	}
	must(t, f.connected.Insert(ctx, graph.Edges{From: []uint32{79}, To: []uint32{79}}))
	f.same(&PageRankOptions{Tolerance: 1e-13, Iterations: 300}, 1e-5)

	c, err := f.g.CSR(ctx)
	must(t, err)
	if _, err := NewRanking(ctx, dev, c, &PageRankOptions{Tolerance: -1}); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("a tolerance of nothing: %v", err)
	}
	if err := f.connected.Insert(ended, e); !errors.Is(err, context.Canceled) {
		t.Errorf("connected, cancelled: %v", err)
	}
	if _, err := TrianglesOf(ended, dev, f.g, e); !errors.Is(err, context.Canceled) {
		t.Errorf("triangles, cancelled: %v", err)
	}
	directed, err := graph.New(dev, &graph.Options{Directed: true})
	must(t, err)
	defer directed.Close()
	if _, err := TrianglesOf(ctx, dev, directed, e); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("triangles of a directed graph: %v", err)
	}
	mask, err := device.Make[bool](dev, 1)
	must(t, err)
	defer mask.Free()
	for name, call := range map[string]func(e graph.Edges){
		"connected": func(e graph.Edges) { f.connected.Insert(ctx, e) },
		"triangles": func(e graph.Edges) { TrianglesOf(ctx, dev, f.g, e) },
		"only":      func(graph.Edges) { TrianglesOfOn(ctx, nil, f.g, device.Slice[uint32]{}, device.Slice[uint32]{}, mask) },
		"ranking":   func(e graph.Edges) { f.ranking.Update(ctx, f.g, e, none) },
		"labels":    func(graph.Edges) { f.connected.Labels(nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: lists of other lengths do not panic", name)
				}
			}()
			call(graph.Edges{From: []uint32{1}})
		}()
	}
}

// TestTrianglesOfMultigraph checks that parallel edges count as one edge.
func TestTrianglesOfMultigraph(t *testing.T) {
	dev, ctx := devicetest.OpenCPU(t, 2), t.Context()
	r := rand.New(rand.NewPCG(8, 1))
	var e graph.Edges
	for range 900 {
		u, v := uint32(r.IntN(40)), uint32(r.IntN(40)*r.IntN(2))
		e.From, e.To = append(e.From, u), append(e.To, v)
	}
	var counts []uint64
	for _, multi := range []bool{false, true} {
		g, err := graph.New(dev, &graph.Options{Multi: multi, SelfLoops: true})
		must(t, err)
		_, err = g.Insert(ctx, e.From, e.To, nil)
		must(t, err)
		c, err := g.CSR(ctx)
		must(t, err)
		all, err := Triangles(ctx, dev, c)
		must(t, err)
		n, err := TrianglesOf(ctx, dev, g, graph.Edges{From: e.From[:300], To: e.To[:300]})
		must(t, err)
		counts = append(counts, all, n)
		must(t, g.Close())
	}
	if counts[0] == 0 || counts[1] == 0 || counts[0] != counts[2] || counts[1] != counts[3] {
		t.Errorf("all triangles and those of some edges: %v, of a multigraph %v", counts[:2], counts[2:])
	}
}
