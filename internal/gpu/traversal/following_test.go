package traversal_test

import (
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/graph/algo"
	"github.com/weftgo/weft/internal/gpu/traversal"
	"github.com/weftgo/weft/internal/mutate"
)

// follower is a graph on a device, the structures that follow it there, and the same on the host.
type follower struct {
	testing.TB
	s         *device.Stream
	r         *rand.Rand
	g         *graph.Graph
	vertices  int
	ranking   *algo.Ranking
	connected *algo.Connected
	ranks     *algo.DeviceRanking
	parts     *algo.DeviceConnected
}

func follow(t testing.TB, dev device.Device, o graph.Options, vertices int, edges graph.Edges, ranks *algo.PageRankOptions) *follower {
	t.Helper()
	ctx := t.Context()
	p := &follower{TB: t, s: devicetest.NewStream(t, dev), r: rand.New(rand.NewPCG(5, uint64(vertices))), vertices: vertices}
	host := devicetest.OpenCPU(t, 1)
	edges.Vertices = vertices
	c, err := graph.Build(ctx, host, edges, &o)
	must(t, err)
	p.g, err = graph.New(dev, &o)
	must(t, err)
	_, err = p.g.InsertCSR(ctx, c)
	must(t, err)
	p.ranking, err = algo.NewRanking(ctx, host, c, ranks)
	must(t, err)
	p.connected, err = algo.NewConnected(ctx, host, c)
	must(t, err)
	d, err := c.Upload(p.s)
	must(t, err)
	p.ranks, err = algo.NewRankingOn(ctx, p.s, d, ranks)
	must(t, err)
	p.parts, err = algo.NewConnectedOn(ctx, p.s, d)
	must(t, err)
	must(t, errors.Join(p.s.Sync(ctx), d.Free()))
	p.same(algo.PageRankResult{}, algo.PageRankResult{})
	return p
}

func (p *follower) close() {
	must(p, errors.Join(p.ranks.Free(), p.parts.Free(), p.g.Close()))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// random returns edges, some of them repeated, and some from a hub.
func (p *follower) random(n int) (e graph.Edges) {
	for range n {
		u, v := uint32(p.r.IntN(p.vertices)), uint32(p.r.IntN(p.vertices))
		if p.r.IntN(4) == 0 {
			u = 1
		}
		e.From, e.To = append(e.From, u), append(e.To, v)
	}
	return e
}

func (p *follower) existing(n int) (e graph.Edges) {
	c, err := p.g.CSR(p.Context())
	must(p, err)
	for u, v := range c.All() {
		if p.r.IntN(c.Arcs()) < n {
			e.From, e.To = append(e.From, u), append(e.To, v)
		}
	}
	return e
}

// step inserts edges or deletes them, and makes all structures follow.
func (p *follower) step(e graph.Edges, deletes bool) {
	p.Helper()
	ctx := p.Context()
	list := graph.DeviceEdges{From: devicetest.Upload(p, p.s, e.From), To: devicetest.Upload(p, p.s, e.To), Done: devicetest.Upload(p, p.s, make([]bool, len(e.From)))}
	inserted, deleted := list, graph.DeviceEdges{}
	if deletes {
		inserted, deleted = deleted, inserted
		must(p, p.g.DeleteOn(p.s, list.From, list.To, list.Done))
	} else {
		must(p, p.g.InsertOn(p.s, list.From, list.To, list.Done))
	}
	added, removed := e.Filter(devicetest.Download(p, p.s, list.Done)), graph.Edges{}
	if deletes {
		added, removed = removed, added
	}
	want, err := p.ranking.Update(ctx, p.g, added, removed)
	must(p, err)
	got, err := p.ranks.Update(ctx, p.s, p.g, inserted, deleted)
	must(p, err)
	must(p, p.connected.Insert(ctx, added))
	must(p, p.parts.Insert(ctx, p.s, inserted))
	p.same(got, want)
}

func (p *follower) same(got, want algo.PageRankResult) {
	p.Helper()
	if ranks := devicetest.Download(p, p.s, p.ranks.Ranks()); got != want || !slices.Equal(ranks, p.ranking.Ranks()) {
		p.Fatalf("%+v, want %+v; ranks are those of the host: %v", got, want, slices.Equal(ranks, p.ranking.Ranks()))
	}
	labels, expected := devicetest.Upload(p, p.s, make([]uint32, p.connected.Vertices())), make([]uint32, p.connected.Vertices())
	p.connected.Labels(expected)
	must(p, p.parts.Labels(p.Context(), p.s, labels))
	if got := devicetest.Download(p, p.s, labels); p.parts.Count() != p.connected.Count() || !slices.Equal(got, expected) {
		p.Fatalf("%d components, want %d; labels are those of the host: %v", p.parts.Count(), p.connected.Count(), slices.Equal(got, expected))
	}
}

// followingTests run on the shipped kernels, and on broken ones.
var followingTests = []mutate.KernelTest{
	{Name: "many", Run: func(t testing.TB, dev device.Device) { // all vertices push
		for _, o := range []graph.Options{{SelfLoops: true}, {Directed: true, SelfLoops: true}} {
			p := follow(t, dev, o, 300, graph.Edges{}, &algo.PageRankOptions{Tolerance: 1e-3})
			p.step(p.random(700), false)
			p.step(p.existing(300), true)
			p.vertices = 340
			p.step(p.random(300), false)
			p.close()
		}
	}},
	{Name: "few", Run: func(t testing.TB, dev device.Device) { // some vertices push
		for _, o := range []graph.Options{{}, {Directed: true}} {
			e := ring(500)
			e.From, e.To = append(e.From, 7, 7, 7, 7), append(e.To, 100, 200, 300, 400)
			p := follow(t, dev, o, 560, e, &algo.PageRankOptions{Tolerance: 1e-3})
			p.step(graph.Edges{From: []uint32{5, 5}, To: []uint32{450, 450}}, false)
			p.step(graph.Edges{From: []uint32{550}, To: []uint32{551}}, false)
			p.step(graph.Edges{From: []uint32{300}, To: []uint32{301}}, true)
			p.step(graph.Edges{From: []uint32{551}, To: []uint32{20}}, false)
			p.step(graph.Edges{From: []uint32{550, 5}, To: []uint32{551, 6}}, true)
			p.close()
		}
	}},
	// some vertices in several blocks push to the same vertices
	{Name: "neighbors", Run: func(t testing.TB, dev device.Device) {
		e := graph.Edges{}
		for v := range uint32(280) { // equal ranks, so no vertex must push
			for d := range uint32(20) {
				e.From, e.To = append(e.From, v), append(e.To, (v+d+1)%280)
			}
		}
		p := follow(t, dev, graph.Options{}, 280, e, &algo.PageRankOptions{Tolerance: 0.1})
		p.step(graph.Edges{From: []uint32{0, 1, 2, 3}, To: []uint32{30, 31, 32, 33}}, false)
		p.close()
	}},
	{Name: "meeting", Run: func(t testing.TB, dev device.Device) { // trees of several blocks
		p := follow(t, dev, graph.Options{}, 1500, graph.Edges{}, &algo.PageRankOptions{Tolerance: 0.5})
		e := ring(1500)
		slices.Reverse(e.From)
		slices.Reverse(e.To)
		p.step(e, false)
		p.close()
	}},
	// edges that are not the graph's, and other graphs
	{Name: "elsewhere", Run: func(t testing.TB, dev device.Device) {
		const moved = "algo: ranking: invalid argument: vertex 9 has %d neighbors, want %d"
		some := graph.Edges{From: []uint32{9, 30}, To: []uint32{20, 31}}
		// never inserted
		wantMismatch(t, dev, graph.Options{}, graph.Edges{}, graph.Edges{}, some, 0, fmt.Sprintf(moved, 2, 3))
		// inserted, but not reported
		wantMismatch(t, dev, graph.Options{}, some, graph.Edges{}, graph.Edges{}, 410, fmt.Sprintf(moved, 3, 2))
		near := graph.Edges{From: []uint32{10}, To: []uint32{100}}
		// found when 10 pushes
		wantMismatch(t, dev, graph.Options{}, graph.Edges{From: []uint32{9}, To: []uint32{200}}, near, near, 0, fmt.Sprintf(moved, 3, 2))
		beyond, told := graph.Edges{From: []uint32{9}, To: []uint32{450}}, graph.Edges{From: []uint32{9}, To: []uint32{100}}
		wantMismatch(t, dev, graph.Options{Directed: true}, beyond, graph.Edges{}, told, 0, "vertex 9 has an edge beyond the 400 vertices")
		wantMismatch(t, dev, graph.Options{Directed: true}, beyond, graph.Edges{}, told, 410, "an edge leads to vertex 450")
	}},
	{Name: "too large", Run: func(t testing.TB, dev device.Device) {
		p := follow(t, dev, graph.Options{}, 40, ring(40), nil)
		e := graph.DeviceEdges{From: devicetest.Upload(t, p.s, []uint32{9, 30}), To: devicetest.Upload(t, p.s, []uint32{3, 1 << 31})}
		const want = "edge 1 from 30 to 2147483648: vertices are 0 to"
		if err := p.parts.Insert(t.Context(), p.s, e); err == nil || !strings.Contains(err.Error(), want) || p.parts.Count() != 1 {
			t.Fatalf("%d components: %v, want %q", p.parts.Count(), err, want)
		}
		p.close()
	}},
}

// wantMismatch inserts two lists of edges, hidden and inserted, into a ring of 400 vertices. It
// then updates a ranking with the edges in reported instead. The update must return an error that
// contains the text want.
func wantMismatch(t testing.TB, dev device.Device, o graph.Options, hidden, inserted, reported graph.Edges, vertices int, want string) {
	t.Helper()
	p := follow(t, dev, o, 400, ring(400), nil)
	for _, e := range []graph.Edges{hidden, inserted} {
		_, err := p.g.Insert(t.Context(), e.From, e.To, nil)
		must(t, err)
	}
	list := graph.DeviceEdges{Vertices: vertices, From: devicetest.Upload(t, p.s, reported.From), To: devicetest.Upload(t, p.s, reported.To)}
	if _, err := p.ranks.Update(t.Context(), p.s, p.g, list, graph.DeviceEdges{}); err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("%v, want %q", err, want)
	}
	p.close()
}

// ring returns edges from each vertex to the next.
func ring(n int) (e graph.Edges) {
	for v := range uint32(n) {
		e.From, e.To = append(e.From, v), append(e.To, (v+1)%uint32(n))
	}
	return e
}

func TestSmokeFollowing(t *testing.T) {
	dev := devicetest.OpenGPU(t)
	for _, test := range followingTests {
		t.Run(test.Name, func(t *testing.T) { test.Run(t, dev) })
	}
}

// Kernels are correct under random schedules of lanes, warps and blocks, with weak memory. A data
// race is an error.
func TestFollowingSchedules(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	mutate.RunOnSim(t, followingTests, 1, 90) // the text for sm_80 is the same
}

// followingMutants are broken variants of the kernels.
var followingMutants = []mutate.Fault{
	{"roots are joined at the scope of a block", "forest_unite", `atom\.relaxed\.gpu(\.global\.cas\.b32)`, "atom.relaxed.cta$1"},
	{"trees that were joined are counted at the scope of a block", "forest_unite", `atom\.relaxed\.gpu(\.global\.add\.u64)`, "atom.relaxed.cta$1"},
	{"paths are halved at the scope of a block", "forest_unite", `red\.relaxed\.gpu(\.global\.min\.u32)`, "red.relaxed.cta$1"},
	{"a vertex is touched once at the scope of a block", "follow_touch", `atom\.relaxed\.gpu(\.global\.or\.b32)`, "atom.relaxed.cta$1"},
	{"places in a list are given at the scope of a block", "follow_touch", `atom\.relaxed\.gpu(\.global\.add\.u64)`, "atom.relaxed.cta$1"},
	{"degrees change at the scope of a block", "follow_edges", `atom\.relaxed\.gpu(\.global\.add\.u32)`, "atom.relaxed.cta$1"},
	{"what is handed on is added at the scope of a block", "follow_spread", `atom\.relaxed\.gpu(\.global\.add\.u64)`, "atom.relaxed.cta$1"},
	{"marks are read without atomicity beside those who set them", "follow_spread", `ld\.relaxed\.gpu(\.global\.b32)`, "ld$1"},
}

// The tests of the kernels detect every mutant.
func TestFollowingMutants(t *testing.T) {
	mutate.RequireAllDetected(t, followingTests, followingMutants)
}

//go:embed testdata/following.txt
var followingSurvivors string

// Few random changes of the kernels go undetected; flags set the number tried.
func TestFollowingRandomMutants(t *testing.T) {
	mutate.Run(t, mutate.Config{Images: []*device.Image{traversal.FollowingImage}, Reasons: followingSurvivors, Trials: map[string]func(*mutate.Mutant) []mutate.Trial{
		traversal.FollowingImage.String(): func(m *mutate.Mutant) []mutate.Trial {
			return slices.Concat(mutate.DeviceTrials(m.Arch, 1, followingTests))
		},
	}})
}
