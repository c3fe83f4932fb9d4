package graph

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// edge is an edge of a model. In an undirected graph from is the smaller end.
type edge struct{ from, to uint32 }

// model is the expected content of a graph.
type model[W Weight] struct {
	Options
	edges    map[edge][]W // parallel edges in the order of insertion
	vertices map[uint32]bool
}

func newModel[W Weight](o Options) *model[W] {
	return &model[W]{o, map[edge][]W{}, map[uint32]bool{}}
}

func (m *model[W]) clone() *model[W] {
	c := &model[W]{m.Options, maps.Clone(m.edges), maps.Clone(m.vertices)}
	for k, all := range c.edges {
		c.edges[k] = slices.Clone(all)
	}
	return c
}

func (m *model[W]) key(u, v uint32) edge {
	if !m.Directed && u > v {
		u, v = v, u
	}
	return edge{u, v}
}

func (m *model[W]) apply(kind weft.OpKind, u, v uint32, w W) bool {
	k := m.key(u, v)
	_, exists := m.edges[k]
	if kind == weft.OpDelete {
		delete(m.edges, k)
		return exists
	}
	if u == v && !m.SelfLoops {
		return false
	}
	if m.Multi {
		m.edges[k] = append(m.edges[k], w)
		return true
	}
	m.edges[k] = []W{w}
	return !exists
}

func (m *model[W]) count() (n int) {
	for _, all := range m.edges {
		n += len(all)
	}
	return n
}

// markLive marks the ends of edges as present. An edge that a batch inserts and deletes again marks
// no vertex.
func (m *model[W]) markLive() {
	for e := range m.edges {
		m.vertices[e.from], m.vertices[e.to] = true, true
	}
}

func (m *model[W]) deleteVertices(ids []uint32) (n int) {
	for _, u := range ids {
		if m.vertices[u] {
			delete(m.vertices, u)
			n++
		}
	}
	maps.DeleteFunc(m.edges, func(e edge, _ []W) bool { return slices.Contains(ids, e.from) || slices.Contains(ids, e.to) })
	return n
}

// arcs returns the rows that the graph should have, in order.
func (m *model[W]) arcs() (all []edge, weights []W) {
	for e, parallels := range m.edges {
		for range parallels {
			if all = append(all, e); !m.Directed && e.from != e.to {
				all = append(all, edge{e.to, e.from})
			}
		}
	}
	slices.SortFunc(all, func(a, b edge) int {
		if a.from != b.from {
			return int(a.from) - int(b.from)
		}
		return int(a.to) - int(b.to)
	})
	for i, e := range all {
		if i == 0 || all[i-1] != e {
			weights = append(weights, m.edges[m.key(e.from, e.to)]...)
		}
	}
	return all, weights
}

// reader is a graph or a snapshot.
type reader[W Weight] interface {
	Vertices() int
	Edges() int
	CSR(context.Context) (*Weighted[W], error)
	Weight(ctx context.Context, from, to []uint32, weights []W, found []bool) (int, error)
	Degree(ctx context.Context, vertices, degrees []uint32) error
	Neighbors(ctx context.Context, v uint32, to []uint32) ([]uint32, error)
}

func (m *model[W]) sameRows(t testing.TB, g reader[W]) (c *Weighted[W], want []edge) {
	t.Helper()
	if g.Vertices() != len(m.vertices) || g.Edges() != m.count() {
		t.Fatalf("%d vertices and %d edges, want %d and %d", g.Vertices(), g.Edges(), len(m.vertices), m.count())
	}
	c, err := g.CSR(t.Context())
	must(t, err)
	want, weights := m.arcs()
	var got []edge
	for u, v := range c.All() {
		got = append(got, edge{u, v})
	}
	if !slices.Equal(got, want) || !slices.Equal(c.AllWeights(), weights) {
		t.Fatalf("rows %v with %v, want %v with %v", got, c.AllWeights(), want, weights)
	}
	if c.Edges() != m.count() {
		t.Fatalf("rows of %d edges, want %d", c.Edges(), m.count())
	}
	return c, want
}

// same compares a graph with the model.
func (m *model[W]) same(t testing.TB, g reader[W], vertices int) {
	t.Helper()
	ctx := t.Context()
	c, want := m.sameRows(t, g)
	var from, to, all []uint32
	for u := range uint32(vertices) {
		all = append(all, u)
		for _, v := range []uint32{0, u, (u * 7) % uint32(vertices), uint32(vertices), 1<<32 - 1} {
			from, to = append(from, u, v), append(to, v, u)
		}
	}
	for _, e := range want {
		from, to = append(from, e.from), append(to, e.to)
	}
	vals, found, hits := make([]W, len(from)), make([]bool, len(from)), 0
	n, err := g.Weight(ctx, from, to, vals, found)
	must(t, err)
	for i := range from {
		parallels, exists := m.edges[m.key(from[i], to[i])]
		var w W
		if exists {
			w = parallels[len(parallels)-1]
		}
		if found[i] != exists || vals[i] != w {
			t.Fatalf("edge %d-%d: %v %v, want %v %v", from[i], to[i], vals[i], found[i], w, exists)
		}
		if exists {
			hits++
		}
	}
	if n != hits {
		t.Fatalf("%d edges found, want %d", n, hits)
	}
	degrees := make([]uint32, len(all))
	must(t, g.Degree(ctx, all, degrees))
	for u, d := range degrees {
		if exists := u < c.Vertices(); exists && int(d) != c.Degree(uint32(u)) || !exists && d != 0 {
			t.Fatalf("vertex %d has degree %d", u, d)
		}
	}
	if u := uint32(vertices / 2); int(u) < c.Vertices() {
		row, err := g.Neighbors(ctx, u, nil)
		must(t, err)
		if !slices.Equal(row, c.CSR.Neighbors(u)) {
			t.Fatalf("neighbors of %d: %v, want %v", u, row, c.CSR.Neighbors(u))
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// held is a snapshot and its model.
type held[W Weight] struct {
	*WeightedSnapshot[W]
	model *model[W]
}

// player applies a random history to a graph and to its model.
type player[W Weight] struct {
	testing.TB
	r        *rand.Rand
	g        *WeightedGraph[W]
	m        *model[W]
	vertices int
	batch    int // maximum number of edges
	held     []held[W]
}

func play[W Weight](t testing.TB, dev device.Device, o Options, seed uint64, rounds, vertices, size int) *player[W] {
	t.Helper()
	g, err := NewWeightedGraph[W](dev, &o)
	must(t, err)
	p := &player[W]{t, rand.New(rand.NewPCG(seed, 2)), g, newModel[W](o), vertices, size, nil}
	for i := range rounds {
		forceSort(g.store, i/2%2 == 1)
		forceSweep(g.store, i%2 == 1)
		p.step()
		must(t, g.Check(t.Context()))
		for _, s := range p.held {
			s.model.sameRows(t, s.WeightedSnapshot)
		}
	}
	p.m.same(t, g, vertices)
	return p
}

// forceSort makes a GPU sort batches instead of using bins.
func forceSort(g *store, sorted bool) {
	if e, ok := g.engine.(*gpuEngine); ok {
		e.overflows = [2]binOverflow{}
		if sorted {
			e.overflows = [2]binOverflow{{1, math.MaxInt, 0}, {1, math.MaxInt, 0}}
		}
	}
}

// forceSweep makes a GPU scan all rows for deleted vertices, or delete their arcs.
func forceSweep(g *store, all bool) {
	if e, ok := g.engine.(*gpuEngine); ok {
		e.share = map[bool]int{true: sweepShare, false: 1}[all]
	}
}

func (p *player[W]) close() {
	for _, s := range p.held {
		s.model.same(p.TB, s.WeightedSnapshot, p.vertices)
		must(p.TB, s.Close())
		must(p.TB, p.g.Check(p.Context()))
	}
	p.m.same(p.TB, p.g, p.vertices)
	must(p.TB, p.g.Close())
}

// vertex returns a random vertex, often a hub or one of the last.
func (p *player[W]) vertex() uint32 {
	switch p.r.IntN(4) {
	case 0:
		return uint32(p.r.IntN(3))
	case 1:
		return uint32(p.vertices - 1 - p.r.IntN(4))
	}
	return uint32(p.r.IntN(p.vertices))
}

func (p *player[W]) step() {
	ctx := p.Context()
	switch k := p.r.IntN(20); {
	case k < 14:
		p.edges(k)
	case k < 15:
		ids := []uint32{p.vertex(), p.vertex(), p.vertex()}
		n, err := p.g.InsertVertices(ctx, ids)
		must(p.TB, err)
		before := len(p.m.vertices)
		for _, u := range ids {
			p.m.vertices[u] = true
		}
		if n != len(p.m.vertices)-before {
			p.Fatalf("%d vertices inserted, want %d", n, len(p.m.vertices)-before)
		}
	case k < 16:
		ids := []uint32{p.vertex(), p.vertex(), p.vertex()}
		n, err := p.g.DeleteVertices(ctx, ids)
		must(p.TB, err)
		if want := p.m.deleteVertices(ids); n != want {
			p.Fatalf("%d vertices deleted, want %d", n, want)
		}
	case k < 17:
		s, err := p.g.Snapshot(ctx)
		must(p.TB, err)
		p.held = append(p.held, held[W]{s, p.m.clone()})
	case k < 19:
		if n := len(p.held); n > 0 {
			i := p.r.IntN(n)
			s := p.held[i]
			s.model.same(p.TB, s.WeightedSnapshot, p.vertices)
			must(p.TB, s.Close())
			p.held = slices.Delete(p.held, i, i+1)
		}
	case p.r.IntN(3) == 0:
		must(p.TB, p.g.Clear(ctx))
		p.m = newModel[W](p.m.Options)
	default:
		must(p.TB, p.g.Compact(ctx))
	}
}

// edges runs a batch that inserts edges, deletes mostly present edges, or both.
func (p *player[W]) edges(k int) {
	existing, _ := p.m.arcs()
	n := 1 + p.r.IntN(p.batch)
	kinds, from, to, vals := make([]weft.OpKind, n), make([]uint32, n), make([]uint32, n), make([]W, n)
	for i := range n {
		from[i], to[i], vals[i], kinds[i] = p.vertex(), p.vertex(), W(p.r.Uint64()>>1), weft.OpPut
		if k >= 6 && k < 10 || k >= 10 && p.r.IntN(2) == 0 {
			kinds[i] = weft.OpDelete
			if len(existing) > 0 && p.r.IntN(4) > 0 {
				e := existing[p.r.IntN(len(existing))]
				from[i], to[i] = e.from, e.to
			}
		}
		if i > 0 && p.r.IntN(4) == 0 {
			j := p.r.IntN(i)
			from[i], to[i] = to[j], from[j]
		}
	}
	want, count := make([]bool, n), 0
	for i := range n {
		if want[i] = p.m.apply(kinds[i], from[i], to[i], vals[i]); want[i] {
			count++
		}
	}
	p.m.markLive()
	got, changed := p.run(k, kinds, from, to, vals)
	if changed != count || got != nil && !slices.Equal(got, want) {
		p.Fatalf("%d operations did something, want %d: %v, want %v", changed, count, got, want)
	}
}

func (p *player[W]) run(k int, kinds []weft.OpKind, from, to []uint32, vals []W) (ok []bool, n int) {
	ctx := p.Context()
	var err error
	if ok = make([]bool, len(from)); p.r.IntN(4) == 0 {
		ok = nil
	}
	on := p.r.IntN(2) == 0
	switch {
	case on:
		return p.runOn(k, kinds, from, to, vals)
	case k < 6:
		n, err = p.g.Insert(ctx, from, to, vals, ok)
	case k < 10:
		n, err = p.g.Delete(ctx, from, to, ok)
	default:
		n, err = p.g.Apply(ctx, kinds, from, to, vals, ok)
	}
	must(p.TB, err)
	return ok, n
}

func (p *player[W]) runOn(k int, kinds []weft.OpKind, from, to []uint32, vals []W) (ok []bool, n int) {
	s, err := p.g.Device().NewStream()
	must(p.TB, err)
	defer s.Close()
	numbers := make([]uint8, len(kinds))
	for i, k := range kinds {
		numbers[i] = uint8(k)
	}
	u, v, w, o := upload(p.TB, s, from), upload(p.TB, s, to), upload(p.TB, s, vals), upload(p.TB, s, numbers)
	done, count := upload(p.TB, s, make([]bool, len(from))), upload(p.TB, s, []uint64{1000})
	switch {
	case k < 6:
		err = p.g.InsertOn(s, u, v, w, done, count)
	case k < 10:
		err = p.g.DeleteOn(s, u, v, done, count)
	default:
		err = p.g.ApplyOn(s, o, u, v, w, done, count)
	}
	must(p.TB, err)
	endpoints, nEndpoints := upload(p.TB, s, make([]uint32, 2*len(from))), upload(p.TB, s, make([]uint64, 1))
	must(p.TB, p.g.EndpointsOn(s, DeviceEdges{Vertices: p.vertices, From: u, To: v, Done: done}, endpoints, nEndpoints))
	ok = make([]bool, len(from))
	var total [1]uint64
	must(p.TB, done.CopyTo(p.Context(), s, ok))
	p.sameEnds(Edges{From: from, To: to}.Filter(ok), s, endpoints, nEndpoints)
	must(p.TB, count.CopyTo(p.Context(), s, total[:]))
	must(p.TB, p.g.Sync(p.Context()))
	for _, err := range []error{u.Free(), v.Free(), w.Free(), o.Free(), done.Free(), count.Free(), endpoints.Free(), nEndpoints.Free()} {
		must(p.TB, err)
	}
	return ok, int(total[0]) - 1000
}

func (p *player[W]) sameEnds(e Edges, s *device.Stream, endpoints device.Slice[uint32], count device.Slice[uint64]) {
	p.Helper()
	got, n := make([]uint32, endpoints.Len()), make([]uint64, 1)
	must(p.TB, endpoints.CopyTo(p.Context(), s, got))
	must(p.TB, count.CopyTo(p.Context(), s, n))
	ends := map[uint32]bool{}
	for i, u := range e.From {
		ends[u], ends[e.To[i]] = true, true
	}
	if want := slices.Sorted(maps.Keys(ends)); !slices.Equal(got[:n[0]], want) || !slices.Equal(e.Endpoints(), want) {
		p.Fatalf("touched are %v, and %v in host memory, want %v", got[:n[0]], e.Endpoints(), want)
	}
}

func upload[T device.Elem](t testing.TB, s *device.Stream, v []T) device.Slice[T] {
	t.Helper()
	d, err := device.Upload(s, v)
	must(t, err)
	return d
}

var allOptions = []Options{
	{}, {SelfLoops: true}, {Directed: true}, {Directed: true, SelfLoops: true}, {Multi: true, SelfLoops: true}, {Multi: true, Directed: true},
}

// TestHistories compares graphs after random histories with models.
func TestHistories(t *testing.T) {
	dev := devicetest.Open(t)
	rounds, seeds := 40, uint64(3)
	if dev.Properties().Kind == device.Sim {
		rounds, seeds = 12, 1
	}
	for _, o := range allOptions {
		for seed := range seeds {
			t.Run(fmt.Sprintf("directed=%v/loops=%v/multi=%v/%d", o.Directed, o.SelfLoops, o.Multi, seed), func(t *testing.T) {
				play[uint32](t, dev, o, seed, rounds, 12, 20).close()
				play[uint64](t, dev, o, seed, rounds, 90, 200).close()
				play[float32](t, dev, o, seed, rounds/2, 2000, 1500).close()
			})
		}
	}
}

// TestUnweighted checks that a graph without weights has the same edges as a graph with weights.
func TestUnweighted(t *testing.T) {
	dev := devicetest.Open(t)
	for _, o := range allOptions {
		unweighted(t, dev, o)
	}
}

func unweighted(t testing.TB, dev device.Device, o Options) {
	ctx := t.Context()
	p := play[uint32](t, dev, o, 7, 10, 40, 150)
	g, err := New(dev, &o)
	must(t, err)
	c, err := p.g.CSR(ctx)
	must(t, err)
	_, err = g.InsertCSR(ctx, c.CSR)
	must(t, err)
	got, err := g.CSR(ctx)
	must(t, err)
	if !slices.Equal(got.Targets(), c.Targets()) || !slices.Equal(got.Offsets(), c.Offsets()) || got.Loops() != c.Loops() {
		t.Errorf("rows %v, want %v", got, c.CSR)
	}
	var from, to []uint32
	for u, v := range got.All() {
		if u%2 == 0 {
			from, to = append(from, u), append(to, v)
		}
	}
	deleted := make([]bool, len(from))
	_, err = g.Delete(ctx, from, to, deleted)
	must(t, err)
	must(t, g.Compact(ctx))
	must(t, g.Check(ctx))
	s, err := dev.NewStream()
	must(t, err)
	u, v, hits := upload(t, s, got.sources()), upload(t, s, got.Targets()), upload(t, s, make([]uint64, 1))
	must(t, g.HasOn(s, u, v, device.Slice[bool]{}, hits))
	var counted [1]uint64
	must(t, hits.CopyTo(ctx, s, counted[:]))
	if int(counted[0]) != g.Arcs() {
		t.Errorf("%d of the arcs are there, want %d", counted[0], g.Arcs())
	}
	for _, err := range []error{u.Free(), v.Free(), hits.Free()} {
		must(t, err)
	}
	if n, err := g.Has(ctx, from, to, nil); err != nil || n != 0 {
		t.Errorf("%d of the deleted edges are there: %v", n, err)
	}
	p.close()
	must(t, g.Close())
	must(t, s.Close())
}

// TestSaveLoad checks that a saved graph is loaded unchanged, and that damaged files are refused.
func TestSaveLoad(t *testing.T) {
	dev := devicetest.Open(t)
	ctx := t.Context()
	for _, o := range allOptions {
		p := play[uint64](t, dev, o, 3, 12, 60, 100)
		var file bytes.Buffer
		must(t, p.g.Save(ctx, &file))
		g, err := NewWeightedGraph[uint64](dev, &o)
		must(t, err)
		must(t, g.Load(ctx, bytes.NewReader(file.Bytes())))
		p.m.same(t, g, 60)
		must(t, g.Check(ctx))
		must(t, g.Close())
		spoil(t, dev, o, file.Bytes())
		p.close()
	}
}

// spoil damages each bit of the header of a saved graph, other bits here and there, and its length.
func spoil(t *testing.T, dev device.Device, o Options, file []byte) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 60 {
		bad := slices.Clone(file)
		switch at := r.IntN(len(bad)); {
		case i < 20:
			bad[i] ^= 1 << r.IntN(8)
		case i < 40:
			bad[at] ^= 1 << r.IntN(8)
		default:
			bad = bad[:at]
		}
		g, err := NewWeightedGraph[uint64](dev, &o)
		must(t, err)
		if err := g.Load(t.Context(), bytes.NewReader(bad)); !errors.Is(err, weft.ErrFormat) {
			t.Errorf("damage %d: %v, want %v", i, err, weft.ErrFormat)
		}
		must(t, g.Check(t.Context()))
		must(t, g.Close())
	}
}
