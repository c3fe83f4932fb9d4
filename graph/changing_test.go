package graph

import (
	"bytes"
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
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/conformance"
)

// TestKernelsSimulated compares the kernels with the model on a simulated GPU, under random
// schedules and weak memory, where a data race is a fault.
func TestKernelsSimulated(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	for i, o := range allOptions {
		scheduler := []sim.Scheduler{sim.Random, sim.PCT}[i%2]
		t.Run(fmt.Sprintf("directed=%v/loops=%v", o.Directed, o.SelfLoops), func(t *testing.T) {
			dev := devicetest.OpenSim(t, &sim.Options{Scheduler: scheduler, Seed: uint64(i), Races: true})
			play[uint32](t, dev, o, uint64(i), 8, 12, 20).close()
			play[uint64](t, dev, o, uint64(i), 4, 100, 100).close()
			if i%3 == 0 {
				full(t, dev)
			}
			if i == 1 {
				hub[uint32](t, dev, 2*chunkSize, false) // several blocks copy its row
			}
			if i < 2 {
				sweeps(t, dev, o, weighted[uint32])
			}
			if i%2 == 0 {
				testKinds(t, dev, o, true)
				testKinds(t, dev, o, false)
			}
		})
	}
}

// testKinds makes a block process several tiles of arcs, as for large batches, or several bins of a
// small batch.
func testKinds(t testing.TB, dev device.Device, o Options, sorted bool) {
	ctx := t.Context()
	r := rand.New(rand.NewPCG(5, 5))
	var want *CSR
	var from, to []uint32
	for range 4200 {
		from, to = append(from, r.Uint32N(40)*r.Uint32N(40)), append(to, r.Uint32N(300))
	}
	for _, on := range []device.Device{devicetest.OpenCPU(t, 1), dev} {
		g, err := New(on, &o)
		must(t, err)
		if e, ok := g.engine.(*gpuEngine); ok {
			e.arcsPerTile = 1
		}
		forceSort(g.store, sorted)
		_, err = g.Insert(ctx, from, to, nil)
		must(t, err)
		_, err = g.Delete(ctx, from[:2000], to[:2000], nil)
		must(t, err)
		must(t, g.Check(ctx))
		c, err := g.CSR(ctx)
		must(t, err)
		if want == nil {
			want = c
		}
		if !slices.Equal(c.Targets(), want.Targets()) || !slices.Equal(c.Offsets(), want.Offsets()) {
			t.Errorf("%d arcs that a CPU does not have so, of %d", c.Arcs(), want.Arcs())
		}
		must(t, g.Close())
	}
}

// TestSameBytes checks that a GPU writes the same records to the same blocks as a CPU, and frees
// the same blocks.
func TestSameBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	host, err := cpu.Open(nil)
	must(t, err)
	defer host.Close()
	device := devicetest.OpenSim(t, &sim.Options{})
	for seed := range uint64(3) {
		o := allOptions[seed]
		a, b := play[uint32](t, host, o, seed, 25, 60, 120), play[uint32](t, device, o, seed, 25, 60, 120)
		must(t, a.g.withExclusive(t.Context(), func() error {
			return b.g.withExclusive(t.Context(), func() error { return sameBytes(t, a.g.store, b.g.store) })
		}))
		a.close()
		b.close()
	}
}

func sameBytes(t *testing.T, a, b *store) error {
	t.Helper()
	v, free, ghosts, err := a.engine.image(t.Context(), a.currentView())
	must(t, err)
	w, free2, ghosts2, err := b.engine.image(t.Context(), b.currentView())
	must(t, err)
	size := a.vertices * recordBytes
	if a.vertices != b.vertices || !bytes.Equal(v.records.Host[:size], w.records.Host[:size]) {
		t.Errorf("records differ, of %d and %d vertices", a.vertices, b.vertices)
	}
	for u := range uint32(a.vertices) {
		r, s := v.row(u), w.row(u)
		n := len(r.ids) * a.weight
		if !slices.Equal(r.ids, s.ids) || !bytes.Equal(r.weights.bytes[:n], s.weights.bytes[:n]) {
			t.Errorf("rows of vertex %d differ", u)
		}
	}
	for class := range free {
		if !slices.Equal(free[class], free2[class]) {
			t.Errorf("free blocks of class %d: %v and %v", class, free[class], free2[class])
		}
	}
	if len(ghosts) != len(ghosts2) || a.blocks != b.blocks {
		t.Errorf("%d and %d blocks of snapshots; %v and %v", len(ghosts), len(ghosts2), a.blocks, b.blocks)
	}
	return nil
}

// TestClasses checks that block classes grow, and that classOf returns the smallest sufficient
// class.
func TestClasses(t *testing.T) {
	s := shape{}
	for class := uint32(1); class < classes; class++ {
		entries := unitsOf(class) * unitEntries
		if smaller := unitsOf(class-1) * unitEntries; smaller >= entries {
			t.Fatalf("a block of class %d has %d entries, one of class %d has %d", class-1, smaller, class, entries)
		} else if got := s.classOf(max(smaller, s.inline()) + 1); got != class {
			t.Fatalf("%d entries are of class %d, want %d", smaller+1, got, class)
		}
		if got := s.classOf(entries); got != class {
			t.Fatalf("%d entries are of class %d, want %d", entries, got, class)
		}
	}
	if entries := unitsOf(classes-1) * unitEntries; entries != 1<<32 {
		t.Errorf("the largest block has %d entries, want 2^32", entries)
	}
}

// TestVerticesOutOfRange checks that a vertex beyond the limit is an error with its position, and
// changes nothing.
func TestVerticesOutOfRange(t *testing.T) {
	dev := devicetest.Open(t)
	ctx := t.Context()
	g, err := New(dev, &Options{MaxVertices: 100})
	must(t, err)
	defer g.Close()
	_, err = g.Insert(ctx, []uint32{1, 2}, []uint32{2, 99}, nil)
	must(t, err)
	from, to := []uint32{5, 6, 7, 200}, []uint32{6, 7, 100, 1}
	s, err := dev.NewStream()
	must(t, err)
	defer s.Close()
	u, v := upload(t, s, from), upload(t, s, to)
	_, insert := g.Insert(ctx, from, to, nil)
	for method, err := range map[string]error{"Insert": insert, "InsertOn": g.InsertOn(s, u, v, device.Slice[bool]{})} {
		const want = "edge 2 from 7 to 100: vertices are 0 to 99; MaxVertices allows more"
		if !errors.Is(err, weft.ErrOptions) || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "graph: "+method) {
			t.Errorf("%s: %v, want %q", method, err, want)
		}
	}
	n, err := g.Delete(ctx, from, to, nil)
	if n != 0 || err != nil {
		t.Errorf("%d edges deleted that are not there: %v", n, err)
	}
	deleted := upload(t, s, []uint32{3, 100, math.MaxUint32})
	n, err = g.DeleteVertices(ctx, []uint32{3, 100, math.MaxUint32})
	errs := []error{err, g.DeleteVerticesOn(s, deleted)}
	forceSweep(g.store, false)
	for _, err := range append(errs, g.DeleteVerticesOn(s, deleted)) {
		if n != 0 || err != nil {
			t.Errorf("%d vertices deleted that are not there: %v", n, err)
		}
	}
	for method, err := range map[string]error{"InsertVerticesOn": g.InsertVerticesOn(s, deleted), "InsertVertices": func() error {
		_, err := g.InsertVertices(ctx, []uint32{3, 100})
		return err
	}()} {
		if !errors.Is(err, weft.ErrOptions) || !strings.Contains(err.Error(), "vertex 1 of the batch is 100") {
			t.Errorf("%s: %v", method, err)
		}
	}
	must(t, deleted.Free())
	_, err = g.Apply(ctx, []weft.OpKind{weft.OpPut, weft.OpSum}, from[:2], to[:2], nil)
	if !errors.Is(err, device.ErrInvalid) || !strings.Contains(err.Error(), "operation 1") {
		t.Errorf("Apply: %v", err)
	}
	if n, err := g.Has(ctx, []uint32{7, 200, math.MaxUint32}, []uint32{100, 1, 2}, nil); n != 0 || err != nil {
		t.Errorf("Has finds %d: %v", n, err)
	}
	must(t, g.Sync(ctx))
	if g.Edges() != 2 || g.Vertices() != 3 {
		t.Errorf("%d edges of %d vertices, want 2 of 3", g.Edges(), g.Vertices())
	}
	must(t, g.Check(ctx))
	must(t, u.Free())
	must(t, v.Free())
}

// TestRefused checks that invalid options, ended contexts and closed graphs return errors.
func TestRefused(t *testing.T) {
	dev := devicetest.Open(t)
	for _, o := range []Options{{MaxVertices: -1}, {MaxVertices: 1 << 33}} {
		if _, err := New(dev, &o); !errors.Is(err, weft.ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := New(nil, nil); !errors.Is(err, weft.ErrOptions) {
		t.Errorf("no device: %v", err)
	}
	g, err := New(dev, nil)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.Insert(ctx, []uint32{1}, []uint32{2}, nil); !errors.Is(err, context.Canceled) || g.Edges() != 0 {
		t.Errorf("an ended context: %v, %d edges", err, g.Edges())
	}
	s, err := g.Snapshot(t.Context())
	must(t, err)
	must(t, g.Close())
	must(t, g.Close())
	if _, err := g.Insert(t.Context(), []uint32{1}, []uint32{2}, nil); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("Insert into a closed graph: %v", err)
	}
	if _, err := s.CSR(t.Context()); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("a snapshot of a closed graph: %v", err)
	}
	must(t, s.Close())
	must(t, s.Close())
}

// TestEntries checks that the work for one edge of a hub is measured by all entries of the hub,
// even while a snapshot uses its block.
func TestEntries(t *testing.T) {
	hub := shape{4}.classOf(1 << 20)
	for _, retired := range []int{0, unitsOf(hub)} {
		c := gpuChange{results: control{limbo: uint32(retired)}}
		for group := range c.firsts {
			if group > oldGroup+1 {
				c.firsts[group] = 3 // blocks of one unit
			}
			if group > oldGroup+int(hub) && retired == 0 || group > retiredGroup {
				c.firsts[group]++
			}
		}
		if got, want := c.oldEntries(), 3*unitEntries+1<<20; got != want {
			t.Errorf("%d entries, want %d", got, want)
		}
	}
}

// hubAndPairs returns the edges of a hub to n vertices, and many separate edges.
func hubAndPairs(n uint32) (from, to []uint32) {
	for i := range n {
		from, to = append(from, 0, n+1+2*i), append(to, i+1, n+2+2*i)
	}
	return from, to
}

// TestHub inserts a hub and many vertices of degree 1 in one batch, and deletes them in another.
func TestHub(t *testing.T) {
	dev := devicetest.Open(t)
	n := uint32(1 << 20)
	if dev.Properties().Kind == device.Sim || testing.Short() {
		n = 3000
	}
	for _, sorted := range []bool{false, true} {
		hub[uint32](t, dev, n, sorted)
		rings[uint32](t, dev, min(n, 1<<12), sorted)
	}
}

func hub[W uint32 | uint64](t testing.TB, dev device.Device, n uint32, sorted bool) {
	ctx := t.Context()
	g, err := NewWeightedGraph[W](dev, nil)
	must(t, err)
	defer g.Close()
	forceSort(g.store, sorted)
	from, to := hubAndPairs(n)
	weights := make([]W, len(to))
	for i, v := range to {
		weights[i] = W(v)
	}
	inserted, err := g.Insert(ctx, from, to, weights, nil)
	must(t, err)
	must(t, g.Check(ctx))
	degrees := make([]uint32, 3)
	must(t, g.Degree(ctx, []uint32{0, 3 * n, 1 << 30}, degrees)) // the last is not a vertex
	if inserted != int(2*n) || g.Vertices() != int(3*n)+1 || !slices.Equal(degrees, []uint32{n, 1, 0}) {
		t.Fatalf("%d edges inserted, %d vertices, degrees %v", inserted, g.Vertices(), degrees)
	}
	c, err := g.CSR(ctx)
	must(t, err)
	if !slices.EqualFunc(c.Weights(0), c.CSR.Neighbors(0), func(w W, v uint32) bool { return w == W(v) }) {
		t.Fatalf("the hub's edges to %v have weights %v", c.CSR.Neighbors(0), c.Weights(0))
	}
	// Insert and delete one edge of the hub while a snapshot uses its block.
	before, err := g.Snapshot(ctx)
	must(t, err)
	defer before.Close()
	for range 3 {
		_, err = g.Insert(ctx, []uint32{2*n + 1}, []uint32{0}, []W{1}, nil)
		must(t, err)
		_, err = g.Delete(ctx, []uint32{0}, []uint32{2*n + 1}, nil)
		must(t, err)
	}
	for v := range uint32(3) { // these rows would overwrite what the snapshot reads
		_, err = g.Delete(ctx, []uint32{v + 1}, []uint32{0}, nil)
		must(t, err)
	}
	must(t, g.Check(ctx))
	csr, err := before.CSR(ctx)
	must(t, err)
	if !slices.Equal(csr.Targets(), c.Targets()) {
		t.Fatal("the rows of a snapshot have changed")
	}
	must(t, before.Close())
	if n, err := g.DeleteVertices(ctx, []uint32{0}); n != 1 || err != nil {
		t.Fatalf("%d vertices deleted: %v", n, err)
	}
	must(t, g.Check(ctx))
	if g.Edges() != int(n) || g.Vertices() != int(3*n) {
		t.Errorf("%d edges and %d vertices are left, want %d and %d", g.Edges(), g.Vertices(), n, 3*n)
	}
	if n < 1<<12 {
		gaps(t, g, n)
	}
}

// rings replaces all rows twice while a snapshot reads their blocks.
func rings[W uint32 | uint64](t testing.TB, dev device.Device, n uint32, sorted bool) {
	ctx := t.Context()
	g, err := NewWeightedGraph[W](dev, nil)
	must(t, err)
	defer g.Close()
	forceSort(g.store, sorted)
	ring := func(steps ...uint32) (from, to []uint32, weights []W) {
		for v := range n {
			for _, step := range steps {
				from, to, weights = append(from, v), append(to, (v+step)%n), append(weights, W(v+step))
			}
		}
		return from, to, weights
	}
	from, to, weights := ring(1, 2, 3, 4)
	_, err = g.Insert(ctx, from, to, weights, nil)
	must(t, err)
	want, err := g.CSR(ctx)
	must(t, err)
	before, err := g.Snapshot(ctx)
	must(t, err)
	defer before.Close()
	for range 2 {
		from, to, weights := ring(5)
		_, err = g.Insert(ctx, from, to, weights, nil)
		must(t, err)
		_, err = g.Delete(ctx, from, to, nil)
		must(t, err)
		must(t, g.Check(ctx))
		csr, err := before.CSR(ctx)
		must(t, err)
		if !slices.Equal(csr.Targets(), want.Targets()) {
			t.Fatal("the rows of a snapshot have changed")
		}
	}
}

// gaps deletes most of the pairs, so that empty rows lie between other rows, and checks the graph.
func gaps[W uint32 | uint64](t testing.TB, g *WeightedGraph[W], n uint32) {
	var deleted, left []uint32
	for i := range n {
		if one := n + 1 + 2*i; i%6 == 0 {
			left = append(left, one+1, one) // neighbors of both ends
		} else {
			deleted = append(deleted, one)
		}
	}
	_, err := g.DeleteVertices(t.Context(), deleted)
	must(t, err)
	c, err := g.CSR(t.Context())
	must(t, err)
	if !slices.Equal(c.Targets(), left) {
		t.Errorf("neighbors %v, want %v", c.Targets(), left)
	}
}

// TestVerticesOfFullGraph deletes vertices of a graph with the maximum number of vertices and all
// possible edges. It also deletes numbers that are not vertices.
func TestVerticesOfFullGraph(t *testing.T) { full(t, devicetest.Open(t)) }

func full(t testing.TB, dev device.Device) {
	ctx := t.Context()
	const n = 16
	for i := range 4 {
		directed := i%2 == 1
		g, err := New(dev, &Options{Directed: directed, SelfLoops: true, MaxVertices: n})
		must(t, err)
		forceSort(g.store, i == 1)
		forceSweep(g.store, i >= 2)
		var from, to []uint32
		for i := range uint32(n * n) {
			from, to = append(from, i/n), append(to, i%n)
		}
		_, err = g.Insert(ctx, from, to, nil)
		must(t, err)
		nDeleted, err := g.DeleteVertices(ctx, []uint32{1, 3, 4, 5, 7, 8, 9, 10, 12, 13, 15})
		must(t, err)
		must(t, g.Check(ctx))
		c, err := g.CSR(ctx)
		must(t, err)
		left := []uint32{0, 2, 6, 11, 14}
		if nDeleted != 11 || g.Vertices() != 5 || c.Loops() != 5 || !slices.Equal(c.Targets(), slices.Repeat(left, 5)) {
			t.Errorf("directed %v: %d vertices deleted, %d left with %d loops and neighbors %v", directed, nDeleted, g.Vertices(), c.Loops(), c.Targets())
		}
		must(t, g.Close())
	}
}

// TestBinOverflow inserts more edges of one vertex than a block can sort, followed by other edges.
func TestBinOverflow(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	dev := devicetest.OpenSim(t, &sim.Options{})
	ctx := t.Context()
	g, err := New(dev, &Options{Directed: true})
	must(t, err)
	const n = 2100
	from, to := make([]uint32, n), make([]uint32, n)
	for i := range to {
		to[i] = uint32(i*37%n) + 1
	}
	for range 2 {
		_, err = g.Insert(ctx, from, to, nil)
		must(t, err)
		if g.engine.(*gpuEngine).overflows[0].minArcs != n {
			t.Error("the edges are not sorted as many are")
		}
		must(t, g.Check(ctx))
	}
	if g.Arcs() != n {
		t.Errorf("%d arcs, want %d", g.Arcs(), n)
	}
	must(t, g.Close())
}

// TestMemoryIsFlat checks that memory does not grow while the same edges are inserted and deleted
// repeatedly, with a snapshot in between. Most of the memory is freed in the end.
func TestMemoryIsFlat(t *testing.T) {
	dev := devicetest.Open(t)
	vertices, rounds := uint32(1000), 100
	if dev.Properties().Kind == device.Sim {
		vertices, rounds = 60, 12
	}
	ctx := t.Context()
	g, err := New(dev, nil)
	must(t, err)
	defer g.Close()
	var from, to []uint32
	for u := range vertices {
		for k := range u % 40 {
			from, to = append(from, u), append(to, (u*k+k*k+1)%vertices)
		}
	}
	peak, units := 0, 0
	for round := range rounds {
		_, err := g.Insert(ctx, from, to, nil)
		must(t, err)
		s, err := g.Snapshot(ctx)
		must(t, err)
		_, err = g.Delete(ctx, from[:len(from)/2], to[:len(from)/2], nil)
		must(t, err)
		must(t, s.Close())
		if round%10 == 1 {
			must(t, g.Check(ctx))
		}
		stats, err := g.Stats(ctx)
		must(t, err)
		if stats.RetiredBytes != 0 || stats.Snapshots != 0 {
			t.Fatalf("round %d: %+v without snapshots", round, stats)
		}
		if round == 3 {
			peak, units = stats.Bytes, g.units
		}
		if round > 3 && (stats.Bytes > peak || g.units > units) {
			t.Fatalf("round %d: %d bytes and %d units, %d and %d before", round, stats.Bytes, g.units, peak, units)
		}
		_, err = g.Delete(ctx, from, to, nil)
		must(t, err)
	}
	must(t, g.Sync(ctx))
	if g.Edges() != 0 || g.units > minShrinkUnits {
		t.Errorf("%d edges are left, and %d units", g.Edges(), g.units)
	}
}

// TestOnDevice checks edges, degrees and rows in device memory, with slices that may be too short.
func TestOnDevice(t *testing.T) {
	dev := devicetest.Open(t)
	ctx := t.Context()
	p := play[uint64](t, dev, Options{}, 5, 14, 40, 200)
	c, err := p.g.CSR(ctx)
	must(t, err)
	s, err := dev.NewStream()
	must(t, err)
	defer s.Close()
	var vertices []uint32
	for u := range uint32(45) {
		vertices = append(vertices, 44-u, u)
	}
	n := len(vertices)
	on, degrees := upload(t, s, vertices), upload(t, s, make([]uint32, n))
	offsets := upload(t, s, make([]uint64, n+1))
	total := 0
	for _, u := range vertices {
		if int(u) < c.Vertices() {
			total += c.Degree(u)
		}
	}
	for _, limit := range []int{total, total / 2} {
		const untouched = 1<<32 - 1
		ids, weights := upload(t, s, slices.Repeat([]uint32{untouched}, total)), upload(t, s, make([]uint64, total))
		must(t, p.g.RowsOn(s, on, degrees, offsets, ids.Sub(0, limit), weights.Sub(0, limit)))
		got, vals, starts := make([]uint32, total), make([]uint64, total), make([]uint64, n+1)
		must(t, ids.CopyTo(ctx, s, got))
		must(t, weights.CopyTo(ctx, s, vals))
		must(t, offsets.CopyTo(ctx, s, starts))
		at := 0
		for i, u := range vertices {
			if int(starts[i]) != at {
				t.Fatalf("row %d begins at %d, want %d", i, starts[i], at)
			}
			if int(u) >= c.Vertices() {
				continue
			}
			for k, v := range c.CSR.Neighbors(u) {
				want, weight := v, c.Weights(u)[k]
				if at >= limit {
					want, weight = untouched, 0
				}
				if got[at] != want || vals[at] != weight {
					t.Fatalf("limit %d: entry %d is %d with %d, want %d with %d", limit, at, got[at], vals[at], want, weight)
				}
				at++
			}
		}
		must(t, ids.Free())
		must(t, weights.Free())
	}
	p.hasOn(s, c)
	p.verticesOn(s)
	for _, err := range []error{on.Free(), degrees.Free(), offsets.Free()} {
		must(t, err)
	}
	p.close()
}

// verticesOn deletes vertices with their edges, and inserts some of them again.
func (p *player[W]) verticesOn(s *device.Stream) {
	ids := []uint32{0, 3, 3, 41, 1 << 20, 7}
	on, counts := upload(p.TB, s, ids), upload(p.TB, s, []uint64{50, 60})
	must(p.TB, p.g.DeleteVerticesOn(s, on.Sub(0, 4), counts.Sub(0, 1)))
	deleted := p.m.deleteVertices(ids[:4])
	before := len(p.m.vertices)
	for _, u := range ids[2:4] {
		p.m.vertices[u] = true
	}
	must(p.TB, p.g.InsertVerticesOn(s, on.Sub(2, 4), counts.Sub(1, 2)))
	got := make([]uint64, 2)
	must(p.TB, counts.CopyTo(p.Context(), s, got))
	if got[0] != uint64(50+deleted) || got[1] != uint64(60+len(p.m.vertices)-before) {
		p.Fatalf("%d vertices deleted and %d inserted, want %d and %d", got[0]-50, got[1]-60, deleted, len(p.m.vertices)-before)
	}
	must(p.TB, p.g.InsertVerticesOn(s, on.Sub(5, 5)))
	if err := p.g.DeleteVerticesOn(s, device.Slice[uint32]{}); err != nil {
		p.Error(err)
	}
	for _, err := range []error{p.g.Check(p.Context()), on.Free(), counts.Free()} {
		must(p.TB, err)
	}
}

func (p *player[W]) hasOn(s *device.Stream, c *Weighted[W]) {
	ctx := p.Context()
	var from, to []uint32
	for u, v := range c.All() {
		from, to = append(from, u, u), append(to, v, v+100)
	}
	u, v := upload(p.TB, s, from), upload(p.TB, s, to)
	found, hits, vals := upload(p.TB, s, make([]bool, len(from))), upload(p.TB, s, []uint64{5}), upload(p.TB, s, make([]W, len(from)))
	must(p.TB, p.g.HasOn(s, u, v, found, hits))
	must(p.TB, p.g.WeightOn(s, u, v, vals, device.Slice[bool]{}))
	got, count, weights := make([]bool, len(from)), make([]uint64, 1), make([]W, len(from))
	must(p.TB, found.CopyTo(ctx, s, got))
	must(p.TB, hits.CopyTo(ctx, s, count))
	must(p.TB, vals.CopyTo(ctx, s, weights))
	for i := range got {
		if got[i] != (i%2 == 0) || i%2 == 0 && weights[i] != c.AllWeights()[i/2] || i%2 == 1 && weights[i] != 0 {
			p.Fatalf("edge %d from %d to %d: %v with %v", i, from[i], to[i], got[i], weights[i])
		}
	}
	if count[0] != uint64(5+len(from)/2) {
		p.Fatalf("%d hits, want %d", count[0], 5+len(from)/2)
	}
	for _, err := range []error{u.Free(), v.Free(), found.Free(), hits.Free(), vals.Free()} {
		must(p.TB, err)
	}
}

// TestCheckFinds checks that Check finds a violation of each rule.
func TestCheckFinds(t *testing.T) {
	host, err := cpu.Open(nil)
	must(t, err)
	defer host.Close()
	ctx := t.Context()
	for name, spoil := range map[string]func(g *store){
		"degree":     func(g *store) { g.currentView().words(0)[recordDegree]-- },
		"order":      func(g *store) { slices.Reverse(g.currentView().row(0).ids) },
		"neighbor":   func(g *store) { g.currentView().row(0).ids[0] = 30 },
		"weight":     func(g *store) { g.currentView().row(1).weights.bytes[0]++ },
		"class":      func(g *store) { g.currentView().words(0)[recordClass]++ },
		"block":      func(g *store) { g.currentView().words(0)[recordBlock] = g.currentView().words(2)[recordBlock] },
		"count":      func(g *store) { g.arcs++ },
		"loops":      func(g *store) { g.loops++ },
		"there":      func(g *store) { batch.View[uint32](g.currentView().alive.Host)[0] &^= 2 },
		"free":       func(g *store) { g.free[1]++ },
		"used":       func(g *store) { g.used++ },
		"lost block": func(g *store) { g.units++ },
	} {
		g, err := NewWeightedGraph[uint32](host, nil)
		must(t, err)
		var from, to, weights []uint32
		for u := range uint32(20) {
			from, to, weights = append(from, 0, 2), append(to, u+1, u+3), append(weights, u, u)
		}
		_, err = g.Insert(ctx, from, to, weights, nil)
		must(t, err)
		must(t, g.Check(ctx))
		spoil(g.store)
		if err := g.Check(ctx); !errors.Is(err, weft.ErrCorrupt) {
			t.Errorf("%s: %v, want %v", name, err, weft.ErrCorrupt)
		}
		must(t, g.Close())
	}
}
