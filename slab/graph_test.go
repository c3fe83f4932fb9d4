package slab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// edge is an edge of a model. In an undirected graph from is the smaller end.
type edge struct{ from, to uint32 }

// graphPlayer applies a random history to a graph, with or without weights, and to a map of edges.
type graphPlayer struct {
	testing.TB
	r        *rand.Rand
	set      *Graph
	weighted *WeightedGraph[uint32]
	g        *graph
	model    map[edge]uint32
	vertices int
	size     int // maximum size of batches
}

func newGraphPlayer(t testing.TB, dev device.Device, weighted bool, o GraphOptions, vertices, size int, seed uint64) *graphPlayer {
	t.Helper()
	p := &graphPlayer{TB: t, r: rand.New(rand.NewPCG(seed, 3)), model: map[edge]uint32{}, vertices: vertices, size: size}
	var err error
	if weighted {
		p.weighted, err = NewWeightedGraph[uint32](dev, &o)
		noError(t, err)
		p.g = &p.weighted.graph
	} else {
		p.set, err = NewGraph(dev, &o)
		noError(t, err)
		p.g = &p.set.graph
	}
	return p
}

func (p *graphPlayer) close() { noError(p, p.g.Close()) }

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (p *graphPlayer) key(u, v uint32) edge {
	if !p.g.Directed() && u > v {
		u, v = v, u
	}
	return edge{u, v}
}

// draw returns random edges. Half of them have a hub as an end, some occur twice, and some are
// loops.
func (p *graphPlayer) draw() (from, to, weights []uint32) {
	for range 1 + p.r.IntN(p.size) {
		u, v := uint32(p.r.IntN(p.vertices)), uint32(p.r.IntN(p.vertices))
		if p.r.IntN(2) == 0 {
			u = uint32(p.r.IntN(3))
		}
		if p.r.IntN(2) == 0 {
			u, v = v, u
		}
		from, to, weights = append(from, u), append(to, v), append(weights, p.r.Uint32())
	}
	return from, to, weights
}

// insert inserts edges and compares each result with the model.
func (p *graphPlayer) insert(from, to, weights []uint32) {
	p.Helper()
	done, ctx := make([]bool, len(from)), p.Context()
	var n int
	var err error
	if p.weighted != nil {
		n, err = p.weighted.Insert(ctx, from, to, weights, done)
	} else {
		n, err = p.set.Insert(ctx, from, to, done)
	}
	noError(p, err)
	fresh, flagged := map[edge]bool{}, map[edge]bool{}
	for i, u := range from {
		k := p.key(u, to[i])
		_, there := p.model[k]
		if u != to[i] {
			p.model[k] = weights[i]
		}
		is := u != to[i] && !there
		if is {
			fresh[k] = true
		}
		if done[i] != is {
			p.Fatalf("edge %d, %d-%d, inserted: %v, want %v", i, u, to[i], done[i], is)
		}
		if done[i] {
			flagged[k] = true
		}
	}
	if n != len(fresh) || !maps.Equal(fresh, flagged) {
		p.Fatalf("%d edges inserted, which are %v, want %v", n, flagged, fresh)
	}
}

func (p *graphPlayer) delete(from, to []uint32) {
	p.Helper()
	done := make([]bool, len(from))
	n, err := p.g.Delete(p.Context(), from, to, done)
	noError(p, err)
	want := 0
	for i, u := range from {
		k := p.key(u, to[i])
		_, there := p.model[k]
		delete(p.model, k)
		if there {
			want++
		}
		if done[i] != there {
			p.Fatalf("edge %d, %d-%d, deleted: %v, want %v", i, u, to[i], done[i], there)
		}
	}
	if n != want {
		p.Fatalf("%d edges deleted, want %d", n, want)
	}
}

// present returns present edges, some of them reversed, and some absent edges.
func (p *graphPlayer) present() (from, to []uint32) {
	for _, e := range p.edges() {
		if p.r.IntN(3) == 0 {
			from, to = append(from, e.from, e.from), append(to, e.to, uint32(p.r.IntN(p.vertices)))
			if !p.g.Directed() {
				from[len(from)-2], to[len(to)-2] = e.to, e.from
			}
		}
	}
	return from, to
}

// edges returns the edges of the model, sorted.
func (p *graphPlayer) edges() []edge {
	return slices.SortedFunc(maps.Keys(p.model), func(a, b edge) int {
		return slices.Compare([]uint32{a.from, a.to}, []uint32{b.from, b.to})
	})
}

func (p *graphPlayer) deleteVertices() {
	p.Helper()
	hub := uint32(p.r.IntN(3))
	ids := []uint32{hub, uint32(p.r.IntN(p.vertices)), (hub + 1) % 3, hub, uint32(p.r.IntN(p.vertices)), uint32(p.vertices), 1<<32 - 1}
	n, err := p.g.DeleteVertices(p.Context(), ids)
	noError(p, err)
	before := len(p.model)
	maps.DeleteFunc(p.model, func(e edge, _ uint32) bool { return slices.Contains(ids, e.from) || slices.Contains(ids, e.to) })
	if n != before-len(p.model) {
		p.Fatalf("%d edges of vertices deleted, want %d", n, before-len(p.model))
	}
}

func (p *graphPlayer) step() {
	p.Helper()
	switch p.r.IntN(12) {
	case 10, 11:
		p.apply()
	case 0, 1, 2, 3, 4:
		p.insert(p.draw())
	case 5, 6:
		p.delete(p.present())
	case 7:
		from, to, _ := p.draw()
		p.delete(from, to)
	case 8:
		p.deleteVertices()
	default:
		if p.r.IntN(4) == 0 {
			noError(p, p.g.Clear(p.Context()))
			clear(p.model)
		} else {
			noError(p, p.g.Compact(p.Context()))
		}
	}
	if p.g.Edges() != len(p.model) {
		p.Fatalf("%d edges, want %d", p.g.Edges(), len(p.model))
	}
}

// same compares the graph with the model.
func (p *graphPlayer) same() {
	p.Helper()
	ctx := p.Context()
	noError(p, p.g.Check(ctx))
	noError(p, p.g.checkMemory())
	rows := make([]map[uint32]uint32, p.vertices+2)
	for i := range rows {
		rows[i] = map[uint32]uint32{}
	}
	for e, w := range p.model {
		rows[e.from][e.to] = w
		if !p.g.Directed() {
			rows[e.to][e.from] = w
		}
	}
	all, degrees := sequence(0, len(rows)), make([]uint32, len(rows))
	noError(p, p.g.Degree(ctx, all, degrees))
	var offsets []uint64
	var ids, weights []uint32
	var err error
	if p.weighted != nil {
		offsets, ids, weights, err = p.weighted.Rows(ctx, all)
	} else {
		offsets, ids, err = p.set.Rows(ctx, all)
		weights = make([]uint32, len(ids))
	}
	noError(p, err)
	for u, want := range rows {
		got := map[uint32]uint32{}
		for i := offsets[u]; i < offsets[u+1]; i++ {
			if got[ids[i]] = weights[i]; p.weighted == nil {
				got[ids[i]] = want[ids[i]]
			}
		}
		if int(degrees[u]) != len(want) || int(offsets[u+1]-offsets[u]) != len(want) || !maps.Equal(got, want) {
			p.Fatalf("vertex %d of degree %d has %v in %d rows, want %v", u, degrees[u], got, offsets[u+1]-offsets[u], want)
		}
	}
	p.lookups(rows)
	s, err := p.g.Stats(ctx)
	noError(p, err)
	p.sizes(s)
}

// lookups compares lookups of present and absent edges with the model.
func (p *graphPlayer) lookups(rows []map[uint32]uint32) {
	p.Helper()
	var from, to []uint32
	for u, row := range rows {
		for v := range row {
			from, to = append(from, uint32(u), v), append(to, v, uint32(u))
		}
		from, to = append(from, uint32(u), 1<<32-1, uint32(u)), append(to, uint32(p.r.IntN(p.vertices)), uint32(u), 1<<32-1)
	}
	found, vals, hits := make([]bool, len(from)), make([]uint32, len(from)), 0
	var n int
	var err error
	if p.weighted != nil {
		n, err = p.weighted.Weight(p.Context(), from, to, vals, found)
	} else {
		n, err = p.set.Has(p.Context(), from, to, found)
	}
	noError(p, err)
	for i, u := range from {
		var w uint32
		var there bool
		if int(u) < len(rows) {
			w, there = rows[u][to[i]]
		}
		if there {
			hits++
		}
		if found[i] != there || p.weighted != nil && vals[i] != w {
			p.Fatalf("edge %d-%d: %v %v, want %v %v", u, to[i], vals[i], found[i], w, there)
		}
	}
	if n != hits {
		p.Fatalf("%d edges found, want %d", n, hits)
	}
}

// sizes checks that the statistics agree, and that chains are as short as rehashes must keep them.
func (p *graphPlayer) sizes(s GraphStats) {
	p.Helper()
	buckets, slabs := 0, 0
	for length, n := range s.Chains {
		buckets += int(n)
		slabs += length * int(n)
	}
	if s.Edges != len(p.model) || buckets != s.BaseSlabs || slabs != s.BaseSlabs+s.Chained {
		p.Fatalf("%d buckets of %d slabs, want %+v", buckets, slabs, s)
	}
	d := p.g.policy.engine.dict()
	if s.Bytes < 128*slabs+d.bytes() || s.Edges > 0 && s.BaseSlabs == 0 {
		p.Fatalf("%+v of memory for %d slabs", s, slabs)
	}
}

// graphHistories plays histories of the given steps on graphs of all kinds.
func graphHistories(t *testing.T, open func(testing.TB) device.Device, steps, vertices, size int, seeds int) {
	for _, directed := range []bool{true, false} {
		for _, weighted := range []bool{true, false} {
			for seed := range uint64(seeds) {
				t.Run(fmt.Sprintf("directed %v, weighted %v, %d", directed, weighted, seed), func(t *testing.T) {
					o := GraphOptions{Directed: directed, Overwrite: seed%2 == 1, Vertices: int(seed%3) * vertices, Seed: seed}
					p := newGraphPlayer(t, open(t), weighted, o, vertices, size, seed)
					defer p.close()
					for i := range steps {
						if p.step(); i%7 == 0 {
							p.same()
						}
					}
					p.same()
					p.saved()
				})
			}
		}
	}
}

// TestGraphBesideModel checks that a graph matches a map of edges during random changes.
func TestGraphBesideModel(t *testing.T) {
	graphHistories(t, devicetest.Open, 40, 200, 3000, 2)
}

// TestGraphOfAHub inserts a vertex with many neighbors and many vertices with one neighbor in one
// batch. No table may have long chains.
func TestGraphOfAHub(t *testing.T) {
	const n = 1 << 16
	g, err := NewGraph(devicetest.Open(t), &GraphOptions{Seed: 1})
	noError(t, err)
	defer g.Close()
	_, err = g.Insert(t.Context(), make([]uint32, n), sequence(1, n+1), nil)
	noError(t, err)
	s, err := g.Stats(t.Context())
	noError(t, err)
	if s.Edges != n || s.MaxChain > 3 {
		t.Errorf("%+v: long chains", s)
	}
	if bytes := s.BytesPerEdge(); bytes < 128 || bytes > 300 {
		t.Errorf("%v bytes for an edge to a vertex of degree 1, want those of a slab and more", bytes)
	}
}

// TestGraphRehashesVertices checks that tables with chains that grow in small batches are rehashed
// one by one.
func TestGraphRehashesVertices(t *testing.T) {
	g, err := NewGraph(devicetest.Open(t), &GraphOptions{Seed: 1, Directed: true, Vertices: 4000})
	noError(t, err)
	defer g.Close()
	for lo := 1; lo < 4000; lo += 50 {
		_, err := g.Insert(t.Context(), make([]uint32, 50), sequence(lo, lo+50), nil)
		noError(t, err)
	}
	s, err := g.Stats(t.Context())
	noError(t, err)
	if s.MaxChain > 4 || s.Spare == 0 {
		t.Errorf("%+v: long chains, or nothing has been moved", s)
	}
}

// TestGraphMemoryIsFlat checks that memory does not grow while the same edges are inserted and
// deleted.
func TestGraphMemoryIsFlat(t *testing.T) {
	for _, overwrite := range []bool{false, true} {
		p := newGraphPlayer(t, devicetest.Open(t), false, GraphOptions{Seed: 1, Overwrite: overwrite}, 300, 4000, 1)
		defer p.close()
		from, to, weights := p.draw()
		least := 0
		for round := range 100 {
			p.insert(from, to, weights)
			p.delete(from, to)
			s, err := p.g.Stats(t.Context())
			noError(t, err)
			if round < 10 {
				least = max(least, s.Bytes)
			} else if s.Bytes > least {
				t.Fatalf("round %d: %d bytes, %d before", round, s.Bytes, least)
			}
		}
	}
}

// TestGraphTombstones checks that dead slots are reused with Overwrite, and otherwise are not.
func TestGraphTombstones(t *testing.T) {
	for _, overwrite := range []bool{false, true} {
		g, err := NewGraph(devicetest.Open(t), &GraphOptions{Seed: 1, Overwrite: overwrite, MaxTombstones: -1, Directed: true})
		noError(t, err)
		ctx := t.Context()
		for lo := range 20 {
			from, to := []uint32{0}, []uint32{uint32(lo + 1)}
			_, err := g.Insert(ctx, from, to, nil)
			noError(t, err)
			_, err = g.Delete(ctx, from, to, nil)
			noError(t, err)
		}
		s, err := g.Stats(ctx)
		noError(t, err)
		if want := map[bool]int{false: 20, true: 1}[overwrite]; s.Tombstones != want {
			t.Errorf("overwrite %v: %d tombstones, want %d", overwrite, s.Tombstones, want)
		}
		noError(t, g.Compact(ctx))
		if s, err = g.Stats(ctx); err != nil || s.Tombstones != 0 || s.BaseSlabs != 0 {
			t.Errorf("overwrite %v: Compact leaves %+v, %v", overwrite, s, err)
		}
		noError(t, g.Close())
	}
}

// TestGraphTriangles compares the triangle count with loops over a matrix.
func TestGraphTriangles(t *testing.T) {
	for _, weighted := range []bool{false, true} {
		graphTriangles(t, devicetest.Open(t), weighted, 200)
	}
	directed := newGraphPlayer(t, devicetest.Open(t), false, GraphOptions{Directed: true}, 60, 7, 1)
	defer directed.close()
	if _, err := directed.set.Triangles(t.Context()); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("of a directed graph: %v", err)
	}
}

// graphTriangles counts triangles of graphs with no, few and many edges, and of a graph with a hub,
// which has long chains.
func graphTriangles(t testing.TB, dev device.Device, weighted bool, hub uint32) {
	p := newGraphPlayer(t, dev, weighted, GraphOptions{Seed: 1, MaxLoad: 2}, 60, 300, 1)
	defer p.close()
	check := func() (want uint64) {
		for e := range p.model {
			for w := e.to + 1; w < 60+hub; w++ {
				if _, ok := p.model[edge{e.from, w}]; ok {
					if _, ok := p.model[edge{e.to, w}]; ok {
						want++
					}
				}
			}
		}
		got, err := p.g.Triangles(context.Background())
		noError(t, err)
		if got != want {
			t.Fatalf("%d edges: %d triangles, want %d", len(p.model), got, want)
		}
		return want
	}
	check()
	p.insert(p.draw())
	p.insert(p.draw())
	if check() == 0 {
		t.Fatal("a test without triangles")
	}
	var from, to []uint32
	for v := range hub {
		from, to = append(from, 7, 60+v), append(to, 60+v, 60+(v+1)%hub)
	}
	p.insert(from, to, from)
	check()
	p.delete(from[:20], to[:20])
	check()
}

// TestGraphErrors checks that invalid options and vertices are refused, and change nothing.
func TestGraphErrors(t *testing.T) {
	dev := devicetest.Open(t)
	for _, o := range []GraphOptions{{MaxVertices: -1}, {MaxVertices: 1<<31 + 1}, {Vertices: 5, MaxVertices: 4}, {Vertices: -1}, {MaxLoad: -1}, {MaxLoad: .001}, {MaxLoad: 1e6}, {MaxTombstones: 2}} {
		if _, err := NewGraph(dev, &o); !errors.Is(err, weft.ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := NewGraph(nil, nil); !errors.Is(err, weft.ErrOptions) {
		t.Errorf("without a device: %v", err)
	}
	g, err := NewGraph(dev, &GraphOptions{MaxVertices: 100})
	noError(t, err)
	for _, bad := range [][2]uint32{{100, 1}, {1, 100}, {1<<32 - 1, 1}} {
		n, err := g.Insert(t.Context(), []uint32{1, bad[0]}, []uint32{2, bad[1]}, nil)
		if want := fmt.Sprintf("edge 1 from %d to %d", bad[0], bad[1]); n != 0 || !errors.Is(err, weft.ErrOptions) || !strings.Contains(err.Error(), want) || g.Edges() != 0 {
			t.Errorf("%d inserted: %v, want %q", n, err, want)
		}
	}
	noError(t, g.Close())
	noError(t, g.Close())
	if _, err := g.Insert(t.Context(), []uint32{1}, []uint32{2}, nil); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// TestGraphOn checks batches in device memory, on any device.
func TestGraphOn(t *testing.T) {
	for _, weighted := range []bool{false, true} {
		graphOn(t, devicetest.Open(t), weighted, 2000)
	}
}

// columns makes columns in device memory.
type columns struct {
	testing.TB
	s    *device.Stream
	free []func() error
}

func (c *columns) close() {
	for _, f := range c.free {
		noError(c, f())
	}
	noError(c, c.s.Close())
}

func columnOf[T device.Elem](c *columns, x []T) device.Slice[T] {
	on, err := device.Upload(c.s, x)
	noError(c, err)
	c.free = append(c.free, on.Free)
	return on
}

// graphOn runs all methods that take batches in device memory.
func graphOn(t testing.TB, dev device.Device, weighted bool, size int) {
	ctx := t.Context()
	p := newGraphPlayer(t, dev, weighted, GraphOptions{Seed: 1, MaxVertices: 300}, 300, size, 2)
	defer p.close()
	s, err := dev.NewStream()
	noError(t, err)
	c := &columns{TB: t, s: s}
	defer c.close()
	insert := func(u, v, w device.Slice[uint32], done device.Slice[bool]) error {
		if weighted {
			return p.weighted.InsertOn(s, u, v, w, done)
		}
		return p.set.InsertOn(s, u, v, done)
	}
	for range 3 {
		from, to, weights := p.draw()
		u, v, w, done := columnOf(c, from), columnOf(c, to), columnOf(c, weights), columnOf(c, make([]bool, len(from)))
		noError(t, insert(u, v, w, done))
		p.sameEndpoints(c, u, v, done, from, to)
		noError(t, p.g.Sync(ctx))
		for i := range from {
			if from[i] != to[i] {
				p.model[p.key(from[i], to[i])] = weights[i]
			}
		}
		p.same()
		p.found(c, from, to, u, v, w, done)
		p.rowsOn(c)
		half := len(from) / 2
		noError(t, p.g.DeleteOn(s, u.Sub(0, half), v.Sub(0, half), done.Sub(0, half)))
		p.sameEndpoints(c, u.Sub(0, half), v.Sub(0, half), done.Sub(0, half), from[:half], to[:half])
		noError(t, p.g.Sync(ctx))
		for i := range half {
			delete(p.model, p.key(from[i], to[i]))
		}
		p.same()
	}
	bad := columnOf(c, []uint32{1, 300})
	if err := insert(bad, bad, bad, device.Slice[bool]{}); !errors.Is(err, weft.ErrOptions) || !strings.Contains(err.Error(), "edge 1 from 300 to 300") {
		t.Errorf("a vertex that cannot be: %v", err)
	}
	p.same()
	noError(t, p.g.Clear(ctx))
	clear(p.model)
	p.same()
	noError(t, insert(bad.Sub(0, 1), bad.Sub(0, 1), bad.Sub(0, 1), device.Slice[bool]{}))
	p.same()
}

// found compares lookups of edges in device memory with the model.
func (p *graphPlayer) found(c *columns, from, to []uint32, u, v, w device.Slice[uint32], done device.Slice[bool]) {
	p.Helper()
	if p.weighted != nil {
		noError(p, p.weighted.WeightOn(c.s, u, v, w, done))
	}
	hits := columnOf(c, []uint64{5})
	noError(p, p.g.HasOn(c.s, v, u, done, hits))
	got, vals := make([]bool, len(from)), make([]uint32, len(from))
	noError(p, done.CopyTo(p.Context(), c.s, got))
	noError(p, w.CopyTo(p.Context(), c.s, vals))
	var n [1]uint64
	noError(p, hits.CopyTo(p.Context(), c.s, n[:]))
	for _, there := range got {
		if there {
			n[0]--
		}
	}
	if n[0] != 5 {
		p.Fatalf("5 and the edges found are %d more than these", n[0])
	}
	for i := range from {
		if weight, there := p.model[p.key(from[i], to[i])]; got[i] != there || p.weighted != nil && vals[i] != weight {
			p.Fatalf("edge %d-%d: %v %v, want %v %v", from[i], to[i], vals[i], got[i], weight, there)
		}
	}
}

// rowsOn compares rows in device memory with rows in host memory.
func (p *graphPlayer) rowsOn(c *columns) {
	p.Helper()
	all := []uint32{2, 0, uint32(p.vertices), 1<<32 - 1, 1}
	offsets, neighbors, err := p.g.Rows(p.Context(), all)
	noError(p, err)
	vertices, degrees, starts := columnOf(c, all), columnOf(c, make([]uint32, len(all))), columnOf(c, make([]uint64, len(all)+1))
	some := len(neighbors) / 2
	rows := columnOf(c, make([]uint32, some))
	if p.weighted != nil {
		weights := columnOf(c, make([]uint32, some+1))
		noError(p, p.weighted.RowsOn(c.s, vertices, degrees, starts, rows, weights))
		_, _, want, err := p.weighted.Rows(p.Context(), all)
		noError(p, err)
		got := make([]uint32, some+1)
		noError(p, weights.CopyTo(p.Context(), c.s, got))
		if !slices.Equal(got, append(want[:some:some], 0)) {
			p.Fatalf("weights of rows: %v, want %v", got, want[:some])
		}
	} else {
		noError(p, p.g.RowsOn(c.s, vertices, degrees, starts, rows))
	}
	gotStarts, got, gotDegrees := make([]uint64, len(all)+1), make([]uint32, some), make([]uint32, len(all))
	noError(p, p.g.DegreeOn(c.s, vertices, degrees))
	noError(p, starts.CopyTo(p.Context(), c.s, gotStarts))
	noError(p, rows.CopyTo(p.Context(), c.s, got))
	noError(p, degrees.CopyTo(p.Context(), c.s, gotDegrees))
	for i, d := range gotDegrees {
		if uint64(d) != offsets[i+1]-offsets[i] {
			p.Fatalf("vertex %d has degree %d, want %d", all[i], d, offsets[i+1]-offsets[i])
		}
	}
	if !slices.Equal(gotStarts, offsets) || !slices.Equal(got, neighbors[:some]) {
		p.Fatalf("rows from %v on: %v, want %v: %v", gotStarts, got, offsets, neighbors[:some])
	}
	row, err := p.g.Neighbors(p.Context(), 2, []uint32{7})
	noError(p, err)
	if !slices.Equal(row, append([]uint32{7}, neighbors[:offsets[1]]...)) {
		p.Fatalf("neighbors %v, want 7 and %v", row, neighbors[:offsets[1]])
	}
}

// TestGraphCompactsLongChains compacts a graph with only long chains. The new pool must have units
// for as many chains, not one unit per edge.
func TestGraphCompactsLongChains(t *testing.T) {
	const vertices, degree = 2000, 100 // four slabs of 30 slots
	g, err := NewGraph(devicetest.Open(t), &GraphOptions{Seed: 1, Directed: true, MaxLoad: 8})
	noError(t, err)
	defer g.Close()
	var from, to []uint32
	for u := range uint32(vertices) {
		for v := range uint32(degree) {
			from, to = append(from, u), append(to, u+v+1)
		}
	}
	_, err = g.Insert(t.Context(), from, to, nil)
	noError(t, err)
	noError(t, g.Compact(t.Context()))
	s, err := g.Stats(t.Context())
	noError(t, err)
	if s.Edges != vertices*degree || s.Chained != 3*vertices || s.Bytes > 2*128*(s.BaseSlabs+s.Chained) {
		t.Errorf("%+v", s)
	}
}

// TestGraphRunsAgain has long chains in one part of the tables. Edges overflow, and find a unit
// after the pool has grown.
func TestGraphRunsAgain(t *testing.T) {
	p := newGraphPlayer(t, devicetest.Open(t), true, GraphOptions{Seed: 1, Directed: true, MaxLoad: 8}, 10_000, 0, 1)
	defer p.close()
	var from, to []uint32
	for u := range uint32(10_000) {
		n := uint32(1)
		if u%40 == 0 {
			n = 120 // eight slabs of 15 slots in one bucket
		}
		for v := range n {
			from, to = append(from, u), append(to, (u+v+1)%10_000)
		}
	}
	p.insert(from, to, from)
	s, err := p.g.Stats(t.Context())
	noError(t, err)
	if s.MaxChain < 8 || s.Chained <= 1024 {
		t.Fatalf("%+v: the first slabs of the pool were enough", s)
	}
	p.same()
	noError(t, p.g.Compact(t.Context()))
	p.same()
}
