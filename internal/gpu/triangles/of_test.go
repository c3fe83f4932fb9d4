package triangles_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/internal/gpu/triangles"
)

// Twins of constants in graph_table.cuh.
const (
	recordWords = 8
	inline      = 6 // neighbors in a record
	unitEntries = 8
)

// dynamicGraph lays a graph out as package graph does: records, and rows in blocks of units of the
// given number of bytes.
func (b bench) dynamicGraph(g *graph.CSR, unit int) triangles.Graph {
	b.Helper()
	records, pool := make([]uint32, max(1, recordWords*g.Vertices())), make([]uint32, unit/4)
	for v := range g.Vertices() {
		r, row := records[recordWords*v:][:recordWords], g.Neighbors(uint32(v))
		if r[0] = uint32(len(row)); len(row) <= inline {
			copy(r[2:], row)
			continue
		}
		r[1], r[2] = 1, uint32(len(pool)*4/unit)
		pool = append(pool, row...)
		pool = append(pool, make([]uint32, (unit-len(pool)*4%unit)%unit/4)...)
	}
	r, p := devicetest.Upload(b, b.s, records), devicetest.Upload(b, b.s, pool)
	return triangles.Graph{Records: r.Ptr(), Pool: p.Ptr(), Vertices: uint32(g.Vertices()), Unit: uint32(unit)}
}

// edgeSet is a set of edges, from their smaller end.
type edgeSet map[[2]uint32]bool

func setOf(from, to []uint32) edgeSet {
	s := make(edgeSet)
	for i, u := range from {
		s[[2]uint32{min(u, to[i]), max(u, to[i])}] = true
	}
	return s
}

// countTouching counts by brute force the triangles that contain at least one of the edges.
func countTouching(g *graph.CSR, edges edgeSet) (count uint64) {
	all := make(edgeSet)
	for u, v := range g.All() {
		all[[2]uint32{u, v}] = u < v
	}
	for e, up := range all {
		if !up {
			continue
		}
		// parallel edges count once
		for _, w := range slices.Compact(slices.Clone(g.Neighbors(e[1]))) {
			if vw, uw := [2]uint32{e[1], w}, [2]uint32{e[0], w}; w > e[1] && all[uw] && (edges[e] || edges[vw] || edges[uw]) {
				count++
			}
		}
	}
	return count
}

func (b bench) checkOf(e graph.Edges, picked, unit int, seed uint64) {
	b.Helper()
	g := build(b, e, &graph.Options{SelfLoops: true, Multi: seed%2 == 0})
	rng := rand.New(rand.NewPCG(seed, 2))
	from, to := make([]uint32, picked), make([]uint32, picked)
	for i := range from {
		if j := rng.IntN(len(e.From) + 4); j < len(e.From) {
			from[i], to[i] = e.From[j], e.To[j]
			if j%2 == 1 {
				from[i], to[i] = to[i], from[i]
			}
		} else { // an edge or a vertex that may not exist
			from[i], to[i] = rng.Uint32N(uint32(e.Vertices)), rng.Uint32N(uint32(e.Vertices+e.Vertices/4))
		}
	}
	mask, batch := device.Slice[bool]{}, graph.Edges{From: from, To: to}
	if picked%2 == 1 { // only some of them count
		marked := make([]bool, picked)
		for i := range marked {
			marked[i] = rng.IntN(3) > 0
		}
		mask, batch = devicetest.Upload(b, b.s, marked), batch.Filter(marked)
	}
	want := countTouching(g, setOf(batch.From, batch.To))
	got, err := b.k.CountBatch(context.Background(), b.s, b.dynamicGraph(g, unit), devicetest.Upload(b, b.s, from), devicetest.Upload(b, b.s, to), mask)
	must(b, err)
	if got != want {
		b.Errorf("%d of %d edges, %d vertices: %d triangles, want %d", picked, len(e.From), e.Vertices, got, want)
	}
}

// checkLast uses a batch of all edges of the graph. Several lead to the last vertex, so no key
// follows the keys of these edges.
func (b bench) checkLast() {
	b.Helper()
	from, to := []uint32{0, 1, 2, 3, 0}, []uint32{5, 5, 5, 5, 1}
	fewer := clique(5) // some vertices have more neighbors than the last one
	fewer.From, fewer.To, fewer.Vertices = append(fewer.From, from[:4]...), append(fewer.To, to[:4]...), 6
	for _, e := range []graph.Edges{clique(6), fewer} {
		g := build(b, e, nil)
		got, err := b.k.CountBatch(context.Background(), b.s, b.dynamicGraph(g, 32), devicetest.Upload(b, b.s, from), devicetest.Upload(b, b.s, to), device.Slice[bool]{})
		if want := countTouching(g, setOf(from, to)); err != nil || got != want {
			b.Errorf("%d edges, of which some lead to the last vertex: %d triangles, %v, want %d", len(e.From), got, err, want)
		}
	}
}

// Triangles of edges are those that contain one of them, also for repeated and reversed edges, and
// for none.
func TestSmokeOf(t *testing.T) {
	b := on(t, devicetest.OpenGPU(t))
	for i, e := range []graph.Edges{clique(3), clique(30), random(40, 200, 1), random(300, 3000, 2), hubs(300)} {
		for _, picked := range []int{0, 1, 3, 50, 777, 2000} {
			b.checkOf(e, picked, []int{32, 64, 96}[i%3], uint64(picked))
		}
	}
	empty, err := b.k.CountBatch(t.Context(), b.s, triangles.Graph{Unit: 32}, devicetest.Upload(t, b.s, []uint32{1}), devicetest.Upload(t, b.s, []uint32{2}), device.Slice[bool]{})
	if empty != 0 || err != nil {
		t.Errorf("of a graph without vertices: %d, %v", empty, err)
	}
}

// Hubs with more neighbors than a warp processes are left to a block, whichever end of an edge has
// fewer neighbors.
func TestSmokeWide(t *testing.T) { tryWide(t, devicetest.OpenGPU(t)) }

func tryWide(t testing.TB, dev device.Device) {
	b := on(t, dev)
	const n = 9000
	e := hubs(n)
	for v := uint32(3); v < n; v++ {
		if v%29 != 0 {
			e.From, e.To = append(e.From, 2), append(e.To, v) // a third hub, next to the others
		}
	}
	for _, turned := range []bool{false, true} {
		as := func(v uint32) uint32 {
			if turned {
				return n - 1 - v
			}
			return v
		}
		all := graph.Edges{Vertices: n}
		for i, u := range e.From {
			all.From, all.To = append(all.From, as(u)), append(all.To, as(e.To[i]))
		}
		g := build(t, all, &graph.Options{SelfLoops: true})
		dynamic := b.dynamicGraph(g, 32)
		for _, ends := range [][2][]uint32{
			{{1, 5}, {0, 1}},
			// triangles with one, two and three of these edges
			{{0, 1, 2, 2, 700, 2, 40, 0, 2}, {1, 2, 0, 700, 0, 699, 41, 8000, 1}},
		} {
			from, to := make([]uint32, len(ends[0])), make([]uint32, len(ends[0]))
			for i := range from {
				from[i], to[i] = as(ends[0][i]), as(ends[1][i])
			}
			want := countTouching(g, setOf(from, to))
			got, err := b.k.CountBatch(context.Background(), b.s, dynamic, devicetest.Upload(t, b.s, from), devicetest.Upload(t, b.s, to), device.Slice[bool]{})
			if err != nil || got != want || want < 8000 {
				t.Errorf("%d edges, turned %v: %d triangles, %v, want %d", len(from), turned, got, err, want)
			}
		}
	}
}
